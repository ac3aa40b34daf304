//! An API server with controllers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use apiserver::auth::authn::{Authentication, StaticTokens};
use apiserver::{ApiServer, Authorization, ServerConfig};
use client::{Client, DeleteOptions, Patch, PatchOptions};
use controller_runtime::InformerSet;
use kube_controllers::{Running, Settings};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use transport::Identity;
use world::World;

pub struct Plane {
    pub client: Client,
    /// The controllers' client, which counts their requests.
    pub controlled: Client,
    pub world: World,
    pub settings: Settings,
    server: ApiServer,
    stop: CancellationToken,
    running: Vec<Running>,
}

pub fn resource(api_version: &str, kind: &str) -> ApiResource {
    let found = kubernetes_api::resources().into_iter().map(|resource| resource.info.resource.clone());
    let mut found = found.filter(|resource| resource.api_version() == api_version && resource.kind == kind);
    found.next().unwrap_or_else(|| panic!("{api_version} {kind} is served"))
}

/// The resource of an object to write.
fn resource_of(object: &Value) -> ApiResource {
    resource(object["apiVersion"].as_str().expect("apiVersion"), object["kind"].as_str().expect("kind"))
}

impl Plane {
    /// Starts a server with the selected controllers.
    pub async fn start(controllers: &[&str]) -> Self {
        let mut plane = Self::idle().await;
        plane.run(controllers).await;
        plane
    }

    /// Starts only the server, with the namespaces `default` and `demo`.
    pub async fn idle() -> Self {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
        let config = ServerConfig {
            store: Arc::new(storage::memory::MemoryStore::new()),
            world: world.clone(),
            resources: kubernetes_api::resources(),
            admission: Vec::new(),
            authentication: Box::new(|_| Authentication {
                static_tokens: Some(StaticTokens::parse("secret,kcm,1,system:masters\n").expect("tokens")),
                ..Authentication::default()
            }),
            authorization: Authorization::AlwaysAllow,
            routes: vec![Arc::new(apiserver::routes::Reviews)],
            crds: Vec::new(),
            converters: Default::default(),
            version: Default::default(),
        };
        let server = ApiServer::start(config).await.expect("the server starts");
        let client = Client::in_process(server.service(), Identity::system("test"));
        let (authority, _) = pki::Authority::generate("test", &world).expect("an authority");
        let key = pki::token::generate_key().expect("a key");
        let settings = Settings {
            root_ca_pem: Some(Arc::new(world::Level::new("root".into()))),
            token_signer: Some(Arc::new(pki::Signers::new(pki::Signer::from_pem(&key).expect("a signer")))),
            signing_authority: Some(Arc::new(world::Level::new(Arc::new(authority)))),
            ..Settings::default()
        };
        let controlled = client.with_user_agent("kube-controller-manager");
        let plane =
            Self { client, controlled, world, settings, server, stop: CancellationToken::new(), running: Vec::new() };
        for name in ["default", "demo"] {
            plane.create(namespace(name)).await;
        }
        plane
    }

    /// Returns when they are ready.
    pub async fn run(&mut self, controllers: &[&str]) {
        let informers = InformerSet::until(self.controlled.clone(), self.world.clone(), self.stop.clone());
        let selection: Vec<String> = controllers.iter().map(|name| (*name).to_owned()).collect();
        let (client, stop) = (self.controlled.clone(), self.stop.clone());
        let running = kube_controllers::start(client, &informers, self.settings.clone(), &selection, stop);
        let mut running = running.expect("known controllers");
        running.synced().await;
        self.running.push(running);
    }

    /// Connects the controllers over a socket, with real time.
    pub async fn serve(&mut self) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = client::Endpoint {
            server: format!("http://{}", listener.local_addr().expect("an address")),
            token: Some("secret".into()),
            ..client::Endpoint::default()
        };
        let (service, limits) = (self.server.service(), apiserver::serve::Limits::default());
        tokio::spawn(apiserver::serve::serve(listener, None, service, limits, self.stop.clone()));
        self.controlled = Client::from_endpoint(&endpoint).expect("a client");
    }

    pub fn service(&self) -> transport::ApiService {
        self.server.service()
    }

    pub async fn create(&self, object: Value) -> Arc<Object> {
        let resource = resource_of(&object);
        self.client.create(&resource, &object).await.unwrap_or_else(|error| panic!("{}: {error}", resource.kind))
    }

    pub async fn get(&self, resource: &ApiResource, key: &str) -> Option<Value> {
        let object = self.client.get_opt(resource, &key_of(key)).await.expect("the server answers")?;
        Some(object.to_value().expect("an object"))
    }

    pub async fn merge(&self, resource: &ApiResource, key: &str, patch: Value) {
        let options = PatchOptions::default();
        self.client.patch(resource, &key_of(key), &Patch::Merge(patch), &options).await.expect("the patch");
    }

    pub async fn merge_status(&self, resource: &ApiResource, key: &str, patch: Value) {
        let options = PatchOptions::status();
        self.client.patch(resource, &key_of(key), &Patch::Merge(patch), &options).await.expect("the patch");
    }

    /// `policy` is the propagation policy; empty for the kind's default.
    pub async fn delete(&self, resource: &ApiResource, key: &str, policy: &'static str) {
        let options =
            DeleteOptions { propagation_policy: (!policy.is_empty()).then_some(policy), ..DeleteOptions::default() };
        self.client.delete(resource, &key_of(key), &options).await.expect("the delete");
    }

    /// Waits up to ten virtual minutes for `condition`.
    pub async fn until<T, F: Future<Output = Option<T>>>(&self, what: &str, condition: impl Fn() -> F) -> T {
        for _ in 0..6_000 {
            if let Some(found) = condition().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("never happened: {what}")
    }

    pub async fn until_gone(&self, resource: &ApiResource, key: &str) {
        let gone = async || self.get(resource, key).await.is_none().then_some(());
        self.until(&format!("{} {key} is gone", resource.kind), gone).await;
    }

    /// Waits until all work in progress is done.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(30)).await;
    }

    /// The controllers' requests by verb and resource, without lists and watches.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        let rows = self.controlled.request_counts().into_iter();
        rows.filter(|row| row.verb != "watch" && row.verb != "list")
            .map(|row| (format!("{} {}", row.verb, row.resource), row.count))
            .collect()
    }

    pub async fn shutdown(self) {
        self.stop.cancel();
        for running in self.running {
            running.ended().await;
        }
        self.server.shutdown();
    }
}

/// From `name` or `namespace/name`.
pub fn key_of(text: &str) -> ObjectKey {
    match text.split_once('/') {
        Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(text),
    }
}

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}
