//! Schemas of foreign types: markers for `#[schemars(with = "...")]`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

macro_rules! marker {
    ($(#[$doc:meta])* $name:ident, $schema:expr) => {
        $(#[$doc])*
        pub struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                Schema::try_from($schema).expect("the schema is an object")
            }
        }
    };
}

/// The pattern of a qualified name (the type of a condition).
const QUALIFIED: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

marker!(
    /// ObjectMeta: the API server has its schema.
    ObjectMeta,
    json!({ "type": "object" })
);

marker!(
    /// A time of RFC 3339.
    Time,
    json!({ "type": "string", "format": "date-time" })
);

marker!(
    /// Any JSON, including scalars.
    AnyValue,
    json!({ "x-kubernetes-preserve-unknown-fields": true })
);

marker!(
    /// `meta/v1.LabelSelector`.
    LabelSelector,
    json!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {
                "description": "Requirements that must all hold.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "description": "The label key.", "type": "string" },
                        "operator": { "description": "In, NotIn, Exists or DoesNotExist.", "type": "string" },
                        "values": {
                            "description": "The values of In and NotIn.",
                            "type": "array",
                            "x-kubernetes-list-type": "atomic",
                            "items": { "type": "string" },
                        },
                    },
                },
            },
            "matchLabels": {
                "description": "Labels that must all be present with these values.",
                "type": "object",
                "additionalProperties": { "type": "string" },
            },
        },
    })
);

marker!(
    /// `meta/v1.Condition`.
    Condition,
    json!({
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": {
                "description": "When the status last changed.", "type": "string", "format": "date-time",
            },
            "message": { "description": "Details for humans.", "type": "string", "maxLength": 32768 },
            "observedGeneration": {
                "description": "The generation the condition was set for.",
                "type": "integer", "format": "int64", "minimum": 0,
            },
            "reason": {
                "description": "Why the condition has this status, as one word.",
                "type": "string", "minLength": 1, "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
            "status": { "description": "True, False or Unknown.", "type": "string", "enum": ["True", "False", "Unknown"] },
            "type": { "description": "Type of the condition.", "type": "string", "maxLength": 316, "pattern": QUALIFIED },
        },
    })
);

/// Parses an embedded schema.
fn embedded(text: &str) -> Value {
    serde_json::from_str(text).expect("the embedded schemas are valid JSON; a test reads them all")
}

marker!(
    /// A list of `autoscaling/v2.MetricSpec`.
    MetricSpecs,
    embedded(include_str!("embedded/metric-specs.json"))
);
marker!(
    /// A list of `autoscaling/v2.MetricStatus`.
    MetricStatuses,
    embedded(include_str!("embedded/metric-statuses.json"))
);
marker!(
    /// `autoscaling/v2.HorizontalPodAutoscalerBehavior`.
    HpaBehavior,
    embedded(include_str!("embedded/hpa-behavior.json"))
);
marker!(
    /// `networking/v1.IngressSpec`.
    IngressSpec,
    embedded(include_str!("embedded/ingress-spec.json"))
);
marker!(
    /// The status of a MultiClusterIngress.
    MultiClusterIngressStatus,
    embedded(include_str!("embedded/multi-cluster-ingress-status.json"))
);
