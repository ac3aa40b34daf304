//! Validates PropagationPolicies and ClusterPropagationPolicies.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList, Path, go_quoted};
use apimachinery::names::is_qualified_name;
use serde_json::Value;

use super::{Denied, Operation, Request, decode};
use crate::Scope;
use crate::policy::v1alpha1::{
    ClusterAffinity, ClusterAffinityTerm, FailoverBehavior, FieldSelector, Placement, PreemptionBehavior,
    PropagationPolicy, PropagationSpec, PurgeMode, ReplicaDivisionPreference, ReplicaSchedulingStrategy,
    ReplicaSchedulingType, SpreadConstraint, SpreadField, StatePreservation,
};
use crate::shown::invalid;

pub(super) fn validate(request: &Request<'_>, object: &Value) -> Result<(), Denied> {
    let scope = if request.kind == "PropagationPolicy" { Scope::Namespaced } else { Scope::Cluster };
    let label = scope.policy_id_label();
    let id = |object: &Value| object["metadata"]["labels"][label].as_str().unwrap_or_default().to_owned();
    if let (Operation::Update, Some(old)) = (request.operation, request.old) {
        let scheduler = |object: &Value| object["spec"]["schedulerName"].as_str().unwrap_or_default().to_owned();
        if scheduler(object) != scheduler(old) {
            return Err(Denied::Rule("the schedulerName should not be updated".to_owned()));
        }
        if id(object) != id(old) {
            let text = format!("label {label} is immutable, it can only be set by the system during creation");
            return Err(Denied::Rule(text));
        }
    }
    if !object["metadata"]["labels"][label].is_string() {
        let text =
            format!("label {label} is required, it should be set by the mutating admission webhook during creation");
        return Err(Denied::Rule(text));
    }
    let policy: PropagationPolicy = decode(object)?;
    let namespace = (scope == Scope::Namespaced).then_some(request.namespace);
    let both = object["spec"]["placement"]["clusterAffinities"].is_array();
    Denied::unless_empty(spec(&policy.spec, both, namespace))
}

/// `has_terms`: whether the list of affinity terms is present; an empty list counts.
fn spec(spec: &PropagationSpec, has_terms: bool, namespace: Option<&str>) -> ErrorList {
    let path = Path::new("spec");
    let mut errors = placement(&spec.placement, has_terms, &path.child("placement"));
    if let Some(behavior) = &spec.failover {
        errors.extend(failover(behavior, spec.propagate_deps));
    }
    let selectors = path.child("resourceSelectors");
    for (index, selector) in spec.resource_selectors.iter().enumerate() {
        if namespace.is_some_and(|namespace| selector.namespace != namespace) {
            errors.push(selector_namespace(&selectors.index(index), &selector.namespace));
        }
    }
    for (index, selector) in spec.resource_selectors.iter().enumerate() {
        if spec.preemption == Some(PreemptionBehavior::Always) && selector.name.is_empty() {
            let detail = "name cannot be empty if preemption is Always, the empty name may cause unexpected resources \
                          preemption";
            errors.push(Error::invalid(&selectors.index(index).child("name"), "", detail));
        }
    }
    if let Some(suspension) = &spec.suspension {
        let some = suspension.dispatching_on_clusters.as_ref().is_some_and(|it| !it.cluster_names.is_empty());
        if suspension.dispatching == Some(true) && some {
            let detail = "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames";
            // The repeated field name is part of upstream's errors.
            errors.push(invalid(&path.child("suspension").child("suspension"), suspension, detail));
        }
    }
    errors
}

pub(super) fn selector_namespace(path: &Path, namespace: &str) -> Error {
    let detail = "namespace of resource selector must be the same as the namespace of the policy";
    Error::invalid(&path.child("namespace"), namespace, detail)
}

fn label_key(key: &str, path: &Path) -> ErrorList {
    is_qualified_name(key).into_iter().map(|detail| Error::invalid(path, key, detail)).collect()
}

