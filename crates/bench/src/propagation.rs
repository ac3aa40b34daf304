//! Deployments and one ClusterPropagationPolicy: from the first create until they exist in every member.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, DeleteOptions};
use controller_runtime::{Event, Informer, InformerSet};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use world::World;

use super::figures::{Latencies, line};
use super::fleet::{Fleet, Started};

const NAMESPACE: &str = "karmada-bench";
/// Longest wait for one phase. Upstream needs 450 s for the bulk load on two cores.
const PATIENCE: Duration = Duration::from_secs(1200);

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
    /// Deployments a second of the second load.
    #[arg(long, default_value_t = 5.0)]
    rate: f64,
    /// How long the second load lasts.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds of rest before idle figures are taken.
    #[arg(long, default_value_t = 10)]
    rest: u64,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let fleet = match &args.kubeconfig {
        Some(kubeconfig) => Fleet::of_others(kubeconfig, &args.members).await?,
        None => Fleet::start().await?,
    };
    let begun = Instant::now();
    create(&fleet.control, &namespaces(), &namespace()).await?;
    if let Some(started) = &fleet.started {
        line("start: process to ready (s)", format!("{:.3}", started.ready_after.as_secs_f64()));
        line("first write accepted after (s)", format!("{:.4}", begun.elapsed().as_secs_f64()));
    }
    let policies =
        ApiResource::cluster("policy.karmada.io", "v1alpha1", "ClusterPropagationPolicy", "clusterpropagationpolicies");
    create(&fleet.control, &policies, &policy(&fleet)).await?;
    idle(&fleet, args.rest).await?;
    let watched = Watched::start(&fleet).await;
    bulk(&fleet, &watched, &args).await?;
    trickle(&fleet, &watched, &args).await?;
    delete(&fleet, &watched, &policies).await
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
    let cpu = Cpu::now(fleet)?;
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
    // The status comes back for a while after everything is applied.
    tokio::time::sleep(Duration::from_secs(args.rest)).await;
    cpu.report("bulk: until settled", fleet, names.len())?;
    fleet.started.as_ref().map_or(Ok(()), |started| memory("after bulk", started))
}

async fn trickle(fleet: &Fleet, watched: &Watched, args: &Args) -> anyhow::Result<()> {
    let count = (args.rate * args.seconds as f64).round().max(0.0) as usize;
    if count == 0 {
        return Ok(());
    }
    let cpu = Cpu::now(fleet)?;
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / args.rate));
    let (mut sent, mut accepted) = (HashMap::new(), Vec::new());
    for n in 0..count {
        ticks.tick().await;
        let name = format!("trickle-{n}");
        let at = Instant::now();
        create(&fleet.control, &deployments(), &deployment(&name, args.replicas)).await?;
        accepted.push(at.elapsed());
        sent.insert(name, at);
    }
    let names: Vec<String> = sent.keys().cloned().collect();
    let present = watched.present(&names).await?;
    let samples = sent.iter().filter_map(|(name, sent)| Some(*present.get(name)? - *sent)).collect();
    line("trickle: create to present in every member", Latencies::new(samples).report());
    line("trickle: create request", Latencies::new(accepted).report());
    cpu.report("trickle", fleet, count)
}

async fn delete(fleet: &Fleet, watched: &Watched, policies: &ApiResource) -> anyhow::Result<()> {
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
        fleet.control.delete(policies, &ObjectKey::cluster(NAMESPACE), &DeleteOptions::default()).await?;
        fleet.control.delete(&namespaces(), &ObjectKey::cluster(NAMESPACE), &DeleteOptions::default()).await?;
    }
    Ok(())
}

/// CPU seconds of the processes started here.
struct Cpu(Option<(f64, f64)>);

impl Cpu {
    fn now(fleet: &Fleet) -> anyhow::Result<Self> {
        let Some(started) = &fleet.started else { return Ok(Self(None)) };
        let members = started.members.iter().map(|member| member.cpu_seconds()).sum::<anyhow::Result<f64>>()?;
        Ok(Self(Some((started.plane.cpu_seconds()?, members))))
    }

    fn report(&self, phase: &str, fleet: &Fleet, templates: usize) -> anyhow::Result<()> {
        let (Some(before), Some(now)) = (self.0, Self::now(fleet)?.0) else { return Ok(()) };
        let (plane, members) = (now.0 - before.0, now.1 - before.1);
        line(
            &format!("{phase}: CPU of control plane / members (s)"),
            format!(
                "{plane:.2} / {members:.2} ({:.2} ms of the control plane a template)",
                1000.0 * plane / templates as f64
            ),
        );
        Ok(())
    }
}

fn memory(phase: &str, started: &Started) -> anyhow::Result<()> {
    let (now, most) = started.plane.resident_mib()?;
    line(&format!("{phase}: RSS of the control plane, now / most (MiB)"), format!("{now:.1} / {most:.1}"));
    for member in &started.members {
        line(&format!("{phase}: RSS of a member (MiB)"), format!("{:.1}", member.resident_mib()?.0));
    }
    Ok(())
}

