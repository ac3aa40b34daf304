//! The watched templates, and which of their changes matter.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::object::ObjectTree as _;
use apimachinery::{ApiResource, GroupVersionKind, Object, raw_json};
use client::DiscoveredResource;
use controller_runtime::{Event, Origin, Overlay, Priority, ShortPolls};
use karmada_api::constants::{annotations, labels};
use karmada_api::policy::v1alpha1::ActivationPreference;
use serde_json::Value;
use tokio::sync::Notify;

use super::{Detector, TemplateKey};
use crate::stores::Store;
use crate::templates;
use apimachinery::ObjectKey;
use karmada_api::identity::BindingKey;
use karmada_api::names;
use karmada_api::scope::{Policy, Scope};

/// Discovery is read this often (upstream's period), and at once when a definition changes.
const REFRESH: Duration = Duration::from_secs(30);

/// After a definition changed: how soon, and how often, discovery is read until the kind is served.
const AFTER_CHANGE: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(250), Duration::from_secs(1)];

/// Bindings whose template's version is read in one poll: each takes some microseconds.
const READ_TOGETHER: usize = 256;

impl Detector {
    /// Follows discovery: starts watches of new resources, and stops those of removed ones.
    pub(super) async fn watch_resources(self: &Arc<Self>) {
        let changed = Arc::new(Notify::new());
        for resource in [
            ApiResource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
            ApiResource::cluster("apiregistration.k8s.io", "v1", "APIService", "apiservices"),
        ] {
            let changed = changed.clone();
            let handler = move |event: &Event| {
                if event.changes_generation() {
                    changed.notify_one();
                }
            };
            self.context.control.informer(&resource).subscribe(handler);
        }
        let mut watched = BTreeSet::new();
        loop {
            self.refresh(&mut watched).await;
            if tokio::time::timeout(REFRESH, changed.notified()).await.is_ok() {
                for pause in AFTER_CHANGE {
                    tokio::time::sleep(pause).await;
                    self.refresh(&mut watched).await;
                }
            }
        }
    }

    async fn refresh(self: &Arc<Self>, watched: &mut BTreeSet<ApiResource>) {
        let discovery = match self.context.mapper.refresh().await {
            Ok(discovery) => discovery,
            Err(error) => {
                let err = error.to_string();
                if self.discovery.failed(&(), &err) {
                    tracing::warn!(err, "Discovery of the control plane fails and is retried");
                }
                return;
            }
        };
        if let Some(lasted) = self.discovery.succeeded(&()) {
            tracing::info!(duration = ?lasted, "Discovery of the control plane succeeded after failures");
        }
        let is_watchable = |found: &&DiscoveredResource| {
            ["delete", "list", "watch"].iter().all(|verb| found.can(verb))
                && !self.context.settings.skip.skips_kind(&found.resource.gvk())
        };
        let watchable = |all: Vec<&DiscoveredResource>| -> BTreeSet<ApiResource> {
            all.into_iter().filter(is_watchable).map(|found| found.resource.clone()).collect()
        };
        let served = watchable(discovery.resources.iter().collect());
        let mut wanted = watchable(discovery.preferred());
        // Policies select by version: when the server begins to prefer another one, the former is still propagated.
        if watched.is_empty() {
            let bound = self.versions_of_bindings().await;
            wanted.extend(served.iter().filter(|resource| bound.contains(&resource.gvk())).cloned());
        } else {
            wanted.extend(watched.intersection(&served).cloned());
        }
        for resource in wanted.difference(watched) {
            self.watch(resource);
        }
        for resource in watched.difference(&wanted) {
            self.end_watch(resource);
        }
        *watched = wanted;
    }

    /// The versions and kinds of the templates of claimed bindings.
    async fn versions_of_bindings(&self) -> BTreeSet<GroupVersionKind> {
        let (mut versions, mut polls) = (BTreeSet::new(), ShortPolls::of(READ_TOGETHER));
        for binding in Scope::ALL.into_iter().flat_map(|scope| self.context.bindings(scope).cache().list(None)) {
            polls.step().await;
            if Scope::ALL.iter().any(|scope| binding.label(scope.policy_id_label()).is_some())
                && let Some(template) = templates::reference_in(&binding)
                && let Ok(gvk) = GroupVersionKind::from_api_version(&template.api_version, &template.kind)
            {
                versions.insert(gvk);
            }
        }
        versions
    }

    fn end_watch(&self, resource: &ApiResource) {
        let (api_version, kind) = (resource.api_version(), &resource.kind);
        tracing::info!(
            apiVersion = api_version,
            kind,
            "Kind is no longer served; its templates are no longer propagated"
        );
        self.claims.lock().remove(resource);
        self.context.control.stop(resource);
        for templates in [&self.waiting, &self.found] {
            templates.lock().retain(|(of, _)| **of != *resource);
        }
    }

    fn watch(self: &Arc<Self>, resource: &ApiResource) {
        let detector = Arc::downgrade(self);
        let resource = Arc::new(resource.clone());
        let informer = self.context.control.informer(&resource);
        let claims = Overlay::new(&informer);
        self.claims.lock().insert(resource.clone(), claims.clone());
        informer.subscribe_latest_first(move |event| {
            if let Some(detector) = detector.upgrade() {
                detector.note(&resource, &claims, event);
            }
        });
    }

