//! The claim: the label and annotations that tie a template (and its binding) to a policy.

use std::collections::BTreeMap;

use apimachinery::Object;
use karmada_api::Scope;
use karmada_api::constants::{annotations, labels};
use karmada_api::identity::PolicyKey;
use karmada_api::scope::Policy;
use serde_json::Value;

use crate::template::Template;

/// A complete claim on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The claiming policy; its scope is the key's.
    pub policy: PolicyKey,
    /// The permanent id of the policy.
    pub policy_id: String,
}

impl Claim {
    /// The scope of the policy.
    pub fn scope(&self) -> Scope {
        self.policy.scope()
    }
}

/// Changes to an object's labels and annotations: `None` removes the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataEdits {
    /// Labels to set or remove.
    pub labels: BTreeMap<&'static str, Option<String>>,
    /// Annotations to set or remove.
    pub annotations: BTreeMap<&'static str, Option<String>>,
}

impl MetadataEdits {
    /// Applies the edits to a tree. Returns whether anything changed.
    pub fn apply(&self, object: &mut Value) -> bool {
        let before = object["metadata"].clone();
        for (field, edits) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            for (key, value) in edits {
                match value {
                    Some(value) => {
                        let map = karmada_api::manifest::metadata_map(object, field);
                        map.insert((*key).to_owned(), Value::String(value.clone()));
                    }
                    None => {
                        if let Some(map) = object["metadata"].get_mut(field).and_then(Value::as_object_mut) {
                            map.remove(*key);
                        }
                    }
                }
            }
        }
        object["metadata"] != before
    }

    /// Applies the edits to a template as its API server does, which counts changes of a Deployment's annotations: the
    /// generation is part of what is compared and propagated.
    pub fn apply_to_template(&self, template: &mut Value) {
        let is_deployment = template["kind"] == "Deployment" && Template(template).api_version().starts_with("apps/");
        let before = is_deployment.then(|| template["metadata"]["annotations"].clone());
        self.apply(template);
        let metadata = &mut template["metadata"];
        if before.is_some_and(|before| metadata["annotations"] != before)
            && let Some(generation) = metadata["generation"].as_i64()
        {
            metadata["generation"] = (generation + 1).into();
        }
    }

    /// Applies the edits to typed metadata. Returns whether anything changed.
    pub fn apply_typed(&self, metadata: &mut apimachinery::meta::ObjectMeta) -> bool {
        let mut changed = false;
        for (map, edits) in [(&mut metadata.labels, &self.labels), (&mut metadata.annotations, &self.annotations)] {
            for (key, value) in edits {
                changed |= match value {
                    Some(value) => map.insert((*key).to_owned(), value.clone()).as_ref() != Some(value),
                    None => map.remove(*key).is_some(),
                };
            }
        }
        changed
    }

    /// A JSON merge patch of the metadata.
    pub fn to_merge_patch(&self) -> Value {
        serde_json::json!({ "metadata": { "labels": self.labels, "annotations": self.annotations } })
    }
}

/// The complete claim on an object, a namespaced policy's first. Incomplete claims do not count.
pub fn claimed_by(template: Template<'_>) -> Option<Claim> {
    claim_in(|key| template.label(key), |key| template.annotation(key))
}

/// [`claimed_by`] over an object that is not decoded.
pub fn claimed_by_object(template: &Object) -> Option<Claim> {
    let annotations = template.annotations();
    claim_in(|key| template.label(key), |key| annotations.get(key).map(String::as_str))
}

/// [`claimed_by`] over typed metadata.
pub fn claimed_by_metadata(metadata: &apimachinery::meta::ObjectMeta) -> Option<Claim> {
    claim_in(
        |key| metadata.labels.get(key).map(String::as_str),
        |key| metadata.annotations.get(key).map(String::as_str),
    )
}

fn claim_in<'a>(
    label: impl Fn(&str) -> Option<&'a str>,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> Option<Claim> {
    let present = |value: Option<&'a str>| value.filter(|value| !value.is_empty());
    let namespaced = || {
        Some(Claim {
            policy_id: present(label(labels::POLICY_ID))?.to_owned(),
            policy: PolicyKey::namespaced(
                present(annotation(annotations::POLICY_NAMESPACE))?,
                present(annotation(annotations::POLICY_NAME))?,
            ),
        })
    };
    let cluster = || {
        Some(Claim {
            policy_id: present(label(labels::CLUSTER_POLICY_ID))?.to_owned(),
            policy: PolicyKey::cluster(present(annotation(annotations::CLUSTER_POLICY_NAME))?),
        })
    };
    namespaced().or_else(cluster)
}

/// The label and annotations that a policy sets on claimed objects.
pub fn marks(policy: &Policy) -> MetadataEdits {
    let scope = policy.scope;
    let mut edits = MetadataEdits::default();
    edits.labels.insert(scope.policy_id_label(), Some(policy.permanent_id().to_owned()));
    edits.annotations.insert(scope.policy_name_annotation(), Some(policy.metadata.name.clone()));
    if let Some(key) = scope.policy_namespace_annotation() {
        edits.annotations.insert(key, Some(policy.metadata.namespace.clone()));
    }
    edits
}

/// The edits that take a claim of this scope off.
pub fn clean(scope: Scope) -> MetadataEdits {
    let mut edits = MetadataEdits::default();
    edits.labels.insert(scope.policy_id_label(), None);
    edits.annotations.insert(scope.policy_name_annotation(), None);
    if let Some(key) = scope.policy_namespace_annotation() {
        edits.annotations.insert(key, None);
    }
    edits
}

