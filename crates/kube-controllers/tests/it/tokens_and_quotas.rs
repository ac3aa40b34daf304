//! Bootstrap tokens, and the usage of ResourceQuotas.

use serde_json::{Value, json};

use crate::harness::{Plane, namespace, resource};

fn token(id: &str, expiration: Option<&str>) -> Value {
    let mut text = json!({"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"});
    if let Some(expiration) = expiration {
        text["expiration"] = expiration.into();
    }
    json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "stringData": text,
        "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"}})
}

#[tokio::test(start_paused = true)]
async fn cluster_info_is_signed_for_every_signing_token() {
    let plane = Plane::start(&["bootstrapsigner", "tokencleaner"]).await;
    for name in ["kube-system", "kube-public"] {
        plane.create(namespace(name)).await;
    }
    plane.create(token("aaaaaa", None)).await;
    let soon = (plane.world.now() + jiff::SignedDuration::from_secs(300)).to_string();
    plane.create(token("bbbbbb", Some(&soon))).await;
    let info = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"kubeconfig": "k"},
        "metadata": {"name": "cluster-info", "namespace": "kube-public"}});
    plane.create(info).await;
    let (maps, secrets) = (resource("v1", "ConfigMap"), resource("v1", "Secret"));
    let signed_by = async |ids: &[&str]| {
        let data = plane.get(&maps, "kube-public/cluster-info").await?["data"].take();
        let keys = data.as_object()?.keys().filter_map(|key| key.strip_prefix("jws-kubeconfig-"));
        (keys.collect::<Vec<_>>() == ids).then_some(())
    };
    plane.until("both tokens sign", async || signed_by(&["aaaaaa", "bbbbbb"]).await).await;
    plane.until_gone(&secrets, "kube-system/bootstrap-token-bbbbbb").await;
    plane.until("one signature is left", async || signed_by(&["aaaaaa"]).await).await;
    assert!(plane.get(&secrets, "kube-system/bootstrap-token-aaaaaa").await.is_some(), "it never expires");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn quotas_report_their_usage() {
    let plane = Plane::start(&["resourcequota"]).await;
    let hard = json!({"pods": "5", "requests.cpu": "2", "count/configmaps": "10", "count/jobs.batch": "1"});
    plane
        .create(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "demo"},
            "spec": {"hard": hard}}))
        .await;
    let quotas = resource("v1", "ResourceQuota");
    let until_used = async |expected: Value| {
        let reached = async || {
            let status = plane.get(&quotas, "demo/q").await?["status"].take();
            (status == json!({"hard": hard, "used": expected})).then_some(())
        };
        plane.until(&expected.to_string(), reached).await;
    };
    until_used(json!({"pods": "0", "requests.cpu": "0", "count/configmaps": "0", "count/jobs.batch": "0"})).await;
    for name in ["a", "b"] {
        plane
            .create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "demo"},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "250m"}}}]}}))
            .await;
    }
    plane
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "demo"}}))
        .await;
    until_used(json!({"pods": "2", "requests.cpu": "500m", "count/configmaps": "1", "count/jobs.batch": "0"})).await;
    let pods = resource("v1", "Pod");
    plane.delete(&pods, "demo/a", "").await;
    plane.merge_status(&pods, "demo/b", json!({"status": {"phase": "Succeeded"}})).await;
    until_used(json!({"pods": "0", "requests.cpu": "0", "count/configmaps": "1", "count/jobs.batch": "0"})).await;
    plane.shutdown().await;
}
