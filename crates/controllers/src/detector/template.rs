//! One template: find its policy, claim it, write its binding.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey, merge_patch};
use client::{Patch, PatchOptions, WriteOptions};
use controller_runtime::{Involved, Next, Overlay, Priority};
use interpreter::Operation;
use karmada_api::constants::{events, labels};
use karmada_api::policy::v1alpha1::ActivationPreference;
use karmada_api::scope::{Binding, Policy, Scope};
use propagation::binding;
use propagation::claim::{self, Claim, MetadataEdits};
use propagation::selection;
use propagation::template::Template;
use serde_json::{Value, json};

use super::{Detector, TemplateKey};
use crate::context::OnCreated;
use crate::error::{During, Error, Result, decoded};
use crate::metrics::result;
use crate::templates;

/// How long a policy that only the server has is given to reach the cache.
const UNTIL_KNOWN: Duration = Duration::from_secs(1);

impl Detector {
    pub(super) async fn reconcile_template(&self, key: &TemplateKey) -> Result<Next> {
        let place = (key.resource.clone(), key.key.clone());
        let is_found = self.found.lock().remove(&place);
        let Some(object) = self.newest(key).await? else {
            self.waiting.lock().remove(&place);
            return Ok(Next::Done);
        };
        if object.label(labels::CLAIMED_BY).is_some_and(|by| !by.is_empty()) {
            self.waiting.lock().remove(&place);
            return Ok(Next::Done);
        }
        let mut tree = decoded(&object, object.to_tree())?;
        if let Some(claim) = claim::claimed_by(Template(&tree)) {
            return self.follow_claim(key, &object, &mut tree, &claim, is_found).await;
        }
        // Into the waiting set first, then the look at the policies: a policy that comes meanwhile sees it there.
        self.waiting.lock().insert(place.clone());
        let started = tokio::time::Instant::now();
        let best = self.best_policy(Template(&tree));
        self.context.metrics.match_policy.took(&[], started.elapsed());
        let Some(policy) = best else { return Ok(Next::Done) };
        self.check_dependent_overrides(&policy)?;
        self.waiting.lock().remove(&place);
        self.apply(key, &object, &mut tree, &policy, is_found).await
    }

    /// The template, with the claim that this detector wrote.
    async fn newest(&self, key: &TemplateKey) -> Result<Option<Arc<Object>>> {
        let claims = self.claims.lock().get(&key.resource).cloned();
        match claims.and_then(|claims| claims.get(&key.key)) {
            Some(object) => Ok(Some(object)),
            None => templates::fetch(&self.context, &key.resource, &key.key).await,
        }
    }

    /// A namespaced policy goes before every cluster policy.
    fn best_policy(&self, template: Template<'_>) -> Option<Arc<Policy>> {
        let among = |policies: Vec<Arc<Policy>>| {
            let best = selection::best(policies.iter().map(AsRef::as_ref), template)?.key();
            policies.into_iter().find(|policy| policy.key() == best)
        };
        let namespace = template.namespace();
        let namespaced = (!namespace.is_empty()).then(|| among(self.context.policies.of(Some(namespace)))).flatten();
        namespaced.or_else(|| among(self.context.policies.of(None)))
    }

    async fn follow_claim(
        &self,
        key: &TemplateKey,
        object: &Object,
        tree: &mut Value,
        claim: &Claim,
        is_found: bool,
    ) -> Result<Next> {
        let policy = match self.context.policies.get(&claim.policy) {
            Some(policy) => policy,
            None => {
                let resource = Policy::api_resource(claim.scope());
                let live = self.context.client.get_opt(&resource, &claim.policy).await;
                match live.during(|| format!("reading {} {}", resource.kind, claim.policy))? {
                    Some(live) => Arc::new(Policy::decode(&live)?),
                    // The cleaned template arrives as an update and is matched again.
                    None => {
                        let (scope, id) = (claim.scope(), claim.policy_id.as_str());
                        self.clean_binding(&binding::key(Template(tree)), scope, id).await?;
                        self.clean_template(&key.resource, &key.key, scope, id).await?;
                        return Ok(Next::Done);
                    }
                }
            }
        };
        if policy.metadata.deletion_timestamp.is_some() {
            return Err(Error::Wait(format!("policy({}) is being deleted", claim.policy)));
        }
        if selection::strongest(&policy.spec.resource_selectors, Template(tree)).is_none() {
            return self.end_claim(key, tree, claim, &policy).await;
        }
        self.check_dependent_overrides(&policy)?;
        self.apply(key, object, tree, &policy, is_found).await
    }

