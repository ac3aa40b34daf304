//! Approves client certificate requests of kubelets with the required right.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use client::{Patch, PatchOptions};
use controller_runtime::Next;
use serde_json::{Value, json};

use super::policy::{self, KUBELET_CLIENT};
use super::{APPROVED, Csr, DENIED, FAILED, run_over_all};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::resources::CERTIFICATE_REQUESTS;
use crate::running::Starting;

pub(crate) async fn run(context: Context, starting: Starting) {
    run_over_all(context, starting, "certificatesigningrequest-approving-controller", reconcile).await;
}

async fn reconcile(context: Context, key: ObjectKey, object: Arc<Object>, csr: Csr) -> Result<Next> {
    let settled = csr.is_issued() || csr.is(APPROVED) || csr.is(DENIED) || csr.is(FAILED);
    if settled || csr.spec.signer_name != KUBELET_CLIENT {
        return Ok(Next::Done);
    }
    // Requests of others are not handled here.
    let Ok(pem) = csr.pem() else { return Ok(Next::Done) };
    let Ok(request) = pki::request::read(&pem) else { return Ok(Next::Done) };
    if policy::check(KUBELET_CLIENT, &request, &csr.spec.usages).is_err() {
        return Ok(Next::Done);
    }
    let itself = csr.spec.username == request.common_name;
    let rights = [
        (itself, "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."),
        (true, "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."),
    ];
    for (_, subresource, message) in rights.into_iter().filter(|(applies, ..)| *applies) {
        if !may_create(&context, &csr, subresource).await? {
            continue;
        }
        let conditions = csr.conditions_with(APPROVED, "AutoApproved", message.to_owned(), context.now());
        let patch =
            json!({"metadata": {"resourceVersion": object.resource_version()}, "status": {"conditions": conditions}});
        let options = PatchOptions { subresource: Some("approval"), ..PatchOptions::default() };
        return match context.client.patch(&CERTIFICATE_REQUESTS, &key, &Patch::Merge(patch), &options).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Next::Done),
        };
    }
    // The right may be granted later.
    Err(Error::NotAllowed { object: format!("CertificateSigningRequest {key}"), user: csr.spec.username })
}

async fn may_create(context: &Context, csr: &Csr, subresource: &str) -> Result<bool> {
    let mut review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": csr.spec.username, "uid": csr.spec.uid, "groups": csr.spec.groups,
        "resourceAttributes": {"group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create",
            "version": "*", "subresource": subresource}}});
    if csr.spec.extra.is_object() {
        review["spec"]["extra"] = csr.spec.extra.clone();
    }
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = context.client.request(http::Method::POST, path, Some(review)).await?;
    let unreadable = |source| Error::Decode { object: "the response to a SubjectAccessReview".into(), source };
    let answer: Value = serde_json::from_slice(&answer).map_err(unreadable)?;
    Ok(answer["status"]["allowed"] == true)
}
