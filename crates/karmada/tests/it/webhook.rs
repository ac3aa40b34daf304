//! The webhook server, called as an API server calls it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt;
use karmada::rules::Rules;
use karmada::webhook;
use karmada_api::admission::webhooks::WEBHOOKS;
use serde_json::{Value, json};
use tower::ServiceExt;
use transport::{ApiService, full};
use world::World;

fn service() -> (ApiService, metrics::Registry) {
    let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
    let registry = metrics::Registry::default();
    (webhook::service(Rules::new(world, Default::default()), registry.clone()), registry)
}

async fn call(service: &ApiService, method: &str, path: &str, body: &str) -> (u16, String) {
    let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(full(body.to_owned())).expect("a request");
    let response = service.clone().oneshot(request).await.expect("a service that never fails");
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
    (code, String::from_utf8_lossy(&body).into_owned())
}

async fn review(service: &ApiService, path: &str, request: Value) -> Value {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let (code, body) = call(service, "POST", path, &review.to_string()).await;
    assert_eq!(code, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).expect("a review");
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&review["apiVersion"], &review["kind"]));
    assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
    answer["response"].clone()
}

fn policy(spec: Value) -> Value {
    json!({"uid": "u-1", "kind": {"group": "policy.karmada.io", "version": "v1alpha1", "kind": "PropagationPolicy"},
        "namespace": "shop", "operation": "CREATE",
        "object": {"metadata": {"name": "p", "namespace": "shop"}, "spec": spec}})
}

#[tokio::test]
async fn a_policy_is_defaulted_and_then_validated() {
    let (service, registry) = service();
    let mut request = policy(json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}]}));
    let answer = review(&service, "/mutate-propagationpolicy", request.clone()).await;
    assert_eq!((&answer["allowed"], &answer["patchType"]), (&json!(true), &json!("JSONPatch")));
    let patch = STANDARD.decode(answer["patch"].as_str().expect("a patch")).expect("base64");
    let patch = apimachinery::json_patch::parse(&patch).expect("a JSON patch");
    patch.apply(&mut request["object"]).expect("a patch that applies");
    let object = &request["object"];
    assert_eq!(object["spec"]["resourceSelectors"][0]["namespace"], "shop");
    assert_eq!(object["metadata"]["finalizers"][0], "karmada.io/propagation-policy-controller");
    assert!(object["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"].is_string());
    assert_eq!(review(&service, "/validate-propagationpolicy", request.clone()).await["allowed"], true);

    assert_eq!(review(&service, "/validate-propagationpolicy", request.clone()).await.get("warnings"), None);

    let mut warned = request.clone();
    warned["object"]["spec"]["failover"] = json!({"cluster": {}});
    let warnings =
        json!(["spec.failover.cluster: it has an effect only with the feature gate Failover=true and the flag \
                           --enable-no-execute-taint-eviction"]);
    assert_eq!(review(&service, "/validate-propagationpolicy", warned).await["warnings"], warnings);

    request["object"]["spec"]["preemption"] = json!("Always");
    let answer = review(&service, "/validate-propagationpolicy", request).await;
    assert_eq!(answer["allowed"], false);
    assert_eq!((&answer["status"]["code"], &answer["status"]["reason"]), (&json!(403), &json!("Forbidden")));
    let message = "spec.resourceSelectors[0].name: Invalid value: \"\": name cannot be empty if preemption is Always, the empty name \
                   may cause unexpected resources preemption";
    assert_eq!(answer["status"]["message"], message);
    let counted = registry.counters(&webhook::REQUESTS);
    assert_eq!(counted.value(&["/validate-propagationpolicy", "200"]), 3);
    assert_eq!(counted.value(&["/validate-propagationpolicy", "403"]), 1);
}

