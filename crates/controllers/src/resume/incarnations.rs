//! The list of incarnations: ConfigMap `karmada-system/karmada-incarnations` in the control plane. The process that
//! writes to members adds itself once, before its first write; agents read the list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use apimachinery::{ApiResource, Object};
use client::{Client, ListOptions};
use controller_runtime::{Backoff, Event, Failures, Selection};
use karmada_api::constants::namespaces;
use karmada_api::identity::ClusterName;
use propagation::resume::{Break, Incarnations, Mark, incarnation_id};
use serde::Deserialize;
use serde_json::json;
use world::World;

use super::{Gate, Known, hold};
use crate::{Context, MemberError};

const NAME: &str = "karmada-incarnations";
/// The key of the list in the ConfigMap's data.
const FIELD: &str = "incarnations.json";

/// As the informers' pauses.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// How long a superseded process waits for its own end. Two processes that start concurrently may both have read the
/// list before either wrote, and the one that loses the lease may have written last: after the duration of a lease (15
/// s) the remaining one begins another incarnation. The wait doubles, for two processes without leases.
const SUPERSEDED: (Duration, Duration) = (Duration::from_secs(15), Duration::from_mins(10));

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Api(#[from] client::Error),
    #[error("{0}")]
    Unreadable(String),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    data: BTreeMap<String, String>,
}

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn selector() -> String {
    format!("metadata.name={NAME}")
}

fn parse(object: &Object) -> Result<Incarnations, Failure> {
    let unreadable = |why: String| {
        let key = object.key();
        Failure::Unreadable(format!("ConfigMap {key} cannot be read ({why}); correct or delete its field {FIELD}"))
    };
    let document: Document = object.decode().map_err(|error| unreadable(error.to_string()))?;
    match document.data.get(FIELD) {
        Some(text) => Incarnations::read(text).map_err(|error| unreadable(error.to_string())),
        None => Ok(Incarnations::default()),
    }
}

struct Read {
    object: Option<Arc<Object>>,
    list: Incarnations,
    /// The newest revision of the store.
    revision: u64,
}

/// Lists the one object, because a list also returns the store's revision.
async fn read(client: &Client) -> Result<Read, Failure> {
    let options = ListOptions { field_selector: Some(selector()), ..ListOptions::default() };
    let listed = client.list(&config_maps(), Some(namespaces::SYSTEM), &options).await?;
    let object = listed.items.into_iter().find(|object| object.name() == NAME);
    let list = object.as_deref().map_or_else(|| Ok(Incarnations::default()), parse)?;
    Ok(Read { object, list, revision: listed.resource_version })
}

/// Guarded by the version that was read; false when another was faster.
async fn write(client: &Client, read: &Read) -> Result<bool, Failure> {
    let text = read.list.to_text().map_err(|error| Failure::Unreadable(error.to_string()))?;
    let mut document = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {FIELD: text},
        "metadata": {"namespace": namespaces::SYSTEM, "name": NAME}});
    let written = match &read.object {
        Some(object) => {
            document["metadata"]["resourceVersion"] = json!(object.resource_version());
            client.update(&config_maps(), &document).await
        }
        None => create(client, &document).await,
    };
    match written {
        Ok(_) => Ok(true),
        Err(error) if error.is_conflict() || error.is_already_exists() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn create(client: &Client, document: &serde_json::Value) -> client::Result<Arc<Object>> {
    let created = client.create(&config_maps(), document).await;
    if !created.as_ref().is_err_and(client::Error::is_not_found) {
        return created;
    }
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces::SYSTEM}});
    match client.create(&crate::namespace::resource(), &space).await {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => client.create(&config_maps(), document).await,
    }
}

/// Records that the store was opened at `revision`, and the breaks of a store that was restored or opened with a loss.
/// Must be done before users, agents and controllers reach the store, because their writes may hide the gap of an older
/// copy.
///
/// # Errors
/// If the list cannot be read or written.
pub async fn record_opening(client: &Client, world: &World, revision: u64, breaks: &[Break]) -> Result<(), String> {
    let started = apimachinery::meta::Time::new(world.now());
    loop {
        let mut found = read(client).await.map_err(|error| error.to_string())?;
        found.list.note(breaks, started);
        found.list.open(incarnation_id(started, world.random_u64()), revision, started);
        if write(client, &found).await.map_err(|error| error.to_string())? {
            return Ok(());
        }
    }
}

