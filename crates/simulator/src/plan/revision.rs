//! The template history of StatefulSets and DaemonSets: a ControllerRevision for each template.

use apimachinery::hash::{fnv1a32, safe_encode};
use apimachinery::meta::null_as_default;
use serde::Deserialize;
use serde_json::{Value, json};

use super::meta::Meta;
use super::{Action, Kind};

/// The label with the hash of a pod's template.
pub(crate) const HASH_LABEL: &str = "controller-revision-hash";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ControllerRevision {
    pub metadata: Meta,
    pub data: Value,
    #[serde(deserialize_with = "null_as_default")]
    pub revision: i64,
}

impl ControllerRevision {
    pub fn template(&self) -> &Value {
        &self.data["spec"]["template"]
    }
}

/// The hash and name of a template: `(hash, name)`.
pub(crate) fn name(owner: &Meta, template: &Value) -> (String, String) {
    let hash = safe_encode(fnv1a32(template.to_string().as_bytes()));
    let name = format!("{}-{hash}", owner.name);
    (hash, name)
}

/// Records a new template, or makes a known one the most recent.
pub(crate) fn record(owner: &Meta, kind: &str, template: &Value, known: &[ControllerRevision]) -> Option<Action> {
    let (hash, name) = name(owner, template);
    let newest = known.iter().map(|known| known.revision).max().unwrap_or(0);
    match known.iter().find(|known| known.metadata.name == name) {
        Some(known) if known.revision == newest => None,
        Some(known) => {
            let version = &known.metadata.resource_version;
            let patch = json!({"metadata": {"resourceVersion": version}, "revision": newest + 1});
            Some(Action::Patch(Kind::ControllerRevision, known.metadata.key(), patch))
        }
        None => {
            let mut labels = template["metadata"]["labels"].clone();
            labels[HASH_LABEL] = hash.into();
            let mut data = json!({"spec": {"template": template}});
            // A rollback replaces the whole template.
            data["spec"]["template"]["$patch"] = "replace".into();
            let mut revision = json!({
                "apiVersion": "apps/v1", "kind": "ControllerRevision",
                "metadata": {"name": name, "namespace": owner.namespace, "labels": labels,
                    "ownerReferences": owner.owned_by_this("apps/v1", kind)},
                "data": data, "revision": newest + 1,
            });
            // `kubectl rollout history` prints the cause of the change.
            if !owner.annotations.is_empty() {
                revision["metadata"]["annotations"] = json!(owner.annotations);
            }
            Some(Action::Create(Kind::ControllerRevision, revision))
        }
    }
}

/// Old templates beyond the history limit, except those in use.
pub(crate) fn surplus(known: &[ControllerRevision], limit: Option<i64>, in_use: &[&str]) -> Vec<Action> {
    let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
    let mut old: Vec<&ControllerRevision> =
        known.iter().filter(|known| !in_use.contains(&known.metadata.name.as_str())).collect();
    old.sort_by_key(|known| known.revision);
    let surplus = old.len().saturating_sub(limit);
    let delete = |known: &&ControllerRevision| Action::Delete {
        kind: Kind::ControllerRevision,
        key: known.metadata.key(),
        uid: known.metadata.uid.clone(),
        now: false,
    };
    old.iter().take(surplus).map(delete).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_has_the_annotations_of_its_owner() {
        let template = json!({"metadata": {"labels": {"a": "b"}}});
        let recorded = |owner: &Meta| match record(owner, "DaemonSet", &template, &[]) {
            Some(Action::Create(_, revision)) => revision["metadata"]["annotations"].clone(),
            other => panic!("a new template is recorded: {other:?}"),
        };
        let mut owner = Meta { name: "d".into(), ..Meta::default() };
        assert_eq!(recorded(&owner), Value::Null);
        owner.annotations.insert("kubernetes.io/change-cause".into(), "kubectl apply".into());
        assert_eq!(recorded(&owner), json!({"kubernetes.io/change-cause": "kubectl apply"}));
    }
}
