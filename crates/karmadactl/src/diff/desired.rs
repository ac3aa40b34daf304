//! The desired objects of each cluster for a template, rendered as by the binding controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use interpreter::Interpreter;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::identity::{ClusterName, WorkKey};
use karmada_api::scope::{Binding, Override, Policy};
use karmada_api::work::v1alpha1::Work;
use propagation::namespaces;
use propagation::template::Template;
use propagation::works::{self, Inputs, expected_clusters};
use scheduling::forecast::{Forecast, Taken, forecast};
use scheduling::{Gates, Snapshot};
use serde_json::Value;

/// The inputs of rendering besides the template.
#[derive(Debug)]
pub struct RenderInputs {
    pub clusters: BTreeMap<ClusterName, Arc<Cluster>>,
    pub policies: Vec<Policy>,
    pub overrides: Vec<Override>,
    pub interpreter: Interpreter,
}

/// A template with its binding and Works.
#[derive(Clone, Debug)]
pub struct Source {
    pub template: Value,
    pub binding: Option<Binding>,
    /// The Works of the binding.
    pub works: Vec<Work>,
}

/// The desired copy for one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    pub cluster: String,
    /// `None`: the copy is to be removed.
    pub manifest: Option<Value>,
    /// The member has had this very manifest, so that only edits of it are undone.
    pub had: bool,
    pub suspended: bool,
}

/// The copies, and why some cannot be rendered.
#[derive(Debug, Default)]
pub struct Plan {
    pub copies: Vec<Copy>,
    pub errors: Vec<String>,
    /// Remarks for people.
    pub notes: Vec<String>,
}

/// `preview`: the template or a policy is not applied yet, so that policies are matched and clusters chosen again.
pub fn plan(source: &Source, around: &RenderInputs, preview: bool) -> Plan {
    let template = Template(&source.template);
    let mut plan = Plan::default();
    if template.kind() == "Namespace" && template.api_version() == "v1" {
        of_namespace(&mut plan, source, around);
        return plan;
    }
    let Some(binding) = binding(source, around, preview, &mut plan) else { return plan };
    let inputs = Inputs {
        interpreter: &around.interpreter,
        clusters: &around.clusters,
        overrides: &around.overrides,
        state_injection: false,
    };
    for rendered in works::render(&binding, template, inputs) {
        match rendered {
            Ok(rendered) => plan.add(&rendered.cluster, rendered.work, source),
            Err(error) => plan.errors.push(error.to_string()),
        }
    }
    let expected = expected_clusters(&binding.spec);
    for work in &source.works {
        let Ok(key) = WorkKey::of_work(work) else { continue };
        let cluster = key.cluster();
        let keeps = binding.spec.preserve_resources_on_deletion == Some(true);
        if !expected.contains(cluster) && !keeps {
            let gone = Copy { cluster: cluster.to_owned(), manifest: None, had: true, suspended: false };
            plan.copies.push(gone);
        }
    }
    plan
}

fn of_namespace(plan: &mut Plan, source: &Source, around: &RenderInputs) {
    let template = Template(&source.template);
    if !namespaces::is_propagated(template, |_| false) {
        plan.notes.push(format!("namespace {} is not propagated", template.name()));
        return;
    }
    for cluster in around.clusters.values() {
        match namespaces::work(template, cluster, &around.overrides) {
            Ok(work) => plan.add(&cluster.metadata.name, work, source),
            Err(error) => plan.errors.push(error.to_string()),
        }
    }
}

impl Plan {
    fn add(&mut self, cluster: &str, rendered: Work, source: &Source) {
        let suspended = rendered.spec.suspend_dispatching == Some(true);
        let existing = source.works.iter().find(|work| work.metadata.namespace == rendered.metadata.namespace);
        let (work, had) = match existing.map(|existing| works::merge(existing, rendered.clone())) {
            None => (rendered, false),
            Some(Ok(merged)) => {
                let existing = existing.filter(|_| merged.is_none());
                let had = existing.is_some_and(propagation::status::is_applied);
                (merged.or(existing.cloned()).unwrap_or(rendered), had)
            }
            Some(Err(error)) => return self.errors.push(format!("{cluster}: {error}")),
        };
        let manifest = work.spec.workload.manifests.first().map(karmada_api::raw::RawJson::to_value);
        match manifest {
            Some(Ok(manifest)) => {
                self.copies.push(Copy { cluster: cluster.to_owned(), manifest: Some(manifest), had, suspended });
            }
            Some(Err(error)) => self.errors.push(format!("{cluster}: {error}")),
            None => {}
        }
    }
}

/// The binding, existing or predicted.
fn binding(source: &Source, around: &RenderInputs, preview: bool, plan: &mut Plan) -> Option<Binding> {
    let template = Template(&source.template);
    let name = format!("{} {}", template.kind(), template.key());
    let existing = source.binding.as_ref();
    let follows = existing.is_some_and(|it| it.spec.placement.is_none() && !it.spec.required_by.is_empty());
    if !preview || follows {
        if existing.is_none() {
            plan.notes.push(format!("{name} has no binding: no policy has taken effect on it, and no member gets it"));
        }
        return existing.cloned();
    }
    let snapshot = Snapshot::of_clusters(around.clusters.values().cloned());
    let foreseen = forecast(
        &source.template,
        &around.policies,
        existing,
        &snapshot,
        &around.interpreter,
        &Gates::default(),
        &mut Taken::default(),
    );
    match foreseen {
        Forecast::Unclaimed => {
            plan.notes.push(format!("{name}: no policy selects it, and no member gets it"));
            None
        }
        Forecast::Broken { policy, error } => {
            plan.errors.push(format!("{name}: {policy}: {error}"));
            None
        }
        Forecast::Placed { mut binding, report, .. } => {
            if let Some(existing) = existing {
                binding.metadata.clone_from(&existing.metadata);
                binding.spec.required_by.clone_from(&existing.spec.required_by);
            }
            let stands = existing.is_some_and(|it| same_demand(it, &binding)) && !binding.spec.clusters.is_empty();
            if !stands {
                match report.decision.clusters {
                    Ok(clusters) => binding.spec.clusters = clusters,
                    Err(error) => plan.errors.push(format!("{name} cannot be scheduled: {error}")),
                }
            }
            Some(*binding)
        }
    }
}

/// Whether the scheduler keeps the result unchanged.
fn same_demand(existing: &Binding, new: &Binding) -> bool {
    existing.spec.placement == new.spec.placement && existing.spec.replicas == new.spec.replicas
}