/// The edits that claim a template for a policy; `None` if it is claimed already. A namespaced policy takes the claim
/// of a cluster policy off; the reverse never happens.
pub fn claim(policy: &Policy, template: Template<'_>) -> Option<MetadataEdits> {
    let scope = policy.scope;
    let (name, namespace) = (policy.metadata.name.as_str(), policy.metadata.namespace.as_str());
    // A user may have removed a part of it.
    let has_claim = template.label(scope.policy_id_label()) == Some(policy.permanent_id())
        && template.annotation(scope.policy_name_annotation()) == Some(name)
        && scope.policy_namespace_annotation().is_none_or(|key| template.annotation(key) == Some(namespace));
    match scope {
        Scope::Cluster => (!has_claim).then(|| marks(policy)),
        Scope::Namespaced => {
            let other = template.label(labels::CLUSTER_POLICY_ID).is_some();
            if has_claim && !other {
                return None;
            }
            let mut edits = marks(policy);
            if other || template.annotation(annotations::CLUSTER_POLICY_NAME).is_some() {
                let off = clean(Scope::Cluster);
                edits.labels.extend(off.labels);
                edits.annotations.extend(off.annotations);
            }
            Some(edits)
        }
    }
}

/// Whether an object still carries the claim of this policy, so that it may be cleaned.
pub fn holds(template: Template<'_>, scope: Scope, policy_id: &str) -> bool {
    template.label(scope.policy_id_label()) == Some(policy_id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(key: &PolicyKey) -> Policy {
        let mut policy = Policy::named(key);
        policy.metadata.labels.insert(policy.scope.policy_id_label().to_owned(), "id".to_owned());
        policy
    }

    #[test]
    fn a_claim_raises_the_generation_as_the_api_server_will() {
        let policy = policy(&PolicyKey::namespaced("ns", "pp"));
        for (api_version, kind, expected) in
            [("apps/v1", "Deployment", 2), ("apps/v1", "StatefulSet", 1), ("example.io/v1", "Deployment", 1)]
        {
            let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"generation": 1}});
            claim(&policy, Template(&object)).unwrap().apply_to_template(&mut object);
            assert_eq!(Template(&object).generation(), expected, "{api_version} {kind}");
            marks(&policy).apply_to_template(&mut object);
            assert_eq!(Template(&object).generation(), expected, "nothing is changed by the second");
        }
    }

    #[test]
    fn claims_are_written_once_and_taken_over() {
        let namespaced = policy(&PolicyKey::namespaced("ns", "pp"));
        let cluster = policy(&PolicyKey::cluster("cpp"));
        let mut object = json!({"metadata": {"name": "a"}});
        assert_eq!(claimed_by(Template(&object)), None);

        claim(&cluster, Template(&object)).unwrap().apply(&mut object);
        assert_eq!(claimed_by(Template(&object)).unwrap().policy, PolicyKey::cluster("cpp"));
        assert_eq!(claim(&cluster, Template(&object)), None);

        claim(&namespaced, Template(&object)).unwrap().apply(&mut object);
        assert_eq!(claimed_by(Template(&object)).unwrap().policy, PolicyKey::namespaced("ns", "pp"));
        assert!(Template(&object).label(labels::CLUSTER_POLICY_ID).is_none());
        assert_eq!(claim(&namespaced, Template(&object)), None);

        assert!(holds(Template(&object), Scope::Namespaced, "id"));
        assert!(clean(Scope::Namespaced).apply(&mut object));
        assert_eq!(object["metadata"], json!({"name": "a", "labels": {}, "annotations": {}}));
        assert!(!clean(Scope::Namespaced).apply(&mut object));
    }

    #[test]
    fn incomplete_claims_are_completed() {
        for policy in [PolicyKey::namespaced("ns", "pp"), PolicyKey::cluster("cpp")].map(|key| policy(&key)) {
            let mut object = json!({"metadata": {"name": "a"}});
            marks(&policy).apply(&mut object);
            let complete = object.clone();
            object["metadata"]["annotations"].as_object_mut().unwrap().remove(policy.scope.policy_name_annotation());
            claim(&policy, Template(&object)).unwrap().apply(&mut object);
            assert_eq!(object, complete);
        }
    }

    #[test]
    fn incomplete_claims_do_not_count() {
        let object =
            json!({"metadata": {"labels": {labels::POLICY_ID: "id"}, "annotations": {annotations::POLICY_NAME: "pp"}}});
        assert_eq!(claimed_by(Template(&object)), None);
    }

    #[test]
    fn the_namespaced_policy_owns_a_double_claim() {
        let [namespaced, cluster] =
            [PolicyKey::namespaced("ns", "pp"), PolicyKey::cluster("cpp")].map(|key| policy(&key));
        let mut object = json!({"metadata": {"name": "a"}});
        marks(&namespaced).apply(&mut object);
        marks(&cluster).apply(&mut object);
        // With both, it is the namespaced policy's, which takes the other claim off.
        assert_eq!(claimed_by(Template(&object)).unwrap().scope(), Scope::Namespaced);
        let edits = claim(&namespaced, Template(&object)).unwrap();
        edits.apply(&mut object);
        assert_eq!(Template(&object).annotation(annotations::CLUSTER_POLICY_NAME), None);
        assert_eq!(claim(&namespaced, Template(&object)), None);
        for (scope, id, expected) in
            [(Scope::Namespaced, "id", true), (Scope::Namespaced, "other", false), (Scope::Cluster, "id", false)]
        {
            assert_eq!(holds(Template(&object), scope, id), expected, "{scope:?} {id}");
        }
    }
}
