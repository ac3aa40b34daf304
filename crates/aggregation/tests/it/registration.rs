//! Conditions, discovery and local APIServices.

use http::Method;
use serde_json::{Value, json};

use crate::faulty_server::FaultyServer;
use crate::harness::{API_SERVICES, Front, Trust, behind};

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

async fn discovered(front: &Front, group: &str) -> Value {
    let document = front.client.document("/apis", V2).await.expect("discovery");
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    let items = document["items"].as_array().expect("a list").iter();
    items.clone().find(|item| item["metadata"]["name"] == group).cloned().unwrap_or_default()
}

#[tokio::test]
async fn conditions_name_the_failure() {
    let trust = Trust::new();
    let (front, (_faulty_server, port)) = (Front::start(&trust).await, FaultyServer::start(&trust).await);
    front.external("odd").await;
    front.register(&trust, "a.odd", ("nosuch", 443)).await;
    let condition = front.reason("a.odd", "ServiceNotFound").await;
    assert_eq!(condition["message"], "service/nosuch in \"default\" is not present");
    assert_eq!(condition["status"], "False");
    // A change of the service is noticed at once.
    front.service("nosuch", json!({"ports": [{"port": 80}], "clusterIP": "127.0.0.1"})).await;
    front.reason("a.odd", "ServicePortError").await;

    for (group, message) in [
        ("missing.odd", format!("bad status from https://localhost:{port}/apis/missing.odd/v1: 404")),
        ("failing.odd", format!("bad status from https://localhost:{port}/apis/failing.odd/v1: 500")),
        ("ending.odd", format!("Get \"https://localhost:{port}/apis/ending.odd/v1\": EOF")),
    ] {
        front.register(&trust, group, ("odd", port)).await;
        let condition = front.reason(group, "FailedDiscoveryCheck").await;
        let url = format!("https://localhost:{port}/apis/{group}/v1");
        assert_eq!(condition["message"], format!("failing or missing response from {url}: {message}"));
        let refused = front.get(&format!("/apis/{group}/v1/odds")).await;
        assert_eq!((refused.code, refused.text.as_str()), (503, "service unavailable\n"));
        assert_eq!(refused.headers["content-type"], "text/plain; charset=utf-8");
    }
    // Another name than that of the certificate.
    front.external("other").await;
    front.register(&trust, "b.odd", ("other", port)).await;
    let condition = front.reason("b.odd", "FailedDiscoveryCheck").await;
    let message = condition["message"].as_str().expect("a text");
    assert!(
        message.contains("x509: certificate is valid for") && message.contains("not other.default.svc"),
        "{message}"
    );

    front.register(&trust, "c.odd", ("odd", port)).await;
    let condition = front.reason("c.odd", "Passed").await;
    assert_eq!((&condition["status"], &condition["message"]), (&json!("True"), &json!("all checks passed")));
    let metrics = front.server.shared().metrics.text();
    assert!(metrics.contains("aggregator_unavailable_apiservice{name=\"v1.c.odd\"} 0"), "{metrics}");
    assert!(metrics.contains("aggregator_unavailable_apiservice{name=\"v1.b.odd\"} 1"), "{metrics}");
}

#[tokio::test]
async fn an_unresponsive_server_is_unavailable_and_blocks_no_other() {
    let trust = Trust::new();
    let (front, (_faulty_server, port)) = (Front::start(&trust).await, FaultyServer::start(&trust).await);
    front.external("odd").await;
    for group in ["hanging.odd", "stalling.odd", "deep.odd", "a.odd"] {
        front.register(&trust, group, ("odd", port)).await;
    }
    for group in ["deep.odd", "a.odd"] {
        front.reason(group, "Passed").await;
    }
    // It answers, but with no list that can be read.
    assert_eq!(discovered(&front, "deep.odd").await["versions"][0]["freshness"], "Stale");
    assert_eq!(discovered(&front, "a.odd").await["versions"][0]["freshness"], "Current");
    // Connections are open now; from here on the virtual time advances when all tasks are idle.
    tokio::time::pause();
    for group in ["hanging.odd", "stalling.odd"] {
        let condition = front.reason(group, "FailedDiscoveryCheck").await;
        let message = condition["message"].as_str().expect("a text");
        assert!(
            message.ends_with("context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn cluster_services_need_ready_endpoints() {
    let trust = Trust::new();
    let (front, (_server, port)) = (Front::start(&trust).await, behind(&trust, "backs", "example.io").await);
    let spec = json!({"clusterIP": "127.0.0.1", "ports": [{"name": "https", "port": port}]});
    front.service("backs", spec).await;
    front.register(&trust, "example.io", ("backs", port)).await;
    front.reason("example.io", "EndpointsNotFound").await;
    let endpoints = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "backs"},
            "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": name, "port": port}]}]})
    };
    let path = "/api/v1/namespaces/default/endpoints";
    assert_eq!(front.send(Method::POST, path, &endpoints("other")).await.code, 201);
    front.reason("example.io", "MissingEndpoints").await;
    assert_eq!(front.send(Method::PUT, &format!("{path}/backs"), &endpoints("https")).await.code, 200);
    front.reason("example.io", "Passed").await;
    assert_eq!(front.get("/apis/example.io/v1/namespaces/default/boxes").await.code, 200);
}

