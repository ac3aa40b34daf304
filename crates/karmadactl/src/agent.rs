//! Registration of an agent's cluster in the control plane, in pull mode.
//!
//! Absent objects are created and differing ones corrected, so an agent runs this at every start.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey, StatusReason};
use client::{Client, ListOptions, Patch, PatchOptions};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::answers::text;
use crate::error::Error;
use crate::join::{
    account_objects, account_secret, cluster_id, create_if_absent, decoded, impersonator_objects, impersonator_secret,
    namespace, own_id,
};
use crate::member_secrets::{goes_with, put_secret};
use crate::resources;

/// The flags of an agent that describe its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    pub name: String,
    /// `--cluster-namespace`: where the credentials are, on both sides.
    pub namespace: String,
    pub api_endpoint: String,
    pub proxy_url: String,
    pub provider: String,
    pub region: String,
    pub zones: Vec<String>,
    /// The member's certificate is not verified by the agent, nor shall it be by others.
    pub insecure: bool,
    /// `--report-secrets`: the credentials that the control plane gets.
    pub reports_credentials: bool,
    pub reports_impersonator: bool,
}

/// Registers the cluster, with the credentials to report. Returns the fields of the Cluster that differ from the flags
/// and that the agent has no right to change.
///
/// # Errors
/// With upstream's messages; objects created before the error stay.
pub fn register<'a>(
    control: &'a Client,
    member: &'a Client,
    desired: &'a Registration,
) -> BoxFuture<'a, Result<Vec<String>, Error>> {
    Box::pin(async move {
        let id = cluster_id(member).await?;
        refuse_itself(control, desired, &id).await?;
        refuse_another(control, &desired.name, &id).await?;
        let secrets = prepare(member, desired).await?;
        let failed = |error: Error| Error::message(format!("failed to register with karmada control plane: {error}"));
        announce(control, desired, &id, &secrets).await.map_err(failed)
    })
}

async fn refuse_itself(control: &Client, desired: &Registration, id: &str) -> Result<(), Error> {
    if own_id(control).await?.as_deref() != Some(id) {
        return Ok(());
    }
    Err(Error::message(format!(
        "cluster {} is the control plane itself: both have the ID {id} (the UID of namespace kube-system); nothing was \
         changed. Give the kubeconfig of the member with --kubeconfig and that of the control plane with \
         --karmada-kubeconfig",
        desired.name
    )))
}

async fn refuse_another(control: &Client, name: &str, id: &str) -> Result<(), Error> {
    let clusters = control.list(&resources::CLUSTER, None, &ListOptions::default()).await;
    for cluster in clusters.map_err(Error::client("list clusters"))?.items {
        let tree = decoded(&cluster)?;
        let other = text(&tree["spec"]["id"]);
        if other == id && cluster.name() != name {
            let known = cluster.name();
            let message = format!(
                "the same cluster has been registered with name {known}: both have the ID {id} (the UID of namespace \
                 kube-system); nothing was changed. Start the agent with --cluster-name {known}, or remove cluster \
                 {known} first"
            );
            return Err(Error::message(message));
        }
        // Upstream would take over the name, and the workloads propagated to the other cluster.
        if cluster.name() == name && !other.is_empty() && other != id {
            let message = format!(
                "the cluster name {name} has been registered by the cluster with ID {other}, this one has {id}; choose \
                 another --cluster-name, or unjoin that cluster first"
            );
            return Err(Error::message(message));
        }
    }
    Ok(())
}

/// The secrets for the control plane, by name.
async fn prepare(member: &Client, desired: &Registration) -> Result<Vec<(String, Value)>, Error> {
    let (ns, name) = (desired.namespace.as_str(), desired.name.as_str());
    let mut objects = Vec::new();
    if desired.reports_impersonator {
        objects.extend(impersonator_objects(ns));
    }
    if desired.reports_credentials {
        objects.extend(account_objects(ns, name, &format!("karmada-{name}")));
    }
    if !objects.is_empty() {
        objects.insert(0, namespace(ns));
    }
    for (resource, object) in &objects {
        create_if_absent(member, resource, object).await?;
    }
    let mut secrets = Vec::new();
    if desired.reports_impersonator {
        let filled = impersonator_secret(member, ns, name).await?;
        secrets.push((format!("{name}-impersonator"), json!({"token": text(&filled["data"]["token"])})));
    }
    if desired.reports_credentials {
        let filled = account_secret(member, ns, name).await?;
        let data = &filled["data"];
        secrets.push((name.to_owned(), json!({"caBundle": text(&data["ca.crt"]), "token": text(&data["token"])})));
    }
    Ok(secrets)
}

