//! What a propagation policy must hold to.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names::is_qualified_name;
use serde::Serialize;
use serde_json::Value;

use super::{Denied, Operation, Request, decode};
use crate::Scope;
use crate::policy::v1alpha1::{
    ClusterAffinity, ClusterAffinityTerm, FailoverBehavior, FieldSelector, Placement, PreemptionBehavior,
    PropagationPolicy, PropagationSpec, PurgeMode, ReplicaDivisionPreference, ReplicaSchedulingStrategy,
    ReplicaSchedulingType, SpreadConstraint, SpreadField, StatePreservation,
};

pub(super) fn validate(request: &Request<'_>, object: &Value) -> Result<(), Denied> {
    let scope = if request.kind == "PropagationPolicy" { Scope::Namespaced } else { Scope::Cluster };
    let label = scope.policy_id_label();
    let id = |object: &Value| object["metadata"]["labels"][label].as_str().unwrap_or_default().to_owned();
    if let (Operation::Update, Some(old)) = (request.operation, request.old) {
        if object["spec"]["schedulerName"] != old["spec"]["schedulerName"] {
            return Err(Denied::Rule("the schedulerName should not be updated".to_owned()));
        }
        if id(object) != id(old) {
            let text = format!("label {label} is immutable, it can only be set by the system during creation");
            return Err(Denied::Rule(text));
        }
    }
    if id(object).is_empty() {
        let text =
            format!("label {label} is required, it should be set by the mutating admission webhook during creation");
        return Err(Denied::Rule(text));
    }
    let policy: PropagationPolicy = decode(object)?;
    let namespace = (scope == Scope::Namespaced).then_some(request.namespace);
    Denied::unless_empty(spec(&policy.spec, namespace))
}

fn spec(spec: &PropagationSpec, namespace: Option<&str>) -> ErrorList {
    let path = Path::new("spec");
    let mut errors = placement(&spec.placement, &path.child("placement"));
    if let Some(behavior) = &spec.failover {
        errors.extend(failover(behavior, spec.propagate_deps));
    }
    for (index, selector) in spec.resource_selectors.iter().enumerate() {
        let path = path.child("resourceSelectors").index(index);
        if namespace.is_some_and(|namespace| selector.namespace != namespace) {
            errors.push(selector_namespace(&path, &selector.namespace));
        }
        if spec.preemption == Some(PreemptionBehavior::Always) && selector.name.is_empty() {
            let detail = "name cannot be empty if preemption is Always, the empty name may cause unexpected resources \
                          preemption";
            errors.push(Error::invalid(&path.child("name"), "", detail));
        }
    }
    if let Some(suspension) = &spec.suspension {
        let some = suspension.dispatching_on_clusters.as_ref().is_some_and(|it| !it.cluster_names.is_empty());
        if suspension.dispatching == Some(true) && some {
            let detail = "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames";
            // The doubled name is what clients have always been told.
            errors.push(Error::invalid(&path.child("suspension").child("suspension"), tree(suspension), detail));
        }
    }
    errors
}

pub(super) fn selector_namespace(path: &Path, namespace: &str) -> Error {
    let detail = "namespace of resource selector must be the same as the namespace of the policy";
    Error::invalid(&path.child("namespace"), namespace, detail)
}

