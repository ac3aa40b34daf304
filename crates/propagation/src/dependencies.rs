//! Propagation of dependencies with their templates: the bindings of dependencies ("attached" bindings) record the
//! bindings they follow ("independent" ones) and the clusters of those.

use std::collections::BTreeMap;

use apimachinery::hash::{fnv1a32, safe_encode};
use apimachinery::selector::Selector;
use karmada_api::Scope;
use karmada_api::config::v1alpha1::DependentObjectReference;
use karmada_api::constants::{annotations, labels};
use karmada_api::identity::BindingKey;
use karmada_api::names;
use karmada_api::policy::v1alpha1::{ConflictResolution, PurgeMode};
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::{BindingSnapshot, ObjectReference, ResourceBindingSpec, TargetCluster};

use crate::binding::owner;
use crate::template::Template;

/// Why an attached binding cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum Error {
    #[error(
        "failed to update resourceBinding({key}) due to different owner reference UID, will retry later after binding is \
         garbage collected"
    )]
    OtherOwner { key: BindingKey },
}

/// The label by which an attached binding names an independent one; its value is that binding's permanent id.
pub fn depended_by_label(independent: &BindingKey) -> String {
    format!("{}{}", labels::DEPENDED_BY_PREFIX, safe_encode(fnv1a32(independent.to_string().as_bytes())))
}

/// The annotation that records dependencies. They are sorted, so that an unchanged list is an unchanged text.
pub fn annotation(mut references: Vec<DependentObjectReference>) -> String {
    if references.is_empty() {
        return "null".to_owned();
    }
    references.sort_by(|a, b| identity(a).cmp(&identity(b)));
    serde_json::to_string(&references).expect("references have string keys only")
}

fn identity(it: &DependentObjectReference) -> [&str; 4] {
    [&it.api_version, &it.kind, &it.namespace, &it.name]
}

/// The dependencies that [`annotation`] recorded on a binding.
///
/// # Errors
/// When this system did not write the annotation.
pub fn recorded(binding: &Binding) -> Result<Vec<DependentObjectReference>, serde_json::Error> {
    match binding.metadata.annotations.get(annotations::DEPENDENCIES) {
        None => Ok(Vec::new()),
        Some(text) => serde_json::from_str::<Option<_>>(text).map(Option::unwrap_or_default),
    }
}

/// Whether a reference selects the object. Without its `labels` (the object was deleted) only a name can.
pub fn means(
    reference: &DependentObjectReference,
    object: &ObjectReference,
    labels: Option<&BTreeMap<String, String>>,
) -> bool {
    if reference.api_version != object.api_version
        || reference.kind != object.kind
        || reference.namespace != object.namespace
    {
        return false;
    }
    if !reference.name.is_empty() {
        return reference.name == object.name;
    }
    let (Some(selector), Some(labels)) = (&reference.label_selector, labels) else { return false };
    Selector::from_label_selector(selector).is_ok_and(|selector| selector.matches(labels))
}

/// The binding of a dependency for one independent binding. It has no placement: the scheduler leaves it alone.
pub fn attached(independent: &Binding, dependency: Template<'_>) -> Binding {
    let name = names::binding_name(dependency.kind(), dependency.name());
    let mut binding = Binding::named(&BindingKey::namespaced(independent.metadata.namespace.as_str(), name));
    let label = depended_by_label(&independent.key());
    binding.metadata.labels.insert(label, independent.permanent_id().to_owned());
    binding.metadata.finalizers = vec![Scope::Namespaced.binding_finalizer().to_owned()];
    binding.metadata.owner_references = vec![owner(dependency)];
    binding.spec.resource = ObjectReference {
        api_version: dependency.api_version().to_owned(),
        kind: dependency.kind().to_owned(),
        name: dependency.name().to_owned(),
        namespace: dependency.namespace().to_owned(),
        resource_version: dependency.resource_version().to_owned(),
        uid: dependency.uid().to_owned(),
    };
    binding.spec.required_by = vec![BindingSnapshot {
        clusters: clusters_with_copies(&independent.spec),
        name: independent.metadata.name.clone(),
        namespace: independent.metadata.namespace.clone(),
    }];
    binding.spec.preserve_resources_on_deletion = independent.spec.preserve_resources_on_deletion;
    binding.spec.conflict_resolution = independent.spec.conflict_resolution;
    binding
}

/// The targets of a binding, and the clusters where its old copies run until they are replaced.
fn clusters_with_copies(spec: &ResourceBindingSpec) -> Vec<TargetCluster> {
    let mut clusters = spec.clusters.clone();
    for task in spec.graceful_eviction_tasks.iter().filter(|task| task.purge_mode != Some(PurgeMode::Directly)) {
        if clusters.iter().all(|known| known.name != task.from_cluster) {
            let replicas = task.replicas.unwrap_or_default();
            clusters.push(TargetCluster { name: task.from_cluster.clone(), replicas, ..TargetCluster::default() });
        }
    }
    clusters
}

