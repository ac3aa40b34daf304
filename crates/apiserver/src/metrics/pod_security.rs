//! The metrics of the plugin `PodSecurity`, with kube-apiserver's names.

use metrics::Description;

pub const EVALUATIONS: Description = Description::counter(
    "pod_security_evaluations_total",
    &["decision", "policy_level", "policy_version", "mode", "request_operation", "resource", "subresource"],
    "Evaluated policies of namespaces by decision (allow, deny); modes audit and warn count violations only.",
);
pub const EXEMPTIONS: Description = Description::counter(
    "pod_security_exemptions_total",
    &["request_operation", "resource", "subresource"],
    "Requests that are exempt from the policies of their namespace.",
);
pub const ERRORS: Description = Description::counter(
    "pod_security_errors_total",
    &["fatal", "request_operation", "resource", "subresource"],
    "Errors that prevented an evaluation (fatal), or replaced an invalid policy by the restricted one.",
);
