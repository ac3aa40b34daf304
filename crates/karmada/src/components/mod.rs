//! Upstream's components as separate processes, against any API server: leader election, probes, shutdown. Their work
//! is in the crates of their names.

mod agent;
mod agent_kubeconfig;
mod aggregated;
mod aggregated_server;
mod credential;
mod flags;
mod front_authority;
mod measuring;
mod reconciling;
mod reconnect;
mod scheduling;
mod searching;
mod watched_members;

use client::kubeconfig::Places;
use client::{Client, Fence, TokenBucket};
use controller_runtime::{LeaderElection, Leading};
use metrics::{Description, Registry};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use world::World;

use self::credential::Credential;
use crate::flags::FlagValues;
use crate::probes::{BoundProbes, Probes};

pub use agent::agent;
pub use aggregated::aggregated_apiserver;
pub use flags::{addresses, descheduler_options, enabled_estimators, evicts_by_taints, scheduler_options, switches};
pub use measuring::metrics_adapter;
pub use reconciling::{cluster_api, controller_manager};
pub use scheduling::{descheduler, scheduler, scheduler_estimator};
pub use searching::search;
pub use watched_members::WatchedMembers;

/// Whether this replica holds the Lease; client-go's name.
pub const LEADING: Description =
    Description::gauge("leader_election_master_status", &["name"], "1 while this process holds the Lease, else 0.");
/// The metrics of components with a Lease.
pub const METRICS: &[Description] = &[LEADING];

/// The flags about the Lease itself.
const LEASE_FLAGS: [&str; 4] = [
    "leader-elect-lease-duration",
    "leader-elect-renew-deadline",
    "leader-elect-resource-namespace",
    "leader-elect-retry-period",
];

/// The context of a component.
pub struct ComponentContext {
    /// To the API server of `--kubeconfig`; it has the fence.
    pub client: Client,
    /// Of this replica, if it was elected.
    pub fence: Option<Fence>,
    pub world: World,
    pub registry: Registry,
    pub stop: CancellationToken,
}

/// A running component.
pub struct StartedComponent {
    /// A line for the user.
    pub ready: String,
    pub tasks: Vec<JoinHandle<()>>,
}

/// Runs a component until a signal; with a `lease`, only while this process holds it.
///
/// # Errors
/// The component cannot start, or the Lease was lost.
pub async fn run(
    name: &str,
    flags: &FlagValues<'_>,
    lease: Option<&str>,
    begin: impl AsyncFnOnce(&ComponentContext) -> anyhow::Result<StartedComponent>,
) -> anyhow::Result<()> {
    let probes = addresses(flags)?.bind()?;
    let (client, credential) = (connect(name, flags).await?, Credential::of_component(places(flags)));
    run_over(client, credential, probes, flags, lease, |_| (), begin).await
}

/// As [`run`], for a component that does not connect by `--kubeconfig`. `beside` starts the tasks of every replica,
/// with or without the Lease.
async fn run_over(
    client: Client,
    credential: Credential,
    probes: BoundProbes,
    flags: &FlagValues<'_>,
    lease: Option<&str>,
    beside: impl FnOnce(&ComponentContext),
    begin: impl AsyncFnOnce(&ComponentContext) -> anyhow::Result<StartedComponent>,
) -> anyhow::Result<()> {
    let world = World::system();
    let (registry, stop, probed) = (Registry::default(), CancellationToken::new(), CancellationToken::new());
    crate::metrics::of_process(&registry);
    let client = client.counted_in(&registry);
    let probes = probes.open(&registry, &probed)?;
    let around = ComponentContext { client, fence: None, world, registry, stop };
    beside(&around);
    let (control, world) = (around.client.clone(), around.world.clone());
    let worked = tokio::select! {
        worked = work(flags, lease, around, &probes, begin) => worked,
        never = credential.warn(&world) => match never {},
    };
    probed.cancel();
    probes.ended().await;
    match worked {
        Ok(()) => Ok(()),
        Err(error) => Err(credential.explain(error, &control, world.now().as_second()).await),
    }
}