/// The existing binding with the result of [`attached`]; its policy is set by [`settle`].
///
/// # Errors
/// `OtherOwner` when the binding belongs to an earlier object of the same name.
pub fn attach(existing: &Binding, built: Binding) -> Result<Binding, Error> {
    let controller = existing.metadata.owner_references.iter().find(|owner| owner.controller == Some(true));
    if controller.is_some_and(|owner| owner.uid != built.spec.resource.uid) {
        return Err(Error::OtherOwner { key: existing.key() });
    }
    let mut merged = existing.clone();
    merged.metadata.labels.extend(built.metadata.labels);
    merged.spec.resource = built.spec.resource;
    for snapshot in built.spec.required_by {
        let known = merged.spec.required_by.iter_mut().find(|it| is_of(it, &snapshot.namespace, &snapshot.name));
        match known {
            Some(known) => known.clusters = snapshot.clusters,
            None => merged.spec.required_by.push(snapshot),
        }
    }
    Ok(merged)
}

fn is_of(snapshot: &BindingSnapshot, namespace: &str, name: &str) -> bool {
    snapshot.namespace == namespace && snapshot.name == name
}

/// The binding without the independent one; its policy is set by [`settle`].
pub fn detach(existing: &Binding, independent: &BindingKey) -> Binding {
    let mut left = existing.clone();
    left.metadata.labels.remove(&depended_by_label(independent));
    let namespace = independent.namespace().unwrap_or_default();
    left.spec.required_by.retain(|it| !is_of(it, namespace, independent.name()));
    left
}

