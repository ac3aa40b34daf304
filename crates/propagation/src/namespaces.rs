//! Namespaces go to every cluster by themselves.

use std::collections::BTreeMap;

use apimachinery::meta::OwnerReference;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{labels, namespaces};
use karmada_api::identity::ClusterName;
use karmada_api::scope::Override;
use karmada_api::work::v1alpha1::Work;

use crate::overrides;
use crate::template::Template;
use crate::works::{self, WorkMetadata};

/// Whether a Namespace is propagated. `skipped` matches the names that the operator excludes.
pub fn is_propagated(namespace: Template<'_>, skipped: impl Fn(&str) -> bool) -> bool {
    let name = namespace.name();
    let opted_out =
        namespace.label(labels::SKIP_AUTO_PROPAGATION).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    !(namespaces::is_reserved(name) || name == "default" || opted_out || skipped(name))
}

/// The Work that carries a Namespace to a cluster. `overrides` are the ClusterOverridePolicies.
///
/// # Errors
/// When an override fails, or the Work cannot be encoded.
pub fn work(namespace: Template<'_>, cluster: &Cluster, overrides: &[Override]) -> Result<Work, works::Error> {
    let mut object = namespace.0.clone();
    // Finalizers of this server's namespace controller have no meaning in members.
    if let Some(map) = object.as_object_mut() {
        map.remove("spec");
    }
    let applied = overrides::apply(overrides, cluster, &mut object)?;
    let metadata = WorkMetadata {
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        conflict_resolution: None,
        applied: &applied,
    };
    let name = ClusterName::of(cluster);
    let mut work = works::work(&name, object, metadata)
        .map_err(|source| works::Error::Encode { cluster: name.clone(), source })?;
    work.metadata.owner_references = vec![owner(namespace)];
    work.spec.suspend_dispatching = Some(false);
    work.spec.preserve_resources_on_deletion = Some(false);
    Ok(work)
}

fn owner(namespace: Template<'_>) -> OwnerReference {
    crate::binding::owner(namespace)
}

/// Whether a change of this ClusterOverridePolicy concerns the Namespace. A policy for everything applies, but its
/// changes are picked up on the next pass only.
pub fn triggered_by(policy: &Override, namespace: &str) -> bool {
    policy.spec.resource_selectors.iter().any(|selector| {
        selector.api_version == "v1"
            && selector.kind == "Namespace"
            && (selector.name.is_empty() || selector.name == namespace)
    })
}

#[cfg(test)]
mod tests {
    use apimachinery::ObjectKey;
    use karmada_api::ApiType;
    use serde_json::json;

    use super::*;

    #[test]
    fn namespaces_are_selected_for_propagation() {
        for (name, label, expected) in [
            ("prod", "", true),
            ("default", "", false),
            ("karmada-system", "", false),
            ("karmada-es-m1", "", false),
            ("kube-system", "", false),
            ("prod", "TRUE", false),
            ("prod", "no", true),
        ] {
            let object = json!({"metadata": {"name": name, "labels": {labels::SKIP_AUTO_PROPAGATION: label}}});
            assert_eq!(is_propagated(Template(&object), |name| name.starts_with("kube-")), expected, "{name} {label}");
        }
    }

    #[test]
    fn the_work_of_a_namespace() {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "foo", "uid": "u"}, "spec": {"finalizers": ["kubernetes"]}});
        let work = work(Template(&object), &Cluster::named(&ObjectKey::cluster("m1")), &[]).unwrap();
        assert_eq!(work.key().to_string(), "karmada-es-m1/foo-5dbdc7b59c");
        assert_eq!(work.metadata.owner_references[0].uid, "u");
        let manifest = work.spec.workload.manifests[0].to_value().unwrap();
        assert!(manifest.get("spec").is_none());
        assert!(manifest["metadata"]["annotations"].get("work.karmada.io/conflict-resolution").is_none());
    }

    #[test]
    fn override_policies_select_namespaces() {
        let policy = |selectors: serde_json::Value| {
            let mut policy = Override::named(&ObjectKey::cluster("p"));
            policy.spec = serde_json::from_value(json!({"resourceSelectors": selectors, "overrideRules": []})).unwrap();
            policy
        };
        let of = |kind: &str, name: &str| json!([{"apiVersion": "v1", "kind": kind, "name": name}]);
        for (selectors, expected) in [
            (of("Namespace", "prod"), true),
            (of("Namespace", ""), true),
            (of("Namespace", "other"), false),
            (of("Secret", "prod"), false),
            (json!([]), false),
        ] {
            assert_eq!(triggered_by(&policy(selectors.clone()), "prod"), expected, "{selectors}");
        }
    }
}
