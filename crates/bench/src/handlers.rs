//! The cost of requests in the API server's own code: in this process, without sockets and disk, sequentially. The
//! figures are the CPU time of one thread, so that other work on the machine disturbs them little.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use apimachinery::{ApiResource, ObjectKey};
use apiserver::auth::authn::Authentication;
use apiserver::{ApiServer, Authorization, ServerConfig};
use client::{Client, Patch, PatchOptions};
use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use storage::memory::MemoryStore;
use tower::ServiceExt as _;
use transport::{ApiService, Identity};

use crate::apiserver::objects::{binding, config_map, deployment, name, status, work};

const NAMESPACES: &str = "/api/v1/namespaces";
const MAPS: &str = "/api/v1/namespaces/bench/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/bench/deployments";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

#[derive(clap::Args)]
pub struct Args {
    /// ConfigMaps, and Deployments; each is written and read once in each phase.
    #[arg(long, default_value_t = 1000)]
    objects: usize,
    /// How often each list is requested.
    #[arg(long, default_value_t = 10)]
    lists: usize,
    /// A phase to repeat this many times, for a profiler.
    #[arg(long, num_args = 2, value_names = ["PHASE", "TIMES"])]
    repeat: Vec<String>,
}

/// How a phase reaches the server.
enum Send {
    /// Bytes, as from a socket.
    Wire { make: Box<dyn Fn(usize) -> http::request::Builder>, body: Box<dyn Fn(usize) -> bytes::Bytes> },
    /// Through the client that controllers in the process use.
    Client { call: fn(Client, usize, Value) -> BoxFuture<'static, client::Result<()>>, draft: fn(usize) -> Value },
}

/// One request, repeated with each number below `count`.
struct Phase {
    name: &'static str,
    count: usize,
    send: Send,
}

fn phase(
    name: &'static str,
    count: usize,
    (method, kind, accept): (&'static str, &'static str, &'static str),
    path: impl Fn(usize) -> String + 'static,
    body: impl Fn(usize) -> bytes::Bytes + 'static,
) -> Phase {
    let make = move |n| {
        let request = http::Request::builder().method(method).uri(path(n));
        request.header("content-type", kind).header("accept", accept).header("user-agent", "bench/1")
    };
    Phase { name, count, send: Send::Wire { make: Box::new(make), body: Box::new(body) } }
}

fn works() -> ApiResource {
    ApiResource::namespaced("work.karmada.io", "v1alpha1", "Work", "works")
}

fn bindings() -> ApiResource {
    ApiResource::namespaced("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings")
}

fn key(n: usize) -> ObjectKey {
    ObjectKey::namespaced("bench", name(n))
}

fn in_process(count: usize) -> Vec<Phase> {
    let phase = |name, call, draft| Phase { name, count, send: Send::Client { call, draft } };
    vec![
        phase("create-work", |client, _, draft| create(client, works(), draft), |n| work(n, 2)),
        phase("update-work", |client, n, draft| update(client, works(), n, draft), |n| work(n, 3)),
        phase("work-status", |client, n, draft| patch(client, works(), n, draft, PatchOptions::status()), work_status),
        phase("create-binding", |client, _, draft| create(client, bindings(), draft), |n| binding(n, 2)),
        phase("update-binding", |client, n, draft| update(client, bindings(), n, draft), |n| binding(n, 3)),
        phase(
            "patch-binding",
            |client, n, draft| patch(client, bindings(), n, draft, PatchOptions::default()),
            |_| json!({"spec": {"clusters": [{"name": "member1", "replicas": 1}, {"name": "member2", "replicas": 2}]}}),
        ),
        phase(
            "binding-status",
            |client, n, draft| patch(client, bindings(), n, draft, PatchOptions::status()),
            |n| json!({"status": {"schedulerObservedGeneration": 1 + n % 3, "conditions": []}}),
        ),
    ]
}

fn work_status(n: usize) -> Value {
    let workload = json!({"replicas": 2, "readyReplicas": n % 3, "availableReplicas": 2, "updatedReplicas": 2});
    let identifier = json!({"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment",
        "resource": "deployments", "namespace": "bench", "name": name(n)});
    json!({"status": {"manifestStatuses": [{"identifier": identifier, "health": "Healthy", "status": workload}]}})
}

fn create(client: Client, resource: ApiResource, draft: Value) -> BoxFuture<'static, client::Result<()>> {
    Box::pin(async move { client.create(&resource, &draft).await.map(drop) })
}

/// As a controller does: the cached object with another specification.
fn update(client: Client, resource: ApiResource, n: usize, draft: Value) -> BoxFuture<'static, client::Result<()>> {
    Box::pin(async move {
        let stored = client.get(&resource, &key(n)).await?;
        let mut tree = draft;
        tree["metadata"]["resourceVersion"] = stored.resource_version().into();
        client.update(&resource, &tree).await.map(drop)
    })
}

