//! A control plane with clusters that are only objects, and a scheduler whose requests are counted.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use apiserver::{ApiServer, Authorization, ServerConfig};
use client::{Client, Patch, PatchOptions};
use controller_runtime::InformerSet;
use futures::future::BoxFuture;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::labels;
use karmada_api::identity::BindingKey;
use karmada_api::scope::Binding;
use scheduler::{Options, Scheduler};
use scheduling::record::{ANNOTATION, Record};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Identity, Request, Response};
use world::World;

/// Called before each write of the scheduler: a returned response replaces the server's.
pub type Gate = Box<dyn FnMut() -> BoxFuture<'static, Option<Response>> + Send>;

pub struct Plane {
    pub client: Client,
    /// The same server; the scheduler's requests are counted here.
    counted: Client,
    pub world: World,
    server: ApiServer,
    gate: Arc<Mutex<Option<Gate>>>,
    stop: CancellationToken,
    pub scheduler: Scheduler,
}

fn gated(service: ApiService, gate: Arc<Mutex<Option<Gate>>>) -> ApiService {
    ApiService::new(tower::service_fn(move |request: Request| {
        let is_change = request.method() == http::Method::PATCH;
        let gate_response = is_change.then(|| gate.lock().expect("not poisoned").as_mut().map(|gate| gate())).flatten();
        let served: BoxFuture<'static, Result<Response, Infallible>> =
            Box::pin(tower::ServiceExt::oneshot(service.clone(), request));
        async move {
            if let Some(gate_response) = gate_response
                && let Some(answer) = gate_response.await
            {
                return Ok(answer);
            }
            served.await
        }
    }))
}

fn start(client: &Client, world: &World, options: Options, stop: &CancellationToken) -> Scheduler {
    let informers = InformerSet::until(client.clone(), world.clone(), stop.clone());
    scheduler::start(&informers, client, world.clone(), options, stop.clone()).0
}

impl Plane {
    pub async fn start() -> Self {
        Self::start_over(Arc::new(storage::memory::MemoryStore::new())).await
    }

