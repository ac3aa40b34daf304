//! How the API server treats the kinds: which keep a generation, which updates need a version, what becomes of dependents.
//! Kinds that are not named have a plain life.

/// The parts of a kind's object whose change raises `metadata.generation`; `None` for a kind that keeps none.
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
        | ("flowcontrol.apiserver.k8s.io", _) => Some(&["spec"]),
        _ => None,
    }
}

/// Whether a PUT has to say which version it is based on.
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

/// Whether a PUT of what is not there creates it.
pub(crate) fn creates_on_update(group: &str, kind: &str) -> bool {
    match group {
        "" => matches!(kind, "Endpoints" | "Event" | "LimitRange" | "Service"),
        "events.k8s.io" => kind == "Event",
        "coordination.k8s.io" | "rbac.authorization.k8s.io" => true,
        "node.k8s.io" => kind == "RuntimeClass",
        _ => false,
    }
}

/// Whether dependents outlive an owner whose deletion does not say otherwise.
pub(crate) fn orphans(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("batch", "Job") | ("", "ReplicationController"))
}
