//! Retains the values that a member cluster owns when an object is updated there.

use karmada_api::constants::labels;
use serde_json::{Value, json};

use super::unsupported;
use crate::tree::{at, int, list, object, text};
use crate::{Error, Kind, Operation};

pub fn retain(desired: &mut Value, observed: &Value) -> Result<(), Error> {
    match Kind::of(desired) {
        Some(Kind::Deployment) => replicas(desired, observed)?,
        Some(Kind::Pod) => pod(desired, observed),
        Some(Kind::Service) => service(desired, observed),
        Some(Kind::ServiceAccount) => {
            for field in ["secrets", "imagePullSecrets"] {
                united(desired, observed, field);
            }
        }
        Some(Kind::PersistentVolumeClaim) => keep(desired, observed, &["volumeName"]),
        Some(Kind::PersistentVolume) => keep(desired, observed, &["claimRef"]),
        Some(Kind::Job) => job(desired, observed),
        Some(Kind::Secret) => {
            if text(desired, &["type"]) == "kubernetes.io/service-account-token" {
                copy_present(desired, observed, "data");
            }
        }
        _ => return Err(unsupported(Operation::Retain, desired)),
    }
    Ok(())
}

/// Copies fields of the spec that the member has set.
fn keep(desired: &mut Value, observed: &Value, fields: &[&str]) {
    for field in fields {
        let value = at(observed, &["spec", field]);
        if !value.is_null() && value.as_str() != Some("") {
            object(desired, "spec").insert((*field).to_owned(), value.clone());
        }
    }
}

fn replicas(desired: &mut Value, observed: &Value) -> Result<(), Error> {
    if text(desired, &["metadata", "labels", labels::RETAIN_REPLICAS]) != "true" {
        return Ok(());
    }
    match at(observed, &["spec", "replicas"]) {
        Value::Number(replicas) => {
            object(desired, "spec").insert("replicas".to_owned(), json!(replicas));
            Ok(())
        }
        _ => Err(Error::malformed(Operation::Retain, observed, "the member's object has no spec.replicas to keep")),
    }
}

fn service(desired: &mut Value, observed: &Value) {
    keep(desired, observed, &["clusterIP"]);
    if int(observed, &["spec", "healthCheckNodePort"]) > 0 {
        keep(desired, observed, &["healthCheckNodePort"]);
    }
}

/// Immutable fields of a running pod keep the member's value, also if it is absent.
fn pod(desired: &mut Value, observed: &Value) {
    for field in ["nodeName", "serviceAccountName", "volumes"] {
        copy(desired.get_mut("spec"), at(observed, &["spec", field]), field);
    }
    for field in ["containers", "initContainers"] {
        let containers = desired.get_mut("spec").and_then(|spec| spec.get_mut(field)).and_then(Value::as_array_mut);
        let Some(containers) = containers else { continue };
        for container in containers {
            let name = container["name"].as_str().unwrap_or_default();
            let twin = list(observed, &["spec", field]).iter().find(|other| text(other, &["name"]) == name);
            if let Some(twin) = twin {
                copy(Some(container), &twin["volumeMounts"], "volumeMounts");
            }
        }
    }
}

/// Copies a field of the object that the member has.
fn copy_present(desired: &mut Value, observed: &Value, field: &str) {
    if !observed[field].is_null() {
        desired[field] = observed[field].clone();
    }
}

/// Sets a field to a value, or removes it if there is none.
fn copy(target: Option<&mut Value>, value: &Value, field: &str) {
    let Some(fields) = target.and_then(Value::as_object_mut) else { return };
    if value.is_null() {
        fields.remove(field);
    } else {
        fields.insert(field.to_owned(), value.clone());
    }
}

/// Entries of both, the desired ones first, without duplicate names.
fn united(desired: &mut Value, observed: &Value, field: &str) {
    let mut entries = list(desired, &[field]).to_vec();
    for entry in list(observed, &[field]) {
        if !entries.iter().any(|known| known["name"] == entry["name"]) {
            entries.push(entry.clone());
        }
    }
    desired[field] = if entries.is_empty() { Value::Null } else { Value::Array(entries) };
}

