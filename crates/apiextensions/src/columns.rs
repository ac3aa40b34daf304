//! The columns of a Table: the printer columns of a version, or the age.

use apimachinery::field::json_of_go;
use apimachinery::go_print::GoPrint;
use apimachinery::jsonpath::JsonPath;
use apimachinery::meta::Time;
use apimachinery::raw_json::Paths;
use apimachinery::resource::Column;
use serde_json::Value;

use crate::age::human_duration;
use crate::definition::{PrinterColumn, Version};

/// The documentation of the field, which is the description of the default column.
const CREATION_TIMESTAMP: &str = "CreationTimestamp is a timestamp representing the server time when this object was \
    created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set \
    this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for \
    lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

pub(crate) struct PreparedColumn {
    pub column: Column,
    pub path: JsonPath,
}

/// The printer columns of an object.
pub(crate) struct Shown {
    pub columns: Vec<PreparedColumn>,
    /// The paths of the columns, and those that contain them.
    pub paths: Paths,
    pub places: Vec<usize>,
}

impl Shown {
    pub fn of(columns: Vec<PreparedColumn>) -> Self {
        let mut paths = Paths::default();
        let name = paths.add(["metadata", "name"]);
        // Names with escapes are found through the object that holds them.
        let is_plain = |name: &&str| !name.contains(|c: char| c.is_control() || matches!(c, '"' | '\\'));
        let looks = columns.iter().map(|column| paths.add(column.path.beginning().take_while(is_plain)));
        let places: Vec<usize> = looks.chain([name]).collect();
        let places = paths.outermost(places);
        Self { columns, paths, places }
    }
}

pub(crate) fn columns(version: &Version) -> Vec<PreparedColumn> {
    let age = PrinterColumn {
        name: "Age".into(),
        type_: "date".into(),
        json_path: ".metadata.creationTimestamp".into(),
        description: CREATION_TIMESTAMP.into(),
        ..PrinterColumn::default()
    };
    let declared = &version.additional_printer_columns;
    let chosen = if declared.is_empty() { std::slice::from_ref(&age) } else { declared.as_slice() };
    chosen
        .iter()
        .filter_map(|column| {
            let path = JsonPath::parse(&column.json_path).ok()?;
            let column = Column {
                name: column.name.clone(),
                type_: column.type_.clone(),
                format: column.format.clone(),
                description: if column.description.is_empty() {
                    format!("Custom resource definition column (in JSONPath format): {}", column.json_path)
                } else {
                    column.description.clone()
                },
                priority: column.priority,
            };
            Some(PreparedColumn { column, path })
        })
        .collect()
}

pub(crate) fn cell(type_: &str, value: &Value, now: Time) -> Value {
    match (type_, value) {
        // A text column prints its value by a template, which has no word for null.
        ("string", Value::Null) => Value::from("<no value>"),
        (_, Value::Null) => Value::Null,
        ("integer", Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().map(|n| n as i64)).map_or(Value::Null, Value::from)
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => value.clone(),
        ("date", Value::String(text)) => Value::from(match text.parse::<jiff::Timestamp>() {
            Ok(time) => human_duration(now.timestamp().as_second() - time.as_second()),
            Err(_) => "<invalid>".to_owned(),
        }),
        ("string", Value::Number(_)) => Value::from(GoPrint(value).to_string()),
        ("string", other) => Value::from(json_of_go(other)),
        _ => Value::Null,
    }
}

#[test]
fn text_columns_print_as_upstreams_templates() {
    let now = Time::new(jiff::Timestamp::UNIX_EPOCH);
    for (value, expected) in [
        (serde_json::json!(null), "<no value>"),
        (serde_json::json!("a<b"), "a<b"),
        (serde_json::json!(["a<b", 1]), "[\"a\\u003cb\",1]"),
        (serde_json::json!(true), "true"),
        (serde_json::json!(7), "7"),
        (serde_json::json!(1e-7), "1e-07"),
    ] {
        assert_eq!(cell("string", &value, now), expected, "{value}");
    }
    assert_eq!(cell("integer", &Value::Null, now), Value::Null);
}
