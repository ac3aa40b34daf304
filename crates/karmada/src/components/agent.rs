//! `karmada agent`: the controllers of one member in pull mode, beside the member. It registers its cluster, applies
//! its Works, reports its status, and renews its Lease. The control plane connects to the member only through the
//! agent's tunnel.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use client::kubeconfig::Places;
use client::{Client, Egress};
use controllers::{CONTROLLERS, Context, Controller, Place, Settings};
use karmada_api::constants::leases;
use karmadactl::agent::{Registration, register};
use tunnel::decide::Destinations;
use world::{Level, World};

use super::agent_kubeconfig::AgentKubeconfig;
use super::credential::Credential;
use super::reconciling::selection;
use super::reconnect::{Connect, following};
use super::{ComponentContext, StartedComponent, limited, places, run_over};
use crate::flags::FlagValues;

/// Whether an agent runs it.
fn is_of_agents(controller: &Controller) -> bool {
    controller.place != Place::ControlPlane
}

/// `--karmada-kubeconfig` and `--karmada-context`; `rotated` is the kubeconfig once the agent has renewed its
/// certificate.
async fn control_plane(
    flags: &FlagValues<'_>,
    kubeconfig: AgentKubeconfig,
    rotated: Arc<Level<Option<Arc<str>>>>,
) -> anyhow::Result<Client> {
    let AgentKubeconfig { path, context, .. } = kubeconfig;
    let client = match rotated.get() {
        Some(newer) => Client::from_kubeconfig_text(&newer, context.as_deref()).await,
        None => Client::from_kubeconfig(&path, context.as_deref()).await,
    };
    let client = client.context("error building kubeconfig of karmada control plane")?;
    let (places, followed_context) = (Places::file(&path), context.clone());
    let connect: Connect = Box::new(move |text| {
        let (path, context) = (path.clone(), context.clone());
        Box::pin(async move {
            match text {
                Some(text) => Client::from_kubeconfig_text(&text, context.as_deref()).await,
                None => Client::from_kubeconfig(&path, context.as_deref()).await,
            }
        })
    });
    let client = following(&client, Box::new(move || places.followed(followed_context.as_deref())), rotated, connect);
    limited(client.with_user_agent("karmada-agent"), flags)
}

fn kubeconfig(flags: &FlagValues<'_>) -> anyhow::Result<AgentKubeconfig> {
    let path = flags.text("karmada-kubeconfig");
    anyhow::ensure!(!path.is_empty(), "--karmada-kubeconfig must name the control plane");
    let context = Some(flags.text("karmada-context").to_owned()).filter(|context| !context.is_empty());
    Ok(AgentKubeconfig { path: path.into(), context, namespace: flags.text("karmada-kubeconfig-namespace").to_owned() })
}

/// The agent's connection to its member.
struct MemberConnection {
    client: Client,
    /// The member's certificate is not verified.
    insecure: bool,
    egress: Egress,
}

/// `--kubeconfig` or `KUBECONFIG`; in a pod without them, the cluster of the pod.
async fn member(flags: &FlagValues<'_>) -> anyhow::Result<MemberConnection> {
    let places = places(flags);
    anyhow::ensure!(places.any(), "--kubeconfig or KUBECONFIG must name the member cluster");
    let failed = "error building kubeconfig of member cluster";
    let connection = places.connect(None).await.context(failed)?;
    let egress = Egress::to(connection.facts.server(), connection.facts.proxy_url()).context(failed)?;
    let (client, insecure) =
        (connection.client.with_user_agent("karmada-agent"), connection.facts.skips_verification());
    Ok(MemberConnection { client, insecure, egress })
}

/// The destinations that the control plane may reach over the tunnel of this agent.
fn served(egress: Egress, api_endpoint: &str) -> tunnel::agent::Member {
    let destinations = Destinations::new(&egress.authority(), api_endpoint);
    tunnel::agent::Member { connect: Arc::new(move || egress.connect()), destinations }
}

fn registration(flags: &FlagValues<'_>, insecure: bool) -> anyhow::Result<Registration> {
    let text = |name: &str| flags.text(name).to_owned();
    let name = text("cluster-name");
    let complaints = karmada_api::cluster::name_complaints(&name);
    anyhow::ensure!(complaints.is_empty(), "--cluster-name: Invalid value: {name:?}: {}", complaints.join(","));
    let reports = flags.list("report-secrets");
    if let Some(other) = reports.iter().find(|it| !["KubeCredentials", "KubeImpersonator", "None"].contains(*it)) {
        anyhow::bail!("--report-secrets: {other:?} is not KubeCredentials, KubeImpersonator or None");
    }
    let reported = |kind: &str| !reports.contains(&"None") && reports.contains(&kind);
    Ok(Registration {
        name,
        namespace: text("cluster-namespace"),
        api_endpoint: text("cluster-api-endpoint"),
        proxy_url: text("proxy-server-address"),
        provider: text("cluster-provider"),
        region: text("cluster-region"),
        zones: flags.list("cluster-zones").into_iter().map(str::to_owned).collect(),
        insecure,
        reports_credentials: reported("KubeCredentials"),
        reports_impersonator: reported("KubeImpersonator"),
    })
}

