//! `unjoin`: take a push-mode member cluster out.
//!
//! Deleting the Cluster is enough: the control plane drains it and removes its finalizer. `--force` releases what a
//! cluster that never answers would hold up; it is the only path here that drops finalizers.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::Client;
use serde_json::json;

use crate::error::Error;
use crate::{Context, resources};

const POLL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct Options {
    pub cluster_namespace: String,
    pub wait: Duration,
    /// `--wait` as the user wrote it, for the message.
    pub wait_text: String,
    pub force: bool,
    pub dry_run: bool,
}

pub async fn run(
    context: &Context,
    args: &[String],
    kubeconfig: Option<&str>,
    kube_context: Option<&str>,
    options: &Options,
) -> Result<(), Error> {
    let name = crate::join::cluster_name(args)?;
    if options.wait.is_zero() {
        // The odd blanks are upstream's.
        return Err(Error::message(format!(" --wait {}  must be a positive duration, e.g. 1m0s ", options.wait_text)));
    }
    let control = context.control_plane().await?;
    let key = ObjectKey::cluster(name);
    let Some(cluster) =
        control.get_opt(&resources::CLUSTER, &key).await.map_err(Error::client(format!("get cluster {name}")))?
    else {
        return Err(Error::message(format!("no cluster object {name} found in karmada control Plane")));
    };
    let spec = cluster.to_value().map_err(|e| Error::message(format!("cluster {name} cannot be decoded: {e}")))?;
    if spec["spec"]["syncMode"] == "Pull" {
        return Err(Error::message(format!(
            "cluster {name} is a Pull mode member cluster, please use command `unregister` if you want to continue \
             unregistering the cluster"
        )));
    }
    if options.dry_run {
        return Ok(());
    }
    delete_cluster(context, &control, name, options).await?;
    if kubeconfig.is_some() {
        let member = context.member(kubeconfig, Some(kube_context.unwrap_or(name))).await?;
        clean_member(&member.client, name, &options.cluster_namespace).await?;
    }
    Ok(())
}

async fn delete_cluster(context: &Context, control: &Client, name: &str, options: &Options) -> Result<(), Error> {
    let key = ObjectKey::cluster(name);
    delete_if_present(control, &resources::CLUSTER, &key).await?;
    let deadline = tokio::time::Instant::now() + options.wait;
    loop {
        let gone = control
            .get_opt(&resources::CLUSTER, &key)
            .await
            .map_err(Error::client(format!("get cluster {name}")))?
            .is_none();
        if gone {
            return Ok(());
        }
        if tokio::time::Instant::now() >= deadline {
            break;
        }
        context.log(&format!("Waiting for the cluster object {name} to be deleted\n"));
        tokio::time::sleep(POLL).await;
    }
    if !options.force {
        context
            .log(&format!("Failed to delete cluster object. cluster name: {name}, error: context deadline exceeded\n"));
        return Err(Error::message("context deadline exceeded"));
    }
    context.log(&format!(
        "Deleting the cluster object timed out. cluster name: {name}, error: context deadline exceeded\n"
    ));
    context.log(&format!("Start forced deletion. cluster name: {name}\n"));
    force(control, name).await?;
    context.log("Forced deletion is complete.\n");
    Ok(())
}

/// Drops the finalizers that wait for the unreachable cluster.
async fn force(control: &Client, name: &str) -> Result<(), Error> {
    let namespace = format!("karmada-es-{name}");
    let works = control
        .list(&resources::WORK, Some(&namespace), &client::ListOptions::default())
        .await
        .map_err(Error::client(format!("list works in {namespace}")))?;
    for work in &works.items {
        drop_finalizer(control, &resources::WORK, &work.key(), "karmada.io/execution-controller").await?;
    }
    drop_finalizer(control, &resources::CLUSTER, &ObjectKey::cluster(name), "karmada.io/cluster-controller").await
}

async fn drop_finalizer(control: &Client, resource: &ApiResource, key: &ObjectKey, name: &str) -> Result<(), Error> {
    let attempt = || format!("remove finalizer {name} of {} {key}", resource.plural);
    let Some(object) = control.get_opt(resource, key).await.map_err(Error::client(attempt()))? else { return Ok(()) };
    let rest: Vec<&str> = object.finalizers().iter().map(AsRef::as_ref).filter(|f| *f != name).collect();
    let patch = json!({"metadata": {"finalizers": rest, "resourceVersion": object.resource_version()}});
    match control.patch(resource, key, &client::Patch::Merge(patch), &client::PatchOptions::default()).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.map(drop).map_err(Error::client(attempt())),
    }
}

async fn clean_member(member: &Client, name: &str, ns: &str) -> Result<(), Error> {
    let rbac = ObjectKey::cluster(format!("karmada-controller-manager:karmada-{name}"));
    delete_if_present(member, &resources::CLUSTER_ROLE_BINDING, &rbac).await?;
    delete_if_present(member, &resources::CLUSTER_ROLE, &rbac).await?;
    let account = ObjectKey::namespaced(ns, format!("karmada-{name}"));
    delete_if_present(member, &resources::SERVICE_ACCOUNT, &account).await?;
    delete_if_present(member, &resources::NAMESPACE, &ObjectKey::cluster(ns)).await
}

async fn delete_if_present(client: &Client, resource: &ApiResource, key: &ObjectKey) -> Result<(), Error> {
    match client.delete(resource, key, &client::DeleteOptions::background()).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.map(drop).map_err(Error::client(format!("delete {} {key}", resource.plural))),
    }
}
