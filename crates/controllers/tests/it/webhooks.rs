//! Interpreter webhooks: all operations of a kind without a built-in interpretation.

use std::convert::Infallible;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use base64::Engine as _;
use client::{Client, Patch, PatchOptions};
use http_body_util::BodyExt;
use karmada_api::scope::{Binding, Scope};
use serde_json::{Value, json};
use transport::{ApiService, Request, Response};

use crate::harness::{Plane, get};

fn workloads() -> ApiResource {
    ApiResource::namespaced("workload.example.io", "v1alpha1", "Workload", "workloads")
}

fn demo(name: &str) -> ObjectKey {
    ObjectKey::namespaced("demo", name)
}

/// The webhook's response for a Workload.
fn answer(request: &Value) -> Value {
    let object = &request["object"];
    let patch = |operations: Value| {
        let text = base64::prelude::BASE64_STANDARD.encode(operations.to_string());
        json!({"patchType": "JSONPatch", "patch": text})
    };
    let put = |path: &str, value: &Value| json!([{"op": "add", "path": path, "value": value}]);
    match request["operation"].as_str().unwrap_or_default() {
        "InterpretReplica" => json!({"replicas": object["spec"]["replicas"]}),
        "ReviseReplica" => patch(put("/spec/replicas", &request["replicas"])),
        "Retain" => patch(put("/spec/paused", &request["observedObject"]["spec"]["paused"])),
        "AggregateStatus" => {
            let items = request["aggregatedStatus"].as_array().into_iter().flatten();
            let ready: i64 = items.filter_map(|item| item["status"]["readyReplicas"].as_i64()).sum();
            patch(put("/status", &json!({"readyReplicas": ready})))
        }
        "InterpretStatus" => json!({"rawStatus": {"readyReplicas": object["status"]["readyReplicas"]}}),
        "InterpretHealth" => json!({"healthy": object["status"]["readyReplicas"] == object["spec"]["replicas"]}),
        "InterpretDependency" => {
            let named = object["spec"]["map"].as_str();
            let found = named.map(|name| {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": object["metadata"]["namespace"], "name": name})
            });
            json!({"dependencies": found.into_iter().collect::<Vec<_>>()})
        }
        other => json!({"successful": false, "status": {"code": 400, "message": other}}),
    }
}

fn webhook() -> ApiService {
    webhook_adding(0)
}

/// A webhook that adds this many replicas, to distinguish it from others.
fn webhook_adding(more: i64) -> ApiService {
    ApiService::new(tower::service_fn(move |request: Request| async move {
        let body = request.into_body().collect().await.expect("a body").to_bytes();
        let review: Value = serde_json::from_slice(&body).expect("a document");
        let mut response = answer(&review["request"]);
        if let Some(replicas) = response["replicas"].as_i64() {
            response["replicas"] = json!(replicas + more);
        }
        response["uid"] = review["request"]["uid"].clone();
        if response.get("successful").is_none() {
            response["successful"] = json!(true);
        }
        let reply = json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
        Ok::<_, Infallible>(Response::new(transport::full(reply.to_string())))
    }))
}

async fn define(client: &Client) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "workloads.workload.example.io"}, "spec": {"group": "workload.example.io", "scope": "Namespaced",
        "names": {"kind": "Workload", "listKind": "WorkloadList", "plural": "workloads", "singular": "workload"},
        "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": schema}]}});
    let resource =
        ApiResource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
    client.create(&resource, &definition).await.expect("the definition");
}

async fn configure(plane: &Plane, client_config: Value) {
    let resource = ApiResource::cluster(
        "config.karmada.io",
        "v1alpha1",
        "ResourceInterpreterWebhookConfiguration",
        "resourceinterpreterwebhookconfigurations",
    );
    let rule = json!({"operations": ["*"], "apiGroups": ["workload.example.io"], "apiVersions": ["v1alpha1"], "kinds": ["Workload"]});
    let configuration = json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": "examples"}, "webhooks": [{"name": "workloads.example.com", "rules": [rule], "timeoutSeconds": 3,
        "clientConfig": client_config, "interpreterContextVersions": ["v1alpha1"]}]});
    plane.create(resource, configuration).await;
}

async fn propagate(plane: &Plane) {
    let workload = json!({"apiVersion": "workload.example.io/v1alpha1", "kind": "Workload",
        "metadata": {"name": "w", "namespace": "demo"}, "spec": {"replicas": 4, "map": "settings", "paused": false}});
    plane.create(workloads(), workload).await;
    let map = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let settings =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "demo"}});
    plane.create(map, settings).await;
    let policies = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies");
    let weight = |name: &str| json!({"targetCluster": {"clusterNames": [name]}, "weight": 1});
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "pp", "namespace": "demo"}, "spec": {"propagateDeps": true,
        "resourceSelectors": [{"apiVersion": "workload.example.io/v1alpha1", "kind": "Workload", "name": "w"}],
        "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": [weight("m1"), weight("m2")]}}}}});
    plane.create(policies, policy).await;
}

