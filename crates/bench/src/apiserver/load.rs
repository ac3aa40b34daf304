//! A closed loop of requests to the server, its costs, and the row that reports them.

use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::Instant;

use super::connection::{Call, Connection, Target};
use super::upstream;
use crate::figures::Latencies;
use crate::process::{Process, Usage};
use crate::store::Backend;

/// The measured server and a connection to it.
pub struct Load {
    pub server: Process,
    pub store: Backend,
    pub target: Target,
    pub connection: Connection,
}

/// The server's usage since a time.
pub struct Meter {
    begun: Instant,
    usage: Usage,
    /// Of a store in another process.
    store: Option<Usage>,
    syncs: Option<f64>,
}

impl Load {
    pub async fn on(server: Process, store: Backend) -> anyhow::Result<Self> {
        let target = Target::of(&server.kubeconfig)?;
        let connection = target.connect().await?;
        Ok(Self { server, store, target, connection })
    }

    /// `make` returns the `n`th request; `connections` are in flight concurrently.
    pub async fn phase(
        &self,
        scenario: &str,
        count: usize,
        connections: usize,
        make: impl Fn(usize) -> Call,
    ) -> anyhow::Result<()> {
        let meter = self.meter().await?;
        let samples: Vec<Duration> = stream::iter(0..count)
            .map(|n| {
                let call = make(n);
                async move {
                    let begun = Instant::now();
                    self.connection.count(call).await.with_context(|| format!("{scenario} {n}"))?;
                    anyhow::Ok(begun.elapsed())
                }
            })
            .buffer_unordered(connections)
            .try_collect()
            .await?;
        self.report(scenario, count, samples, meter).await
    }

    pub async fn meter(&self) -> anyhow::Result<Meter> {
        let (syncs, store) = (self.syncs().await, self.store.usage()?);
        Ok(Meter { syncs, usage: self.server.usage()?, store, begun: Instant::now() })
    }

    /// `count` operations since the meter was read; they may differ from those with latencies.
    pub async fn report(
        &self,
        scenario: &str,
        count: usize,
        samples: Vec<Duration>,
        since: Meter,
    ) -> anyhow::Result<()> {
        let wall = since.begun.elapsed().as_secs_f64();
        let used = self.server.usage()?.since(&since.usage);
        let store = self.store.usage()?.zip(since.store).map(|(now, before)| now.since(&before));
        let syncs = self.syncs().await.zip(since.syncs).map(|(now, before)| now - before);
        let operations = count.max(1) as f64;
        let latencies = Latencies::new(samples);
        let millis = |percent| latencies.percentile(percent).map(|d| d.as_secs_f64() * 1000.0);
        let upstream = upstream::of(scenario);
        // A store in its own process is compared with the one of upstream, and the server with kube-apiserver alone.
        let cpu_of_upstream = upstream.and_then(|u| if store.is_some() { u.server_cpu_ms } else { u.cpu_ms });
        let written = used.written_bytes + store.map_or(0, |store| store.written_bytes);
        let beside = |measured: Option<f64>, reference: Option<f64>, digits: usize| match (measured, reference) {
            (Some(measured), Some(reference)) => format!("{measured:.digits$} ({:.2})", measured / reference),
            (Some(measured), None) => format!("{measured:.digits$}"),
            (None, _) => "-".into(),
        };
        println!(
            "| {scenario:<32} | {:>16} | {:>16} | {:>9} | {:>8} | {:>14} | {:>14} | {:>6} | {:>7.1} |",
            beside(Some(operations / wall), upstream.and_then(|u| u.per_second), 0),
            beside(Some(used.cpu_seconds * 1000.0 / operations), cpu_of_upstream, 4),
            cpu_of_upstream.map_or("-".into(), |ms| ms.to_string()),
            store.map_or("-".into(), |store| format!("{:.3}", store.cpu_seconds * 1000.0 / operations)),
            beside(millis(50), upstream.and_then(|u| u.p50_ms), 2),
            beside(millis(99), upstream.and_then(|u| u.p99_ms), 2),
            syncs.map_or("-".into(), |syncs| format!("{:.3}", syncs / operations)),
            written as f64 / 1024.0 / operations,
        );
        Ok(())
    }

    pub fn memory(&self, when: &str) -> anyhow::Result<()> {
        let (now, most) = self.server.resident_mib()?;
        crate::figures::line(&format!("{when}: resident, at most (MiB)"), format!("{now:.1}, {most:.1}"));
        self.store.memory(when)
    }

    /// The number of the store's syncs, if the server exposes it.
    async fn syncs(&self) -> Option<f64> {
        let text = self.connection.call(Call::get("/metrics")).await.ok()?;
        let text = String::from_utf8_lossy(&text);
        text.lines().find_map(|line| line.strip_prefix("karmada_store_syncs_total "))?.trim().parse().ok()
    }
}

/// The columns of [`Load::report`]; in parentheses the proportion of upstream's figure.
pub fn heading() {
    println!(
        "| scenario | operations/s | server CPU ms/operation | upstream's | etcd's CPU ms | p50 ms | p99 ms | syncs/operation | KiB written/operation |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
}
