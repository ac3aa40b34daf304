//! The objects in which the trusted authorities are published besides `kube-root-ca.crt`.

use anyhow::Context as _;
use apimachinery::{ApiResource, ObjectKey, yaml};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, Patch, PatchOptions};
use serde_json::{Value, json};

/// `clients` and `front_proxy` are the authorities of client certificates and of the front proxy, for aggregated
/// servers; `trust` are those with which new clusters verify the server.
///
/// # Errors
/// An object that cannot be read or written.
pub async fn update(client: &Client, (clients, front_proxy): (&str, &str), trust: &str) -> anyhow::Result<()> {
    let authentication = ObjectKey::namespaced("kube-system", "extension-apiserver-authentication");
    patch(client, &authentication, |data| {
        let mut desired = vec![("client-ca-file", clients)];
        // Missing where the operator's own certificate is presented.
        if data["requestheader-client-ca-file"].is_string() {
            desired.push(("requestheader-client-ca-file", front_proxy));
        }
        let differing = desired.into_iter().filter(|(key, pem)| data[*key] != **pem);
        let changes: serde_json::Map<String, Value> =
            differing.map(|(key, pem)| (key.to_owned(), pem.into())).collect();
        (!changes.is_empty()).then(|| changes.into())
    })
    .await?;
    patch(client, &ObjectKey::namespaced("kube-public", "cluster-info"), |data| {
        let text = data["kubeconfig"].as_str()?;
        Some(json!({"kubeconfig": with_trust(text, trust)?}))
    })
    .await
}

/// Changes the data of a ConfigMap if it exists and `change` returns something.
async fn patch(client: &Client, key: &ObjectKey, change: impl Fn(&Value) -> Option<Value>) -> anyhow::Result<()> {
    let resource = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let attempt = || format!("publishing the trusted authorities in ConfigMap {key}");
    let Some(live) = client.get_opt(&resource, key).await.with_context(attempt)? else { return Ok(()) };
    let live = live.to_value().with_context(attempt)?;
    let Some(data) = change(&live["data"]) else { return Ok(()) };
    let patch = json!({"metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}, "data": data});
    client.patch(&resource, key, &Patch::Merge(patch), &PatchOptions::default()).await.with_context(attempt)?;
    Ok(())
}

/// The kubeconfig with `trust` in place of our older bundle; `None` if it is unchanged. A cluster with a foreign
/// authority is not changed.
fn with_trust(kubeconfig: &str, trust: &str) -> Option<String> {
    let mut document = yaml::to_json_value(kubeconfig.as_bytes()).ok()?;
    let authorities = pki::holder::certificates(trust).ok()?;
    let mut changed = false;
    for cluster in document.get_mut("clusters")?.as_array_mut()? {
        let present = STANDARD.decode(cluster["cluster"]["certificate-authority-data"].as_str()?).ok()?;
        let present = String::from_utf8(present).ok()?;
        let is_own = pki::holder::certificates(&present).ok()?.iter().any(|it| authorities.contains(it));
        if is_own && present != trust {
            cluster["cluster"]["certificate-authority-data"] = STANDARD.encode(trust).into();
            changed = true;
        }
    }
    changed.then(|| yaml::to_string(&document))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_bundles_are_replaced() {
        let block = |text: &str| pki::holder::der_to_pem("CERTIFICATE", text.as_bytes());
        let trust = block("first") + &block("second");
        let document = |bundle: &str| {
            let ca = STANDARD.encode(bundle);
            format!(
                "apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster: {{server: \"https://a\", certificate-authority-data: {ca}}}\n"
            )
        };
        for (present, expected) in [
            (block("first"), Some(trust.clone())),
            (block("second") + &block("of others"), Some(trust.clone())),
            (trust.clone(), None),
            (block("of others"), None),
        ] {
            let replaced = with_trust(&document(&present), &trust);
            let found = replaced.map(|text| {
                let document = yaml::to_json_value(text.as_bytes()).expect("YAML");
                assert_eq!(document["clusters"][0]["cluster"]["server"], "https://a");
                let ca = document["clusters"][0]["cluster"]["certificate-authority-data"]
                    .as_str()
                    .expect("a text")
                    .to_owned();
                String::from_utf8(STANDARD.decode(ca).expect("base64")).expect("PEM")
            });
            assert_eq!(found, expected, "{present}");
        }
        assert_eq!(with_trust("not a kubeconfig", &trust), None);
    }
}
