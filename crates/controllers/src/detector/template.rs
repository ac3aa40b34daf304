//! One template: find its policy, claim it, write its binding.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey, merge_patch};
use client::{Patch, PatchOptions, Write};
use controller_runtime::{Involved, Next, Overlay, Priority};
use interpreter::Operation;
use karmada_api::constants::{events, labels};
use karmada_api::identity::PolicyKey;
use karmada_api::policy::v1alpha1::{ActivationPreference, ResourceSelector};
use karmada_api::scope::{Binding, Policy, Scope};
use propagation::binding;
use propagation::claim::{self, Claim, MetadataEdits};
use propagation::selection;
use propagation::template::Template;
use serde_json::{Value, json};

use super::{Detector, TemplateKey};
use crate::absence::certain;
use crate::context::OnCreated;
use crate::error::{During, Error, Result, decoded};
use crate::metrics::result;
use crate::templates;

/// How long the cache may take to receive a policy that only the server has.
const UNTIL_KNOWN: Duration = Duration::from_secs(1);

/// Whether a policy selects a template.
enum Selected {
    Here,
    /// In another version of its kind.
    InAnotherVersion,
    No,
}

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
        // Added to the waiting set before the policies are checked: a policy that arrives meanwhile finds it there.
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

    /// A namespaced policy takes precedence over every cluster policy.
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
        let selected = |policy: Arc<Policy>| (self.selected(&key.resource, Template(tree), &policy), policy);
        let found = match self.context.policies.get(&claim.policy).map(selected) {
            // The cache may be behind a change of the policy, and a release has consequences.
            None | Some((Selected::No, _)) => self.live_policy(&claim.policy).await?.map(selected),
            found => found,
        };
        match found {
            Some((_, policy)) if policy.metadata.deletion_timestamp.is_some() => {
                Err(Error::Wait(format!("policy({}) is being deleted", claim.policy)))
            }
            Some((Selected::Here, policy)) => {
                self.check_dependent_overrides(&policy)?;
                self.apply(key, object, tree, &policy, is_found).await
            }
            // The template in that version has the binding.
            Some((Selected::InAnotherVersion, _)) => Ok(Next::Done),
            // Upstream leaves this to the next pass over the policy: until then, changes of a template that was
            // relabelled are not propagated. The released template arrives as an update and is matched again.
            None | Some((Selected::No, _)) => {
                let (scope, id) = (claim.scope(), claim.policy_id.as_str());
                self.release(&binding::key(Template(tree)), &key.resource, &key.key, scope, id).await?;
                Ok(Next::Done)
            }
        }
    }

    fn selected(&self, of: &ApiResource, template: Template<'_>, policy: &Policy) -> Selected {
        if selection::strongest(&policy.spec.resource_selectors, template).is_some() {
            return Selected::Here;
        }
        match self.is_selected_in_another_version(of, template, policy) {
            true => Selected::InAnotherVersion,
            false => Selected::No,
        }
    }

    /// Whether a policy selects the template in another version, in which it is watched too.
    fn is_selected_in_another_version(&self, of: &ApiResource, template: Template<'_>, policy: &Policy) -> bool {
        let claims = self.claims.lock();
        let mut others = claims.keys().filter(|it| it.group == of.group && it.plural == of.plural && ***it != *of);
        others.any(|other| {
            let selectors = policy.spec.resource_selectors.iter();
            let of_other = selectors.filter(|it| it.api_version == other.api_version() && it.kind == other.kind);
            let (api_version, kind) = (of.api_version(), &of.kind);
            let here = |it: &ResourceSelector| ResourceSelector {
                api_version: api_version.clone(),
                kind: kind.clone(),
                ..it.clone()
            };
            selection::strongest(&of_other.map(here).collect::<Vec<_>>(), template).is_some()
        })
    }

    async fn live_policy(&self, key: &PolicyKey) -> Result<Option<Arc<Policy>>> {
        let resource = Policy::api_resource(key.scope());
        let live = certain(&self.context.client, &resource, key).await?;
        Ok(live.map(|live| Policy::decode(&live)).transpose()?.map(Arc::new))
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
                let message = || format!("Apply {words}({shown}) succeed");
                recorder.succeeded(object, events::APPLY_POLICY_SUCCEED, written, message);
                Ok(Next::Done)
            }
            Err(error) => {
                // A conflict is expected: the next pass reads the newer state. Upstream writes again before it reports one.
                if !error.is_conflict() {
                    let message = format!("Apply {words}({shown}) failed: {error}");
                    recorder.warning(object, events::APPLY_POLICY_FAILED, message);
                }
                Err(error)
            }
        }
    }

    /// Returns whether a binding was written. `is_found`: whether the template existed when it was first observed.
    async fn try_apply(&self, key: &TemplateKey, tree: &mut Value, policy: &Policy, is_found: bool) -> Result<bool> {
        let mut edits = claim::claim(policy, Template(tree));
        let mut unwritten = None;
        if let Some(edits) = edits.take_if(|_| self.has_no_binding(tree)) {
            // Written with the binding, in one transaction.
            unwritten = Some(guarded(Template(tree), &edits));
            edits.apply_to_template(tree);
        } else if let Some(edits) = edits {
            let patch = guarded(Template(tree), &edits);
            edits.apply_to_template(tree);
            self.claim(key, tree, patch, policy).await?;
        }
        let built = self.build(key, Template(tree), policy).await;
        let Some(patch) = unwritten else {
            let Some((built, counted)) = built? else { return Ok(false) };
            let written = self.write_binding(built, is_found).await?;
            return Ok(self.bound(key, Template(tree), policy, counted, written));
        };
        if let Ok(Some((built, counted))) = &built
            && self.claim_and_bind(key, &patch, built).await?
        {
            self.wake_preemptors(Template(tree), policy);
            return Ok(self.bound(key, Template(tree), policy, *counted, true));
        }
        self.claim(key, tree, patch, policy).await?;
        let Some((mut built, counted)) = built? else { return Ok(false) };
        built.spec.resource.resource_version = Template(tree).resource_version().to_owned();
        let written = self.write_binding(built, is_found).await?;
        Ok(self.bound(key, Template(tree), policy, counted, written))
    }

    /// Whether the server of this process has no binding of a template, according to the cache.
    fn has_no_binding(&self, tree: &Value) -> bool {
        let at = binding::key(Template(tree));
        self.context.client.is_in_process() && self.written.of(at.scope()).get(&at).is_none()
    }

    /// The binding of a claimed template, and how its replicas were counted. `None` if the policy waits for a change of the
    /// user.
    async fn build(
        &self,
        key: &TemplateKey,
        template: Template<'_>,
        policy: &Policy,
    ) -> Result<Option<(Binding, Option<Operation>)>> {
        if key.by_us && policy.spec.activation_preference == Some(ActivationPreference::Lazy) {
            return Ok(None);
        }
        let gates = self.context.settings.gates;
        let context = binding::Context {
            schedule_priority: self.schedule_priority(policy, template).await?,
            workload_affinity: gates.workload_affinity,
            resource_quota_estimate: gates.resource_quota_estimate,
            multiple_pod_templates: gates.multiple_pod_templates,
        };
        let interpreting = &self.context.interpreting;
        let decision = interpreting.decide(|interpreter| {
            let counted_by = binding::counted_by(template, interpreter, &context);
            binding::build(policy, template, interpreter, &context).map(|built| (built, counted_by))
        });
        match decision.await {
            Ok(built) => Ok(Some(built)),
            Err(error) => {
                let reason = match error {
                    binding::Error::Components(_) => events::GET_COMPONENTS_FAILED,
                    _ => events::GET_REPLICAS_FAILED,
                };
                let recorder = self.context.recorder.for_component("resource-detector");
                recorder.warning(involved(template), reason, error.to_string());
                Err(error.into())
            }
        }
    }

    /// After the binding is as it should be. `counted`: how its replicas were counted.
    fn bound(
        &self,
        key: &TemplateKey,
        template: Template<'_>,
        policy: &Policy,
        counted: Option<Operation>,
        written: bool,
    ) -> bool {
        // Upstream records the event in every pass; here only after a write or a failure.
        let succeeded = counted.map(|operation| match operation {
            Operation::InterpretComponent => (events::GET_COMPONENTS_SUCCEED, "components"),
            _ => (events::GET_REPLICAS_SUCCEED, "replicas"),
        });
        if let Some((reason, what)) = succeeded.filter(|_| written || !self.context.recorder.is_quiet()) {
            let recorder = self.context.recorder.for_component("resource-detector");
            let message = || format!("Get {what} of resource template successfully.");
            recorder.succeeded(involved(template), reason, written, message);
        }
        self.requeue_if_policy_changed(key, policy);
        written
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
        if let Some((tree, created)) = self.scheduled(built) {
            match bindings.write(&key, client.create_draft(resource, tree, true)).await {
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

    /// The binding with the first result of this process's scheduler, and the callback after its creation.
    fn scheduled(&self, built: &Binding) -> Option<(Value, OnCreated)> {
        let first = self.context.first_decision(built)?;
        let mut tree = serde_json::to_value(built).ok()?;
        merge_patch::apply(&mut tree, &first.patch);
        Some((tree, first.created))
    }

    /// Writes a claim. The rest of the pass uses the result, so its own change does not enqueue the template again; a
    /// concurrent change of another writer does.
    async fn claim(&self, key: &TemplateKey, tree: &mut Value, patch: Patch, policy: &Policy) -> Result<()> {
        let claims = self.claims.lock().get(&key.resource).cloned();
        let (at, options) = (&key.key, PatchOptions::default());
        let request = self.context.client.patch_draft(&key.resource, at, patch, &options);
        let claimed = match claims {
            None => request.await,
            Some(claims) => {
                let written = claims.write(at, request).await;
                self.claim_ended(key, written.as_ref().is_ok_and(|written| !written.overwritten));
                written.map(|written| written.object)
            }
        };
        let claimed = claimed_as(claimed, &key.resource, at)?;
        tree["metadata"]["resourceVersion"] = json!(claimed.resource_version());
        self.wake_preemptors(Template(tree), policy);
        Ok(())
    }

    /// Writes a claim and the new binding in one transaction. Returns whether they were written; otherwise the caller
    /// writes one after the other.
    async fn claim_and_bind(&self, key: &TemplateKey, patch: &Patch, built: &Binding) -> Result<bool> {
        let (resource, at) = (Binding::api_resource(built.scope), built.key());
        let claims = self.claims.lock().get(&key.resource).cloned();
        let scheduled = self.scheduled(built);
        let writing = || format!("writing the claim on {} {} and {} {at}", key.resource.kind, key.key, resource.kind);
        let (create, created) = match scheduled {
            Some((object, created)) => {
                (Write::Create { resource: &resource, object, with_status: true }, Some(created))
            }
            None => (Write::create(&resource, built).during(writing)?, None),
        };
        let (patch, options) = (patch.clone(), PatchOptions::default());
        let claim = Write::Patch { resource: &key.resource, key: &key.key, patch, options };
        let places = [(claims.as_ref(), &key.key), (Some(self.written.of(built.scope)), &*at)];
        let request = self.context.client.write_together(vec![claim, create]);
        let written = Overlay::write_together(&places, request).await;
        let claimed = match &written {
            Ok(Some(written)) => written.first(),
            Ok(None) | Err(_) => None,
        };
        self.claim_ended(key, claimed.is_some_and(|claimed| !claimed.overwritten));
        let Some(written) = written.during(writing)? else { return Ok(false) };
        if let (Some(created), Some(binding)) = (created, written.get(1)) {
            created(&binding.object);
        }
        Ok(true)
    }

    /// Queues the changes of a template that were reported while its claim was written, unless they are the claim.
    fn claim_ended(&self, key: &TemplateKey, is_alone: bool) {
        let mut deferred = self.deferred.lock();
        for by_us in [false, true] {
            let change = TemplateKey { by_us, ..key.clone() };
            if deferred.remove(&change) && !is_alone {
                self.templates.add(change);
            }
        }
    }

    /// Writes label and annotation edits, provided the object is still the one that was read.
    pub(super) async fn edit(
        &self,
        resource: &ApiResource,
        template: Template<'_>,
        edits: &MetadataEdits,
    ) -> Result<Arc<Object>> {
        let (key, patch) = (template.key(), guarded(template, edits));
        claimed_as(self.context.client.patch(resource, &key, &patch, &PatchOptions::default()).await, resource, &key)
    }
}

/// The edits as a patch of the object as it was read.
fn guarded(template: Template<'_>, edits: &MetadataEdits) -> Patch {
    let mut patch = edits.to_merge_patch();
    patch["metadata"]["resourceVersion"] = json!(template.resource_version());
    patch["metadata"]["uid"] = json!(template.uid());
    Patch::Merge(patch)
}

fn claimed_as(answer: client::Result<Arc<Object>>, resource: &ApiResource, key: &ObjectKey) -> Result<Arc<Object>> {
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