async fn work(
    flags: &FlagValues<'_>,
    lease: Option<&str>,
    mut around: ComponentContext,
    probes: &Probes,
    begin: impl AsyncFnOnce(&ComponentContext) -> anyhow::Result<StartedComponent>,
) -> anyhow::Result<()> {
    let mut signals = crate::cli::Signals::listen()?;
    let ended_lease = CancellationToken::new();
    let mut leading = None;
    if let Some(lease) = lease.filter(|_| flags.is_true("leader-elect").unwrap_or(true)) {
        let election = election(flags, lease, &around.world)?;
        around.registry.gauges(&LEADING).set(&[lease], 0.0);
        let acquired = tokio::select! {
            acquired = election.acquire(&around.client, &around.world, &ended_lease) => acquired,
            () = signals.received() => return Ok(()),
        };
        let stop = ended_lease.clone();
        let gauge = around.registry.gauges(&LEADING);
        let name = lease.to_owned();
        around.fence = acquired.as_ref().map(Leading::fence);
        around.client = around.client.fenced(around.fence.clone());
        leading = acquired.map(|leading| {
            gauge.set(&[&name], 1.0);
            tokio::spawn(async move {
                let kept = leading.keep(&stop).await;
                gauge.set(&[&name], 0.0);
                kept
            })
        });
    }
    let begun = tokio::select! {
        begun = begin(&around) => begun?,
        () = signals.received() => return Ok(()),
    };
    let [metrics, health] = [probes.at.metrics, probes.at.health].map(|at| at.map(|at| at.to_string()));
    tracing::info!(metrics, health, "{}", begun.ready);
    let probed = [("metrics", probes.at.metrics), ("health", probes.at.health)];
    let probed = probed.map(|(what, at)| at.map_or_else(String::new, |at| format!("  {what} on http://{at}\n")));
    crate::cli::print(&format!("{}\n{}", begun.ready, probed.concat()));
    let outcome = tokio::select! {
        () = signals.received() => Ok(()),
        lost = lost(&mut leading) => Err(lost),
    };
    around.stop.cancel();
    for task in begun.tasks {
        // The panic of a task has been logged.
        let _ = task.await;
    }
    // The Lease is released last: no other replica may start before this one has ended.
    ended_lease.cancel();
    if let Some(leading) = leading.filter(|leading| !leading.is_finished()) {
        let _ = leading.await;
    }
    outcome
}

/// Returns when the Lease is lost; never without one.
async fn lost(leading: &mut Option<JoinHandle<bool>>) -> anyhow::Error {
    match leading {
        Some(keeping) => {
            let _ = keeping.await;
            anyhow::anyhow!("the Lease was lost; another replica may work now")
        }
        None => std::future::pending().await,
    }
}

/// The election among the processes `karmada up` on one store; `None` where one process holds the store.
///
/// # Errors
/// The invalid flag.
pub fn up_election(flags: &FlagValues<'_>, is_shared: bool, world: &World) -> anyhow::Result<Option<LeaderElection>> {
    if is_shared && flags.is_true("leader-elect")? {
        return election(flags, "karmada-up", world).map(Some);
    }
    for name in LEASE_FLAGS.iter().filter(|name| !is_shared && flags.is_set(name)) {
        eprintln!(
            "notice: --{name} has no effect here: one process holds the store, so there is no Lease to elect a leader with"
        );
    }
    Ok(None)
}

fn election(flags: &FlagValues<'_>, lease: &str, world: &World) -> anyhow::Result<LeaderElection> {
    let election = LeaderElection {
        lease_duration: flags.duration("leader-elect-lease-duration")?,
        renew_deadline: flags.duration("leader-elect-renew-deadline")?,
        retry_period: flags.duration("leader-elect-retry-period")?,
        ..LeaderElection::new(flags.text("leader-elect-resource-namespace"), lease, world)
    };
    let LeaderElection { lease_duration, renew_deadline, retry_period, .. } = &election;
    anyhow::ensure!(lease_duration > renew_deadline, "leaseDuration must be greater than renewDeadline");
    anyhow::ensure!(
        *renew_deadline > retry_period.mul_f64(1.2),
        "renewDeadline must be greater than retryPeriod*JitterFactor"
    );
    anyhow::ensure!(!retry_period.is_zero(), "retryPeriod must be greater than zero");
    Ok(election)
}

/// Connects to the API server of `--kubeconfig` or `KUBECONFIG`, at the address of `--master` if set; in a pod without
/// them, to that of its cluster. Requests are limited only if a flag sets a limit.
async fn connect(name: &str, flags: &FlagValues<'_>) -> anyhow::Result<Client> {
    let places = places(flags);
    let master = Some(flags.text("master")).filter(|server| !server.is_empty());
    anyhow::ensure!(places.any() || master.is_some(), "--kubeconfig or KUBECONFIG must name the API server");
    limited(connect_to(places, master).await?.with_user_agent(name), flags)
}

/// As [`Client::from_flags`]; the client reconnects when its kubeconfig, or a certificate that it names, changes.
pub(crate) async fn connect_to(places: Places, master: Option<&str>) -> anyhow::Result<Client> {
    let client = Client::from_flags(&places, master).await?;
    let (followed, master) = (places.clone(), master.map(str::to_owned));
    if places.files().is_empty() {
        return Ok(client);
    }
    let connect: reconnect::Connect = Box::new(move |_| {
        let (places, master) = (places.clone(), master.clone());
        Box::pin(async move { Client::from_flags(&places, master.as_deref()).await })
    });
    Ok(reconnect::following(&client, Box::new(move || followed.followed(None)), Default::default(), connect))
}

/// `--kubeconfig`, `$KUBECONFIG` or the service account of the pod, in this order.
pub(crate) fn places(flags: &FlagValues<'_>) -> Places {
    let file = Some(flags.text("kubeconfig")).filter(|path| !path.is_empty());
    Places::of_component("--kubeconfig", file.map(Into::into))
}

fn limited(client: Client, flags: &FlagValues<'_>) -> anyhow::Result<Client> {
    if !flags.is_set("kube-api-qps") {
        return Ok(client);
    }
    let bucket = TokenBucket::new(flags.parsed("kube-api-qps")?, flags.parsed("kube-api-burst")?);
    Ok(client.with_limit(bucket.map(std::sync::Arc::new)))
}
