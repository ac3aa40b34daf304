//! Labels and annotations for all resources, in selectors and templates too.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{Kinds, visit};
use super::resource::Resource;

/// The fields that get labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    Metadata,
    /// And the templates of workloads.
    Templates,
    /// And selectors.
    All,
}

const CREATE: bool = true;
const ONLY_IF_PRESENT: bool = false;

/// The metadata of templates, without `/labels` or `/annotations`.
const TEMPLATES: [(Kinds, &str); 8] = [
    (Kinds("", "v1", "ReplicationController"), "spec/template/metadata"),
    (Kinds("", "", "Deployment"), "spec/template/metadata"),
    (Kinds("", "", "ReplicaSet"), "spec/template/metadata"),
    (Kinds("", "", "DaemonSet"), "spec/template/metadata"),
    (Kinds("apps", "", "StatefulSet"), "spec/template/metadata"),
    (Kinds("batch", "", "Job"), "spec/template/metadata"),
    (Kinds("batch", "", "CronJob"), "spec/jobTemplate/metadata"),
    (Kinds("batch", "", "CronJob"), "spec/jobTemplate/spec/template/metadata"),
];

const CLAIMS: (Kinds, &str) = (Kinds("apps", "", "StatefulSet"), "spec/volumeClaimTemplates[]/metadata/labels");

const SELECTORS: [(Kinds, &str, bool); 12] = [
    (Kinds("", "v1", "Service"), "spec/selector", CREATE),
    (Kinds("", "v1", "ReplicationController"), "spec/selector", CREATE),
    (Kinds("", "", "Deployment"), "spec/selector/matchLabels", CREATE),
    (Kinds("", "", "ReplicaSet"), "spec/selector/matchLabels", CREATE),
    (Kinds("", "", "DaemonSet"), "spec/selector/matchLabels", CREATE),
    (Kinds("apps", "", "StatefulSet"), "spec/selector/matchLabels", CREATE),
    (Kinds("batch", "", "Job"), "spec/selector/matchLabels", ONLY_IF_PRESENT),
    (Kinds("batch", "", "CronJob"), "spec/jobTemplate/spec/selector/matchLabels", ONLY_IF_PRESENT),
    (Kinds("policy", "", "PodDisruptionBudget"), "spec/selector/matchLabels", ONLY_IF_PRESENT),
    (Kinds("networking.k8s.io", "", "NetworkPolicy"), "spec/podSelector/matchLabels", ONLY_IF_PRESENT),
    (Kinds("networking.k8s.io", "", "NetworkPolicy"), "spec/ingress/from/podSelector/matchLabels", ONLY_IF_PRESENT),
    (Kinds("networking.k8s.io", "", "NetworkPolicy"), "spec/egress/to/podSelector/matchLabels", ONLY_IF_PRESENT),
];

/// Selectors of other pods, in the templates of these workloads.
const SPREADING: [Kinds; 2] = [Kinds("apps", "", "Deployment"), Kinds("apps", "", "StatefulSet")];
const SPREAD: [&str; 5] = [
    "spec/template/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels",
    "spec/template/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels",
    "spec/template/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels",
    "spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels",
    "spec/template/spec/topologySpreadConstraints/labelSelector/matchLabels",
];

pub fn label(pairs: &BTreeMap<String, String>, parts: Parts, resources: &mut [Resource]) {
    for resource in resources.iter_mut().filter(|_| !pairs.is_empty()) {
        let gvk = resource.gvk();
        let object = &mut resource.object;
        put(object, "metadata/labels", CREATE, pairs);
        if parts == Parts::Metadata {
            continue;
        }
        for (_, path) in TEMPLATES.iter().filter(|(kinds, _)| kinds.includes(&gvk)) {
            put(object, &format!("{path}/labels"), CREATE, pairs);
        }
        if CLAIMS.0.includes(&gvk) {
            put(object, CLAIMS.1, CREATE, pairs);
        }
        if parts == Parts::Templates {
            continue;
        }
        for (_, path, create) in SELECTORS.iter().filter(|(kinds, ..)| kinds.includes(&gvk)) {
            put(object, path, *create, pairs);
        }
        if SPREADING.iter().any(|kinds| kinds.includes(&gvk)) {
            SPREAD.iter().for_each(|path| put(object, path, ONLY_IF_PRESENT, pairs));
        }
    }
}

pub fn annotate(pairs: &BTreeMap<String, String>, resources: &mut [Resource]) {
    for resource in resources.iter_mut().filter(|_| !pairs.is_empty()) {
        let gvk = resource.gvk();
        put(&mut resource.object, "metadata/annotations", CREATE, pairs);
        for (_, path) in TEMPLATES.iter().filter(|(kinds, _)| kinds.includes(&gvk)) {
            put(&mut resource.object, &format!("{path}/annotations"), CREATE, pairs);
        }
    }
}

fn put(object: &mut Value, path: &str, create: bool, pairs: &BTreeMap<String, String>) {
    visit(object, path, create, &mut |at| {
        if let Value::Object(map) = at {
            map.extend(pairs.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))));
        }
    });
}