async fn announce(
    control: &Client,
    desired: &Registration,
    id: &str,
    secrets: &[(String, Value)],
) -> Result<Vec<String>, Error> {
    let ns = desired.namespace.as_str();
    // An agent may read namespaces, but usually has no right to create them.
    let key = ObjectKey::cluster(ns);
    let found =
        control.get_opt(&resources::NAMESPACE, &key).await.map_err(Error::client(format!("get namespace {ns}")))?;
    if found.is_none() {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}});
        create_if_absent(control, &resources::NAMESPACE, &object).await?;
    }
    let spec = spec(desired, id);
    for (name, data) in secrets {
        put_secret(control, ns, name, data, &spec).await?;
    }
    let (cluster, kept) = put_cluster(control, &desired.name, &spec).await?;
    for (name, _) in secrets {
        goes_with(control, ns, name, &cluster).await?;
    }
    Ok(kept)
}

/// The Cluster, and its fields that stay as they are because the agent may not change them.
async fn put_cluster(control: &Client, name: &str, spec: &Value) -> Result<(Arc<Object>, Vec<String>), Error> {
    let object = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": spec});
    match control.create(&resources::CLUSTER, &object).await {
        Err(error) if error.is_already_exists() => {}
        other => return other.map(|it| (it, Vec::new())).map_err(Error::client(format!("create cluster {name}"))),
    }
    let key = ObjectKey::cluster(name);
    let live = control.get(&resources::CLUSTER, &key).await.map_err(Error::client(format!("get cluster {name}")))?;
    let differing = differing(&decoded(&live)?["spec"], spec);
    if differing.is_empty() {
        return Ok((live, differing));
    }
    // Agents that were registered have no right to this; those of an administrator's kubeconfig have.
    let patch = Patch::Merge(json!({ "spec": spec }));
    match control.patch(&resources::CLUSTER, &key, &patch, &PatchOptions::default()).await {
        Err(error) if error.reason() == Some(StatusReason::Forbidden) => Ok((live, differing)),
        other => other.map(|it| (it, Vec::new())).map_err(Error::client(format!("update cluster {name}"))),
    }
}

/// The fields of `desired` that `live` has otherwise. A field that is empty by default may be absent.
fn differing(live: &Value, desired: &Value) -> Vec<String> {
    let is_empty = |value: &Value| matches!(value, Value::Null | Value::Bool(false)) || value == "";
    let differs = |field: &str, value: &Value| {
        let live = &live[field];
        live != value && !(is_empty(live) && is_empty(value))
    };
    let fields = desired.as_object().into_iter().flatten();
    fields.filter(|(field, value)| differs(field, value)).map(|(field, _)| field.clone()).collect()
}

/// Fields without a flag keep their values, except the endpoint of the cluster.
fn spec(desired: &Registration, id: &str) -> Value {
    let mut spec = json!({"syncMode": "Pull", "id": id, "apiEndpoint": desired.api_endpoint,
        "proxyURL": desired.proxy_url, "insecureSkipTLSVerification": desired.insecure});
    let mut set = |field: &str, value: Value, is_set: bool| {
        if is_set {
            spec[field] = value;
        }
    };
    set("provider", json!(desired.provider), !desired.provider.is_empty());
    set("region", json!(desired.region), !desired.region.is_empty());
    set("zones", json!(desired.zones), !desired.zones.is_empty());
    let secret = |name: String| json!({"namespace": desired.namespace, "name": name});
    set("secretRef", secret(desired.name.clone()), desired.reports_credentials);
    set("impersonatorSecretRef", secret(format!("{}-impersonator", desired.name)), desired.reports_impersonator);
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_fields_are_not_written() {
        let live = json!({"syncMode": "Pull", "id": "a", "region": "r", "taints": [{"key": "k"}]});
        for (desired, expected) in [
            (json!({"syncMode": "Pull", "id": "a", "proxyURL": "", "insecureSkipTLSVerification": false}), vec![]),
            (json!({"region": "other", "zones": ["z"]}), vec!["region", "zones"]),
            (json!({"region": ""}), vec!["region"]),
        ] {
            assert_eq!(differing(&live, &desired), expected, "{desired}");
        }
    }

    #[test]
    fn unreported_secrets_are_not_referenced() {
        let desired =
            Registration { name: "m1".into(), namespace: "ns".into(), zones: vec!["z".into()], ..Default::default() };
        let spec_of = |reports_credentials, reports_impersonator| {
            spec(&Registration { reports_credentials, reports_impersonator, ..desired.clone() }, "id")
        };
        let bare = spec_of(false, false);
        assert_eq!((&bare["syncMode"], &bare["zones"], bare.get("region")), (&json!("Pull"), &json!(["z"]), None));
        assert_eq!((bare.get("secretRef"), bare.get("impersonatorSecretRef")), (None, None));
        let full = spec_of(true, true);
        assert_eq!(full["secretRef"], json!({"namespace": "ns", "name": "m1"}));
        assert_eq!(full["impersonatorSecretRef"], json!({"namespace": "ns", "name": "m1-impersonator"}));
    }
}
