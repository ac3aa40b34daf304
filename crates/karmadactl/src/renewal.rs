//! The renewal of a registration in push mode: the same cluster at another address, or with another authority.

use apimachinery::{Object, ObjectKey};
use client::{Client, Patch, PatchOptions};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::answers::text;
use crate::error::Error;
use crate::join::{JoinOptions, Member, cluster_id, cluster_object, decoded, prepare_member};
use crate::member_secrets::put_secrets;
use crate::resources;

/// Registers the present address, authority and tokens of a member. `cluster` is its Cluster.
///
/// # Errors
/// The kubeconfig leads to another cluster, or a server does not answer; then it can be repeated.
pub fn renew<'a>(
    control: &'a Client,
    member: &'a Member,
    cluster: &'a Object,
    options: &'a JoinOptions,
) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let (name, known) = (cluster.name(), decoded(cluster)?);
        let (id, registered) = (cluster_id(&member.client).await?, text(&known["spec"]["id"]));
        if id != registered {
            return Err(Error::message(format!(
                "the new kubeconfig of cluster {name} leads to another cluster (ID {id}, not {registered}); nothing was \
                 changed. To replace it, first run: karmadactl unjoin {name}"
            )));
        }
        let credentials = prepare_member(member, name, options).await?;
        let object = cluster_object(member, name, &id, options);
        put_secrets(control, &options.cluster_namespace, name, &credentials, &object["spec"]).await?;
        let (key, patch) = (ObjectKey::cluster(name), patch(cluster, &object["spec"]));
        let patched = control.patch(&resources::CLUSTER, &key, &patch, &PatchOptions::default()).await;
        patched.map(drop).map_err(Error::client(format!("patch cluster {name}")))
    })
}

/// The fields of the address; absent ones are removed.
fn patch(cluster: &Object, spec: &Value) -> Patch {
    let fields = ["apiEndpoint", "insecureSkipTLSVerification", "proxyURL"];
    let spec: serde_json::Map<String, Value> = fields.iter().map(|it| ((*it).to_owned(), spec[*it].clone())).collect();
    Patch::Merge(json!({"metadata": {"uid": cluster.uid()}, "spec": spec}))
}
