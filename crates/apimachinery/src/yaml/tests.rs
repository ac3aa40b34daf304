//! Scalars as kubectl reads them, layout as it prints them.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// Of a map with one value.
fn read_value(text: &str) -> Result<Value, String> {
    let document = to_json_value(format!("a: {text}\n").as_bytes()).map_err(|error| error.to_string())?;
    Ok(document["a"].clone())
}

#[test]
fn a_block_scalar_at_the_end_has_the_line_breaks_of_the_text() {
    for (text, expected) in [
        ("a: |\n  x\n  y", "x\ny"),
        ("a: |\n  x\n", "x\n"),
        ("a: |+\n  x", "x"),
        ("a: >\n  x\n  y", "x y"),
        ("a: |-\n  x", "x"),
        ("a: |\n  x\n  ", "x\n"),
        ("a: |\n  x\n#c", "x\n"),
        ("b: 1\na: |\n  x\n  # y", "x\n# y"),
    ] {
        assert_eq!(to_json_value(text.as_bytes()).expect(text)["a"], json!(expected), "{text:?}");
    }
    let earlier = to_json_value(b"a: |\n  x\nb: x").expect("valid");
    assert_eq!(earlier, json!({"a": "x\n", "b": "x"}));
}

/// As kubectl 1.33 reads them.
#[test]
fn scalars_are_read_as_yaml_1_1() {
    for (text, expected) in [
        ("yes", json!(true)),
        ("Off", json!(false)),
        ("y", json!(true)),
        // Only the spellings of the specification are words.
        ("truE", json!("truE")),
        ("yEs", json!("yEs")),
        ("nULL", json!("nULL")),
        (".iNf", json!(".iNf")),
        ("~", json!(null)),
        ("", json!(null)),
        ("0644", json!(420)),
        ("0o17", json!(15)),
        ("0x1F", json!(31)),
        ("0X1F", json!(31)),
        ("-0b11", json!(-3)),
        ("08", json!(8)),
        ("0o8", json!("0o8")),
        ("0x", json!("0x")),
        ("1_000", json!(1000)),
        ("+_765_44.5", json!(76544.5)),
        ("1_0e3", json!(10000)),
        (".5e3", json!(500)),
        (".5_0", json!(0.5)),
        ("._5", json!("._5")),
        (".", json!(".")),
        ("1.", json!(1)),
        ("1e3", json!(1000)),
        ("1.0", json!(1)),
        ("1.5", json!(1.5)),
        ("-0.0", json!(0)),
        ("1e400", json!("1e400")),
        ("9223372036854775807", json!(i64::MAX)),
        ("-0x8000000000000000", json!(i64::MIN)),
        ("18446744073709551615", json!(18446744073709551615_f64)),
        ("-9223372036854775809", json!(-9223372036854775809_f64)),
        ("0xfffffffffffffffff", json!("0xfffffffffffffffff")),
        ("1:30", json!("1:30")),
        ("1.2.3", json!("1.2.3")),
        ("2024-01-01", json!("2024-01-01")),
        ("=", json!("=")),
        ("'1'", json!("1")),
        ("[1, 'a']", json!([1, "a"])),
        ("!!str 1", json!("1")),
        ("! 1", json!("1")),
        ("!!str", json!("")),
        ("!local", json!("")),
        ("!local 1.5", json!("1.5")),
        ("!local {b: 1}", json!({"b": 1})),
        ("!!int '1'", json!(1)),
        ("!!float 0x1f", json!(31)),
        ("!!bool 'yes'", json!(true)),
        ("!!null ''", json!(null)),
        ("!!timestamp 2024-01-01", json!("2024-01-01")),
        ("!!binary aGk=", json!("hi")),
        ("!!seq {b: 1}", json!({"b": 1})),
        ("!<tag:yaml.org,2002:int> 3", json!(3)),
        (r#""\ud83d\ude00""#, json!("😀")),
    ] {
        assert_eq!(read_value(text), Ok(expected), "{text}");
    }
    assert_eq!(to_json_value(b"# nothing\n \t\n---\n"), Ok(Value::Null));
    assert_eq!(to_json_value("\u{a0}\n".as_bytes()), Ok(json!("\u{a0}")));
    assert_eq!(to_json_value(br#"{"a": 1.0}"#), Ok(json!({"a": 1})));
}

#[test]
fn unreadable_scalars_are_errors() {
    for (text, expected) in [
        (".inf", "json: unsupported value: +Inf"),
        (".nan", "json: unsupported value: NaN"),
        ("!!int 1.5", "yaml: cannot decode !!float `1.5` as a !!int"),
        ("!!bool 1", "yaml: cannot decode !!int `1` as a !!bool"),
        ("!!null x", "yaml: cannot decode !!str `x` as a !!null"),
        ("!!int '2024-01-01'", "yaml: cannot decode !!str `2024-01-01` as a !!int"),
        ("!!timestamp x", "yaml: cannot decode !!str `x` as a !!timestamp"),
        ("!!binary aG", "yaml: !!binary value contains invalid base64 data"),
        ("!!binary true", "yaml: !!binary value is not UTF-8, which JSON requires"),
        ("*b", "yaml: unknown anchor 'b' referenced"),
        ("&b [*b]", "yaml: anchor 'b' value contains itself"),
        ("{[b]: 1}", "yaml: line 1: invalid map key: only scalars are keys"),
        ("{~: 1}", "unsupported map key: null"),
        ("{<<: 1}", "yaml: map merge requires map or sequence of maps as the value"),
        ("b: c", "yaml: line 1: mapping values are not allowed in this context"),
        (r#""\z""#, "yaml: line 1: found unknown escape character"),
    ] {
        assert_eq!(read_value(text), Err(format!("error converting YAML to JSON: {expected}")), "{text}");
    }
    let two = to_json_value(b"a: 1\n---\nb: 1\n").map_err(|error| error.to_string());
    let expected = "error converting YAML to JSON: yaml: line 2: expected a single document, but found another one";
    assert_eq!(two, Err(expected.to_owned()));
}

#[test]
fn keys_are_strings() {
    let keys = "{1: 0, 0x10: 0, 1.5: 0, true: 0, 1e3: 0, 123456789.5: 0, .inf: 0, 1e6: 0, 2024-01-01: 0, 0.00001: 0}";
    let expected = ["1", "16", "1.5", "true", "1000", "1.2345679e+08", ".inf", "1e+06", "2024-01-01", "1e-05"];
    let expected: Map<String, Value> = expected.map(|key| (key.to_owned(), json!(0))).into_iter().collect();
    assert_eq!(read_value(keys), Ok(Value::Object(expected)));
    assert_eq!(to_json_value(b"&k a: 1\nb: *k\n*k : 2\n"), Ok(json!({"a": 2, "b": "a"})));
    assert_eq!(read_value("{y: 1, 'n': 2, no: 3}"), Ok(json!({"true": 1, "n": 2, "false": 3})));
    let kustomize = to_json_value_for_kustomize("a: {y: yes, n: TRUE}\n");
    assert_eq!(kustomize, Ok(json!({"a": {"y": "yes", "n": true}})));
    let repeated = to_json_value_for_kustomize("a: 1\nb: 1\na: 2\n").map_err(|error| error.to_string());
    let expected = "error converting YAML to JSON: yaml: line 3: key \"a\" already set in map";
    assert_eq!(repeated, Err(expected.to_owned()));
}

/// A merge counts from its place on, as for kubectl.
#[test]
fn maps_are_merged() {
    let base = "b: &b {p: 1, q: 2}\nc: &c {q: 5, r: 6}\n";
    for (text, expected) in [
        ("{<<: *b, q: 3}", json!({"p": 1, "q": 3})),
        ("{q: 3, <<: *b}", json!({"p": 1, "q": 2})),
        ("{<<: [*b, *c]}", json!({"p": 1, "q": 2, "r": 6})),
        ("{<<: {p: 1}, r: 2}", json!({"p": 1, "r": 2})),
        ("{!!merge <<: *b}", json!({"p": 1, "q": 2})),
        ("{'<<': 1}", json!({"<<": 1})),
        ("{!!str <<: 1}", json!({"<<": 1})),
    ] {
        let (value, warnings) = to_json_value_warned(format!("{base}a: {text}\n").as_bytes()).expect("valid");
        assert_eq!((&value["a"], warnings), (&expected, Vec::new()), "{text}");
    }
}

#[test]
fn duplicates_are_reported() {
    let document = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yy\ndata:\n  k: 'v'\n  k: 'w'\n";
    let (value, warnings) = to_json_value_warned(document).expect("valid");
    assert_eq!(value["data"], json!({"k": "w"}));
    assert_eq!(warnings, [r#"line 7: key "k" already set in map"#]);
    let document = b"a: 1\na: 2\nl:\n- x: 1\n  x: 2\n- {v: 1, v: 2, z: {w: 1, w: 2}}\na: 3\n";
    let (value, warnings) = to_json_value_warned(document).expect("valid");
    assert_eq!(value, json!({"a": 3, "l": [{"x": 2}, {"v": 2, "z": {"w": 2}}]}));
    let expected = [(2, "a"), (5, "x"), (6, "v"), (6, "w"), (7, "a")];
    assert_eq!(warnings, expected.map(|(line, key)| format!("line {line}: key {key:?} already set in map")));
    let (_, warnings) = to_json_value_warned(b"{\n  \"a\": {\"b\": 1,\n \"b\": 2},\n  \"a\": 1}").expect("valid");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let (_, warnings) = to_json_value_warned(b"1: a\n1: b\nc:\n  d: 1\nc:\n  d: 2\n").expect("valid");
    assert_eq!(warnings, ["line 2: key 1 already set in map", "line 6: key \"c\" already set in map"]);
    let (_, warnings) = to_json_value_warned(b"a: {<<: {b: 1}, b: 2, b: 3}\n").expect("valid");
    assert_eq!(warnings, ["line 1: key \"b\" already set in map"]);
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
    // Aliases that repeat a long text, or nest, and anchors around each other.
    let copies = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 100].join(", "));
    let chain: String = (1..200).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
    let nested: String = (0..60).map(|n| format!("&a{n} [")).collect();
    let nested = format!("{nested}{}{}", "x, ".repeat(100_000), "]".repeat(60));
    for (text, expected) in [
        (copies, "yaml: document contains excessive aliasing"),
        (format!("a0: &a0 []\n{chain}"), "yaml: line 64: more than 64 containers in each other"),
        (nested, "yaml: line 1: the values of anchors are too large"),
    ] {
        let error = to_json_value(text.as_bytes()).expect_err("hostile").to_string();
        assert_eq!(error, format!("error converting YAML to JSON: {expected}"));
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
    check(
        "a: 1\n---\nb: [\n---\nc: 1\n",
        json!([{"a": 1}]),
        "error converting YAML to JSON: yaml: line 2: unclosed bracket",
    );
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
    // Keys of several lines, and long ones.
    let (lines, long) = ("a\nb".to_owned(), "k".repeat(129));
    let keys = json!({lines: {"v": 1}, long.clone(): [1, 2], "m": {long.clone(): 1}});
    let printed = format!("? |-\n  a\n  b\n: v: 1\n? {long}\n: - 1\n  - 2\nm:\n  ? {long}\n  : 1\n");
    assert_eq!(to_string(&keys), printed);
    assert_eq!(to_json_value(printed.as_bytes()), Ok(keys));
    // Days and times that the calendar has not are strings.
    assert_eq!(
        to_string(&json!(["2024-02-30", "2024-02-29", "2024-01-01T24:00:00Z", "2024-1-1 1:2:3.5"])),
        "- 2024-02-30\n- \"2024-02-29\"\n- 2024-01-01T24:00:00Z\n- \"2024-1-1 1:2:3.5\"\n"
    );
    // A text that is all of a document is indented, so that no line of it separates documents.
    assert_eq!(to_string(&json!("a\n---\nb")), "|-\n  a\n  ---\n  b\n");
}

fn document() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-c0-9:#'\"\\-. \n\r\t\u{85}\u{2028}]{0,12}",
        "\\PC{0,6}",
        Just("true".to_owned()),
        "[tT][rR][uU][eE]|[nN][uU][lL][lL]|[yY][eE][sS]|[+-]?\\.[iI][nN][fF]",
        "[+-]?[0-9_.]{1,4}(e[0-9]{1,3})?|0[xob][0-9a-f_]{0,3}",
        "[a-d ]{125,135}",
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
            prop::collection::btree_map("[a-z0-9:'\\- .\n]{0,5}|[a-c]{120,140}", inner, 0..4)
                .prop_map(|m| m.into_iter().collect()),
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
