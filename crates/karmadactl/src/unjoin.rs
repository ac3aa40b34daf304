//! `unjoin`: take a push-mode member cluster out.
//!
//! Deleting the Cluster is enough: the control plane drains it and removes its finalizer. `--force` releases what a
//! cluster that never answers would hold up; it is the only path here that drops finalizers.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::Client;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::error::Error;
use crate::join::decoded;
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

pub fn run<'a>(
    context: &'a Context,
    args: &'a [String],
    kubeconfig: Option<&'a str>,
    kube_context: Option<&'a str>,
    options: &'a Options,
) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let name = crate::join::cluster_name(args)?;
        if options.wait.is_zero() {
            // The odd blanks are upstream's.
            return Err(Error::message(format!(
                " --wait {}  must be a positive duration, e.g. 1m0s ",
                options.wait_text
            )));
        }
        let control = context.control_plane().await?;
        let key = ObjectKey::cluster(name);
        let Some(cluster) =
            control.get_opt(&resources::CLUSTER, &key).await.map_err(Error::client(format!("get cluster {name}")))?
        else {
            return Err(Error::message(format!("no cluster object {name} found in karmada control Plane")));
        };
        let cluster = decoded(&cluster)?;
        if cluster["spec"]["syncMode"] == "Pull" {
            return Err(Error::message(format!(
                "cluster {name} is a Pull mode member cluster, please use command `unregister` if you want to continue \
             unregistering the cluster"
            )));
        }
        // A kubeconfig that is of no use must be known before anything is deleted.
        let member = match kubeconfig {
            Some(_) => Some(context.member(kubeconfig, Some(kube_context.unwrap_or(name)), "unjoining").await?.client),
            None => None,
        };
        if let Some(member) = &member {
            check_identity(context, member, name, cluster["spec"]["id"].as_str().unwrap_or_default()).await?;
        }
        if options.dry_run {
            return Ok(());
        }
        delete_cluster(context, &control, name, options).await?;
        let ns = &options.cluster_namespace;
        match member {
            Some(member) => clean_member(&member, name, ns).await.map_err(|error| {
                Error::message(format!(
                    "cluster {name} is unjoined, but {} were left in it: {error}",
                    credentials(name, ns)
                ))
            }),
            None => {
                let left = credentials(name, ns);
                context.log(&format!(
                    "{left} were left in cluster {name}; --cluster-kubeconfig would have removed them\n"
                ));
                Ok(())
            }
        }
    })
}

/// Refuses to clean up in another cluster than the one that is unjoined.
async fn check_identity(context: &Context, member: &Client, name: &str, id: &str) -> Result<(), Error> {
    match crate::join::cluster_id(member).await {
        Ok(found) if !id.is_empty() && found != id => Err(Error::message(format!(
            "the kubeconfig leads to the cluster with ID {found}, but cluster {name} has ID {id}; nothing was changed"
        ))),
        Ok(_) => Ok(()),
        Err(error) => {
            context.log(&format!("cluster {name} does not answer by its kubeconfig: {error}\n"));
            Ok(())
        }
    }
}

/// What a join creates in a member, as text.
fn credentials(name: &str, ns: &str) -> String {
    format!("namespace {ns} and the ClusterRole and ClusterRoleBinding karmada-controller-manager:karmada-{name}")
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
    let left = force(control, name).await?;
    context.log("Forced deletion is complete.\n");
    if !left.is_empty() {
        context.log(&format!("cluster {name} did not answer, these objects were left in it:\n"));
        left.iter().for_each(|object| context.log(&format!("  {object}\n")));
    }
    Ok(())
}

/// Drops the finalizers that wait for the unreachable cluster; answers what it still holds of ours.
async fn force(control: &Client, name: &str) -> Result<Vec<String>, Error> {
    let namespace = format!("karmada-es-{name}");
    let works = control
        .list(&resources::WORK, Some(&namespace), &client::ListOptions::default())
        .await
        .map_err(Error::client(format!("list works in {namespace}")))?;
    let mut left = Vec::new();
    for work in &works.items {
        left.extend(manifests(&decoded(work)?));
        // Deleted first: the finalizer of a Work that is to stay would come back.
        delete_if_present(control, &resources::WORK, &work.key()).await?;
        drop_finalizer(control, &resources::WORK, &work.key(), "karmada.io/execution-controller").await?;
    }
    delete_if_present(control, &resources::NAMESPACE, &ObjectKey::cluster(namespace)).await?;
    drop_finalizer(control, &resources::CLUSTER, &ObjectKey::cluster(name), "karmada.io/cluster-controller").await?;
    left.sort();
    Ok(left)
}

/// The objects a Work put into its cluster.
fn manifests(work: &Value) -> Vec<String> {
    let one = |manifest: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, metadata) = (text(&manifest["kind"]), &manifest["metadata"]);
        match metadata["namespace"].as_str() {
            Some(namespace) => format!("{kind} {namespace}/{}", text(&metadata["name"])),
            None => format!("{kind} {}", text(&metadata["name"])),
        }
    };
    work["spec"]["workload"]["manifests"].as_array().into_iter().flatten().map(one).collect()
}

/// A controller may be writing at the same time; then the newer state is read once more.
async fn drop_finalizer(control: &Client, resource: &ApiResource, key: &ObjectKey, name: &str) -> Result<(), Error> {
    const ATTEMPTS: usize = 5;
    let attempt = || format!("remove finalizer {name} of {} {key}", resource.plural);
    for round in 1.. {
        let Some(object) = control.get_opt(resource, key).await.map_err(Error::client(attempt()))? else { break };
        let rest: Vec<&str> = object.finalizers().iter().map(AsRef::as_ref).filter(|f| *f != name).collect();
        let patch = json!({"metadata": {"finalizers": rest, "resourceVersion": object.resource_version()}});
        match control.patch(resource, key, &client::Patch::Merge(patch), &client::PatchOptions::default()).await {
            Err(error) if error.is_conflict() && round < ATTEMPTS => {}
            Err(error) if !error.is_not_found() => return Err(Error::client(attempt())(error)),
            _ => break,
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_work_put_into_its_cluster() {
        let work = json!({"spec": {"workload": {"manifests": [
            {"kind": "Deployment", "metadata": {"namespace": "default", "name": "nginx"}},
            {"kind": "ClusterRole", "metadata": {"name": "reader"}}]}}});
        assert_eq!(manifests(&work), ["Deployment default/nginx", "ClusterRole reader"]);
        assert!(manifests(&json!({})).is_empty());
    }
}
