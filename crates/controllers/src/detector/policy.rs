//! One policy: templates it no longer selects are released, templates it selects are queued, waiting templates are
//! matched.

use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::{ApiResource, GroupVersionKind, Object, ObjectKey, StatusReason};
use client::{ListOptions, MapError, Patch, PatchOptions};
use controller_runtime::{Next, Priority, ShortPolls};
use karmada_api::constants::templates::SKIPPED_GROUPS;
use karmada_api::identity::{BindingKey, PolicyKey};
use karmada_api::policy::v1alpha1::ActivationPreference;
use karmada_api::scope::{Binding, Policy, Scope};
use propagation::template::Template;
use propagation::{claim, selection};
use serde_json::json;

use super::{Detector, TemplateKey};
use crate::absence::certain;
use crate::error::{During, Result, all, decoded};
use crate::templates;

/// Bindings, or templates, that are compared with a policy in one poll: each takes about 0.1 ms.
const REFRESHED_TOGETHER: usize = 8;

impl Detector {
    pub(super) async fn reconcile_policy(&self, key: &PolicyKey) -> Result<Next> {
        let Some(policy) = self.context.policies.get(key) else { return Ok(Next::Done) };
        if policy.metadata.deletion_timestamp.is_some() {
            self.release_all(&policy).await?;
            self.remove_finalizer(&policy).await?;
            return Ok(Next::Done);
        }
        self.refresh_bindings(&policy).await?;
        self.wake_waiting(&policy).await?;
        self.preempt(&policy).await?;
        Ok(Next::Done)
    }

    /// Takes the claims off templates and bindings; both stay, as do the copies in members.
    async fn release_all(&self, policy: &Policy) -> Result<()> {
        let (scope, id) = (policy.scope, policy.permanent_id());
        let mut errors = Vec::new();
        let selectors = policy.spec.resource_selectors.iter();
        let kinds: BTreeSet<_> =
            selectors.map(|s| (s.api_version.as_str(), s.kind.as_str(), s.namespace.as_str())).collect();
        for (api_version, kind, namespace) in kinds {
            let Ok(gvk) = GroupVersionKind::from_api_version(api_version, kind) else { continue };
            // A policy carries its own ID under the label of a claim: one that selects policies would release itself.
            if SKIPPED_GROUPS.contains(&gvk.group.as_str()) {
                continue;
            }
            let resource = match self.context.mapper.resource(&gvk).await {
                Ok(resource) => resource,
                Err(MapError::NoMatch(_)) => continue,
                Err(error) => {
                    errors.push(error.to_string());
                    continue;
                }
            };
            let namespace = (!namespace.is_empty()).then_some(namespace);
            let claimed = match self.claimed(&resource, namespace, scope, id).await {
                Ok(claimed) => claimed,
                Err(error) => {
                    errors.push(error.to_string());
                    continue;
                }
            };
            for key in claimed {
                let binding = propagation_binding_key(&resource, &key);
                if let Err(error) = self.release(&binding, &resource, &key, scope, id).await {
                    errors.push(error.to_string());
                }
            }
        }
        // The templates it selected before its last change, which may be later than its deletion.
        for object in Scope::ALL.into_iter().flat_map(|of| self.bindings_of(of, scope, id)) {
            let released = async {
                let binding = Binding::decode(&object)?;
                match templates::locate(&self.context, &binding.spec.resource).await? {
                    Some((resource, key)) => self.release(&binding.key(), &resource, &key, scope, id).await,
                    None => self.clean_binding(&binding.key(), scope, id).await,
                }
            };
            if let Err(error) = released.await {
                errors.push(error.to_string());
            }
        }
        all(errors)
    }

    /// Takes a policy's claim off a template and its binding; both stay.
    pub(super) async fn release(
        &self,
        binding: &BindingKey,
        resource: &ApiResource,
        template: &ObjectKey,
        scope: Scope,
        id: &str,
    ) -> Result<()> {
        self.clean_binding(binding, scope, id).await?;
        self.clean_template(resource, template, scope, id).await
    }

    async fn claimed(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        scope: Scope,
        id: &str,
    ) -> Result<Vec<ObjectKey>> {
        let label = scope.policy_id_label();
        if let Some(informer) = self.context.control.existing(resource).filter(|informer| informer.has_synced()) {
            let claimed = |object: &Arc<Object>| object.label(label) == Some(id);
            return Ok(informer.cache().list(namespace).iter().filter(|o| claimed(o)).map(|o| o.key()).collect());
        }
        let options = ListOptions::labels(format!("{label}={id}"));
        let list = match self.context.client.list(resource, namespace, &options).await {
            // A kind of requests, such as a review, has no objects.
            Err(error) if error.reason() == Some(StatusReason::MethodNotAllowed) => return Ok(Vec::new()),
            list => list,
        };
        let list = list.during(|| format!("listing claimed {}", resource.plural))?;
        Ok(list.items.iter().map(|object| object.key()).collect())
    }