/// A value as errors print it.
fn tree(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn label_key(key: &str, path: &Path) -> ErrorList {
    is_qualified_name(key).into_iter().map(|detail| Error::invalid(path, key, detail)).collect()
}

fn placement(placement: &Placement, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if placement.cluster_affinity.is_some() && !placement.cluster_affinities.is_empty() {
        let detail = "clusterAffinities cannot co-exist with clusterAffinity";
        errors.push(Error::invalid(path, tree(placement), detail));
    }
    if let Some(affinity) = &placement.cluster_affinity {
        errors.extend(fields(affinity.field_selector.as_ref(), &path.child("clusterAffinity")));
    }
    let terms = path.child("clusterAffinities");
    let mut names = BTreeSet::new();
    for (index, it) in placement.cluster_affinities.iter().enumerate() {
        errors.extend(term(it, placement.replica_scheduling.as_ref(), &terms.index(index)));
        if !names.insert(it.affinity_name.as_str()) {
            let detail = "each affinity term in a policy must have a unique name";
            errors.push(Error::invalid(&terms, it.affinity_name.as_str(), detail));
        }
    }
    errors.extend(spread(&placement.spread_constraints, &path.child("spreadConstraints")));
    if let Some(affinity) = &placement.workload_affinity {
        let path = path.child("workloadAffinity");
        let keys = [("affinity", &affinity.affinity), ("antiAffinity", &affinity.anti_affinity)];
        for (name, term) in keys {
            if let Some(term) = term {
                errors.extend(label_key(&term.group_by_label_key, &path.child(name).child("groupByLabelKey")));
            }
        }
        if let (Some(one), Some(other)) = (&affinity.affinity, &affinity.anti_affinity)
            && one.group_by_label_key == other.group_by_label_key
        {
            let detail = "affinity and antiAffinity must not use the same groupByLabelKey";
            errors.push(Error::invalid(&path, tree(affinity), detail));
        }
    }
    for (index, toleration) in placement.cluster_tolerations.iter().enumerate() {
        if matches!(toleration.operator.as_str(), "Lt" | "Gt") {
            let path = path.child("clusterTolerations").index(index).child("operator");
            errors.push(Error::not_supported(&path, toleration.operator.as_str(), &["", "Exists", "Equal"]));
        }
    }
    errors
}

/// The rules of a ClusterAffinity's field selector; the first bad expression of each kind is named.
pub(crate) fn fields(selector: Option<&FieldSelector>, affinity: &Path) -> ErrorList {
    let expressions = selector.map_or(&[][..], |selector| &selector.match_expressions);
    let path = affinity.child("fieldSelector");
    let invalid = |detail: String| Error::invalid(&path, selector.map(tree).unwrap_or_default(), detail);
    let mut errors = ErrorList::new();
    if let Some(bad) = expressions.iter().find(|it| !matches!(it.key.as_str(), "provider" | "region" | "zone")) {
        errors.push(invalid(format!("unsupported key {:?}, must be provider, region, or zone", bad.key)));
    }
    if let Some(bad) = expressions.iter().find(|it| !matches!(it.operator.as_str(), "In" | "NotIn")) {
        errors.push(invalid(format!("unsupported operator {:?}, must be In or NotIn", bad.operator)));
    }
    errors
}

fn term(term: &ClusterAffinityTerm, strategy: Option<&ReplicaSchedulingStrategy>, path: &Path) -> ErrorList {
    let mut errors = fields(term.field_selector.as_ref(), path);
    errors.extend(label_key(&term.affinity_name, path));
    if term.overflow_affinities.is_empty() {
        return errors;
    }
    let overflows = path.child("overflowAffinities");
    if !overflow_is_possible(strategy) {
        let detail = "overflowAffinities can only be used together with dynamic weight or aggregated scheduling";
        errors.push(Error::invalid(&overflows, tree(&term.overflow_affinities), detail));
    }
    let inline = ClusterAffinity {
        cluster_names: term.cluster_names.clone(),
        exclude: term.exclude.clone(),
        field_selector: term.field_selector.clone(),
        label_selector: term.label_selector.clone(),
    };
    if inline == ClusterAffinity::default() {
        let detail = "overflowAffinities can only be used together with the inline ClusterAffinity";
        errors.push(Error::invalid(&overflows, tree(&term.overflow_affinities), detail));
    }
    let mut names = BTreeSet::from([term.affinity_name.as_str()]);
    for (index, overflow) in term.overflow_affinities.iter().enumerate() {
        let path = overflows.index(index);
        errors.extend(fields(overflow.field_selector.as_ref(), &path));
        let path = path.child("affinityName");
        errors.extend(label_key(&overflow.affinity_name, &path));
        if !names.insert(overflow.affinity_name.as_str()) {
            let detail =
                "overflow affinity name must be unique and must not duplicate the primary group's affinityName";
            errors.push(Error::invalid(&path, overflow.affinity_name.as_str(), detail));
        }
    }
    errors
}

fn overflow_is_possible(strategy: Option<&ReplicaSchedulingStrategy>) -> bool {
    let Some(strategy) = strategy else { return false };
    if strategy.replica_scheduling_type != Some(ReplicaSchedulingType::Divided) {
        return false;
    }
    match strategy.replica_division_preference {
        Some(ReplicaDivisionPreference::Aggregated) => true,
        Some(ReplicaDivisionPreference::Weighted) => {
            strategy.weight_preference.as_ref().is_some_and(|weights| weights.dynamic_weight.is_some())
        }
        None => false,
    }
}

fn spread(constraints: &[SpreadConstraint], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut counts: BTreeMap<SpreadField, usize> = BTreeMap::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let mut refuse = |detail: &str| errors.push(Error::invalid(&path.index(index), tree(constraint), detail));
        if constraint.spread_by_field.is_some() && !constraint.spread_by_label.is_empty() {
            refuse("spreadByLabel should not co-exist with spreadByField");
        }
        if constraint.min_groups < 0 {
            refuse("minGroups lower than 0 is not allowed");
        }
        if constraint.max_groups < 0 {
            refuse("maxGroups lower than 0 is not allowed");
        }
        if constraint.max_groups > 0 && constraint.max_groups < constraint.min_groups {
            refuse("maxGroups lower than minGroups is not allowed");
        }
        if let Some(field) = constraint.spread_by_field {
            *counts.entry(field).or_default() += 1;
        }
    }
    for (field, _) in counts.iter().filter(|(_, count)| **count > 1) {
        let detail =
            format!("multiple {} spread constraints are not allowed", tree(field).as_str().unwrap_or_default());
        errors.push(Error::invalid(path, tree(&constraints), detail));
    }
    if !counts.is_empty() && !counts.contains_key(&SpreadField::Cluster) {
        let detail = "the cluster spread constraint must be enabled in one of the constraints in case of SpreadByField \
                      is enabled";
        errors.push(Error::invalid(path, tree(&constraints), detail));
    }
    errors
}

