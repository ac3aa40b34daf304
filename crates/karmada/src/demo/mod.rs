//! `karmada demo`: a control plane and simulated members in this process, a short story, and commands to continue with
//! kubectl.

mod observed;
mod screen;
mod steps;
mod view;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use controllers::Settings;
use propagation::readiness::Thresholds;
use simulator::MemberOptions;
use tokio::time::Instant;
use world::World;

use crate::engine::Kind;
use crate::reach::Listen;
use crate::simulated::SimulatedMembers;
use crate::up::{self, ControlPlane};
use crate::{apiserver, shell};
pub use screen::Screen;
use steps::Steps;

#[derive(Clone, Debug)]
pub struct Options {
    /// Three or more.
    pub members: Vec<MemberOptions>,
    /// Exit after the story instead of serving until a signal.
    pub exit: bool,
    /// The timeout of each act.
    pub timeout: Duration,
    pub secure_port: u16,
    /// The control plane's store.
    pub store: Kind,
}

/// Probes every 0.5 s and reports a change of readiness after 1 s, so that the loss of a member is a matter of seconds.
/// Karmada's defaults are 10 s and 30 s.
fn settings() -> Settings {
    Settings {
        status_frequency: Duration::from_millis(500),
        thresholds: Thresholds { success: 1, failure: 1 },
        ..Settings::default()
    }
}

/// Runs until `ended` or, with `exit`, until the story is over.
///
/// # Errors
/// A part did not start, or an act was not observed in time.
pub async fn run(
    options: &Options,
    world: &World,
    ended: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let directory = tempfile::Builder::new().prefix("karmada-demo-").tempdir().context("creating a data directory")?;
    run_in(directory.path(), options, &mut Screen::stdout(), world, ended).await
}

/// As [`run`], with the data in `directory` and the story on `screen`.
///
/// # Errors
/// As those of [`run`].
pub async fn run_in(
    directory: &Path,
    options: &Options,
    screen: &mut Screen,
    world: &World,
    ended: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    tokio::pin!(ended);
    let plane = tokio::select! {
        biased;
        ended = &mut ended => return interrupted(ended, options),
        plane = start(directory, options, world) => plane?,
    };
    let result = tokio::select! {
        biased;
        ended = &mut ended => interrupted(ended, options),
        result = show(&plane, options, begun, screen, world) => result,
    };
    plane.stop().await?;
    result
}

/// A signal is the usual end, but an error while acts remain to be observed.
fn interrupted(ended: anyhow::Result<()>, options: &Options) -> anyhow::Result<()> {
    ended?;
    ensure!(!options.exit, "interrupted before the story was over");
    Ok(())
}

async fn start(directory: &Path, options: &Options, world: &World) -> anyhow::Result<ControlPlane> {
    let members = directory.join("members");
    let members = SimulatedMembers::start_interruptible(&members, options.members.clone(), Kind::Memory, world).await?;
    ControlPlane::start_beside(members, &plane_options(options, directory), world).await
}

async fn show(
    plane: &ControlPlane,
    options: &Options,
    begun: Instant,
    screen: &mut Screen,
    world: &World,
) -> anyhow::Result<()> {
    Steps::new(plane, screen, begun, options.timeout).play(world).await?;
    screen.text(NOTE);
    if options.exit {
        return Ok(());
    }
    screen.text(&next_steps(plane));
    std::future::pending().await
}

const NOTE: &str = "\nThe demo probes members every 0.5 s and reports a loss after 1 s; `karmada up` does so every 10 s and after 30 s.";

fn plane_options(options: &Options, directory: &Path) -> up::Options {
    up::Options {
        server: apiserver::Options {
            data_dir: directory.to_owned(),
            store: options.store.clone(),
            listen: Listen::new(std::net::Ipv4Addr::LOCALHOST.into(), options.secure_port, "karmada-apiserver"),
            token_auth_file: None,
            admission_config: None,
            identity: Default::default(),
            service_accounts: Default::default(),
            audit: Default::default(),
            overload: Default::default(),
            aggregation: Default::default(),
            services: Default::default(),
            plugins: apiserver::default_plugins(),
            admission: Default::default(),
            resource_models: true,
            events: Default::default(),
            backups: None,
            operation: Default::default(),
        },
        controllers: vec!["*".into()],
        kube_controllers: up::default_kube_controllers(),
        // They are running.
        members: Vec::new(),
        member_store: Kind::Memory,
        settings: settings(),
        scheduler: Default::default(),
        switches: Default::default(),
        estimators: None,
        descheduler: None,
        cluster_api: None,
        components: None,
        election: None,
    }
}

fn next_steps(plane: &ControlPlane) -> String {
    let kubeconfig = plane.kubeconfig().map(|path| shell::word(&path)).unwrap_or_default();
    format!(
        "Continue with kubectl in another terminal:\n  export KUBECONFIG={kubeconfig}\n  \
         kubectl get clusters,resourcebindings,deployments\n  kubectl scale deployment nginx --replicas=6\n\
         Ctrl-C ends the demo and deletes its data."
    )
}