fn patch(
    client: Client,
    resource: ApiResource,
    n: usize,
    draft: Value,
    options: PatchOptions,
) -> BoxFuture<'static, client::Result<()>> {
    Box::pin(async move { client.patch(&resource, &key(n), &Patch::Merge(draft), &options).await.map(drop) })
}

fn phases(args: &Args) -> Vec<Phase> {
    let (count, lists) = (args.objects, args.lists);
    let map = |n| format!("{MAPS}/{}", name(n));
    let path = |n| format!("{DEPLOYMENTS}/{}", name(n));
    let apply = move |n| path(n) + "?fieldManager=bench&force=true";
    let nothing = |_| bytes::Bytes::new();
    let list = |name, accept| phase(name, lists, ("GET", JSON, accept), |_| MAPS.into(), nothing);
    vec![
        phase("create-map", count, ("POST", JSON, JSON), |_| MAPS.into(), |n| config_map(n, "all")),
        phase("get-map", count, ("GET", JSON, JSON), map, nothing),
        phase("patch-map", count, ("PATCH", MERGE, JSON), map, |_| r#"{"data":{"p":"1"}}"#.into()),
        phase("update-map", count, ("PUT", JSON, JSON), map, |n| config_map(n, "updated")),
        phase("create", count, ("POST", JSON, JSON), |_| DEPLOYMENTS.into(), |n| deployment(n, 1)),
        phase("status", count, ("PATCH", MERGE, JSON), move |n| path(n) + "/status", |n| status(n % 5 + 1)),
        phase("apply", count, ("PATCH", APPLY, JSON), apply, |n| deployment(n, 2 + n % 7)),
        phase("apply-again", count, ("PATCH", APPLY, JSON), apply, |n| deployment(n, 2 + n % 7)),
        list("list", JSON),
        list("list-table", TABLE),
        list("list-metadata", METADATA),
        list("list-protobuf", PROTOBUF),
    ]
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let server = server().await?;
    let service = server.service();
    let namespace = http::Request::post(NAMESPACES).header("content-type", JSON);
    call(&service, namespace, r#"{"metadata":{"name":"bench"}}"#.into()).await?;
    let client = Client::in_process(service.clone(), Identity::system("bench"));
    println!("| phase | CPU microseconds/request | bytes of a reply |");
    println!("|---|--:|--:|");
    for phase in phases(&args).into_iter().chain(in_process(args.objects)) {
        let times = match &args.repeat[..] {
            [name, times] if name == phase.name => times.parse().context("--repeat wants a number")?,
            _ => 1,
        };
        let (micros, bytes) = phase.measure(&service, &client, times).await.context(phase.name)?;
        println!("| {:<14} | {:>9.1} | {bytes} |", phase.name, micros / (phase.count * times).max(1) as f64);
    }
    server.shutdown();
    Ok(())
}

impl Phase {
    /// CPU microseconds of the requests, and the size of the last reply (0 where the reply is an object, not bytes).
    async fn measure(&self, service: &ApiService, client: &Client, times: usize) -> anyhow::Result<(f64, usize)> {
        match &self.send {
            Send::Wire { make, body } => {
                let bodies: Vec<_> = (0..self.count).map(body).collect();
                let (begun, mut bytes) = (cpu_micros()?, 0);
                for _ in 0..times {
                    for (n, body) in bodies.iter().enumerate() {
                        bytes = call(service, make(n), body.clone()).await?;
                    }
                }
                Ok((cpu_micros()? - begun, bytes))
            }
            Send::Client { call, draft } => {
                let rounds: Vec<Vec<Value>> = (0..times).map(|_| (0..self.count).map(draft).collect()).collect();
                let begun = cpu_micros()?;
                for (n, draft) in rounds.into_iter().flat_map(|drafts| drafts.into_iter().enumerate()) {
                    call(client.clone(), n, draft).await?;
                }
                Ok((cpu_micros()? - begun, 0))
            }
        }
    }
}

async fn server() -> anyhow::Result<ApiServer> {
    let config = ServerConfig {
        store: Arc::new(MemoryStore::new()),
        world: world::World::system(),
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        authentication: Box::new(|_| Authentication::default()),
        authorization: Authorization::Rbac,
        routes: Vec::new(),
        crds: karmada_api::crds(),
        converters: Default::default(),
        version: Default::default(),
    };
    ApiServer::start(config).await.context("starting a server in this process")
}

/// The size of the reply.
async fn call(service: &ApiService, request: http::request::Builder, body: bytes::Bytes) -> anyhow::Result<usize> {
    let request = request.extension(Identity::system("bench")).body(transport::full(body))?;
    let Ok(response) = service.clone().oneshot(request).await;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(anyhow::Error::from_boxed)?.to_bytes();
    ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    Ok(body.len())
}

/// The CPU time of this thread, by the scheduler's accounting.
fn cpu_micros() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").context("reading schedstat")?;
    let nanos: f64 = text.split_whitespace().next().context("an empty schedstat")?.parse()?;
    Ok(nanos / 1000.0)
}
