//! The rules of admission as functions of the request: defaults and validation.
//!
//! The rules draw no UUIDs and read no other objects; the [`Request`] contains their input.

mod autoscaling;
mod cron;
mod deletion;
mod go_types;
mod interpreters;
mod mutating;
mod network;
mod overrides;
mod policies;
pub mod quota_usage;
mod quotas;
mod schedule;
pub mod secrets;
mod taints;
mod typed;
mod warnings;
pub mod webhooks;

use apimachinery::field::ErrorList;
use apimachinery::status::{Status, StatusReason};
use serde_json::Value;

pub use mutating::{keep_binding, mutate};
pub(crate) use policies::fields as field_selector;
pub use typed::{decodes, encoded};
pub use warnings::{Place, Row, WARNINGS, Written, changes_intent, warnings};
pub use webhooks::webhook;

/// The operation of an admission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is replaced or patched.
    Update,
    /// An object is deleted.
    Delete,
}

impl Operation {
    /// The value in an AdmissionReview.
    pub fn wire(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }

    /// Parses the value in an AdmissionReview.
    pub fn from_wire(text: &str) -> Option<Self> {
        [Self::Create, Self::Update, Self::Delete].into_iter().find(|it| it.wire() == text)
    }
}

/// The input of a rule besides the object.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The operation.
    pub operation: Operation,
    /// The API group of the kind; empty for the core group.
    pub group: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// Empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The stored object, on update and delete.
    pub old: Option<&'a Value>,
    /// A new UUID (version 4), used for an object's permanent id.
    pub uuid: &'a str,
    /// All stored ResourceInterpreterCustomizations, when one is validated.
    pub customizations: &'a [Value],
    /// The capabilities that the administrator enabled.
    pub options: Options,
}

/// Returns the compiler's error.
pub type CompileScript = fn(&str) -> Result<(), String>;

/// Capabilities that the administrator enables.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// `--allow-no-execute-taint-policy`.
    pub allow_no_execute_taint_policy: bool,
    /// Feature gate MultiplePodTemplatesScheduling.
    pub multiple_pod_templates: bool,
    /// Feature gate FederatedQuotaEnforcement.
    pub quota_enforcement: bool,
    /// Feature gate PropagationPolicyPreemption.
    pub preemption: bool,
    /// Feature gate WorkloadAffinity.
    pub workload_affinity: bool,
    /// Feature gate Failover.
    pub failover: bool,
    /// Whether NoExecute taints evict, if this process can tell: only `karmada up` has the controller manager's flags.
    pub no_execute_eviction: bool,
    /// Feature gate StatefulFailoverInjection.
    pub stateful_failover: bool,
    /// Feature gate MultiClusterService.
    pub multi_cluster_service: bool,
    /// Feature gate HPAScaleToZero.
    pub scale_to_zero: bool,
    /// `--allow-http-member-endpoints`: allows Clusters with an `http://` endpoint.
    pub allow_http_endpoints: bool,
    /// Compiles a script of a customization without running it; the error is the compiler's. `None` accepts every
    /// script.
    pub compile_script: Option<CompileScript>,
}

/// Why a request is denied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Denied {
    /// A rule that concerns no single field.
    #[error("{0}")]
    Rule(String),
    /// Field errors.
    #[error("{}", text(.0))]
    Fields(ErrorList),
    /// The object cannot be decoded as its kind.
    #[error("{0}")]
    Undecodable(String),
    /// A quota of the namespace would be exceeded.
    #[error("{0}")]
    QuotaExceeded(String),
    /// A rule could not be evaluated.
    #[error("{0}")]
    Failed(String),
}

impl Denied {
    /// The code, reason and message of a webhook's response. Only denials by a rule have a reason.
    pub fn answer(&self) -> (u16, &'static str, String) {
        let (code, reason) = match self {
            Self::Undecodable(_) => (400, ""),
            Self::Rule(_) | Self::Fields(_) => (403, "Forbidden"),
            Self::QuotaExceeded(_) => (403, "QuotaExceeded"),
            Self::Failed(_) => (500, ""),
        };
        (code, reason, self.to_string())
    }

