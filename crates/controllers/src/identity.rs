//! Verifies that a connection leads to the cluster of its Cluster object, before any write to a member. The UID is read
//! once for each connection, and again after a failed probe of the member and after a refusal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use apimachinery::status::StatusReason;
use apimachinery::{ApiResource, ObjectKey};
use client::{Client, Patch, PatchOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::identity::ClusterName;
use parking_lot::Mutex;
use propagation::identity::{self, Other, Refusal};
use serde_json::json;

use crate::members::Member;
use crate::{Context, MemberError};

const SYSTEM: &str = "kube-system";

/// The verified identity of the cluster behind one connection.
#[derive(Default)]
pub(crate) struct Identity {
    uid: Mutex<Uid>,
    /// The `spec.id` for which the cluster was accepted.
    accepted: Mutex<Option<String>>,
    /// One request at a time.
    reading: tokio::sync::Mutex<()>,
    attempts: AtomicU64,
    failure: Mutex<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Uid {
    #[default]
    Unread,
    /// The server has no such namespace, or does not show it to us: the identity stays unknown.
    Hidden,
    Read(String),
}

impl Identity {
    /// The member may have been replaced: the next use reads its UID again.
    pub(crate) fn forget(&self) {
        *self.accepted.lock() = None;
        *self.uid.lock() = Uid::Unread;
    }

    pub(crate) fn read(&self) -> Option<String> {
        match &*self.uid.lock() {
            Uid::Read(uid) => Some(uid.clone()),
            Uid::Unread | Uid::Hidden => None,
        }
    }

    fn is_accepted_for(&self, recorded: &str) -> bool {
        self.accepted.lock().as_deref() == Some(recorded)
    }

    /// The UID; `None` when the member hides it. Callers that wait for another's request share its failure.
    async fn learn(&self, client: &Client) -> Result<Option<String>, String> {
        let before = self.attempts.load(Ordering::Relaxed);
        let _one_at_a_time = self.reading.lock().await;
        match &*self.uid.lock() {
            Uid::Unread => {}
            Uid::Hidden => return Ok(None),
            Uid::Read(uid) => return Ok(Some(uid.clone())),
        }
        if self.attempts.load(Ordering::Relaxed) != before {
            return Err(self.failure.lock().clone());
        }
        let read = read_uid(client).await;
        match &read {
            Ok(Some(uid)) => *self.uid.lock() = Uid::Read(uid.clone()),
            Ok(None) => *self.uid.lock() = Uid::Hidden,
            Err(why) => {
                self.attempts.fetch_add(1, Ordering::Relaxed);
                self.failure.lock().clone_from(why);
            }
        }
        read
    }
}

/// The UID of namespace kube-system; `None` if the server has none, or denies reading it.
async fn read_uid(client: &Client) -> Result<Option<String>, String> {
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    match client.get(&namespaces, &ObjectKey::cluster(SYSTEM)).await {
        Ok(namespace) => Ok(Some(namespace.uid().to_owned()).filter(|uid| !uid.is_empty())),
        Err(error) if error.is_absence_of(SYSTEM) || error.reason() == Some(StatusReason::Forbidden) => Ok(None),
        Err(error) => Err(format!("reading namespace {SYSTEM}: {error}")),
    }
}

/// The connection to a cluster that may be written to.
///
/// # Errors
/// The member cannot be reached, or is not the cluster it should be.
pub(crate) async fn writable(context: &Context, cluster: &Cluster) -> Result<Arc<Member>, MemberError> {
    let member = context.members.get(&cluster.metadata.name).await?;
    match identity_state(context, &member, cluster).await? {
        IdentityState::Accepted => Ok(member),
        // The Cluster's status controller records it in a moment.
        IdentityState::Unrecorded(_) => Err(MemberError::Unrecorded(ClusterName::of(cluster))),
    }
}

pub(crate) enum IdentityState {
    Accepted,
    /// The Cluster has no ID; this is to be it.
    Unrecorded(String),
}

/// Checks the cluster of a connection; without a request if it was already checked.
///
/// # Errors
/// If it did not respond, or writes to it are refused.
pub(crate) async fn identity_state(
    context: &Context,
    member: &Member,
    cluster: &Cluster,
) -> Result<IdentityState, MemberError> {
    let recorded = &cluster.spec.id;
    if member.identity.is_accepted_for(recorded) {
        return Ok(IdentityState::Accepted);
    }
    let unidentified = |why| MemberError::Unidentified { cluster: ClusterName::of(cluster), why };
    let uid = member.identity.learn(&member.client).await.map_err(unidentified)?;
    if let Some(uid) = uid {
        let own = own_uid(context).await.map_err(|why| unidentified(format!("of the control plane: {why}")))?;
        let all = context.clusters.all();
        let others = all.iter().map(|other| {
            let connected = context.members.connected(&other.metadata.name);
            Other { cluster: other, read: connected.and_then(|member| member.identity.read()) }
        });
        identity::check(&uid, cluster, own, others).map_err(|refusal| refused(cluster, refusal))?;
        // An agent may not write its Cluster; it registered it with the ID.
        if recorded.is_empty() && context.agent_of.is_none() {
            return Ok(IdentityState::Unrecorded(uid));
        }
    }
    *member.identity.accepted.lock() = Some(recorded.clone());
    Ok(IdentityState::Accepted)
}

fn refused(cluster: &Cluster, refusal: Refusal) -> MemberError {
    MemberError::Refused { cluster: ClusterName::of(cluster), refusal }
}

/// The UID of the control plane, read once in a process.
pub(crate) async fn own_uid(context: &Context) -> Result<Option<&str>, String> {
    let read = context.own_uid.get_or_try_init(|| read_uid(&context.client)).await;
    read.map(Option::as_deref)
}

/// Writes the ID of a cluster that was joined without one. The server refuses an ID that another Cluster has.
///
/// # Errors
/// The write failed; a conflict or an ID that was taken meanwhile is found by the next pass.
pub(crate) async fn record(context: &Context, cluster: &Cluster, uid: &str) -> client::Result<()> {
    let patch = json!({"metadata": {"uid": cluster.metadata.uid, "resourceVersion": cluster.metadata.resource_version},
        "spec": {"id": uid}});
    let (resource, key) = (Cluster::api_resource(), cluster.key());
    context.client.patch(&resource, &key, &Patch::Merge(patch), &PatchOptions::default()).await.map(drop)
}
