//! The marker of a member: a ConfigMap in its namespace `karmada-cluster`, named after the control plane. It is written
//! ahead of deletions; one write covers all that wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use apimachinery::{ApiResource, ObjectKey};
use client::{Patch, PatchOptions};
use karmada_api::constants::{labels, namespaces};
use karmada_api::identity::ClusterName;
use parking_lot::Mutex;
use propagation::resume::{Acceptance, Mark, Marker};
use serde::Deserialize;
use serde_json::json;

use super::{Known, Permit, hold};
use crate::error::{During, Result};
use crate::members::Member;
use crate::{Context, MemberError};

/// The key of the marker in the ConfigMap's data.
const FIELD: &str = "marker";

/// The state of one member's marker, for one connection.
#[derive(Default)]
pub(crate) struct Ledger {
    read: Mutex<Option<Read>>,
    /// The Works whose end waits for the marker.
    ending: Mutex<Vec<String>>,
    /// One request at a time.
    busy: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Read {
    /// The state of the list when it was read: it is read again when the list has another entry.
    under: (String, u64),
    mark: Option<Mark>,
    accepted: Option<Acceptance>,
    ended: Vec<String>,
    /// The member does not let us write it.
    is_refused: bool,
}

impl Ledger {
    fn read(&self, known: &Known) -> Option<Read> {
        let state = known.state();
        self.read.lock().as_ref().filter(|read| read.under == state).cloned()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    data: std::collections::BTreeMap<String, String>,
}

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn key(known: &Known) -> ObjectKey {
    ObjectKey::namespaced(namespaces::CLUSTER, format!("karmada-{}", known.plane))
}

/// Reads the marker, once for each connection, and holds a member that is newer than the store.
///
/// # Errors
/// The member did not answer.
pub(super) async fn learn(
    context: &Context,
    member: &Member,
    known: &Known,
) -> std::result::Result<Option<Acceptance>, MemberError> {
    if let Some(read) = member.ledger.read(known) {
        return Ok(read.accepted);
    }
    let _one_at_a_time = member.ledger.busy.lock().await;
    if let Some(read) = member.ledger.read(known) {
        return Ok(read.accepted);
    }
    let key = key(known);
    let object = match member.client.get(&config_maps(), &key).await {
        Ok(object) => Some(object),
        // Without the permission to read it, it was never written. A refusal of an intermediary proves neither.
        Err(error) if error.is_absence_of(key.name()) || error.is_denial() => None,
        Err(source) => return Err(MemberError::Unmarked { cluster: member.name.clone(), source }),
    };
    let text = object.and_then(|object| object.decode::<Document>().ok()?.data.remove(FIELD));
    let marker = text.as_deref().map(serde_json::from_str::<Marker>);
    let carrier = || format!("ConfigMap {key}");
    let (accepted, ended) = match marker {
        None => (None, Vec::new()),
        Some(Ok(marker)) => {
            if context.resume.reads_again(known, &marker.mark.to_string()) {
                return Err(MemberError::Unlisted(member.name.clone()));
            }
            let is_older = known.is_older_than(&marker.mark.to_string(), marker.accepted.as_ref());
            if is_older || has_alive(context, &member.name, &marker.ended) {
                hold::begin(context, &member.name, known, marker.mark.to_string(), carrier());
            }
            (marker.accepted, marker.ended)
        }
        // Written by a later version or manually: its meaning is unknown.
        Some(Err(_)) => {
            hold::begin(context, &member.name, known, text.unwrap_or_default(), carrier());
            (None, Vec::new())
        }
    };
    let read = Read { under: known.state(), mark: None, accepted: accepted.clone(), ended, is_refused: false };
    *member.ledger.read.lock() = Some(read);
    Ok(accepted)
}

/// Whether a Work that has ended is alive in the store.
fn has_alive(context: &Context, cluster: &ClusterName, ended: &[String]) -> bool {
    let works = context.works.cache().list(Some(&cluster.execution_namespace()));
    works.iter().any(|work| {
        !work.is_deleting() && work.label(labels::WORK_ID).is_some_and(|id| ended.iter().any(|ended| ended == id))
    })
}

/// Ensures that the member records the coming deletion.
///
/// # Errors
/// If the marker was not written; no deletion may follow.
pub(crate) async fn write_ahead(context: &Context, member: &Member, permit: &Permit) -> Result<()> {
    let Some(known) = &permit.known else { return Ok(()) };
    let is_named = |read: &Read| permit.work_id.is_empty() || read.ended.contains(&permit.work_id);
    let is_covered = |read: &Read| {
        read.is_refused || (is_named(read) && read.mark.as_ref().is_some_and(|it| it.revision >= permit.revision))
    };
    if member.ledger.read(known).is_some_and(|read| is_covered(&read)) {
        return Ok(());
    }
    member.ledger.ending.lock().extend(Some(permit.work_id.clone()).filter(|id| !id.is_empty()));
    let _one_at_a_time = member.ledger.busy.lock().await;
    let read = member.ledger.read(known);
    if read.as_ref().is_some_and(is_covered) {
        return Ok(());
    }
    // Deletions decided meanwhile are covered, too. An agent does not know the list at later revisions.
    let seen = context.resume.highest.load(Ordering::Relaxed);
    let seen = if context.agent_of.is_some() { seen.min(known.read_at) } else { seen };
    let (accepted, ended) = read.map(|read| (read.accepted, read.ended)).unwrap_or_default();
    let more = std::mem::take(&mut *member.ledger.ending.lock());
    // It may have been taken by a write that failed.
    let own = Some(permit.work_id.clone()).filter(|id| !id.is_empty() && !more.contains(id));
    let ended = Marker::with_ended(ended, more.into_iter().chain(own));
    write(member, known, Marker { mark: known.mark(seen.max(permit.revision)), accepted, ended }).await
}

/// The state of the store is applied to the member: losses until now are accepted.
///
/// # Errors
/// If the marker was not written.
pub(super) async fn accept(context: &Context, member: &Arc<Member>, known: &Known) -> Result<()> {
    let accepted = Acceptance { number: known.list.last_number(), id: known.own.clone(), at: context.now() };
    let _one_at_a_time = member.ledger.busy.lock().await;
    let seen = context.resume.highest.load(Ordering::Relaxed);
    let seen = if context.agent_of.is_some() { seen.min(known.read_at) } else { seen };
    write(member, known, Marker { mark: known.mark(seen), accepted: Some(accepted), ended: Vec::new() }).await
}

async fn write(member: &Member, known: &Known, marker: Marker) -> Result<()> {
    let text = json!(marker).to_string();
    let (resource, key) = (config_maps(), key(known));
    let attempt = || format!("writing ConfigMap {key} in cluster {}", member.name);
    let patch = Patch::Merge(json!({"data": {FIELD: text}}));
    let mut written = member.client.patch(&resource, &key, &patch, &PatchOptions::default()).await;
    if written.as_ref().is_err_and(client::Error::is_not_found) {
        written = create(member, &key, &text).await;
    }
    let is_refused = match written {
        Ok(_) => false,
        Err(error) if error.is_denial() => {
            tracing::warn!(
                cluster = &*member.name,
                err = %error,
                "Marker cannot be written; after a restore from a backup, objects deleted since may return in this cluster"
            );
            true
        }
        Err(error) => return Err(error).during(attempt),
    };
    let Marker { mark, accepted, ended } = marker;
    let under = known.state();
    *member.ledger.read.lock() = Some(Read { under, mark: Some(mark), accepted, ended, is_refused });
    Ok(())
}

async fn create(member: &Member, key: &ObjectKey, text: &str) -> client::Result<Arc<apimachinery::Object>> {
    let marker = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {FIELD: text},
        "metadata": {"namespace": namespaces::CLUSTER, "name": key.name()}});
    let created = member.client.create(&config_maps(), &marker).await;
    if !created.as_ref().is_err_and(client::Error::is_not_found) {
        return created;
    }
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces::CLUSTER}});
    match member.client.create(&crate::namespace::resource(), &space).await {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => member.client.create(&config_maps(), &marker).await,
    }
}
