//! From a template and its policy to the binding.

use apimachinery::meta::OwnerReference;
use interpreter::{Interpreter, Kind, Operation};
use karmada_api::Scope;
use karmada_api::identity::BindingKey;
use karmada_api::names;
use karmada_api::scope::{Binding, Policy};
use karmada_api::work::v1alpha2::{
    BindingSchedulePriority, BindingSuspension, ObjectReference, ReplicaRequirements, ResourceBindingSpec,
    WorkloadAffinityGroups,
};
use serde_json::Value;

use crate::claim;
use crate::server_side;
use crate::template::Template;

/// The caller's settings and lookups.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The value of the PriorityClass the policy names; required when it names one.
    pub schedule_priority: Option<i32>,
    /// Feature gate WorkloadAffinity.
    pub workload_affinity: bool,
    /// Feature gate ResourceQuotaEstimate.
    pub resource_quota_estimate: bool,
    /// Feature gate MultiplePodTemplatesScheduling.
    pub multiple_pod_templates: bool,
}

/// Why a binding cannot be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum Error {
    #[error("counting the replicas of the template: {0}")]
    Replicas(#[source] interpreter::Error),
    #[error("listing the components of the template: {0}")]
    Components(#[source] interpreter::Error),
    #[error(
        "failed to update binding due to different owner reference UID: {key} belongs to an object with UID {owner}, the \
         template has {template}; it is updated once the old binding is collected"
    )]
    OtherOwner { key: BindingKey, owner: String, template: String },
    #[error(
        "binding {key} belongs to {owner}: objects of one namespace with equal kinds and names share the name of their \
         binding; rename one of them"
    )]
    OtherTemplate { key: BindingKey, owner: String },
}

/// The key of a template's binding.
pub fn key(template: Template<'_>) -> BindingKey {
    BindingKey::namespaced(template.namespace(), names::binding_name(template.kind(), template.name()))
}

/// How a template's resource requirements are determined: by its components, by its replicas, or not at all.
pub fn counted_by(template: Template<'_>, interpreter: &Interpreter, context: &Context) -> Option<Operation> {
    let operations =
        [(context.multiple_pod_templates, Operation::InterpretComponent), (true, Operation::InterpretReplica)];
    let mut open = operations.into_iter().filter_map(|(open, operation)| open.then_some(operation));
    open.find(|operation| interpreter.enabled_for(template.0, *operation))
}

/// The binding that a policy requires for a template.
///
/// # Errors
/// When the interpreter cannot determine the replicas or components of the template.
pub fn build(
    policy: &Policy,
    template: Template<'_>,
    interpreter: &Interpreter,
    context: &Context,
) -> Result<Binding, Error> {
    let (components, (replicas, mut requirements)) = match counted_by(template, interpreter, context) {
        Some(Operation::InterpretComponent) => {
            (interpreter.get_components(template.0).map_err(Error::Components)?, (0, None))
        }
        Some(_) => (Vec::new(), interpreter.get_replicas(template.0).map_err(Error::Replicas)?),
        None => (Vec::new(), (0, None)),
    };
    if let Some(requirements) = requirements.as_mut().filter(|_| context.resource_quota_estimate) {
        count_in_quotas(requirements, template);
    }
    let mut binding = Binding::named(&key(template));
    let namespaced = binding.scope == Scope::Namespaced;
    claim::marks(policy).apply_typed(&mut binding.metadata);
    server_side::carry(&policy.metadata.annotations, &mut binding.metadata.annotations);
    binding.metadata.annotations.insert(CONTENT.to_owned(), content(template));
    binding.metadata.finalizers = vec![binding.scope.binding_finalizer().to_owned()];
    binding.metadata.owner_references = vec![owner(template)];
    let spec = &policy.spec;
    binding.spec = ResourceBindingSpec {
        resource: reference(template),
        replicas,
        replica_requirements: requirements,
        components,
        propagate_deps: spec.propagate_deps,
        scheduler_name: spec.scheduler_name.clone(),
        placement: Some(spec.placement.clone()),
        failover: spec.failover.clone(),
        conflict_resolution: spec.conflict_resolution,
        preserve_resources_on_deletion: spec.preserve_resources_on_deletion,
        suspension: spec.suspension.as_ref().map(|suspension| BindingSuspension {
            dispatching: suspension.dispatching,
            dispatching_on_clusters: suspension.dispatching_on_clusters.clone(),
            scheduling: None,
        }),
        schedule_priority: context
            .schedule_priority
            .filter(|_| namespaced)
            .map(|priority| BindingSchedulePriority { priority }),
        workload_affinity_groups: affinity_groups(policy, template).filter(|_| namespaced && context.workload_affinity),
        ..ResourceBindingSpec::default()
    };
    Ok(binding)
}

