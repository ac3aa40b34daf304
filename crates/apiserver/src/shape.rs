//! The shapes of a reply besides the whole object: tables, metadata alone, and lists of either.

use apimachinery::meta::Time;
use apimachinery::resource::Resource;
use apimachinery::status::ListMeta;
use apimachinery::{Object, Status};
use serde_json::{Map, Value, json};

use crate::errors;
use crate::negotiate::Shape;

/// What a table's rows carry of their objects (`includeObject`).
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
            Some(other) => Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}"))),
        }
    }
}

/// `PartialObjectMetadata` of an object.
pub fn metadata_only(object: &Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
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

pub fn table_row(resource: &Resource, object: &Value, include: Include, now: Time) -> Value {
    let mut row = Map::new();
    row.insert("cells".into(), resource.strategy.cells(object, now).into());
    match include {
        Include::None => {}
        Include::Metadata => drop(row.insert("object".into(), metadata_only(object))),
        Include::Object => drop(row.insert("object".into(), object.clone())),
    }
    row.into()
}

/// One object in a shape other than whole.
pub fn shaped(
    resource: &Resource,
    object: &Object,
    shape: Shape,
    include: Include,
    now: Time,
) -> Result<Value, Status> {
    let tree = object.to_value().map_err(errors::document)?;
    Ok(match shape {
        Shape::Whole => tree,
        Shape::Metadata => metadata_only(&tree),
        Shape::Table => json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": object.resource_version()},
            "columnDefinitions": table_head(resource),
            "rows": [table_row(resource, &tree, include, now)],
        }),
    })
}

/// A list of objects. Whole objects are spliced, not decoded.
pub fn list(
    resource: &Resource,
    items: &[std::sync::Arc<Object>],
    meta: &ListMeta,
    shape: Shape,
    include: Include,
    now: Time,
) -> Result<Vec<u8>, Status> {
    let info = &resource.info;
    let (kind, api_version) = match shape {
        Shape::Whole => (info.list_kind.clone(), info.resource.api_version()),
        Shape::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
        Shape::Table => ("Table".to_owned(), "meta.k8s.io/v1".to_owned()),
    };
    let head = json!({"kind": kind, "apiVersion": api_version, "metadata": meta}).to_string();
    let mut out = Vec::with_capacity(256 + items.iter().map(|item| item.json().len() + 1).sum::<usize>());
    out.extend_from_slice(&head.as_bytes()[..head.len() - 1]);
    if shape == Shape::Table {
        out.extend_from_slice(b",\"columnDefinitions\":");
        out.extend_from_slice(table_head(resource).to_string().as_bytes());
        out.extend_from_slice(b",\"rows\":[");
    } else {
        out.extend_from_slice(b",\"items\":[");
    }
    // Items of built-in kinds do not repeat what the list's kind says.
    let implied = match info.custom {
        true => String::new(),
        false => format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", info.resource.api_version(), info.resource.kind),
    };
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        match shape {
            Shape::Whole => match item.json().strip_prefix(implied.as_bytes()) {
                Some(rest) if !implied.is_empty() => {
                    out.push(b'{');
                    out.extend_from_slice(rest);
                }
                _ => out.extend_from_slice(item.json()),
            },
            Shape::Metadata => {
                let tree = item.to_value().map_err(errors::document)?;
                out.extend_from_slice(metadata_only(&tree).to_string().as_bytes());
            }
            Shape::Table => {
                let tree = item.to_value().map_err(errors::document)?;
                out.extend_from_slice(table_row(resource, &tree, include, now).to_string().as_bytes());
            }
        }
    }
    out.extend_from_slice(b"]}\n");
    Ok(out)
}
