//! Values read from an object's text without decoding it, compared with the decoded tree: for every built-in kind, with
//! members in any order, white space anywhere and escaped characters (except in names of fields).

use apimachinery::object::{Apart, Packer};
use apimachinery::{GroupVersionKind, Object};
use serde_json::Value;

use crate::random::{Dice, any};

/// The same document in other words. Names of fields are as every encoder writes them; other keys may have escapes.
fn write(value: &Value, depth: usize, dice: &mut Dice, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut members: Vec<(&String, &Value)> = map.iter().collect();
            for place in (1..members.len()).rev() {
                members.swap(place, dice.below(place + 1));
            }
            out.push('{');
            for (place, (key, value)) in members.into_iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                out.push_str(["", " ", "\n\t"][dice.below(3)]);
                match depth {
                    0 | 1 => out.push_str(&Value::from(key.as_str()).to_string()),
                    _ => text(key, dice, out),
                }
                out.push_str([":", " : "][dice.below(2)]);
                write(value, depth + 1, dice, out);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for (place, value) in list.iter().enumerate() {
                out.push_str(if place == 0 { " " } else { " ," });
                write(value, depth + 1, dice, out);
            }
            out.push(']');
        }
        Value::String(letters) => text(letters, dice, out),
        other => out.push_str(&other.to_string()),
    }
}

fn text(letters: &str, dice: &mut Dice, out: &mut String) {
    if dice.below(3) > 0 {
        return out.push_str(&Value::from(letters).to_string());
    }
    out.push('"');
    for unit in letters.encode_utf16() {
        out.push_str(&format!("\\u{unit:04x}"));
    }
    out.push('"');
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn check(gvk: &GroupVersionKind, tree: &Value, json: &str, packer: &mut Packer) {
    let object = Object::parse(json.to_owned()).unwrap_or_else(|error| panic!("{gvk}: {error}\n{json}"));
    check_parts(gvk, tree, json, &object);
    packer.pack(&object);
    assert_eq!(object.json(), json);
    check_parts(gvk, tree, json, &object);
}

fn check_parts(gvk: &GroupVersionKind, tree: &Value, json: &str, object: &Object) {
    let metadata = &tree["metadata"];
    let of = |field: &str| metadata[field].as_str().unwrap_or_default();
    assert_eq!((object.api_version(), object.kind()), (&*gvk.api_version(), &*gvk.kind), "{json}");
    assert_eq!(object.name(), of("name"), "{json}");
    assert_eq!(object.namespace().unwrap_or_default(), of("namespace"), "{json}");
    assert_eq!(object.uid(), of("uid"), "{json}");
    assert_eq!(object.generation(), metadata["generation"].as_i64().unwrap_or_default(), "{json}");
    assert_eq!(object.deletion_timestamp().unwrap_or_default(), of("deletionTimestamp"), "{json}");
    assert_eq!(object.finalizers().iter().map(ToString::to_string).collect::<Vec<_>>(), texts(&metadata["finalizers"]));
    let owners: Vec<&str> = object.owner_references().iter().map(|owner| owner.uid.as_str()).collect();
    let listed = metadata["ownerReferences"].as_array().into_iter().flatten();
    assert_eq!(owners, listed.map(|owner| owner["uid"].as_str().unwrap_or_default()).collect::<Vec<_>>(), "{json}");
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        assert_eq!(object.label(key), value.as_str(), "{json}");
    }
    assert_eq!(object.labels().len(), metadata["labels"].as_object().map_or(0, serde_json::Map::len), "{json}");
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        assert_eq!(object.annotation(key).as_deref(), value.as_str(), "{json}");
    }
    assert_eq!(object.annotation("not there"), None);

    let apart = Apart::read(json.as_bytes()).expect("it was parsed");
    let mut whole = apart.tree;
    assert!(whole["metadata"].get("managedFields").is_none(), "{json}");
    if let Some(owners) = apart.owners {
        whole["metadata"]["managedFields"] = serde_json::from_str(owners).expect("a part of the document");
    }
    assert_eq!(&whole, tree, "{json}");
    assert_eq!(serde_json::from_slice::<Value>(&object.metadata_json()).expect("a part of the document"), *metadata);
    assert_eq!(object.to_value().expect("it was parsed"), *tree);
}

#[test]
fn every_kind_reads_the_same_with_and_without_its_tree() {
    let mut seen = 0;
    for resource in kubernetes_api::resources() {
        let gvk = resource.info.resource.gvk();
        let Some(type_) = kubernetes_api::schema_for(&gvk) else { continue };
        let mut packer = Packer::default();
        for seed in 1..=12 {
            let mut dice = Dice(seed);
            let Some(mut tree) = any(&mut dice, &type_, 0).filter(Value::is_object) else { continue };
            tree["apiVersion"] = gvk.api_version().into();
            tree["kind"] = gvk.kind.clone().into();
            if !tree["metadata"].is_object() {
                continue;
            }
            check(&gvk, &tree, &tree.to_string(), &mut packer);
            let mut json = String::new();
            write(&tree, 0, &mut dice, &mut json);
            check(&gvk, &tree, &json, &mut packer);
            seen += 1;
        }
    }
    assert!(seen > 500, "only {seen} objects");
}
