//! The names of upstream's Go types, which its decoder prints when a value has the wrong type.

use serde_json::Value;

/// The type of the objects (or of the items of a list) in a field; the package precedes the dot.
const STRUCTS: &[(&str, &str)] = &[
    ("affinity", "v1alpha1.WorkloadAffinityTerm"),
    ("annotationsOverrider", "v1alpha1.LabelAnnotationOverrider"),
    ("antiAffinity", "v1alpha1.WorkloadAntiAffinityTerm"),
    ("application", "v1alpha1.ApplicationFailoverBehavior"),
    ("argsOverrider", "v1alpha1.CommandArgsOverrider"),
    ("behavior", "v2.HorizontalPodAutoscalerBehavior"),
    ("cluster", "v1alpha1.ClusterFailoverBehavior"),
    ("clusterAffinities", "v1alpha1.ClusterAffinityTerm"),
    ("clusterAffinity", "v1alpha1.ClusterAffinity"),
    ("clusterTolerations", "v1.Toleration"),
    ("clusters", "v1alpha2.TargetCluster"),
    ("commandOverrider", "v1alpha1.CommandArgsOverrider"),
    ("components", "v1alpha2.Component"),
    ("consumerClusters", "v1alpha1.ClusterSelector"),
    ("containerResource", "v2.ContainerResourceMetricSource"),
    ("decisionConditions", "v1alpha1.DecisionConditions"),
    ("describedObject", "v2.CrossVersionObjectReference"),
    ("dispatchingOnClusters", "v1alpha1.SuspendClusters"),
    ("external", "v2.ExternalMetricSource"),
    ("failover", "v1alpha1.FailoverBehavior"),
    ("fieldOverrider", "v1alpha1.FieldOverrider"),
    ("fieldSelector", "v1alpha1.FieldSelector"),
    ("gracefulEvictionTasks", "v1alpha2.GracefulEvictionTask"),
    ("hardNodeAffinity", "v1.NodeSelector"),
    ("imageOverrider", "v1alpha1.ImageOverrider"),
    ("json", "v1alpha1.JSONPatchOperation"),
    ("labelSelector", "v1.LabelSelector"),
    ("labelsOverrider", "v1alpha1.LabelAnnotationOverrider"),
    ("manifests", "v1alpha1.Manifest"),
    ("matchFields", "v1.NodeSelectorRequirement"),
    ("metric", "v2.MetricIdentifier"),
    ("metrics", "v2.MetricSpec"),
    ("nodeClaim", "v1alpha2.NodeClaim"),
    ("nodeSelectorTerms", "v1.NodeSelectorTerm"),
    ("object", "v2.ObjectMetricSource"),
    ("overflowAffinities", "v1alpha1.OverflowClusterAffinity"),
    ("overriders", "v1alpha1.Overriders"),
    ("overrideRules", "v1alpha1.RuleWithCluster"),
    ("placement", "v1alpha1.Placement"),
    ("plaintext", "v1alpha1.PlaintextOverrider"),
    ("pods", "v2.PodsMetricSource"),
    ("policies", "v2.HPAScalingPolicy"),
    ("ports", "v1alpha1.ExposurePort"),
    ("predicate", "v1alpha1.ImagePredicate"),
    ("providerClusters", "v1alpha1.ClusterSelector"),
    ("range", "v1alpha1.ExposureRange"),
    ("replicaRequirements", "v1alpha2.ReplicaRequirements"),
    ("replicaScheduling", "v1alpha1.ReplicaSchedulingStrategy"),
    ("requiredBy", "v1alpha2.BindingSnapshot"),
    ("resourceSelectors", "v1alpha1.ResourceSelector"),
    ("rules", "v1alpha1.StatePreservationRule"),
    ("scaleDown", "v2.HPAScalingRules"),
    ("scaleTargetRef", "v2.CrossVersionObjectReference"),
    ("scaleUp", "v2.HPAScalingRules"),
    ("schedulePriority", "v1alpha1.SchedulePriority"),
    ("selector", "v1.LabelSelector"),
    ("spreadConstraints", "v1alpha1.SpreadConstraint"),
    ("statePreservation", "v1alpha1.StatePreservation"),
    ("staticWeightList", "v1alpha1.StaticClusterWeight"),
    ("suspension", "v1alpha1.Suspension"),
    ("target", "v2.MetricTarget"),
    ("targetCluster", "v1alpha1.ClusterAffinity"),
    ("tolerations", "v1.Toleration"),
    ("weightPreference", "v1alpha1.ClusterPreferences"),
    ("workload", "v1alpha1.WorkloadTemplate"),
    ("workloadAffinity", "v1alpha1.WorkloadAffinity"),
    ("workloadAffinityGroups", "v1alpha2.WorkloadAffinityGroups"),
    ("yaml", "v1alpha1.YAMLPatchOperation"),
];

