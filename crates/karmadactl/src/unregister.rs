//! `unregister`: take a pull-mode cluster out, and remove its agent.
//!
//! The agent is removed last: it deletes the propagated objects in its cluster while their Works go.

use std::collections::HashSet;
use std::path::PathBuf;

use apimachinery::ObjectKey;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use client::kubeconfig::Places;
use client::{Client, ListOptions};
use futures::future::BoxFuture;
use karmada_api::agents;
use karmada_api::constants::namespaces;
use karmada_api::names::execution_namespace;
use serde_json::Value;

use crate::answers::text;
use crate::departure::Departure;
use crate::error::Error;
use crate::join::{cluster_id, decoded};
use crate::register::{delete, key_of, member as agent, revoke, signed_duration};
use crate::removal::{POLL, is_gone_by};
use crate::unjoin::works;
use crate::{Context, resources};

#[derive(Args, Clone, Debug)]
pub struct UnregisterArgs {
    pub args: Vec<String>,
    /// Name of the agent's Deployment in the cluster
    #[arg(long, default_value = agent::DEPLOYMENT)]
    pub agent_name: String,
    /// Name of the cluster's context in its kubeconfig file; the current one when empty
    #[arg(long)]
    pub cluster_context: Option<String>,
    /// Path to the kubeconfig file of the cluster
    #[arg(long)]
    pub cluster_kubeconfig: Option<String>,
    /// Namespace of the cluster's Secrets, in the cluster and in the control plane
    #[arg(long, default_value = namespaces::CLUSTER)]
    pub cluster_namespace: String,
    /// Only print the objects that are deleted in the cluster, and those that stay
    #[arg(long)]
    pub dry_run: bool,
    /// Path to the kubeconfig file of the control plane; that of the agent when empty, which may not delete its own
    /// rights
    #[arg(long)]
    pub karmada_config: Option<PathBuf>,
    /// Namespace of the agent in the cluster
    #[arg(short = 'n', long, default_value = namespaces::SYSTEM)]
    pub namespace: String,
    /// Wait this long for the deletion of the cluster
    #[arg(long, default_value = "1m0s")]
    pub wait: String,
}

/// The command.
pub fn run<'a>(context: &'a Context, args: &'a UnregisterArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let name = crate::join::cluster_name(&args.args)?;
        let Some(kubeconfig) = args.cluster_kubeconfig.as_deref().filter(|path| !path.is_empty()) else {
            return Err(Error::message(
                "--cluster-kubeconfig is required to specify KUBECONFIG file path to access unregistering member cluster",
            ));
        };
        let wait = crate::unjoin::wait(signed_duration("wait", &args.wait)?)?;
        let member = context.member(Some(kubeconfig), args.cluster_context.as_deref(), "unregistering").await?.client;
        let control = context.shown(control_plane(context, &member, args).await?);
        let cluster = control.get(&resources::CLUSTER, &ObjectKey::cluster(name)).await;
        match cluster {
            Ok(cluster) => {
                check(&decoded(&cluster)?, name, &member).await?;
                let preview = Departure::by_agent(&works(&control, name).await?).render(name);
                if args.dry_run { context.print(&preview) } else { context.log(&preview) }
            }
            // An earlier run has deleted it and did not end; the agent's Secret is the last object it deletes.
            Err(error) if error.is_not_found() && has_agent(&member, args, name).await? => {}
            Err(error) => return Err(Error::client(format!("get cluster {name}"))(error)),
        }
        if args.dry_run {
            return Ok(());
        }
        let deadline = tokio::time::Instant::now() + wait;
        delete_works(&control, name, deadline).await?;
        delete_cluster(&control, name, deadline).await?;
        if args.karmada_config.is_some() {
            revoke(&control, name, &args.cluster_namespace).await?;
        } else {
            context.log(&left(name, &args.cluster_namespace));
        }
        clean_member(context, &member, name, args).await
    })
}

