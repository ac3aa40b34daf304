//! Predicts the effect of policies on a template that is not applied yet.

use std::collections::HashMap;

use interpreter::Interpreter;
use karmada_api::Scope;
use karmada_api::policy::v1alpha1::PreemptionBehavior;
use karmada_api::scope::{Binding, Policy};
use karmada_api::work::v1alpha2::Component;
use propagation::binding::{self, Context};
use propagation::claim::claimed_by_metadata;
use propagation::selection;
use propagation::template::Template;
use serde_json::Value;

use crate::decide::Decision;
use crate::estimate::added;
use crate::problem::{Estimates, Gates, Problem};
use crate::report::Report;
use crate::snapshot::Snapshot;

/// The capacity that earlier decisions used.
#[derive(Clone, Debug, Default)]
pub struct Taken(HashMap<String, Vec<Vec<Component>>>);

impl Taken {
    /// Records the replicas a decision adds.
    pub fn take(&mut self, binding: &Binding, decision: &Decision) {
        let Ok(targets) = &decision.clusters else { return };
        let spec = &binding.spec;
        for target in targets {
            let ran = spec.clusters.iter().find(|old| old.name == target.name);
            let components = if spec.components.len() > 1 {
                if ran.is_none() { spec.components.clone() } else { Vec::new() }
            } else {
                added(spec, target.replicas.saturating_sub(ran.map_or(0, |old| old.replicas)))
            };
            if !components.is_empty() {
                self.0.entry(target.name.clone()).or_default().push(components);
            }
        }
    }
}

impl Estimates for Taken {
    fn at_most(&self, _: &str) -> Option<i64> {
        None
    }

    fn assumed(&self, cluster: &str) -> &[Vec<Component>] {
        self.0.get(cluster).map_or(&[], Vec::as_slice)
    }
}

/// Decides a binding after others. `None` without a placement.
pub fn after(taken: &mut Taken, binding: &Binding, snapshot: &Snapshot, gates: &Gates) -> Option<Report> {
    let problem = Problem::of(binding)?;
    let report = Report::of_problem(binding, &Problem { estimates: &*taken, ..problem }, snapshot, gates);
    taken.take(binding, &report.decision);
    Some(report)
}

/// The prediction for a template.
#[derive(Debug)]
pub enum Forecast {
    /// No policy selects it.
    Unclaimed,
    /// A policy selects it.
    Placed {
        /// The policy's kind and name.
        policy: String,
        /// The binding that would be created.
        binding: Box<Binding>,
        /// The decision about it.
        report: Box<Report>,
    },
    /// No binding can be built from it.
    Broken {
        /// The policy's kind and name.
        policy: String,
        /// Why there is no binding.
        error: binding::Error,
    },
}

/// The policy that a template gets. A template stays with the policy that has claimed it and still selects it, unless
/// another one preempts that. Otherwise, as at its creation, a PropagationPolicy takes precedence over every
/// ClusterPropagationPolicy.
fn applying<'a>(template: Template<'_>, policies: &'a [Policy], existing: Option<&Binding>) -> Option<&'a Policy> {
    let reaches = |it: &&Policy| it.scope == Scope::Cluster || it.metadata.namespace == template.namespace();
    let best = |admitted: &dyn Fn(&Policy) -> bool| {
        let of = |scope: Scope| {
            let candidates = policies.iter().filter(|it| it.scope == scope && admitted(it));
            selection::best(candidates.filter(reaches), template)
        };
        of(Scope::Namespaced).or_else(|| of(Scope::Cluster))
    };
    let claim = existing.and_then(|it| claimed_by_metadata(&it.metadata));
    let holds = |it: &Policy| claim.as_ref().is_some_and(|claim| it.scope == claim.scope() && it.key() == claim.policy);
    match best(&holds) {
        Some(holder) => {
            // A template is preempted by name only.
            let takes_over = |it: &Policy| {
                it.spec.preemption == Some(PreemptionBehavior::Always)
                    && selection::preempts(it, holder)
                    && selection::strongest(&it.spec.resource_selectors, template) == Some(selection::Strength::Name)
            };
            best(&takes_over).or(Some(holder))
        }
        None => best(&|_| true),
    }
}

/// `existing` is the template's binding, if there is one: its claim counts, and the decision starts from its result.
/// `taken` holds the earlier decisions, and this one is added to it. Policies with `preemption: Always` count as if the
/// gate `PropagationPolicyPreemption` were enabled.
pub fn forecast(
    template: &Value,
    policies: &[Policy],
    existing: Option<&Binding>,
    snapshot: &Snapshot,
    interpreter: &Interpreter,
    gates: &Gates,
    taken: &mut Taken,
) -> Forecast {
    let template = Template(template);
    let Some(policy) = applying(template, policies, existing) else { return Forecast::Unclaimed };
    let named = format!("{} {}", Policy::kind(policy.scope), policy.key());
    let context = Context { workload_affinity: gates.workload_affinity, ..Context::default() };
    let mut binding = match binding::build(policy, template, interpreter, &context) {
        Ok(binding) => binding,
        Err(error) => return Forecast::Broken { policy: named, error },
    };
    if let Some(existing) = existing {
        binding.spec.clusters.clone_from(&existing.spec.clusters);
        binding.spec.graceful_eviction_tasks.clone_from(&existing.spec.graceful_eviction_tasks);
        binding.status = existing.status.clone();
    }
    match after(taken, &binding, snapshot, gates) {
        Some(report) => Forecast::Placed { policy: named, binding: Box::new(binding), report: Box::new(report) },
        None => Forecast::Unclaimed,
    }
}
