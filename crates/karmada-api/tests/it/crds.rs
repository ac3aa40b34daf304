//! Compares the generated CustomResourceDefinitions with recorded facts: one file per definition in `tests/data`, one
//! line per node of a schema or fact of a manifest, `PATH<TAB>FACTS`, after the API server set the names it defaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use apiextensions::{defaulting, structural};
use serde_json::{Map, Value, json};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn facts(crd: &str) -> BTreeMap<String, String> {
    let facts = std::fs::read_to_string(data().join(format!("{crd}.tsv"))).unwrap();
    facts.lines().filter_map(|line| line.split_once('\t')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

/// The differences between a definition and its facts, in both directions.
fn differences(crd: &Value) -> Vec<String> {
    let name = crd["metadata"]["name"].as_str().unwrap();
    let (expected, actual) = (facts(name), flatten(crd));
    assert!(expected.len() > 5, "{name} has no facts");
    let paths = expected.keys().chain(actual.keys().filter(|path| !expected.contains_key(*path)));
    let differing = paths.filter(|path| expected.get(*path) != actual.get(*path));
    let shown = |path: &String| {
        format!("{name} {path}\n  fact      {:?}\n  generated {:?}", expected.get(path), actual.get(path))
    };
    differing.map(shown).collect()
}

#[test]
fn every_generated_definition_states_the_facts() {
    let crds = karmada_api::crds();
    let differences: Vec<String> = crds.iter().flat_map(differences).collect();
    assert_eq!(crds.len(), std::fs::read_dir(data()).unwrap().count(), "one definition per file of facts");
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// Calls `change` on every nested object, outermost first, until it reports a change.
fn change_one(node: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>) -> bool) -> bool {
    match node {
        Value::Object(map) => change(map) || map.values_mut().any(|child| change_one(child, change)),
        Value::Array(list) => list.iter_mut().any(|child| change_one(child, change)),
        _ => false,
    }
}

/// A different value.
fn other(value: &Value) -> Value {
    match value {
        Value::Bool(it) => json!(!it),
        Value::Number(it) => json!(it.as_i64().unwrap() + 1),
        Value::String(it) => json!(format!("{it}x")),
        Value::Array(list) => json!(list[1..]),
        Value::Object(_) | Value::Null => json!("x"),
    }
}

/// Proves that the comparison covers every property: one of each is changed, removed, and (where possible) added to a
/// node without it.
#[test]
fn a_change_of_any_property_is_a_difference() {
    const IN_SCHEMAS: &[&str] = &[
        "type",
        "format",
        "required",
        "enum",
        "default",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "anyOf",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ];
    // The names, the scope, the versions and the columns, which are outside the schemas.
    const OUTSIDE: &[&str] = &[
        "group",
        "scope",
        "plural",
        "singular",
        "kind",
        "listKind",
        "shortNames",
        "categories",
        "served",
        "storage",
        "subresources",
        "additionalPrinterColumns",
        "jsonPath",
    ];
    let crds = karmada_api::crds();
    for property in IN_SCHEMAS.iter().chain(OUTSIDE) {
        let mut seen = 0;
        for crd in &crds {
            for taken_away in [false, true] {
                let mut changed = crd.clone();
                let did = change_one(&mut changed["spec"], &mut |map| {
                    let Some(value) = map.get_mut(*property).filter(|value| **value != json!({})) else { return false };
                    // A field may have the name of a property.
                    if IN_SCHEMAS.contains(property) && value.is_object() {
                        return false;
                    }
                    *value = other(value);
                    if taken_away {
                        map.remove(*property);
                    }
                    true
                });
                seen += usize::from(did);
                let name = &crd["metadata"]["name"];
                assert!(!did || !differences(&changed).is_empty(), "{property} of {name} (gone: {taken_away})");
            }
        }
        // No definition embeds a whole resource: manifests are opaque.
        let nowhere = *property == "x-kubernetes-embedded-resource";
        assert_eq!(seen == 0, nowhere, "{property} is in {seen} places");
        let mut with_property = crds[0].clone();
        let schema = &mut with_property["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        schema[*property] = json!("x");
        assert!(!differences(&with_property).is_empty(), "{property} given");
    }
    let mut renamed = crds[0].clone();
    assert!(change_one(&mut renamed["spec"]["versions"], &mut |map| {
        map.get_mut("properties").and_then(Value::as_object_mut).is_some_and(|properties| {
            properties.remove("spec").is_some_and(|spec| properties.insert("specs".to_owned(), spec).is_none())
        })
    }));
    assert!(!differences(&renamed).is_empty(), "a name");
    let mut versions = crds[0].clone();
    versions["spec"]["versions"][0]["name"] = json!("v9");
    assert!(!differences(&versions).is_empty(), "a version");
}

/// Sets every default of the facts, in an object with the required parents only.
#[test]
fn every_default_is_filled_in() {
    let mut count = 0;
    for crd in karmada_api::crds() {
        let name = crd["metadata"]["name"].as_str().unwrap();
        for (path, fact) in facts(name) {
            let Some((version, path)) = path.split_once('.') else { continue };
            let fact: Value = serde_json::from_str(&fact).unwrap();
            let Some(default) = fact.get("default") else { continue };
            let versions = crd["spec"]["versions"].as_array().unwrap();
            let version = versions.iter().find(|it| it["name"] == version).unwrap();
            let type_ = structural::compile(Some(&version["schema"]["openAPIV3Schema"]), None);
            let pointer = format!("/{}", path.replace("[]", "/0").replace('.', "/"));
            let (parents, last) = path.rsplit_once('.').unwrap();
            let mut object = json!({});
            for parent in parents.rsplit('.') {
                object = match parent.strip_suffix("[]") {
                    Some(list) => json!({ list: [object] }),
                    None => json!({ parent: object }),
                };
            }
            defaulting::default(&mut object, &type_).expect("few defaults");
            assert_eq!(object.pointer(&pointer), Some(default), "{name} {path}");
            // A client's value is kept, whether or not validation accepts it.
            *object.pointer_mut(&pointer).unwrap() = json!("sent");
            defaulting::default(&mut object, &type_).expect("few defaults");
            assert_eq!(object.pointer(&pointer), Some(&json!("sent")), "{name} {last}");
            count += 1;
        }
    }
    assert_eq!(count, 31);
}

#[test]
fn every_field_is_described() {
    let mut bare = Vec::new();
    for crd in karmada_api::crds() {
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let mut schema = version["schema"]["openAPIV3Schema"].clone();
            assert_eq!(schema["properties"]["metadata"], json!({"type": "object"}), "Kubernetes defines metadata");
            schema["properties"].as_object_mut().unwrap().remove("metadata");
            describe(&schema, crd["spec"]["names"]["kind"].as_str().unwrap(), &mut bare);
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
