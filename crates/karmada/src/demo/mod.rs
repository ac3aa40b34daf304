//! `karmada demo`: a control plane and simulated members in this process, an application propagated before the
//! user's eyes, and how to go on from there.

mod journey;
mod screen;
mod view;

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, bail};
use simulator::MemberOptions;
use tokio::time::Instant;
use world::World;

use crate::access::Listen;
use crate::engine::Kind;
use crate::up::{self, ControlPlane};
use crate::{apiserver, demo::journey::Observed};
use screen::Screen;
use view::View;

#[derive(Clone, Debug)]
pub struct Options {
    pub clusters: u16,
    /// End when the application is ready everywhere it should be.
    pub exit: bool,
    /// How long the application may take.
    pub timeout: Duration,
    pub secure_port: u16,
}

/// Runs until `ended` or, with `exit`, until the application is ready.
///
/// # Errors
/// What did not start, or what is missing when the time is over.
pub async fn run(
    options: &Options,
    world: &World,
    ended: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let directory = tempfile::Builder::new().prefix("karmada-demo-").tempdir().context("creating a data directory")?;
    let mut screen = Screen::stdout();
    let begun = Instant::now();
    let plane = ControlPlane::start(&plane_options(options, directory.path()), world).await?;
    let result = tokio::select! {
        result = show(&plane, options, begun, &mut screen, world) => result,
        ended = ended => ended,
    };
    plane.stop().await?;
    result
}

fn plane_options(options: &Options, directory: &std::path::Path) -> up::Options {
    up::Options {
        server: apiserver::Options {
            data_dir: directory.to_owned(),
            store: Kind::Embedded,
            listen: Listen {
                bind_address: std::net::Ipv4Addr::LOCALHOST.into(),
                secure_port: options.secure_port,
                kubeconfig: "karmada-apiserver.config".into(),
                cluster: "karmada-apiserver".into(),
            },
            token_auth_file: None,
            services: Default::default(),
            plugins: Default::default(),
            admission: Default::default(),
            resource_models: true,
        },
        controllers: vec!["*".into()],
        kube_controllers: vec!["*".into()],
        members: (1..=options.clusters).map(|n| MemberOptions::new(format!("member{n}"))).collect(),
        member_store: Kind::Memory,
        settings: Default::default(),
        scheduler: Default::default(),
        switches: Default::default(),
        estimators: None,
        descheduler: None,
    }
}

async fn show(
    plane: &ControlPlane,
    options: &Options,
    begun: Instant,
    screen: &mut Screen,
    world: &World,
) -> anyhow::Result<()> {
    if !plane.ready().await {
        bail!("the components ended before they were ready");
    }
    screen.say(&format!("Control plane and {} simulated clusters started in {}", options.clusters, since(begun)));
    let observed = Observed::new(plane, world);
    plane.members().join(plane.client()).await?;
    follow(&observed, options, begun, screen, View::unready).await?;
    screen.say(&format!("Clusters joined and ready after {}", since(begun)));
    let chosen = journey::chosen(plane.members());
    journey::create(plane.client(), &chosen).await.context("creating the nginx Deployment and its policy")?;
    let names: Vec<&str> = chosen.iter().map(String::as_str).collect();
    screen.say(&format!(
        "Created Deployment nginx with 2 replicas and a PropagationPolicy that divides it over {}\n",
        names.join(" and ")
    ));
    follow(&observed, options, begun, screen, |view| view.missing(&chosen)).await?;
    screen.say(&format!("\nnginx is ready in exactly {} after {}", names.join(" and "), since(begun)));
    if options.exit {
        return Ok(());
    }
    screen.say(&next_steps(plane));
    std::future::pending().await
}

/// Shows every change until nothing is missing.
async fn follow(
    observed: &Observed,
    options: &Options,
    begun: Instant,
    screen: &mut Screen,
    missing: impl Fn(&View) -> Option<String>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + options.timeout;
    loop {
        let view = observed.view();
        screen.show(view.table(), begun.elapsed());
        let Some(missing) = missing(&view) else { return Ok(()) };
        if tokio::time::timeout_at(deadline, observed.changed.notified()).await.is_err() {
            bail!("after {} s {missing}", options.timeout.as_secs());
        }
    }
}

fn since(begun: Instant) -> String {
    format!("{:.3} s", begun.elapsed().as_secs_f64())
}

fn next_steps(plane: &ControlPlane) -> String {
    let mut lines = vec!["\nGo on with kubectl in another terminal:".to_owned()];
    if let Some(socket) = plane.socket() {
        lines.push(format!("  export KUBECONFIG={}", socket.kubeconfig.display()));
    }
    lines.push("  kubectl get clusters".into());
    lines.push("  kubectl get deployments,resourcebindings,propagationpolicies".into());
    lines.push("  kubectl scale deployment nginx --replicas=6".into());
    for member in plane.members().iter() {
        lines.push(format!("  kubectl --kubeconfig={} get deployments,pods", member.kubeconfig().display()));
    }
    lines.push("Ctrl-C ends the demonstration and removes what it made.".into());
    lines.join("\n")
}
