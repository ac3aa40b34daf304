//! Service accounts, their tokens, and the root certificate.

use serde_json::json;

use crate::harness::{Plane, namespace, resource};

#[tokio::test(start_paused = true)]
async fn every_namespace_has_its_account_and_the_root_certificate() {
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
    plane.shutdown().await;
}
