//! The mutating rules of admission. They change the tree before the schema is validated, so the input may have any
//! shape.

use serde_json::{Value, json};

use super::{Denied, Operation, Request, autoscaling, typed};
use crate::Scope;
use crate::constants::labels;
use crate::manifest::{self, metadata_map};

/// The default grace period of a graceful purge, in seconds.
const GRACE_PERIOD: i64 = 600;

/// Sets defaults and permanent ids. Kinds without rules are unchanged.
///
/// # Errors
/// Why the request is denied.
pub fn mutate(request: &Request<'_>, object: &mut Value) -> Result<(), Denied> {
    if request.operation == Operation::Delete || !object.is_object() {
        return Ok(());
    }
    match (request.group, request.kind) {
        ("policy.karmada.io", "PropagationPolicy") => {
            own_namespace(request.namespace, object);
            policy(object);
            claim(Scope::Namespaced, request, object);
        }
        ("policy.karmada.io", "ClusterPropagationPolicy") => {
            policy(object);
            claim(Scope::Cluster, request, object);
        }
        ("policy.karmada.io", "OverridePolicy") => {
            own_namespace(request.namespace, object);
        }
        ("work.karmada.io", "ResourceBinding") => binding(labels::BINDING_ID, request, object),
        ("work.karmada.io", "ClusterResourceBinding") => {
            binding(labels::CLUSTER_BINDING_ID, request, object);
        }
        ("work.karmada.io", "Work") => {
            identify(labels::WORK_ID, true, request, object);
            work(object)?;
        }
        ("networking.karmada.io", "MultiClusterService") => {
            identify(labels::MULTI_CLUSTER_SERVICE_ID, true, request, object);
        }
        ("autoscaling.karmada.io", "FederatedHPA") => autoscaling::mutate(object),
        _ => {}
    }
    match super::webhook(true, request.operation, request.group, request.kind) {
        Some(_) => typed::respell(request.group, request.kind, object).map_err(Denied::Undecodable),
        None => Ok(()),
    }
}

/// Sets the policy's namespace in its resource selectors.
fn own_namespace(namespace: &str, object: &mut Value) {
    let selectors = object.pointer_mut("/spec/resourceSelectors").and_then(Value::as_array_mut);
    for selector in selectors.into_iter().flatten().filter_map(Value::as_object_mut) {
        if selector.get("namespace").and_then(Value::as_str).is_none_or(str::is_empty) {
            selector.insert("namespace".to_owned(), json!(namespace));
        }
    }
}

fn policy(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let pulls_slices = spec.get("resourceSelectors").and_then(Value::as_array).is_some_and(|selectors| {
        selectors.iter().any(|it| it["kind"] == "ServiceImport" && it["apiVersion"] == "multicluster.x-k8s.io/v1alpha1")
    });
    if pulls_slices {
        spec.insert("propagateDeps".to_owned(), json!(true));
    }
    let placement = spec.entry("placement").or_insert_with(|| json!({}));
    let constraints = placement.get_mut("spreadConstraints").and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten().filter_map(Value::as_object_mut) {
        let empty = |key: &str| constraint.get(key).and_then(Value::as_str).is_none_or(str::is_empty);
        if empty("spreadByField") && empty("spreadByLabel") {
            constraint.insert("spreadByField".to_owned(), json!("cluster"));
        }
        if constraint.get("minGroups").and_then(Value::as_i64).unwrap_or_default() == 0 {
            constraint.insert("minGroups".to_owned(), json!(1));
        }
    }
    if let Some(strategy) = placement.get_mut("replicaScheduling").and_then(Value::as_object_mut) {
        // The schema has already set its defaults, except in reviews that an API server did not send.
        let divided = strategy.get("replicaSchedulingType").is_some_and(|it| it == "Divided");
        if divided && strategy.get("replicaDivisionPreference").and_then(Value::as_str).is_none_or(str::is_empty) {
            strategy.insert("replicaDivisionPreference".to_owned(), json!("Weighted"));
        }
    }
    let application = spec.get_mut("failover").and_then(|it| it.get_mut("application")).and_then(Value::as_object_mut);
    if let Some(application) = application {
        // The second is the name up to Karmada 1.18, whose definitions still permit it.
        let gracefully = application.get("purgeMode").is_some_and(|it| it == "Gracefully" || it == "Graciously");
        if gracefully && application.get("gracePeriodSeconds").is_none_or(Value::is_null) {
            application.insert("gracePeriodSeconds".to_owned(), json!(GRACE_PERIOD));
        }
    }
}

