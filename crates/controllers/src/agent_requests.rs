//! Approves the certificates of agents (`agentcsrapproving`): a bootstrap token obtains one for a cluster that is not
//! registered, an agent a new one for itself. Other requests are ignored.

use std::sync::Arc;

use apimachinery::meta::{Time, null_as_default};
use apimachinery::{ApiResource, Object, ObjectKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Patch, PatchOptions};
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::{ApiType, agents};
use pki::request::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Context;
use crate::error::{During, Error, Result};

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const ENCIPHERMENT: &str = "key encipherment";
const REQUIRED: [&str; 2] = ["digital signature", "client auth"];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Csr {
    spec: Spec,
    #[serde(deserialize_with = "null_as_default")]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    request: String,
    signer_name: String,
    #[serde(deserialize_with = "null_as_default")]
    usages: Vec<String>,
    username: String,
    uid: String,
    #[serde(deserialize_with = "null_as_default")]
    groups: Vec<String>,
    extra: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    certificate: Value,
    #[serde(deserialize_with = "null_as_default")]
    conditions: Vec<Value>,
}

/// The right that a requester must have, and the message of the approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recognized {
    /// The agent's own request.
    Own,
    /// By a bootstrap token.
    Bootstrap,
}

impl Recognized {
    fn subresource(self) -> &'static str {
        match self {
            Self::Own => "selfclusteragent",
            Self::Bootstrap => "clusteragent",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Own => "Auto approving self karmada agent certificate after SubjectAccessReview.",
            Self::Bootstrap => "Auto approving karmada agent certificate after SubjectAccessReview.",
        }
    }
}

impl Csr {
    fn is_settled(&self) -> bool {
        let decided = |it: &Value| matches!(it["type"].as_str(), Some("Approved" | "Denied" | "Failed"));
        self.status.certificate.as_str().is_some_and(|it| !it.is_empty()) || self.status.conditions.iter().any(decided)
    }

    fn request(&self) -> Option<Request> {
        let pem = String::from_utf8(STANDARD.decode(&self.spec.request).ok()?).ok()?;
        pki::request::read(&pem).ok()
    }
}

/// The ways in which a request may be approved, in order; empty for a request that is not an agent's.
fn recognized(csr: &Csr, request: &Request) -> Vec<Recognized> {
    let spec = &csr.spec;
    let names = request.alternative_names;
    let has = |usage: &&str| spec.usages.iter().any(|requested| requested == usage);
    let is_usual = |usage: &String| usage == ENCIPHERMENT || REQUIRED.contains(&usage.as_str());
    let user = request.common_name.as_str();
    let cluster = agents::cluster_of(user);
    let is_agents = spec.signer_name == SIGNER
        && request.organizations == [agents::GROUP]
        && (user == agents::RBAC_GENERATOR || cluster.is_some_and(|it| agents::name_complaint(it).is_none()))
        && !(names.dns || names.ip || names.email || names.uri)
        && REQUIRED.iter().all(has)
        && spec.usages.iter().all(is_usual);
    match is_agents {
        false => Vec::new(),
        // The certificate that grants rights is not renewed.
        true if spec.username == user && cluster.is_some() => vec![Recognized::Own, Recognized::Bootstrap],
        true => vec![Recognized::Bootstrap],
    }
}

pub(crate) fn requests() -> ApiResource {
    ApiResource::cluster("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
}

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<ObjectKey>> = context.queue();
    let informer = context.control.informer(&requests());
    let keys = queue.clone();
    informer.subscribe(move |event| {
        if !matches!(event, Event::Deleted(_)) {
            keys.add(event.object().key());
        }
    });
    if !context.synced().await || !informer.synced().await {
        return;
    }
    let stop = context.stop.clone();
    run_workers("agent-csr-approving-controller", queue, 4, stop, move |key: ObjectKey| {
        let context = context.clone();
        async move { reconcile(&context, &key).await }
    })
    .await;
}

async fn reconcile(context: &Context, key: &ObjectKey) -> Result<Next> {
    let Some(object) = context.control.informer(&requests()).cache().get(key).filter(|it| !it.is_deleting()) else {
        return Ok(Next::Done);
    };
    let what = || format!("CertificateSigningRequest {key}");
    let csr: Csr = object.decode().map_err(|source| Error::Decode { what: what(), source })?;
    if csr.is_settled() {
        return Ok(Next::Done);
    }
    // A request that cannot be parsed is ignored.
    let Some(request) = csr.request() else { return Ok(Next::Done) };
    for way in recognized(&csr, &request) {
        if !may_create(context, key, &csr.spec, way.subresource()).await? {
            continue;
        }
        if way == Recognized::Bootstrap && is_registered(context, &request.common_name).await? {
            let (user, requester) = (&request.common_name, &csr.spec.username);
            tracing::warn!(
                object = %key, user, requester,
                "Certificate of an agent is not approved: its cluster is registered; unregister the cluster first"
            );
            return Ok(Next::Done);
        }
        return approve(context, key, &object, way, context.now()).await;
    }
    Ok(Next::Done)
}

