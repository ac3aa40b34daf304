//! From a scheduled binding to the Works of its clusters.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::ObjectKey;
use interpreter::{Interpreter, Operation};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{annotations, finalizers, labels};
use karmada_api::identity::{ClusterName, WorkKey};
use karmada_api::manifest::{metadata_map, prune_for_work, record_managed};
use karmada_api::names;
use karmada_api::policy::v1alpha1::{ConflictResolution, PurgeMode, ReplicaSchedulingType};
use karmada_api::raw::RawJson;
use karmada_api::scope::{Binding, Override};
use karmada_api::work::v1alpha1::{Work, WorkSpec, WorkloadTemplate};
use karmada_api::work::v1alpha2::{ResourceBindingSpec, TargetCluster};
use serde_json::{Value, json};

use crate::division::webster;
use crate::overrides::{self, AppliedOverrides};
use crate::server_side;
use crate::template::Template;

/// Why the Work of one cluster cannot be rendered; Works of other clusters are not affected.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum Error {
    #[error("cluster {0} of the binding does not exist")]
    NoCluster(ClusterName),
    #[error("revising the replicas for cluster {cluster}: {source}")]
    Replicas { cluster: ClusterName, source: interpreter::Error },
    #[error("no completions found for cluster {0}")]
    Completions(ClusterName),
    #[error(transparent)]
    Override(#[from] overrides::Error),
    #[error("work {0} is being deleted")]
    Deleting(ObjectKey),
    #[error("encoding the work for cluster {cluster}: {source}")]
    Encode { cluster: ClusterName, source: serde_json::Error },
    #[error("encoding the manifest of work {work}: {source}")]
    Manifest { work: ObjectKey, source: serde_json::Error },
}

impl Error {
    /// The cluster without a Work, if a user must correct a template, a policy or a customization.
    pub fn uncorrected(&self) -> Option<&ClusterName> {
        match self {
            Self::Replicas { cluster, .. } | Self::Completions(cluster) | Self::Encode { cluster, .. } => Some(cluster),
            Self::Override(error) => Some(&error.cluster),
            // These pass by themselves.
            Self::NoCluster(_) | Self::Deleting(_) | Self::Manifest { .. } => None,
        }
    }
}

/// The clusters that get a Work, in order: the scheduler's, then those of bindings that depend on this one.
pub fn targets(spec: &ResourceBindingSpec) -> Vec<TargetCluster> {
    let mut seen = BTreeSet::new();
    let dependents = spec.required_by.iter().flat_map(|snapshot| &snapshot.clusters);
    spec.clusters.iter().chain(dependents).filter(|target| seen.insert(target.name.as_str())).cloned().collect()
}

/// The clusters whose Works stay: the targets, and those with evictions other than `Directly`.
pub fn expected_clusters(spec: &ResourceBindingSpec) -> BTreeSet<&str> {
    let dependents = spec.required_by.iter().flat_map(|snapshot| &snapshot.clusters);
    let leaving = spec
        .graceful_eviction_tasks
        .iter()
        .filter(|task| task.purge_mode != Some(PurgeMode::Directly))
        .map(|task| task.from_cluster.as_str());
    spec.clusters.iter().chain(dependents).map(|target| target.name.as_str()).chain(leaving).collect()
}

/// The orphaned Works of a binding (by key), which are to be deleted.
pub fn orphans<'a>(spec: &ResourceBindingSpec, works: impl IntoIterator<Item = &'a WorkKey>) -> Vec<&'a WorkKey> {
    let expected = expected_clusters(spec);
    works.into_iter().filter(|work| !expected.contains(work.cluster())).collect()
}

/// Whether a Work is to be deleted, because its cluster has one of another object now: an override changed the name.
/// `rendered` are the Works of all clusters that are not suspended.
pub fn is_replaced(work: &Work, rendered: &[WorkKey]) -> bool {
    let Ok(key) = WorkKey::of_work(work) else { return false };
    let mut here = rendered.iter().filter(|it| it.cluster() == key.cluster()).peekable();
    if here.peek().is_none() || here.any(|it| *it == key) {
        return false;
    }
    // A Work whose name is not derived from its object may be of the same object as the rendered one.
    let manifest = work.spec.workload.manifests.first().and_then(|manifest| manifest.to_value().ok());
    manifest.is_some_and(|manifest| {
        let object = Template(&manifest);
        names::work_name(object.kind(), object.name(), object.namespace()) == work.metadata.name
    })
}

