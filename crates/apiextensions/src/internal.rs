//! Prints the versions of a definition as upstream does in errors: with the fields of its internal structs, including
//! unset ones. Fields common to all versions are elsewhere in those structs, so they are not printed with the versions.

use serde_json::{Map, Value};

use crate::definition::Version;

/// The properties that all versions share.
pub(crate) struct Shared {
    pub schemas: bool,
    pub columns: bool,
    pub subresources: bool,
    pub selectable: bool,
}

/// The members of a schema in the order of upstream's struct: its name, its name in JSON.
pub(crate) fn members() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rules = ("XValidations", "x-kubernetes-validations");
    MEMBERS.iter().map(|(name, json, _)| (*name, *json)).chain([rules])
}

/// A schema alone.
pub(crate) fn schema(json: &Value) -> String {
    schema_of(json)
}

pub(crate) fn versions(versions: &[Version], shared: &Shared) -> String {
    if versions.is_empty() {
        return "null".to_owned();
    }
    let shown: Vec<String> = versions.iter().map(|one| version(one, shared)).collect();
    format!("[{}]", shown.join(","))
}

fn version(version: &Version, shared: &Shared) -> String {
    let nothing = || "null".to_owned();
    let schema = version.json_schema().filter(|_| !shared.schemas);
    let schema = schema.map_or_else(nothing, |json| format!(r#"{{"OpenAPIV3Schema":{}}}"#, schema_of(json)));
    let subresources = version.subresources.as_ref().filter(|_| !shared.subresources).map_or_else(nothing, |own| {
        let status = if own.status.is_some() { "{}" } else { "null" };
        let scale = own.scale.as_ref().map_or_else(nothing, |scale| {
            format!(
                r#"{{"SpecReplicasPath":{},"StatusReplicasPath":{},"LabelSelectorPath":{}}}"#,
                Value::from(scale.spec_replicas_path.as_str()),
                Value::from(scale.status_replicas_path.as_str()),
                Value::from(scale.label_selector_path.as_deref()),
            )
        });
        format!(r#"{{"Status":{status},"Scale":{scale}}}"#)
    });
    let columns = version.additional_printer_columns.iter().map(|column| {
        format!(
            r#"{{"Name":{},"Type":{},"Format":{},"Description":{},"Priority":{},"JSONPath":{}}}"#,
            Value::from(column.name.as_str()),
            Value::from(column.type_.as_str()),
            Value::from(column.format.as_str()),
            Value::from(column.description.as_str()),
            column.priority,
            Value::from(column.json_path.as_str()),
        )
    });
    let columns = list(columns.collect(), shared.columns);
    let fields = version.selectable_fields.iter();
    let fields = fields.map(|field| format!(r#"{{"JSONPath":{}}}"#, Value::from(field.json_path.as_str())));
    let fields = list(fields.collect(), shared.selectable);
    format!(
        r#"{{"Name":{},"Served":{},"Storage":{},"Deprecated":{},"DeprecationWarning":{},"Schema":{schema},"Subresources":{subresources},"AdditionalPrinterColumns":{columns},"SelectableFields":{fields}}}"#,
        Value::from(version.name.as_str()),
        version.served,
        version.storage,
        version.deprecated,
        Value::from(version.deprecation_warning.as_deref()),
    )
}

fn list(items: Vec<String>, is_shared: bool) -> String {
    if items.is_empty() || is_shared { "null".to_owned() } else { format!("[{}]", items.join(",")) }
}

/// How upstream prints a member of a schema: its Go name, its JSON name, its zero value.
const MEMBERS: [(&str, &str, &str); 43] = [
    ("ID", "id", "\"\""),
    ("Schema", "$schema", "\"\""),
    ("Ref", "$ref", "null"),
    ("Description", "description", "\"\""),
    ("Type", "type", "\"\""),
    ("Nullable", "nullable", "false"),
    ("Format", "format", "\"\""),
    ("Title", "title", "\"\""),
    ("Default", "default", "null"),
    ("Maximum", "maximum", "null"),
    ("ExclusiveMaximum", "exclusiveMaximum", "false"),
    ("Minimum", "minimum", "null"),
    ("ExclusiveMinimum", "exclusiveMinimum", "false"),
    ("MaxLength", "maxLength", "null"),
    ("MinLength", "minLength", "null"),
    ("Pattern", "pattern", "\"\""),
    ("MaxItems", "maxItems", "null"),
    ("MinItems", "minItems", "null"),
    ("UniqueItems", "uniqueItems", "false"),
    ("MultipleOf", "multipleOf", "null"),
    ("Enum", "enum", "null"),
    ("MaxProperties", "maxProperties", "null"),
    ("MinProperties", "minProperties", "null"),
    ("Required", "required", "null"),
    ("Items", "items", "null"),
    ("AllOf", "allOf", "null"),
    ("OneOf", "oneOf", "null"),
    ("AnyOf", "anyOf", "null"),
    ("Not", "not", "null"),
    ("Properties", "properties", "null"),
    ("AdditionalProperties", "additionalProperties", "null"),
    ("PatternProperties", "patternProperties", "null"),
    ("Dependencies", "dependencies", "null"),
    ("AdditionalItems", "additionalItems", "null"),
    ("Definitions", "definitions", "null"),
    ("ExternalDocs", "externalDocs", "null"),
    ("Example", "example", "null"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", "null"),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", "false"),
    ("XIntOrString", "x-kubernetes-int-or-string", "false"),
    ("XListMapKeys", "x-kubernetes-list-map-keys", "null"),
    ("XListType", "x-kubernetes-list-type", "null"),
    ("XMapType", "x-kubernetes-map-type", "null"),
];

/// A schema. It is as deep as the JSON it came from, which is bounded.
fn schema_of(schema: &Value) -> String {
    let Some(map) = schema.as_object() else { return schema.to_string() };
    let members = MEMBERS.iter().map(|(name, json, nothing)| {
        let value = map.get(*json).filter(|value| !value.is_null());
        format!("\"{name}\":{}", value.map_or_else(|| (*nothing).to_owned(), |value| member(json, value)))
    });
    let rules = rules(map);
    let members: Vec<String> = members.chain([format!("\"XValidations\":{rules}")]).collect();
    format!("{{{}}}", members.join(","))
}

fn member(json: &str, value: &Value) -> String {
    match (json, value) {
        ("items", Value::Array(all)) => {
            format!(r#"{{"Schema":null,"JSONSchemas":[{}]}}"#, all.iter().map(schema_of).collect::<Vec<_>>().join(","))
        }
        ("items", one) => format!(r#"{{"Schema":{},"JSONSchemas":null}}"#, schema_of(one)),
        ("additionalProperties" | "additionalItems", Value::Bool(allows)) => {
            format!(r#"{{"Allows":{allows},"Schema":null}}"#)
        }
        ("additionalProperties" | "additionalItems", schema) => {
            format!(r#"{{"Allows":true,"Schema":{}}}"#, schema_of(schema))
        }
        ("not", schema) => schema_of(schema),
        ("allOf" | "oneOf" | "anyOf", Value::Array(all)) => {
            format!("[{}]", all.iter().map(schema_of).collect::<Vec<_>>().join(","))
        }
        ("properties" | "patternProperties" | "definitions", Value::Object(all)) => {
            let all = all.iter().map(|(name, schema)| format!("{}:{}", Value::from(name.as_str()), schema_of(schema)));
            format!("{{{}}}", all.collect::<Vec<_>>().join(","))
        }
        _ => value.to_string(),
    }
}

fn rules(schema: &Map<String, Value>) -> String {
    let Some(rules) = schema.get("x-kubernetes-validations").and_then(Value::as_array) else {
        return "null".to_owned();
    };
    let shown = rules.iter().map(|rule| {
        let text = |name: &str| Value::from(rule[name].as_str().unwrap_or_default());
        format!(
            r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
            text("rule"),
            text("message"),
            text("messageExpression"),
            rule["reason"],
            text("fieldPath"),
            rule["optionalOldSelf"],
        )
    });
    format!("[{}]", shown.collect::<Vec<_>>().join(","))
}