/// Sets the fields that determine the quotas of a replica. For kinds that are not built in, their scripts return the
/// priority class.
fn count_in_quotas(requirements: &mut ReplicaRequirements, template: Template<'_>) {
    let or = |known: &mut String, otherwise: &str| {
        if known.is_empty() {
            otherwise.clone_into(known);
        }
    };
    or(&mut requirements.namespace, template.namespace());
    if let Some(path) = Kind::of(template.0).and_then(Kind::pod_template) {
        let pod = path.iter().fold(template.0, |tree, field| &tree[*field]);
        or(&mut requirements.priority_class_name, pod["spec"]["priorityClassName"].as_str().unwrap_or_default());
    }
}

/// The template as a binding names it.
pub fn reference(template: Template<'_>) -> ObjectReference {
    ObjectReference {
        api_version: template.api_version().to_owned(),
        kind: template.kind().to_owned(),
        name: template.name().to_owned(),
        namespace: template.namespace().to_owned(),
        resource_version: template.resource_version().to_owned(),
        uid: template.uid().to_owned(),
    }
}

/// The annotation with a digest of the template as of the last pass, without its status and without the metadata that
/// every write changes. After a start it shows that a template is unchanged although its resource version differs
/// because of a status update.
pub const CONTENT: &str = "karmada-rs.io/template";

/// The value of [`CONTENT`] for a template.
pub fn content(template: Template<'_>) -> String {
    let mut digest = Digest::default();
    let fields = template.0.as_object().into_iter().flatten().filter(|(name, _)| *name != "status");
    for (name, field) in fields {
        let Some(metadata) = field.as_object().filter(|_| name == "metadata") else {
            digest.add(name, field);
            continue;
        };
        let bookkeeping = ["resourceVersion", "managedFields"];
        metadata.iter().filter(|(name, _)| !bookkeeping.contains(&name.as_str())).for_each(|(n, f)| digest.add(n, f));
    }
    format!("{:016x}", digest.0)
}

/// FNV-1a of 64 bits over JSON; the same in every process and version.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn add(&mut self, name: &str, field: &Value) {
        // Encoding a tree into this cannot fail.
        let _ = serde_json::to_writer(&mut *self, &(name, field));
    }
}