    async fn remove_finalizer(&self, policy: &Policy) -> Result<()> {
        let finalizers = &policy.metadata.finalizers;
        let ours = policy.scope.policy_finalizer();
        if !finalizers.iter().any(|finalizer| finalizer == ours) {
            return Ok(());
        }
        let left: Vec<_> = finalizers.iter().filter(|finalizer| *finalizer != ours).collect();
        let patch = json!({"metadata": {"finalizers": left, "resourceVersion": policy.metadata.resource_version}});
        let resource = Policy::api_resource(policy.scope);
        let key = policy.key();
        match self.context.client.patch(&resource, &key, &Patch::Merge(patch), &PatchOptions::default()).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map(|_| ()).during(|| format!("removing the finalizer of {} {key}", resource.kind)),
        }
    }

    /// Checks every binding of the policy: templates that it no longer selects are released, the others are queued.
    async fn refresh_bindings(&self, policy: &Policy) -> Result<()> {
        let (scope, id) = (policy.scope, policy.permanent_id());
        if id.is_empty() {
            return Ok(());
        }
        let lazy = policy.spec.activation_preference == Some(ActivationPreference::Lazy);
        let (mut errors, mut polls) = (Vec::new(), ShortPolls::of(REFRESHED_TOGETHER));
        for of in Scope::ALL {
            if scope == Scope::Namespaced && of == Scope::Cluster {
                continue;
            }
            for object in self.bindings_of(of, scope, id) {
                if let Err(error) = self.refresh_binding(policy, &object, lazy).await {
                    errors.push(error.to_string());
                }
                polls.step().await;
            }
        }
        all(errors)
    }

    /// Those of the cache, and those it does not have yet.
    fn bindings_of(&self, of: Scope, scope: Scope, id: &str) -> Vec<Arc<Object>> {
        let label = scope.policy_id_label();
        let cached = self.context.bindings(of).cache().by_index(label, id);
        self.written.of(of).over(cached, |object| object.label(label) == Some(id))
    }

    async fn refresh_binding(&self, policy: &Policy, object: &Object, lazy: bool) -> Result<()> {
        let binding = Binding::decode(object)?;
        let Some((resource, key)) = templates::locate(&self.context, &binding.spec.resource).await? else {
            return Ok(());
        };
        let Some(template) = templates::fetch(&self.context, &resource, &key).await? else { return Ok(()) };
        let tree = decoded(&template, template.to_tree())?;
        if selection::strongest(&policy.spec.resource_selectors, Template(&tree)).is_none() {
            let (scope, id) = (policy.scope, policy.permanent_id());
            self.clean_template(&resource, &key, scope, id).await?;
            return self.clean_binding(&binding.key(), scope, id).await;
        }
        self.templates.add_with(TemplateKey { resource: Arc::new(resource), key, by_us: lazy }, Priority::Low);
        Ok(())
    }

    async fn wake_waiting(&self, policy: &Policy) -> Result<()> {
        let lazy = policy.spec.activation_preference == Some(ActivationPreference::Lazy);
        let waiting: Vec<_> = self.waiting.lock().iter().cloned().collect();
        let (mut checked, mut polls) = (false, ShortPolls::of(REFRESHED_TOGETHER));
        for (resource, key) in waiting {
            polls.step().await;
            if policy.scope == Scope::Namespaced && key.namespace() != Some(policy.metadata.namespace.as_str()) {
                continue;
            }
            let informer = self.context.control.existing(&resource);
            let Some(object) = informer.and_then(|informer| informer.cache().get(&key)) else { continue };
            let Ok(tree) = object.to_tree() else { continue };
            if selection::strongest(&policy.spec.resource_selectors, Template(&tree)).is_none() {
                continue;
            }
            if !checked {
                self.check_dependent_overrides(policy)?;
                checked = true;
            }
            self.templates.add_with(TemplateKey { resource, key, by_us: lazy }, Priority::Low);
        }
        Ok(())
    }

    /// Takes a policy's claim off a template, if it still holds.
    pub(super) async fn clean_template(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        scope: Scope,
        id: &str,
    ) -> Result<()> {
        let Some(object) = certain(&self.context.client, resource, key).await? else { return Ok(()) };
        let tree = decoded(&object, object.to_tree())?;
        if !claim::holds(Template(&tree), scope, id) {
            return Ok(());
        }
        self.edit(resource, Template(&tree), &claim::clean(scope)).await.map(|_| ())
    }

    /// Takes a policy's claim off a binding, if it still holds.
    pub(super) async fn clean_binding(&self, key: &BindingKey, scope: Scope, id: &str) -> Result<()> {
        self.clean_template(&key.resource(), key, scope, id).await
    }
}

fn propagation_binding_key(resource: &ApiResource, template: &ObjectKey) -> BindingKey {
    let name = karmada_api::names::binding_name(&resource.kind, template.name());
    BindingKey::namespaced(template.namespace().unwrap_or_default(), name)
}
