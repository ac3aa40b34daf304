//! OpenAPI documents of the group versions: for `kubectl explain`, and for clients that validate.

use serde_json::{Map, Value, json};

use crate::groups::{CUSTOM, EXTERNAL, GroupVersion, RESOURCE};

/// The form of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `/openapi/v2`
    V2,
    /// `/openapi/v3/apis/GROUP/VERSION`
    V3,
}

/// A field: its name, its type and its description.
type Field = (&'static str, Value, &'static str);

fn string() -> Value {
    json!({"type": "string"})
}

fn integer() -> Value {
    json!({"type": "integer", "format": "int64"})
}

fn free_map() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn list_of(name: &str) -> Value {
    json!({"type": "array", "items": {"$ref": name}})
}

/// Name, kind if it is one of the API, description, fields. References are names.
type Schema = (&'static str, Option<&'static str>, &'static str, Vec<Field>);

/// A kind that lists others.
fn list_kind(kind: &'static str, description: &'static str, of: &str, items: &'static str) -> Schema {
    let fields =
        vec![("metadata", json!({"type": "object"}), "Standard list metadata."), ("items", list_of(of), items)];
    (kind, Some(kind), description, fields)
}

/// The schemas of a group.
fn schemas(version: GroupVersion) -> Vec<Schema> {
    let usage = || free_map();
    match version.group {
        RESOURCE => vec![
            (
                "ContainerMetrics",
                None,
                "Usage of a container.",
                vec![("name", string(), "Name of the container."), ("usage", usage(), "Usage by resource.")],
            ),
            (
                "PodMetrics",
                Some("PodMetrics"),
                "Usage of the containers of a pod.",
                vec![
                    (
                        "metadata",
                        json!({"type": "object"}),
                        "Standard object's metadata; an annotation names the cluster.",
                    ),
                    ("timestamp", time(), "End of the measurement."),
                    ("window", string(), "Time over which the usage was measured."),
                    ("containers", list_of("ContainerMetrics"), "Usage of all containers."),
                ],
            ),
            list_kind("PodMetricsList", "List of PodMetrics.", "PodMetrics", "The pods of all clusters."),
            (
                "NodeMetrics",
                Some("NodeMetrics"),
                "Usage of a node.",
                vec![
                    (
                        "metadata",
                        json!({"type": "object"}),
                        "Standard object's metadata; an annotation names the cluster.",
                    ),
                    ("timestamp", time(), "End of the measurement."),
                    ("window", string(), "Time over which the usage was measured."),
                    ("usage", usage(), "Usage by resource."),
                ],
            ),
            list_kind("NodeMetricsList", "List of NodeMetrics.", "NodeMetrics", "The nodes of all clusters."),
        ],
        CUSTOM => vec![
            (
                "MetricValue",
                None,
                "The value of a metric for an object, added up over the clusters.",
                vec![
                    ("describedObject", json!({"type": "object"}), "The object."),
                    ("timestamp", time(), "End of the measurement."),
                    ("value", string(), "The value, a quantity."),
                ],
            ),
            list_kind("MetricValueList", "List of values of a metric.", "MetricValue", "The values."),
        ],
        _ => vec![
            (
                "ExternalMetricValue",
                None,
                "A value of a metric in one cluster.",
                vec![
                    ("metricName", string(), "Name of the metric."),
                    ("metricLabels", free_map(), "Labels of the series, and that of the cluster."),
                    ("timestamp", time(), "End of the measurement."),
                    ("window", integer(), "Seconds over which the value was measured."),
                    ("value", string(), "The value, a quantity."),
                ],
            ),
            list_kind(
                "ExternalMetricValueList",
                "List of values of a metric.",
                "ExternalMetricValue",
                "The values of all clusters.",
            ),
        ],
    }
}

/// The paths below the group version with their actions and kinds.
fn paths(version: GroupVersion) -> Vec<(&'static str, &'static str, &'static str)> {
    match version.group {
        RESOURCE => vec![
            ("/nodes", "list", "NodeMetricsList"),
            ("/nodes/{name}", "get", "NodeMetrics"),
            ("/pods", "list", "PodMetricsList"),
            ("/namespaces/{namespace}/pods", "list", "PodMetricsList"),
            ("/namespaces/{namespace}/pods/{name}", "get", "PodMetrics"),
        ],
        CUSTOM => vec![
            ("/namespaces/{namespace}/metrics/{metric}", "get", "MetricValueList"),
            ("/namespaces/{namespace}/{resource}/{name}/{metric}", "get", "MetricValueList"),
            ("/{resource}/{name}/{metric}", "get", "MetricValueList"),
        ],
        _ => vec![("/namespaces/{namespace}/{metric}", "list", "ExternalMetricValueList")],
    }
}

/// The prefix of the schemas' names, as in the modules of Kubernetes.
fn package(version: GroupVersion) -> String {
    let api = match version.group {
        RESOURCE => "metrics",
        CUSTOM => "custom_metrics",
        EXTERNAL => "external_metrics",
        other => other,
    };
    format!("io.k8s.metrics.pkg.apis.{api}.{}", version.version)
}

/// Completes references to schemas of the group.
fn qualified(mut schema: Value, prefix: &str) -> Value {
    let inner = schema.pointer_mut("/items/$ref");
    if let Some(Value::String(name)) = inner {
        *name = format!("{prefix}{name}");
    }
    schema
}

fn kind_of(version: GroupVersion, kind: &str) -> Value {
    json!({"group": version.group, "version": version.version, "kind": kind})
}

fn definitions(version: GroupVersion, form: Form) -> Map<String, Value> {
    let package = package(version);
    let prefix = reference(form, &package, "");
    let mut all = Map::new();
    for (name, kind, description, fields) in schemas(version) {
        let mut properties = Map::new();
        if kind.is_some() {
            for field in ["apiVersion", "kind"] {
                properties.insert(field.to_owned(), string());
            }
        }
        for (field, schema, description) in fields {
            let mut schema = qualified(schema, &prefix);
            schema["description"] = json!(description);
            properties.insert(field.to_owned(), schema);
        }
        let mut schema = json!({"type": "object", "description": description, "properties": properties});
        if let Some(kind) = kind {
            schema["x-kubernetes-group-version-kind"] = json!([kind_of(version, kind)]);
        }
        all.insert(format!("{package}.{name}"), schema);
    }
    all
}

fn reference(form: Form, package: &str, name: &str) -> String {
    match form {
        Form::V2 => format!("#/definitions/{package}.{name}"),
        Form::V3 => format!("#/components/schemas/{package}.{name}"),
    }
}

fn parameters(path: &str, form: Form) -> Value {
    let named = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    named
        .map(|name| {
            let mut parameter = json!({"name": name, "in": "path", "required": true});
            match form {
                Form::V2 => parameter["type"] = json!("string"),
                Form::V3 => parameter["schema"] = string(),
            }
            parameter
        })
        .collect()
}

/// The document of group versions; in v3 there is one for each.
pub fn document(versions: &[GroupVersion], form: Form) -> Value {
    let (mut all_paths, mut all) = (Map::new(), Map::new());
    for version in versions {
        let package = package(*version);
        for (path, action, kind) in paths(*version) {
            let schema = json!({"$ref": reference(form, &package, kind)});
            let ok = match form {
                Form::V2 => json!({"description": "OK", "schema": schema}),
                Form::V3 => json!({"description": "OK", "content": {"application/json": {"schema": schema}}}),
            };
            let item_kind = kind.trim_end_matches("List");
            let id = format!("{action} {}/{}{path}", version.group, version.version);
            let id: String = id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let mut operation = json!({"description": format!("{action} {item_kind}"), "operationId": id,
                "responses": {"200": ok}, "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": kind_of(*version, item_kind)});
            if form == Form::V2 {
                operation["produces"] = json!(["application/json"]);
            }
            let entry = json!({"get": operation, "parameters": parameters(path, form)});
            all_paths.insert(format!("/apis/{}/{}{path}", version.group, version.version), entry);
        }
        all.extend(definitions(*version, form));
    }
    let info = json!({"title": "Karmada metrics", "version": "v1"});
    match form {
        Form::V2 => json!({"swagger": "2.0", "info": info, "paths": all_paths, "definitions": all}),
        Form::V3 => json!({"openapi": "3.0.0", "info": info, "paths": all_paths, "components": {"schemas": all}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups;

    /// Every `$ref` of a document.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|it| references(it, found));
            }
            Value::Array(list) => list.iter().for_each(|it| references(it, found)),
            _ => {}
        }
    }

    #[test]
    fn references_lead_to_schemas() {
        for form in [Form::V2, Form::V3] {
            let document = document(&groups::ALL, form);
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(found.len() > 10, "{found:?}");
            for reference in found {
                let pointer = reference.trim_start_matches('#');
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
        }
        let one = document(&groups::ALL[..1], Form::V3);
        let pod = &one["components"]["schemas"]["io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics"];
        assert_eq!(pod["x-kubernetes-group-version-kind"][0]["kind"], "PodMetrics");
        let path = &one["paths"]["/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/{name}"];
        assert_eq!(path["parameters"][1]["name"], "name");
    }
}
