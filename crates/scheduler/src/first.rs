//! The first decision about a binding, before the binding exists: a creator in the same process writes the binding with
//! its result and its status.

use std::sync::Arc;

use apimachinery::Object;
use apimachinery::meta::Time;
use apimachinery::object::ObjectTree as _;
use karmada_api::identity::BindingKey;
use karmada_api::scope::Binding;
use scheduling::{Decision, ScheduleType, Snapshot, outcome};
use serde_json::Value;
use tokio::time::Instant;

use crate::estimates::{Answers, Known};
use crate::pass::{self, Plan};
use crate::peers::{self, Neighbours};
use crate::scheduler::Scheduler;
use crate::{triggers, writes};

/// The decision that a new binding is created with.
pub struct FirstDecision {
    scheduler: Scheduler,
    binding: Binding,
    decision: Decision,
    why: ScheduleType,
    started: Instant,
    patch: Value,
    snapshot: Arc<Snapshot>,
}

impl Scheduler {
    /// Decides about a binding that is about to be created. `None` where only a pass over the existing binding can
    /// decide or report: the scheduler is another one or does not run yet, no cluster fits, or the decision depends on
    /// answers of estimators, on bindings of the same group, or on a reservation.
    pub fn decide_first(&self, binding: &Binding) -> Option<FirstDecision> {
        let shared = &self.0;
        let (options, started) = (&shared.options, Instant::now());
        let is_grouped = options.gates.workload_affinity && peers::is_grouped(binding);
        let depends = is_grouped || options.overcommit_protection || options.estimators.is_some();
        if depends || !shared.is_deciding() || !triggers::is_decided_first(binding, &options.name) {
            return None;
        }
        let (answers, neighbours, moment) = (Answers::default(), Neighbours::default(), shared.world.moment());
        let now = Time::new(moment.now());
        let known = Known { answers: &answers, others: None };
        let snapshot = shared.snapshot();
        let plan = pass::plan(binding, &neighbours, &known, &snapshot, &options.gates, &shared.counted, &moment);
        let Plan::Decided { decision, record, fresh, why } = plan else { return None };
        let clusters = decision.clusters.as_ref().ok().filter(|clusters| !clusters.is_empty())?;
        let mut patch = writes::result(binding, binding.spec.placement.as_ref()?, clusters, record.as_deref())?;
        let outcome = outcome::outcome_of_writes(None, &[]);
        let verdict = pass::verdict(&outcome, &decision, true, fresh);
        let mut status = writes::status(binding, writes::generation_after(binding, &patch), &verdict, now)?;
        patch["status"] = status["status"].take();
        // There is no version yet that the patch could name.
        if let Some(metadata) = patch.metadata_mut() {
            metadata.remove("resourceVersion");
            metadata.remove("uid");
        }
        Some(FirstDecision {
            scheduler: self.clone(),
            binding: binding.clone(),
            decision,
            why,
            started,
            patch,
            snapshot,
        })
    }
}

impl FirstDecision {
    /// The result and the status as a merge patch of the new binding. It can be taken once.
    pub fn take_patch(&mut self) -> Value {
        self.patch.take()
    }

    /// Records the events and metrics of a pass for the created binding, which needs none unless a cluster changes.
    pub fn created(self, object: &Object) {
        let shared = &self.scheduler.0;
        shared.roster.lock().created(BindingKey::of(object), object.revision(), self.snapshot);
        shared.counted.attempt("scheduled", self.why.as_str(), self.started.elapsed());
        shared.journal.scheduled(&BindingKey::of(object), self.decision.result().unwrap_or_default());
        pass::record_events(shared, object, &self.binding, &self.decision, outcome::SUCCESS);
    }
}
