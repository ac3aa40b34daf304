//! `AuthorizationConfiguration` of `apiserver.config.k8s.io`, and the conditions under which a webhook is called.

mod conditions;
mod validation;

use std::time::Duration;

pub use apimachinery::configuration::ConfigurationError;
use apimachinery::configuration::FileKind;
use apimachinery::selector::{FieldOperator, FieldSelector, Operator, Selector};
use apiserver::auth::authz::{Attributes, ResourceAttributes};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use transport::Identity;

use crate::reviews::Version;
pub use conditions::Condition;

const KIND: FileKind = FileKind {
    api_versions: &[
        "apiserver.config.k8s.io/v1",
        "apiserver.config.k8s.io/v1beta1",
        "apiserver.config.k8s.io/v1alpha1",
    ],
    kind: "AuthorizationConfiguration",
};

/// A valid configuration: the authorizers in order.
#[derive(Debug)]
pub struct Configuration {
    /// At least one.
    pub authorizers: Vec<Authorizer>,
}

/// One authorizer.
#[derive(Debug)]
pub enum Authorizer {
    /// Roles and bindings.
    Rbac,
    /// For kubelets; a control plane has none, so this mode has no opinion on any request.
    Node,
    /// Every request.
    AlwaysAllow,
    /// No request.
    AlwaysDeny,
    /// Another program.
    Webhook(Webhook),
}

/// The settings of a webhook.
#[derive(Debug)]
pub struct Webhook {
    /// In logs; unique.
    pub name: String,
    /// How long an answer that allows is valid; zero if not at all.
    pub authorized_ttl: Duration,
    /// How long another answer is valid.
    pub unauthorized_ttl: Duration,
    /// The timeout of a review with all its attempts.
    pub timeout: Duration,
    /// The version of the reviews.
    pub version: Version,
    /// Whether the next authorizer decides a request without a response.
    pub failure_policy: FailurePolicy,
    /// The kubeconfig; `None` is the service account of the pod.
    pub kubeconfig: Option<String>,
    /// Requests for which one is false are not reviewed.
    pub conditions: Vec<Condition>,
}

/// The effect of a review without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The next authorizer decides.
    NoOpinion,
    /// The request is refused.
    Deny,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    authorizers: Vec<AuthorizerDocument>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct AuthorizerDocument {
    #[serde(rename = "type")]
    type_: String,
    name: String,
    webhook: Option<WebhookDocument>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WebhookDocument {
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: Option<String>,
    cache_authorized_requests: Option<bool>,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: Option<String>,
    cache_unauthorized_requests: Option<bool>,
    timeout: Option<String>,
    subject_access_review_version: String,
    match_condition_subject_access_review_version: String,
    failure_policy: String,
    connection_info: Connection,
    match_conditions: Vec<ConditionDocument>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Connection {
    #[serde(rename = "type")]
    type_: String,
    kube_config_file: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ConditionDocument {
    expression: String,
}

impl Configuration {
    /// Reads a configuration file, YAML or JSON.
    ///
    /// # Errors
    /// If it is not an AuthorizationConfiguration or has invalid fields.
    pub fn parse(file: &[u8]) -> Result<Self, ConfigurationError> {
        let document: Document = serde_json::from_value(KIND.read(file)?).map_err(ConfigurationError::undecodable)?;
        validation::compile(document).map_err(|errors| ConfigurationError::invalid(&errors))
    }
}

/// `spec` of a SubjectAccessReview about a request.
pub(crate) fn spec_of(user: &Identity, attributes: &Attributes, version: Version) -> Value {
    let mut spec = Map::new();
    match attributes {
        Attributes::Resource(requested) => {
            spec.insert("resourceAttributes".into(), resource(requested, version));
        }
        Attributes::Path { verb, path } => {
            spec.insert("nonResourceAttributes".into(), json!({"path": path, "verb": verb}));
        }
    }
    spec.insert("user".into(), user.user.clone().into());
    if !user.groups.is_empty() {
        // The older version has the singular.
        let name = if version == Version::V1 { "groups" } else { "group" };
        spec.insert(name.into(), json!(user.groups));
    }
    if !user.uid.is_empty() {
        spec.insert("uid".into(), user.uid.clone().into());
    }
    if !user.extra.is_empty() {
        let extra: Map<String, Value> = user.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
        spec.insert("extra".into(), extra.into());
    }
    spec.into()
}

fn resource(requested: &ResourceAttributes, version: Version) -> Value {
    let fields = [
        ("namespace", &requested.namespace),
        ("verb", &requested.verb),
        ("group", &requested.group),
        ("version", &requested.version),
        ("resource", &requested.resource),
        ("subresource", &requested.subresource),
        ("name", &requested.name),
    ];
    let present = fields.into_iter().filter(|(_, text)| !text.is_empty());
    let mut found: Map<String, Value> = present.map(|(name, text)| (name.to_owned(), text.as_str().into())).collect();
    if let Some(selectors) = requested.selectors.as_ref().filter(|_| version == Version::V1) {
        let lists = [("fieldSelector", fields_of(&selectors.field)), ("labelSelector", labels_of(&selectors.label))];
        for (name, requirements) in lists {
            if !requirements.is_empty() {
                found.insert(name.to_owned(), json!({ "requirements": requirements }));
            }
        }
    }
    found.into()
}

/// The requirements of a field selector; empty for an invalid one, for which the request is refused anyway.
fn fields_of(text: &str) -> Vec<Value> {
    let Ok(selector) = FieldSelector::parse(text) else { return Vec::new() };
    let requirement = |(key, operator, value): &(String, FieldOperator, String)| {
        let operator = if *operator == FieldOperator::Equals { "In" } else { "NotIn" };
        json!({"key": key, "operator": operator, "values": [value]})
    };
    selector.requirements().iter().map(requirement).collect()
}

fn labels_of(text: &str) -> Vec<Value> {
    let Ok(selector) = Selector::parse(text) else { return Vec::new() };
    let requirement = |it: &apimachinery::selector::Requirement| {
        let operator = match it.operator() {
            Operator::Equals | Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            // The reviews cannot express the others.
            _ => return None,
        };
        let mut requirement = json!({"key": it.key(), "operator": operator});
        if !it.values().is_empty() {
            requirement["values"] = json!(it.values());
        }
        Some(requirement)
    };
    selector.requirements().iter().filter_map(requirement).collect()
}
