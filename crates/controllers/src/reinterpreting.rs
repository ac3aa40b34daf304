//! Statuses are interpreted again after the interpretation of their kinds has changed. Reconcilers write only results
//! that differ.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::Object;
use interpreter::{Changes, Operation};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::Notify;

use crate::Context;

/// Customizations are often applied together.
const SETTLE: Duration = Duration::from_secs(1);
/// At most 500 objects a second, so that a change of a common kind delays no other work.
const PER_OBJECT: Duration = Duration::from_millis(2);
/// Other tasks run after this many objects, each of which is read in some microseconds.
const BATCH: usize = 100;

/// The changes that one controller has not handled.
#[derive(Default)]
pub(crate) struct Feed {
    pending: Mutex<Changes>,
    added: Notify,
}

impl Feed {
    pub(crate) fn add(&self, changes: Changes) {
        self.pending.lock().add(changes);
        self.added.notify_one();
    }
}

/// Calls `again` for each of the objects that a change concerns, with the delay after which it is reconciled. Returns
/// when the context stops.
pub(crate) async fn run(
    context: &Context,
    objects: impl Fn() -> Vec<Arc<Object>> + Send,
    is_concerned: fn(&Changes, &Object) -> bool,
    again: impl Fn(&Object, Duration) + Send,
) {
    let feed = context.interpreting.changes();
    let running = async {
        loop {
            feed.added.notified().await;
            tokio::time::sleep(SETTLE).await;
            let changes = std::mem::take(&mut *feed.pending.lock());
            let (all, mut delay) = (objects(), Duration::ZERO);
            for batch in all.chunks(BATCH) {
                for object in batch.iter().filter(|object| is_concerned(&changes, object)) {
                    again(object, delay);
                    delay += PER_OBJECT;
                }
                tokio::task::yield_now().await;
            }
        }
    };
    context.stop.run_until_cancelled(running).await;
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
}

/// Whether the reported state of a Work's objects may differ.
pub(crate) fn concern_work(changes: &Changes, work: &Object) -> bool {
    #[derive(Deserialize)]
    struct Spec<'a> {
        #[serde(borrow)]
        workload: Workload<'a>,
    }
    #[derive(Deserialize)]
    struct Workload<'a> {
        #[serde(borrow)]
        manifests: Vec<Typed<'a>>,
    }
    let operations = [Operation::InterpretStatus, Operation::InterpretHealth];
    let Some(spec) = work.member("spec") else { return false };
    let Ok(spec) = serde_json::from_slice::<Spec<'_>>(&spec) else { return false };
    spec.workload.manifests.iter().any(|it| changes.concern(&it.api_version, &it.kind, &operations))
}

/// Whether the aggregated status of a binding's template may differ.
pub(crate) fn concern_binding(changes: &Changes, binding: &Object) -> bool {
    #[derive(Deserialize)]
    struct Spec<'a> {
        #[serde(borrow)]
        resource: Typed<'a>,
    }
    let Some(spec) = binding.member("spec") else { return false };
    let Ok(Spec { resource }) = serde_json::from_slice::<Spec<'_>>(&spec) else { return false };
    changes.concern(&resource.api_version, &resource.kind, &[Operation::AggregateStatus])
}