/// Derives the policy fields of an attached binding from the bindings that require it: overwriting and preserving take
/// precedence. Returns the conflicts among them. A binding with a placement has its own policy, which stays.
pub fn settle(binding: &mut Binding, referrers: &[&Binding]) -> Option<String> {
    let spec = &mut binding.spec;
    if spec.placement.is_some() {
        return None;
    }
    if referrers.is_empty() {
        spec.conflict_resolution = None;
        spec.preserve_resources_on_deletion = None;
        return None;
    }
    let overwrites = |it: &&&Binding| it.spec.conflict_resolution == Some(ConflictResolution::Overwrite);
    let preserves = |it: &&&Binding| it.spec.preserve_resources_on_deletion == Some(true);
    let overwriting = referrers.iter().filter(overwrites).count();
    let preserving = referrers.iter().filter(preserves).count();
    let resolution = if overwriting > 0 { ConflictResolution::Overwrite } else { ConflictResolution::Abort };
    spec.conflict_resolution = Some(resolution);
    spec.preserve_resources_on_deletion = Some(preserving > 0);
    let disagree = |count: usize| count > 0 && count < referrers.len();
    let mut reasons = Vec::new();
    if disagree(overwriting) {
        reasons.push("ConflictResolution conflicted (Overwrite vs Abort)");
    }
    if disagree(preserving) {
        reasons.push("PreserveResourcesOnDeletion conflicted (true vs false)");
    }
    (!reasons.is_empty()).then(|| format!("Dependency policy conflict detected: {}.", reasons.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn independent(name: &str, clusters: &[&str], policy: Value) -> Binding {
        let mut binding = Binding::named(&BindingKey::namespaced("ns", name));
        binding.spec = serde_json::from_value(policy).unwrap();
        binding.metadata.labels.insert(Scope::Namespaced.binding_id_label().to_owned(), format!("id-{name}"));
        let target = |name: &&str| TargetCluster { name: (*name).to_owned(), ..Default::default() };
        binding.spec.clusters = clusters.iter().map(target).collect();
        binding
    }

    fn config(uid: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns", "uid": uid, "labels": {"a": "b"}}})
    }

    fn reference(name: &str, selector: Value) -> DependentObjectReference {
        let selector = (!selector.is_null()).then(|| serde_json::from_value(selector).unwrap());
        DependentObjectReference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: "ns".into(),
            name: name.into(),
            label_selector: selector,
        }
    }

    #[test]
    fn labels_and_annotations() {
        let label = depended_by_label(&BindingKey::namespaced("default", "nginx-deployment"));
        assert_eq!(label, "resourcebinding.karmada.io/depended-by-5bdc5c4dcf");
        assert_eq!(annotation(Vec::new()), "null");
        let text = annotation(vec![reference("b", Value::Null), reference("a", Value::Null)]);
        assert!(text.find("\"a\"") < text.find("\"b\""), "{text}");
        let mut binding = independent("x", &[], json!({}));
        binding.metadata.annotations.insert(annotations::DEPENDENCIES.to_owned(), text);
        assert_eq!(recorded(&binding).unwrap().len(), 2);
        binding.metadata.annotations.insert(annotations::DEPENDENCIES.to_owned(), "null".to_owned());
        assert_eq!(recorded(&binding).unwrap(), Vec::new());
    }

    #[test]
    fn references_select_by_name_or_labels() {
        let object = attached(&independent("x", &[], json!({})), Template(&config("u"))).spec.resource;
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let selector = |value: &str| json!({"matchLabels": {"a": value}});
        for (reference, with_labels, gone) in [
            (reference("c", Value::Null), true, true),
            (reference("d", Value::Null), false, false),
            (reference("", selector("b")), true, false),
            (reference("", selector("x")), false, false),
            (DependentObjectReference { kind: "Secret".into(), ..reference("c", Value::Null) }, false, false),
        ] {
            assert_eq!(means(&reference, &object, Some(&labels)), with_labels, "{reference:?}");
            assert_eq!(means(&reference, &object, None), gone, "{reference:?}");
        }
    }

    #[test]
    fn attaching_and_detaching() {
        let a =
            independent("a", &["m1"], json!({"conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true}));
        let b = independent("b", &["m2"], json!({}));
        let first = attached(&a, Template(&config("u")));
        assert_eq!(first.key(), BindingKey::namespaced("ns", "c-configmap"));
        assert!(first.spec.placement.is_none());

        let mut both = attach(&first, attached(&b, Template(&config("u")))).unwrap();
        assert_eq!(both.spec.required_by.len(), 2);
        assert_eq!(both.metadata.labels.len(), 2);
        let conflict = settle(&mut both, &[&a, &b]).unwrap();
        assert_eq!(
            conflict,
            "Dependency policy conflict detected: ConflictResolution conflicted (Overwrite vs Abort); \
             PreserveResourcesOnDeletion conflicted (true vs false)."
        );
        assert_eq!(both.spec.conflict_resolution, Some(ConflictResolution::Overwrite));

        let moved = independent("a", &["m2"], json!({}));
        let again = attach(&both, attached(&moved, Template(&config("u")))).unwrap();
        assert_eq!(again.spec.required_by[0].clusters[0].name, "m2");

        let mut left = detach(&both, &a.key());
        assert_eq!(left.spec.required_by.len(), 1);
        assert_eq!(settle(&mut left, &[&b]), None);
        assert_eq!(left.spec.preserve_resources_on_deletion, Some(false), "written explicitly");
        let mut none = detach(&left, &b.key());
        assert_eq!(settle(&mut none, &[]), None);
        assert_eq!((none.spec.conflict_resolution, none.spec.preserve_resources_on_deletion), (None, None));
        assert!(none.metadata.labels.is_empty());

        let other = attach(&first, attached(&b, Template(&config("v"))));
        assert_eq!(other, Err(Error::OtherOwner { key: first.key() }));
    }

    /// An old copy runs until it is replaced, and needs its dependencies until then.
    #[test]
    fn dependencies_stay_with_old_copies() {
        let task = |cluster: &str, mode: &str| json!({"fromCluster": cluster, "purgeMode": mode, "replicas": 2});
        let tasks = [task("m1", "Gracefully"), task("m2", "Never"), task("m3", "Directly"), task("m4", "Gracefully")];
        let evicted = independent("a", &["m4", "m5"], json!({"gracefulEvictionTasks": tasks}));
        let attached = attached(&evicted, Template(&config("u")));
        let clusters = attached.spec.required_by[0].clusters.iter();
        let clusters: Vec<_> = clusters.map(|it| (it.name.as_str(), it.replicas)).collect();
        assert_eq!(clusters, [("m4", 0), ("m5", 0), ("m1", 2), ("m2", 2)]);
    }

    #[test]
    fn a_policy_of_its_own_stays() {
        let mut own = independent("a", &[], json!({"placement": {}, "conflictResolution": "Abort"}));
        let a = independent("a", &["m1"], json!({"conflictResolution": "Overwrite"}));
        assert_eq!(settle(&mut own, &[&a]), None);
        assert_eq!(own.spec.conflict_resolution, Some(ConflictResolution::Abort));
    }

    #[test]
    fn places_are_distinguished() {
        let object = attached(&independent("x", &[], json!({})), Template(&config("u"))).spec.resource;
        let elsewhere = DependentObjectReference { namespace: "other".into(), ..reference("c", Value::Null) };
        assert!(!means(&elsewhere, &object, None));
        let a = independent("a", &["m1"], json!({}));
        let first = attached(&a, Template(&config("u")));
        // The newest version is the one to render.
        let mut newer = config("u");
        newer["metadata"]["resourceVersion"] = json!("9");
        let again = attach(&first, attached(&a, Template(&newer))).unwrap();
        assert_eq!(again.spec.resource.resource_version, "9");
        assert_eq!(again.spec.required_by.len(), 1);
        // A binding of the same name elsewhere is another.
        assert_eq!(detach(&first, &BindingKey::namespaced("other", "a")).spec.required_by, first.spec.required_by);
        assert_eq!(detach(&first, &a.key()).spec.required_by, []);
    }
}
