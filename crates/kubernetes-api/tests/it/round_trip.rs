//! Every built-in kind with random content survives each of its forms: JSON, YAML and protobuf.
//!
//! `PROPERTY_SEED=7 cargo test -p kubernetes-api --test it round_trip` repeats one run; see docs/testing.md.

use apimachinery::schema::{Schema, Type, TypeOf};
use apimachinery::{GroupVersionKind, strict, yaml};
use kubernetes_api::protobuf::{self, ProtobufError};
use serde_json::{Map, Value, json};

/// A linear congruential generator: tests must not depend on how a library draws (constants of Knuth's MMIX).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound as u64).expect("below a usize")
    }

    fn text(&mut self) -> String {
        let words =
            ["a", "b-c", "ü", "x/y", "0", "true", "1e3", "~", "- a", "a: b", "\"q\"", "#", "a\nb", "null", "0x1", "="];
        words[self.below(words.len())].to_owned()
    }
}

/// Fields below this level are left out, or lists and recursive types would have no end.
const DEPTH: usize = 9;

/// A value of a type. Zeros and empty values are avoided: whether they are kept depends on the field.
fn any(dice: &mut Dice, type_: &TypeOf, depth: usize) -> Option<Value> {
    let node = type_.node();
    let short = node.definition.as_deref().unwrap_or_default().rsplit('.').next().unwrap_or_default();
    Some(match short {
        "Quantity" => ["1", "100m", "2Gi", "3k", "1500m"][dice.below(5)].into(),
        "Time" => "2026-01-02T03:04:05Z".into(),
        "MicroTime" => "2026-01-02T03:04:05.678901Z".into(),
        "IntOrString" => {
            if dice.below(2) == 0 {
                8080.into()
            } else {
                "25%".into()
            }
        }
        "FieldsV1" => json!({"f:data": {"f:k": {}}}),
        "RawExtension" => json!({"kind": "X", "apiVersion": "v1", "a": [1, {"b": dice.text()}]}),
        "JSON" => json!({"a": dice.text()}),
        // What OpenAPI calls by this name is a duration, an alias of string, or a union.
        "Duration" => "1h0m0s".into(),
        "JSONSchemaPropsOrBool" => true.into(),
        "JSONSchemaPropsOrArray" => json!({"type": "string"}),
        "JSONSchemaPropsOrStringArray" => json!(["a"]),
        _ => return structure(dice, type_, node, depth),
    })
}

fn structure(dice: &mut Dice, type_: &TypeOf, node: &Schema, depth: usize) -> Option<Value> {
    Some(match node.type_ {
        Type::String if node.format.as_deref() == Some("byte") => "AAEC".into(),
        Type::String => dice.text().into(),
        Type::Integer => (1 + dice.below(1000)).into(),
        Type::Number => 1.5.into(),
        Type::Boolean => true.into(),
        _ if depth >= DEPTH => return None,
        Type::Array => {
            let items = type_.at(node.items?);
            let list: Vec<Value> = (0..1 + dice.below(2)).filter_map(|_| any(dice, &items, depth + 1)).collect();
            (!list.is_empty()).then_some(list)?.into()
        }
        Type::Object | Type::Any => {
            let mut map = Map::new();
            if let Some(values) = node.additional_properties {
                let value = any(dice, &type_.at(values), depth + 1)?;
                map.insert(dice.text(), value);
            }
            // An object inside an object has no type and kind in protobuf; those of the whole are in the envelope.
            let object = node.properties.contains_key("metadata");
            for (name, property) in &node.properties {
                if depth > 0 && dice.below(3) == 0 || object && matches!(&**name, "apiVersion" | "kind") {
                    continue;
                }
                if let Some(value) = any(dice, &type_.at(property.schema), depth + 1) {
                    map.insert(name.to_string(), value);
                }
            }
            (!map.is_empty()).then_some(map)?.into()
        }
    })
}

fn gvks() -> Vec<GroupVersionKind> {
    let served = kubernetes_api::resources();
    let mut gvks: Vec<_> = served.iter().map(|resource| resource.info.resource.gvk()).collect();
    let option = |kind| GroupVersionKind::new("", "v1", kind);
    gvks.extend(["DeleteOptions", "Status"].map(option));
    gvks.sort_by_key(ToString::to_string);
    gvks.dedup();
    gvks
}

/// Where two trees differ first, which is more readable than both of them.
fn difference(one: &Value, two: &Value, path: &str) -> Option<String> {
    match (one, two) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| {
                let null = Value::Null;
                difference(a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null), &format!("{path}.{key}"))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(at, (a, b))| difference(a, b, &format!("{path}[{at}]")))
        }
        _ => (one != two).then(|| format!("{path}: {one} became {two}")),
    }
}

fn same(what: &str, gvk: &GroupVersionKind, seed: u64, before: &Value, after: &Value) {
    if let Some(difference) = difference(before, after, "") {
        panic!(
            "{what} of {gvk} changes {difference}\nrepeat with: PROPERTY_SEED={seed} cargo test -p kubernetes-api --test it round_trip"
        );
    }
}

#[test]
fn round_trip_of_every_kind_through_json_yaml_and_protobuf() {
    let only = std::env::var("PROPERTY_SEED").ok().map(|text| text.parse().expect("a number"));
    let seeds: Vec<u64> = only.map_or_else(|| (1..=4).collect(), |seed| vec![seed]);
    let mut encoded = 0;
    for (seed, gvk) in seeds.iter().flat_map(|seed| gvks().into_iter().map(move |gvk| (*seed, gvk))) {
        let Some(type_) = kubernetes_api::schema_for(&gvk) else { panic!("{gvk} has no type") };
        let Some(Value::Object(mut map)) = any(&mut Dice(seed), &type_, 0) else { panic!("{gvk} has no fields") };
        map.insert("apiVersion".into(), gvk.api_version().into());
        map.insert("kind".into(), gvk.kind.clone().into());
        let object = Value::Object(map);

        let (read, findings) = strict::decode(object.to_string().as_bytes(), &type_).expect("JSON");
        assert_eq!(findings, Vec::<String>::new(), "{gvk}");
        same("JSON", &gvk, seed, &object, &read);
        let text = yaml::to_string(&object);
        let read = yaml::to_json_value(text.as_bytes()).unwrap_or_else(|e| panic!("{gvk}: {e}\n{text}"));
        same("YAML", &gvk, seed, &object, &read);
        match protobuf::encode(object.to_string().as_bytes()) {
            Ok(bytes) => {
                let read = protobuf::decode(&bytes).unwrap_or_else(|e| panic!("{gvk}: {e}"));
                same("protobuf", &gvk, seed, &object, &read);
                same(
                    "protobuf with unknown fields",
                    &gvk,
                    seed,
                    &object,
                    &protobuf::decode(&newer(&bytes)).expect("protobuf"),
                );
                encoded += 1;
            }
            Err(ProtobufError::UnknownKind(_)) => {}
            Err(error) => panic!("{gvk}: {error}"),
        }
    }
    assert!(encoded >= 50 * seeds.len(), "only {encoded} objects have a protobuf form");
}

/// The same document with a field in its envelope that nobody knows yet, as a newer client may send.
fn newer(bytes: &[u8]) -> Vec<u8> {
    // Field 1000 with two bytes.
    let unknown = [0xc2, 0x3e, 2, 1, 2];
    [bytes, &unknown].concat()
}
