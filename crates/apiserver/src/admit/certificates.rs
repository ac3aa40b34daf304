//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction: the rights to approve and sign
//! certificate signing requests.

use apimachinery::Status;
use apimachinery::resource::ResourceInfo;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{AdmissionRequest, Operation};
use crate::auth::authz::ResourceAttributes;

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn are(info: &ResourceInfo) -> bool {
    info.resource.group == GROUP && info.resource.plural == PLURAL
}

/// The admission plugins CertificateApproval, CertificateSigning and CertificateSubjectRestriction, and the rule that a
/// decision is final.
pub(crate) async fn check(has: impl Fn(&str) -> bool, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let Some(object) = request.object.as_deref().filter(|_| are(request.info)) else { return Ok(()) };
    let signer = object["spec"]["signerName"].as_str().unwrap_or_default();
    let forbidden = |why: &str| Status::forbidden(GROUP, PLURAL, request.key.name(), why);
    match (request.operation, request.old) {
        (Operation::Create, _)
            if has("CertificateSubjectRestriction") && signer == CLIENT_SIGNER && requests_masters(object) =>
        {
            Err(forbidden("use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"))
        }
        (Operation::Update, Some(old)) => {
            let needed = match request.subresource {
                "approval" if has("CertificateApproval") => Some("approve"),
                "status" if has("CertificateSigning") && old["status"] != object["status"] => Some("sign"),
                _ => None,
            };
            if let Some(verb) = needed
                && !may(request, verb, signer).await
            {
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
    request.is_some_and(|request| request.organizations.iter().any(|group| group == crate::auth::authz::MASTERS))
}

/// A right on one signer, or on all of its domain.
async fn may(request: &AdmissionRequest<'_>, verb: &str, signer: &str) -> bool {
    let domain = signer.split_once('/').map(|(domain, _)| format!("{domain}/*"));
    for name in [Some(signer.to_owned()), domain].into_iter().flatten() {
        let wanted = ResourceAttributes {
            verb: verb.to_owned(),
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: "signers".to_owned(),
            name,
            ..ResourceAttributes::default()
        };
        if request.is_allowed(wanted).await {
            return true;
        }
    }
    false
}

fn check_decisions(request: &AdmissionRequest<'_>, old: &Value, new: &Value) -> Result<(), Status> {
    let has = |object: &Value, type_: &str| {
        let conditions = object["status"]["conditions"].as_array();
        conditions.is_some_and(|conditions| conditions.iter().any(|condition| condition["type"] == type_))
    };
    let path = apimachinery::field::Path::new("status");
    let refuse = |field: &str, why: String| {
        let error = apimachinery::field::Error::forbidden(&path.child(field), &why);
        Err(Status::invalid(GROUP, "CertificateSigningRequest", request.key.name(), &[error]))
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