    fn note(&self, resource: &Arc<ApiResource>, claims: &Overlay, event: &Event) {
        let object = event.object();
        if self.context.settings.skip.skips_object(&resource.kind, &object.key()) {
            return;
        }
        // Users may be waiting for unclaimed templates: they were created shortly before this process started, or since.
        let claimed = || Scope::ALL.iter().any(|scope| object.label(scope.policy_id_label()).is_some());
        let is_found = matches!(event, Event::Added { initial: true, .. }) && claimed();
        let change = match event {
            Event::Added { .. } => Some((false, if is_found { Priority::Low } else { Priority::Normal })),
            Event::Deleted(_) => Some((false, Priority::Normal)),
            Event::Updated { old, new } if is_change(old, new) => {
                Some((is_lazy(&self.context.policies, new) && !is_users_change(old, new), Priority::Normal))
            }
            Event::Updated { .. } => None,
        };
        let keyed = |by_us| TemplateKey { resource: resource.clone(), key: object.key(), by_us };
        let origin = {
            // Locked until a pending change is in it: the end of the claim takes it out.
            let mut deferred = self.deferred.lock();
            let origin = claims.observe(event, true);
            deferred.extend(change.filter(|_| origin == Origin::Pending).map(|(by_us, _)| keyed(by_us)));
            origin
        };
        if let Event::Updated { old, new } = event
            && old.revision() > new.revision()
            && let Some(queue) = self.context.rendering.get()
        {
            // The store was restored. Works may have been rendered from the former state, which no binding shows.
            let binding = names::binding_name(new.kind(), new.name());
            queue.add_with(BindingKey::namespaced(new.namespace().unwrap_or_default(), binding), Priority::Low);
        }
        let Some((by_us, priority)) = change else { return };
        let place = (resource.clone(), object.key());
        if is_found {
            self.found.lock().insert(place);
        } else {
            self.found.lock().remove(&place);
        }
        // The pass that claims a template writes its binding too.
        if !matches!(origin, Origin::Own | Origin::Pending) {
            self.templates.add_with(keyed(by_us), priority);
        }
    }
}

/// Whether anything but status and bookkeeping changed.
pub(crate) fn is_change(old: &Object, new: &Object) -> bool {
    if old.generation() != new.generation()
        || old.uid() != new.uid()
        || old.is_deleting() != new.is_deleting()
        || old.labels() != new.labels()
        || old.finalizers() != new.finalizers()
        || old.owner_references() != new.owner_references()
    {
        return true;
    }
    let bookkeeping = Some(("metadata", &["managedFields", "resourceVersion"][..]));
    if raw_json::same_but(&old.json(), &new.json(), &["status"], bookkeeping) {
        return false;
    }
    match (trimmed(old), trimmed(new)) {
        (Some(old), Some(new)) => old != new,
        _ => true,
    }
}

fn trimmed(object: &Object) -> Option<Value> {
    let mut tree = object.to_tree().ok()?;
    tree.as_object_mut()?.remove("status");
    let metadata = tree.metadata_mut()?;
    metadata.remove("resourceVersion");
    Some(tree)
}

/// Whether a change remains without the system's own writes.
fn is_users_change(old: &Object, new: &Object) -> bool {
    let users = |object| {
        let mut tree = trimmed(object)?;
        let metadata = tree.metadata_mut()?;
        metadata.remove("generation");
        for field in ["labels", "annotations"] {
            if let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) {
                map.retain(|key, _| !key.contains(".karmada.io") || key == labels::SKIP_AUTO_PROPAGATION);
                if map.is_empty() {
                    metadata.remove(field);
                }
            }
        }
        Some(tree)
    };
    users(old) != users(new)
}

/// Whether the object is claimed by a lazy policy.
fn is_lazy(policies: &Store<Policy>, object: &Object) -> bool {
    let claimed = object.label(labels::POLICY_ID).is_some() || object.label(labels::CLUSTER_POLICY_ID).is_some();
    if !claimed {
        return false;
    }
    let annotations = object.annotations();
    let key = match (annotations.get(annotations::POLICY_NAMESPACE), annotations.get(annotations::POLICY_NAME)) {
        (Some(namespace), Some(name)) => ObjectKey::namespaced(namespace, name),
        _ => match annotations.get(annotations::CLUSTER_POLICY_NAME) {
            Some(name) => ObjectKey::cluster(name),
            None => return false,
        },
    };
    policies.get(&key).is_some_and(|policy| policy.spec.activation_preference == Some(ActivationPreference::Lazy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(metadata: &str, rest: &str) -> Object {
        Object::parse(format!(r#"{{"metadata":{{{metadata}}}{rest}}}"#)).expect("a document")
    }

    #[test]
    fn relevant_changes_are_detected() {
        let old = object(r#""name":"a","resourceVersion":"1","generation":1"#, r#","spec":1,"status":1"#);
        for (metadata, rest, change, users) in [
            (r#""name":"a","resourceVersion":"2","generation":1"#, r#","spec":1,"status":2"#, false, false),
            (r#""name":"a","resourceVersion":"2","generation":1,"managedFields":[1]"#, r#","spec":1"#, false, false),
            (r#""generation":1,"name":"a","resourceVersion":"1""#, r#","status":3,"spec":1"#, false, false),
            (r#""name":"a","resourceVersion":"2","generation":2"#, r#","spec":2,"status":1"#, true, true),
            (r#""name":"a","generation":1,"annotations":{"x.karmada.io/y":"1"}"#, r#","spec":1"#, true, false),
            (r#""name":"a","generation":1,"labels":{"x":"1"}"#, r#","spec":1"#, true, true),
            (r#""name":"a","generation":2,"labels":{"p.karmada.io/x":"1"}"#, r#","spec":1"#, true, false),
        ] {
            let new = object(metadata, rest);
            assert_eq!(is_change(&old, &new), change, "{metadata}");
            assert_eq!(is_users_change(&old, &new), users, "{metadata}");
        }
    }
}
