//! The usage that a member reports follows annotations and the default load.

use apimachinery::{ApiResource, ObjectKey};
use client::ListOptions;
use serde_json::{Value, json};
use simulator::{Member, MemberOptions};

use crate::harness::{create, deployment, member, patch, settle};

fn metrics(plural: &str) -> ApiResource {
    match plural {
        "pods" => ApiResource::namespaced("metrics.k8s.io", "v1beta1", "PodMetrics", "pods"),
        _ => ApiResource::cluster("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes"),
    }
}

/// Usage of the first container of each pod: `cpu memory`.
async fn usages(member: &Member, selector: &str) -> Vec<String> {
    let options = ListOptions::labels(selector);
    let list = member.client().list(&metrics("pods"), Some("default"), &options).await.expect("a list");
    let usage = |item: Value| {
        let usage = &item["containers"][0]["usage"];
        format!("{} {}", usage["cpu"].as_str().unwrap_or("-"), usage["memory"].as_str().unwrap_or("-"))
    };
    list.items.iter().map(|item| usage(item.to_value().expect("JSON"))).collect()
}

#[tokio::test(start_paused = true)]
async fn usage_follows_annotations() {
    let load = "cpu=3m,memory=8Mi".parse().expect("a load");
    let member = member(MemberOptions { load, ..MemberOptions::new("m1") }).await;
    create(&member, deployment("web", 2, "100m")).await;
    create(&member, deployment("other", 1, "100m")).await;
    settle().await;
    assert_eq!(usages(&member, "app=web").await, ["3m 8Mi", "3m 8Mi"]);
    let load = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    patch(&member, "Deployment", "web", load("simulator.karmada.io/load", "cpu=400m")).await;
    settle().await;
    assert_eq!(usages(&member, "app=web").await, ["200m 8Mi", "200m 8Mi"]);
    patch(&member, "Deployment", "web", json!({"spec": {"replicas": 4}})).await;
    settle().await;
    assert_eq!(usages(&member, "app=web").await, ["100m 8Mi"; 4], "the load is shared by more pods");
    patch(&member, "Deployment", "web", load("simulator.karmada.io/usage", "cpu=70m,memory=1Gi")).await;
    settle().await;
    assert_eq!(usages(&member, "app=web").await, ["70m 1Gi"; 4]);
    assert_eq!(usages(&member, "").await.len(), 5);

    let nodes = member.client().list(&metrics("nodes"), None, &ListOptions::default()).await.expect("a list");
    let cpu = |item: &Value| item["usage"]["cpu"].as_str().expect("cpu").trim_end_matches('m').parse::<i64>();
    let sum: i64 = nodes.items.iter().map(|it| cpu(&it.to_value().expect("JSON")).expect("milli")).sum();
    assert_eq!((nodes.items.len(), sum), (2, 4 * 70 + 3));
    let node = member.client().get(&metrics("nodes"), &ObjectKey::cluster("m1-node-1")).await.expect("a node");
    assert_eq!(node.name(), "m1-node-1");
    let missing = member.client().get(&metrics("nodes"), &ObjectKey::cluster("none")).await;
    // As metrics-server: that of the object.
    assert_eq!(missing.expect_err("a Status").to_string(), "nodes \"none\" not found");
    member.stop().await;
}

/// The values of a list: `NAME=VALUE`, or the message of the error.
async fn values(member: &Member, path: &str) -> Vec<String> {
    match member.client().document(path, "application/json").await {
        Err(error) => vec![error.to_string()],
        Ok(list) => {
            let list: Value = serde_json::from_slice(&list).expect("JSON");
            let shown = |item: &Value| {
                let name = item["describedObject"]["kind"].as_str().or_else(|| item["metricName"].as_str());
                format!("{}={}", name.unwrap_or("-"), item["value"].as_str().unwrap_or("-"))
            };
            list["items"].as_array().into_iter().flatten().map(shown).collect()
        }
    }
}

const ABSENT: &str = "the server could not find the metric hits for deployments.apps";

#[tokio::test(start_paused = true)]
async fn custom_and_external_metrics_are_annotations() {
    let member = member(MemberOptions::new("m1")).await;
    create(&member, deployment("web", 2, "100m")).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "queue", "namespace": "default",
        "labels": {"queue": "a"}, "annotations": {"simulator.karmada.io/external-metrics": "jobs=5"}}});
    create(&member, map).await;
    let annotation = json!({"metadata": {"annotations": {"simulator.karmada.io/metrics": "hits=700m"}}});
    patch(&member, "Deployment", "web", annotation).await;
    settle().await;
    let custom = "/apis/custom.metrics.k8s.io/v1beta2";
    let pods = format!("{custom}/namespaces/default/pods/*/hits?labelSelector=app%3Dweb");
    assert_eq!(values(&member, &pods).await, ["Pod=700m", "Pod=700m"]);
    let object = format!("{custom}/namespaces/default/deployments.apps/web/hits");
    assert_eq!(values(&member, &object).await, ["Deployment=700m"]);
    for (query, expected) in [("", &["Deployment=700m"][..]), ("?labelSelector=app%3Dother", &[ABSENT])] {
        let all = format!("{custom}/namespaces/default/deployments.apps/*/hits{query}");
        assert_eq!(values(&member, &all).await, expected, "{query}");
    }
    let unknown = format!("{custom}/namespaces/default/pods/*/misses");
    assert_eq!(values(&member, &unknown).await, ["the server could not find the metric misses for pods"]);
    for (resource, code) in [("nonsense.example.io", 404), ("services", 404)] {
        let path = format!("{custom}/namespaces/default/{resource}/web/hits");
        let error = member.client().document(&path, "application/json").await.expect_err("no metric");
        assert_eq!(error.status().map(|it| it.code), Some(code), "{resource}");
    }
    let jobs = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/jobs";
    assert_eq!(values(&member, jobs).await, ["jobs=5"]);
    assert_eq!(values(&member, &format!("{jobs}?labelSelector=queue%3Db")).await, Vec::<String>::new());
    let list = member.client().document(custom, "application/json").await.expect("a list");
    assert!(String::from_utf8_lossy(&list).contains("pods/hits"), "{list:?}");
    member.stop().await;
}
