//! From a scheduled binding to the Works of its clusters.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::ObjectKey;
use interpreter::{Interpreter, Operation};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{annotations, finalizers, labels};
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

/// Why the Work of one cluster cannot be made; the Works of the others can.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cluster {0} of the binding does not exist")]
    NoCluster(String),
    #[error("revising the replicas for cluster {cluster}: {source}")]
    Replicas { cluster: String, source: interpreter::Error },
    #[error("no completions found for cluster {0}")]
    Completions(String),
    #[error(transparent)]
    Override(#[from] overrides::Error),
    #[error("work {0} is being deleted")]
    Deleting(ObjectKey),
    #[error("encoding the work for cluster {cluster}: {source}")]
    Encode { cluster: String, source: serde_json::Error },
}

impl Error {
    /// The cluster that goes without, where something has to be corrected: a template, a policy or a customization.
    pub fn uncorrected(&self) -> Option<&str> {
        match self {
            Self::Replicas { cluster, .. } | Self::Completions(cluster) | Self::Encode { cluster, .. } => Some(cluster),
            Self::Override(error) => Some(&error.cluster),
            // These pass by themselves.
            Self::NoCluster(_) | Self::Deleting(_) => None,
        }
    }
}

/// The clusters that get a Work, in order: the scheduler's, then those of bindings that depend on this one.
pub fn targets(spec: &ResourceBindingSpec) -> Vec<TargetCluster> {
    let mut seen = BTreeSet::new();
    let dependents = spec.required_by.iter().flat_map(|snapshot| &snapshot.clusters);
    spec.clusters.iter().chain(dependents).filter(|target| seen.insert(target.name.as_str())).cloned().collect()
}

/// The clusters whose Works stay: the targets, and those being left other than directly.
pub fn expected_clusters(spec: &ResourceBindingSpec) -> BTreeSet<&str> {
    let dependents = spec.required_by.iter().flat_map(|snapshot| &snapshot.clusters);
    let leaving = spec
        .graceful_eviction_tasks
        .iter()
        .filter(|task| task.purge_mode != Some(PurgeMode::Directly))
        .map(|task| task.from_cluster.as_str());
    spec.clusters.iter().chain(dependents).map(|target| target.name.as_str()).chain(leaving).collect()
}

/// Which of a binding's Works (by key) are to be deleted. The error names a Work outside any execution namespace.
pub fn orphans<'a>(
    spec: &ResourceBindingSpec,
    works: impl IntoIterator<Item = &'a ObjectKey>,
) -> Result<Vec<&'a ObjectKey>, String> {
    let expected = expected_clusters(spec);
    let mut orphans = Vec::new();
    for work in works {
        let cluster = work.namespace().and_then(names::cluster_of_namespace);
        let cluster = cluster.ok_or_else(|| format!("work {work} is not in an execution namespace"))?;
        if !expected.contains(cluster) {
            orphans.push(work);
        }
    }
    Ok(orphans)
}

/// Whether Works must wait: an old copy that is purged directly is still there.
pub fn waits_for_purge<'a>(spec: &ResourceBindingSpec, works: impl IntoIterator<Item = &'a ObjectKey>) -> bool {
    let leaving: BTreeSet<&str> = spec
        .graceful_eviction_tasks
        .iter()
        .filter(|task| task.purge_mode == Some(PurgeMode::Directly))
        .map(|task| task.from_cluster.as_str())
        .collect();
    let mut clusters = works.into_iter().filter_map(|work| work.namespace().and_then(names::cluster_of_namespace));
    !leaving.is_empty() && clusters.any(|cluster| leaving.contains(cluster))
}

/// All that rendering needs besides the binding and the template.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    pub interpreter: &'a Interpreter,
    /// By name; every target should be here.
    pub clusters: &'a BTreeMap<String, std::sync::Arc<Cluster>>,
    /// Override policies of the template's namespace and of the cluster scope.
    pub overrides: &'a [Override],
    /// Whether a copy that takes over from a failed one gets that one's state (gate StatefulFailoverInjection).
    pub state_injection: bool,
}

