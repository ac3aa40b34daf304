//! `metrics.k8s.io`: merged lists, single objects, and members without an answer.

use serde_json::json;

use crate::harness::{Adapter, Member, pod, pods};

const PODS: &str = "/apis/metrics.k8s.io/v1beta1/pods";
const NAMED: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web";

#[tokio::test(start_paused = true)]
async fn a_list_names_the_members_that_it_lacks() {
    let adapter = Adapter::over(vec![
        ("m1", Member::serves(&[(PODS, pods(&[("shop", "b"), ("shop", "a")]))])),
        ("m2", Member::serves(&[(PODS, pods(&[("shop", "a"), ("default", "z")]))])),
        ("m3", Member::Silent),
        ("m4", Member::Refuses(503, "service unavailable\n")),
        ("m5", Member::Refuses(200, "<html>not this server</html>")),
        ("m6", Member::Endless),
        ("m7", Member::Closing),
        ("m8", Member::Excluded),
        ("m9", Member::serves(&[])),
    ])
    .await;
    let reply = adapter.get(PODS).await;
    assert_eq!((reply.code, &reply.body["kind"]), (200, &json!("PodMetricsList")));
    assert_eq!(reply.items(), ["z@m2", "a@m1", "a@m2", "b@m1"]);
    let expected = [
        ("m3", "no answer within 10 s"),
        ("m4", "the server answered 503: service unavailable"),
        ("m5", "its list cannot be read"),
        ("m6", ""),
        ("m7", "connection reset by peer"),
        ("m8", "it is not ready"),
        ("m9", "metrics.k8s.io is not served"),
    ];
    assert_eq!(reply.warnings.len(), expected.len(), "{:?}", reply.warnings);
    for ((cluster, why), warning) in expected.iter().zip(&reply.warnings) {
        let start = format!("299 - \"the metrics of cluster {cluster} are missing: ");
        assert!(warning.starts_with(&start) && warning.contains(why), "{warning}");
    }
    assert!(!adapter.requests().iter().any(|it| it.starts_with("m8")));
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_does_not_answer_is_an_error() {
    let adapter = Adapter::over(vec![("m1", Member::Silent), ("m2", Member::Excluded)]).await;
    let reply = adapter.get(PODS).await;
    let text = "no member cluster answered: m1: no answer within 10 s; m2: it is not ready";
    assert_eq!((reply.code, reply.message()), (503, text));
    let none = Adapter::over(Vec::new()).await.get(PODS).await;
    assert_eq!((none.code, &none.body["items"]), (200, &json!([])), "no clusters have no pods");
}

#[tokio::test(start_paused = true)]
async fn single_objects() {
    let has = || Member::serves(&[(NAMED, pod("shop", "web"))]);
    let not_found = || Member::serves(&[(NAMED, json!("podmetrics.metrics.k8s.io \"shop/web\" not found"))]);
    let conflict =
        "Operation cannot be fulfilled on pods.metrics.k8s.io \"web\": the pod(web) found in more than one clusters";
    let unknown = "pods.metrics.k8s.io \"web\" not found; clusters did not answer: m2: no answer within 10 s";
    for (first, second, code, message, warnings) in [
        (has(), not_found(), 200, "", 0),
        (has(), Member::Silent, 200, "", 1),
        (has(), has(), 409, conflict, 0),
        (not_found(), not_found(), 404, "pods.metrics.k8s.io \"web\" not found", 0),
        (not_found(), Member::Silent, 503, unknown, 0),
    ] {
        let adapter = Adapter::over(vec![("m1", first), ("m2", second)]).await;
        let reply = adapter.get(NAMED).await;
        assert_eq!((reply.code, reply.message(), reply.warnings.len()), (code, message, warnings));
        if code == 200 {
            let annotations = &reply.body["metadata"]["annotations"];
            assert_eq!(annotations["resource.karmada.io/query-from-cluster"], "m1");
        }
    }
}

#[tokio::test]
async fn members_without_metrics_receive_no_request() {
    let mut members = vec![("m0", Member::serves(&[(NAMED, pod("shop", "web")), (PODS, pods(&[("shop", "web")]))]))];
    let names: Vec<String> = (1..1000).map(|n| format!("m{n}")).collect();
    members.extend(names.iter().map(|name| (name.as_str(), Member::Empty)));
    let adapter = Adapter::over(members).await;
    assert_eq!(adapter.get(NAMED).await.code, 200);
    assert_eq!(adapter.requests(), [format!("m0 {NAMED}")]);
    assert_eq!(adapter.get(PODS).await.items(), ["web@m0"]);
    assert_eq!(adapter.requests(), [format!("m0 {PODS}")]);
}

#[tokio::test]
async fn selectors_tables_and_verbs() {
    let query = "labelSelector=app%20in%20%28web%29&fieldSelector=metadata.name%3Da";
    let sent = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods?labelSelector=app%20in%20%28web%29";
    let list = pods(&[("shop", "a"), ("shop", "b"), ("other", "a")]);
    let adapter = Adapter::over(vec![("m1", Member::serves(&[(sent, list.clone()), (PODS, list)]))]).await;
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods?{query}");
    assert_eq!(adapter.get(&path).await.items(), ["a@m1"], "the member's item of another namespace is dropped");
    for (path, code, text) in [
        (format!("{PODS}?labelSelector=a%20in"), 400, "unable to parse requirement"),
        (format!("{PODS}?fieldSelector=spec.nodeName%3Dn"), 400, "\"spec.nodeName\" is not a known field selector"),
        (format!("{PODS}?watch=true"), 405, "the server does not allow this method"),
        ("/apis/metrics.k8s.io/v1beta1/services".to_owned(), 404, "could not find the requested resource"),
        (format!("{NAMED}/status"), 404, "could not find the requested resource"),
    ] {
        let reply = adapter.get(&path).await;
        assert!(reply.code == code && reply.message().contains(text), "{path}: {} {}", reply.code, reply.message());
    }
    assert_eq!(adapter.send(http::Method::DELETE, NAMED, "*/*").await.code, 405);
    let table = adapter.get_as(PODS, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").await;
    assert_eq!(table.body["kind"], "Table");
    assert_eq!(table.body["rows"][0]["cells"], json!(["a", "10m", "16Mi", "15s", "m1"]));
    assert_eq!(adapter.get_as(PODS, "application/vnd.kubernetes.protobuf").await.code, 406);
}

#[tokio::test]
async fn discovery_and_openapi() {
    let adapter = Adapter::over(vec![("m1", Member::serves(&[]))]).await;
    let groups = adapter.get_as("/apis", "application/json").await.body;
    let names: Vec<&str> =
        groups["groups"].as_array().expect("groups").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names[1..], ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"]);
    let form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let aggregated = adapter.get_as("/apis", form).await.body;
    assert_eq!(aggregated["items"][1]["versions"][0]["resources"][1]["resource"], "pods");
    assert_eq!(aggregated["items"][2]["versions"][0]["version"], "v1beta2", "clients prefer it");
    let list = adapter.get("/apis/metrics.k8s.io/v1beta1").await.body;
    assert_eq!((&list["kind"], &list["resources"][0]["kind"]), (&json!("APIResourceList"), &json!("NodeMetrics")));
    let index = adapter.get_as("/openapi/v3", "application/json").await.body;
    let url = index["paths"]["apis/metrics.k8s.io/v1beta1"]["serverRelativeURL"].as_str().expect("a URL");
    let schemas = adapter.get(url).await.body;
    assert!(schemas["components"]["schemas"].as_object().is_some_and(|it| it.len() == 5), "{schemas}");
    let v2 = adapter.get_as("/openapi/v2", "application/json").await.body;
    assert!(v2["definitions"].get("io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics").is_some());
}
