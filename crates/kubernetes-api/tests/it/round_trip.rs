//! Every built-in kind with random content survives each of its forms: JSON, YAML and protobuf.
//!
//! `PROPERTY_SEED=7 cargo test -p kubernetes-api --test it round_trip` repeats one run; see docs/testing.md.

use apimachinery::{GroupVersionKind, strict, yaml};
use kubernetes_api::protobuf::{self, ProtobufError};
use serde_json::Value;

use crate::random::{Dice, any};

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

/// The same document with an unknown field in its envelope, as a newer client may send it.
fn newer(bytes: &[u8]) -> Vec<u8> {
    // Field 1000 with two bytes.
    let unknown = [0xc2, 0x3e, 2, 1, 2];
    [bytes, &unknown].concat()
}
