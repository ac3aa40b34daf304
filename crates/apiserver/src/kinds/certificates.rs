//! Restrictions on certificate signing requests: authorization to approve and sign, and the fields that each endpoint
//! may change. A controller does the signing.

use apimachinery::Status;
use apimachinery::meta::Time;
use apimachinery::resource::ResourceInfo;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use transport::{Body, Identity, Response};

use crate::admission::{AdmissionRequest, Operation};
use crate::authz::{Attributes, Authorizer, ResourceAttributes};
use crate::handlers::{Call, Kind, method_not_allowed};
use crate::server::Shared;

const GROUP: &str = "certificates.k8s.io";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Decisions, which only the `approval` endpoint takes. It sets other conditions too; signers set theirs by `status`.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];

pub(super) const ROW: Kind = Kind {
    group: GROUP,
    plural: "certificatesigningrequests",
    prepare_create,
    restore,
    part: Some(approval),
    ..Kind::ORDINARY
};

fn are(info: &ResourceInfo) -> bool {
    info.resource.group == ROW.group && info.resource.plural == ROW.plural
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

/// Puts back what an endpoint may not change: the object itself its spec, `approval` all but conditions and metadata,
/// `status` the decisions. New conditions get their times.
fn restore(subresource: &str, old: &Value, new: &mut Value, now: Time) {
    let decided = |condition: &Value| DECISIONS.iter().any(|type_| condition["type"] == *type_);
    let of = |object: &Value| object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    if !matches!(subresource, "approval" | "status") {
        new["spec"] = old["spec"].clone();
        return;
    }
    let (given, kept) = (of(new), of(old));
    let mut conditions = given;
    if subresource == "status" {
        conditions.retain(|condition| !decided(condition));
        conditions.extend(kept.iter().filter(|condition| decided(condition)).cloned());
    }
    for condition in &mut conditions {
        set_times(condition, &kept, now);
    }
    // The order of before, so that a change of nothing is no change.
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

/// The admission plugins CertificateApproval, CertificateSigning and CertificateSubjectRestriction, and the rule that a
/// decision stands.
pub(crate) fn check(server: &Shared, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let Some(object) = request.object.as_deref().filter(|_| are(request.info)) else { return Ok(()) };
    let signer = object["spec"]["signerName"].as_str().unwrap_or_default();
    let forbidden = |why: &str| Status::forbidden(GROUP, "certificatesigningrequests", &request.key.name, why);
    match (request.operation, request.old) {
        (Operation::Create, _)
            if server.has("CertificateSubjectRestriction") && signer == CLIENT_SIGNER && requests_masters(object) =>
        {
            Err(forbidden("use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"))
        }
        (Operation::Update, Some(old)) => {
            let needed = match request.subresource {
                "approval" if server.has("CertificateApproval") => Some("approve"),
                "status" if server.has("CertificateSigning") && old["status"] != object["status"] => Some("sign"),
                _ => None,
            };
            if let Some(verb) = needed.filter(|verb| !may(server.authorizer.as_ref(), request.user, verb, signer)) {
                return Err(forbidden(&format!("user not permitted to {verb} requests with signerName {signer:?}")));
            }
            check_decisions(request, old, object)
        }
        _ => Ok(()),
    }
}

fn requests_masters(object: &Value) -> bool {
    let encoded = object["spec"]["request"].as_str().unwrap_or_default();
    let pem = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let request = pem.and_then(|pem| pki::request::read(&pem).ok());
    request.is_some_and(|request| request.organizations.iter().any(|group| group == crate::authz::MASTERS))
}

/// A right on one signer, or on all of its domain.
fn may(authorizer: &dyn Authorizer, user: &Identity, verb: &str, signer: &str) -> bool {
    let domain = signer.split_once('/').map(|(domain, _)| format!("{domain}/*"));
    [Some(signer.to_owned()), domain].into_iter().flatten().any(|name| {
        let wanted = ResourceAttributes {
            verb: verb.to_owned(),
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: "signers".to_owned(),
            name,
            ..ResourceAttributes::default()
        };
        authorizer.authorize(user, &Attributes::Resource(wanted)).is_allowed()
    })
}

fn check_decisions(request: &AdmissionRequest<'_>, old: &Value, new: &Value) -> Result<(), Status> {
    let has = |object: &Value, type_: &str| {
        let conditions = object["status"]["conditions"].as_array();
        conditions.is_some_and(|conditions| conditions.iter().any(|condition| condition["type"] == type_))
    };
    let path = apimachinery::field::Path::new("status");
    let refuse = |field: &str, why: String| {
        let error = apimachinery::field::Error::forbidden(&path.child(field), &why);
        Err(Status::invalid(GROUP, "CertificateSigningRequest", &request.key.name, &[error]))
    };
    for type_ in ["Approved", "Denied", "Failed"] {
        if has(old, type_) && !has(new, type_) {
            return refuse("conditions", format!("updates may not remove a condition of type {type_:?}"));
        }
    }
    let certificate = |object: &Value| object["status"]["certificate"].as_str().unwrap_or_default().to_owned();
    if !certificate(old).is_empty() && certificate(old) != certificate(new) {
        return refuse("certificate", "updates may not modify existing certificate content".to_owned());
    }
    Ok(())
}