/// The rights of the author come from a review by the API server.
#[tokio::test]
async fn policies_that_copy_secrets_are_warned_of() {
    let reviewed = std::sync::Arc::new(parking_lot::Mutex::new(Vec::<Value>::new()));
    let reviews = std::sync::Arc::clone(&reviewed);
    let control = ApiService::new(tower::service_fn(move |request: transport::Request| {
        let reviews = std::sync::Arc::clone(&reviews);
        async move {
            let path = request.uri().path().to_owned();
            assert_eq!(path, "/apis/authorization.k8s.io/v1/subjectaccessreviews");
            let body = request.into_body().collect().await.expect("a body in memory").to_bytes();
            let mut review: Value = serde_json::from_slice(&body).expect("a review");
            review["status"] = json!({"allowed": review["spec"]["user"] == "ann"});
            reviews.lock().push(review["spec"].clone());
            let response = http::Response::builder().status(201).header("content-type", "application/json");
            Ok::<_, std::convert::Infallible>(response.body(full(review.to_string())).expect("a response"))
        }
    }));
    let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
    let rules = Rules::new(world, Default::default());
    rules.connect(client::Client::in_process(control, transport::Identity::system("karmada-webhook")));
    let service = webhook::service(rules, metrics::Registry::default());
    let selector = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "shop", "name": "s"});
    let mut request = policy(json!({"resourceSelectors": [selector], "placement": {}}));
    request["object"]["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "p-1"});
    for (user, expected) in [("ann", 0), ("eve", 1)] {
        request["userInfo"] = json!({"username": user, "uid": "u", "groups": ["g"], "extra": {"k": ["v"]}});
        let answer = review(&service, "/validate-propagationpolicy", request.clone()).await;
        assert_eq!(answer["allowed"], true, "{answer}");
        let warnings = answer["warnings"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(warnings.len(), expected, "{answer}");
        assert!(warnings.iter().all(|it| it.as_str().is_some_and(|it| it.starts_with("spec.resourceSelectors: "))));
    }
    let spec = json!({"user": "eve", "uid": "u", "groups": ["g"], "extra": {"k": ["v"]}, "resourceAttributes": {
        "verb": "get", "group": "", "version": "v1", "resource": "secrets", "subresource": "", "namespace": "shop", "name": "s"}});
    assert_eq!(reviewed.lock().last(), Some(&spec));
}

#[tokio::test]
async fn every_path_responds_and_malformed_reviews_are_rejected() {
    let (service, _) = service();
    for webhook in WEBHOOKS {
        for request in [
            json!({"uid": "u"}),
            json!({"uid": "u", "operation": "CREATE", "object": 1, "kind": {"group": webhook.group, "kind": webhook.kind}}),
        ] {
            let answer = review(&service, webhook.path, request).await;
            assert_eq!(
                (&answer["allowed"], &answer["status"]["code"]),
                (&json!(false), &json!(400)),
                "{}",
                webhook.path
            );
        }
        for (method, body, why) in [
            ("POST", "[", "decoding the review: "),
            ("POST", "{}", "Object 'Kind' is missing in '{}'"),
            ("GET", "", "request body is empty"),
        ] {
            let (code, body) = call(&service, method, webhook.path, body).await;
            let answer: Value = serde_json::from_str(&body).expect("a review");
            assert_eq!((code, &answer["response"]["status"]["code"]), (200, &json!(400)), "{body}");
            let message = answer["response"]["status"]["message"].as_str().unwrap_or_default();
            assert!(message.starts_with(why), "{message}");
        }
    }
    assert_eq!(call(&service, "POST", "/validate-nothing", "{}").await.0, 404);
    for path in ["/healthz", "/readyz", "/readyz/", "/livez"] {
        assert_eq!(call(&service, "GET", path, "").await, (200, "ok".to_owned()), "{path}");
    }
    let (code, text) = call(&service, "GET", "/metrics", "").await;
    assert!(code == 200 && text.contains("controller_runtime_webhook_requests_total{"), "{text}");
}

#[tokio::test]
async fn protection_and_old_versions() {
    let (service, _) = service();
    let protected = json!({"metadata": {"labels": {"resourcetemplate.karmada.io/deletion-protected": "Always"}}});
    let request = json!({"uid": "u", "kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "operation": "DELETE", "oldObject": protected});
    assert_eq!(review(&service, "/validate-resourcedeletionprotection", request).await["allowed"], false);
    let request = json!({"uid": "u", "kind": {"group": "work.karmada.io", "version": "v1alpha1", "kind": "ResourceBinding"}, "operation": "CREATE", "object": {}});
    let answer = review(&service, "/mutate-resourcebinding", request).await;
    let message = "unable to decode work.karmada.io/v1alpha1, Kind=ResourceBinding into *v1alpha2.ResourceBinding";
    assert_eq!(answer["status"], json!({"metadata": {}, "code": 400, "message": message}));
}

/// Upstream decodes into typed objects, changes and encodes them: its patches add fields that typed objects always
/// have, and remove those that they omit.
#[tokio::test]
async fn patches_are_those_of_typed_objects() {
    let (service, _) = service();
    let of = |group: &str, kind: &str, spec: &Value| {
        json!({"uid": "u", "kind": {"group": group, "version": if kind.ends_with("Binding") { "v1alpha2" } else { "v1alpha1" }, "kind": kind},
            "namespace": "shop", "operation": "CREATE", "object": {"metadata": {"name": "a", "namespace": "shop"}, "spec": spec}})
    };
    for (path, group, kind, spec, expected, status) in [
        (
            "/mutate-overridepolicy",
            "policy.karmada.io",
            "OverridePolicy",
            json!({"overrideRules": [{"overriders": {"plaintext": [{"path": "/a", "operator": "remove"}], "imageOverrider": []}}]}),
            json!({"overriders": {}, "overrideRules": [{"overriders": {"plaintext": [{"path": "/a", "operator": "remove", "value": null}]}}]}),
            Value::Null,
        ),
        ("/mutate-work", "work.karmada.io", "Work", json!({}), json!({"workload": {}}), json!({})),
        (
            "/mutate-resourcebinding",
            "work.karmada.io",
            "ResourceBinding",
            json!({"resource": {"apiVersion": "v1", "kind": "K", "name": "n", "uid": ""}, "replicas": 0}),
            json!({"resource": {"apiVersion": "v1", "kind": "K", "name": "n"}}),
            json!({}),
        ),
        (
            "/mutate-multiclusterservice",
            "networking.karmada.io",
            "MultiClusterService",
            json!({"types": ["CrossCluster"]}),
            json!({"types": ["CrossCluster"], "range": {}}),
            json!({"loadBalancer": {}}),
        ),
        (
            "/mutate-federatedhpa",
            "autoscaling.karmada.io",
            "FederatedHPA",
            json!({"maxReplicas": 3, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1000m"}}}]}),
            json!({"maxReplicas": 3, "minReplicas": 1, "scaleTargetRef": {"kind": "", "name": ""},
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1"}}}]}),
            json!({"currentMetrics": null, "desiredReplicas": 0}),
        ),
    ] {
        let mut request = of(group, kind, &spec);
        let answer = review(&service, path, request.clone()).await;
        let patch = STANDARD.decode(answer["patch"].as_str().expect("a patch")).expect("base64");
        let patch = apimachinery::json_patch::parse(&patch).expect("a JSON patch");
        patch.apply(&mut request["object"]).expect("a patch that applies");
        assert_eq!(request["object"]["spec"], expected, "{kind}");
        assert_eq!(request["object"]["status"], status, "{kind}");
    }
    for path in ["/mutate-propagationpolicy", "/validate-propagationpolicy"] {
        let answer = review(&service, path, policy(json!({"placement": "x"}))).await;
        let message = "json: cannot unmarshal string into Go struct field PropagationSpec.spec.placement of type v1alpha1.Placement";
        assert_eq!(answer["status"], json!({"metadata": {}, "code": 400, "message": message}), "{path}");
    }
}

/// RIC-V1: without the other customizations conflicts are unknown, and nothing is admitted.
#[tokio::test]
async fn a_list_that_fails_lets_no_customization_through() {
    let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
    let rules = Rules::new(world, Default::default());
    let broken = ApiService::new(tower::service_fn(async |_: transport::Request| {
        let response = http::Response::builder().status(500).body(full("out of order".to_owned())).expect("a response");
        Ok::<_, std::convert::Infallible>(response)
    }));
    rules.connect(client::Client::in_process(broken, transport::Identity::system("test")));
    let service = webhook::service(rules, metrics::Registry::default());
    let request = json!({"uid": "u", "kind": {"group": "config.karmada.io", "version": "v1alpha1", "kind": "ResourceInterpreterCustomization"},
        "operation": "CREATE", "object": {"metadata": {"name": "a"}, "spec": {"target": {"apiVersion": "v1", "kind": "K"}, "customizations": {}}}});
    let answer = review(&service, "/validate-resourceinterpretercustomization", request).await;
    assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(500)));
    let message = answer["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("failed to list ResourceInterpreterCustomizations"), "{message}");
}

#[tokio::test]
async fn bindings_are_converted() {
    let (service, _) = service();
    let convert = async |object: Value| {
        let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": "work.karmada.io/v1alpha1", "objects": [object]}});
        let (_, body) = call(&service, "POST", "/convert", &review.to_string()).await;
        serde_json::from_str::<Value>(&body).expect("a review")["response"].clone()
    };
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "b"},
        "spec": {"replicas": 2, "resource": {"apiVersion": "v1", "kind": "K", "name": "n"}}});
    let answer = convert(binding).await;
    assert_eq!(answer["result"]["status"], "Success");
    assert_eq!(answer["convertedObjects"][0]["spec"]["resource"]["replicas"], 2);
    assert_eq!(convert(json!({"kind": "Work"})).await["result"]["status"], "Failure");
}
