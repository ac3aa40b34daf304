//! FederatedResourceQuotas whose rules run as `karmada webhook` behind another API server: the webhook charges and
//! rejects, the controllers release usage.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey, Status};
use apiserver::{Admission, AdmissionRequest, ApiServer, Authorization, Operation, ServerConfig};
use client::{Client, DeleteOptions, Patch, PatchOptions};
use controllers::{Context, Gates, Settings};
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use karmada::rules::Rules;
use karmada::webhook;
use serde_json::{Value, json};
use storage::memory::MemoryStore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use transport::{ApiService, Identity, Response, full};
use world::World;

fn bindings() -> ApiResource {
    ApiResource::namespaced("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings")
}

fn quotas() -> ApiResource {
    ApiResource::namespaced("policy.karmada.io", "v1alpha1", "FederatedResourceQuota", "federatedresourcequotas")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

/// Calls the webhook as kube-apiserver does.
struct Calls(ApiService);

impl Admission for Calls {
    fn concerns(&self, _group: &str, plural: &str) -> bool {
        plural == "resourcebindings"
    }

    fn concerns_status(&self, _group: &str, _plural: &str) -> bool {
        false
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let operation = match request.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => return Box::pin(std::future::ready(Ok(()))),
        };
        let resource = &request.info.resource;
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": operation, "dryRun": request.dry_run,
            "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
            "namespace": request.key.namespace(), "name": request.key.name(),
            "object": request.object, "oldObject": request.old}});
        let call = http::Request::post("/validate-resourcebinding").header("content-type", "application/json");
        let call = call.body(full(review.to_string())).expect("a request");
        let answer: BoxFuture<'static, Result<Response, Infallible>> = Box::pin(self.0.clone().oneshot(call));
        Box::pin(async move {
            let answer = answer.await.expect("a service that never fails");
            let answer = answer.into_body().collect().await.expect("a body in memory").to_bytes();
            let answer: Value = serde_json::from_slice(&answer).expect("a review");
            match &answer["response"] {
                allowed if allowed["allowed"] == true => Ok(()),
                // A webhook omits fields that its caller defaults.
                refused => Err(Status {
                    kind: "Status".to_owned(),
                    api_version: "v1".to_owned(),
                    status: "Failure".to_owned(),
                    ..serde_json::from_value(refused["status"].clone()).expect("a Status")
                }),
            }
        })
    }
}

/// An API server with Karmada's kinds but without its rules, with the webhook and the controller.
struct WebhookPlane {
    server: ApiServer,
    client: Client,
    stop: CancellationToken,
}

impl WebhookPlane {
    async fn start() -> Self {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 3);
        let rules = Rules::new(
            world.clone(),
            karmada_api::admission::Options { quota_enforcement: true, ..Default::default() },
        );
        let config = ServerConfig {
            store: Arc::new(MemoryStore::new()),
            world: world.clone(),
            resources: kubernetes_api::resources().into_iter().chain(karmada_api::cluster::resources(None)).collect(),
            admission: vec![Arc::new(Calls(webhook::service(rules.clone(), metrics::Registry::default())))],
            authentication: Box::new(|_| Default::default()),
            authorization: Authorization::AlwaysAllow,
            routes: Vec::new(),
            crds: karmada_api::crds(),
            converters: Default::default(),
            version: Default::default(),
        };
        let server = ApiServer::start(config).await.expect("the server starts");
        let client = Client::in_process(server.service(), Identity::system("test"));
        rules.connect(client.clone());
        let (stop, gates) = (CancellationToken::new(), Gates { quota_enforcement: true, ..Gates::default() });
        let settings = Settings { gates, ..Settings::default() };
        let context = Context::new(client.clone(), world, Arc::new(|_| None), settings, stop.clone());
        controllers::start(&context, &["federatedResourceQuotaEnforcement".to_owned()]).expect("the controller starts");
        let quota = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
            "metadata": {"name": "q", "namespace": "default"}, "spec": {"overall": {"cpu": "5"}}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        // Some servers create it at their start.
        drop(client.create(&ApiResource::cluster("", "v1", "Namespace", "namespaces"), &namespace).await);
        client.create(&quotas(), &quota).await.expect("a quota");
        let plane = Self { server, client, stop };
        plane.until_used("0").await;
        plane
    }

    async fn bind(&self, name: &str, replicas: u32) -> Result<(), client::Error> {
        let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name},
                "replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "replicas": replicas,
                "clusters": [{"name": "m1", "replicas": replicas}]}});
        self.client.create(&bindings(), &binding).await.map(drop)
    }

    async fn scale(&self, name: &str, replicas: u32, version: Option<&str>) -> Result<(), client::Error> {
        let patch = json!({"metadata": {"resourceVersion": version},
            "spec": {"replicas": replicas, "clusters": [{"name": "m1", "replicas": replicas}]}});
        self.client.patch(&bindings(), &key(name), &Patch::Merge(patch), &PatchOptions::default()).await.map(drop)
    }

    async fn used(&self) -> String {
        let quota = self.client.get(&quotas(), &key("q")).await.expect("the quota").to_value().expect("JSON");
        quota["status"]["overallUsed"]["cpu"].as_str().unwrap_or("0").to_owned()
    }

    /// Longer than the controllers keep a charge for a binding that is not stored.
    async fn until_used(&self, expected: &str) {
        for _ in 0..600 {
            if self.used().await == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{} CPUs are used, not {expected}", self.used().await);
    }
}

fn assert_refused(result: Result<(), client::Error>) {
    let error = result.expect_err("the quota is exceeded");
    let status = error.status().expect("a Status");
    assert!(status.code == 403 && status.reason == "QuotaExceeded", "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_charges_and_the_controllers_release() {
    let plane = WebhookPlane::start().await;
    plane.bind("a", 3).await.expect("it fits");
    assert_eq!(plane.used().await, "3", "charged before it was stored");
    assert_refused(plane.bind("b", 3).await);
    assert_eq!(plane.used().await, "3");
    plane.scale("a", 5, None).await.expect("it fits exactly");
    assert_eq!(plane.used().await, "5");
    assert_refused(plane.scale("a", 6, None).await);
    // Released once it is stored.
    plane.scale("a", 1, None).await.expect("less always fits");
    plane.until_used("1").await;
    plane.bind("b", 3).await.expect("there is room again");
    assert_eq!(plane.used().await, "4");
    plane.client.delete(&bindings(), &key("b"), &DeleteOptions::default()).await.expect("deleted");
    plane.until_used("1").await;
    // Charged, and never stored.
    let error = plane.scale("a", 4, Some("1")).await.expect_err("an old version");
    assert!(error.is_conflict(), "{error}");
    plane.until_used("1").await;
    plane.stop.cancel();
    plane.server.shutdown();
}
