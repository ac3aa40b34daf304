//! `custom.metrics.k8s.io` and `external.metrics.k8s.io`.

use serde_json::{Value, json};

use crate::harness::{Adapter, Member};

const V1: &str = "/apis/custom.metrics.k8s.io/v1beta1";
const V2: &str = "/apis/custom.metrics.k8s.io/v1beta2";
const JOBS: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/jobs";

/// Values of objects, in the form of v1beta1.
pub fn values(items: &[(&str, &str)]) -> Value {
    let item = |(name, value): &(&str, &str)| {
        json!({"describedObject": {"kind": "Pod", "namespace": "shop", "name": name, "apiVersion": "/v1"},
            "metricName": "hits", "timestamp": "2026-11-23T00:00:00Z", "window": 30, "value": value})
    };
    let items: Vec<Value> = items.iter().map(item).collect();
    json!({"kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta1", "metadata": {}, "items": items})
}

fn shown(body: &Value) -> Vec<String> {
    let item = |it: &Value| {
        format!("{}={}", it["describedObject"]["name"].as_str().unwrap_or("-"), it["value"].as_str().unwrap_or("-"))
    };
    body["items"].as_array().into_iter().flatten().map(item).collect()
}

#[tokio::test(start_paused = true)]
async fn values_are_added_over_members_and_versions() {
    let all = |version: &str| format!("{version}/namespaces/shop/pods/*/hits?labelSelector=app%3Dweb");
    let one = |version: &str| format!("{version}/namespaces/shop/services/web/hits");
    let services = || values(&[("web", "2500m")]);
    let adapter = Adapter::over(vec![
        ("m1", Member::serves(&[(&all(V2), values(&[("a", "1"), ("b", "2")])), (&one(V2), services())])),
        // It serves the older version alone.
        ("m2", Member::serves(&[(&all(V1), values(&[("a", "500m")])), (&one(V1), services())])),
        ("m3", Member::serves(&[(&one(V2), json!("the server could not find the metric hits for services"))])),
        ("m4", Member::Silent),
        ("m5", Member::serves(&[])),
    ])
    .await;
    let reply = adapter.get(&all(V2)).await;
    assert_eq!((reply.code, shown(&reply.body)), (200, vec!["a=1500m".to_owned(), "b=2".to_owned()]));
    assert_eq!(reply.body["items"][0]["metric"]["name"], "hits");
    assert_eq!(reply.body["items"][0]["windowSeconds"], 30);
    assert_eq!(reply.warnings.len(), 1, "members without the API are no error: {:?}", reply.warnings);
    let reply = adapter.get(&one(V1)).await;
    assert_eq!(shown(&reply.body), ["web=5"]);
    assert_eq!(
        (&reply.body["items"][0]["metricName"], &reply.body["items"][0]["window"]),
        (&json!("hits"), &json!(30))
    );

    // One member is selected, and does not receive the pseudo label.
    adapter.requests();
    let narrowed = format!("{}?metricLabelSelector=resource.karmada.io%2Fquery-from-cluster%3Dm1", one(V2));
    assert_eq!(shown(&adapter.get(&narrowed).await.body), ["web=2500m"]);
    assert_eq!(adapter.requests(), [format!("m1 {}", one(V2))]);
}

#[tokio::test(start_paused = true)]
async fn metrics_that_no_member_has() {
    let path = format!("{V2}/namespaces/shop/metrics/hits");
    let not_found = || Member::serves(&[(&path, json!("the server could not find the metric hits for namespaces"))]);
    let absent = "the server could not find the metric hits for namespaces";
    let reply = Adapter::over(vec![("m1", not_found()), ("m2", Member::serves(&[]))]).await.get(&path).await;
    assert_eq!((reply.code, reply.message()), (404, absent));
    let reply = Adapter::over(vec![("m1", not_found()), ("m2", Member::Silent)]).await.get(&path).await;
    assert_eq!(reply.code, 503);
    assert_eq!(reply.message(), format!("{absent}; clusters did not answer: m2: no answer within 10 s"));
    let adapter = Adapter::over(Vec::new()).await;
    for path in [
        format!("{V2}/namespaces/shop/pods"),
        format!("{V2}/namespaces/shop/pods/a/hits/more"),
        JOBS.replace("/jobs", ""),
    ] {
        let reply = adapter.get(&path).await;
        assert!(matches!(reply.code, 404 | 405), "{path}: {}", reply.code);
    }
}

#[tokio::test(start_paused = true)]
async fn external_series_of_all_members() {
    let list = |value: &str| {
        json!({"kind": "ExternalMetricValueList", "items": [
        {"metricName": "jobs", "metricLabels": {"queue": "a"}, "timestamp": "2026-11-23T00:00:00Z", "value": value}]})
    };
    let selected = format!("{JOBS}?labelSelector=queue%3Da");
    let adapter = Adapter::over(vec![
        ("m1", Member::serves(&[(&selected, list("3")), (JOBS, list("3"))])),
        ("m2", Member::serves(&[(JOBS, list("4"))])),
        ("m3", Member::Silent),
    ])
    .await;
    let reply = adapter.get(JOBS).await;
    let labels: Vec<&Value> =
        reply.body["items"].as_array().expect("items").iter().map(|it| &it["metricLabels"]).collect();
    let cluster = "resource.karmada.io/query-from-cluster";
    assert_eq!(labels, [&json!({"queue": "a", cluster: "m1"}), &json!({"queue": "a", cluster: "m2"})]);
    assert_eq!(reply.warnings.len(), 1);
    let query = "labelSelector=queue%3Da,resource.karmada.io%2Fquery-from-cluster%20in%20%28m1%29";
    let one = adapter.get(&format!("{JOBS}?{query}")).await;
    assert_eq!((one.body["items"].as_array().map(Vec::len), one.warnings.len()), (Some(1), 0));

    let none = Adapter::over(vec![("m1", Member::serves(&[]))]).await.get(JOBS).await;
    let text = "the server could not find the metric jobs: no member cluster serves external.metrics.k8s.io";
    assert_eq!((none.code, none.message()), (404, text));
}

#[tokio::test(start_paused = true)]
async fn metrics_in_discovery_are_those_of_members() {
    let list = |names: &[&str]| {
        let rows: Vec<Value> = names.iter().map(|name| json!({"name": name, "namespaced": true})).collect();
        json!({"kind": "APIResourceList", "resources": rows})
    };
    let adapter = Adapter::over(vec![
        ("m1", Member::serves(&[(V2, list(&["pods/hits"]))])),
        ("m2", Member::serves(&[(V1, list(&["pods/hits", "namespaces/hits"]))])),
        ("m3", Member::Silent),
        ("m4", Member::serves(&[])),
    ])
    .await;
    let names = |body: &Value| -> Vec<String> {
        let rows = body["resources"].as_array().expect("resources");
        rows.iter().filter_map(|it| Some(it["name"].as_str()?.to_owned())).collect()
    };
    assert_eq!(names(&adapter.get(V2).await.body), ["namespaces/hits", "pods/hits"]);
    adapter.requests();
    assert_eq!(adapter.get(V1).await.body["groupVersion"], "custom.metrics.k8s.io/v1beta1");
    assert_eq!(adapter.requests(), Vec::<String>::new(), "the names are kept for a while");
    let reply = adapter.get("/apis/external.metrics.k8s.io/v1beta1").await;
    assert_eq!((reply.code, names(&reply.body)), (200, Vec::new()));
}
