//! Prints a whole value in an error: the JSON of upstream's typed objects, with fields in the order of their
//! declaration and without empty ones.

use apimachinery::field::{Error, Path, json_of_go};
use serde::Serialize;
use serde_json::Value;

/// The fields of the printed types, so that each type's fields are in its order. No two types conflict.
const ORDER: &[&str] = &[
    "clusterAffinity",
    "clusterAffinities",
    "clusterTolerations",
    "spreadConstraints",
    "replicaScheduling",
    "workloadAffinity",
    "affinityName",
    "matchLabels",
    "labelSelector",
    "fieldSelector",
    "clusterNames",
    "exclude",
    "overflowAffinities",
    "matchExpressions",
    "replicaSchedulingType",
    "replicaDivisionPreference",
    "weightPreference",
    "staticWeightList",
    "dynamicWeight",
    "targetCluster",
    "weight",
    "spreadByField",
    "spreadByLabel",
    "maxGroups",
    "minGroups",
    "plaintext",
    "imageOverrider",
    "commandOverrider",
    "argsOverrider",
    "labelsOverrider",
    "annotationsOverrider",
    "fieldOverrider",
    "fieldPath",
    "json",
    "yaml",
    "predicate",
    "component",
    "containerName",
    "subPath",
    "path",
    "key",
    "operator",
    "value",
    "values",
    "effect",
    "tolerationSeconds",
    "timeAdded",
];

/// Maps, whose keys are sorted.
const MAPS: &[&str] = &["matchLabels", "value"];

/// An error about a whole value.
pub(crate) fn invalid(path: &Path, value: &impl Serialize, detail: impl Into<String>) -> Error {
    let value = serde_json::to_value(value).unwrap_or_default();
    let text = text(&value);
    Error::invalid(path, value, detail).shown_as(text)
}

/// The JSON of a value in the order of its types.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let named = ORDER.iter().filter_map(|name| map.get_key_value(*name));
            let rest = map.iter().filter(|(name, _)| !ORDER.contains(&name.as_str()));
            let members = named.chain(rest).map(|(name, value)| {
                let shown = if MAPS.contains(&name.as_str()) { json_of_go(value) } else { text(value) };
                format!("{}:{shown}", json_of_go(&Value::from(name.as_str())))
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        scalar => json_of_go(scalar),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_in_the_order_of_their_types() {
        for (value, expected) in [
            (json!([{"minGroups": 1, "spreadByField": "zone"}]), r#"[{"spreadByField":"zone","minGroups":1}]"#),
            (
                json!({"clusterNames": ["m"], "affinityName": "a", "labelSelector": {"matchExpressions": [], "matchLabels": {"key": "k", "a": "<"}}}),
                r#"{"affinityName":"a","labelSelector":{"matchLabels":{"a":"\u003c","key":"k"},"matchExpressions":[]},"clusterNames":["m"]}"#,
            ),
            (
                json!({"operator": "add", "path": "/a", "value": {"path": 1, "b": 2}}),
                r#"{"path":"/a","operator":"add","value":{"b":2,"path":1}}"#,
            ),
        ] {
            assert_eq!(text(&value), expected);
        }
    }
}
