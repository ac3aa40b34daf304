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
            Some(other) => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
                 'Object', 'None', or empty"
            ))),
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

/// A list up to the bracket that opens its items.
pub fn list_head(resource: &Resource, meta: &ListMeta, shape: Shape) -> Vec<u8> {
    let info = &resource.info;
    let (kind, api_version) = match shape {
        Shape::Whole => (info.list_kind.as_str(), info.resource.api_version()),
        Shape::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1".to_owned()),
        Shape::Table => ("Table", "meta.k8s.io/v1".to_owned()),
    };
    let mut head = json!({"kind": kind, "apiVersion": api_version, "metadata": meta}).to_string();
    head.pop();
    if shape == Shape::Table {
        head.push_str(&format!(",\"columnDefinitions\":{},\"rows\":[", table_head(resource)));
    } else {
        head.push_str(",\"items\":[");
    }
    head.into_bytes()
}

/// How the stored items of a list begin and the listed ones do not: those of built-in kinds do not repeat what the
/// list's kind says.
pub fn implied_head(resource: &Resource) -> String {
    let info = &resource.info;
    if info.custom {
        return String::new();
    }
    format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", info.resource.api_version(), info.resource.kind)
}

/// A list in a shape other than whole.
pub fn shaped_list(
    resource: &Resource,
    items: &[std::sync::Arc<Object>],
    meta: &ListMeta,
    shape: Shape,
    include: Include,
    now: Time,
) -> Result<Vec<u8>, Status> {
    let mut out = list_head(resource, meta, shape);
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        if shape == Shape::Metadata {
            put_metadata(&mut out, item);
            continue;
        }
        // No column of a built-in kind shows owners; a definition's may show anything.
        let tree = if resource.info.custom { item.to_value() } else { item.to_value_without_owners() };
        let tree = tree.map_err(errors::document)?;
        out.extend_from_slice(b"{\"cells\":");
        serde_json::to_writer(&mut out, &resource.strategy.cells(&tree, now)).map_err(Status::internal)?;
        match include {
            Include::None => {}
            Include::Metadata => {
                out.extend_from_slice(b",\"object\":");
                put_metadata(&mut out, item);
            }
            Include::Object => {
                out.extend_from_slice(b",\"object\":");
                out.extend_from_slice(item.json());
            }
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}\n");
    Ok(out)
}

/// `PartialObjectMetadata` of an object, spliced.
fn put_metadata(out: &mut Vec<u8>, object: &Object) {
    out.extend_from_slice(b"{\"apiVersion\":\"meta.k8s.io/v1\",\"kind\":\"PartialObjectMetadata\",\"metadata\":");
    out.extend_from_slice(object.metadata_json());
    out.push(b'}');
}