/// Whether the cluster of an agent exists; then no token obtains the agent's identity.
async fn is_registered(context: &Context, user: &str) -> Result<bool> {
    let Some(cluster) = agents::cluster_of(user) else { return Ok(false) };
    let found = context.client.get_opt(&Cluster::api_resource(), &ObjectKey::cluster(cluster)).await;
    Ok(found.during(|| format!("reading cluster {cluster}"))?.is_some())
}

async fn may_create(context: &Context, key: &ObjectKey, spec: &Spec, subresource: &str) -> Result<bool> {
    let reviews = ApiResource::cluster("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews");
    let mut review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": spec.username, "uid": spec.uid, "groups": spec.groups,
        "resourceAttributes": {"group": "certificates.k8s.io", "version": "*", "resource": "certificatesigningrequests",
            "subresource": subresource, "verb": "create"}}});
    if spec.extra.is_object() {
        review["spec"]["extra"] = spec.extra.clone();
    }
    let reviewing = || format!("reviewing the rights of the requester of CertificateSigningRequest {key}");
    let answer = context.client.create(&reviews, &review).await.during(reviewing)?;
    let answer = answer.to_value().map_err(|source| Error::Decode { what: "a SubjectAccessReview".into(), source })?;
    Ok(answer["status"]["allowed"] == true)
}

async fn approve(context: &Context, key: &ObjectKey, object: &Object, way: Recognized, now: Time) -> Result<Next> {
    let condition = json!({"type": "Approved", "status": "True", "reason": "AutoApproved", "message": way.message(),
        "lastUpdateTime": now, "lastTransitionTime": now});
    let metadata = json!({"uid": object.uid(), "resourceVersion": object.resource_version()});
    let patch = Patch::Merge(json!({"metadata": metadata, "status": {"conditions": [condition]}}));
    let options = PatchOptions { subresource: Some("approval"), ..PatchOptions::default() };
    match context.client.patch(&requests(), key, &patch, &options).await {
        Err(error) if error.is_not_found() => Ok(Next::Done),
        other => other.map(|_| Next::Done).during(|| format!("approving CertificateSigningRequest {key}")),
    }
}

#[cfg(test)]
mod tests {
    use pki::request::AlternativeNames;

    use super::*;

    #[test]
    fn agent_requests_are_recognized() {
        let check = |user: &str, requester: &str, change: &dyn Fn(&mut Csr, &mut Request), expected: &[Recognized]| {
            let usages = ["digital signature", "key encipherment", "client auth"].map(str::to_owned).to_vec();
            let spec = Spec { signer_name: SIGNER.into(), usages, username: requester.into(), ..Spec::default() };
            let mut csr = Csr { spec, ..Csr::default() };
            let mut request = Request {
                common_name: user.into(),
                organizations: vec![agents::GROUP.into()],
                alternative_names: AlternativeNames::default(),
            };
            change(&mut csr, &mut request);
            assert_eq!(recognized(&csr, &request), expected, "{user} by {requester}: {csr:?} {request:?}");
        };
        let (m1, token) = ("system:karmada:agent:m1", "system:bootstrap:abcdef");
        let (own, bootstrap): (&[Recognized], &[Recognized]) =
            (&[Recognized::Own, Recognized::Bootstrap], &[Recognized::Bootstrap]);
        check(m1, token, &|_, _| (), bootstrap);
        check(m1, m1, &|_, _| (), own);
        check(m1, "system:karmada:agent:m2", &|_, _| (), bootstrap);
        check(agents::RBAC_GENERATOR, token, &|_, _| (), bootstrap);
        check(agents::RBAC_GENERATOR, agents::RBAC_GENERATOR, &|_, _| (), bootstrap);
        check("system:karmada:agent:", token, &|_, _| (), &[]);
        check("system:karmada:agent:m2-impersonator", token, &|_, _| (), &[]);
        check("system:admin", token, &|_, _| (), &[]);
        check(m1, token, &|_, request| request.organizations.push("system:masters".into()), &[]);
        check(m1, token, &|_, request| request.organizations.clear(), &[]);
        check(m1, token, &|_, request| request.alternative_names.dns = true, &[]);
        check(m1, token, &|_, request| request.alternative_names.uri = true, &[]);
        check(m1, token, &|csr, _| csr.spec.usages.retain(|it| it != ENCIPHERMENT), bootstrap);
        check(m1, token, &|csr, _| csr.spec.usages.retain(|it| it != "client auth"), &[]);
        check(m1, token, &|csr, _| csr.spec.usages.push("server auth".into()), &[]);
        check(m1, token, &|csr, _| csr.spec.signer_name = "kubernetes.io/kubelet-serving".into(), &[]);
    }
}