/// Whether this is a cluster in pull mode, and the one that the kubeconfig leads to.
async fn check(cluster: &Value, name: &str, member: &Client) -> Result<(), Error> {
    if cluster["spec"]["syncMode"] == "Push" {
        return Err(Error::message(format!(
            "cluster {name} is a Push mode member cluster, please use command `unjoin` if you want to continue unjoining the \
             cluster"
        )));
    }
    let (id, found) = (text(&cluster["spec"]["id"]), cluster_id(member).await?);
    if !id.is_empty() && id != found {
        return Err(Error::message(format!(
            "the kubeconfig leads to the cluster with ID {found}, but cluster {name} has ID {id}; nothing was changed"
        )));
    }
    Ok(())
}

/// The kubeconfig of the control plane in the agent's Secret.
async fn agents_kubeconfig(member: &Client, args: &UnregisterArgs) -> Result<Option<String>, Error> {
    let key = ObjectKey::namespaced(args.namespace.as_str(), agent::SECRET);
    let secret = member.get_opt(&resources::SECRET, &key).await;
    let secret = secret.map_err(Error::client(format!("get secrets {key} of the member cluster")))?;
    Ok(secret.map(|secret| decoded(&secret)).transpose()?.and_then(|secret| agent::kubeconfig_of(&secret)))
}

/// Whether the member has credentials of the agent of this cluster.
async fn has_agent(member: &Client, args: &UnregisterArgs, name: &str) -> Result<bool, Error> {
    let user = agents_kubeconfig(member, args).await?.and_then(|config| agent::user_of(&config, ""));
    Ok(user == Some(agents::user(name)))
}

/// From `--karmada-config`, or from the kubeconfig that the agent's Deployment mounts.
async fn control_plane(context: &Context, member: &Client, args: &UnregisterArgs) -> Result<Client, Error> {
    let failed = |why: String| Error::message(format!("failed to get the config of the control plane. error: {why}"));
    let name = context.karmada_context.as_deref();
    if let Some(path) = &args.karmada_config {
        let connection = Places::of_user("--karmada-config", Some(path.clone())).connect(name).await;
        return connection.map(|it| it.client).map_err(|error| failed(error.to_string()));
    }
    let ns = args.namespace.as_str();
    let key = ObjectKey::namespaced(ns, args.agent_name.as_str());
    let attempt = || Error::client(format!("get deployments {key} of the member cluster"));
    let deployment = match member.get(&resources::DEPLOYMENT, &key).await {
        Ok(deployment) => decoded(&deployment)?,
        Err(error) if error.is_not_found() => {
            // An earlier run has deleted it.
            let config = agents_kubeconfig(member, args).await?.ok_or_else(|| attempt()(error))?;
            let client = Client::from_kubeconfig_text(&config, name).await;
            return client.map_err(|error| failed(format!("Secret {}: {error}", agent::SECRET)));
        }
        Err(error) => return Err(attempt()(error)),
    };
    let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array().into_iter().flatten();
    let secrets = volumes.filter_map(|volume| volume["secret"]["secretName"].as_str());
    for secret in secrets {
        let key = ObjectKey::namespaced(ns, secret);
        let secret = member.get(&resources::SECRET, &key).await;
        let secret = decoded(&*secret.map_err(Error::client(format!("get secrets {key} of the member cluster")))?)?;
        let Some(config) = secret["data"][agent::SECRET].as_str().and_then(|text| STANDARD.decode(text).ok()) else {
            continue;
        };
        let client = Client::from_kubeconfig_text(&String::from_utf8_lossy(&config), name).await;
        return client.map_err(|error| failed(format!("Secret {key} of the member cluster: {error}")));
    }
    Err(failed(format!(
        "Deployment {key} of the member cluster mounts no Secret with the key {}; give --karmada-config",
        agent::SECRET
    )))
}

fn timed_out(what: &str) -> Error {
    Error::message(format!(
        "context deadline exceeded: {what}. Its removal goes on while the cluster's agent runs; wait longer with --wait, or see \
         its log"
    ))
}

