//! The API server alone, over TLS as clients reach it: operations a second, latency, and what each costs the server.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use client::Client;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::figures::{Latencies, line};
use super::fleet::{build, connect};
use super::process::Process;

const NAMESPACE: &str = "bench";
const CONFIG_MAPS: &str = "/api/v1/namespaces/bench/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/bench/deployments";
/// Bytes of data in a ConfigMap.
const DATA: usize = 1024;
/// Longest wait for the events of one phase.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(clap::Args)]
pub struct Args {
    /// A binary to measure instead of a release build of this tree.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[arg(long, default_value_t = 3000)]
    config_maps: usize,
    #[arg(long, default_value_t = 1500)]
    deployments: usize,
    /// Requests under way at once.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Watches that are open while objects change.
    #[arg(long, value_delimiter = ',', default_value = "1,100")]
    watchers: Vec<usize>,
    /// How often each kind of list is asked for.
    #[arg(long, default_value_t = 10)]
    lists: usize,
}

struct Bench {
    server: Process,
    client: Client,
    connections: usize,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => build()?,
    };
    let directory = tempfile::tempdir().context("creating a data directory")?;
    let begun = Instant::now();
    let flags = ["apiserver", "--secure-port", "0"];
    let server = Process::start(&binary, &flags, directory.path(), "karmada-apiserver.config")?;
    line("start: process to ready (s)", format!("{:.3}", begun.elapsed().as_secs_f64()));
    let client = connect(&server.kubeconfig).await?;
    let bench = Bench { server, client, connections: args.connections.max(1) };
    bench.memory("idle")?;
    bench.send(Method::POST, "/api/v1/namespaces", "", Some(json!({"metadata": {"name": NAMESPACE}}))).await?;
    bench.writes(&args).await?;
    for count in &args.watchers {
        bench.watches(*count, args.config_maps.min(1000)).await?;
    }
    bench.lists(&args).await?;
    bench.memory("loaded")?;
    bench.deletes(&args).await?;
    bench.memory("emptied")
}

impl Bench {
    async fn writes(&self, args: &Args) -> anyhow::Result<()> {
        let (maps, deployments) = (args.config_maps, args.deployments);
        let merge = "application/merge-patch+json";
        let at = |base: &'static str| move |n: usize| format!("{base}/{}", name(n));
        self.phase("create ConfigMap", maps, |n| (Method::POST, CONFIG_MAPS.into(), "", Some(config_map(n)))).await?;
        let map = at(CONFIG_MAPS);
        self.phase("get ConfigMap", maps, |n| (Method::GET, map(n), "", None)).await?;
        self.phase("patch ConfigMap", maps, |n| (Method::PATCH, map(n), merge, Some(json!({"data": {"p": "1"}}))))
            .await?;
        self.phase("create Deployment", deployments, |n| (Method::POST, DEPLOYMENTS.into(), "", Some(deployment(n))))
            .await?;
        let status = |n| format!("{DEPLOYMENTS}/{}/status", name(n));
        let ready = json!({"status": {"replicas": 2, "readyReplicas": 2, "conditions": [{"type": "Available", "status": "True"}]}});
        self.phase("patch status", deployments, |n| (Method::PATCH, status(n), merge, Some(ready.clone()))).await?;
        let apply = "application/apply-patch+yaml";
        let applied = |n| format!("{DEPLOYMENTS}/{}?fieldManager=bench&force=true", name(n));
        self.phase("server-side apply", deployments, |n| (Method::PATCH, applied(n), apply, Some(deployment(n)))).await
    }

    async fn lists(&self, args: &Args) -> anyhow::Result<()> {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        for (what, accept) in [("list", "application/json"), ("list as table", table), ("list metadata", metadata)] {
            let cpu = self.server.cpu_seconds()?;
            let mut samples = Vec::new();
            let mut bytes = 0;
            for _ in 0..args.lists {
                let begun = Instant::now();
                bytes = self.read(CONFIG_MAPS, accept).await?.len();
                samples.push(begun.elapsed());
            }
            self.report(&format!("{what} ({} KiB)", bytes / 1024), samples, None, cpu)?;
        }
        let cpu = self.server.cpu_seconds()?;
        let (mut samples, mut token) = (Vec::new(), String::new());
        loop {
            let begun = Instant::now();
            let page = self.read(&format!("{CONFIG_MAPS}?limit=500&continue={token}"), "application/json").await?;
            samples.push(begun.elapsed());
            let page: Value = serde_json::from_slice(&page).context("a page of a list")?;
            match page["metadata"]["continue"].as_str() {
                Some(next) if !next.is_empty() => token = next.to_owned(),
                _ => break,
            }
        }
        self.report("list, a page of 500", samples, None, cpu)
    }

