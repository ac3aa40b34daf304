//! Responses of admission within the API server: codes, reasons and messages as kube-apiserver forwards them from
//! upstream's webhooks, and the stored objects.

use std::sync::Arc;

use client::Client;
use http::Method;
use karmada::engine::Kind;
use karmada::reach::Listen;
use serde_json::{Value, json};
use world::World;

const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies";
const OVERRIDES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/default/overridepolicies";
const CLUSTER_OVERRIDES: &str = "/apis/policy.karmada.io/v1alpha1/clusteroverridepolicies";
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
const OLD_BINDINGS: &str = "/apis/work.karmada.io/v1alpha1/namespaces/default/resourcebindings";
const WORKS: &str = "/apis/work.karmada.io/v1alpha1/namespaces/default/works";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

pub async fn server(directory: &std::path::Path) -> karmada::apiserver::Opened {
    let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
    let options = karmada::apiserver::Options {
        data_dir: directory.to_owned(),
        store: Kind::Memory,
        listen: Listen::new(std::net::Ipv4Addr::LOCALHOST.into(), 0, "karmada"),
        token_auth_file: None,
        admission_config: None,
        identity: Default::default(),
        service_accounts: Default::default(),
        audit: Default::default(),
        overload: Default::default(),
        aggregation: Default::default(),
        services: Default::default(),
        plugins: Default::default(),
        admission: Default::default(),
        resource_models: true,
        events: Default::default(),
        backups: None,
        operation: Default::default(),
    };
    karmada::apiserver::open(&options, Arc::new(|_| None), &world).await.expect("a server")
}

async fn post(client: &Client, path: &str, kind: &str, spec: Value) -> (u16, Value) {
    let version = path.strip_prefix("/apis/").expect("a path").split('/').take(2).collect::<Vec<_>>().join("/");
    let object = json!({"apiVersion": version, "kind": kind, "metadata": {"generateName": "a-"}, "spec": spec});
    let request = http::Request::builder().method(Method::POST).uri(path).header("content-type", "application/json");
    let request = request.body(transport::full(object.to_string())).expect("a request");
    let response = client.send(request).await.expect("an answer");
    let code = response.status().as_u16();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body in memory").to_bytes();
    (code, serde_json::from_slice(&body).expect("JSON"))
}

fn selecting(more: Value) -> Value {
    let mut spec = more;
    spec["resourceSelectors"] = json!([{"apiVersion": "v1", "kind": "Secret"}]);
    spec
}

#[tokio::test]
async fn refusals_are_those_of_webhooks() {
    let directory = tempfile::tempdir().expect("a directory");
    let opened = server(directory.path()).await;
    let client = opened.client("test");
    let decoding =
        "json: cannot unmarshal string into Go struct field PropagationSpec.spec.placement of type v1alpha1.Placement";
    let constraint = r#"spec.placement.spreadConstraints: Invalid value: [{"spreadByField":"region","minGroups":1}]: the cluster spread constraint must be enabled in one of the constraints in case of SpreadByField is enabled"#;
    for (path, kind, spec, webhook, code, reason, message) in [
        (POLICIES, "PropagationPolicy", json!({"placement": "x"}), "propagationpolicy", 400, "", decoding),
        (
            POLICIES,
            "PropagationPolicy",
            selecting(json!({"placement": {"spreadConstraints": [{"spreadByField": "region"}]}})),
            "propagationpolicy",
            403,
            "Forbidden",
            constraint,
        ),
        (
            WORKS,
            "Work",
            json!({"workload": {"manifests": [{"a": 1}]}}),
            "work",
            500,
            "",
            r#"Object 'Kind' is missing in '{"a":1}'"#,
        ),
        (
            OLD_BINDINGS,
            "ResourceBinding",
            json!({"resource": {"apiVersion": "v1", "kind": "K", "name": "n"}}),
            "resourcebinding",
            400,
            "",
            "unable to decode work.karmada.io/v1alpha1, Kind=ResourceBinding into *v1alpha2.ResourceBinding",
        ),
    ] {
        let (found, status) = post(&client, path, kind, spec).await;
        assert_eq!(found, code, "{status}");
        let message = format!("admission webhook \"{webhook}.karmada.io\" denied the request: {message}");
        assert_eq!(status["message"], message);
        assert_eq!(status["reason"].as_str().unwrap_or_default(), reason, "{status}");
        assert_eq!(status.get("details"), None, "{status}");
    }
    // Kinds without mutating rules are validated by their schema first, as are objects that the rules do not change.
    for (path, kind, spec, cause) in [
        (CLUSTER_OVERRIDES, "ClusterOverridePolicy", json!({"overrideRules": "x"}), "spec.overrideRules"),
        (POLICIES, "PropagationPolicy", json!({}), "spec.resourceSelectors"),
        (POLICIES, "PropagationPolicy", selecting(json!({"conflictResolution": "Maybe"})), "spec.conflictResolution"),
        (CLUSTERS, "Cluster", json!({"syncMode": "Both"}), "spec.syncMode"),
    ] {
        let (found, status) = post(&client, path, kind, spec).await;
        assert_eq!((found, &status["reason"]), (422, &json!("Invalid")), "{status}");
        let causes = status["details"]["causes"].as_array().expect("causes");
        assert!(causes.iter().any(|it| it["field"] == cause), "{status}");
    }
    opened.close().await.expect("an end");
}