#[tokio::test(start_paused = true)]
async fn a_webhook_interprets_its_kind() {
    let plane = Plane::start().await;
    plane.network.serve("hook", webhook());
    for client in [plane.client.clone(), plane.member("m1"), plane.member("m2")] {
        define(&client).await;
    }
    configure(&plane, json!({"url": "https://hook/interpret"})).await;
    // Until both members are known to serve it: earlier division does not change later.
    tokio::time::sleep(Duration::from_secs(15)).await;
    propagate(&plane).await;

    let binding =
        async || plane.get(&Binding::api_resource(Scope::Namespaced), &demo("w-workload")).await.expect("the binding");
    let (m1, m2) = (plane.member("m1"), plane.member("m2"));
    for member in [&m1, &m2] {
        plane
            .until("its half of the replicas", async || {
                let object = get(member, &workloads(), &demo("w")).await?;
                (object["spec"]["replicas"] == 2).then_some(())
            })
            .await;
    }
    assert_eq!(binding().await["spec"]["replicas"], 4);

    let maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    plane.until("what it needs", async || get(&m2, &maps, &demo("settings")).await).await;

    let status = |ready: i64| Patch::Merge(json!({"status": {"readyReplicas": ready}}));
    m1.patch(&workloads(), &demo("w"), &status(2), &PatchOptions::status()).await.expect("a status");
    m2.patch(&workloads(), &demo("w"), &status(1), &PatchOptions::status()).await.expect("a status");
    plane
        .until("the sum of the members", async || {
            let template = plane.get(&workloads(), &demo("w")).await?;
            (template["status"]["readyReplicas"] == 3).then_some(())
        })
        .await;
    let items = binding().await["status"]["aggregatedStatus"].clone();
    let health: Vec<&Value> = items.as_array().expect("items").iter().map(|item| &item["health"]).collect();
    assert_eq!(health, ["Healthy", "Unhealthy"], "{items}");

    // Values that the member owns are retained.
    let paused = Patch::Merge(json!({"spec": {"paused": true, "replicas": 9}}));
    m1.patch(&workloads(), &demo("w"), &paused, &PatchOptions::default()).await.expect("the edit");
    let object = plane
        .until("the rest is put back", async || {
            let object = get(&m1, &workloads(), &demo("w")).await?;
            (object["spec"]["replicas"] == 2).then_some(object)
        })
        .await;
    assert_eq!(object["spec"]["paused"], true);

    // A dependency that is no longer required is removed.
    let patch = json!({"spec": {"map": null}});
    plane.merge(&workloads(), &demo("w"), patch, PatchOptions::default()).await;
    plane.until("it is gone", async || get(&m2, &maps, &demo("settings")).await.is_none().then_some(())).await;
    assert!(plane.get(&maps, &demo("settings")).await.is_some(), "it stays in the control plane");
    plane.shutdown().await;
}

/// The address of a webhook's Service: from the control plane's Service, or its name in DNS.
#[tokio::test(start_paused = true)]
async fn a_webhook_is_found_by_its_service() {
    let plane = Plane::start().await;
    for client in [plane.client.clone(), plane.member("m1"), plane.member("m2")] {
        define(&client).await;
    }
    let service = json!({"namespace": "demo", "name": "hook", "port": 8443, "path": "interpret"});
    configure(&plane, json!({"service": service})).await;
    plane.network.serve("hook.demo.svc:8443", webhook());
    tokio::time::sleep(Duration::from_secs(15)).await;
    propagate(&plane).await;
    let counted = async |replicas: i64| {
        let binding = plane.get(&Binding::api_resource(Scope::Namespaced), &demo("w-workload")).await?;
        (binding["spec"]["replicas"] == replicas).then_some(())
    };
    plane.until("the answer of a Service that is not known here", async || counted(4).await).await;

    let services = ApiResource::namespaced("", "v1", "Service", "services");
    let port = |port: u16| json!([{"name": "p", "port": port}]);
    for (replicas, spec, host) in [
        (5, json!({"clusterIP": "10.96.0.77", "ports": port(8443)}), Some(("10.96.0.77:8443", 100))),
        (6, json!({"type": "ExternalName", "externalName": "else.example.com"}), Some(("else.example.com:8443", 200))),
        // Headless, and without the port: no address.
        (7, json!({"clusterIP": "None", "ports": port(8443)}), None),
        (8, json!({"clusterIP": "10.96.0.77", "ports": port(443)}), None),
    ] {
        let object = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "hook", "namespace": "demo"}, "spec": spec});
        plane.create(services.clone(), object).await;
        if let Some((host, more)) = host {
            plane.network.serve(host, webhook_adding(more));
        }
        let patch = json!({"spec": {"replicas": replicas}});
        plane.merge(&workloads(), &demo("w"), patch, PatchOptions::default()).await;
        if let Some((host, more)) = host {
            plane.until(host, async || counted(replicas + more).await).await;
        }
        plane.settle().await;
        assert!(counted(replicas).await.is_none(), "{replicas}: another was called");
        let options = client::DeleteOptions::background();
        plane.client.delete(&services, &demo("hook"), &options).await.expect("the deletion");
        let patch = json!({"metadata": {"annotations": {"touched": replicas.to_string()}}});
        plane.merge(&workloads(), &demo("w"), patch, PatchOptions::default()).await;
        plane.until("its name in DNS", async || counted(replicas).await).await;
    }
    plane.shutdown().await;
}
