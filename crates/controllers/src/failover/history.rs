//! Stores the moves that have ended in ConfigMaps of the control plane. `propagation::failover::history` decides where.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use apimachinery::ApiResource;
use apimachinery::meta::Time;
use client::{ListOptions, Patch, PatchOptions};
use controller_runtime::Backoff;
use karmada_api::constants::{labels, namespaces};
use karmada_api::identity::ClusterName;
use karmada_api::names;
use karmada_api::scope::Binding;
use parking_lot::Mutex;
use propagation::failover::graceful::Ending;
use propagation::failover::history::{Move, Place, Ring, batch, of_task};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;

use crate::Context;
use crate::error::{During, Result};

/// The maximum number of moves in the queue, equal to those stored. Beyond it the oldest are dropped.
const WAITING: usize = 20_000;
/// Moves that end within this time are written together.
const COLLECT: Duration = Duration::from_secs(1);
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

#[derive(Default)]
pub(crate) struct History {
    waiting: Mutex<VecDeque<Move>>,
    added: Notify,
}

impl History {
    pub(super) fn ended(&self, binding: &Binding, ended: &[(ClusterName, Ending)], now: Time) {
        if ended.is_empty() {
            return;
        }
        let mut waiting = self.waiting.lock();
        for task in &binding.spec.graceful_eviction_tasks {
            let Some((_, ending)) = ended.iter().find(|(cluster, _)| *cluster == task.from_cluster) else { continue };
            waiting.push_back(Move { ended: Some(now), ending: format!("{ending:?}"), ..of_task(binding, task) });
        }
        let more = waiting.len().saturating_sub(WAITING);
        waiting.drain(..more);
        drop(waiting);
        self.added.notify_one();
    }
}

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    data: BTreeMap<String, String>,
}

/// Runs until the process stops; then it stores the queued moves.
pub(super) async fn run(context: Context) {
    let writer = format!("{:08x}", context.world.random_u64() >> 32);
    let (mut ring, mut backoff) = (None, Backoff::new(PAUSES.0, PAUSES.1));
    loop {
        let waiting = async {
            while context.history.waiting.lock().is_empty() {
                context.history.added.notified().await;
            }
            tokio::time::sleep(COLLECT).await;
        };
        let stopped = context.stop.run_until_cancelled(waiting).await.is_none();
        match store(&context, &mut ring, &writer).await {
            Ok(()) => backoff.reset(),
            Err(error) => {
                tracing::warn!(err = %error, "The history of failovers cannot be written; retrying");
                // The stored history is read again.
                ring = None;
                context.stop.run_until_cancelled(tokio::time::sleep(backoff.next(&context.world))).await;
            }
        }
        if stopped {
            return;
        }
    }
}

async fn store(context: &Context, ring: &mut Option<Ring>, writer: &str) -> Result<()> {
    loop {
        let (text, count) = {
            let waiting = context.history.waiting.lock();
            batch(&*waiting)
        };
        if count == 0 {
            return Ok(());
        }
        let ring = match ring {
            Some(ring) => ring,
            None => ring.insert(read(context).await?),
        };
        write(context, &ring.place(&text, count, writer), &text).await?;
        // Those that were added meanwhile are behind.
        let mut waiting = context.history.waiting.lock();
        let count = count.min(waiting.len());
        waiting.drain(..count);
    }
}

async fn read(context: &Context) -> Result<Ring> {
    let options = ListOptions::labels(format!("{}=true", labels::FAILOVER_HISTORY));
    let listed = context.client.list(&config_maps(), Some(namespaces::SYSTEM), &options).await;
    let listed = listed.during(|| "reading the history of failovers".to_owned())?;
    let segments = listed.items.iter().filter_map(|object| {
        let segment = names::segment_of_failover_history(object.name())?;
        Some((segment, object.decode::<Document>().ok()?.data))
    });
    Ok(Ring::after(&segments.collect()))
}

async fn write(context: &Context, place: &Place, text: &str) -> Result<()> {
    let name = names::failover_history(place.segment);
    let key = apimachinery::ObjectKey::namespaced(namespaces::SYSTEM, name.as_str());
    let during = || format!("writing the history of failovers to ConfigMap {key}");
    let mut document = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {place.key.as_str(): text}, "metadata": {
        "namespace": namespaces::SYSTEM, "name": name, "labels": {labels::FAILOVER_HISTORY: "true"}}});
    if place.replaces {
        if let Some(old) = context.client.get_opt(&config_maps(), &key).await.during(during)? {
            document["metadata"]["resourceVersion"] = json!(old.resource_version());
            return context.client.update(&config_maps(), &document).await.map(drop).during(during);
        }
    } else {
        let patch = Patch::Merge(json!({"data": {place.key.as_str(): text}}));
        match context.client.patch(&config_maps(), &key, &patch, &PatchOptions::default()).await {
            Err(error) if error.is_not_found() => {}
            other => return other.map(drop).during(during),
        }
    }
    match context.client.create(&config_maps(), &document).await {
        Err(error) if error.is_not_found() => {
            let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces::SYSTEM}});
            context.client.create(&crate::namespace::resource(), &space).await.map(drop).during(during)?;
            context.client.create(&config_maps(), &document).await.map(drop).during(during)
        }
        other => other.map(drop).during(during),
    }
}