/// The response to a Cluster with this ID.
async fn cluster(client: &Client, id: &str) -> (u16, Value) {
    post(client, CLUSTERS, "Cluster", json!({"syncMode": "Pull", "id": id})).await
}

#[tokio::test]
async fn an_id_belongs_to_one_cluster() {
    let directory = tempfile::tempdir().expect("a directory");
    let opened = server(directory.path()).await;
    let client = opened.client("test");
    let (code, first) = cluster(&client, "a").await;
    let name = first["metadata"]["name"].as_str().expect("a name");
    assert_eq!(code, 201, "{first}");
    let system = client.request(Method::GET, "/api/v1/namespaces/kube-system", None).await.expect("a namespace");
    let system: Value = serde_json::from_slice(&system).expect("JSON");
    let own = system["metadata"]["uid"].as_str().expect("a UID");
    for (id, cause, message) in [
        ("a", "FieldValueDuplicate", format!("Duplicate value: \"a\": cluster {name} has this ID, so ")),
        (own, "FieldValueForbidden", format!("Forbidden: {own} is the ID of this control plane itself, ")),
    ] {
        let (code, status) = cluster(&client, id).await;
        assert_eq!((code, &status["reason"]), (422, &json!("Invalid")), "{status}");
        let found = &status["details"]["causes"][0];
        assert_eq!((&found["field"], &found["reason"]), (&json!("spec.id"), &json!(cause)));
        assert!(found["message"].as_str().is_some_and(|text| text.starts_with(&message)), "{found}");
    }
    // Both are validated before either is stored.
    let (left, right) = futures::join!(cluster(&client, "b"), cluster(&client, "b"));
    let mut codes = [left.0, right.0];
    codes.sort_unstable();
    assert_eq!(codes, [201, 422], "{} {}", left.1, right.1);
    // Stored objects stay writable; the ID of another cluster is rejected.
    let path = format!("{CLUSTERS}/{name}");
    let patch = async |spec: Value| {
        let request = http::Request::builder().method(Method::PATCH).uri(&path);
        let request = request.header("content-type", "application/merge-patch+json");
        let request = request.body(transport::full(json!({ "spec": spec }).to_string())).expect("a request");
        client.send(request).await.expect("an answer").status().as_u16()
    };
    assert_eq!(patch(json!({"provider": "p"})).await, 200);
    assert_eq!(patch(json!({"id": "b"})).await, 422);
    assert_eq!(patch(json!({"id": "c"})).await, 200);
    assert_eq!(cluster(&client, "a").await.0, 201, "it is free again");
    opened.close().await.expect("an end");
}

