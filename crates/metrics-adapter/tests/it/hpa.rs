//! The reads of kube-controller-manager's HorizontalPodAutoscaler controller: discovery of the versions, then metrics
//! of pods, of objects, and from outside, each with the headers and queries of its clients.

use serde_json::{Value, json};

use crate::harness::{Adapter, Member, pods};
use crate::values::values;

/// The header of a client that prefers protobuf, as all of kube-controller-manager's do.
const ACCEPT: &str = "application/vnd.kubernetes.protobuf, */*";
const PODS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods?labelSelector=app%3Dweb";

fn external() -> Value {
    json!({"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "items": [
        {"metricName": "jobs", "metricLabels": {"queue": "a"}, "timestamp": "2026-11-23T00:00:00Z", "value": "3"}]})
}

#[tokio::test]
async fn a_stock_controller_reads_every_type_of_metric() {
    let custom = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop";
    let of_pods = format!("{custom}/pods/*/hits?labelSelector=app%3Dweb&metricLabelSelector=verb%3DGET");
    let of_object = format!("{custom}/services/web/hits");
    let of_queue = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/jobs?labelSelector=queue%3Da";
    let member = || {
        Member::serves(&[
            (PODS, pods(&[("shop", "web-1")])),
            (&of_pods, values(&[("web-1", "7")])),
            (&of_object, values(&[("web", "40")])),
            (of_queue, external()),
        ])
    };
    let adapter = Adapter::over(vec![("m1", member()), ("m2", member())]).await;

    // The custom metrics client selects the preferred version of the group, once.
    let groups = adapter.get_as("/apis", "application/json").await.body;
    let group = groups["groups"].as_array().expect("groups").iter().find(|it| it["name"] == "custom.metrics.k8s.io");
    assert_eq!(group.expect("the group")["preferredVersion"]["version"], "v1beta2");

    let usage = adapter.get_as(PODS, ACCEPT).await.body;
    let total: i64 = items(&usage).iter().map(|it| milli(&it["containers"][0]["usage"]["cpu"])).sum();
    assert_eq!((items(&usage).len(), total), (2, 20));
    let values = adapter.get_as(&of_pods, ACCEPT).await.body;
    assert_eq!(items(&values).len(), 1);
    let value = &items(&values)[0];
    // The controller reads these fields, and fails without them.
    assert_eq!(value["describedObject"]["name"], "web-1");
    assert_eq!(value["timestamp"], "2026-11-23T00:00:00Z");
    assert_eq!((milli(&value["value"]), &value["windowSeconds"]), (14_000, &json!(30)));
    let object = adapter.get_as(&of_object, ACCEPT).await.body;
    assert_eq!(milli(&items(&object)[0]["value"]), 80_000);
    let queue = adapter.get_as(of_queue, ACCEPT).await.body;
    let sum: i64 = items(&queue).iter().map(|it| milli(&it["value"])).sum();
    assert_eq!(sum, 6_000);
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().expect("items")
}

fn milli(value: &Value) -> i64 {
    value.as_str().and_then(|it| it.parse::<apimachinery::quantity::Quantity>().ok()).expect("a quantity").milli_value()
}