/// Whether Works must wait: an old copy that is purged directly is still there.
pub fn waits_for_purge<'a>(spec: &ResourceBindingSpec, works: impl IntoIterator<Item = &'a WorkKey>) -> bool {
    let leaving: BTreeSet<&str> = spec
        .graceful_eviction_tasks
        .iter()
        .filter(|task| task.purge_mode == Some(PurgeMode::Directly))
        .map(|task| task.from_cluster.as_str())
        .collect();
    !leaving.is_empty() && works.into_iter().any(|work| leaving.contains(work.cluster()))
}

/// All that rendering needs besides the binding and the template.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The interpreter of kinds.
    pub interpreter: &'a Interpreter,
    /// By name; every target should be here.
    pub clusters: &'a BTreeMap<ClusterName, std::sync::Arc<Cluster>>,
    /// Override policies of the template's namespace and of the cluster scope.
    pub overrides: &'a [Override],
    /// Whether a copy that takes over from a failed one gets that one's state (gate StatefulFailoverInjection).
    pub state_injection: bool,
}

/// A Work to write, and the applied overrides (for events).
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The cluster.
    pub cluster: ClusterName,
    /// Without the permanent ids that admission adds; see [`merge`].
    pub work: Work,
    /// The overrides that were applied.
    pub applied: AppliedOverrides,
}

/// Renders the Work of every target. A target that fails does not stop the others. A cluster that does not exist any more
/// is no target where only dependents name it.
pub fn render(binding: &Binding, template: Template<'_>, inputs: Inputs<'_>) -> Vec<Result<Rendered, Error>> {
    let mut targets = targets(&binding.spec);
    targets.retain(|target| {
        let name = target.name.as_str();
        inputs.clusters.contains_key(name) || binding.spec.clusters.iter().any(|own| own.name == name)
    });
    let completions = completions(binding, template, &targets);
    // Preserved state is of one copy, and is passed to one.
    let inputs = Inputs { state_injection: inputs.state_injection && targets.len() <= 1, ..inputs };
    targets.iter().map(|target| render_one(binding, template, target, &completions, inputs)).collect()
}

/// How the completions of a divided Job fall to its clusters; empty where they are not divided.
fn completions(binding: &Binding, template: Template<'_>, targets: &[TargetCluster]) -> BTreeMap<String, i64> {
    let placement = binding.spec.placement.as_ref();
    let strategy = placement.and_then(|placement| placement.replica_scheduling.as_ref());
    let divided =
        strategy.and_then(|strategy| strategy.replica_scheduling_type) == Some(ReplicaSchedulingType::Divided);
    let total_completions = template.0["spec"]["completions"].as_i64();
    match total_completions {
        Some(total_completions) if template.kind() == "Job" && binding.spec.replicas > 0 && divided => {
            let votes: Vec<(&str, i64)> =
                targets.iter().map(|target| (target.name.as_str(), i64::from(target.replicas))).collect();
            webster(total_completions, &votes, template.uid())
        }
        _ => BTreeMap::new(),
    }
}