#[tokio::test]
async fn kinds_and_fields_without_effect_get_a_warning() {
    let directory = tempfile::tempdir().expect("a directory");
    let opened = server(directory.path()).await;
    let client = opened.client("test");
    let send = async |method: Method, path: &str, type_: &str, body: Value| {
        let request = http::Request::builder().method(method).uri(path).header("content-type", type_);
        let request = request.body(transport::full(body.to_string())).expect("a request");
        let response = client.send(request).await.expect("an answer");
        assert!(response.status().is_success(), "{path}: {}", response.status());
        let texts = response.headers().get_all("warning").iter().map(|it| it.to_str().expect("text").to_owned());
        texts.collect::<Vec<_>>()
    };
    let policy = |spec: Value| {
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "default"}, "spec": spec})
    };
    let selectors = json!([{"apiVersion": "v1", "kind": "Secret", "name": "s"}]);
    let failover = json!({"resourceSelectors": selectors, "failover": {"cluster": {"purgeMode": "Directly"}},
        "preemption": "Always"});
    let expected = [
        "299 - \"spec.failover.cluster: it has an effect only with the feature gate Failover=true and the flag \
         --enable-no-execute-taint-eviction\"",
        "299 - \"spec.preemption: Always has an effect only with the feature gate PropagationPolicyPreemption=true\"",
    ];
    let json_type = "application/json";
    assert_eq!(send(Method::POST, POLICIES, json_type, policy(failover)).await, expected);
    let one = format!("{POLICIES}/p");
    let label = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"priority": 1}});
    assert_eq!(send(Method::PATCH, &one, "application/merge-patch+json", label).await, expected);
    let applied = policy(json!({"resourceSelectors": selectors, "preemption": "Always", "priority": 2}));
    let apply = format!("{one}?fieldManager=test&force=true");
    assert_eq!(send(Method::PATCH, &apply, "application/apply-patch+yaml", applied).await, expected);
    let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.search.karmada.io"},
        "spec": {"group": "search.karmada.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
            "insecureSkipTLSVerify": true, "service": {"name": "s", "namespace": "default"}}});
    let texts = send(Method::POST, "/apis/apiregistration.k8s.io/v1/apiservices", json_type, service).await;
    assert!(texts[0].contains("spec.service: this API server serves the group itself"), "{texts:?}");
    let hooks = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "w"}});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert!(send(Method::POST, path, json_type, hooks).await.is_empty());
    let quiet = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}});
    assert!(send(Method::POST, "/api/v1/namespaces/default/configmaps", json_type, quiet).await.is_empty());
    opened.close().await.expect("an end");
}

#[tokio::test]
async fn stored_objects_are_normalized_by_their_type() {
    let directory = tempfile::tempdir().expect("a directory");
    let opened = server(directory.path()).await;
    let client = opened.client("test");
    let empty = json!({"schedulerName": "", "propagateDeps": false, "priority": 0,
        "placement": {"clusterAffinity": {}, "clusterAffinities": [], "replicaScheduling": {"replicaSchedulingType": ""}}});
    for (path, kind, spec, expected) in [
        (
            POLICIES,
            "PropagationPolicy",
            selecting(empty),
            json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "namespace": "default"}],
                "schedulerName": "default-scheduler", "priority": 0, "preemption": "Never", "conflictResolution": "Abort",
                "placement": {"clusterAffinity": {}, "replicaScheduling": {"replicaSchedulingType": "Divided"}}}),
        ),
        (
            OVERRIDES,
            "OverridePolicy",
            json!({"overrideRules": [], "targetCluster": {"exclude": []}}),
            json!({"overriders": {}, "targetCluster": {}}),
        ),
        (
            CLUSTER_OVERRIDES,
            "ClusterOverridePolicy",
            json!({"overrideRules": [], "resourceSelectors": []}),
            json!({"overrideRules": [], "resourceSelectors": []}),
        ),
        (WORKS, "Work", json!({"suspendDispatching": false}), json!({"suspendDispatching": false, "workload": {}})),
        (
            BINDINGS,
            "ResourceBinding",
            json!({"resource": {"apiVersion": "v1", "kind": "K", "name": "n", "uid": ""}, "replicas": 0, "clusters": []}),
            json!({"resource": {"apiVersion": "v1", "kind": "K", "name": "n"}, "conflictResolution": "Abort"}),
        ),
    ] {
        let (code, object) = post(&client, path, kind, spec).await;
        assert_eq!((code, &object["spec"]), (201, &expected), "{object}");
    }
    opened.close().await.expect("an end");
}