    pub async fn start_over(store: Arc<dyn storage::Store>) -> Self {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 11);
        let mut resources = kubernetes_api::resources();
        resources.extend(karmada_api::cluster::resources(None));
        let config = ServerConfig {
            store,
            world: world.clone(),
            resources,
            admission: Vec::new(),
            authentication: Box::new(|_| Default::default()),
            authorization: Authorization::AlwaysAllow,
            routes: Vec::new(),
            crds: karmada_api::crds(),
            converters: Default::default(),
            version: Default::default(),
        };
        let server = ApiServer::start(config).await.expect("the server starts");
        let client = Client::in_process(server.service(), Identity::system("test"));
        let (gate, stop) = (Arc::default(), CancellationToken::new());
        let counted = Client::in_process(gated(server.service(), Arc::clone(&gate)), Identity::system("scheduler"));
        let scheduler = start(&counted, &world, Options::default(), &stop);
        let plane = Self { client, counted, world, server, gate, stop, scheduler };
        // Events about cluster-scoped objects go into `default`.
        for name in ["default", "demo"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            plane.create(&ApiResource::cluster("", "v1", "Namespace", "namespaces"), namespace).await;
        }
        plane
    }

    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// From now on the gate is called before each write of the scheduler.
    pub fn gate(&self, gate: impl FnMut() -> BoxFuture<'static, Option<Response>> + Send + 'static) {
        *self.gate.lock().expect("not poisoned") = Some(Box::new(gate));
    }

    pub fn open(&self) {
        *self.gate.lock().expect("not poisoned") = None;
    }

    /// Replaces the running scheduler by a new one without state.
    pub fn restart(&mut self) {
        self.restart_with(Options::default());
    }

    pub fn restart_with(&mut self, options: Options) {
        self.stop.cancel();
        self.stop = CancellationToken::new();
        self.scheduler = start(&self.counted, &self.world, options, &self.stop);
    }

    pub async fn create(&self, resource: &ApiResource, object: Value) -> Arc<Object> {
        self.client.create(resource, &object).await.unwrap_or_else(|error| panic!("{}: {error}", resource.kind))
    }

    /// Joins a ready cluster that serves Deployments and ConfigMaps and has room for 100 pods; `change` is merged over
    /// it.
    pub async fn join(&self, name: &str, change: Value) {
        let mut cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"syncMode": "Push"},
            "status": {
                "apiEnablements": [enablement("apps/v1", "Deployment"), enablement("v1", "ConfigMap")],
                "resourceSummary": capacity(100),
            },
        });
        apimachinery::merge_patch::apply(&mut cluster, &change);
        let status = cluster["status"].take();
        self.create(&Cluster::api_resource(), cluster).await;
        self.cluster_status(name, status).await;
    }

    pub async fn cluster_status(&self, name: &str, status: Value) {
        let patch = json!({"status": status});
        self.merge(&Cluster::api_resource(), &ObjectKey::cluster(name), patch, PatchOptions::status()).await;
    }

    pub async fn change_cluster(&self, name: &str, patch: Value) {
        self.merge(&Cluster::api_resource(), &ObjectKey::cluster(name), patch, PatchOptions::default()).await;
    }

    /// Deletes a cluster; its finalizers hold it.
    pub async fn leave(&self, name: &str) {
        let key = ObjectKey::cluster(name);
        self.client.delete(&Cluster::api_resource(), &key, &Default::default()).await.expect("the deletion");
    }

    /// A binding of a Deployment as the detector makes it; `spec` is merged over it.
    pub async fn bind(&self, key: &BindingKey, spec: Value) {
        let scope = key.scope();
        let mut object = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": Binding::kind(scope),
            "metadata": {"name": key.name(), "labels": {labels::POLICY_ID: "p"}},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": key.name(), "uid": "u"},
                "replicas": 2, "placement": {},
            },
        });
        if let Some(namespace) = key.namespace() {
            object["metadata"]["namespace"] = namespace.into();
            object["spec"]["resource"]["namespace"] = namespace.into();
        }
        apimachinery::merge_patch::apply(&mut object["spec"], &spec);
        self.create(&Binding::api_resource(scope), object).await;
    }

    pub async fn change(&self, key: &BindingKey, spec: Value) {
        let patch = json!({"spec": spec});
        self.merge(&key.resource(), key, patch, PatchOptions::default()).await;
    }

    pub async fn merge(&self, resource: &ApiResource, key: &ObjectKey, patch: Value, options: PatchOptions) {
        self.client.patch(resource, key, &Patch::Merge(patch), &options).await.expect("the patch");
    }

    pub async fn get(&self, key: &BindingKey) -> Value {
        let resource = key.resource();
        let object = self.client.get(&resource, key).await.expect("the binding");
        object.to_value().expect("a binding")
    }

    /// Why it is where it is, as the scheduler wrote it down.
    pub async fn record(&self, key: &BindingKey) -> Option<Record> {
        Record::parse(self.get(key).await["metadata"]["annotations"][ANNOTATION].as_str()?)
    }

    /// The binding's clusters as `m1:2 m2:2`, and the condition as `True Success` or `False reason: message`.
    pub async fn state(&self, key: &BindingKey) -> String {
        let binding = self.get(key).await;
        let clusters = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
        let clusters = clusters.iter().map(|target| {
            format!("{}:{}", target["name"].as_str().unwrap_or_default(), target["replicas"].as_i64().unwrap_or(0))
        });
        let conditions = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let scheduled = conditions.iter().find(|condition| condition["type"] == "Scheduled");
        let field = |name: &str| scheduled.and_then(|it| it[name].as_str()).unwrap_or_default().to_owned();
        let condition = match field("status").as_str() {
            "True" => format!("{} {}", field("status"), field("reason")),
            "False" => format!("False {}: {}", field("reason"), field("message")),
            _ => "-".to_owned(),
        };
        format!("{} | {condition}", clusters.collect::<Vec<_>>().join(" "))
    }

    /// Waits until all work in progress is finished, then compares the state.
    #[track_caller]
    pub fn expect<'a>(&'a self, key: &'a BindingKey, expected: &'a str) -> impl Future<Output = ()> + 'a {
        let at = std::panic::Location::caller();
        async move {
            self.settle().await;
            assert_eq!(self.state(key).await, expected, "{at}");
        }
    }

    /// The messages of the events about a binding, each once, with their reasons, in the order of their texts.
    pub async fn events(&self, key: &BindingKey) -> Vec<String> {
        let resource = ApiResource::namespaced("", "v1", "Event", "events");
        let list = self.client.list(&resource, None, &Default::default()).await.expect("the events");
        let mut texts = std::collections::BTreeSet::new();
        for event in list.items {
            let event = event.to_value().expect("an event");
            let involved = &event["involvedObject"];
            if involved["name"] == key.name() {
                let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
                let kind = involved["kind"].as_str().unwrap_or_default();
                texts.insert(format!("{kind} {} {}: {}", field("type"), field("reason"), field("message")));
            }
        }
        texts.into_iter().collect()
    }

    /// Writes of the scheduler since the last call, by verb and resource, without events.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        let rows = self.counted.request_counts().into_iter();
        rows.filter(|row| row.resource != "events" && row.verb != "watch" && row.verb != "list")
            .map(|row| (format!("{} {}", row.verb, row.resource), row.count))
            .collect()
    }

    pub fn writes(&self) -> u64 {
        self.requests().iter().filter(|(what, _)| !what.starts_with("get ")).map(|(_, count)| count).sum()
    }

    /// Waits until all work in progress is finished, including events, which are written half a second later.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    pub fn shutdown(self) {
        self.stop.cancel();
        self.server.shutdown();
    }
}

pub fn enablement(group_version: &str, kind: &str) -> Value {
    json!({"groupVersion": group_version, "resources": [{"name": format!("{}s", kind.to_lowercase()), "kind": kind}]})
}

pub fn capacity(pods: u32) -> Value {
    json!({"allocatable": {"pods": pods.to_string(), "cpu": "1000"}})
}

pub fn key(name: &str) -> BindingKey {
    BindingKey::namespaced("demo", name)
}