    /// `count` watchers see `changes` changes each.
    async fn watches(&self, count: usize, changes: usize) -> anyhow::Result<()> {
        let seen = AtomicUsize::new(0);
        let list: Value =
            serde_json::from_slice(&self.read(&format!("{CONFIG_MAPS}?limit=1"), "application/json").await?)
                .context("a list")?;
        let from = list["metadata"]["resourceVersion"].as_str().context("a list's revision")?;
        let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}");
        let mut streams = Vec::new();
        for _ in 0..count {
            streams.push(self.client.send(request(&Method::GET, &path, "", "application/json", None)?).await?);
        }
        let wanted = count * changes;
        let watching = stream::iter(streams).for_each_concurrent(None, async |response| {
            let mut mine = 0;
            let mut frames = response.into_body().into_data_stream();
            while mine < changes
                && let Some(Ok(frame)) = frames.next().await
            {
                let lines = frame.iter().filter(|byte| **byte == b'\n').count();
                mine += lines;
                seen.fetch_add(lines, Relaxed);
            }
        });
        let cpu = self.server.cpu_seconds()?;
        let begun = Instant::now();
        let merge = "application/merge-patch+json";
        let changing = stream::iter(0..changes)
            .map(async |n| {
                let body = json!({"data": {"w": count.to_string()}});
                self.send(Method::PATCH, &format!("{CONFIG_MAPS}/{}", name(n)), merge, Some(body)).await
            })
            .buffer_unordered(self.connections)
            .try_collect::<Vec<_>>();
        let both = async { futures::join!(changing, watching).0 };
        tokio::time::timeout(PATIENCE, both).await.context("waiting for the events")??;
        let seen = seen.load(Relaxed);
        ensure!(seen >= wanted, "the watchers saw {seen} of {wanted} events");
        let (elapsed, used) = (begun.elapsed().as_secs_f64(), self.server.cpu_seconds()? - cpu);
        let what = format!("{count} watchers, {changes} patches: events/s, server CPU ms/event");
        line(&what, format!("{:.0}, {:.4}", wanted as f64 / elapsed, used * 1000.0 / wanted as f64));
        Ok(())
    }

    async fn deletes(&self, args: &Args) -> anyhow::Result<()> {
        let half = args.config_maps / 2;
        self.phase("delete", half, |n| (Method::DELETE, format!("{CONFIG_MAPS}/{}", name(n)), "", None)).await?;
        let cpu = self.server.cpu_seconds()?;
        let begun = Instant::now();
        self.send(Method::DELETE, CONFIG_MAPS, "", None).await?;
        let rest = args.config_maps - half;
        self.report(&format!("deletecollection of {rest}"), vec![begun.elapsed()], None, cpu)
    }

    async fn phase(
        &self,
        what: &str,
        count: usize,
        make: impl Fn(usize) -> (Method, String, &'static str, Option<Value>),
    ) -> anyhow::Result<()> {
        let cpu = self.server.cpu_seconds()?;
        let begun = Instant::now();
        let samples = stream::iter(0..count)
            .map(async |n| {
                let (method, path, media_type, body) = make(n);
                let begun = Instant::now();
                self.send(method, &path, media_type, body).await.with_context(|| format!("{what} {n}"))?;
                anyhow::Ok(begun.elapsed())
            })
            .buffer_unordered(self.connections)
            .try_collect()
            .await?;
        self.report(what, samples, Some(begun.elapsed()), cpu)
    }

    /// `wall` is the time of the whole phase when its requests overlap.
    fn report(&self, what: &str, samples: Vec<Duration>, wall: Option<Duration>, cpu: f64) -> anyhow::Result<()> {
        let used = self.server.cpu_seconds()? - cpu;
        let count = samples.len().max(1) as f64;
        let wall = wall.unwrap_or_else(|| samples.iter().sum());
        line(&format!("{what}: operations/s"), format!("{:.0}", count / wall.as_secs_f64()));
        line(&format!("{what}: server CPU ms/operation"), format!("{:.3}", used * 1000.0 / count));
        line(&format!("{what}: latency"), Latencies::new(samples).report());
        Ok(())
    }

    fn memory(&self, when: &str) -> anyhow::Result<()> {
        let (now, most) = self.server.resident_mib()?;
        line(&format!("{when}: resident, at most (MiB)"), format!("{now:.1}, {most:.1}"));
        Ok(())
    }

    async fn send(&self, method: Method, path: &str, media_type: &str, body: Option<Value>) -> anyhow::Result<()> {
        let media_type = if media_type.is_empty() { "application/json" } else { media_type };
        self.answer(request(&method, path, media_type, "application/json", body)?).await.map(drop)
    }

    async fn read(&self, path: &str, accept: &str) -> anyhow::Result<bytes::Bytes> {
        self.answer(request(&Method::GET, path, "", accept, None)?).await
    }

    async fn answer(&self, request: transport::Request) -> anyhow::Result<bytes::Bytes> {
        let response = self.client.send(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(anyhow::Error::from_boxed)?.to_bytes();
        ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}

fn request(
    method: &Method,
    path: &str,
    media_type: &str,
    accept: &str,
    body: Option<Value>,
) -> anyhow::Result<transport::Request> {
    let mut builder = http::Request::builder().method(method).uri(path).header("accept", accept);
    if !media_type.is_empty() {
        builder = builder.header("content-type", media_type);
    }
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    Ok(builder.body(Full::new(body.into()).map_err(|never| match never {}).boxed_unsync())?)
}

fn name(n: usize) -> String {
    format!("object-{n:06}")
}

fn config_map(n: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name(n), "labels": {"app": "bench"}},
           "data": {"k": "x".repeat(DATA)}})
}

fn deployment(n: usize) -> Value {
    let labels = json!({"app": name(n)});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name(n), "labels": labels},
           "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
           "spec": {"containers": [{"name": "main", "image": "nginx:1", "ports": [{"containerPort": 80}],
           "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}, "env": [{"name": "A", "value": "b"}]}]}}}})
}