/// Gives a new policy a permanent id, and the finalizer that cleans up its claims. An update that leaves them out keeps
/// them: a manifest has neither, so `kubectl replace`, or `kubectl apply` of one that has lost its labels, would
/// otherwise be denied, or the templates of the policy would stay claimed after its deletion.
fn claim(scope: Scope, request: &Request<'_>, object: &mut Value) {
    let (label, finalizer) = (scope.policy_id_label(), scope.policy_finalizer());
    let (id, finalizes) = match request.old {
        None if request.operation == Operation::Create => (Some(request.uuid), true),
        None => (None, false),
        Some(old) => {
            let old = &old["metadata"];
            let finalizes = old["finalizers"].as_array().is_some_and(|list| list.iter().any(|it| it == finalizer));
            let kept = object["metadata"]["labels"][label].is_null().then(|| old["labels"][label].as_str()).flatten();
            // The end of a deletion is to remove the finalizer.
            (kept, finalizes && old["deletionTimestamp"].is_null())
        }
    };
    if let Some(id) = id {
        metadata_map(object, "labels").insert(label.to_owned(), json!(id));
    }
    if finalizes {
        finalize(finalizer, object);
    }
}

fn finalize(finalizer: &str, object: &mut Value) {
    let finalizers = &mut object["metadata"]["finalizers"];
    match finalizers.as_array_mut() {
        Some(list) => {
            if !list.iter().any(|known| known == finalizer) {
                list.push(json!(finalizer));
            }
        }
        None => *finalizers = json!([finalizer]),
    }
}

/// A new binding with an id was read from a server before: it is restored or copied, and its template has another UID or
/// does not exist yet. As an owner the template would be absent, so that the garbage collector would delete the binding,
/// with its Works and their objects in members. The detector sets the owner again.
fn binding(label: &str, request: &Request<'_>, object: &mut Value) {
    if let Some(old) = request.old {
        return keep_binding(request.kind, old, object);
    }
    if id(label, object).is_some() {
        let template = template(object);
        if let Some(owners) = object.pointer_mut(OWNERS).and_then(Value::as_array_mut) {
            owners.retain(|owner| parts(owner) != template);
        }
    }
    identify(label, request.operation == Operation::Create, request, object);
}

const OWNERS: &str = "/metadata/ownerReferences";

fn parts(reference: &Value) -> [Value; 3] {
    ["apiVersion", "kind", "name"].map(|field| reference[field].clone())
}

fn template(binding: &Value) -> [Value; 3] {
    parts(&binding["spec"]["resource"])
}

/// Restores what an update of a binding must not change: its permanent id, by which its Works are found, and the UID of
/// the template that owns it. No detector replaces the UID, but a restored manifest has a former one, with which the
/// garbage collector would delete the binding, its Works and their objects in members. Other kinds are unchanged.
pub fn keep_binding(kind: &str, old: &Value, object: &mut Value) {
    let label = match kind {
        "ResourceBinding" => labels::BINDING_ID,
        "ClusterResourceBinding" => labels::CLUSTER_BINDING_ID,
        _ => return,
    };
    if let Some(known) = id(label, old).filter(|_| object.is_object() && id(label, object).is_none()) {
        metadata_map(object, "labels").insert(label.to_owned(), json!(known));
    }
    if old.pointer(OWNERS) == object.pointer(OWNERS) {
        return;
    }
    let template = template(object);
    let stored = old.pointer(OWNERS).and_then(Value::as_array).into_iter().flatten();
    let Some(stored) = stored.into_iter().find(|owner| parts(owner) == template) else { return };
    let owners = object.pointer_mut(OWNERS).and_then(Value::as_array_mut).into_iter().flatten();
    let Some(owner) = owners.into_iter().find(|owner| parts(owner) == template) else { return };
    if owner["uid"] != stored["uid"] {
        owner["uid"] = stored["uid"].clone();
        object["spec"]["resource"]["uid"] = stored["uid"].clone();
    }
}

fn id<'a>(label: &str, object: &'a Value) -> Option<&'a str> {
    object["metadata"]["labels"][label].as_str().filter(|id| !id.is_empty())
}

/// Gives the object a permanent id if it has none: that of the old object, or, where one `is_required`, a new one. What
/// derives from the object is found by the id, so an update that leaves it out must not change it.
fn identify(label: &str, is_required: bool, request: &Request<'_>, object: &mut Value) {
    if id(label, object).is_some() {
        return;
    }
    let old = request.old.and_then(|old| id(label, old));
    if let Some(id) = old.or_else(|| is_required.then_some(request.uuid)) {
        metadata_map(object, "labels").insert(label.to_owned(), json!(id));
    }
}

