//! The detector: which policy each template belongs to, and the binding that follows from it.

mod policy;
mod preemption;
mod template;
mod watch;

pub(crate) use watch::is_change;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use controller_runtime::{Event, Priority, WorkQueue, run_workers};
use karmada_api::scope::{Policy, Scope};
use parking_lot::Mutex;

use crate::Context;

/// A template to look at. `by_us` marks a change that the system made itself, which a lazy policy does not act on; it
/// is part of the key so that it cannot swallow a change of the user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TemplateKey {
    resource: Arc<ApiResource>,
    key: ObjectKey,
    by_us: bool,
}

/// Templates that no policy matches: their resource and key.
type Waiting = Mutex<BTreeSet<(Arc<ApiResource>, ObjectKey)>>;

struct Detector {
    context: Context,
    templates: Arc<WorkQueue<TemplateKey>>,
    policies: Arc<WorkQueue<ObjectKey>>,
    waiting: Waiting,
    /// Bindings written a moment ago, until the cache has them: the claim on a template brings it back at once, and that
    /// pass should find its binding; so should a policy that changes now.
    written: Mutex<HashMap<ObjectKey, Arc<Object>>>,
}

pub(crate) async fn run(context: Context) {
    let detector = Arc::new(Detector {
        context: context.clone(),
        templates: context.queue(),
        policies: context.queue(),
        waiting: Waiting::default(),
        written: Mutex::default(),
    });
    // Before anything is matched, all policies must be known: else objects would go to weaker ones first.
    if !context.synced().await {
        return;
    }
    for scope in Scope::ALL {
        let (queue, followed) = (detector.policies.clone(), Arc::downgrade(&detector));
        context.control.informer(&Policy::api_resource(scope)).subscribe(move |event| match event {
            Event::Added { object, initial } => {
                queue.add_with(object.key(), if *initial { Priority::Low } else { Priority::Normal });
            }
            Event::Updated { new, .. } if event.changes_generation() => {
                queue.add(new.key());
                if let Some(detector) = followed.upgrade() {
                    detector.wake_contenders(event);
                }
            }
            _ => {}
        });
    }
    for scope in Scope::ALL {
        let followed = Arc::downgrade(&detector);
        context.bindings(scope).subscribe(move |event| {
            if let Some(detector) = followed.upgrade() {
                let (mut written, seen) = (detector.written.lock(), event.object());
                if written.get(&seen.key()).is_some_and(|ours| version(ours) <= version(seen)) {
                    written.remove(&seen.key());
                }
            }
        });
    }
    let (stop, workers) = (context.stop.clone(), context.settings.workers);
    let templates = {
        let detector = detector.clone();
        run_workers("resource-detector", detector.templates.clone(), workers, stop.clone(), move |key| {
            let detector = detector.clone();
            async move { detector.reconcile_template(&key).await }
        })
    };
    let policies = {
        let detector = detector.clone();
        run_workers("resource-detector-policies", detector.policies.clone(), 4, stop.clone(), move |key| {
            let detector = detector.clone();
            async move { detector.reconcile_policy(&key).await }
        })
    };
    let discovery = async { stop.run_until_cancelled(detector.watch_resources()).await };
    let _ = tokio::join!(templates, policies, discovery);
}

/// Revisions of one server, which grow with every write.
fn version(object: &Object) -> u64 {
    object.resource_version().parse().unwrap_or_default()
}
