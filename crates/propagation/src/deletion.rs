//! Deletion of a Work: the treatment of its objects in the member.

use karmada_api::Scope;
use karmada_api::constants::{annotations, labels};
use karmada_api::raw::RawJson;
use karmada_api::work::v1alpha1::Work;
use serde_json::Value;

use crate::claim;
use crate::resume;
use crate::template::Template;

/// The state of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// Its Cluster is Ready.
    Ready,
    /// Its Cluster is not Ready.
    NotReady,
    /// Not ready, and the Cluster object is itself being deleted: the objects will never be deleted by us.
    NotReadyAndLeaving,
}

/// The actions before the Work's finalizer is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Update each manifest's object so that it is no longer managed; see [`strip`].
    Preserve,
    /// Delete each manifest's object, if it is managed; see [`may_delete`].
    Delete,
    /// Leave the member alone.
    Release,
    /// The member cannot be reached: try again later.
    Wait,
}

/// Plans the end of a Work. Objects are preserved in any state of the member: a failed attempt is retried.
pub fn plan(preserve: bool, member: Member) -> Plan {
    match (preserve, member) {
        (true, _) => Plan::Preserve,
        (false, Member::Ready) => Plan::Delete,
        (false, Member::NotReadyAndLeaving) => Plan::Release,
        (false, Member::NotReady) => Plan::Wait,
    }
}

/// Whether an object in a member may be deleted for a Work with this permanent id: only if it is managed, and this Work
/// wrote it. Another Work of the same name, created later in a history that a restored store lacks, wrote another
/// object.
pub fn may_delete(observed: Template<'_>, work_id: &str) -> bool {
    crate::retain::is_managed(observed) && resume::is_of_work(observed.label(labels::WORK_ID), work_id)
}

/// The annotation of a Namespace in a member with objects that were preserved there. It outlives their Works, and goes
/// when the Namespace is no longer managed.
pub const HOLDS_PRESERVED: &str = "karmada-rs.io/holds-preserved";

/// Whether a Work preserves an object in this namespace.
pub fn preserves_in(work: &Work, namespace: &str) -> bool {
    // A manifest that cannot be decoded may be one.
    let inside = |manifest: &RawJson| manifest.to_value().map_or(true, |it| Template(&it).namespace() == namespace);
    work.spec.preserve_resources_on_deletion == Some(true) && work.spec.workload.manifests.iter().any(inside)
}

/// Takes everything of ours off a manifest that is to stay in the member without us.
pub fn strip(manifest: &mut Value) {
    let mut edits = claim::clean(Scope::Namespaced);
    let wide = claim::clean(Scope::Cluster);
    edits.labels.extend(wide.labels);
    edits.annotations.extend(wide.annotations);
    for label in [labels::BINDING_ID, labels::CLUSTER_BINDING_ID, labels::WORK_ID, labels::MANAGED] {
        edits.labels.insert(label, None);
    }
    for annotation in [
        annotations::MANAGED_ANNOTATIONS,
        annotations::MANAGED_LABELS,
        annotations::TEMPLATE_UID,
        annotations::TEMPLATE_GENERATION,
        annotations::BINDING_NAMESPACE,
        annotations::BINDING_NAME,
        annotations::CLUSTER_BINDING_NAME,
        annotations::WORK_NAME,
        annotations::WORK_NAMESPACE,
        annotations::MARK,
    ] {
        edits.annotations.insert(annotation, None);
    }
    edits.apply(manifest);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plans() {
        for (preserve, member, expected) in [
            (true, Member::NotReady, Plan::Preserve),
            (false, Member::Ready, Plan::Delete),
            (false, Member::NotReady, Plan::Wait),
            (false, Member::NotReadyAndLeaving, Plan::Release),
        ] {
            assert_eq!(plan(preserve, member), expected);
        }
    }

    #[test]
    fn only_karmadas_keys_are_stripped() {
        let mut object = json!({"metadata": {"name": "a", "namespace": "ns",
            "labels": {"karmada.io/managed": "true", "app": "x", "propagationpolicy.karmada.io/permanent-id": "1",
                "clusterpropagationpolicy.karmada.io/permanent-id": "2"},
            "annotations": {"work.karmada.io/name": "w", "k": "v", "propagationpolicy.karmada.io/name": "p",
                "clusterpropagationpolicy.karmada.io/name": "c"}}});
        strip(&mut object);
        assert_eq!(object["metadata"]["labels"], json!({"app": "x"}));
        assert_eq!(object["metadata"]["annotations"], json!({"k": "v"}));
    }
}