/// Deletes the Works of now and waits for their end: once the Cluster leaves, the agent may lose its rights to them.
/// Until then controllers recreate Works of namespaces and bindings, so later ones are left to the removal of the Cluster.
async fn delete_works(control: &Client, cluster: &str, deadline: tokio::time::Instant) -> Result<(), Error> {
    let namespace = execution_namespace(cluster);
    let list = async || {
        let works = control.list(&resources::WORK, Some(&namespace), &ListOptions::default()).await;
        works.map(|works| works.items).map_err(Error::client(format!("list works in {namespace}")))
    };
    let first = list().await?;
    for work in first.iter().filter(|work| !work.is_deleting()) {
        delete(control, &resources::WORK, &work.key()).await?;
    }
    let first: HashSet<_> = first.iter().map(|work| work.uid()).collect();
    loop {
        let left = list().await?.iter().filter(|work| first.contains(work.uid())).count();
        if left == 0 {
            return Ok(());
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(timed_out(&format!("{left} works are left in {namespace}")));
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn delete_cluster(control: &Client, name: &str, deadline: tokio::time::Instant) -> Result<(), Error> {
    let key = ObjectKey::cluster(name);
    delete(control, &resources::CLUSTER, &key).await?;
    match is_gone_by(control, &resources::CLUSTER, &key, (POLL, deadline), || ()).await? {
        true => Ok(()),
        false => Err(timed_out(&format!("cluster {name} is not gone"))),
    }
}

/// The objects in the control plane that an agent may not delete.
fn left(cluster: &str, namespace: &str) -> String {
    let objects = agents::grants(cluster, namespace);
    let lines = objects.iter().map(|grant| format!("  {} {}\n", text(&grant.object["kind"]), key_of(&grant.object)));
    format!(
        "The agent's credentials cannot delete its own rights. Delete them in the control plane, or give \
         --karmada-config:\n{}",
        lines.collect::<String>()
    )
}

async fn clean_member(context: &Context, member: &Client, name: &str, args: &UnregisterArgs) -> Result<(), Error> {
    let (ns, own) = (args.cluster_namespace.as_str(), args.namespace.as_str());
    let rbac = ObjectKey::cluster(format!("karmada-controller-manager:karmada-{name}"));
    let in_cluster = |object: &str| ObjectKey::namespaced(ns, object);
    let in_agents = |object: &str| ObjectKey::namespaced(own, object);
    let account = format!("karmada-{name}");
    let role = || ObjectKey::cluster(agent::ROLE);
    for (resource, key) in [
        (&resources::SERVICE_ACCOUNT, in_cluster(&account)),
        (&resources::SECRET, in_cluster(&account)),
        (&resources::CLUSTER_ROLE, rbac.clone()),
        (&resources::CLUSTER_ROLE_BINDING, rbac),
        (&resources::SERVICE_ACCOUNT, in_cluster("karmada-impersonator")),
        (&resources::SECRET, in_cluster("karmada-impersonator")),
        (&resources::NAMESPACE, ObjectKey::cluster(ns)),
        (&resources::DEPLOYMENT, in_agents(&args.agent_name)),
        (&resources::SERVICE_ACCOUNT, in_agents(agent::ACCOUNT)),
        (&resources::CLUSTER_ROLE, role()),
        (&resources::CLUSTER_ROLE_BINDING, role()),
        (&resources::SECRET, in_agents(agent::SECRET)),
    ] {
        delete(member, resource, &key).await.map_err(|error| {
            Error::message(format!("cluster {name} is unregistered, but objects were left in it: {error}"))
        })?;
        let (kind, object, space) = (&resource.kind, key.name(), key.namespace().unwrap_or_default());
        context.log(&format!(
            "Successfully delete resource ({{{kind} {object} {space}}}) from member cluster ({name}).\n"
        ));
    }
    remove_files(context);
    Ok(())
}

/// The files that upstream's `register` leaves on its machine.
fn remove_files(context: &Context) {
    for file in ["/etc/karmada/karmada-agent.conf", "/etc/karmada/pki/ca.crt"] {
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                context.log(&format!("Failed to remove {file}: {error}\n"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_the_agent_cannot_delete_are_listed() {
        let text = left("m1", "karmada-cluster");
        for object in [
            "ClusterRole system:karmada:m1:agent\n",
            "RoleBinding karmada-cluster/system:karmada:m1:agent-secret\n",
            "Role karmada-es-m1/system:karmada:m1:agent-work\n",
        ] {
            assert!(text.contains(object), "{text}");
        }
        assert_eq!(text.lines().count(), 9);
    }
}