    /// A claim whose policy does not select the template any more is the policy's to release, unless the policy is another
    /// one of the same name, or the claim never came to a binding: such a claim would hold the template for ever.
    async fn end_claim(&self, key: &TemplateKey, tree: &Value, claim: &Claim, policy: &Policy) -> Result<Next> {
        let (at, scope, id) = (binding::key(Template(tree)), claim.scope(), claim.policy_id.as_str());
        if policy.permanent_id() != id {
            self.clean_binding(&at, scope, id).await?;
        } else if templates::fetch(&self.context, &Binding::api_resource(Scope::of(&at)), &at).await?.is_some() {
            return Ok(Next::Done);
        }
        self.clean_template(&key.resource, &key.key, scope, id).await?;
        Ok(Next::Done)
    }

    pub(super) fn check_dependent_overrides(&self, policy: &Policy) -> Result<()> {
        let namespace = policy.metadata.namespace.as_str();
        let missing = policy
            .spec
            .dependent_overrides
            .iter()
            .any(|name| self.context.overrides.get(&ObjectKey::namespaced(namespace, name)).is_none());
        if missing { Err(Error::Wait("waiting for dependent overrides".to_owned())) } else { Ok(()) }
    }

    async fn apply(
        &self,
        key: &TemplateKey,
        object: &Object,
        tree: &mut Value,
        policy: &Policy,
        is_found: bool,
    ) -> Result<Next> {
        let words = policy.scope.policy_words();
        let shown = match policy.scope {
            Scope::Namespaced => format!("{}/{}", policy.metadata.namespace, policy.metadata.name),
            Scope::Cluster => policy.metadata.name.clone(),
        };
        let recorder = self.context.recorder.for_component("resource-detector");
        let started = tokio::time::Instant::now();
        let outcome = self.try_apply(key, tree, policy, is_found).await;
        let (metrics, result) = (&self.context.metrics, result(&outcome));
        metrics.apply_policy.took(&[result], started.elapsed());
        metrics.apply_attempts.increment(&[result]);
        match outcome {
            Ok(written) => {
                if written {
                    recorder.normal(object, events::APPLY_POLICY_SUCCEED, format!("Apply {words}({shown}) succeed"));
                }
                Ok(Next::Done)
            }
            Err(error) => {
                let message = format!("Apply {words}({shown}) failed: {error}");
                recorder.warning(object, events::APPLY_POLICY_FAILED, message);
                Err(error)
            }
        }
    }