fn failover(failover: &FailoverBehavior, propagate_deps: bool) -> ErrorList {
    let spec = Path::new("spec");
    let path = spec.child("failover");
    let mut errors = ErrorList::new();
    if let Some(application) = &failover.application {
        let path = path.child("application");
        if !propagate_deps {
            let detail = "application failover is set, propagateDeps must be true";
            errors.push(Error::invalid(&spec.child("propagateDeps"), propagate_deps, detail));
        }
        if let Some(seconds) = application.decision_conditions.toleration_seconds.filter(|seconds| *seconds < 0) {
            let path = path.child("decisionConditions").child("tolerationSeconds");
            errors.push(Error::invalid(&path, seconds, "must be greater than or equal to 0"));
        }
        let gracefully = application.purge_mode.unwrap_or_default() == PurgeMode::Gracefully;
        let grace = path.child("gracePeriodSeconds");
        match application.grace_period_seconds {
            Some(seconds) if !gracefully => {
                errors.push(Error::invalid(&grace, seconds, "only takes effect when purgeMode is gracefully"));
            }
            None if gracefully => {
                errors.push(Error::invalid(&grace, Value::Null, "should not be empty when purgeMode is gracefully"));
            }
            _ => {}
        }
        if let Some(seconds) = application.grace_period_seconds.filter(|seconds| *seconds <= 0) {
            errors.push(Error::invalid(&grace, seconds, "must be greater than 0"));
        }
        errors.extend(preservation(application.state_preservation.as_ref(), &path));
    }
    if let Some(cluster) = &failover.cluster {
        errors.extend(preservation(cluster.state_preservation.as_ref(), &path.child("cluster")));
    }
    errors
}

