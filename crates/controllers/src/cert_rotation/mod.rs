//! Renews the client certificate with which an agent reaches the control plane, before it expires: creates a
//! CertificateSigningRequest for an approver, and writes the certificate into the Secret of the agent's kubeconfig in
//! the member. The agent reconnects with it.

mod credential;

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, Patch, PatchOptions};
use controller_runtime::Failures;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;
use world::Level;

use crate::Context;
use crate::error::{During, Error, Result};
use credential::Credential;

/// The name of the Secret, and of the kubeconfig in it.
const NAME: &str = "karmada-kubeconfig";

/// As upstream: the request is checked every second for five minutes.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS: usize = 300;

/// How the agent's certificate is rotated.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// `--karmada-kubeconfig-namespace`, in the member.
    pub namespace: String,
    /// `--cert-rotation-checking-interval`
    pub interval: Duration,
    /// `--cert-rotation-remaining-time-threshold`, of the lifetime.
    pub threshold: f64,
    /// The newest kubeconfig, for the connection to the control plane.
    pub kubeconfig: Arc<Level<Option<Arc<str>>>>,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            namespace: karmada_api::constants::namespaces::SYSTEM.to_owned(),
            interval: Duration::from_secs(300),
            threshold: 0.2,
            kubeconfig: Arc::default(),
        }
    }
}

/// A request that is not answered yet, with the key that only this process has.
struct Pending {
    name: String,
    key: String,
}

/// The state of a signing request.
#[derive(Debug, PartialEq)]
enum Answer {
    Waits,
    /// The certificate in PEM.
    Issued(String),
    Refused(String),
}

pub(crate) async fn run(context: Context) {
    let Some(cluster) = context.agent_of.clone() else { return };
    let rotating = rotate(&context, &cluster);
    tokio::select! {
        biased;
        () = context.stop.cancelled() => {}
        () = rotating => {}
    }
}

async fn rotate(context: &Context, cluster: &str) {
    let mut tick = tokio::time::interval(context.settings.rotation.interval);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut pending, failures) = (None, Failures::lasting(Duration::ZERO));
    loop {
        tick.tick().await;
        match check(context, cluster, &mut pending).await {
            Ok(()) => {
                if let Some(lasted) = failures.succeeded(&()) {
                    tracing::info!(cluster, duration = ?lasted, "Certificate of the agent is checked again");
                }
            }
            Err(error) => {
                let err = error.to_string();
                if failures.failed(&(), &err) {
                    tracing::warn!(cluster, err, "Certificate of the agent cannot be rotated; retrying");
                }
            }
        }
    }
}

async fn check(context: &Context, cluster: &str, pending: &mut Option<Pending>) -> Result<()> {
    let rotation = &context.settings.rotation;
    let key = ObjectKey::namespaced(rotation.namespace.as_str(), NAME);
    let member = context.members.get(cluster).await?.client.clone();
    let secret = member.get(&secrets(), &key).await.during(|| format!("reading secret {key} of cluster {cluster}"))?;
    let kubeconfig = kubeconfig_of(&secret, &key)?;
    let unusable = |why: String| Error::Wait(format!("the kubeconfig in secret {key} of cluster {cluster}: {why}"));
    let credential = Credential::of(&kubeconfig).map_err(unusable)?;
    if !credential.is_due(rotation.threshold, context.world.now().as_second()) {
        // Another agent of the cluster may have rotated it.
        *pending = None;
        return Ok(());
    }
    let waiting = match pending.take() {
        Some(waiting) => waiting,
        None => request(context, cluster, &credential).await?,
    };
    let certificate = match answer(&context.client, &waiting.name).await? {
        Answer::Issued(certificate) => certificate,
        Answer::Refused(why) => return Err(Error::Wait(why)),
        Answer::Waits => {
            let why = format!("certificate signing request {} waits for an approval", waiting.name);
            *pending = Some(waiting);
            return Err(Error::Wait(why));
        }
    };
    let published = published(&kubeconfig).await;
    let changed = credential::renewed(&kubeconfig, published.as_deref(), &certificate, &waiting.key);
    let changed = changed.map_err(unusable)?;
    let patch = json!({
        "metadata": {"resourceVersion": secret.resource_version()}, "data": {NAME: STANDARD.encode(&changed)},
    });
    let written = member.patch(&secrets(), &key, &Patch::Merge(patch), &PatchOptions::default()).await;
    written.during(|| format!("writing secret {key} of cluster {cluster}"))?;
    rotation.kubeconfig.set(Some(changed.into()));
    tracing::info!(cluster, csr = waiting.name, "Certificate of the agent was rotated");
    Ok(())
}

