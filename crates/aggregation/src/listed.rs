//! The resources that another server lists, in the form of aggregated discovery.

use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceList {
    kind: String,
    #[serde(default)]
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
    verbs: Vec<String>,
    short_names: Vec<String>,
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
    let mut resources: Vec<Map<String, Value>> = Vec::new();
    let mut subresources: Vec<(&str, Value)> = Vec::new();
    for row in &list.resources {
        match row.name.split_once('/') {
            None => resources.push(row.resource()),
            Some((parent, name)) => subresources.push((parent, row.entry(("subresource", name)).into())),
        }
    }
    for (parent, subresource) in subresources {
        let place = resources.iter().position(|entry| entry["resource"] == parent);
        let entry = match place {
            Some(place) => &mut resources[place],
            None => {
                // Some servers serve sub-resources only.
                let row = list.resources.iter().find(|row| row.name.starts_with(parent));
                let namespaced = row.is_some_and(|row| row.namespaced);
                resources.push(Row { name: parent.to_owned(), namespaced, ..Row::default() }.resource());
                let last = resources.len() - 1;
                &mut resources[last]
            }
        };
        let all = entry.entry("subresources").or_insert_with(|| json!([]));
        if let Some(all) = all.as_array_mut() {
            all.push(subresource);
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
    fn other_documents_are_refused() {
        for document in ["", "[]", "{}", r#"{"kind": "Status"}"#, r#"{"kind": "APIResourceList", "resources": 3}"#] {
            assert!(resources(document.as_bytes()).is_err(), "{document}");
        }
        assert_eq!(resources(br#"{"kind": "APIResourceList"}"#), Ok(json!([])));
    }
}
