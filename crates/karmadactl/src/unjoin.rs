//! `unjoin`: removes a push-mode member cluster.
//!
//! Deleting the Cluster is sufficient: the control plane drains it and removes its finalizer. `--force` releases the
//! objects that a cluster that never responds would block; only this path removes finalizers.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::Client;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::answers::text;
use crate::departure::{Departure, Objects, SHOWN_LEFT};
use crate::error::Error;
use crate::join::{decoded, own_id};
use crate::removal::{POLL, is_gone_by};
use crate::{Context, resources};

#[derive(Clone, Debug)]
pub struct Options {
    pub cluster_namespace: String,
    /// How long the deletion of the cluster is awaited.
    pub wait: apimachinery::duration::Duration,
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
        let patience = wait(options.wait)?;
        let control = context.control_plane().await?;
        let key = ObjectKey::cluster(name);
        let cluster = match control.get(&resources::CLUSTER, &key).await {
            Ok(cluster) => cluster,
            Err(error) if error.is_absence_of(name) => {
                let left = match kubeconfig {
                    Some(_) => left_over(context, name, (kubeconfig, kube_context), &options.cluster_namespace).await,
                    None => String::new(),
                };
                return Err(Error::message(format!("no cluster object {name} found in karmada control Plane{left}")));
            }
            Err(error) => return Err(Error::client(format!("get cluster {name}"))(error)),
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
        let mut id = text(&cluster["spec"]["id"]);
        if let Some(member) = &member {
            id = check_identity(context, member, name, id).await?;
        }
        let own = own_id(&control).await?;
        let preview = Departure::plan(&cluster, &works(&control, name).await?, own.as_deref()).render(name);
        if options.dry_run {
            context.print(&preview);
            return Ok(());
        }
        context.log(&preview);
        let shares = shares_credentials(&control, name, id, own).await?;
        delete_cluster(context, &control, name, (options, patience)).await?;
        let ns = &options.cluster_namespace;
        match member {
            Some(member) => clean_member(&member, name, ns, shares).await.map_err(|error| {
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

/// The credentials that an interrupted `unjoin` left in a cluster. They are not deleted, because another control plane
/// may have joined the cluster by the same name.
async fn left_over(context: &Context, name: &str, place: (Option<&str>, Option<&str>), ns: &str) -> String {
    let (kubeconfig, kube_context) = place;
    let Ok(member) = context.member(kubeconfig, Some(kube_context.unwrap_or(name)), "unjoining").await else {
        return String::new();
    };
    let rbac = ObjectKey::cluster(format!("karmada-controller-manager:karmada-{name}"));
    match member.client.get_opt(&resources::CLUSTER_ROLE, &rbac).await {
        Ok(Some(role)) => format!(
            "\nThe cluster of --cluster-kubeconfig has {}. If no other control plane uses them, delete them there:\n  \
             kubectl delete namespace {ns}\n  kubectl delete clusterrole,clusterrolebinding {}",
            credentials(name, ns),
            role.name()
        ),
        _ => String::new(),
    }
}

/// Refuses to clean up in another cluster than the one that is unjoined; returns its ID.
async fn check_identity(context: &Context, member: &Client, name: &str, id: String) -> Result<String, Error> {
    match crate::join::cluster_id(member).await {
        Ok(found) if !id.is_empty() && found != id => Err(Error::message(format!(
            "the kubeconfig leads to the cluster with ID {found}, but cluster {name} has ID {id}; nothing was changed"
        ))),
        Ok(found) => Ok(found),
        Err(error) => {
            context.log(&format!("cluster {name} does not answer by its kubeconfig: {error}\n"));
            Ok(id)
        }
    }
}

/// The duration of `--wait`.
///
/// # Errors
/// When it is not positive, with the odd blanks of upstream's message.
pub(crate) fn wait(wait: apimachinery::duration::Duration) -> Result<Duration, Error> {
    let positive = wait.to_std().filter(|it| !it.is_zero());
    positive.ok_or_else(|| Error::message(format!(" --wait {wait}  must be a positive duration, e.g. 1m0s ")))
}

/// The Works of a cluster.
pub(crate) async fn works(control: &Client, cluster: &str) -> Result<Vec<Value>, Error> {
    let namespace = format!("karmada-es-{cluster}");
    let works = control.list(&resources::WORK, Some(&namespace), &client::ListOptions::default()).await;
    let works = works.map_err(Error::client(format!("list works in {namespace}")))?;
    works.items.iter().map(|work| decoded(work)).collect()
}

/// Whether the namespace of the credentials also has those of another registration: in the control plane itself those
/// of all members, in a cluster that is joined twice those of the other name.
async fn shares_credentials(control: &Client, name: &str, id: String, own: Option<String>) -> Result<bool, Error> {
    if id.is_empty() || own.as_ref() == Some(&id) {
        return Ok(!id.is_empty());
    }
    let clusters = control.list(&resources::CLUSTER, None, &client::ListOptions::default()).await;
    for other in clusters.map_err(Error::client("list clusters"))?.items {
        if other.name() != name && decoded(&other)?["spec"]["id"] == id.as_str() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The objects that a join creates in a member, as text.
fn credentials(name: &str, ns: &str) -> String {
    format!("namespace {ns} and the ClusterRole and ClusterRoleBinding karmada-controller-manager:karmada-{name}")
}

/// Waits for the deletion, and removes the finalizers afterwards if the options permit it.
async fn delete_cluster(
    context: &Context,
    control: &Client,
    name: &str,
    (options, wait): (&Options, Duration),
) -> Result<(), Error> {
    let key = ObjectKey::cluster(name);
    delete_if_present(control, &resources::CLUSTER, &key).await?;
    let deadline = tokio::time::Instant::now() + wait;
    let waiting = || context.log(&format!("Waiting for the cluster object {name} to be deleted\n"));
    if is_gone_by(control, &resources::CLUSTER, &key, (POLL, deadline), waiting).await? {
        return Ok(());
    }
    if !options.force {
        context
            .log(&format!("Failed to delete cluster object. cluster name: {name}, error: context deadline exceeded\n"));
        return Err(timed_out(name, &Objects::of(&works(control, name).await?), &options.cluster_namespace));
    }
    context.log(&format!(
        "Deleting the cluster object timed out. cluster name: {name}, error: context deadline exceeded\n"
    ));
    context.log(&format!("Start forced deletion. cluster name: {name}\n"));
    let left = force(control, name).await?;
    context.log("Forced deletion is complete.\n");
    if left.count() > 0 {
        let lines = left.lines(SHOWN_LEFT);
        context.log(&format!("cluster {name} did not answer, these objects were left in it:\n{lines}"));
    }
    Ok(())
}

/// Drops the finalizers that wait for the unreachable cluster; returns the objects it still holds.
async fn force(control: &Client, name: &str) -> Result<Objects, Error> {
    let namespace = format!("karmada-es-{name}");
    let works = works(control, name).await?;
    for work in &works {
        let key = ObjectKey::namespaced(namespace.as_str(), text(&work["metadata"]["name"]));
        // Deleted first: otherwise the controller would restore the finalizer of the Work.
        delete_if_present(control, &resources::WORK, &key).await?;
        drop_finalizer(control, &resources::WORK, &key, "karmada.io/execution-controller").await?;
    }
    delete_if_present(control, &resources::NAMESPACE, &ObjectKey::cluster(namespace)).await?;
    drop_finalizer(control, &resources::CLUSTER, &ObjectKey::cluster(name), "karmada.io/cluster-controller").await?;
    Ok(Objects::of(&works))
}

/// The effect of `--force` on a cluster that is not removed in time, and the objects it would leave there.
fn timed_out(name: &str, left: &Objects, ns: &str) -> Error {
    let credentials = credentials(name, ns);
    Error::message(format!(
        "context deadline exceeded: cluster {name} did not confirm the deletion of {}. Its removal goes on; wait longer \
         with --wait, or remove it without an answer with --force, which would leave in cluster {name}:\n{}  \
         {credentials}",
        left.counted(),
        left.lines(SHOWN_LEFT)
    ))
}

/// A controller may write at the same time; then the newer state is read again.
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

/// Deletes the objects of the join; the namespace only if no other registration uses it.
async fn clean_member(member: &Client, name: &str, ns: &str, shares: bool) -> Result<(), Error> {
    let rbac = ObjectKey::cluster(format!("karmada-controller-manager:karmada-{name}"));
    delete_if_present(member, &resources::CLUSTER_ROLE_BINDING, &rbac).await?;
    delete_if_present(member, &resources::CLUSTER_ROLE, &rbac).await?;
    let account = ObjectKey::namespaced(ns, format!("karmada-{name}"));
    delete_if_present(member, &resources::SERVICE_ACCOUNT, &account).await?;
    match shares {
        true => delete_if_present(member, &resources::SECRET, &account).await,
        false => delete_if_present(member, &resources::NAMESPACE, &ObjectKey::cluster(ns)).await,
    }
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
    fn a_timeout_lists_the_objects_that_force_leaves() {
        let work = json!({"spec": {"workload": {"manifests": [
            {"kind": "Deployment", "metadata": {"namespace": "default", "name": "nginx"}},
            {"kind": "ClusterRole", "metadata": {"name": "reader"}}]}}});
        let error = timed_out("m1", &Objects::of([&work]), "karmada-cluster").render();
        let expected = "error: context deadline exceeded: cluster m1 did not confirm the deletion of 2 objects. Its removal \
                        goes on; wait longer with --wait, or remove it without an answer with --force, which would leave \
                        in cluster m1:\n  ClusterRole (1): reader\n  Deployment (1): default/nginx\n  namespace \
                        karmada-cluster and the ClusterRole and ClusterRoleBinding \
                        karmada-controller-manager:karmada-m1\n";
        assert_eq!(error, expected);
    }
}
