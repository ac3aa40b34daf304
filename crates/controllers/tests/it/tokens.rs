//! Clusters that an API server without our admission has stored: their tokens are sent only to their own destinations.

use apimachinery::{ApiResource, ObjectKey};
use client::PatchOptions;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::annotations::CREDENTIAL_ENDPOINT;
use serde_json::{Value, json};

use crate::harness::Plane;

fn secrets() -> ApiResource {
    ApiResource::namespaced("", "v1", "Secret", "secrets")
}

async fn recorded(plane: &Plane) -> Value {
    let key = ObjectKey::namespaced("karmada-cluster", "m1");
    let secret = plane.get(&secrets(), &key).await.expect("the secret");
    secret["metadata"]["annotations"][CREDENTIAL_ENDPOINT].clone()
}

#[tokio::test(start_paused = true)]
async fn a_token_stays_with_its_first_destination() {
    let plane = Plane::of(&["m1"], controllers::Settings::default()).await;
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"syncMode": "Push", "apiEndpoint": "https://127.0.0.1:1", "insecureSkipTLSVerification": true,
        "secretRef": {"namespace": "karmada-cluster", "name": "m1"}}});
    plane.create(Cluster::api_resource(), cluster).await;
    let key = ObjectKey::cluster("m1");
    let connected = async |spec: &Value, expected: &str| {
        plane
            .until(&format!("{spec}: {expected}"), async || {
                let found = plane.context.members().get("m1").await;
                let found = found.map_or_else(|error| error.to_string(), |_| "connected".to_owned());
                found.contains(expected).then_some(())
            })
            .await;
    };
    connected(&json!("the first endpoint"), "connected").await;
    assert_eq!(recorded(&plane).await, "https://127.0.0.1:1");
    for (spec, expected) in [
        (
            json!({"apiEndpoint": "https://127.0.0.1:2"}),
            "was stored for https://127.0.0.1:1, but cluster m1 names https://127.0.0.1:2",
        ),
        (json!({"apiEndpoint": "https://127.0.0.1:1", "proxyURL": "http://127.0.0.1:3"}), "via http://127.0.0.1:3"),
        (
            json!({"apiEndpoint": "http://127.0.0.1:1", "proxyURL": ""}),
            "start the control plane with --allow-http-member-endpoints",
        ),
        (
            json!({"apiEndpoint": "https://169.254.169.254"}),
            "spec.apiEndpoint of cluster m1 is https://169.254.169.254",
        ),
        (json!({"apiEndpoint": "https://127.0.0.1:1", "proxyURL": "http://[fe80::1]"}), "spec.proxyURL of cluster m1"),
        (json!({"proxyURL": ""}), "connected"),
        // Verified with the CA of the Secret, a token may be sent anywhere; this CA is invalid.
        (json!({"apiEndpoint": "https://127.0.0.1:2", "insecureSkipTLSVerification": false}), "the CA bundle"),
    ] {
        plane.merge(&Cluster::api_resource(), &key, json!({ "spec": spec }), PatchOptions::default()).await;
        connected(&spec, expected).await;
        assert_eq!(recorded(&plane).await, "https://127.0.0.1:1");
    }
}

/// The destination is recorded while the certificate is verified, too: the Cluster may change later.
#[tokio::test(start_paused = true)]
async fn a_verified_destination_is_recorded() {
    let plane = Plane::of(&["m1"], controllers::Settings::default()).await;
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"syncMode": "Push", "apiEndpoint": "https://127.0.0.1:1",
        "secretRef": {"namespace": "karmada-cluster", "name": "m1"}}});
    plane.create(Cluster::api_resource(), cluster).await;
    plane.until("recorded", async || (recorded(&plane).await == "https://127.0.0.1:1").then_some(())).await;
}
