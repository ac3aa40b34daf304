//! Strategies of kinds as tables: generations, required resource versions, deletion of dependents and so on. Kinds
//! without a row have the defaults.

use apimachinery::names::{self, NameRule};
use apimachinery::resource::MetadataChecks;

/// The fields whose change raises `metadata.generation`; `None` for a kind without generations.
pub(crate) fn generation_of(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    match (group, kind) {
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            Some(&["webhooks"])
        }
        ("discovery.k8s.io", "EndpointSlice") => Some(&["addressType", "endpoints", "ports"]),
        ("scheduling.k8s.io", "PriorityClass") => Some(&[]),
        ("", "PodTemplate") => Some(&["template"]),
        ("", "Pod" | "ReplicationController")
        | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("batch", "CronJob" | "Job")
        | ("networking.k8s.io", "Ingress" | "IngressClass" | "NetworkPolicy")
        | ("policy", "PodDisruptionBudget")
        | ("apiextensions.k8s.io", "CustomResourceDefinition")
        | (
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicy"
            | "MutatingAdmissionPolicyBinding"
            | "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding",
        )
        | ("resource.k8s.io", "DeviceClass" | "ResourceSlice")
        | ("flowcontrol.apiserver.k8s.io", _) => Some(&["spec"]),
        _ => None,
    }
}

/// The metadata whose change raises `metadata.generation` as well. Controllers of Deployments copy annotations to
/// ReplicaSets, and readers of EndpointSlices select by labels.
pub(crate) fn metadata_of_generation(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("apps", "Deployment") => Some("annotations"),
        ("discovery.k8s.io", "EndpointSlice") => Some("labels"),
        _ => None,
    }
}

/// Whether a PUT requires a resourceVersion.
pub(crate) fn requires_version(group: &str, kind: &str) -> bool {
    match group {
        "admissionregistration.k8s.io" | "apiregistration.k8s.io" | "coordination.k8s.io" => true,
        "policy" => kind == "PodDisruptionBudget",
        "node.k8s.io" => kind == "RuntimeClass",
        "storage.k8s.io" => matches!(kind, "CSIDriver" | "CSINode" | "CSIStorageCapacity" | "VolumeAttachment"),
        "certificates.k8s.io" => kind == "ClusterTrustBundle",
        _ => false,
    }
}

/// Whether a DELETE returns the deleted object.
pub(crate) fn returns_deleted(group: &str, kind: &str) -> bool {
    match group {
        "" => matches!(
            kind,
            "PersistentVolume"
                | "PersistentVolumeClaim"
                | "Pod"
                | "PodTemplate"
                | "ResourceQuota"
                | "Service"
                | "ServiceAccount"
        ),
        "resource.k8s.io" => {
            matches!(kind, "DeviceClass" | "ResourceClaim" | "ResourceClaimTemplate" | "ResourceSlice")
        }
        "storage.k8s.io" => {
            matches!(kind, "CSIDriver" | "CSINode" | "StorageClass" | "VolumeAttachment" | "VolumeAttributesClass")
        }
        _ => false,
    }
}

/// Whether a PUT of an absent object creates it.
pub(crate) fn creates_on_update(group: &str, kind: &str) -> bool {
    match group {
        "" => matches!(kind, "Endpoints" | "Event" | "LimitRange" | "Service"),
        "events.k8s.io" => kind == "Event",
        "coordination.k8s.io" | "rbac.authorization.k8s.io" => true,
        "node.k8s.io" => kind == "RuntimeClass",
        _ => false,
    }
}

/// Names of services, namespaces and stateful sets become DNS labels; names of roles are only path segments.
pub(crate) fn name_rule(group: &str, kind: &str) -> NameRule {
    match (group, kind) {
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => names::label_rule,
        ("rbac.authorization.k8s.io" | "flowcontrol.apiserver.k8s.io", _) => names::path_segment_rule,
        ("apiregistration.k8s.io", "APIService") => names::path_segment_rule,
        // Only through events.k8s.io the name has to be a DNS subdomain.
        ("", "Event") => names::path_segment_rule,
        // Validated with the rest of the object.
        ("networking.k8s.io", "IPAddress") | ("storage.k8s.io", "CSIDriver") => names::path_segment_rule,
        _ => names::subdomain_rule,
    }
}

/// The metadata checks that kinds repeat on update. Kinds without a row check immutable fields only.
pub(crate) fn metadata_checks(group: &str, kind: &str) -> MetadataChecks {
    let (changes, whole) = match (group, kind) {
        ("", "ConfigMap" | "Secret" | "Service" | "ServiceAccount" | "Endpoints" | "PersistentVolumeClaim")
        | ("", "LimitRange" | "PodTemplate" | "ResourceQuota")
        | ("rbac.authorization.k8s.io", _)
        | ("certificates.k8s.io", _)
        | ("apiregistration.k8s.io", _)
        | ("discovery.k8s.io", "EndpointSlice") => (true, true),
        ("", "PersistentVolume") | ("admissionregistration.k8s.io", _) => (false, true),
        ("policy", "PodDisruptionBudget") => (false, false),
        _ => (true, false),
    };
    MetadataChecks { changes, whole }
}

/// Kinds whose status is independent of the rest of the object: neither defaulting nor validation reads both.
pub(crate) fn has_status_alone(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("networking.k8s.io", "Ingress")
    )
}

/// Kinds whose labels, annotations and finalizers are independent of the rest of the object: neither defaulting nor
/// validation reads both.
pub(crate) fn has_metadata_alone(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") | ("", "ConfigMap" | "Secret"))
}

/// The metadata fields that a write to `/status` may change besides the status.
pub(crate) fn status_metadata(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        (
            "admissionregistration.k8s.io"
            | "apiregistration.k8s.io"
            | "flowcontrol.apiserver.k8s.io"
            | "resource.k8s.io",
            _,
        )
        | ("networking.k8s.io", "ServiceCIDR")
        | ("storage.k8s.io", "VolumeAttachment") => &[],
        ("apps", "Deployment") => &["annotations", "finalizers", "ownerReferences"],
        ("", "Pod") => &["annotations", "finalizers", "labels"],
        _ => &["annotations", "finalizers", "labels", "ownerReferences"],
    }
}

/// Whether dependents are orphaned by a deletion without a propagation policy.
pub(crate) fn orphans(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("batch", "Job") | ("", "ReplicationController"))
}