    /// Returns whether a binding was written. `is_found`: the template was there when it was first seen.
    async fn try_apply(&self, key: &TemplateKey, tree: &mut Value, policy: &Policy, is_found: bool) -> Result<bool> {
        if let Some(edits) = claim::claim(policy, Template(tree)) {
            let claimed = self.claim(key, Template(tree), &edits).await?;
            edits.apply(tree);
            tree["metadata"]["resourceVersion"] = json!(claimed.resource_version());
            self.wake_preemptors(Template(tree), policy);
        }
        if key.by_us && policy.spec.activation_preference == Some(ActivationPreference::Lazy) {
            return Ok(false);
        }
        let gates = self.context.settings.gates;
        let context = binding::Context {
            schedule_priority: self.schedule_priority(policy, Template(tree)).await?,
            workload_affinity: gates.workload_affinity,
            resource_quota_estimate: gates.resource_quota_estimate,
            multiple_pod_templates: gates.multiple_pod_templates,
        };
        let template = Template(tree);
        let interpreting = &self.context.interpreting;
        let decision = interpreting.decide(|interpreter| {
            let counted_by = binding::counted_by(template, interpreter, &context);
            binding::build(policy, template, interpreter, &context).map(|built| (built, counted_by))
        });
        let recorder = self.context.recorder.for_component("resource-detector");
        let (built, counted_by) = match decision.await {
            Ok(built) => built,
            Err(error) => {
                let reason = match error {
                    binding::Error::Components(_) => events::GET_COMPONENTS_FAILED,
                    _ => events::GET_REPLICAS_FAILED,
                };
                recorder.warning(involved(template), reason, error.to_string());
                return Err(error.into());
            }
        };
        let written = self.write_binding(built, is_found).await?;
        let succeeded = match counted_by {
            // Upstream records the event in every pass; here only after a write.
            _ if !written => None,
            Some(Operation::InterpretComponent) => Some((events::GET_COMPONENTS_SUCCEED, "components")),
            Some(_) => Some((events::GET_REPLICAS_SUCCEED, "replicas")),
            None => None,
        };
        if let Some((reason, what)) = succeeded {
            recorder.normal(involved(template), reason, format!("Get {what} of resource template successfully."));
        }
        self.requeue_if_policy_changed(key, policy);
        Ok(written)
    }

    /// A policy may have changed while it was applied, before its binding was in the cache.
    fn requeue_if_policy_changed(&self, key: &TemplateKey, policy: &Policy) {
        match self.context.policies.get(&policy.key()) {
            Some(now) if identity(&now) == identity(policy) => {}
            Some(_) => {
                self.policies.add(policy.key());
                self.templates.add(key.clone());
            }
            // Neither created in the cache nor deleted yet; until the cache shows which, every pass would read from the
            // server and return here.
            None => self.templates.add_after(key.clone(), UNTIL_KNOWN),
        }
    }

    /// The value of the PriorityClass that counts for the template; only bindings of a namespace have one.
    async fn schedule_priority(&self, policy: &Policy, template: Template<'_>) -> Result<Option<i32>> {
        let open = self.context.settings.gates.schedule_priority && !template.namespace().is_empty();
        let Some(wanted) = policy.spec.schedule_priority.as_ref().filter(|_| open) else { return Ok(None) };
        let resource = ApiResource::cluster("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");
        let key = ObjectKey::cluster(wanted.priority_class_name.as_str());
        let Some(class) = templates::fetch(&self.context, &resource, &key).await? else {
            return Err(Error::Wait(format!("PriorityClass {key} does not exist")));
        };
        let value = decoded(&class, class.to_tree())?["value"].as_i64().unwrap_or_default();
        Ok(Some(i32::try_from(value).unwrap_or(i32::MAX)))
    }

    async fn write_binding(&self, built: Binding, is_found: bool) -> Result<bool> {
        let (scope, key) = (built.scope, built.key());
        let resource = Binding::api_resource(scope);
        let writing = || format!("writing {} {key}", resource.kind);
        let bindings = self.written.of(scope);
        let existing = match bindings.get(&key) {
            Some(existing) => existing,
            None => match self.create_binding(bindings, &resource, &built).await {
                Ok(()) => return Ok(true),
                // The cache lags behind, or another pass was faster.
                Err(error) if error.is_already_exists() => {
                    self.context.client.get(&resource, &key).await.during(writing)?
                }
                Err(error) => return Err(error).during(writing),
            },
        };
        let known = Binding::decode(&existing)?;
        let Some(merged) = binding::merge(&known, built)? else { return Ok(false) };
        // At the start most templates have another resource version than their bindings record, because of their
        // status. It suffices to compare the rendered Works, which costs less than a write and the passes that follow
        // it.
        if is_found
            && binding::differ_in_version(&known, &merged)
            && let Some(queue) = self.context.rendering.get()
        {
            queue.add_with(key, Priority::Low);
            return Ok(false);
        }
        bindings.write(&key, self.context.client.update(&resource, &merged)).await.during(writing)?;
        Ok(true)
    }