    /// The Status for the client; `webhook` is the name of the webhook with these rules upstream.
    pub fn to_status(&self, webhook: &str) -> Status {
        let (code, reason, message) = self.answer();
        let message = format!("admission webhook \"{webhook}\" denied the request: {message}");
        let mut status = Status::failure(StatusReason::Forbidden, message);
        status.code = code;
        status.reason = reason.into();
        status
    }

    /// `Ok` without errors.
    fn unless_empty(errors: ErrorList) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self::Fields(errors)) }
    }
}

/// Several errors are listed, each message once.
fn text(errors: &ErrorList) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Validates an object after mutation and schema validation. On delete, `object` is the stored one.
///
/// # Errors
/// Why the request is denied.
pub fn validate(request: &Request<'_>, object: &Value) -> Result<(), Denied> {
    if request.operation == Operation::Delete {
        return deletion::validate(object);
    }
    match (request.group, request.kind) {
        ("policy.karmada.io", "PropagationPolicy" | "ClusterPropagationPolicy") => policies::validate(request, object),
        ("policy.karmada.io", "OverridePolicy" | "ClusterOverridePolicy") => overrides::validate(request, object),
        ("policy.karmada.io", "ClusterTaintPolicy") => taints::validate(request, object),
        ("policy.karmada.io", "FederatedResourceQuota") => quotas::validate(object),
        ("work.karmada.io", "ResourceBinding") => bindings(request, object),
        ("autoscaling.karmada.io", "FederatedHPA") => autoscaling::validate(request, object),
        ("autoscaling.karmada.io", "CronFederatedHPA") => cron::validate(object),
        ("networking.karmada.io", "MultiClusterIngress") => network::ingress(request, object),
        ("networking.karmada.io", "MultiClusterService") => network::service(request, object),
        ("config.karmada.io", "ResourceInterpreterWebhookConfiguration") => interpreters::webhooks(object),
        ("config.karmada.io", "ResourceInterpreterCustomization") => interpreters::customization(request, object),
        _ => Ok(()),
    }
}

fn bindings(request: &Request<'_>, object: &Value) -> Result<(), Denied> {
    use apimachinery::field::{Error, Path};

    use crate::config::v1alpha1::DependentObjectReference;
    use crate::constants::annotations::DEPENDENCIES;

    let mut errors = ErrorList::new();
    if let Some(text) = object["metadata"]["annotations"][DEPENDENCIES].as_str()
        && serde_json::from_str::<Option<Vec<Option<DependentObjectReference>>>>(text).is_err()
    {
        let path = Path::new("metadata").child("annotations").child(DEPENDENCIES);
        errors.push(Error::invalid(&path, text, "annotation value must be a valid JSON"));
    }
    if request.options.multiple_pod_templates {
        let mut seen = std::collections::BTreeSet::new();
        let components = object["spec"]["components"].as_array().map_or(&[][..], Vec::as_slice);
        for (index, component) in components.iter().enumerate() {
            let name = component["name"].as_str().unwrap_or_default();
            let path = Path::new("spec").child("components").index(index).child("name");
            if name.is_empty() {
                errors.push(Error::invalid(&path, name, "component names must be non-empty"));
            } else if !seen.insert(name) {
                errors.push(Error::invalid(&path, name, "component names must be unique"));
            }
        }
    }
    Denied::unless_empty(errors)
}

/// Decodes an object as its type. The schema is validated before, so this fails only for callers without schemas.
fn decode<'a, T: serde::Deserialize<'a>>(object: &'a Value) -> Result<T, Denied> {
    T::deserialize(object).map_err(|error| Denied::Undecodable(error.to_string()))
}
