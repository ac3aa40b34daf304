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
    let request = http::Request::builder().method(method).uri(path).body(full(body.to_owned())).expect("a request");
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
async fn a_policy_is_filled_in_and_then_judged() {
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

    request["object"]["spec"]["preemption"] = json!("Always");
    let answer = review(&service, "/validate-propagationpolicy", request).await;
    assert_eq!(answer["allowed"], false);
    assert_eq!((&answer["status"]["code"], &answer["status"]["reason"]), (&json!(403), &json!("Forbidden")));
    let message = "spec.resourceSelectors[0].name: Invalid value: \"\": name cannot be empty if preemption is Always, the empty name \
                   may cause unexpected resources preemption";
    assert_eq!(answer["status"]["message"], message);
    let counted = registry.counters(&webhook::REQUESTS);
    assert_eq!(counted.value(&["/validate-propagationpolicy", "200"]), 1);
    assert_eq!(counted.value(&["/validate-propagationpolicy", "403"]), 1);
}

#[tokio::test]
async fn every_path_answers_and_nonsense_is_refused() {
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
        assert_eq!(call(&service, "POST", webhook.path, "[").await.0, 400);
        assert_eq!(call(&service, "GET", webhook.path, "").await.0, 405);
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
    assert_eq!(answer["status"], json!({"code": 400, "message": message}));
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