/// The kubeconfig in `kube-public/cluster-info`, which clients without credentials may read, such as registering
/// clusters. If a control plane publishes none, the agent keeps its known authorities.
async fn published(kubeconfig: &str) -> Option<String> {
    let anonymous = credential::anonymous(kubeconfig).ok()?;
    let client = Client::from_kubeconfig_text(&anonymous, None).await.ok()?;
    let resource = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let found = client.get(&resource, &ObjectKey::namespaced("kube-public", "cluster-info")).await.ok()?;
    Some(found.to_value().ok()?["data"]["kubeconfig"].as_str()?.to_owned())
}

/// The kubeconfig in the Secret of the agent, which has the newest certificate.
///
/// # Errors
/// If the member does not return it, with the name of the Secret.
pub async fn stored_kubeconfig(member: &Client, namespace: &str) -> std::result::Result<String, String> {
    let key = ObjectKey::namespaced(namespace, NAME);
    let secret = member.get(&secrets(), &key).await.map_err(|error| format!("reading secret {key}: {error}"))?;
    kubeconfig_of(&secret, &key).map_err(|error| error.to_string())
}

/// The kubeconfig `file` with the certificate of `newest`; `None` if that certificate was not issued later. `context` is
/// that of the file, `None` the current one.
///
/// # Errors
/// The message is the reason why the certificate cannot replace that of the file.
pub fn with_newer_certificate(
    file: &str,
    context: Option<&str>,
    newest: &str,
) -> std::result::Result<Option<String>, String> {
    credential::succeeded(file, context, newest)
}

fn secrets() -> ApiResource {
    ApiResource::namespaced("", "v1", "Secret", "secrets")
}

fn requests() -> ApiResource {
    ApiResource::cluster("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
}

fn kubeconfig_of(secret: &Object, key: &ObjectKey) -> Result<String> {
    let document = crate::error::decoded(key, secret.to_value())?;
    let bytes = document["data"][NAME].as_str().and_then(|text| STANDARD.decode(text).ok());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| Error::Wait(format!("secret {key} has no kubeconfig under the key {NAME}")))
}

async fn request(context: &Context, cluster: &str, credential: &Credential) -> Result<Pending> {
    let unmade = |error: pki::Error| Error::Wait(format!("making a certificate signing request: {error}"));
    let (csr, key) = pki::request::create(&credential.user, &credential.groups).map_err(unmade)?;
    let object = credential.request(cluster, &context.world.random_suffix(5), &csr);
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let created = context.client.create(&requests(), &object).await;
    created.during(|| format!("creating certificate signing request {name}"))?;
    Ok(Pending { name, key })
}

/// Waits for the response. Agents have no right to watch requests.
async fn answer(client: &Client, name: &str) -> Result<Answer> {
    let key = ObjectKey::cluster(name);
    for _ in 0..LOOKS {
        let live = client.get_opt(&requests(), &key).await;
        let Some(live) = live.during(|| format!("reading certificate signing request {name}"))? else {
            return Ok(Answer::Refused(format!("certificate signing request {name} is gone")));
        };
        match read(name, &crate::error::decoded(&key, live.to_value())?) {
            Answer::Waits => tokio::time::sleep(LOOK).await,
            answer => return Ok(answer),
        }
    }
    Ok(Answer::Waits)
}

fn read(name: &str, request: &Value) -> Answer {
    let conditions = request["status"]["conditions"].as_array().into_iter().flatten();
    let mut refusals = conditions.filter(|it| it["type"] == "Denied" || it["type"] == "Failed");
    if let Some(refusal) = refusals.next() {
        let text = |field: &str| refusal[field].as_str().unwrap_or_default();
        let (what, reason, message) = (text("type").to_lowercase(), text("reason"), text("message"));
        return Answer::Refused(format!("certificate signing request {name} was {what}: {reason}: {message}"));
    }
    let certificate = request["status"]["certificate"].as_str().and_then(|text| STANDARD.decode(text).ok());
    match certificate.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|text| !text.is_empty()) {
        Some(certificate) => Answer::Issued(certificate),
        None => Answer::Waits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_a_signing_request_are_read() {
        let approved = json!({"type": "Approved"});
        for (status, expected) in [
            (json!({}), Answer::Waits),
            (json!({"conditions": [approved]}), Answer::Waits),
            (json!({"conditions": [approved], "certificate": "UEVN"}), Answer::Issued("PEM".into())),
            (
                json!({"conditions": [{"type": "Denied", "reason": "No", "message": "not this one"}]}),
                Answer::Refused("certificate signing request a was denied: No: not this one".into()),
            ),
            (
                json!({"conditions": [approved, {"type": "Failed", "reason": "R", "message": "m"}]}),
                Answer::Refused("certificate signing request a was failed: R: m".into()),
            ),
        ] {
            assert_eq!(read("a", &json!({ "status": status })), expected, "{status}");
        }
    }
}