/// The user of `--karmada-kubeconfig`.
fn credential(flags: &FlagValues<'_>, selection: &[String]) -> Credential {
    let context = Some(flags.text("karmada-context").to_owned()).filter(|context| !context.is_empty());
    let renews = selection.iter().any(|it| it == "certRotation");
    let next = if renews {
        "Secret karmada-kubeconfig of the member has the last one; docs/certificates.md describes how to issue another"
    } else {
        "docs/certificates.md describes how to issue another; with --controllers=*,certRotation the agent renews it"
    };
    Credential { places: Places::file(Path::new(flags.text("karmada-kubeconfig"))), context, renews, next }
}

/// Runs the agent. With `--enable-tunnel` (`has_tunnel`) the control plane reaches the member through it.
pub async fn agent(flags: &FlagValues<'_>, settings: Settings, has_tunnel: bool) -> anyhow::Result<()> {
    // Flags and addresses are checked before the cluster is registered.
    let selection = selection(&flags.list("controllers"), is_of_agents);
    registration(flags, false)?;
    let probes = super::addresses(flags)?.bind()?;
    let kubeconfig = kubeconfig(flags)?;
    let member_connection = member(flags).await?;
    let credential = credential(flags, &selection);
    let rotated = &settings.rotation.kubeconfig;
    if credential.renews {
        if let Some(newer) = kubeconfig.newer(&member_connection.client).await {
            rotated.set(Some(newer));
        }
        kubeconfig.clone().follow(Arc::clone(rotated));
    }
    let control = control_plane(flags, kubeconfig, Arc::clone(rotated)).await?;
    let registration = registration(flags, member_connection.insecure)?;
    let kept = match register(&control, &member_connection.client, &registration).await {
        Ok(kept) => kept,
        Err(error) => {
            return Err(credential.explain(error.into(), &control, World::system().now().as_second()).await);
        }
    };
    let name = registration.name.clone();
    if !kept.is_empty() {
        let fields = kept.join(", ");
        tracing::warn!(
            cluster = name,
            fields,
            "Cluster differs from the agent's flags, and the agent may not change it; change its spec with kubectl edit"
        );
    }
    let lease = format!("{}{name}", leases::AGENT_PREFIX);
    let (member, cluster) = (served(member_connection.egress, &registration.api_endpoint), name.clone());
    let open_tunnel = |around: &ComponentContext| {
        if has_tunnel {
            let (control, world) = (around.client.clone(), around.world.clone());
            let agent = tunnel::Agent { cluster, control, member, world };
            tokio::spawn(agent.run(&around.registry, around.stop.clone()));
        }
    };
    run_over(control, credential, probes, flags, Some(&lease), open_tunnel, async move |around| {
        let settings = Settings { metrics: around.registry.clone(), fence: around.fence.clone(), ..settings };
        let own = (name.clone(), member_connection.client);
        let context = Context::agent(around.client.clone(), around.world.clone(), own, settings, around.stop.clone());
        let tasks = controllers::start(&context, &selection).context("--controllers")?;
        anyhow::ensure!(context.synced().await, "the agent ended before it knew what there is");
        let names: Vec<&str> =
            CONTROLLERS.iter().filter(|it| is_of_agents(it)).map(|controller| controller.name).collect();
        let ready = format!("The agent of cluster {name} is ready ({} of {})", tasks.len(), names.join(", "));
        Ok(StartedComponent { ready, tasks })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_selected_by_upstreams_names() {
        for (requested, expected) in [
            (vec!["*"], vec!["*"]),
            (vec!["*", "-execution", "-serviceExport", "nothing"], vec!["*", "-execution", "-serviceExport"]),
            (vec!["*", "certRotation", "binding"], vec!["*", "certRotation"]),
            (vec!["serviceExport", "endpointsliceCollect"], vec!["serviceExport", "endpointsliceCollect"]),
        ] {
            assert_eq!(selection(&requested, is_of_agents), expected);
        }
    }
}
