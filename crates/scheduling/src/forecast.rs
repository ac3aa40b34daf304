//! What a policy would do with a template that nobody has created yet.

use interpreter::Interpreter;
use karmada_api::scope::{Binding, Policy};
use propagation::binding::{self, Context};
use propagation::selection;
use propagation::template::Template;
use serde_json::Value;

use crate::problem::Gates;
use crate::report::Report;
use crate::snapshot::Snapshot;

/// What would become of a template.
#[derive(Debug)]
pub enum Forecast {
    /// No policy selects it.
    Unclaimed,
    Placed {
        policy: String,
        binding: Box<Binding>,
        report: Box<Report>,
    },
    /// No binding can be made of it.
    Broken {
        policy: String,
        error: binding::Error,
    },
}

/// A namespaced policy goes before every cluster policy, as when the template is created. `existing` is the template's
/// binding, if there is one: then its result is what the decision starts from.
pub fn forecast(
    template: &Value,
    policies: &[Policy],
    existing: Option<&Binding>,
    snapshot: &Snapshot,
    interpreter: &Interpreter,
    gates: &Gates,
) -> Forecast {
    let template = Template(template);
    let namespace = template.namespace();
    let own = policies.iter().filter(|it| !it.metadata.namespace.is_empty() && it.metadata.namespace == namespace);
    let everywhere = policies.iter().filter(|it| it.metadata.namespace.is_empty());
    let Some(policy) = selection::best(own, template).or_else(|| selection::best(everywhere, template)) else {
        return Forecast::Unclaimed;
    };
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
    match Report::of(&binding, snapshot, gates) {
        Some(report) => Forecast::Placed { policy: named, binding: Box::new(binding), report: Box::new(report) },
        None => Forecast::Unclaimed,
    }
}
