//! The detector: which policy each template belongs to, and the binding that follows from it.

mod policy;
mod preemption;
mod template;
mod watch;

pub(crate) use watch::is_change;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, GroupVersionKind, Object, ObjectKey};
use client::MapError;
use controller_runtime::{Event, Failures, Next, Overlay, Priority, WorkQueue, run_workers};
use karmada_api::identity::PolicyKey;
use karmada_api::scope::{Binding, Override, Policy, Scope};
use parking_lot::Mutex;

use crate::Context;
use crate::context::BindingOverlays;
use crate::error::Result;
use crate::execution::changes_desired_state;

/// A template to reconcile. `by_us` marks a change that the system made itself, which a lazy policy ignores; it is part
/// of the key so that it cannot hide a change of the user.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct TemplateKey {
    resource: Arc<ApiResource>,
    key: ObjectKey,
    by_us: bool,
}

impl std::fmt::Debug for TemplateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.resource.kind, self.key)
    }
}

/// Templates that no policy matches: their resource and key.
type Waiting = Mutex<BTreeSet<(Arc<ApiResource>, ObjectKey)>>;

struct Detector {
    context: Context,
    templates: Arc<WorkQueue<TemplateKey>>,
    policies: Arc<WorkQueue<PolicyKey>>,
    /// Templates whose binding was deleted: an existing template needs another.
    unbound: Arc<WorkQueue<(GroupVersionKind, ObjectKey)>>,
    waiting: Waiting,
    /// Bindings as they were written here: a policy that changes now must find them.
    written: BindingOverlays,
    /// Templates of the initial list that have not been processed since: most likely they are unchanged since the
    /// previous process.
    found: Waiting,
    /// Templates as they were claimed here, for each kind.
    claims: Mutex<HashMap<Arc<ApiResource>, Overlay>>,
    /// Changes of templates that were reported while a claim was in flight: they may be the claim.
    deferred: Mutex<BTreeSet<TemplateKey>>,
    /// Attempts to discover the served resources.
    discovery: Failures<()>,
}

pub(crate) async fn run(context: Context) {
    let detector = Arc::new(Detector {
        context: context.clone(),
        templates: context.dispatch_queue(),
        policies: context.queue(),
        unbound: context.queue(),
        waiting: Waiting::default(),
        written: context.binding_overlays(),
        found: Waiting::default(),
        claims: Mutex::default(),
        deferred: Mutex::default(),
        discovery: Failures::lasting(Duration::ZERO),
    });
    // Before matching, all policies must be known: otherwise templates would first be claimed by weaker ones.
    if !context.synced().await {
        return;
    }
    follow_policies(&detector);
    for scope in Scope::ALL {
        let followed = Arc::downgrade(&detector);
        context.bindings(scope).subscribe(move |event| {
            if let Some(detector) = followed.upgrade() {
                detector.note_binding(event);
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
    let unbound = {
        let detector = detector.clone();
        run_workers("resource-detector-bindings", detector.unbound.clone(), 1, stop.clone(), move |(gvk, key)| {
            let detector = detector.clone();
            async move { detector.bind_again(&gvk, key).await }
        })
    };
    let discovery = async { stop.run_until_cancelled(detector.watch_resources()).await };
    let _ = tokio::join!(templates, policies, unbound, discovery);
}

/// Queues changed policies, and those that waited for a new override policy.
fn follow_policies(detector: &Arc<Detector>) {
    for scope in Scope::ALL {
        let (queue, followed) = (detector.policies.clone(), Arc::downgrade(detector));
        detector.context.control.informer(&Policy::api_resource(scope)).subscribe(move |event| match event {
            Event::Added { object, initial } => {
                queue.add_with(PolicyKey::of(object), if *initial { Priority::Low } else { Priority::Normal });
            }
            Event::Updated { new, .. } if changes_desired_state(event) => {
                queue.add(PolicyKey::of(new));
                if let Some(detector) = followed.upgrade() {
                    detector.wake_contenders(event);
                }
            }
            _ => {}
        });
    }
    for scope in Scope::ALL {
        let followed = Arc::downgrade(detector);
        detector.context.control.informer(&Override::api_resource(scope)).subscribe(move |event| {
            if let (Event::Added { object, initial: false }, Some(detector)) = (event, followed.upgrade()) {
                detector.wake_dependents(object);
            }
        });
    }
}

impl Detector {
    /// Queues the policies that may have waited for a new override policy. Upstream retries, with growing pauses.
    fn wake_dependents(&self, new: &Object) {
        for policy in self.context.policies.of(new.namespace()) {
            if policy.spec.dependent_overrides.iter().any(|name| name == new.name()) {
                self.policies.add(policy.key());
            }
        }
    }

    fn note_binding(&self, event: &Event) {
        self.written.of(Scope::of(&event.object().key())).observe(event, false);
        if let Event::Deleted(deleted) = event
            && let Ok(binding) = Binding::decode(deleted)
        {
            let of = binding.spec.resource;
            if let Ok(gvk) = GroupVersionKind::from_api_version(&of.api_version, &of.kind) {
                self.unbound.add((gvk, ObjectKey::namespaced(of.namespace, of.name)));
            }
        }
    }

    /// Requeues a template whose binding was deleted. Upstream recreates the binding only when the template changes.
    async fn bind_again(&self, gvk: &GroupVersionKind, key: ObjectKey) -> Result<Next> {
        let resource = match self.context.mapper.resource(gvk).await {
            Ok(resource) => Arc::new(resource),
            Err(MapError::NoMatch(_)) => return Ok(Next::Done),
            Err(error) => return Err(error.into()),
        };
        // Usually it is the template that was deleted.
        let informer = self.context.control.existing(&resource);
        let Some(cached) = informer.and_then(|informer| informer.cache().get(&key)) else { return Ok(Next::Done) };
        // A cache that is behind has deleted templates; their bindings would be garbage collected, and recreated,
        // repeatedly.
        if self.context.live(&resource, &cached).await?.is_some() {
            self.templates.add(TemplateKey { resource, key, by_us: false });
        }
        Ok(Next::Done)
    }
}
