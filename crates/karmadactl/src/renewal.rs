//! The renewal of a registration in push mode: the same cluster at another address, with another authority, or with
//! other credentials.

use apimachinery::{Object, ObjectKey};
use client::{Client, Patch, PatchOptions};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::answers::text;
use crate::error::Error;
use crate::join::{
    JoinOptions, Member, cluster_id, cluster_name, cluster_object, create_if_absent, decoded, prepare_member,
};
use crate::member_secrets::{goes_with, put_secrets};
use crate::{Context, resources};

/// Registers the present address, authority and tokens of a member. `cluster` is its Cluster.
///
/// # Errors
/// The kubeconfig leads to another cluster, an agent registers this one, or a server does not answer; then it can be
/// repeated.
pub fn renew<'a>(
    control: &'a Client,
    member: &'a Member,
    cluster: &'a Object,
    options: &'a JoinOptions,
) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let (name, known) = (cluster.name(), decoded(cluster)?);
        let spec = &known["spec"];
        if text(&spec["syncMode"]) == "Pull" {
            return Err(Error::message(format!(
                "cluster {name} is in pull mode: its agent registers its address and credentials; nothing was changed"
            )));
        }
        let (id, registered) = (cluster_id(&member.client).await?, text(&spec["id"]));
        if id != registered {
            return Err(Error::message(format!(
                "the new kubeconfig of cluster {name} leads to another cluster (ID {id}, not {registered}); nothing was \
                 changed. To replace it, first run: karmadactl unjoin {name}"
            )));
        }
        if options.dry_run {
            return Ok(());
        }
        let options = in_its_namespace(spec, options);
        let ns = options.cluster_namespace.as_str();
        let credentials = prepare_member(member, name, &options).await?;
        let object = cluster_object(member, name, &id, &options);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}});
        create_if_absent(control, &resources::NAMESPACE, &namespace).await?;
        for secret in put_secrets(control, ns, name, &credentials, &object["spec"]).await? {
            goes_with(control, ns, &secret, cluster).await?;
        }
        let (key, patch) = (ObjectKey::cluster(name), patch(cluster, &object["spec"]));
        let patched = control.patch(&resources::CLUSTER, &key, &patch, &PatchOptions::default()).await;
        patched.map(drop).map_err(Error::client(format!("patch cluster {name}")))
    })
}

/// The credentials stay in the namespace that the cluster was joined with.
fn in_its_namespace(spec: &Value, options: &JoinOptions) -> JoinOptions {
    match text(&spec["secretRef"]["namespace"]) {
        known if known.is_empty() => options.clone(),
        cluster_namespace => JoinOptions { cluster_namespace, ..options.clone() },
    }
}

/// The fields of the address and the credentials; absent ones are removed.
fn patch(cluster: &Object, spec: &Value) -> Patch {
    let fields = ["apiEndpoint", "insecureSkipTLSVerification", "proxyURL", "secretRef", "impersonatorSecretRef"];
    let spec: serde_json::Map<String, Value> = fields.iter().map(|it| ((*it).to_owned(), spec[*it].clone())).collect();
    Patch::Merge(json!({"metadata": {"uid": cluster.uid()}, "spec": spec}))
}

/// `join --renew`: reads the member's kubeconfig, renews, reports.
pub(crate) async fn run(
    context: &Context,
    args: &[String],
    kubeconfig: Option<&str>,
    kube_context: Option<&str>,
    options: &JoinOptions,
) -> Result<(), Error> {
    let name = cluster_name(args)?;
    let control = context.control_plane().await?;
    let cluster = control.get_opt(&resources::CLUSTER, &ObjectKey::cluster(name)).await;
    let Some(cluster) = cluster.map_err(Error::client(format!("get cluster {name}")))? else {
        return Err(Error::message(format!("cluster {name} is not joined; without --renew this command joins it")));
    };
    let member = context.member(kubeconfig, kube_context, "joining").await?;
    renew(&control, &member, &cluster, options).await?;
    let dry = if options.dry_run { " (dry run)" } else { "" };
    context.print(&format!("address and credentials of cluster({name}) are renewed{dry}\n"));
    Ok(())
}