fn work(object: &mut Value) -> Result<(), Denied> {
    let id = object["metadata"]["labels"][labels::WORK_ID].as_str().unwrap_or_default().to_owned();
    let manifests = object.pointer_mut("/spec/workload/manifests").and_then(Value::as_array_mut);
    for manifest in manifests.into_iter().flatten() {
        if !manifest.is_object() {
            return Err(Denied::Failed(format!(
                "couldn't get version/kind; json parse error: {manifest} is no object"
            )));
        }
        if manifest["kind"].as_str().is_none_or(str::is_empty) {
            return Err(Denied::Failed(format!("Object 'Kind' is missing in '{manifest}'")));
        }
        manifest::prepare(manifest, &id);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;

    fn request<'a>(operation: Operation, group: &'a str, kind: &'a str) -> Request<'a> {
        Request {
            operation,
            group,
            kind,
            namespace: "ns",
            old: None,
            uuid: "uuid-1",
            customizations: &[],
            options: Options::default(),
        }
    }

    fn check(operation: Operation, group: &str, kind: &str, before: Value, after: Value) {
        let mut object = before;
        mutate(&request(operation, group, kind), &mut object).unwrap();
        assert_eq!(object, after);
    }

    #[test]
    fn policies() {
        let group = "policy.karmada.io";
        check(
            Operation::Create,
            group,
            "PropagationPolicy",
            json!({
                "metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "mine"}},
                "spec": {
                    "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}, {"kind": "ServiceImport", "apiVersion": "multicluster.x-k8s.io/v1alpha1", "namespace": "x"}],
                    "placement": {"spreadConstraints": [{"maxGroups": 2}, {"spreadByLabel": "l", "minGroups": 3}], "replicaScheduling": {"replicaSchedulingType": "Divided"}},
                    "failover": {"application": {"purgeMode": "Gracefully"}},
                },
            }),
            json!({
                "metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "uuid-1"}, "finalizers": ["karmada.io/propagation-policy-controller"]},
                "spec": {
                    "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ns"}, {"kind": "ServiceImport", "apiVersion": "multicluster.x-k8s.io/v1alpha1", "namespace": "x"}],
                    "placement": {"spreadConstraints": [{"maxGroups": 2, "spreadByField": "cluster", "minGroups": 1}, {"spreadByLabel": "l", "minGroups": 3}], "replicaScheduling": {"replicaDivisionPreference": "Weighted", "replicaSchedulingType": "Divided"}},
                    "failover": {"application": {"decisionConditions": {}, "gracePeriodSeconds": 600, "purgeMode": "Gracefully"}},
                    "propagateDeps": true,
                },
            }),
        );
        check(
            Operation::Update,
            group,
            "ClusterPropagationPolicy",
            json!({"spec": {"resourceSelectors": [], "failover": {"application": {"purgeMode": "Graciously"}}}}),
            json!({"spec": {"resourceSelectors": [], "placement": {}, "failover": {"application": {"decisionConditions": {}, "gracePeriodSeconds": 600, "purgeMode": "Graciously"}}}}),
        );
        check(
            Operation::Update,
            group,
            "ClusterPropagationPolicy",
            json!({"spec": {"resourceSelectors": [{}], "placement": {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}, "failover": {"application": {"purgeMode": "Never"}}}}),
            json!({"spec": {"resourceSelectors": [{"apiVersion": "", "kind": ""}], "placement": {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}, "failover": {"application": {"decisionConditions": {}, "purgeMode": "Never"}}}}),
        );
    }

    #[test]
    fn updates_keep_the_id_and_the_finalizer_of_a_policy() {
        let (group, kind) = ("policy.karmada.io", "ClusterPropagationPolicy");
        let (id, finalizer) =
            ("clusterpropagationpolicy.karmada.io/permanent-id", "karmada.io/cluster-propagation-policy-controller");
        let kept = json!({"labels": {id: "known"}, "finalizers": [finalizer]});
        let check = |old: &Value, new: Value, expected: Value| {
            let old = json!({ "metadata": old });
            let mut object = json!({ "metadata": new });
            mutate(&Request { old: Some(&old), ..request(Operation::Update, group, kind) }, &mut object).unwrap();
            assert_eq!(object["metadata"], expected);
        };
        check(&kept, json!({}), kept.clone());
        check(&kept, json!({"labels": null, "finalizers": null}), kept.clone());
        check(
            &kept,
            json!({"labels": {"a": "b"}, "finalizers": ["c"]}),
            json!({"labels": {"a": "b", id: "known"}, "finalizers": ["c", finalizer]}),
        );
        // Another id is left for the validation, which denies it.
        check(&kept, json!({"labels": {id: "x"}}), json!({"labels": {id: "x"}, "finalizers": [finalizer]}));
        check(&json!({}), json!({}), json!({}));
        let deleted = json!({"labels": {id: "known"}, "finalizers": [finalizer], "deletionTimestamp": "now"});
        check(&deleted, json!({"labels": {id: "known"}}), json!({"labels": {id: "known"}}));
    }

    #[test]
    fn ids_are_kept() {
        let group = "work.karmada.io";
        for (kind, label) in [
            ("ResourceBinding", "resourcebinding.karmada.io/permanent-id"),
            ("ClusterResourceBinding", "clusterresourcebinding.karmada.io/permanent-id"),
            ("Work", "work.karmada.io/permanent-id"),
        ] {
            for (before, after) in [(json!({}), "uuid-1"), (json!({"labels": {label: "known"}}), "known")] {
                let mut object = json!({ "metadata": before });
                mutate(&request(Operation::Create, group, kind), &mut object).unwrap();
                assert_eq!(object["metadata"]["labels"], json!({ label: after }));
            }
        }
    }

    #[test]
    fn a_restored_binding_is_not_owned_by_its_former_template() {
        let owner = |kind: &str, name: &str| json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "old"});
        let create = |labels: Value| {
            let mut object = json!({
                "metadata": {"labels": labels, "ownerReferences": [owner("Deployment", "web"), owner("Deployment", "other")]},
                "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "old"}},
            });
            mutate(&request(Operation::Create, "work.karmada.io", "ResourceBinding"), &mut object).unwrap();
            object["metadata"]["ownerReferences"].as_array().map(Vec::len)
        };
        assert_eq!(create(json!({"resourcebinding.karmada.io/permanent-id": "known"})), Some(1));
        assert_eq!(create(json!({})), Some(2), "created by the detector");
    }

    #[test]
    fn an_update_keeps_the_uid_of_the_template() {
        let binding = |owners: &[(&str, &str)], uid: &str| {
            let owner = |(name, uid): &(&str, &str)| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid});
            let owners: Vec<Value> = owners.iter().map(owner).collect();
            json!({"metadata": {"ownerReferences": owners},
                "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid}}})
        };
        for (stored, written, kept, uid) in [
            (&[("web", "now")][..], &[("web", "former"), ("other", "a")][..], &["now", "a"][..], "now"),
            (&[("web", "now")], &[], &[], "written"),
            (&[], &[("web", "now")], &["now"], "written"),
            (&[("other", "a")], &[("other", "b"), ("web", "now")], &["b", "now"], "written"),
        ] {
            let (old, mut object) = (binding(stored, "now"), binding(written, "written"));
            let update = request(Operation::Update, "work.karmada.io", "ResourceBinding");
            mutate(&Request { old: Some(&old), ..update }, &mut object).unwrap();
            let owners = object["metadata"]["ownerReferences"].as_array().unwrap();
            let uids: Vec<_> = owners.iter().filter_map(|owner| owner["uid"].as_str()).collect();
            assert_eq!(
                (&uids[..], object["spec"]["resource"]["uid"].as_str()),
                (kept, Some(uid)),
                "{stored:?} {written:?}"
            );
        }
    }

    #[test]
    fn updates_keep_ids() {
        for (group, kind, label) in [
            ("work.karmada.io", "ResourceBinding", "resourcebinding.karmada.io/permanent-id"),
            ("work.karmada.io", "ClusterResourceBinding", "clusterresourcebinding.karmada.io/permanent-id"),
            ("work.karmada.io", "Work", "work.karmada.io/permanent-id"),
            ("networking.karmada.io", "MultiClusterService", "multiclusterservice.karmada.io/permanent-id"),
        ] {
            let old = json!({"metadata": {"labels": {label: "known"}}});
            let mut object = json!({"metadata": {}});
            mutate(&Request { old: Some(&old), ..request(Operation::Update, group, kind) }, &mut object).unwrap();
            assert_eq!(object["metadata"]["labels"], json!({label: "known"}), "{kind}");
        }
    }

    #[test]
    fn malformed_objects_are_accepted() {
        for kind in ["PropagationPolicy", "OverridePolicy"] {
            for object in [
                json!(null),
                json!({"spec": 1}),
                json!({"spec": {"resourceSelectors": {}, "placement": []}}),
                json!({"metadata": []}),
            ] {
                let mut object = object;
                let refused = mutate(&request(Operation::Create, "policy.karmada.io", kind), &mut object).err();
                assert!(refused.is_none_or(|it| matches!(it, Denied::Undecodable(_))));
            }
        }
        let mut work = json!({"spec": {"workload": {"manifests": [1]}}});
        assert!(mutate(&request(Operation::Create, "work.karmada.io", "Work"), &mut work).is_err());
    }
}
