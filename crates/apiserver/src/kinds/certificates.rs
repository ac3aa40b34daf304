//! Certificate signing requests: the fields that each endpoint may change. `admit::certificates` authorizes approval
//! and signing, a controller signs.

use std::sync::LazyLock;

use apimachinery::Status;
use apimachinery::managed_fields::FieldSet;
use apimachinery::meta::Time;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use transport::{Body, Identity, Response};

use crate::errors::method_not_allowed;
use crate::handlers::{Call, Kind};

const GROUP: &str = "certificates.k8s.io";
/// Decisions, which only the `approval` endpoint takes. It sets other conditions too; signers set theirs by `status`.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];

pub(super) const ROW: Kind = Kind {
    group: GROUP,
    plural: "certificatesigningrequests",
    prepare_create,
    restore,
    reset_fields,
    part: Some(approval),
    ..Kind::ORDINARY
};

/// The requester owns nothing: the request never changes.
fn reset_fields(subresource: &str) -> Option<&'static FieldSet> {
    static OBJECT: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::from_paths(&[&["spec"], &["status"]]));
    static APPROVAL: LazyLock<FieldSet> =
        LazyLock::new(|| FieldSet::from_paths(&[&["spec"], &["status", "certificate"]]));
    static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::from_paths(&[&["spec"], &["status", "conditions"]]));
    Some(match subresource {
        "approval" => &APPROVAL,
        "status" => &STATUS,
        _ => &OBJECT,
    })
}

/// `approval` is read and written like the object.
fn approval<'a>(call: &'a Call<'_>, body: Body) -> BoxFuture<'a, Result<Response, Status>> {
    async move {
        match call.info.verb {
            "get" => call.get().await,
            "update" => call.update(body).await,
            "patch" => call.patch(body).await,
            _ => Err(method_not_allowed()),
        }
    }
    .boxed()
}

/// The requester in the spec is the authenticated user, regardless of the request's content.
fn prepare_create(user: &Identity, object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    fields.insert("status".into(), json!({}));
    let Some(spec) = fields.entry("spec").or_insert_with(|| json!({})).as_object_mut() else { return };
    spec.insert("username".into(), user.user.as_str().into());
    spec.insert("groups".into(), json!(user.groups));
    let extra: Map<String, Value> = user.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
    for (field, value) in [("uid", json!(user.uid)), ("extra", json!(extra))] {
        let empty = value.as_str().is_some_and(str::is_empty) || value.as_object().is_some_and(Map::is_empty);
        if empty {
            spec.remove(field);
        } else {
            spec.insert(field.into(), value);
        }
    }
}

/// Restores the fields that an endpoint may not change: the object endpoint the spec, `approval` all except conditions
/// and metadata, `status` the decisions. New conditions get their times.
fn restore(subresource: &str, old: &Value, new: &mut Value, now: Time) {
    let decided = |condition: &Value| DECISIONS.iter().any(|type_| condition["type"] == *type_);
    let of = |object: &Value| object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    if !matches!(subresource, "approval" | "status") {
        new["spec"] = old["spec"].clone();
        return;
    }
    let (new_conditions, kept) = (of(new), of(old));
    let mut conditions = new_conditions;
    if subresource == "status" {
        conditions.retain(|condition| !decided(condition));
        conditions.extend(kept.iter().filter(|condition| decided(condition)).cloned());
    }
    for condition in &mut conditions {
        set_times(condition, &kept, now);
    }
    // Keeps the previous order, so that an unchanged list is no change.
    conditions
        .sort_by_key(|condition| kept.iter().position(|old| old["type"] == condition["type"]).unwrap_or(usize::MAX));
    if subresource == "approval" {
        let metadata = new["metadata"].take();
        *new = old.clone();
        new["metadata"] = metadata;
    }
    let Some(fields) = new.as_object_mut() else { return };
    let status = fields.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    if conditions.is_empty() {
        status.remove("conditions");
    } else {
        status.insert("conditions".into(), conditions.into());
    }
}

fn set_times(condition: &mut Value, old: &[Value], now: Time) {
    let before = old.iter().find(|old| old["type"] == condition["type"] && old["status"] == condition["status"]);
    let since = before.map(|old| old["lastTransitionTime"].clone()).filter(Value::is_string);
    let Some(condition) = condition.as_object_mut() else { return };
    for (field, time) in [("lastUpdateTime", None), ("lastTransitionTime", since)] {
        if !condition.get(field).is_some_and(Value::is_string) {
            condition.insert(field.into(), time.unwrap_or_else(|| json!(now)));
        }
    }
}
