//! Objects as they are parsed, read and spliced.

use super::*;

#[test]
fn metadata_is_read_and_nulls_are_absent() {
    let object = Object::parse(
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"ns","labels":null,
           "annotations":{"k":"v"},"finalizers":["x"],"resourceVersion":"7"},"spec":{"deep":[1,2,{"a":null}]}}"#,
    )
    .expect("a valid document");
    assert_eq!(object.gvk(), GroupVersionKind::new("apps", "v1", "Deployment"));
    assert_eq!(object.key().to_string(), "ns/a");
    assert_eq!(object.resource_version(), "7");
    assert_eq!(object.annotation("k").as_deref(), Some("v"));
    assert!(object.labels().is_empty() && !object.is_deleting());
}

#[test]
fn an_annotation_is_spliced_in() {
    let with = |metadata: &str| format!(r#"{{"kind":"X","metadata":{metadata},"spec":{{"a":1}}}}"#);
    for (before, after) in [
        (r#"{"annotations":{},"name":"n"}"#, Some(r#"{"annotations":{"m/k":"v"},"name":"n"}"#)),
        (
            r#"{"annotations":{ "a":"b"},"managedFields":[1],"name":"n"}"#,
            Some(r#"{"annotations":{"m/k":"v", "a":"b"},"managedFields":[1],"name":"n"}"#),
        ),
        (
            r#"{"managedFields":[1],"annotations":{"a":"b"}}"#,
            Some(r#"{"managedFields":[1],"annotations":{"m/k":"v","a":"b"}}"#),
        ),
        (r#"{"annotations":{"m/k":"w"}}"#, None),
        (r#"{"annotations":null}"#, None),
        (r#"{"name":"n"}"#, None),
    ] {
        let spliced = Object::parse(with(before)).expect("valid").with_annotation("m/k", "v");
        let expected = after.map(|after| Object::parse(with(after)).expect("valid"));
        let parts = |object: &Object| (object.json(), object.annotations(), object.managed_fields_json());
        assert_eq!(spliced.as_ref().map(parts), expected.as_ref().map(parts), "{before}");
    }
}

#[test]
fn only_the_front_of_a_valid_document_is_read() {
    for json in [
        r#"{"apiVersion":"v1","kind":"X","metadata":{"resourceVersion":"7","labels":{"a":"b"},"name":"n"},"spec":[1,{}]}"#,
        r#"{"apiVersion":"v1","kind":"X","metadata":{"name":"n"}}"#,
        r#"{"kind":"X","apiVersion":"v1","metadata":{"name":"n"},"spec":{}}"#,
        r#"{"kind":"X","metadata":{"name":"n"},"apiVersion":"v1"}"#,
        r#"{"apiVersion":"v1","kind":"X","spec":{},"metadata":{"name":"\u006e"}}"#,
        "{}",
    ] {
        let (whole, front) = (Object::parse(json).expect("valid"), Object::parse_valid(json).expect("valid"));
        assert_eq!(format!("{whole:?} {:?}", whole.labels()), format!("{front:?} {:?}", front.labels()), "{json}");
        assert_eq!((whole.api_version(), whole.json()), (front.api_version(), front.json()));
    }
    assert!(Object::parse_valid(r#"{"apiVersion":"v1","kind":"X","metadata":{"name":1}}"#).is_err());
}

#[test]
fn typed_objects_are_decoded_without_owners_and_a_list() {
    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(default)]
    struct Typed {
        metadata: serde_json::Map<String, Value>,
        spec: Value,
    }
    let object = Object::parse(
        r#"{"metadata":{"managedFields":[{"manager":"m"}],"name":"a"},"spec":{"inner":{"list":[1,2]},"n":1}}"#,
    )
    .expect("a document");
    let typed: Typed = object.decode().expect("typed");
    assert_eq!(Value::from(typed.metadata), serde_json::json!({"managedFields": null, "name": "a"}));
    let json = object.json();
    let place = object.place_of(&json, &["spec", "inner", "list"]).expect("it has a list");
    assert_eq!(&json[place.clone()], b"[1,2]");
    let typed: Typed = object.decode_but(&json, place).expect("typed");
    assert_eq!(typed.spec, serde_json::json!({"inner": {"list": []}, "n": 1}));
    assert_eq!(object.place_of(&json, &["spec", "absent", "list"]), None);
}

#[test]
fn the_owners_can_be_left_out() {
    let with = |metadata: &str| Object::parse(format!(r#"{{"metadata":{metadata},"a":1}}"#)).expect("a document");
    let list = r#"[{"manager":"m","fieldsV1":{"f:a":{}}}]"#;
    for (metadata, tree, owners) in [
        (format!(r#"{{"managedFields":{list},"name":"a"}}"#), serde_json::json!({"name": "a"}), Some(list)),
        (r#"{"name":"a"}"#.into(), serde_json::json!({"name": "a"}), None),
        (r#"{"managedFields":null}"#.into(), serde_json::json!({}), Some("null")),
    ] {
        let object = with(&metadata);
        let json = object.json();
        let apart = Apart::read(&json).expect("an object");
        assert_eq!(apart.tree, serde_json::json!({"metadata": tree, "a": 1}));
        assert_eq!(apart.owners, owners);
        let decoded: Apart<'_> = serde_json::from_slice(&json).expect("an object");
        assert_eq!((apart.tree, apart.owners), (decoded.tree, decoded.owners));
    }
}

#[test]
fn labels_are_found_whatever_their_order_and_escapes() {
    let object = Object::parse(
        r#"{"metadata":{"labels":{"z":"1","a/b":"2","\u0061":"q\"","z":"3"},"name":"\u006e","deletionTimestamp":"T"}}"#,
    )
    .expect("a valid document");
    let found: Vec<_> = object.labels().iter().collect();
    assert_eq!(found, [("a", "q\""), ("a/b", "2"), ("z", "3")]);
    assert_eq!((object.label("a/b"), object.label("b")), (Some("2"), None));
    assert_eq!((object.name(), object.deletion_timestamp()), ("n", Some("T")));
    let same = Object::parse(r#"{"metadata":{"labels":{"a":"q\"","a/b":"2","z":"3"}}}"#).expect("a valid document");
    assert_eq!(object.labels(), same.labels());
    assert!(Object::parse(r#"{"metadata":{"labels":{"a":null}}}"#).is_err());
    assert!(Object::parse(r#"{"metadata":{"name":1}}"#).is_err());
}
