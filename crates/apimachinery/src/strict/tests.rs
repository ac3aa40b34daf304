//! Decoding along a type, against a model that takes a step at a time.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::test_schemas::{config_map, deployment};

#[test]
fn findings_are_in_document_order() {
    let json = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d","foo":1},"data":{"a":"1","a":"2"},"bar":{"x":1}}"#;
    let (value, findings) = decode(json, &config_map()).expect("valid");
    assert_eq!(value["data"], json!({"a": "2"}));
    assert_eq!(value.get("bar"), None);
    assert_eq!(
        error_text(&findings),
        r#"strict decoding error: unknown field "metadata.foo", duplicate field "data.a", unknown field "bar""#
    );
    let json = br#"{"bar":1,"bar":2,"data":{"a":"1","a":"2","a":"3"}}"#;
    let (_, findings) = decode(json, &config_map()).expect("valid");
    assert_eq!(findings, [r#"unknown field "bar""#, r#"duplicate field "data.a""#], "each is reported once");
    let json = br#"{"metadata":{"name":"d"},"metadata":{"foo":1,"name":"e","name":"f"}}"#;
    let (value, findings) = decode(json, &config_map()).expect("valid");
    let expected =
        ["duplicate field \"metadata\"", "unknown field \"metadata.foo\"", "duplicate field \"metadata.name\""];
    assert_eq!((value, &findings[..]), (json!({"metadata": {"name": "f"}}), &expected.map(str::to_owned)[..]));
    let json = br#"{"spec":{"replicas":2.0,"paused":null,"template":{"spec":{"containers":[{"name":"a"},{"name":"b","imagee":"x"}]}}}}"#;
    let (value, findings) = decode(json, &deployment()).expect("valid");
    assert_eq!(findings, [r#"unknown field "spec.template.spec.containers[1].imagee""#]);
    assert_eq!(value["spec"]["replicas"], json!(2));
    assert_eq!(value["spec"].get("paused"), None);
    let mut tree: Value = serde_json::from_slice(json).expect("valid");
    assert_eq!(prune(&mut tree, &deployment()), findings);
    tree["spec"]["replicas"] = json!(2);
    assert_eq!(tree, value);
}

#[test]
fn a_tree_is_adopted_as_its_document_would_be_decoded() {
    for type_ in [config_map(), deployment()] {
        for tree in [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "foo": 1}, "data": {"a": null}}),
            json!({"spec": {"replicas": 2.0, "paused": null, "x": [{}], "template": {"spec": {"containers": [{"y": 1.5}]}}}}),
            json!({"spec": {"replicas": u64::MAX, "minReadySeconds": 1e300, "revisionHistoryLimit": -0.0}}),
            json!({"spec": {"selector": {"matchLabels": {"a": 1e3}}}, "status": [[null, 4.0, {"x": null}]]}),
            json!([1.0]),
            json!(null),
        ] {
            let text = serde_json::to_vec(&tree).expect("a tree encodes");
            let mut adopted = tree.clone();
            let findings = adopt(&mut adopted, &type_).expect("not deep");
            assert_eq!(decode(&text, &type_).expect("valid"), (adopted, findings), "{tree}");
            let mut adopted = tree;
            adopt_untyped(&mut adopted).expect("not deep");
            assert_eq!(decode_untyped(&text).expect("valid"), adopted);
        }
    }
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    for (levels, fits) in [(127, true), (128, false)] {
        assert_eq!(adopt_untyped(&mut nested(levels)).is_ok(), fits, "{levels}");
        assert_eq!(decode_untyped(nested(levels).to_string().as_bytes()).is_ok(), fits, "{levels}");
    }
}

fn any_document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        2 => Just(Value::Null),
        1 => (-2i64..3).prop_map(Value::from),
        1 => prop::sample::select(vec![1.0, 2.5, -0.0, 1e300]).prop_map(Value::from),
        1 => "[ab]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 80, 6, |inner| {
        let names = [
            "apiVersion",
            "metadata",
            "labels",
            "spec",
            "data",
            "selector",
            "matchLabels",
            "template",
            "containers",
            "name",
            "status",
            "other",
        ];
        let member = (prop::sample::select(names.to_vec()), inner.clone());
        prop_oneof![
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::from),
            5 => prop::collection::vec(member, 0..8)
                .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// Numbers, unknown fields and nulls, each in a step of its own.
fn model(value: &Value, place: Option<Place<'_>>, path: &str, findings: &mut Vec<String>) -> Value {
    match value {
        Value::Object(map) => {
            let mut result = Map::new();
            for (key, member) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let child = place.map(|place| place.child(key));
                if let (Some(place), Some((_, false))) = (place, child)
                    && !place.keeps_unknown()
                {
                    findings.push(format!("unknown field {path:?}"));
                    continue;
                }
                let member = model(member, child.map(|(below, _)| below), &path, findings);
                if !(member.is_null() && place.is_some_and(|place| place.is_struct())) {
                    result.insert(key.clone(), member);
                }
            }
            Value::Object(result)
        }
        Value::Array(items) => {
            let place = place.map(|place| place.items());
            let items = items.iter().enumerate();
            items.map(|(index, item)| model(item, place, &format!("{path}[{index}]"), findings)).collect()
        }
        Value::Number(number_value) if !number_value.is_i64() => {
            number_value.as_f64().and_then(number).map_or(value.clone(), Value::Number)
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn adopting_and_decoding_equal_the_model(tree in any_document()) {
        for type_ in [config_map(), deployment()] {
            let mut expected = Vec::new();
            let result = model(&tree, Some(Place::root(&type_)), "", &mut expected);
            let mut adopted = tree.clone();
            let findings = adopt(&mut adopted, &type_).expect("not deep");
            prop_assert_eq!((&adopted, &findings), (&result, &expected));
            let decoded = decode(tree.to_string().as_bytes(), &type_).expect("valid");
            prop_assert_eq!((&decoded.0, &decoded.1), (&result, &expected));
            let mut pruned = model(&tree, None, "", &mut Vec::new());
            let findings = prune(&mut pruned, &type_);
            prop_assert_eq!((&pruned, &findings), (&result, &expected));
        }
    }
}

#[test]
fn findings_and_depth_are_bounded() {
    let members: Vec<String> = (0..1000).map(|n| format!("\"x{n}\":1")).collect();
    let (_, findings) = decode(format!("{{{}}}", members.join(",")).as_bytes(), &config_map()).expect("valid");
    assert_eq!(findings.len(), MAX_FINDINGS);
    assert!(decode("[".repeat(100_000).as_bytes(), &config_map()).is_err());
    assert!(decode_untyped(br#"{"a":1} x"#).is_err());
    for (text, twice) in [(r#"{"a":{"b":1},"c":[{"b":1}]}"#, false), (r#"{"c":[{"b":1,"b":1}]}"#, true)] {
        assert_eq!(decode_noting_duplicates(text.as_bytes()).map(|(_, found)| found).ok(), Some(twice), "{text}");
    }
    for (text, printed) in [("1e3", "1000"), ("1.5", "1.5"), ("-0", "0"), ("9007199254740993", "9007199254740993")] {
        assert_eq!(decode_untyped(text.as_bytes()).map(|v| v.to_string()).ok().as_deref(), Some(printed));
    }
}