fn placement(placement: &Placement, has_terms: bool, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if placement.cluster_affinity.is_some() && has_terms {
        let detail = "clusterAffinities cannot co-exist with clusterAffinity";
        errors.push(invalid(path, placement, detail));
    }
    let terms = path.child("clusterAffinities");
    if !overflow_is_possible(placement.replica_scheduling.as_ref()) {
        for (index, it) in placement.cluster_affinities.iter().enumerate() {
            if !it.overflow_affinities.is_empty() {
                let detail =
                    "overflowAffinities can only be used together with dynamic weight or aggregated scheduling";
                let path = terms.index(index).child("overflowAffinities");
                errors.push(invalid(&path, &it.overflow_affinities, detail));
            }
        }
    }
    if let Some(affinity) = &placement.cluster_affinity {
        errors.extend(fields(affinity.field_selector.as_ref(), &path.child("clusterAffinity")));
    }
    let mut names = BTreeSet::new();
    for (index, it) in placement.cluster_affinities.iter().enumerate() {
        errors.extend(label_key(&it.affinity_name, &terms.index(index)));
        if !names.insert(it.affinity_name.as_str()) {
            let detail = "each affinity term in a policy must have a unique name";
            errors.push(invalid(&terms, &placement.cluster_affinities, detail));
        }
        errors.extend(fields(it.field_selector.as_ref(), &terms.index(index)));
        errors.extend(overflow(it, &terms.index(index).child("overflowAffinities")));
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
            errors.push(invalid(&path, affinity, detail));
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

/// Validates the field selector of a ClusterAffinity; returns only the first error.
pub(crate) fn fields(selector: Option<&FieldSelector>, affinity: &Path) -> Option<Error> {
    let selector = selector?;
    let detail = selector.match_expressions.iter().find_map(|it| {
        if !matches!(it.key.as_str(), "provider" | "region" | "zone") {
            return Some(format!("unsupported key {}, must be provider, region, or zone", go_quoted(&it.key)));
        }
        let known = matches!(it.operator.as_str(), "In" | "NotIn");
        (!known).then(|| format!("unsupported operator {}, must be In or NotIn", go_quoted(&it.operator)))
    })?;
    Some(invalid(&affinity.child("fieldSelector"), selector, detail))
}

fn overflow(term: &ClusterAffinityTerm, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if term.overflow_affinities.is_empty() {
        return errors;
    }
    let inline = ClusterAffinity {
        cluster_names: term.cluster_names.clone(),
        exclude: term.exclude.clone(),
        field_selector: term.field_selector.clone(),
        label_selector: term.label_selector.clone(),
    };
    if inline == ClusterAffinity::default() {
        let detail = "overflowAffinities can only be used together with the inline ClusterAffinity";
        errors.push(invalid(path, &term.overflow_affinities, detail));
    }
    let mut names = BTreeSet::from([term.affinity_name.as_str()]);
    for (index, overflow) in term.overflow_affinities.iter().enumerate() {
        let tier = path.index(index);
        let path = tier.child("affinityName");
        errors.extend(label_key(&overflow.affinity_name, &path));
        if !names.insert(overflow.affinity_name.as_str()) {
            let detail =
                "overflow affinity name must be unique and must not duplicate the primary group's affinityName";
            errors.push(Error::invalid(&path, overflow.affinity_name.as_str(), detail));
        }
        errors.extend(fields(overflow.field_selector.as_ref(), &tier));
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
    let mut seen: Vec<SpreadField> = Vec::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let mut refuse = |detail: &str| errors.push(invalid(&path.index(index), constraint, detail));
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
        let Some(field) = constraint.spread_by_field else { continue };
        seen.push(field);
        // Reported once, at the second constraint.
        if seen.iter().filter(|it| **it == field).count() == 2 {
            let name = serde_json::to_value(field).unwrap_or_default();
            let detail = format!("multiple {} spread constraints are not allowed", name.as_str().unwrap_or_default());
            errors.push(invalid(path, &constraints, detail));
        }
    }
    if !seen.is_empty() && !seen.contains(&SpreadField::Cluster) {
        let detail = "the cluster spread constraint must be enabled in one of the constraints in case of SpreadByField \
                      is enabled";
        errors.push(invalid(path, &constraints, detail));
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
        let gracefully = application.purge_mode == Some(PurgeMode::Gracefully);
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
    fn immutable_fields() {
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
