//! A Kubernetes API server inside another program: in memory, on a port of the system's choosing, used by kube-rs.
//!
//! `cargo run -p apiserver --example embed`; `docs/embedding.md` explains each part.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::auth::authn::Authentication;
use apiserver::serve::{self, Limits};
use apiserver::{ApiServer, Authorization, ServerConfig};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, PostParams};
use storage::memory::MemoryStore;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use world::World;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let begun = Instant::now();
    let server = ApiServer::start(ServerConfig {
        store: Arc::new(MemoryStore::new()),
        world: World::system(),
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        // Every client that reaches the port is authorized for everything: for tests only.
        authentication: Box::new(|_| Authentication { anonymous: true, ..Authentication::default() }),
        authorization: Authorization::AlwaysAllow,
        routes: Vec::new(),
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    })
    .await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let stop = CancellationToken::new();
    let socket = tokio::spawn(serve::serve(listener, None, server.service(), Limits::default(), stop.clone()));
    println!("{url} after {:?}", begun.elapsed());

    let client = kube::Client::try_from(kube::Config::new(url.parse()?))?;
    let named = |name: &str| kube::api::ObjectMeta { name: Some(name.into()), ..Default::default() };
    let namespace = Namespace { metadata: named("default"), ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let greeting = ConfigMap {
        metadata: named("greeting"),
        data: Some(BTreeMap::from([("hello".into(), "world".into())])),
        ..ConfigMap::default()
    };
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client);
    config_maps.create(&PostParams::default(), &greeting).await?;
    for found in config_maps.list(&ListParams::default()).await? {
        println!("{}: {:?}", found.metadata.name.unwrap_or_default(), found.data.unwrap_or_default());
    }

    server.end_watches();
    stop.cancel();
    socket.await?;
    server.shutdown();
    Ok(())
}