/// When each object was first seen where it should come to be.
struct Watched {
    members: Vec<(String, Arc<Seen>, Informer)>,
    bindings: Arc<Seen>,
    _bindings: Informer,
}

#[derive(Default)]
struct Seen {
    at: Mutex<HashMap<String, Instant>>,
    changed: Notify,
}

impl Watched {
    async fn start(fleet: &Fleet) -> Self {
        let follow = |client: &Client, resource: ApiResource, counts: fn(&Object) -> Option<String>| {
            let informer = InformerSet::new(client.clone(), World::system()).informer(&resource);
            let seen = Arc::new(Seen::default());
            let told = seen.clone();
            informer.subscribe(move |event| told.note(event, counts));
            (seen, informer)
        };
        let members = fleet.members.iter().map(|member| {
            let (seen, informer) = follow(&member.client, deployments(), |object| Some(object.name().to_owned()));
            (member.name.clone(), seen, informer)
        });
        let bindings = ApiResource::namespaced("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings");
        let (seen, informer) = follow(&fleet.control, bindings, fully_applied);
        let watched = Self { members: members.collect(), bindings: seen, _bindings: informer };
        for (_, _, informer) in &watched.members {
            informer.synced().await;
        }
        watched
    }

    /// When each of these was there in the last of the members.
    async fn present(&self, names: &[String]) -> anyhow::Result<HashMap<String, Instant>> {
        let mut last: HashMap<String, Instant> = HashMap::new();
        for (member, seen, _) in &self.members {
            for (name, at) in seen.all(names).await.with_context(|| format!("waiting for member {member}"))? {
                let latest = last.entry(name).or_insert(at);
                *latest = at.max(*latest);
            }
        }
        Ok(last)
    }

    async fn applied(&self, names: &[String]) -> anyhow::Result<HashMap<String, Instant>> {
        self.bindings.all(names).await.context("waiting for the bindings")
    }

    async fn gone(&self) -> anyhow::Result<()> {
        for (member, seen, informer) in &self.members {
            seen.until(|| informer.cache().list(Some(NAMESPACE)).is_empty())
                .await
                .with_context(|| format!("waiting for member {member} to be empty"))?;
        }
        Ok(())
    }
}

impl Seen {
    fn note(&self, event: &Event, counts: fn(&Object) -> Option<String>) {
        let object = event.object();
        let is_ours = object.namespace() == Some(NAMESPACE);
        if is_ours
            && !matches!(event, Event::Deleted(_))
            && let Some(name) = counts(object)
        {
            self.at.lock().entry(name).or_insert_with(Instant::now);
        }
        self.changed.notify_one();
    }

    async fn all(&self, names: &[String]) -> anyhow::Result<HashMap<String, Instant>> {
        self.until(|| {
            let at = self.at.lock();
            at.len() >= names.len() && names.iter().all(|name| at.contains_key(name))
        })
        .await?;
        let at = self.at.lock();
        Ok(names.iter().filter_map(|name| Some((name.clone(), *at.get(name)?))).collect())
    }

    async fn until(&self, done: impl Fn() -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !done() {
            if tokio::time::timeout_at(deadline, self.changed.notified()).await.is_err() {
                bail!("not all after {} s; {} were seen", PATIENCE.as_secs(), self.at.lock().len());
            }
        }
        Ok(())
    }
}

/// The template's name, once its binding says that every member has it.
fn fully_applied(binding: &Object) -> Option<String> {
    let tree = binding.to_value().ok()?;
    let conditions = tree["status"]["conditions"].as_array()?;
    let applied =
        conditions.iter().any(|condition| condition["type"] == "FullyApplied" && condition["status"] == "True");
    applied.then(|| tree["spec"]["resource"]["name"].as_str().unwrap_or_default().to_owned())
}

/// An object of an earlier run is as good.
async fn create(client: &Client, resource: &ApiResource, object: &Value) -> anyhow::Result<()> {
    match client.create(resource, object).await {
        Err(error) if !error.is_already_exists() => {
            Err(error).with_context(|| format!("creating {} {}", resource.kind, object["metadata"]["name"]))
        }
        _ => Ok(()),
    }
}

fn namespaces() -> ApiResource {
    ApiResource::cluster("", "v1", "Namespace", "namespaces")
}

fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

fn policy(fleet: &Fleet) -> Value {
    let names: Vec<&str> = fleet.members.iter().map(|member| member.name.as_str()).collect();
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NAMESPACE,
        "labelSelector": {"matchLabels": {"bench": "propagation"}}});
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy", "metadata": {"name": NAMESPACE},
        "spec": {"resourceSelectors": [selector], "placement": {"clusterAffinity": {"clusterNames": names}}}})
}

fn deployment(name: &str, replicas: u32) -> Value {
    let labels = json!({"app": name, "bench": "propagation"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "app", "image": "nginx:1.29", "ports": [{"containerPort": 80}],
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}}}})
}
