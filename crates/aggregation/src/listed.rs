//! The resources that another server lists, in the form of aggregated discovery.

use std::collections::HashMap;

use apimachinery::meta::null_as_default;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Resources of one group version with their subresources. Adapters of metrics list each metric as one, some ten
/// thousand; more than this fit into a list only with hardly anything but names.
const MAX_ROWS: usize = 50_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceList {
    kind: String,
    #[serde(default, deserialize_with = "null_as_default")]
    resources: Vec<Row>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Row {
    name: String,
    singular_name: String,
    namespaced: bool,
    group: String,
    version: String,
    kind: String,
    #[serde(deserialize_with = "null_as_default")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    short_names: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    categories: Vec<String>,
}

impl Row {
    fn entry(&self, name: (&str, &str)) -> Map<String, Value> {
        let mut verbs = self.verbs.clone();
        verbs.sort();
        let kind = json!({"group": self.group, "version": self.version, "kind": self.kind});
        let mut entry = Map::new();
        entry.insert(name.0.to_owned(), name.1.into());
        entry.insert("responseKind".to_owned(), kind);
        entry.insert("verbs".to_owned(), verbs.into());
        entry
    }

    fn resource(&self) -> Map<String, Value> {
        let mut entry = self.entry(("resource", &self.name));
        entry.insert("scope".to_owned(), if self.namespaced { "Namespaced" } else { "Cluster" }.into());
        entry.insert("singularResource".to_owned(), self.singular_name.clone().into());
        for (field, names) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !names.is_empty() {
                entry.insert(field.to_owned(), names.clone().into());
            }
        }
        entry
    }
}

/// The `resources` of an `APIVersionDiscovery` from an `APIResourceList`, which every API server has.
///
/// # Errors
/// The document is no such list.
pub fn resources(document: &[u8]) -> Result<Value, String> {
    let list: ResourceList = serde_json::from_slice(document).map_err(|error| error.to_string())?;
    if list.kind != "APIResourceList" {
        return Err(format!("its kind is {:?} instead of APIResourceList", list.kind));
    }
    if list.resources.len() > MAX_ROWS {
        return Err(format!("it lists {} resources, more than {MAX_ROWS}", list.resources.len()));
    }
    let mut resources: Vec<Map<String, Value>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for row in list.resources.iter().filter(|row| !row.name.contains('/')) {
        places.entry(&row.name).or_insert(resources.len());
        resources.push(row.resource());
    }
    for row in &list.resources {
        let Some((parent, name)) = row.name.split_once('/') else { continue };
        let place = *places.entry(parent).or_insert_with(|| {
            // Some servers serve sub-resources only.
            resources.push(Row { name: parent.to_owned(), namespaced: row.namespaced, ..Row::default() }.resource());
            resources.len() - 1
        });
        let Some(entry) = resources.get_mut(place) else { continue };
        if let Some(all) = entry.entry("subresources").or_insert_with(|| json!([])).as_array_mut() {
            all.push(row.entry(("subresource", name)).into());
        }
    }
    Ok(resources.into_iter().map(Value::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_become_discovery() {
        let list = json!({"kind": "APIResourceList", "groupVersion": "g/v1", "resources": [
            {"name": "xs", "singularName": "x", "namespaced": true, "kind": "X", "verbs": ["list", "get"], "shortNames": ["ex"]},
            {"name": "xs/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
                "kind": "Scale", "verbs": ["get"]},
            {"name": "ys/connect", "namespaced": true, "kind": "Options", "verbs": ["get"]},
        ]});
        let expected = json!([
            {"resource": "xs", "singularResource": "x", "scope": "Namespaced", "verbs": ["get", "list"],
                "shortNames": ["ex"], "responseKind": {"group": "", "version": "", "kind": "X"},
                "subresources": [{"subresource": "scale", "verbs": ["get"],
                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}}]},
            {"resource": "ys", "singularResource": "", "scope": "Namespaced", "verbs": [],
                "responseKind": {"group": "", "version": "", "kind": ""},
                "subresources": [{"subresource": "connect", "verbs": ["get"],
                    "responseKind": {"group": "", "version": "", "kind": "Options"}}]},
        ]);
        assert_eq!(resources(list.to_string().as_bytes()), Ok(expected));
    }

    #[test]
    fn null_is_an_empty_list() {
        assert_eq!(resources(br#"{"kind": "APIResourceList", "resources": null}"#), Ok(json!([])));
        let row = br#"{"kind": "APIResourceList", "resources": [{"name": "xs", "kind": "X", "verbs": null, "shortNames": null}]}"#;
        assert_eq!(resources(row).expect("a list")[0]["verbs"], json!([]));
    }

    #[test]
    fn a_list_of_very_many_resources_is_refused() {
        let list = |count: usize| {
            let rows: Vec<Value> = (0..count).map(|n| json!({"name": format!("x{n}/s"), "namespaced": true})).collect();
            json!({"kind": "APIResourceList", "resources": rows}).to_string()
        };
        let all = resources(list(MAX_ROWS).as_bytes()).expect("a list");
        assert_eq!(all.as_array().map(Vec::len), Some(MAX_ROWS));
        let refused = resources(list(100_000).as_bytes());
        assert_eq!(refused, Err("it lists 100000 resources, more than 50000".to_owned()));
    }

    #[test]
    fn other_documents_are_refused() {
        for document in ["", "[]", "{}", r#"{"kind": "Status"}"#, r#"{"kind": "APIResourceList", "resources": 3}"#] {
            assert!(resources(document.as_bytes()).is_err(), "{document}");
        }
        assert_eq!(resources(br#"{"kind": "APIResourceList"}"#), Ok(json!([])));
    }
}
