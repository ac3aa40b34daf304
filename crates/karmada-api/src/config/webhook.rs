//! ResourceInterpreterWebhookConfiguration.

use apimachinery::meta::{ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;

crate::api_type!(
    ResourceInterpreterWebhookConfiguration,
    "config.karmada.io",
    "v1alpha1",
    "resourceinterpreterwebhookconfigurations",
    false
);

/// Configures webhooks that interpret resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceInterpreterWebhookConfiguration {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// The webhooks; their names are unique.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub webhooks: Vec<ResourceInterpreterWebhook>,
}

/// One webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceInterpreterWebhook {
    /// How the webhook is reached: exactly one of url and service.
    #[schemars(extend("x-required" = true))]
    pub client_config: WebhookClientConfig,
    /// Versions of the ResourceInterpreterContext that the webhook supports, in order of preference. Must contain
    /// `v1alpha1`.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub interpreter_context_versions: Vec<String>,
    /// Name of the webhook: a domain name with at least two segments, such as workloads.example.com.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Kinds and operations to send to the webhook; one matching rule suffices.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub rules: Vec<RuleWithOperations>,
    /// Time-out in seconds, 1 to 30. Absent: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
}

/// How the webhook is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookClientConfig {
    /// PEM certificates (base64) of the authorities that signed the server's certificate. Absent: the system roots.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("format" = "byte"))]
    pub ca_bundle: String,
    /// The Service of the webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,
    /// The address, `https://host:port/path`. Either this or service is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The Service of a webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceReference {
    /// Name of the Service.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Namespace of the Service.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub namespace: String,
    /// Path of the request, beginning with a slash. Absent: /.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Port of the Service. Absent: 443.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// Kinds and operations that the webhook handles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleWithOperations {
    /// API groups of the objects, or `*` alone for all; an empty string is the core group.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub api_groups: Vec<String>,
    /// API versions of the objects, or `*` alone for all.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub api_versions: Vec<String>,
    /// Kinds of the objects, or `*` alone for all.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kinds: Vec<String>,
    /// `*` alone or any of InterpretReplica, InterpretComponent, ReviseReplica, InterpretStatus, Retain,
    /// AggregateStatus, InterpretHealth, InterpretDependency.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub operations: Vec<String>,
}