#[tokio::test]
async fn discovery_is_merged_and_turns_stale() {
    let trust = Trust::new();
    let (front, (_faulty_server, port)) = (Front::start(&trust).await, FaultyServer::start(&trust).await);
    let (server, back) = behind(&trust, "backs", "example.io").await;
    for (service, group, port) in [("backs", "example.io", back), ("odd", "html.odd", port)] {
        front.external(service).await;
        front.register(&trust, group, (service, port)).await;
        front.reason(group, "Passed").await;
    }
    let version = discovered(&front, "example.io").await["versions"][0].clone();
    assert_eq!((&version["version"], &version["freshness"]), (&json!("v1"), &json!("Current")));
    let resource = &version["resources"][0];
    assert_eq!(resource["resource"], "boxes");
    assert_eq!(resource["shortNames"], json!(["bx"]));
    assert_eq!(resource["responseKind"]["kind"], "Box");
    assert_eq!(resource["subresources"][0]["subresource"], "status");
    // It answers, but with no list of resources.
    let version = discovered(&front, "html.odd").await["versions"][0].clone();
    assert_eq!(version, json!({"version": "v1", "freshness": "Stale"}));

    let groups = front.get("/apis").await.json();
    let names: Vec<&str> =
        groups["groups"].as_array().expect("a list").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names[names.len() - 2..], ["example.io", "html.odd"], "{names:?}");
    assert_eq!(front.get("/apis/example.io").await.json()["preferredVersion"]["groupVersion"], "example.io/v1");
    assert_eq!(front.get("/apis/example.io/v1").await.json()["resources"][0]["name"], "boxes");
    let paths = front.get("/").await.json();
    assert!(paths["paths"].as_array().expect("a list").contains(&json!("/apis/example.io/v1")));
    let known = front.client.discovery().await.expect("discovery");
    let boxes = known.resources.iter().find(|found| found.resource.plural == "boxes").expect("a resource");
    assert!(boxes.can("watch") && boxes.resource.namespaced);

    // It shuts down: its lists stay, marked as stale.
    server.shutdown();
    let service = json!({"spec": {"externalName": "127.0.0.1"}});
    front.touch("backs", &service).await;
    front.reason("example.io", "FailedDiscoveryCheck").await;
    let version = discovered(&front, "example.io").await["versions"][0].clone();
    assert_eq!((&version["freshness"], &version["resources"][0]["resource"]), (&json!("Stale"), &json!("boxes")));
    let known = front.client.discovery().await.expect("discovery");
    assert!(known.failed.iter().any(|failed| failed.group == "example.io"), "unknown, not absent");
    assert_eq!(front.get("/apis/example.io/v1").await.code, 503);

    assert_eq!(front.send(Method::DELETE, &format!("{API_SERVICES}/v1.example.io"), &Value::Null).await.code, 200);
    front.server.shared().cache.catch_up().await.expect("a store");
    assert_eq!(discovered(&front, "example.io").await, Value::Null);
    assert_eq!(front.get("/apis/example.io/v1").await.code, 404);
}

#[tokio::test]
async fn local_api_services_are_kept() {
    let trust = Trust::new();
    let front = Front::start(&trust).await;
    let priorities =
        |object: &Value| (object["spec"]["groupPriorityMinimum"].clone(), object["spec"]["versionPriority"].clone());
    let found = front.api_service("v2.autoscaling", |object| object.map(priorities)).await;
    assert_eq!(found, (json!(17_500), json!(30)));
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.example.io"}, "spec": {"group": "example.io", "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(front.send(Method::POST, definitions, &definition).await.code, 201);
    let made = front.api_service("v1.example.io", |object| object.cloned()).await;
    assert_eq!(made["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "true");
    assert_eq!(priorities(&made), (json!(1000), json!(100)));
    assert_eq!(made["status"]["conditions"][0]["reason"], "Local");
    // A deleted one is created again; one that loses its label belongs to its user.
    let one = format!("{API_SERVICES}/v1.example.io");
    assert_eq!(front.send(Method::DELETE, &one, &Value::Null).await.code, 200);
    let uid = &made["metadata"]["uid"];
    front.api_service("v1.example.io", |object| object.filter(|it| it["metadata"]["uid"] != *uid).map(drop)).await;
    let patch = json!({"metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}}});
    assert_eq!(front.patch(&one, &patch).await.code, 200);
    assert_eq!(front.send(Method::DELETE, &format!("{definitions}/boxes.example.io"), &Value::Null).await.code, 200);
    assert_eq!(front.get(&one).await.code, 200);
}

#[tokio::test]
async fn built_in_group_versions_stay_local() {
    let trust = Trust::new();
    let front = Front::start(&trust).await;
    front.api_service("v1.apps", |object| object.map(drop)).await;
    let taken = json!({"metadata": {"labels": null}, "spec": {"service": {"namespace": "default", "name": "s"}}});
    assert_eq!(front.patch(&format!("{API_SERVICES}/v1.apps"), &taken).await.code, 200);
    let condition = front
        .api_service("v1.apps", |object| {
            let condition = object?["status"]["conditions"][0].clone();
            condition["message"].as_str()?.contains("has no effect").then_some(condition)
        })
        .await;
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("Local")));
    assert_eq!(front.get("/apis/apps/v1/deployments").await.code, 200);
}