impl std::io::Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The owner reference by which the binding is deleted with its template.
pub fn owner(template: Template<'_>) -> OwnerReference {
    OwnerReference {
        api_version: template.api_version().to_owned(),
        kind: template.kind().to_owned(),
        name: template.name().to_owned(),
        uid: template.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn affinity_groups(policy: &Policy, template: Template<'_>) -> Option<WorkloadAffinityGroups> {
    let affinity = policy.spec.placement.workload_affinity.as_ref()?;
    let group =
        |key: Option<&str>| key.and_then(|key| Some(format!("{key}={}", template.label(key)?))).unwrap_or_default();
    let groups = WorkloadAffinityGroups {
        affinity_group: group(affinity.affinity.as_ref().map(|term| term.group_by_label_key.as_str())),
        anti_affinity_group: group(affinity.anti_affinity.as_ref().map(|term| term.group_by_label_key.as_str())),
    };
    (groups != WorkloadAffinityGroups::default()).then_some(groups)
}

/// Templates whose bindings have one name differ in this. A template may be recreated in another version.
fn group_and_name(template: &ObjectReference) -> (&str, &str, &str) {
    let group = template.api_version.split_once('/').map_or("", |(group, _)| group);
    (group, &template.kind, &template.name)
}

/// Updates the existing binding to the built one; `None` if it is unchanged. Fields written by the scheduler and others
/// (clusters, eviction tasks, dependents, status, foreign labels) stay.
///
/// # Errors
/// `OtherOwner` when the binding belongs to an earlier object of the same name, `OtherTemplate` when it belongs to one
/// of another API group.
pub fn merge(existing: &Binding, built: Binding) -> Result<Option<Binding>, Error> {
    let controller = existing.metadata.owner_references.iter().find(|owner| owner.controller == Some(true));
    let template = built.spec.resource.uid.as_str();
    if let Some(owner) = controller.filter(|owner| owner.uid != template) {
        let (key, theirs) = (existing.key(), &existing.spec.resource);
        if group_and_name(theirs) != group_and_name(&built.spec.resource) {
            let owner = format!("{} {} {}", theirs.api_version, theirs.kind, theirs.name);
            return Err(Error::OtherTemplate { key, owner });
        }
        return Err(Error::OtherOwner { key, owner: owner.uid.clone(), template: template.to_owned() });
    }
    let is_same = existing.spec.resource.uid == template
        && existing.metadata.annotations.get(CONTENT) == built.metadata.annotations.get(CONTENT);
    let mut merged = existing.clone();
    if built.metadata.labels.contains_key(Scope::Namespaced.policy_id_label()) {
        claim::clean(Scope::Cluster).apply_typed(&mut merged.metadata);
    }
    merged.metadata.labels.extend(built.metadata.labels);
    server_side::carry(&built.metadata.annotations, &mut merged.metadata.annotations);
    merged.metadata.annotations.extend(built.metadata.annotations);
    for finalizer in built.metadata.finalizers {
        if !merged.metadata.finalizers.contains(&finalizer) {
            merged.metadata.finalizers.push(finalizer);
        }
    }
    merged.metadata.owner_references = built.metadata.owner_references;
    let spec = &mut merged.spec;
    let seen = std::mem::replace(&mut spec.resource, built.spec.resource);
    if is_same {
        // A version that moved because of the status alone is no news.
        spec.resource.resource_version = seen.resource_version;
    }
    spec.replica_requirements = built.spec.replica_requirements;
    spec.replicas = built.spec.replicas;
    spec.components = built.spec.components;
    spec.propagate_deps = built.spec.propagate_deps;
    spec.scheduler_name = built.spec.scheduler_name;
    spec.placement = built.spec.placement;
    spec.failover = built.spec.failover;
    spec.conflict_resolution = built.spec.conflict_resolution;
    spec.preserve_resources_on_deletion = built.spec.preserve_resources_on_deletion;
    spec.schedule_priority = built.spec.schedule_priority;
    spec.workload_affinity_groups = built.spec.workload_affinity_groups;
    spec.suspension = suspension(spec.suspension.take(), built.spec.suspension);
    Ok((merged != *existing).then_some(merged))
}

/// Whether two states of a binding differ only in the template's version, so that only its Works follow from the
/// change.
pub fn differ_in_version(one: &Binding, other: &Binding) -> bool {
    let version = other.spec.resource.resource_version.clone();
    let mut one = one.clone();
    one.spec.resource.resource_version = version;
    !one.spec.propagate_deps && one == *other
}

/// The policy owns dispatching, others own scheduling.
fn suspension(existing: Option<BindingSuspension>, policy: Option<BindingSuspension>) -> Option<BindingSuspension> {
    let scheduling = existing.and_then(|suspension| suspension.scheduling);
    match policy {
        Some(policy) => Some(BindingSuspension { scheduling, ..policy }),
        None => scheduling.map(|scheduling| BindingSuspension { scheduling: Some(scheduling), ..Default::default() }),
    }
}

#[cfg(test)]
mod tests {
    use karmada_api::identity::PolicyKey;
    use karmada_api::work::v1alpha2::TargetCluster;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_of_the_version_alone_is_detected() {
        let mut binding = Binding::named(&BindingKey::namespaced("ns", "a"));
        binding.spec.resource.resource_version = "7".into();
        let mut newer = binding.clone();
        newer.spec.resource.resource_version = "8".into();
        assert!(differ_in_version(&binding, &newer));
        let more = Binding { spec: ResourceBindingSpec { replicas: 1, ..newer.spec.clone() }, ..newer.clone() };
        assert!(!differ_in_version(&binding, &more));
        for binding in [&mut binding, &mut newer] {
            binding.spec.propagate_deps = true;
        }
        assert!(!differ_in_version(&binding, &newer), "its dependencies must be reconciled too");
    }

    fn template() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "Web", "namespace": "ns", "uid": "u1", "resourceVersion": "7", "labels": {"app": "x"}},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "100m"}}}]}}},
        })
    }

    fn policy(spec: Value) -> Policy {
        let mut policy = Policy::named(&PolicyKey::namespaced("ns", "pp"));
        policy.metadata.labels.insert(policy.scope.policy_id_label().to_owned(), "id".to_owned());
        policy.spec = serde_json::from_value(spec).unwrap();
        policy
    }

    fn build_with(policy: &Policy, context: &Context) -> Binding {
        build(policy, Template(&template()), &Interpreter::default(), context).unwrap()
    }

    #[test]
    fn built() {
        let spec = json!({"suspension": {"dispatching": true}, "placement": {"workloadAffinity": {"affinity": {"groupByLabelKey": "app"}}}});
        let context = Context { schedule_priority: Some(9), workload_affinity: true, ..Context::default() };
        let binding = build_with(&policy(spec), &context);
        assert_eq!(binding.key(), BindingKey::namespaced("ns", "web-deployment"));
        assert_eq!(binding.spec.replicas, 3);
        assert_eq!(binding.spec.replica_requirements.unwrap().resource_request["cpu"].as_str(), "100m");
        assert_eq!(binding.spec.suspension.unwrap().dispatching, Some(true));
        assert_eq!(binding.spec.schedule_priority.unwrap().priority, 9);
        assert_eq!(binding.spec.workload_affinity_groups.unwrap().affinity_group, "app=x");
        assert_eq!(binding.metadata.owner_references[0].uid, "u1");
        assert_eq!(binding.metadata.annotations["propagationpolicy.karmada.io/name"], "pp");
    }

    #[test]
    fn quotas_need_a_namespace_and_a_class() {
        let mut object = template();
        object["spec"]["template"]["spec"]["priorityClassName"] = json!("high");
        for (resource_quota_estimate, expected) in [(true, ("ns", "high")), (false, ("", ""))] {
            let context = Context { resource_quota_estimate, ..Context::default() };
            let built = build(&policy(json!({})), Template(&object), &Interpreter::default(), &context).unwrap();
            let needs = built.spec.replica_requirements.unwrap();
            assert_eq!((needs.namespace.as_str(), needs.priority_class_name.as_str()), expected);
        }
    }

    #[test]
    fn merged() {
        let built = build_with(&policy(json!({})), &Context::default());
        assert_eq!(merge(&built, built.clone()).unwrap(), None);

        let mut existing = built.clone();
        existing.spec.clusters = vec![TargetCluster { name: "m1".to_owned(), ..Default::default() }];
        existing.spec.suspension =
            Some(BindingSuspension { dispatching: Some(true), scheduling: Some(true), ..Default::default() });
        existing.metadata.labels.insert("mine".to_owned(), "1".to_owned());
        let merged = merge(&existing, built.clone()).unwrap().unwrap();
        assert_eq!(merged.spec.clusters, existing.spec.clusters);
        assert_eq!(merged.metadata.labels["mine"], "1");
        let kept = BindingSuspension { scheduling: Some(true), ..Default::default() };
        assert_eq!(merged.spec.suspension, Some(kept));

        existing.metadata.owner_references[0].uid = "u0".to_owned();
        assert!(matches!(merge(&existing, built.clone()), Err(Error::OtherOwner { .. })));
        existing.spec.resource.api_version = "example.io/v1".to_owned();
        let error = merge(&existing, built.clone()).unwrap_err().to_string();
        assert!(error.contains(" belongs to example.io/v1 Deployment "), "{error}");
        existing.spec.resource.api_version = built.spec.resource.api_version.clone();
        existing.metadata.owner_references.clear();
        assert!(merge(&existing, built).unwrap().is_some(), "a binding without a controller is adopted");
    }

    #[test]
    fn a_status_change_is_ignored() {
        let built = |tree: &Value| {
            build(&policy(json!({})), Template(tree), &Interpreter::default(), &Context::default()).unwrap()
        };
        let existing = built(&template());
        for (pointer, value, news) in [
            ("/status", json!({"replicas": 3}), false),
            ("/metadata/managedFields", json!([{"manager": "x"}]), false),
            ("/metadata/annotations", json!({"a": "b"}), true),
            ("/metadata/labels", json!({"app": "y"}), true),
            ("/metadata/generation", json!(2), true),
            ("/metadata/uid", json!("u2"), true),
            ("/spec/template/spec/containers", json!([{"image": "y"}]), true),
            ("/data", json!({"a": "b"}), true),
        ] {
            let mut tree = template();
            tree["metadata"]["resourceVersion"] = json!("8");
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            tree.pointer_mut(parent).unwrap()[field] = value;
            let mut existing = existing.clone();
            existing.metadata.owner_references.clear();
            let mut now = built(&tree);
            now.metadata.owner_references.clear();
            let merged = merge(&existing, now).unwrap();
            assert_eq!(merged.map(|it| it.spec.resource.resource_version), news.then(|| "8".to_owned()), "{pointer}");
        }
    }

    /// Fields of the policy and the template take precedence over those of the binding, field by field.
    #[test]
    fn every_field_is_updated() {
        let spec = json!({"propagateDeps": true, "schedulerName": "mine", "conflictResolution": "Overwrite",
            "preserveResourcesOnDeletion": true, "failover": {"cluster": {"purgeMode": "Directly"}},
            "placement": {"workloadAffinity": {"affinity": {"groupByLabelKey": "app"}}}});
        let context = Context { schedule_priority: Some(9), workload_affinity: true, ..Context::default() };
        let desired = build_with(&policy(spec), &context);
        assert!(desired.spec.failover.is_some() && desired.spec.workload_affinity_groups.is_some());
        let mut existing = desired.clone();
        existing.spec =
            ResourceBindingSpec { resource: desired.spec.resource.clone(), ..ResourceBindingSpec::default() };
        existing.spec.components = vec![karmada_api::work::v1alpha2::Component::default()];
        existing.metadata.owner_references[0].controller = None;
        existing.metadata.finalizers.clear();
        claim::marks(&Policy::named(&PolicyKey::cluster("wide"))).apply_typed(&mut existing.metadata);
        assert_eq!(merge(&existing, desired.clone()).unwrap(), Some(desired));
    }

    #[test]
    fn cluster_scoped_bindings_have_no_priority_and_affinity() {
        let mut role = template();
        role["metadata"].as_object_mut().unwrap().remove("namespace");
        let mut wide = Policy::named(&PolicyKey::cluster("wide"));
        wide.spec = policy(json!({"placement": {"workloadAffinity": {"affinity": {"groupByLabelKey": "app"}}}})).spec;
        let context = Context { schedule_priority: Some(9), workload_affinity: true, ..Context::default() };
        let built = build(&wide, Template(&role), &Interpreter::default(), &context).unwrap();
        assert_eq!(built.key(), BindingKey::cluster("web-deployment"));
        assert_eq!((built.spec.schedule_priority, built.spec.workload_affinity_groups), (None, None));
    }

    #[test]
    fn policies_own_only_the_suspension_of_dispatching() {
        let of = |value: serde_json::Value| serde_json::from_value::<Option<BindingSuspension>>(value).unwrap();
        for (existing, policy, expected) in [
            (
                json!({"scheduling": true}),
                json!({"dispatching": true}),
                json!({"scheduling": true, "dispatching": true}),
            ),
            (json!({"scheduling": true, "dispatching": true}), json!(null), json!({"scheduling": true})),
            (json!({"dispatching": true}), json!(null), json!(null)),
            (json!({"dispatching": true}), json!({"dispatching": false}), json!({"dispatching": false})),
        ] {
            assert_eq!(suspension(of(existing.clone()), of(policy.clone())), of(expected), "{existing} {policy}");
        }
    }

    /// A binding without an owner is adopted; fields that refer to another template are replaced.
    #[test]
    fn references_to_another_template_are_replaced() {
        let built = build_with(&policy(json!({})), &Context::default());
        let mut existing = built.clone();
        existing.metadata.owner_references.clear();
        existing.spec.resource.uid = "former".to_owned();
        existing.spec.resource.resource_version = "older".to_owned();
        assert_eq!(merge(&existing, built.clone()).unwrap(), Some(built));
    }
}