fn job(desired: &mut Value, observed: &Value) {
    let selector = at(observed, &["spec", "selector", "matchLabels"]);
    if selector.is_object() {
        object(desired, "spec");
        object(&mut desired["spec"], "selector").insert("matchLabels".to_owned(), selector.clone());
    }
    let labels = at(observed, &["spec", "template", "metadata", "labels"]);
    if labels.is_object() {
        object(desired, "spec");
        object(&mut desired["spec"], "template");
        object(&mut desired["spec"]["template"], "metadata").insert("labels".to_owned(), labels.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(desired: Value, observed: Value, expected: Value) {
        let mut kept = desired;
        retain(&mut kept, &observed).unwrap();
        assert_eq!(kept, expected);
    }

    #[test]
    fn values_that_members_own() {
        let of = |api: &str, kind: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "spec": spec});
        check(
            of("v1", "Service", json!({"ports": []})),
            of("v1", "Service", json!({"clusterIP": "10.0.0.1", "healthCheckNodePort": 0})),
            of("v1", "Service", json!({"ports": [], "clusterIP": "10.0.0.1"})),
        );
        check(
            of("v1", "Pod", json!({"containers": [{"name": "a"}]})),
            of("v1", "Pod", json!({"nodeName": "n", "containers": [{"name": "a", "volumeMounts": [1]}]})),
            of("v1", "Pod", json!({"nodeName": "n", "containers": [{"name": "a", "volumeMounts": [1]}]})),
        );
        check(
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "secrets": [{"name": "a"}]}),
            json!({"secrets": [{"name": "b"}, {"name": "a"}]}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "secrets": [{"name": "a"}, {"name": "b"}], "imagePullSecrets": null}),
        );
        check(
            of("v1", "Service", json!({})),
            of("v1", "Service", json!({"clusterIP": "", "healthCheckNodePort": 3000})),
            of("v1", "Service", json!({"healthCheckNodePort": 3000})),
        );
        check(
            of("v1", "PersistentVolumeClaim", json!({})),
            of("v1", "PersistentVolumeClaim", json!({"volumeName": "v", "storageClassName": "s"})),
            of("v1", "PersistentVolumeClaim", json!({"volumeName": "v"})),
        );
        check(
            of("v1", "PersistentVolume", json!({})),
            of("v1", "PersistentVolume", json!({"claimRef": {"name": "c"}})),
            of("v1", "PersistentVolume", json!({"claimRef": {"name": "c"}})),
        );
        let labels = json!({"controller-uid": "u"});
        let ran = json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}});
        check(
            of(
                "batch/v1",
                "Job",
                json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}}}),
            ),
            of("batch/v1", "Job", ran.clone()),
            of("batch/v1", "Job", ran),
        );
        let job = of("batch/v1", "Job", json!({"template": {"metadata": {"labels": {"a": "b"}}}}));
        check(job.clone(), of("batch/v1", "Job", json!({})), job);
        let secret =
            |type_: &str, data: Value| json!({"apiVersion": "v1", "kind": "Secret", "type": type_, "data": data});
        let token = "kubernetes.io/service-account-token";
        check(secret(token, Value::Null), secret(token, json!({"t": "x"})), secret(token, json!({"t": "x"})));
        let without = json!({"apiVersion": "v1", "kind": "Secret", "type": token});
        check(without.clone(), without.clone(), without);
        check(
            secret("Opaque", json!({"t": "y"})),
            secret("Opaque", json!({"t": "x"})),
            secret("Opaque", json!({"t": "y"})),
        );
        check(
            of(
                "v1",
                "Pod",
                json!({"containers": [{"name": "a", "volumeMounts": [2]}], "initContainers": [{"name": "i"}]}),
            ),
            of(
                "v1",
                "Pod",
                json!({"serviceAccountName": "sa", "volumes": [1], "containers": [{"name": "b", "volumeMounts": [1]}],
                "initContainers": [{"name": "i", "volumeMounts": [3]}]}),
            ),
            of(
                "v1",
                "Pod",
                json!({"serviceAccountName": "sa", "volumes": [1], "containers": [{"name": "a", "volumeMounts": [2]}],
                "initContainers": [{"name": "i", "volumeMounts": [3]}]}),
            ),
        );
        // A pod's volumes are immutable, so additional ones are not requested either.
        check(
            of(
                "v1",
                "Pod",
                json!({"nodeName": "n", "volumes": [1], "containers": [{"name": "a", "volumeMounts": [1]}, {"name": "b", "volumeMounts": [1]}]}),
            ),
            of("v1", "Pod", json!({"containers": [{"name": "a"}]})),
            of("v1", "Pod", json!({"containers": [{"name": "a"}, {"name": "b", "volumeMounts": [1]}]})),
        );
        let mut deployment = of("apps/v1", "Deployment", json!({"replicas": 1}));
        check(deployment.clone(), of("apps/v1", "Deployment", json!({"replicas": 5})), deployment.clone());
        deployment["metadata"] = json!({"labels": {labels::RETAIN_REPLICAS: "true"}});
        let mut expected = deployment.clone();
        expected["spec"]["replicas"] = json!(5);
        assert!(retain(&mut deployment.clone(), &of("apps/v1", "Deployment", json!({}))).is_err());
        check(deployment, of("apps/v1", "Deployment", json!({"replicas": 5})), expected);
    }

    /// A user may write a Work with any content.
    #[test]
    fn malformed_jobs() {
        let observed = json!({"spec": {"selector": {"matchLabels": {"s": "1"}}, "template": {"metadata": {"labels": {"l": "1"}}}}});
        let of = |spec: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec});
        for unusual in [
            json!("x"),
            json!([1]),
            json!(null),
            json!({"template": "x", "selector": []}),
            json!({"template": {"metadata": 1}}),
        ] {
            check(of(unusual), observed.clone(), of(observed["spec"].clone()));
        }
        let labels = json!({"spec": {"template": {"metadata": {"labels": {"l": "1"}}}}});
        check(of(json!("x")), labels.clone(), of(labels["spec"].clone()));
    }
}
