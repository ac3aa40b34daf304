//! The generated CustomResourceDefinitions against the facts: one file per definition in `tests/data`, one line per
//! node of a schema or fact of a manifest, `PATH<TAB>FACTS`, after the API server filled in the names it defaults.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

#[test]
fn every_generated_definition_states_the_facts() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut differences = Vec::new();
    let crds = karmada_api::crds();
    for crd in &crds {
        let name = crd["metadata"]["name"].as_str().unwrap();
        let facts = std::fs::read_to_string(data.join(format!("{name}.tsv"))).unwrap();
        let expected: BTreeMap<_, _> =
            facts.lines().filter_map(|line| line.split_once('\t')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
        assert!(expected.len() > 5, "{name} has no facts");
        let actual = flatten(crd);
        for path in expected.keys().chain(actual.keys().filter(|path| !expected.contains_key(*path))) {
            if expected.get(path) != actual.get(path) {
                differences.push(format!(
                    "{name} {path}\n  fact      {:?}\n  generated {:?}",
                    expected.get(path),
                    actual.get(path)
                ));
            }
        }
    }
    assert_eq!(crds.len(), std::fs::read_dir(data).unwrap().count(), "a definition for each file of facts");
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn every_field_is_described() {
    let mut bare = Vec::new();
    for crd in karmada_api::crds() {
        for version in crd["spec"]["versions"].as_array().unwrap() {
            describe(&version["schema"]["openAPIV3Schema"], crd["spec"]["names"]["kind"].as_str().unwrap(), &mut bare);
        }
    }
    bare.sort();
    bare.dedup();
    assert_eq!(bare, Vec::<String>::new());
}

fn describe(node: &Value, path: &str, bare: &mut Vec<String>) {
    if let Some(properties) = node["properties"].as_object() {
        for (name, property) in properties {
            let path = format!("{path}.{name}");
            if !property["description"].is_string() {
                bare.push(path.clone());
            }
            describe(property, &path, bare);
        }
    }
    describe_child(node, "items", path, bare);
    describe_child(node, "additionalProperties", path, bare);
}

fn describe_child(node: &Value, key: &str, path: &str, bare: &mut Vec<String>) {
    if node[key].is_object() {
        describe(&node[key], path, bare);
    }
}

fn flatten(crd: &Value) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut top = crd["spec"].clone();
    top.as_object_mut().unwrap().remove("versions");
    out.insert("spec".to_owned(), top.to_string());
    for version in crd["spec"]["versions"].as_array().unwrap() {
        let name = version["name"].as_str().unwrap();
        let mut rest = version.clone();
        rest.as_object_mut().unwrap().remove("schema");
        if rest["subresources"] == serde_json::json!({}) {
            rest.as_object_mut().unwrap().remove("subresources");
        }
        out.insert(format!("version {name}"), rest.to_string());
        schema(&version["schema"]["openAPIV3Schema"], name.to_owned(), &mut out);
    }
    out
}

fn schema(node: &Value, path: String, out: &mut BTreeMap<String, String>) {
    let mut own = node.as_object().unwrap().clone();
    own.remove("description");
    if let Some(Value::Object(properties)) = own.remove("properties") {
        for (name, property) in &properties {
            schema(property, format!("{path}.{name}"), out);
        }
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(child) = own.remove(key) {
            schema(&child, format!("{path}{suffix}"), out);
        }
    }
    if let Some(Value::Array(required)) = own.get_mut("required") {
        required.sort_by_key(ToString::to_string);
    }
    out.insert(path, Value::Object(own).to_string());
}