fn render_one(
    binding: &Binding,
    template: Template<'_>,
    target: &TargetCluster,
    completions: &BTreeMap<String, i64>,
    inputs: Inputs<'_>,
) -> Result<Rendered, Error> {
    let known = inputs.clusters.get_key_value(target.name.as_str());
    let (name, cluster) = known.ok_or_else(|| Error::NoCluster(ClusterName::from(&target.name)))?;
    let mut object = template.0.clone();
    if binding.is_workload() && inputs.interpreter.enabled_for(&object, Operation::ReviseReplica) {
        inputs
            .interpreter
            .revise_replica(&mut object, target.replicas)
            .map_err(|source| Error::Replicas { cluster: name.clone(), source })?;
    }
    if !completions.is_empty() {
        let share = completions.get(&target.name).ok_or_else(|| Error::Completions(name.clone()))?;
        object["spec"]["completions"] = json!(share);
    }
    let applied = overrides::apply(inputs.overrides, cluster, &mut object)?;
    if inputs.state_injection {
        inject_preserved_state(binding, target, &mut object);
    }

    let id_label = binding.scope.binding_id_label();
    let metadata = WorkMetadata {
        labels: BTreeMap::from([(id_label.to_owned(), binding.permanent_id().to_owned())]),
        annotations: binding_reference(binding),
        conflict_resolution: Some(conflict_resolution(binding, Template(&object))),
        applied: &applied,
    };
    metadata_map(&mut object, "labels").insert(id_label.to_owned(), json!(binding.permanent_id()));
    let on_manifest = metadata_map(&mut object, "annotations");
    on_manifest.extend(metadata.annotations.iter().map(|(key, value)| (key.clone(), json!(value))));
    if template.generation() > 0 {
        let generation = template.generation().to_string();
        on_manifest.insert(annotations::TEMPLATE_GENERATION.to_owned(), json!(generation));
    }
    let suspended = suspended(&binding.spec, &target.name);
    let preserve = binding.spec.preserve_resources_on_deletion.unwrap_or_default();
    let mut work = work(name, object, metadata).map_err(|source| Error::Encode { cluster: name.clone(), source })?;
    server_side::carry(&binding.metadata.annotations, &mut work.metadata.annotations);
    work.spec.suspend_dispatching = Some(suspended);
    work.spec.preserve_resources_on_deletion = Some(preserve);
    Ok(Rendered { cluster: name.clone(), work, applied })
}

/// Labels preserved from the copy that left last, for the one cluster that replaces it. A cluster that already had a
/// copy has its own, newer state.
fn inject_preserved_state(binding: &Binding, target: &TargetCluster, object: &mut Value) {
    let Some(task) = binding.spec.graceful_eviction_tasks.last() else { return };
    let takes_over = !task.clusters_before_failover.contains(&target.name);
    if takes_over && !task.preserved_label_state.is_empty() {
        let state = task.preserved_label_state.iter().map(|(key, value)| (key.clone(), json!(value)));
        metadata_map(object, "labels").extend(state);
    }
}

/// The annotations by which a Work and its manifest name their binding.
pub fn binding_reference(binding: &Binding) -> BTreeMap<String, String> {
    let mut reference = BTreeMap::new();
    reference.insert(binding.scope.binding_name_annotation().to_owned(), binding.metadata.name.clone());
    if let Some(key) = binding.scope.binding_namespace_annotation() {
        reference.insert(key.to_owned(), binding.metadata.namespace.clone());
    }
    reference
}

/// A valid annotation of the object takes precedence over the policy. Overrides may have set it, for one cluster.
fn conflict_resolution(binding: &Binding, object: Template<'_>) -> &'static str {
    match (object.annotation(annotations::CONFLICT_RESOLUTION), binding.spec.conflict_resolution) {
        (Some("overwrite"), _) => "overwrite",
        (Some("abort"), _) => "abort",
        (_, Some(ConflictResolution::Overwrite)) => "overwrite",
        _ => "abort",
    }
}

fn suspended(spec: &ResourceBindingSpec, cluster: &str) -> bool {
    let Some(suspension) = &spec.suspension else { return false };
    let here = suspension.dispatching_on_clusters.as_ref();
    suspension.dispatching == Some(true)
        || here.is_some_and(|clusters| clusters.cluster_names.iter().any(|name| name == cluster))
}

/// The metadata of a Work.
#[derive(Clone, Debug)]
pub struct WorkMetadata<'a> {
    /// The Work's labels.
    pub labels: BTreeMap<String, String>,
    /// The Work's annotations.
    pub annotations: BTreeMap<String, String>,
    /// `None` where the manifest is not subject to conflict resolution (namespaces).
    pub conflict_resolution: Option<&'static str>,
    /// The applied overrides, recorded in annotations.
    pub applied: &'a AppliedOverrides,
}