    /// Creates a binding, with its first scheduling result where that is known before.
    async fn create_binding(&self, bindings: &Overlay, resource: &ApiResource, built: &Binding) -> client::Result<()> {
        let (client, key) = (&self.context.client, built.key());
        if let Some((object, created)) = self.scheduled(built) {
            let options = WriteOptions { with_status: true, ..WriteOptions::default() };
            match bindings.write(&key, client.create_object(resource, &object, &options)).await {
                Ok(written) => {
                    created(&written.object);
                    return Ok(());
                }
                // The result is refused, by a quota for instance: the scheduler repeats it and reports the reason.
                Err(error) if error.status().is_some_and(|status| status.code == 403) => {}
                Err(error) => return Err(error),
            }
        }
        bindings.write(&key, client.create(resource, built)).await.map(drop)
    }

    /// The binding as the scheduler of this process leaves it, and what is called once it exists.
    fn scheduled(&self, built: &Binding) -> Option<(Object, OnCreated)> {
        let first = self.context.first_decision(built)?;
        let mut tree = serde_json::to_value(built).ok()?;
        merge_patch::apply(&mut tree, &first.patch);
        Some((Object::from_value(&tree).ok()?, first.created))
    }

    /// Writes a claim. What the pass does next follows from it, so that its own change brings the template back no more; a
    /// change of another writer in the meantime does.
    async fn claim(&self, key: &TemplateKey, template: Template<'_>, edits: &MetadataEdits) -> Result<Arc<Object>> {
        let claims = self.claims.lock().get(&key.resource).cloned();
        let (at, patch) = (&key.key, guarded(template, edits));
        let options = PatchOptions::default();
        let request = self.context.client.patch(&key.resource, at, &patch, &options);
        let Some(claims) = claims else { return claimed(request.await, &key.resource, at) };
        let written = claims.write(at, request).await;
        let is_alone = written.as_ref().is_ok_and(|written| !written.overwritten);
        let mut deferred = self.deferred.lock();
        for by_us in [false, true] {
            let change = TemplateKey { resource: key.resource.clone(), key: at.clone(), by_us };
            if deferred.remove(&change) && !is_alone {
                self.templates.add(change);
            }
        }
        claimed(written.map(|written| written.object), &key.resource, at)
    }

    /// Writes label and annotation edits, provided the object is still the one that was read.
    pub(super) async fn edit(
        &self,
        resource: &ApiResource,
        template: Template<'_>,
        edits: &MetadataEdits,
    ) -> Result<Arc<Object>> {
        let (key, patch) = (template.key(), guarded(template, edits));
        claimed(self.context.client.patch(resource, &key, &patch, &PatchOptions::default()).await, resource, &key)
    }
}

/// The edits as a patch of the object as it was read.
fn guarded(template: Template<'_>, edits: &MetadataEdits) -> Patch {
    let mut patch = edits.to_merge_patch();
    patch["metadata"]["resourceVersion"] = json!(template.resource_version());
    patch["metadata"]["uid"] = json!(template.uid());
    Patch::Merge(patch)
}

fn claimed(answer: client::Result<Arc<Object>>, resource: &ApiResource, key: &ObjectKey) -> Result<Arc<Object>> {
    answer.during(|| format!("writing the claim on {} {key}", resource.kind))
}

/// The UID and version of a policy, which identify its state.
fn identity(policy: &Policy) -> (String, String) {
    (policy.metadata.uid.clone(), policy.metadata.resource_version.clone())
}

pub(super) fn involved(template: Template<'_>) -> Involved {
    Involved {
        api_version: template.api_version().to_owned(),
        kind: template.kind().to_owned(),
        namespace: template.namespace().to_owned(),
        name: template.name().to_owned(),
        uid: template.uid().to_owned(),
        resource_version: template.resource_version().to_owned(),
    }
}
