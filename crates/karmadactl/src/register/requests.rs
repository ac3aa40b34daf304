//! Certificates for keys that stay in this process: requested with one credential, and signed by the control plane.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::Client;
use karmada_api::agents;
use karmada_api::constants::labels;
use pki::KeyPairPem;
use serde_json::json;

use crate::answers::text;
use crate::error::Error;
use crate::join::decoded;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const POLL: Duration = Duration::from_secs(1);

pub fn resource() -> ApiResource {
    ApiResource::cluster("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
}

/// Requests a certificate for an agent's user, under a name that begins with `prefix`, and waits until it is signed.
/// Returns it with the name of the request.
///
/// # Errors
/// The request is refused, denied, or not signed within `timeout`.
pub async fn obtain(
    client: &Client,
    user: &str,
    prefix: &str,
    lifetime: u32,
    timeout: Duration,
) -> Result<(KeyPairPem, String), Error> {
    let (request, key) = pki::request::create(user, &[agents::GROUP.to_owned()])
        .map_err(|error| Error::message(format!("create a certificate request for {user}: {error}")))?;
    let name = format!("{prefix}{}", world::World::system().random_suffix(5));
    let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name, "labels": {labels::SYSTEM: "true"}},
        "spec": {"request": STANDARD.encode(request), "signerName": SIGNER, "expirationSeconds": lifetime,
            "usages": ["digital signature", "key encipherment", "client auth"]}});
    let failed = format!("create CertificateSigningRequest {name}");
    client.create(&resource(), &object).await.map_err(Error::client(failed))?;
    let certificate = signed(client, &name, user, timeout).await?;
    Ok((KeyPairPem { certificate, key }, name))
}

async fn signed(client: &Client, name: &str, user: &str, timeout: Duration) -> Result<String, Error> {
    let key = ObjectKey::cluster(name);
    let deadline = tokio::time::Instant::now() + timeout;
    loop {
        let live = client.get(&resource(), &key).await;
        let live = decoded(&*live.map_err(Error::client(format!("get CertificateSigningRequest {name}")))?)?;
        let refused = live["status"]["conditions"].as_array().into_iter().flatten();
        if let Some(refused) = refused.into_iter().find(|it| matches!(it["type"].as_str(), Some("Denied" | "Failed"))) {
            let (type_, why) = (text(&refused["type"]), text(&refused["message"]));
            return Err(Error::message(format!("CertificateSigningRequest {name} is {}: {why}", type_.to_lowercase())));
        }
        let certificate = STANDARD.decode(text(&live["status"]["certificate"])).unwrap_or_default();
        if !certificate.is_empty() {
            return String::from_utf8(certificate)
                .map_err(|error| Error::message(format!("CertificateSigningRequest {name} has no PEM: {error}")));
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(Error::message(format!(
                "CertificateSigningRequest {name} for user {user} got no certificate within {}s: the controllers \
                 agentcsrapproving and csrsigning must run, and no cluster of that name may be registered; see kubectl \
                 describe csr {name} in the control plane",
                timeout.as_secs()
            )));
        }
        tokio::time::sleep(POLL).await;
    }
}