/// The Work for one manifest in one cluster. The manifest is prepared as by the admission of Works, without the
/// permanent id, which is known only once the Work has one: see [`merge`].
///
/// # Errors
/// When the manifest or the record of its overrides cannot be encoded.
pub fn work(cluster: &ClusterName, mut object: Value, metadata: WorkMetadata<'_>) -> Result<Work, serde_json::Error> {
    let namespace = cluster.execution_namespace();
    let (kind, name, uid, object_namespace) = {
        let template = Template(&object);
        (
            template.kind().to_owned(),
            template.name().to_owned(),
            template.uid().to_owned(),
            template.namespace().to_owned(),
        )
    };
    let name = names::work_name(&kind, &name, &object_namespace);
    metadata_map(&mut object, "labels").insert(labels::MANAGED.to_owned(), json!("true"));
    let on_manifest = metadata_map(&mut object, "annotations");
    on_manifest.insert(annotations::TEMPLATE_UID.to_owned(), json!(uid));
    on_manifest.insert(annotations::WORK_NAME.to_owned(), json!(name));
    on_manifest.insert(annotations::WORK_NAMESPACE.to_owned(), json!(namespace));
    if let Some(resolution) = metadata.conflict_resolution {
        on_manifest.insert(annotations::CONFLICT_RESOLUTION.to_owned(), json!(resolution));
    }
    prune_for_work(&mut object);
    record_managed(&mut object, "");

    let mut work = Work::named(&ObjectKey::namespaced(namespace, name));
    work.metadata.labels = metadata.labels;
    work.metadata.annotations = metadata.annotations;
    if let Some(resolution) = metadata.conflict_resolution {
        work.metadata.annotations.insert(annotations::CONFLICT_RESOLUTION.to_owned(), resolution.to_owned());
    }
    for (scope, applied) in metadata.applied {
        let record = serde_json::to_string(applied)?;
        work.metadata.annotations.insert(scope.applied_overrides_annotation().to_owned(), record);
    }
    work.metadata.finalizers = vec![finalizers::EXECUTION.to_owned()];
    work.spec = WorkSpec {
        workload: WorkloadTemplate { manifests: vec![RawJson::from_value(&object)] },
        ..WorkSpec::default()
    };
    Ok(work)
}

/// Updates the existing Work to the rendered one; `None` if it is unchanged. Labels and annotations are added, never
/// removed (except the one of [`server_side`]); the manifest gets the Work's permanent id.
///
/// # Errors
/// `Deleting` when the existing Work is being deleted, `Manifest` when its manifest cannot be encoded.
pub fn merge(existing: &Work, rendered: Work) -> Result<Option<Work>, Error> {
    if existing.metadata.deletion_timestamp.is_some() {
        return Err(Error::Deleting(existing.key()));
    }
    let mut merged = existing.clone();
    merged.metadata.labels.extend(rendered.metadata.labels);
    server_side::carry(&rendered.metadata.annotations, &mut merged.metadata.annotations);
    merged.metadata.annotations.extend(rendered.metadata.annotations);
    merged.metadata.finalizers.extend(rendered.metadata.finalizers);
    merged.metadata.finalizers.sort();
    merged.metadata.finalizers.dedup();
    for owner in rendered.metadata.owner_references {
        if !merged.metadata.owner_references.contains(&owner) {
            merged.metadata.owner_references.push(owner);
        }
    }
    merged.spec = rendered.spec;
    let id = merged.metadata.labels.get(labels::WORK_ID).map_or("", String::as_str);
    for manifest in &mut merged.spec.workload.manifests {
        let encode = |source| Error::Manifest { work: existing.key(), source };
        let mut object = manifest.to_value().map_err(encode)?;
        record_managed(&mut object, id);
        *manifest = RawJson::from_value(&object);
    }
    Ok((merged != *existing).then_some(merged))
}

#[cfg(test)]
mod tests;
