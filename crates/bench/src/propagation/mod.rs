//! Deployments and one ClusterPropagationPolicy: the time from the first create until they exist in every member, and
//! the cost.

mod counted;
pub(crate) mod documents;
mod restart;
mod status;
mod watched;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use apimachinery::ObjectKey;
use client::DeleteOptions;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::counted::Counts;
use self::documents::{NAMESPACE, cluster_policies, create, deployment, deployments, namespace, namespaces, policy};
use self::watched::Watched;
use super::figures::{Latencies, line};
use super::fleet::{Fleet, Members, Started};
use super::store::Engine;

#[derive(clap::Args)]
pub struct Args {
    /// Measure this control plane instead of one started here; its namespace karmada-bench is used and deleted.
    #[arg(long, requires = "members")]
    kubeconfig: Option<PathBuf>,
    /// A joined member of it, as NAME=KUBECONFIG.
    #[arg(long = "member")]
    members: Vec<String>,
    /// How many Deployments the bulk load creates.
    #[arg(long, default_value_t = 1000)]
    deployments: usize,
    #[arg(long, default_value_t = 2)]
    replicas: u32,
    /// Creates under way at once.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    #[command(flatten)]
    fleet: Members,
    /// The store of the control plane.
    #[arg(long, value_enum, default_value_t)]
    store: Engine,
    /// Deployments a second of the loads that come after the bulk.
    #[arg(long, value_delimiter = ',', default_value = "5,300")]
    rate: Vec<f64>,
    /// How long each of them lasts.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// How many changes of status in a member are timed.
    #[arg(long, default_value_t = 50)]
    statuses: usize,
    /// Kill the control plane in the end and start it again.
    #[arg(long)]
    restart: bool,
    /// End without deleting everything.
    #[arg(long)]
    keep: bool,
    /// Seconds of rest before idle figures are taken.
    #[arg(long, default_value_t = 10)]
    rest: u64,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let mut fleet = match &args.kubeconfig {
        Some(kubeconfig) => Fleet::of_others(kubeconfig, &args.members).await?,
        None => Fleet::start(args.fleet, args.store, &[]).await?,
    };
    let begun = Instant::now();
    create(&fleet.control, &namespaces(), &namespace()).await?;
    if let Some(started) = &fleet.started {
        line("start: process to ready (s)", format!("{:.3}", started.ready_after.as_secs_f64()));
        line("first write accepted after (s)", format!("{:.4}", begun.elapsed().as_secs_f64()));
    }
    create(&fleet.control, &cluster_policies(), &policy(&fleet)).await?;
    idle(&fleet, args.rest).await?;
    let watched = Watched::start(&fleet).await;
    bulk(&fleet, &watched, &args).await?;
    for (place, rate) in args.rate.iter().enumerate() {
        trickle(&fleet, &watched, &args, place, *rate).await?;
    }
    status::latency(&fleet, args.statuses).await?;
    if args.restart {
        restart::restart(&mut fleet, &watched, args.replicas).await?;
    }
    if args.keep { Ok(()) } else { delete(&fleet, &watched).await }
}

async fn idle(fleet: &Fleet, seconds: u64) -> anyhow::Result<()> {
    let Some(started) = &fleet.started else { return Ok(()) };
    let before = started.plane.cpu_seconds()?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let used = started.plane.cpu_seconds()? - before;
    line("idle: CPU (s per s)", format!("{:.4}", used / seconds.max(1) as f64));
    memory("idle", started)
}

async fn bulk(fleet: &Fleet, watched: &Watched, args: &Args) -> anyhow::Result<()> {
    let names: Vec<String> = (0..args.deployments).map(|n| format!("bulk-{n}")).collect();
    let resident = fleet.started.as_ref().map(|started| started.plane.resident_mib()).transpose()?;
    let (cpu, counts) = (Cpu::now(fleet)?, Counts::now(&fleet.control).await);
    let begun = Instant::now();
    let sent: HashMap<String, Instant> = stream::iter(names.clone())
        .map(async |name| {
            let sent = Instant::now();
            create(&fleet.control, &deployments(), &deployment(&name, args.replicas)).await?;
            anyhow::Ok((name, sent))
        })
        .buffer_unordered(args.connections.max(1))
        .try_collect()
        .await?;
    line("bulk: all creates accepted (s)", format!("{:.2}", begun.elapsed().as_secs_f64()));
    let present = watched.present(&names).await?;
    let last = present.values().max().copied().unwrap_or(begun) - begun;
    let templates = names.len() as f64 / last.as_secs_f64();
    line("bulk: all exist in every member (s)", format!("{:.2}", last.as_secs_f64()));
    line("bulk: templates/s", format!("{templates:.1}"));
    line("bulk: member objects/s", format!("{:.1}", templates * fleet.members.len() as f64));
    cpu.report("bulk: until present", fleet, names.len())?;
    let applied = watched.applied(&names).await?;
    let last = applied.values().max().copied().unwrap_or(begun) - begun;
    line("bulk: all bindings FullyApplied (s)", format!("{:.2}", last.as_secs_f64()));
    let samples = sent.iter().filter_map(|(name, sent)| Some(*present.get(name)? - *sent)).collect();
    line("bulk: create to present in every member", Latencies::new(samples).report());
    // Statuses arrive for a while after everything is applied.
    tokio::time::sleep(Duration::from_secs(args.rest)).await;
    cpu.report("bulk: until settled", fleet, names.len())?;
    // Other servers may not expose it.
    if let (Ok(before), Ok(now)) = (counts, Counts::now(&fleet.control).await) {
        before.report("bulk", &now, names.len());
    }
    let (Some(started), Some((idle, _))) = (&fleet.started, resident) else { return Ok(()) };
    memory("after bulk", started)?;
    let more = (started.plane.resident_mib()?.0 - idle) * 1000.0 / names.len() as f64;
    line("after bulk: RSS for 1,000 bindings (MiB)", format!("{more:.1}"));
    Ok(())
}