/// Runs until the process stops: the incarnation is recorded, and checked whenever the connection to the store was
/// another one, or the list changed.
pub(crate) async fn run(context: Context) {
    let doubting = context.clone();
    context.works.on_reconnect(move || {
        doubting.resume.cached(doubting.works.revision());
        doubting.resume.doubt();
    });
    let (failures, mut backoff) = (Failures::lasting(Duration::ZERO), Backoff::new(PAUSES.0, PAUSES.1));
    let mut patience = Backoff::new(SUPERSEDED.0, SUPERSEDED.1);
    let mut was_superseded = false;
    let mut follows = false;
    let holding = context.clone();
    tokio::spawn(hold::run(holding));
    loop {
        match settle(&context).await {
            Ok(()) => {
                backoff.reset();
                if let Some(lasted) = failures.succeeded(&()) {
                    tracing::info!(duration = ?lasted, "Incarnation of the control plane is recorded");
                }
            }
            Err(error) => {
                let err = error.to_string();
                if failures.failed(&(), &err) {
                    tracing::warn!(
                        err,
                        "Incarnation of the control plane cannot be recorded; nothing is written to members; retrying"
                    );
                }
                tokio::time::sleep(backoff.next(&context.world)).await;
                continue;
            }
        }
        if !follows && !matches!(context.resume.gate.get(), Gate::Unmarked if context.agent_of.is_some()) {
            follow(&context);
            follows = true;
        }
        match context.resume.gate.get() {
            Gate::Superseded => {
                was_superseded = true;
                tokio::select! {
                    biased;
                    () = context.resume.again.notified() => {}
                    () = tokio::time::sleep(patience.next(&context.world)) => *context.resume.own.lock() = None,
                }
                continue;
            }
            Gate::Open(_) if std::mem::take(&mut was_superseded) => {
                tracing::info!("This process writes to the members again");
                take_up(&context);
            }
            _ => {}
        }
        context.resume.again.notified().await;
    }
}

/// Resumes the work that waited while another process wrote to the members.
fn take_up(context: &Context) {
    for cluster in context.clusters.all() {
        crate::execution::dispatch_all(context, &ClusterName::of(&cluster));
    }
    hold::recheck(context);
}

/// Changes of the list by others.
fn follow(context: &Context) {
    let selection = Selection {
        namespace: Some(namespaces::SYSTEM.to_owned()),
        field_selector: Some(selector()),
        ..Selection::default()
    };
    let on_list = context.clone();
    context.control.selected(&config_maps(), selection).subscribe(move |event| note(&on_list, event));
}

fn note(context: &Context, event: &Event) {
    let resume = &context.resume;
    let object = event.object();
    let list = match event {
        Event::Deleted(_) => Incarnations::default(),
        _ => match parse(object) {
            Ok(list) => list,
            Err(error) => return tracing::warn!(err = %error, "List of incarnations is not used"),
        },
    };
    let Some(own) = resume.own.lock().clone() else { return };
    let is_opened = list.newest().is_some_and(|newest| newest.opened);
    let newest = list.newest().map(|entry| entry.id.clone());
    let is_followed = context.agent_of.is_some() || is_opened;
    if !list.knows(&own) || (is_followed && newest.as_ref() != Some(&own)) {
        // An event older than this process's entry is ignored.
        let is_old = matches!(resume.gate.get(), Gate::Open(known) if known.read_at > object.revision());
        if !is_old || matches!(event, Event::Deleted(_)) {
            resume.doubt();
        }
        return;
    }
    resume.gate.change(|gate| match (&gate, newest) {
        (Gate::Open(known), Some(newest)) if newest == own => {
            if list != known.list {
                let read_at = known.read_at.max(object.revision());
                *gate = Gate::Open(Arc::new(Known { plane: known.plane.clone(), list, own, read_at }));
            }
            true
        }
        (Gate::Open(_), _) => {
            superseded();
            *gate = Gate::Superseded;
            resume.again.notify_one();
            true
        }
        _ => false,
    });
}

fn superseded() {
    tracing::warn!("Another process writes to the members now; this one waits for the other to end");
}

/// The list, read at `revision` of the store or later. Marks of an agent with an incarnation must not be later than the
/// next incarnation.
pub(super) async fn covering(context: &Context, known: Arc<Known>, revision: u64) -> Result<Arc<Known>, MemberError> {
    if context.agent_of.is_none() || known.read_at >= revision {
        return Ok(known);
    }
    // Those that wait share the next reading.
    let _one_at_a_time = context.resume.reading.lock().await;
    let unread = |why: String| MemberError::NoIncarnation(why);
    if !matches!(context.resume.gate.get(), Gate::Open(known) if known.read_at >= revision) {
        settle(context).await.map_err(|error| unread(error.to_string()))?;
    }
    match context.resume.gate.wait_for(|gate| !matches!(gate, Gate::Closed)).await {
        Gate::Open(known) => Ok(known),
        _ => Err(unread("the list of incarnations is gone".to_owned())),
    }
}