fn preservation(state: Option<&StatePreservation>, path: &Path) -> ErrorList {
    let rules = path.child("statePreservation").child("rules");
    let mut errors = ErrorList::new();
    for (index, rule) in state.map_or(&[][..], |state| &state.rules).iter().enumerate() {
        errors.extend(label_key(&rule.alias_label_name, &rules.index(index).child("aliasLabelName")));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Options;
    use super::*;

    fn refusal(spec: Value) -> String {
        let mut spec = spec;
        spec["resourceSelectors"] =
            spec.get("resourceSelectors").cloned().unwrap_or(json!([{"namespace": "ns", "name": "a"}]));
        let object = json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "1"}}, "spec": spec});
        let request = Request {
            operation: Operation::Create,
            group: "policy.karmada.io",
            kind: "PropagationPolicy",
            namespace: "ns",
            old: None,
            uuid: "",
            customizations: &[],
            options: Options::default(),
        };
        validate(&request, &object).map_or_else(|denied| denied.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn rules() {
        for (spec, expected) in [
            (json!({}), "ok"),
            (
                json!({"resourceSelectors": [{"namespace": "other"}]}),
                "spec.resourceSelectors[0].namespace: Invalid value: \"other\": namespace of resource selector must be the same as the namespace of the policy",
            ),
            (
                json!({"preemption": "Always", "resourceSelectors": [{"namespace": "ns"}]}),
                "name cannot be empty if preemption is Always",
            ),
            (
                json!({"placement": {"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}]}}),
                "clusterAffinities cannot co-exist with clusterAffinity",
            ),
            (
                json!({"placement": {"clusterAffinity": {"fieldSelector": {"matchExpressions": [{"key": "city", "operator": "Exists"}]}}}}),
                "unsupported key \"city\", must be provider, region, or zone",
            ),
            (
                json!({"placement": {"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}]}}),
                "each affinity term in a policy must have a unique name",
            ),
            (
                json!({"placement": {"spreadConstraints": [{"spreadByField": "region", "maxGroups": 1, "minGroups": 2}]}}),
                "maxGroups lower than minGroups is not allowed",
            ),
            (
                json!({"placement": {"spreadConstraints": [{"spreadByField": "cluster"}, {"spreadByField": "cluster"}]}}),
                "multiple cluster spread constraints are not allowed",
            ),
            (
                json!({"placement": {"clusterTolerations": [{"operator": "Lt"}]}}),
                "spec.placement.clusterTolerations[0].operator: Unsupported value: \"Lt\": supported values: \"\", \"Exists\", \"Equal\"",
            ),
            (
                json!({"failover": {"application": {"decisionConditions": {"tolerationSeconds": -1}, "gracePeriodSeconds": 5}}}),
                "application failover is set, propagateDeps must be true",
            ),
            (
                json!({"propagateDeps": true, "failover": {"application": {"purgeMode": "Never", "gracePeriodSeconds": 5}}}),
                "only takes effect when purgeMode is gracefully",
            ),
            (
                json!({"suspension": {"dispatching": true, "dispatchingOnClusters": {"clusterNames": ["m1"]}}}),
                "spec.suspension.suspension: Invalid value",
            ),
            (
                json!({"placement": {"clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"], "overflowAffinities": [{"affinityName": "a"}]}],
                    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}}),
                "overflow affinity name must be unique",
            ),
        ] {
            let refusal = refusal(spec.clone());
            assert!(refusal.contains(expected), "{spec}\n{refusal}");
        }
    }

    #[test]
    fn what_may_not_change() {
        let policy = |scheduler: &str, id: &str| json!({"metadata": {"labels": {"clusterpropagationpolicy.karmada.io/permanent-id": id}}, "spec": {"schedulerName": scheduler}});
        let old = policy("a", "1");
        for (new, expected) in [
            (policy("a", "1"), "ok"),
            (policy("b", "1"), "the schedulerName should not be updated"),
            (
                policy("a", "2"),
                "label clusterpropagationpolicy.karmada.io/permanent-id is immutable, it can only be set by the system during creation",
            ),
        ] {
            let request = Request {
                operation: Operation::Update,
                group: "policy.karmada.io",
                kind: "ClusterPropagationPolicy",
                namespace: "",
                old: Some(&old),
                uuid: "",
                customizations: &[],
                options: Options::default(),
            };
            let refusal = validate(&request, &new).map_or_else(|denied| denied.to_string(), |()| "ok".to_owned());
            assert_eq!(refusal, expected);
        }
    }
}
