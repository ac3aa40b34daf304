//! The shapes of a reply besides the whole object: tables, metadata alone, and lists of either.

use apimachinery::meta::Time;
use apimachinery::resource::Resource;
use apimachinery::status::ListMeta;
use apimachinery::{Object, Status};
use serde_json::{Value, json};

use crate::errors;
use crate::wire::negotiate::Shape;

/// The objects in a table's rows (`includeObject`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    pub fn parse(text: Option<&str>) -> Result<Self, Status> {
        match text {
            None | Some("Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            ))),
        }
    }
}

/// A shape with the input for rendering it.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub shape: Shape,
    /// The API version of tables and of metadata alone.
    pub meta: &'static str,
    pub include: Include,
}

impl Form {
    /// `PartialObjectMetadata` with this metadata.
    pub fn metadata_only(&self, metadata: &Value) -> Value {
        json!({"apiVersion": self.meta, "kind": "PartialObjectMetadata", "metadata": metadata})
    }

    fn row(&self, resource: &Resource, object: &Value, now: Time) -> Value {
        let shown = match self.include {
            Include::None => Value::Null,
            Include::Metadata => self.metadata_only(&object["metadata"]),
            Include::Object => object.clone(),
        };
        let mut row = json!({"cells": resource.strategy.cells(object, now), "object": shown});
        let conditions = resource.strategy.row_conditions(object);
        if !conditions.is_empty() {
            row["conditions"] = conditions.into();
        }
        row
    }

    /// One object in this form.
    pub fn of(&self, resource: &Resource, tree: Value, now: Time) -> Value {
        match self.shape {
            Shape::Whole => tree,
            Shape::Metadata => self.metadata_only(&tree["metadata"]),
            Shape::Table => json!({
                "kind": "Table", "apiVersion": self.meta,
                "metadata": {"resourceVersion": tree["metadata"]["resourceVersion"]},
                "columnDefinitions": table_head(resource),
                "rows": [self.row(resource, &tree, now)],
            }),
        }
    }
}

pub fn table_head(resource: &Resource) -> Value {
    let columns: Vec<Value> = resource
        .strategy
        .columns()
        .iter()
        .map(|column| {
            json!({"name": column.name, "type": column.type_, "format": column.format,
                   "description": column.description, "priority": column.priority})
        })
        .collect();
    columns.into()
}

/// One object in a shape other than whole.
pub fn shaped(resource: &Resource, object: &Object, form: Form, now: Time) -> Result<Value, Status> {
    Ok(form.of(resource, object.to_value().map_err(errors::document)?, now))
}

/// A list up to the bracket that opens its items.
pub fn list_head(resource: &Resource, meta: &ListMeta, form: Form) -> Vec<u8> {
    let info = &resource.info;
    let (kind, api_version) = match form.shape {
        Shape::Whole => (info.list_kind.as_str(), info.resource.api_version()),
        Shape::Metadata => ("PartialObjectMetadataList", form.meta.to_owned()),
        Shape::Table => ("Table", form.meta.to_owned()),
    };
    let mut meta = json!(meta);
    if info.custom && form.shape == Shape::Whole && meta.get("continue").is_none() {
        // Upstream's lists of untyped objects always have the field.
        meta["continue"] = "".into();
    }
    let mut head = json!({"kind": kind, "apiVersion": api_version, "metadata": meta}).to_string();
    head.pop();
    if form.shape == Shape::Table {
        head.push_str(&format!(",\"columnDefinitions\":{},\"rows\":[", table_head(resource)));
    } else {
        head.push_str(",\"items\":[");
    }
    head.into_bytes()
}

/// The beginning of a stored item that a listed one lacks: items of built-in kinds do not repeat the kind, which the
/// list's kind implies.
pub fn implied_head(resource: &Resource) -> String {
    let info = &resource.info;
    if info.custom {
        return String::new();
    }
    format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", info.resource.api_version(), info.resource.kind)
}