/// A Work to be written, and what was applied to make it (for events).
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    pub cluster: String,
    /// Without the permanent ids that admission adds; see [`merge`].
    pub work: Work,
    pub applied: AppliedOverrides,
}

/// Renders the Work of every target. A target that fails does not stop the others.
pub fn render(binding: &Binding, template: Template<'_>, inputs: Inputs<'_>) -> Vec<Result<Rendered, Error>> {
    let targets = targets(&binding.spec);
    let completions = completions(binding, template, &targets);
    // A state is of one copy, and goes to one.
    let inputs = Inputs { state_injection: inputs.state_injection && targets.len() <= 1, ..inputs };
    targets.iter().map(|target| render_one(binding, template, target, &completions, inputs)).collect()
}

/// How the completions of a divided Job fall to its clusters; empty where they are not divided.
fn completions(binding: &Binding, template: Template<'_>, targets: &[TargetCluster]) -> BTreeMap<String, i64> {
    let placement = binding.spec.placement.as_ref();
    let strategy = placement.and_then(|placement| placement.replica_scheduling.as_ref());
    let divided =
        strategy.and_then(|strategy| strategy.replica_scheduling_type) == Some(ReplicaSchedulingType::Divided);
    let wanted = template.0["spec"]["completions"].as_i64();
    match wanted {
        Some(wanted) if template.kind() == "Job" && binding.spec.replicas > 0 && divided => {
            let votes: Vec<(&str, i64)> =
                targets.iter().map(|target| (target.name.as_str(), i64::from(target.replicas))).collect();
            webster(wanted, &votes, template.uid())
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
    let cluster = inputs.clusters.get(&target.name).ok_or_else(|| Error::NoCluster(target.name.clone()))?;
    let mut object = template.0.clone();
    if binding.is_workload() && inputs.interpreter.enabled_for(&object, Operation::ReviseReplica) {
        inputs
            .interpreter
            .revise_replica(&mut object, target.replicas)
            .map_err(|source| Error::Replicas { cluster: target.name.clone(), source })?;
    }
    if !completions.is_empty() {
        let share = completions.get(&target.name).ok_or_else(|| Error::Completions(target.name.clone()))?;
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
    let mut work = work(&target.name, object, &metadata)
        .map_err(|source| Error::Encode { cluster: target.name.clone(), source })?;
    server_side::carry(&binding.metadata.annotations, &mut work.metadata.annotations);
    work.spec.suspend_dispatching = Some(suspended);
    work.spec.preserve_resources_on_deletion = Some(preserve);
    Ok(Rendered { cluster: target.name.clone(), work, applied })
}

/// Labels kept from the copy that left last, for the one cluster that takes over. A cluster that had a copy before has a
/// newer state of its own.
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

/// The object's own word, if it is one of the two, goes before the policy's. Overrides may have put it there, for one cluster.
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

/// What goes into a Work's metadata.
#[derive(Clone, Debug)]
pub struct WorkMetadata<'a> {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// `None` where the manifest is not subject to conflict resolution (namespaces).
    pub conflict_resolution: Option<&'static str>,
    pub applied: &'a AppliedOverrides,
}

/// The Work for one manifest in one cluster. The manifest is prepared as the admission of Works does it, without the
/// permanent id, which is known only once the Work has one: see [`merge`].
pub fn work(cluster: &str, mut object: Value, metadata: &WorkMetadata<'_>) -> Result<Work, serde_json::Error> {
    let namespace = names::execution_namespace(cluster);
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
    work.metadata.labels.clone_from(&metadata.labels);
    work.metadata.annotations.clone_from(&metadata.annotations);
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

/// The existing Work brought up to the rendered one; `None` when nothing changes. Labels and annotations are added,
/// never taken away (but the one of [`server_side`]); the manifest gets the Work's permanent id.
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
        let encode = |source| Error::Encode { cluster: existing.metadata.namespace.clone(), source };
        let mut object = manifest.to_value().map_err(encode)?;
        record_managed(&mut object, id);
        *manifest = RawJson::from_value(&object);
    }
    Ok((merged != *existing).then_some(merged))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn clusters() -> BTreeMap<String, Arc<Cluster>> {
        ["m1", "m2"].map(|name| (name.to_owned(), Arc::new(Cluster::named(&ObjectKey::cluster(name))))).into()
    }

    fn binding(spec: Value) -> Binding {
        let mut binding = Binding::named(&ObjectKey::namespaced("default", "nginx-deployment"));
        binding.metadata.labels.insert(labels::BINDING_ID.to_owned(), "rb-id".to_owned());
        binding.spec = serde_json::from_value(spec).unwrap();
        binding
    }

    fn deployment() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "nginx", "namespace": "default", "uid": "u1", "generation": 2, "resourceVersion": "5"},
            "spec": {"replicas": 3}, "status": {"replicas": 9},
        })
    }

    fn rendered(binding: &Binding, template: &Value) -> Vec<Result<Rendered, Error>> {
        let (interpreter, clusters) = (Interpreter::default(), clusters());
        let inputs = Inputs { interpreter: &interpreter, clusters: &clusters, overrides: &[], state_injection: true };
        render(binding, Template(template), inputs)
    }

    #[test]
    fn a_work_for_each_target() {
        let binding = binding(json!({
            "replicas": 3, "clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 2}],
            "suspension": {"dispatchingOnClusters": {"clusterNames": ["m1"]}},
        }));
        let works = rendered(&binding, &deployment());
        let work = &works[1].as_ref().unwrap().work;
        assert_eq!(work.key().to_string(), "karmada-es-m2/nginx-687f7fb96f");
        assert_eq!(work.metadata.labels, BTreeMap::from([(labels::BINDING_ID.to_owned(), "rb-id".to_owned())]));
        assert_eq!(work.spec.suspend_dispatching, Some(false));
        assert_eq!(works[0].as_ref().unwrap().work.spec.suspend_dispatching, Some(true));
        let manifest = work.spec.workload.manifests[0].to_value().unwrap();
        assert_eq!(manifest["spec"]["replicas"], 2);
        assert!(manifest.get("status").is_none() && manifest["metadata"].get("uid").is_none());
        assert_eq!(
            manifest["metadata"]["annotations"],
            json!({
                "resourcebinding.karmada.io/name": "nginx-deployment",
                "resourcebinding.karmada.io/namespace": "default",
                "resourcetemplate.karmada.io/generation": "2",
                "resourcetemplate.karmada.io/managed-annotations": "resourcebinding.karmada.io/name,resourcebinding.karmada.io/namespace,resourcetemplate.karmada.io/generation,resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels,resourcetemplate.karmada.io/uid,work.karmada.io/conflict-resolution,work.karmada.io/name,work.karmada.io/namespace",
                "resourcetemplate.karmada.io/managed-labels": "karmada.io/managed,resourcebinding.karmada.io/permanent-id",
                "resourcetemplate.karmada.io/uid": "u1",
                "work.karmada.io/conflict-resolution": "abort",
                "work.karmada.io/name": "nginx-687f7fb96f",
                "work.karmada.io/namespace": "karmada-es-m2",
            })
        );
    }

    #[test]
    fn a_stored_work_is_written_once() {
        let binding = binding(json!({"replicas": 1, "clusters": [{"name": "m1", "replicas": 1}]}));
        let work = rendered(&binding, &deployment()).remove(0).unwrap().work;
        // What admission does on create.
        let mut stored = work.clone();
        stored.metadata.labels.insert(labels::WORK_ID.to_owned(), "w1".to_owned());
        let mut manifest = stored.spec.workload.manifests[0].to_value().unwrap();
        karmada_api::manifest::prepare(&mut manifest, "w1");
        stored.spec.workload.manifests = vec![RawJson::from_value(&manifest)];
        assert_eq!(merge(&stored, work.clone()).unwrap(), None);

        let mut more = deployment();
        more["spec"]["paused"] = json!(true);
        let merged = merge(&stored, rendered(&binding, &more).remove(0).unwrap().work).unwrap().unwrap();
        let prepared = merged.spec.workload.manifests[0].get().to_owned();
        let mut again = merged.spec.workload.manifests[0].to_value().unwrap();
        karmada_api::manifest::prepare(&mut again, "w1");
        assert_eq!(RawJson::from_value(&again).get(), prepared, "admission changes no byte");

        stored.metadata.deletion_timestamp =
            Some(apimachinery::meta::Time::new("2026-01-01T00:00:00Z".parse().unwrap()));
        assert!(matches!(merge(&stored, work), Err(Error::Deleting(_))));
    }

    #[test]
    fn completions_are_divided() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
            "spec": {"completions": 6, "parallelism": 3}});
        let binding = binding(json!({
            "replicas": 3, "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}},
            "clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 2}],
        }));
        let specs: Vec<Value> = rendered(&binding, &job)
            .into_iter()
            .map(|it| it.unwrap().work.spec.workload.manifests[0].to_value().unwrap()["spec"].clone())
            .collect();
        assert_eq!(specs[0], json!({"completions": 2, "parallelism": 1}));
        assert_eq!(specs[1], json!({"completions": 4, "parallelism": 2}));
    }

    #[test]
    fn kept_labels_go_to_the_one_copy_that_takes_over() {
        let task = |purge: &str, before: Value| {
            json!({"fromCluster": "m9", "purgeMode": purge, "clustersBeforeFailover": before,
                "preservedLabelState": {"kept": "3"}})
        };
        let later = json!({"fromCluster": "m8", "purgeMode": "Never"});
        let (direct, required) =
            (task("Directly", json!(["m9"])), json!([{"name": "x", "clusters": [{"name": "m2"}]}]));
        for (clusters, required_by, tasks, expected) in [
            (json!([{"name": "m1"}]), json!([]), vec![direct.clone()], json!("3")),
            (json!([{"name": "m1"}]), json!([]), vec![task("Directly", Value::Null)], json!("3")),
            (json!([{"name": "m1"}]), json!([]), vec![task("Directly", json!(["m1"]))], Value::Null),
            (json!([{"name": "m1"}]), json!([]), vec![task("Gracefully", json!([]))], json!("3")),
            (json!([{"name": "m1"}]), json!([]), vec![task("Never", json!(["m9"]))], json!("3")),
            (json!([{"name": "m1"}]), json!([]), vec![task("Gracefully", json!(["m1"]))], Value::Null),
            (json!([{"name": "m1"}]), json!([]), vec![direct.clone(), later], Value::Null),
            (json!([{"name": "m1"}, {"name": "m2"}]), json!([]), vec![direct.clone()], Value::Null),
            (json!([{"name": "m1"}]), required, vec![direct], Value::Null),
        ] {
            let spec = json!({"clusters": clusters, "requiredBy": required_by, "gracefulEvictionTasks": tasks});
            let work = rendered(&binding(spec.clone()), &deployment()).remove(0).unwrap().work;
            let manifest = work.spec.workload.manifests[0].to_value().unwrap();
            assert_eq!(manifest["metadata"]["labels"]["kept"], expected, "{spec}");
        }
    }

    /// The schedule has the last word on replicas, but for overrides; what is no workload goes as it is.
    #[test]
    fn replicas_are_those_of_the_schedule() {
        for (spec, expected) in [
            (json!({"replicas": 3, "clusters": [{"name": "m1", "replicas": 5}]}), 5),
            (json!({"replicaRequirements": {}, "clusters": [{"name": "m1"}]}), 0),
            (json!({"components": [{"name": "a", "replicas": 1}], "clusters": [{"name": "m1", "replicas": 2}]}), 2),
            (json!({"clusters": [{"name": "m1", "replicas": 5}]}), 3),
            (json!({"requiredBy": [{"name": "x", "clusters": [{"name": "m1", "replicas": 5}]}]}), 3),
        ] {
            let work = rendered(&binding(spec.clone()), &deployment()).remove(0).unwrap().work;
            assert_eq!(work.spec.workload.manifests[0].to_value().unwrap()["spec"]["replicas"], expected, "{spec}");
        }
    }

    #[test]
    fn whose_word_on_conflicts_counts() {
        for (template, policy, expected) in [
            (Value::Null, Value::Null, "abort"),
            (Value::Null, json!("Abort"), "abort"),
            (Value::Null, json!("Overwrite"), "overwrite"),
            (json!("abort"), json!("Overwrite"), "abort"),
            (json!("overwrite"), json!("Abort"), "overwrite"),
            (json!("Overwrite"), json!("Abort"), "abort"),
            (json!("other"), json!("Overwrite"), "overwrite"),
        ] {
            let mut object = deployment();
            object["metadata"]["annotations"] = json!({"work.karmada.io/conflict-resolution": template});
            let binding = binding(json!({"conflictResolution": policy, "clusters": [{"name": "m1"}]}));
            let work = rendered(&binding, &object).remove(0).unwrap().work;
            let manifest = work.spec.workload.manifests[0].to_value().unwrap();
            let key = "work.karmada.io/conflict-resolution";
            assert_eq!(work.metadata.annotations[key], expected, "{template} {policy}");
            assert_eq!(manifest["metadata"]["annotations"][key], expected, "{template} {policy}");
        }
    }

    #[test]
    fn an_override_settles_conflicts_for_one_cluster() {
        let mut policy = Override::named(&ObjectKey::namespaced("default", "p"));
        policy.spec = serde_json::from_value(json!({"overrideRules": [{"targetCluster": {"clusterNames": ["m1"]},
            "overriders": {"annotationsOverrider": [{"operator": "add",
                "value": {"work.karmada.io/conflict-resolution": "overwrite"}}]}}]}))
        .unwrap();
        let (interpreter, clusters) = (Interpreter::default(), clusters());
        let inputs =
            Inputs { interpreter: &interpreter, clusters: &clusters, overrides: &[policy], state_injection: false };
        let binding = binding(json!({"clusters": [{"name": "m1"}, {"name": "m2"}]}));
        let words = render(&binding, Template(&deployment()), inputs).into_iter().map(|rendered| {
            let work = rendered.unwrap().work;
            let manifest = work.spec.workload.manifests[0].to_value().unwrap();
            let on_manifest = manifest["metadata"]["annotations"][annotations::CONFLICT_RESOLUTION].clone();
            (json!(work.metadata.annotations[annotations::CONFLICT_RESOLUTION]), on_manifest)
        });
        let both = |word: &str| (json!(word), json!(word));
        assert_eq!(words.collect::<Vec<_>>(), [both("overwrite"), both("abort")]);
    }

    #[test]
    fn who_stays_and_who_goes() {
        let binding = binding(json!({
            "clusters": [{"name": "m1"}],
            "requiredBy": [{"name": "other", "clusters": [{"name": "m2", "replicas": 7}, {"name": "m1", "replicas": 9}]}],
            "gracefulEvictionTasks": [{"fromCluster": "m3", "purgeMode": "Gracefully"}, {"fromCluster": "m4", "purgeMode": "Directly"}],
        }));
        let names: Vec<(String, i32)> =
            targets(&binding.spec).into_iter().map(|target| (target.name, target.replicas)).collect();
        assert_eq!(names, [("m1".to_owned(), 0), ("m2".to_owned(), 7)]);
        let works: Vec<ObjectKey> =
            ["m1", "m3", "m4", "m5"].iter().map(|c| ObjectKey::namespaced(format!("karmada-es-{c}"), "w")).collect();
        let gone: Vec<String> = orphans(&binding.spec, &works).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(gone, ["karmada-es-m4/w", "karmada-es-m5/w"]);
        assert!(waits_for_purge(&binding.spec, &works));
        assert!(!waits_for_purge(&binding.spec, &works[..2]));
        assert!(orphans(&binding.spec, &[ObjectKey::namespaced("default", "w")]).is_err());
        let failed = rendered(&self::binding(json!({"clusters": [{"name": "gone"}, {"name": "m1"}]})), &deployment());
        assert!(failed[0].is_err() && failed[1].is_ok());
    }

    #[test]
    fn which_completions_are_divided() {
        let job = |kind: &str| {
            json!({"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "j", "namespace": "default"},
                "spec": {"completions": 6, "parallelism": 3}})
        };
        let spec = |replicas: i32, type_: &str| {
            json!({"replicas": replicas, "placement": {"replicaScheduling": {"replicaSchedulingType": type_}},
                "clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 2}]})
        };
        for (kind, spec, expected) in [
            ("Job", spec(3, "Divided"), 2),
            ("Job", spec(3, "Duplicated"), 6),
            ("Job", spec(0, "Divided"), 6),
            ("Task", spec(3, "Divided"), 6),
            ("Job", json!({"replicas": 3, "clusters": [{"name": "m1", "replicas": 1}]}), 6),
        ] {
            let work = rendered(&binding(spec.clone()), &job(kind)).remove(0).unwrap().work;
            let manifest = work.spec.workload.manifests[0].to_value().unwrap();
            assert_eq!(manifest["spec"]["completions"], expected, "{kind} {spec}");
        }
    }

    #[test]
    fn what_a_work_is_told_besides_its_manifest() {
        for (preserve, expected) in [(Value::Null, false), (json!(false), false), (json!(true), true)] {
            let binding = binding(json!({"preserveResourcesOnDeletion": preserve, "clusters": [{"name": "m1"}]}));
            let work = rendered(&binding, &deployment()).remove(0).unwrap().work;
            assert_eq!(work.spec.preserve_resources_on_deletion, Some(expected));
        }
        // Of what counts no generations none is told.
        let mut uncounted = deployment();
        uncounted["metadata"].as_object_mut().unwrap().remove("generation");
        let binding = binding(json!({"clusters": [{"name": "m1"}]}));
        let work = rendered(&binding, &uncounted).remove(0).unwrap().work;
        let manifest = work.spec.workload.manifests[0].to_value().unwrap();
        assert_eq!(manifest["metadata"]["annotations"].get(annotations::TEMPLATE_GENERATION), None);
    }

    #[test]
    fn a_work_keeps_what_others_gave_it() {
        let binding = binding(json!({"clusters": [{"name": "m1"}]}));
        let mut wanted = rendered(&binding, &deployment()).remove(0).unwrap().work;
        wanted.metadata.owner_references = vec![crate::binding::owner(Template(&deployment()))];
        let mut existing = wanted.clone();
        existing.metadata.finalizers = vec!["z".to_owned()];
        let merged = merge(&existing, wanted.clone()).unwrap().unwrap();
        assert_eq!(merged.metadata.finalizers, [finalizers::EXECUTION, "z"]);
        assert_eq!(merged.metadata.owner_references.len(), 1);
        existing.metadata.owner_references[0].uid = "u0".to_owned();
        let merged = merge(&existing, wanted).unwrap().unwrap();
        let owners: Vec<&str> = merged.metadata.owner_references.iter().map(|owner| owner.uid.as_str()).collect();
        assert_eq!(owners, ["u0", "u1"]);
    }
}
