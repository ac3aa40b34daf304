//! Scalars as kubectl reads them, layout as it prints them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn scalars_are_read_as_yaml_1_1() {
    for (text, expected) in [
        ("yes", json!(true)),
        ("Off", json!(false)),
        ("0644", json!(420)),
        ("0x1F", json!(31)),
        ("1_000", json!(1000)),
        ("1e3", json!(1000)),
        ("1.0", json!(1)),
        ("1.5", json!(1.5)),
        ("~", json!(null)),
        ("'1'", json!("1")),
        ("1.2.3", json!("1.2.3")),
        ("2024-01-01", json!("2024-01-01")),
        ("[1, 'a']", json!([1, "a"])),
    ] {
        let document = format!("a: {text}\n");
        assert_eq!(to_json_value(document.as_bytes()), Ok(json!({"a": expected})), "{text}");
    }
    let merged = to_json_value(b"base: &b {x: 1, y: 2}\nother:\n  <<: *b\n  y: 3\n").expect("valid");
    assert_eq!(merged["other"], json!({"x": 1, "y": 3}));
    assert_eq!(to_json_value(b"# nothing\n \t\n---\n"), Ok(Value::Null));
    assert_eq!(to_json_value("\u{a0}\n".as_bytes()), Ok(json!("\u{a0}")));
    assert_eq!(to_json_value(br#"{"a": 1.0}"#), Ok(json!({"a": 1})));
}

#[test]
fn duplicates_are_reported() {
    let document = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yy\ndata:\n  k: 'v'\n  k: 'w'\n";
    let (value, warnings) = to_json_value_warned(document).expect("valid");
    assert_eq!(value["data"], json!({"k": "w"}));
    assert_eq!(warnings, [r#"line 7: key "k" already set in map"#]);
    let document = b"a: 1\na: 2\nl:\n- x: 1\n  x: 2\n- {y: 1, y: 2, z: {w: 1, w: 2}}\na: 3\n";
    let (value, warnings) = to_json_value_warned(document).expect("valid");
    assert_eq!(value, json!({"a": 3, "l": [{"x": 2}, {"y": 2, "z": {"w": 2}}]}));
    let expected = [(2, "a"), (5, "x"), (6, "y"), (6, "w"), (7, "a")];
    assert_eq!(warnings, expected.map(|(line, key)| format!("line {line}: key {key:?} already set in map")));
    let (_, warnings) = to_json_value_warned(b"{\n  \"a\": {\"b\": 1,\n \"b\": 2},\n  \"a\": 1}").expect("valid");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert_eq!(to_json_value_warned(b"a: 1\nb: 2\n").map(|(_, warnings)| warnings), Ok(Vec::new()));
}

#[test]
fn hostile_documents_are_refused() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for n in 1..10 {
        let aliases = vec![format!("*a{}", n - 1); 10].join(",");
        bomb.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
    }
    assert!(to_json_value(bomb.as_bytes()).is_err());
    for open in ["[", "- ", "{a: ", "? "] {
        for depth in [60, 70, 5000] {
            let _ = to_json_value(open.repeat(depth).as_bytes());
        }
        assert!(to_json_value(open.repeat(5000).as_bytes()).is_err(), "{open}");
    }
    assert!(to_json_value(b"a: [").is_err() && to_json_value(b"\xff\xfe\x00").is_err());
}

#[test]
fn streams_are_split() {
    let stream = b"a: 1\n---\n# only a comment\n---\nb: |\n  ---x\n--- \n{\"c\": 1}\n{\"d\": 2}\n";
    assert_eq!(documents(stream), Ok(vec![json!({"a": 1}), json!({"b": "---x\n"}), json!({"c": 1}), json!({"d": 2})]));
}

#[test]
fn documents_before_an_error_are_kept() {
    let check = |stream: &str, expected: Value, error: &str| {
        let (values, found) = documents_before_error(stream.as_bytes());
        assert_eq!(
            (json!(values), found.is_some_and(|it| it.to_string().contains(error))),
            (expected, !error.is_empty())
        );
    };
    check("a: 1\n---\n{\"b\": 2.0}{\"b\": 3}\n", json!([{"a": 1}, {"b": 2}, {"b": 3}]), "");
    check("a: 1\n---\nb: [\n---\nc: 1\n", json!([{"a": 1}]), "error converting YAML to JSON: yaml: unclosed bracket");
    check("{\"a\": 1} {b: 1}", json!([{"a": 1}, {"b": 1}]), "");
    check("{\"a\": 1} {\"b\":", json!([{"a": 1}]), "error converting YAML to JSON");
    check("{a: 1}", json!([{"a": 1}]), "");
}

#[test]
fn layout_matches_kubectls() {
    let value = json!({
        "metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z", "annotations": {"j": "{\"a\":1}\n", "e": ""}},
        "list": [{"b": 1, "a": [1, [2, 3]]}, "x", [], {}],
        "key10": "yes", "key9": "0644", "m": "a: b", "n": null, "t": "tab\there", "s": "it's", "q": "'x'", "p": 1.5,
        "multi": "one\n\n  two", "version": "1.2.3", "image": "nginx:1.19", "time": "12:30", "-": "- x", "hash": "a #b",
    });
    let expected = r#"'-': '- x'
hash: 'a #b'
image: nginx:1.19
key9: "0644"
key10: "yes"
list:
- a:
  - 1
  - - 2
    - 3
  b: 1
- x
- []
- {}
m: 'a: b'
metadata:
  annotations:
    e: ""
    j: |
      {"a":1}
  creationTimestamp: "2024-01-01T00:00:00Z"
  name: a
multi: |-
  one

    two
"n": null
p: 1.5
q: '''x'''
s: it's
t: "tab\there"
time: "12:30"
version: 1.2.3
"#;
    assert_eq!(to_string(&value), expected);
    let long = json!({"status": {"message": "word ".repeat(20).trim_end()}});
    let printed = to_string(&long);
    assert_eq!(printed.lines().count(), 3, "{printed}");
    assert!(printed.lines().nth(2).is_some_and(|line| line.starts_with("    word")), "{printed}");
    assert_eq!(to_json_value(printed.as_bytes()), Ok(long));
    // Line breaks that are read as spaces are written escaped.
    assert_eq!(to_string(&json!({"a": "x\ry", "b": "x\r\ny"})), "a: \"x\\ry\"\nb: \"x\\r\\ny\"\n");
    // A plain `<<` would be read as a merge.
    let special = json!({"<<": "<<", "=": "=", "._1": "._1", "1_0": "1_0"});
    assert_eq!(to_string(&special), "._1: ._1\n\"<<\": <<\n=: =\n\"1_0\": \"1_0\"\n");
    // A text that is all of a document is indented, so that no line of it separates documents.
    assert_eq!(to_string(&json!("a\n---\nb")), "|-\n  a\n  ---\n  b\n");
}

fn document() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-c0-9:#'\"\\-. \n\r\t\u{85}\u{2028}]{0,12}",
        "\\PC{0,6}",
        Just("true".to_owned()),
        Just("1e3".to_owned()),
        Just("0x1".to_owned()),
        Just("null".to_owned()),
        "[a-d ]{60,120}",
    ];
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(Value::Null),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z0-9:'\\- .]{0,5}", inner, 0..4).prop_map(|m| m.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn printing_round_trips(value in document()) {
        for value in [json!({"v": value}), value] {
            let printed = to_string(&value);
            prop_assert_eq!(to_json_value(printed.as_bytes()), Ok(value), "{}", printed);
        }
    }

    #[test]
    fn reading_never_panics(text in "[a-c:&*<\\-\\[\\]{}'\"|>!\n ]{0,40}") {
        let _ = to_json_value_warned(text.as_bytes());
        let _ = documents(text.as_bytes());
    }
}
