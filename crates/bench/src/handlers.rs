//! The cost of requests in the API server's own code: in this process, without sockets and disk, sequentially. The
//! figures are the CPU time of one thread, so that other work on the machine disturbs them little.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use apiserver::authn::Authentication;
use apiserver::{ApiServer, Authorization, ServerConfig};
use http_body_util::BodyExt as _;
use storage::memory::MemoryStore;
use tower::ServiceExt as _;
use transport::{ApiService, Identity};

use crate::apiserver::objects::{config_map, deployment, name, status};

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

/// A request, repeated for a range of numbers.
struct Phase {
    name: &'static str,
    count: usize,
    make: Box<dyn Fn(usize) -> http::request::Builder>,
    body: Box<dyn Fn(usize) -> bytes::Bytes>,
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
    Phase { name, count, make: Box::new(make), body: Box::new(body) }
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
    println!("| phase | CPU microseconds/request | bytes of a reply |");
    println!("|---|--:|--:|");
    for phase in phases(&args) {
        let times = match &args.repeat[..] {
            [name, times] if name == phase.name => times.parse().context("--repeat wants a number")?,
            _ => 1,
        };
        let bodies: Vec<_> = (0..phase.count).map(&phase.body).collect();
        let (begun, mut bytes) = (cpu_micros()?, 0);
        for _ in 0..times {
            for (n, body) in bodies.iter().enumerate() {
                bytes = call(&service, (phase.make)(n), body.clone()).await.context(phase.name)?;
            }
        }
        let each = (cpu_micros()? - begun) / (phase.count * times).max(1) as f64;
        println!("| {:<14} | {each:>9.1} | {bytes} |", phase.name);
    }
    server.shutdown();
    Ok(())
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
        crds: Vec::new(),
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