/// Named string types.
const TEXTS: &[(&str, &str)] = &[
    ("activationPreference", "v1alpha1.ActivationPreference"),
    ("component", "v1alpha1.ImageComponent"),
    ("conflictResolution", "v1alpha1.ConflictResolution"),
    ("dynamicWeight", "v1alpha1.DynamicWeightFactor"),
    ("effect", "v1.TaintEffect"),
    ("preemption", "v1alpha1.PreemptionBehavior"),
    ("priorityClassSource", "v1alpha1.PriorityClassSource"),
    ("purgeMode", "v1alpha1.PurgeMode"),
    ("replicaDivisionPreference", "v1alpha1.ReplicaDivisionPreference"),
    ("replicaSchedulingType", "v1alpha1.ReplicaSchedulingType"),
    ("selectPolicy", "v2.ScalingPolicySelect"),
    ("spreadByField", "v1alpha1.SpreadFieldValue"),
    ("types", "v1alpha1.ExposureType"),
];

fn find(table: &'static [(&str, &str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == name).map(|(_, type_)| *type_)
}

/// The type of a field's value.
fn structure(path: &[&str]) -> Option<&'static str> {
    let (name, parent) = match path {
        [.., parent, name] => (*name, *parent),
        [name] => (*name, ""),
        [] => return None,
    };
    match (parent, name) {
        ("fieldSelector" | "nodeSelectorTerms", "matchExpressions") => Some("v1.NodeSelectorRequirement"),
        (_, "matchExpressions") => Some("v1.LabelSelectorRequirement"),
        ("spec", "resource") => Some("v1alpha2.ObjectReference"),
        (_, "resource") => Some("v2.ResourceMetricSource"),
        ("clusters", "components") => Some("v1alpha2.ComponentTarget"),
        ("components", "replicaRequirements") => Some("v1alpha2.ComponentReplicaRequirements"),
        _ => find(STRUCTS, name),
    }
}

/// The name of the struct that contains the field at the end of `path`, which starts with `spec`.
pub(super) fn holder(kind: &str, path: &[&str]) -> String {
    let above = path.split_last().map_or(&[][..], |(_, above)| above);
    match above {
        [] => kind.to_owned(),
        ["spec"] => spec(kind).to_owned(),
        above => structure(above).and_then(|name| name.split_once('.')).map_or("", |(_, name)| name).to_owned(),
    }
}

fn version(kind: &str) -> &'static str {
    if kind.ends_with("ResourceBinding") { "v1alpha2" } else { "v1alpha1" }
}

fn spec(kind: &str) -> &'static str {
    match kind {
        "PropagationPolicy" | "ClusterPropagationPolicy" => "PropagationSpec",
        "OverridePolicy" => "OverrideSpec",
        "ResourceBinding" | "ClusterResourceBinding" => "ResourceBindingSpec",
        "Work" => "WorkSpec",
        "FederatedHPA" => "FederatedHPASpec",
        _ => "MultiClusterServiceSpec",
    }
}

/// The type of the field at the end of `path`, or of an item in it.
pub(super) fn of(kind: &str, path: &[&str], schema: &Value, is_item: bool) -> String {
    match schema["type"].as_str() {
        Some("array") if !is_item => format!("[]{}", of(kind, path, &schema["items"], true)),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map[string]{}", of(kind, path, &schema["additionalProperties"], true))
        }
        Some("object") => structure(path).map_or_else(|| format!("{}.{}", version(kind), spec(kind)), str::to_owned),
        Some("boolean") => "bool".to_owned(),
        Some("integer") => schema["format"].as_str().unwrap_or("int").to_owned(),
        Some("number") => "float64".to_owned(),
        _ => text(path).to_owned(),
    }
}

fn text(path: &[&str]) -> &'static str {
    let name = path.last().copied().unwrap_or_default();
    if name != "operator" && name != "type" {
        return find(TEXTS, name).unwrap_or("string");
    }
    let above = path.split_last().map_or(&[][..], |(_, above)| above);
    match (structure(above).unwrap_or_default(), name) {
        ("v1.NodeSelectorRequirement", "operator") => "v1.NodeSelectorOperator",
        ("v1.LabelSelectorRequirement", "operator") => "v1.LabelSelectorOperator",
        ("v1.Toleration", "operator") => "v1.TolerationOperator",
        (_, "operator") => "v1alpha1.OverriderOperator",
        ("v2.MetricTarget", _) => "v2.MetricTargetType",
        ("v2.HPAScalingPolicy", _) => "v2.HPAScalingPolicyType",
        _ => "v2.MetricSourceType",
    }
}
