//! Service accounts, their tokens, and the root certificate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{Plane, namespace, resource};

fn token_secret(account: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "t", "namespace": "demo", "annotations": {"kubernetes.io/service-account.name": account}}})
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_an_account_and_the_root_certificate() {
    let plane = Plane::start(&["serviceaccount", "root-ca-cert-publisher"]).await;
    let (accounts, maps) = (resource("v1", "ServiceAccount"), resource("v1", "ConfigMap"));
    plane.create(namespace("later")).await;
    for name in ["demo", "later"] {
        plane.until("account", async || plane.get(&accounts, &format!("{name}/default")).await).await;
        let root = plane.until("root", async || plane.get(&maps, &format!("{name}/kube-root-ca.crt")).await).await;
        assert_eq!(root["data"], json!({"ca.crt": "root"}));
    }
    plane.settle().await;
    // Three namespaces with one request for each of the two objects.
    let requests: Vec<_> = plane.requests().into_iter().collect();
    assert_eq!(requests, [("create configmaps".to_owned(), 3), ("create serviceaccounts".to_owned(), 3)]);

    plane.delete(&accounts, "demo/default", "").await;
    plane.until("account again", async || plane.get(&accounts, "demo/default").await).await;
    plane.merge(&maps, "demo/kube-root-ca.crt", json!({"data": {"ca.crt": "forged", "x": "y"}})).await;
    let corrected = async || {
        let root = plane.get(&maps, "demo/kube-root-ca.crt").await?;
        (root["data"] == json!({"ca.crt": "root"})).then_some(())
    };
    plane.until("root corrected", corrected).await;

    plane.settings.root_ca_pem.as_ref().expect("a root").set("root, next root".into());
    for name in ["demo", "later"] {
        let published = async || {
            let root = plane.get(&maps, &format!("{name}/kube-root-ca.crt")).await?;
            (root["data"] == json!({"ca.crt": "root, next root"})).then_some(())
        };
        plane.until("the next root", published).await;
    }
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn token_secrets_are_filled_and_deleted_with_their_account() {
    let plane = Plane::start(&["serviceaccount-token"]).await;
    let (accounts, secrets) = (resource("v1", "ServiceAccount"), resource("v1", "Secret"));
    let account = plane
        .create(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "demo"}}));
    let account = account.await;
    plane.create(token_secret("a")).await;
    let filled = async || plane.get(&secrets, "demo/t").await.filter(|secret| secret["data"]["token"].is_string());
    let secret = plane.until("a token", filled).await;
    let text = |field: &str| {
        let bytes = STANDARD.decode(secret["data"][field].as_str().expect("a text")).expect("base64");
        String::from_utf8(bytes).expect("UTF-8")
    };
    assert_eq!((text("ca.crt"), text("namespace")), ("root".into(), "demo".into()));
    assert_eq!(secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"], account.uid());
    let signer = plane.settings.token_signer.as_ref().expect("a signer");
    let claims = pki::Verifier::from_pems([signer.current().public_pem()]).expect("a key").verify(&text("token"));
    let claims = claims.expect("a genuine token");
    plane.settings.root_ca_pem.as_ref().expect("a root").set("root, next root".into());
    let published = async || {
        let secret = plane.get(&secrets, "demo/t").await?;
        (secret["data"]["ca.crt"] == STANDARD.encode("root, next root")).then_some(())
    };
    plane.until("the next root", published).await;
    assert_eq!((claims.sub.as_str(), claims.legacy_uid.as_str()), ("system:serviceaccount:demo:a", account.uid()));
    plane.settle().await;
    assert_eq!(plane.requests().into_iter().collect::<Vec<_>>(), [("patch secrets".to_owned(), 2)]);

    plane.merge(&secrets, "demo/t", json!({"data": {"token": null, "ca.crt": "Zm9yZ2Vk"}})).await;
    plane.until("a token again", filled).await;
    plane.delete(&accounts, "demo/a", "").await;
    plane.until_gone(&secrets, "demo/t").await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_secret_without_an_account_is_deleted() {
    let plane = Plane::start(&["serviceaccount-token"]).await;
    let secrets = resource("v1", "Secret");
    let mut opaque = token_secret("absent");
    opaque["type"] = "Opaque".into();
    opaque["metadata"]["name"] = "mine".into();
    plane.create(opaque).await;
    plane.create(token_secret("absent")).await;
    plane.until_gone(&secrets, "demo/t").await;
    plane.settle().await;
    assert!(plane.get(&secrets, "demo/mine").await.is_some());
    plane.shutdown().await;
}