async fn trickle(fleet: &Fleet, watched: &Watched, args: &Args, place: usize, rate: f64) -> anyhow::Result<()> {
    let count = (rate * args.seconds as f64).round().max(0.0) as usize;
    if count == 0 {
        return Ok(());
    }
    let (phase, cpu) = (format!("{rate}/s"), Cpu::now(fleet)?);
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    let mut creates = JoinSet::new();
    for n in 0..count {
        ticks.tick().await;
        let (name, control, replicas) = (format!("rate{place}-{n}"), fleet.control.clone(), args.replicas);
        creates.spawn(async move {
            let at = Instant::now();
            create(&control, &deployments(), &deployment(&name, replicas)).await?;
            anyhow::Ok((name, at, at.elapsed()))
        });
    }
    let created = creates.join_all().await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let names: Vec<String> = created.iter().map(|(name, ..)| name.clone()).collect();
    let present = watched.present(&names).await?;
    let samples = created.iter().filter_map(|(name, sent, _)| Some(*present.get(name)? - *sent)).collect();
    line(&format!("{phase}: create to present in every member"), Latencies::new(samples).report());
    let accepted = created.iter().map(|(.., took)| *took).collect();
    line(&format!("{phase}: create request"), Latencies::new(accepted).report());
    cpu.report(&phase, fleet, count)
}

async fn delete(fleet: &Fleet, watched: &Watched) -> anyhow::Result<()> {
    let begun = Instant::now();
    let listed = fleet.control.list(&deployments(), Some(NAMESPACE), &Default::default()).await?;
    stream::iter(listed.items.iter().map(|object| object.key()))
        .map(async |key| fleet.control.delete(&deployments(), &key, &DeleteOptions::default()).await)
        .buffer_unordered(8)
        .try_for_each(async |_| Ok(()))
        .await
        .context("deleting the Deployments")?;
    line("delete: all sent (s)", format!("{:.2}", begun.elapsed().as_secs_f64()));
    watched.gone().await?;
    line("delete: gone from every member (s)", format!("{:.2}", begun.elapsed().as_secs_f64()));
    if fleet.started.is_none() {
        fleet.control.delete(&cluster_policies(), &ObjectKey::cluster(NAMESPACE), &DeleteOptions::default()).await?;
        fleet.control.delete(&namespaces(), &ObjectKey::cluster(NAMESPACE), &DeleteOptions::default()).await?;
    }
    Ok(())
}

/// CPU seconds of the processes started here.
struct Cpu(Option<[f64; 3]>);

impl Cpu {
    fn now(fleet: &Fleet) -> anyhow::Result<Self> {
        let Some(started) = &fleet.started else { return Ok(Self(None)) };
        let members = started.members.iter().map(|member| member.cpu_seconds()).sum::<anyhow::Result<f64>>()?;
        let store = started.store.usage()?.map_or(0.0, |usage| usage.cpu_seconds);
        Ok(Self(Some([started.plane.cpu_seconds()?, members, store])))
    }

    fn report(&self, phase: &str, fleet: &Fleet, templates: usize) -> anyhow::Result<()> {
        let (Some(before), Some(now)) = (self.0, Self::now(fleet)?.0) else { return Ok(()) };
        let [plane, members, store] = [0, 1, 2].map(|at| now[at] - before[at]);
        let each = |seconds: f64| 1000.0 * seconds / templates as f64;
        line(
            &format!("{phase}: CPU of control plane / members (s)"),
            format!("{plane:.2} / {members:.2} ({:.2} ms of the control plane a template)", each(plane)),
        );
        if store > 0.0 {
            line(&format!("{phase}: CPU of etcd (s)"), format!("{store:.2} ({:.2} ms a template)", each(store)));
        }
        Ok(())
    }
}

fn memory(phase: &str, started: &Started) -> anyhow::Result<()> {
    let (now, most) = started.plane.resident_mib()?;
    line(&format!("{phase}: RSS of the control plane, now / most (MiB)"), format!("{now:.1} / {most:.1}"));
    started.store.memory(phase)?;
    for member in &started.members {
        line(&format!("{phase}: RSS of a member (MiB)"), format!("{:.1}", member.resident_mib()?.0));
    }
    Ok(())
}
