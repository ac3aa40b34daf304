//! The representation that a client accepts from `proxying`: whole objects, their metadata, or tables with upstream's
//! two columns.

use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::{Value, json};

const META: &str = "meta.k8s.io/v1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Whole,
    Metadata,
    Table,
}

impl Form {
    /// The first known form in the order of the `Accept` header.
    pub fn accepted(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        for range in accepted.flat_map(|value| value.split(',')) {
            let form = range.split(';').find_map(|part| part.trim().strip_prefix("as="));
            match form {
                Some("Table") => return Self::Table,
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => return Self::Metadata,
                Some(_) => {}
                None if range.trim().starts_with("application/json") || range.trim() == "*/*" => return Self::Whole,
                None => {}
            }
        }
        Self::Whole
    }

    /// A list of objects; `metadata` is the list's own.
    pub fn list(self, api_version: &str, kind: &str, metadata: &Value, items: Vec<Value>) -> Value {
        match self {
            Self::Whole => {
                json!({ "kind": format!("{kind}List"), "apiVersion": api_version, "metadata": metadata, "items": items })
            }
            Self::Metadata => {
                let items: Vec<Value> = items.iter().map(partial).collect();
                json!({ "kind": "PartialObjectMetadataList", "apiVersion": META, "metadata": metadata, "items": items })
            }
            Self::Table => table(metadata, &items, true),
        }
    }

    /// One object. Only the first table of a watch has column definitions.
    pub fn one(self, object: Value, with_columns: bool) -> Value {
        match self {
            Self::Whole => object,
            Self::Metadata => partial(&object),
            Self::Table => {
                let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
                table(&metadata, &[object], with_columns)
            }
        }
    }
}

fn partial(object: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": META, "metadata": object["metadata"] })
}

fn table(metadata: &Value, items: &[Value], with_columns: bool) -> Value {
    let columns = json!([
        { "name": "Name", "type": "string", "format": "name", "description": "The name of the object.", "priority": 0 },
        { "name": "Created At", "type": "date", "format": "", "description": "When the object was created.", "priority": 0 },
    ]);
    let rows: Vec<Value> = items
        .iter()
        .map(|item| {
            let metadata = &item["metadata"];
            json!({ "cells": [metadata["name"], metadata["creationTimestamp"]], "object": partial(item) })
        })
        .collect();
    let columns = if with_columns { columns } else { Value::Null };
    json!({ "kind": "Table", "apiVersion": META, "metadata": metadata, "columnDefinitions": columns, "rows": rows })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn forms() {
        for (accept, expected) in [
            ("", Form::Whole),
            ("application/json", Form::Whole),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form::Table),
            ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", Form::Metadata),
            ("application/json, application/json;as=Table", Form::Whole),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(Form::accepted(&headers), expected, "{accept}");
        }
        let node = json!({"kind": "Node", "metadata": {"name": "n", "resourceVersion": "7", "creationTimestamp": "2026-01-02T03:04:05Z"}, "spec": {}});
        let table = Form::Table.one(node.clone(), true);
        assert_eq!(table["rows"][0]["cells"], json!(["n", "2026-01-02T03:04:05Z"]));
        assert_eq!(
            (&table["columnDefinitions"][1]["name"], &table["metadata"]["resourceVersion"]),
            (&json!("Created At"), &json!("7"))
        );
        assert_eq!(Form::Table.one(node.clone(), false)["columnDefinitions"], Value::Null);
        let list = Form::Metadata.list("v1", "Node", &json!({}), vec![node]);
        assert_eq!((&list["items"][0]["kind"], list["items"][0].get("spec")), (&json!("PartialObjectMetadata"), None));
    }
}