/// Reads the list, adds this process where that is due, and opens the gate.
async fn settle(context: &Context) -> Result<(), Failure> {
    let resume = &context.resume;
    let plane = crate::identity::own_uid(context).await.map_err(Failure::Unreadable)?;
    let Some(plane) = plane else {
        resume.warn_once(|| {
            tracing::warn!("Namespace kube-system of the control plane is not shown; nothing is marked in members");
        });
        resume.gate.set(Gate::Unmarked);
        return Ok(());
    };
    loop {
        let doubts = resume.doubts.load(Ordering::Relaxed);
        let own = resume.own.lock().clone();
        // Before the list is read: a Work observed meanwhile may be newer than the list.
        let highest = resume.highest.load(Ordering::Relaxed);
        let found = match read(&context.client).await {
            Err(Failure::Api(error)) if error.is_denial() => {
                resume.warn_once(|| {
                    tracing::warn!(err = %error, "List of incarnations may not be read; nothing is marked in members");
                });
                resume.gate.set(Gate::Unmarked);
                return Ok(());
            }
            other => other?,
        };
        refresh_caches(context, plane, own.as_ref(), &found.list);
        let goes_on = own.as_ref().is_some_and(|own| found.list.knows(own)) && highest <= found.revision;
        let is_opened = found.list.newest().is_some_and(|newest| newest.opened);
        let gate = match (&context.agent_of, goes_on && !is_opened) {
            (Some(_), _) => read_by_agent(own.as_deref(), goes_on, plane, found, context),
            (None, true) => gate_of(own.unwrap_or_default(), plane, found),
            (None, false) => {
                // Read again, with the new entry.
                begin(context, found).await?;
                continue;
            }
        };
        if resume.doubts.load(Ordering::Relaxed) == doubts {
            resume.gate.set(gate);
            return Ok(());
        }
    }
}

/// Lists everything again if the store has lost changes that the caches had when the connection to it ended. A store
/// whose revision is not raised by the restore may have passed theirs since: then their watches resume as if it were the
/// former one.
fn refresh_caches(context: &Context, plane: &str, own: Option<&String>, list: &Incarnations) {
    let cached = context.resume.cached.swap(0, Ordering::Relaxed);
    let Some(own) = own.filter(|_| cached > 0) else { return };
    let mark = Mark { plane: Mark::plane_of(plane), incarnation: own.clone(), revision: cached };
    if list.lost(&mark).is_some() {
        tracing::warn!(revision = cached, "Store lacks changes that this process has read; it is read again");
        context.control.list_again();
    }
}

fn gate_of(own: String, plane: &str, found: Read) -> Gate {
    if found.list.newest().is_some_and(|newest| newest.id != own) {
        superseded();
        return Gate::Superseded;
    }
    Gate::Open(Arc::new(Known { plane: plane.to_owned(), list: found.list, own, read_at: found.revision }))
}

/// An agent writes in the name of the newest start. In a store that went back it waits for the next one.
fn read_by_agent(own: Option<&str>, goes_on: bool, plane: &str, found: Read, context: &Context) -> Gate {
    let Some(newest) = found.list.newest().map(|newest| newest.id.clone()) else { return Gate::Unmarked };
    if own == Some(&newest) && !goes_on {
        return Gate::Closed;
    }
    if !goes_on {
        context.resume.highest.store(found.revision, Ordering::Relaxed);
    }
    *context.resume.own.lock() = Some(newest.clone());
    gate_of(newest, plane, found)
}

/// Adds this process to the list, unless another write was faster.
async fn begin(context: &Context, mut found: Read) -> Result<(), Failure> {
    let started = context.now();
    let id = incarnation_id(started, context.world.random_u64());
    found.list.begin(id.clone(), found.revision, started);
    // Before the write: if its response is lost, the list may still contain it.
    *context.resume.own.lock() = Some(id.clone());
    context.resume.highest.store(0, Ordering::Relaxed);
    if write(&context.client, &found).await? {
        tracing::debug!(id, after = found.revision, "Incarnation of the control plane is recorded");
    }
    Ok(())
}
