//! The table of hostile requests.

use bytes::Bytes;
use serde_json::json;
use transport::Body;

use super::bodies::{LIMIT, deep, deep_protobuf, enveloped, field, filled, laughs, numbered, padded, varint};
use super::{lists, patches};

#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    Code(u16),
    /// Any 4xx with a Status.
    Refused,
    /// Anything but a failure of the server: the request is legal, only large or odd.
    Answered,
}

pub(super) struct Case {
    pub name: String,
    pub method: &'static str,
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Box<dyn Fn() -> Body>,
    pub expected: Expected,
}

pub(super) const MAPS: &str = "/api/v1/namespaces/n/configmaps";
pub(super) const WIDGETS: &str = "/apis/example.com/v1/namespaces/n/widgets";
/// The collections in which the requests may have created objects.
pub(super) const COLLECTIONS: &[&str] = &[
    "/api/v1/namespaces",
    "/api/v1/configmaps",
    "/api/v1/pods",
    "/apis/apps/v1/deployments",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/example.com/v1/widgets",
];
/// Items in lists that are owned one by one: with their owners they fill the largest object that is stored (4 MiB).
const ITEMS: usize = 40_000;
/// The apiVersion and kind of a widget.
const WIDGET: &str = r#""apiVersion":"example.com/v1","kind":"Widget""#;
pub(super) const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

use Expected::{Answered, Code, Refused};

fn with(
    name: &str,
    method: &'static str,
    url: &str,
    content_type: &str,
    body: impl Into<Bytes>,
    expected: Expected,
) -> Case {
    let body: Bytes = body.into();
    Case {
        name: name.to_owned(),
        method,
        url: url.to_owned(),
        headers: vec![("content-type", content_type.to_owned())],
        body: Box::new(move || transport::full(body.clone())),
        expected,
    }
}

pub(super) fn post(name: &str, url: &str, content_type: &str, body: impl Into<Bytes>, expected: Expected) -> Case {
    with(name, "POST", url, content_type, body, expected)
}

pub(super) fn patch(name: &str, url: &str, content_type: &str, body: impl Into<Bytes>, expected: Expected) -> Case {
    with(name, "PATCH", url, content_type, body, expected)
}

pub(super) fn get(name: &str, url: &str) -> Case {
    Case { headers: Vec::new(), ..with(name, "GET", url, "", "", Answered) }
}

/// The targets of the hostile requests.
pub(super) fn setup() -> Vec<Case> {
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "objects": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object",
                "x-kubernetes-map-type": "atomic", "x-kubernetes-preserve-unknown-fields": true}},
            "filled": {"type": "array", "items": {"type": "object", "properties": {
                "v": {"type": "string", "default": "x".repeat(10_000)}}}},
            "unique": {"type": "array", "maxItems": 1000000, "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}}}}}}]}});
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "x", "containers": [{"name": "c", "image": "i"}]}});
    let long =
        format!("{{{WIDGET},\"metadata\":{{\"name\":\"long\"}},\"free\":{{\"a\":[{}1]}}}}", "1,".repeat(700_000));
    let env = numbered(
        r#"{"metadata":{"name":"env"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","env":["#,
        |n| format!(r#"{{"name":"E{n}"}}"#),
        "]}]}}}}",
        ITEMS,
    );
    vec![
        post("a namespace", "/api/v1/namespaces", JSON, r#"{"metadata":{"name":"n"}}"#, Code(201)),
        post("a definition", crds, JSON, definition.to_string(), Code(201)),
        post("a map", MAPS, JSON, r#"{"metadata":{"name":"m"},"data":{"k":"v"}}"#, Code(201)),
        post("a pod", "/api/v1/namespaces/n/pods", JSON, pod.to_string(), Code(201)),
        post("a widget with a long list", WIDGETS, JSON, long, Code(201)),
        post("a Deployment with 40,000 variables", "/apis/apps/v1/namespaces/n/deployments", JSON, env, Code(201)),
    ]
}

pub(super) fn all() -> Vec<Case> {
    [depth(), width(), lists::all(), sizes(), patches::all(), texts(), queries()].into_iter().flatten().collect()
}

fn depth() -> Vec<Case> {
    let map = format!("{MAPS}/m");
    let schema = format!(
        r#"{{"metadata":{{"name":"xs.example.com"}},"spec":{{"group":"example.com","scope":"Cluster","names":{{"plural":"xs","kind":"X"}},"versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{}}}}}]}}}}"#,
        "{\"type\":\"object\",\"properties\":{\"a\":".repeat(80_000)
    );
    // At the limit of the decoder: a stored object must be readable with all server-populated fields.
    let edge = (115..=127).map(|levels| {
        let body = format!(r#"{{{WIDGET},"metadata":{{"generateName":"deep-"}},"free":{}}}"#, deep(levels));
        post(&format!("JSON in a custom resource, {levels} deep"), WIDGETS, JSON, body, Answered)
    });
    let mut cases = vec![
        post("JSON, 500,000 deep", MAPS, JSON, deep(500_000), Refused),
        post("JSON arrays, never closed", MAPS, JSON, "[".repeat(LIMIT), Code(400)),
        post("YAML, flow, never closed", MAPS, YAML, "[".repeat(LIMIT), Code(400)),
        post("YAML, JSON 500,000 deep", MAPS, YAML, deep(500_000), Code(400)),
        post("YAML, lists in lists on one line", MAPS, YAML, "- ".repeat(LIMIT / 2), Code(400)),
        post("YAML, indented 2,000 deep", MAPS, YAML, indented(2_000), Code(400)),
        post("YAML, tags and anchors", MAPS, YAML, "!!a &a ".repeat(LIMIT / 8), Code(400)),
        post(
            "protobuf, 10,000 deep",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            PROTOBUF,
            deep_protobuf(10_000),
            Refused,
        ),
        post(
            "a schema, 80,000 deep",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            JSON,
            schema,
            Code(400),
        ),
        patch("merge patch, 500,000 deep", &map, MERGE, deep(500_000), Code(400)),
        patch("strategic patch, 500,000 deep", &map, STRATEGIC, deep(500_000), Code(400)),
        patch("JSON patch, 500,000 deep", &map, JSON_PATCH, deep(500_000), Code(400)),
        patch("apply, 500,000 deep", &format!("{map}?fieldManager=m"), APPLY, deep(500_000), Code(400)),
        with("delete options, 500,000 deep", "DELETE", &map, JSON, deep(500_000), Code(400)),
    ];
    cases.extend(edge);
    cases
}

fn indented(levels: usize) -> String {
    (0..levels).map(|level| format!("{}a:\n", " ".repeat(level))).collect()
}

fn width() -> Vec<Case> {
    let map = format!("{MAPS}/m");
    let named = |rest: &str| format!(r#"{{"metadata":{{"name":"w"}},{rest}"#);
    let widget = |rest: &str| format!(r#"{{{WIDGET},"metadata":{{"name":"w"}},{rest}"#);
    let keys = |n: usize| format!(r#""k{n}":"""#);
    let labels = r#"{"metadata":{"name":"w","labels":{"#;
    let owners = r#"{"metadata":{"name":"w","ownerReferences":["#;
    vec![
        post("as many keys as fit", MAPS, JSON, numbered(&named("\"data\":{"), keys, "}}", LIMIT), Answered),
        post(
            "one key, 400,000 times",
            MAPS,
            JSON,
            filled(&named("\"data\":{\"a\":\"\","), "\"a\":\"\",", "\"a\":\"\"}}"),
            Answered,
        ),
        post("unknown fields", MAPS, JSON, numbered(&named(""), |n| format!("\"x{n}\":1"), "}", LIMIT), Answered),
        post(
            "unknown fields, strictly",
            &format!("{MAPS}?fieldValidation=Strict"),
            JSON,
            numbered(&named(""), |n| format!("\"x{n}\":1"), "}", LIMIT),
            Code(400),
        ),
        post("wrong labels", MAPS, JSON, numbered(labels, |n| format!(r#""-{n}":"-""#), "}}}", LIMIT), Code(422)),
        post("wrong owners", MAPS, JSON, numbered(owners, |_| "{}".into(), "]}}", LIMIT), Code(422)),
        post(
            "owners that all control",
            MAPS,
            JSON,
            numbered(
                owners,
                |n| format!(r#"{{"apiVersion":"v1","kind":"A","name":"{n}","uid":"{n}","controller":true}}"#),
                "]}}",
                LIMIT,
            ),
            Code(422),
        ),
        post(
            "wrong finalizers",
            MAPS,
            JSON,
            numbered(r#"{"metadata":{"name":"w","finalizers":["#, |n| format!("\"{n}\""), "]}}", LIMIT),
            Code(422),
        ),
        post(
            "empty lists in a custom resource",
            WIDGETS,
            JSON,
            filled(&widget("\"free\":{\"a\":["), "[],", "[]]}}"),
            Answered,
        ),
        post(
            "a set with one value many times",
            WIDGETS,
            JSON,
            filled(&widget("\"set\":["), "\"a\",", "\"a\"]}"),
            Code(422),
        ),
        post(
            "keyed items of one key",
            WIDGETS,
            JSON,
            filled(&widget("\"keyed\":["), "{\"k\":\"a\"},", "{\"k\":\"a\"}]}"),
            Code(422),
        ),
        post("items with a large default", WIDGETS, JSON, filled(&widget("\"filled\":["), "{},", "{}]}"), Code(413)),
        post(
            "a set of objects",
            WIDGETS,
            JSON,
            numbered(&widget("\"objects\":["), |n| format!(r#"{{"k":{n}}}"#), "]}", LIMIT),
            Answered,
        ),
        post(
            "finalizers that yield warnings",
            WIDGETS,
            JSON,
            numbered(
                &format!(r#"{{{WIDGET},"metadata":{{"name":"f","finalizers":["#),
                |n| format!("\"f{n}\""),
                "]}}",
                LIMIT,
            ),
            Answered,
        ),
        post("keyed items without keys", WIDGETS, JSON, filled(&widget("\"keyed\":["), "{},", "{}]}"), Code(422)),
        post("YAML, a billion laughs", MAPS, YAML, laughs(), Code(400)),
        post("YAML, one key many times", MAPS, YAML, filled("data:\n", "  a: b\n", ""), Answered),
        post("YAML, as many items as fit", MAPS, YAML, filled("", "- \n", ""), Code(400)),
        post("YAML, as many documents as fit", MAPS, YAML, filled("", "---\n", ""), Code(422)),
        post("YAML, quotes", MAPS, YAML, filled("a: ", "'\"", ""), Code(400)),
        post("YAML, a brace and blanks", MAPS, YAML, filled("{", " ", ""), Code(400)),
        post(
            "protobuf, a length beyond the end",
            MAPS,
            PROTOBUF,
            [b"k8s\0\x12".to_vec(), varint(u64::MAX)].concat(),
            Code(400),
        ),
        post(
            "protobuf, empty entries",
            MAPS,
            PROTOBUF,
            enveloped("v1", "ConfigMap", &field(2, b"").repeat(1_500_000)),
            Answered,
        ),
        post(
            "protobuf, empty containers",
            "/api/v1/namespaces/n/pods",
            PROTOBUF,
            enveloped("v1", "Pod", &field(2, &field(2, b"").repeat(300_000))),
            Refused,
        ),
        patch("apply of 40,000 keyed items", &format!("{WIDGETS}/k?fieldManager=a"), APPLY, keyed(0), Code(201)),
        patch("apply of 40,000 others", &format!("{WIDGETS}/k?fieldManager=b"), APPLY, keyed(1), Answered),
        patch(
            "apply of a set with duplicates",
            &format!("{WIDGETS}/s?fieldManager=a"),
            APPLY,
            filled(r#"{"apiVersion":"example.com/v1","kind":"Widget","set":["#, "\"a\",", "\"a\"]}"),
            // kube-apiserver's code for a configuration that does not fit its type.
            Code(500),
        ),
        patch(
            "apply in YAML with one key many times",
            &format!("{map}?fieldManager=a"),
            APPLY,
            filled("apiVersion: v1\nkind: ConfigMap\ndata:\n", "  a: b\n", ""),
            Answered,
        ),
    ]
}

fn keyed(value: usize) -> String {
    let head = r#"{"apiVersion":"example.com/v1","kind":"Widget","keyed":["#;
    numbered(head, |n| format!(r#"{{"k":"{}","v":{value}}}"#, n * 7 % ITEMS), "]}", ITEMS)
}

fn sizes() -> Vec<Case> {
    let chunked = |size: usize| -> Box<dyn Fn() -> Body> {
        Box::new(move || {
            let text = Bytes::from(padded("chunked", size));
            let chunks: Vec<_> =
                (0..text.len()).step_by(1000).map(|at| Ok(text.slice(at..text.len().min(at + 1000)))).collect();
            transport::stream(futures::stream::iter(chunks))
        })
    };
    vec![
        post("a body of the largest size", MAPS, JSON, padded("full", LIMIT), Code(201)),
        post("one byte more", MAPS, JSON, padded("more", LIMIT + 1), Code(413)),
        post("one byte more, of a patch", MAPS, JSON, padded("more", LIMIT + 1), Code(413)),
        patch("one byte more, to apply", &format!("{MAPS}/m?fieldManager=m"), APPLY, padded("m", LIMIT + 1), Code(413)),
        with(
            "one byte more, of delete options",
            "DELETE",
            &format!("{MAPS}/m"),
            JSON,
            " ".repeat(LIMIT + 1),
            Code(413),
        ),
        Case { body: chunked(LIMIT), ..post("no length, the largest size", MAPS, JSON, "", Code(201)) },
        Case { body: chunked(LIMIT + 1), ..post("no length, one byte more", MAPS, JSON, "", Code(413)) },
        Case {
            body: Box::new(|| {
                transport::stream(futures::stream::repeat_with(|| Ok(Bytes::from_static(&[b' '; 4096]))))
            }),
            ..post("a body without an end", MAPS, JSON, "", Code(413))
        },
        Case {
            body: Box::new(|| transport::stream(futures::stream::pending())),
            expected: Answered,
            ..post("a body that never comes", "/api/v1/namespaces/n/configmaps?timeout=1s", JSON, "", Answered)
        },
        post("no body", MAPS, JSON, "", Code(400)),
        post("a null", MAPS, JSON, "null", Code(422)),
    ]
    .into_iter()
    .map(
        |case| {
            if case.name == "a body that never comes" { Case { expected: Expected::Code(504), ..case } } else { case }
        },
    )
    .collect()
}

fn texts() -> Vec<Case> {
    let named = |name: &str| format!(r#"{{"metadata":{{"name":{name}}}}}"#);
    vec![
        post("bad UTF-8", MAPS, JSON, b"{\"metadata\":{\"name\":\"\xff\xfe\"}}".to_vec(), Code(400)),
        post("bad UTF-8 in YAML", MAPS, YAML, b"metadata: {name: \"\xff\xfe\"}".to_vec(), Code(400)),
        post("a lone surrogate", MAPS, JSON, named(r#""\ud800""#), Code(400)),
        post("a NUL in a name", MAPS, JSON, named(r#""a\u0000b""#), Code(422)),
        post("a slash in a name", MAPS, JSON, named(r#""a/b""#), Code(422)),
        post("a name of 1 MiB", MAPS, JSON, named(&format!("\"{}\"", "a".repeat(1 << 20))), Code(422)),
        post(
            "a base of 1 MiB for a name",
            MAPS,
            JSON,
            format!(r#"{{"metadata":{{"generateName":"{}"}}}}"#, "a".repeat(1 << 20)),
            Refused,
        ),
        post(
            "a base with a character across the cut",
            MAPS,
            JSON,
            format!(r#"{{"metadata":{{"generateName":"{}é"}}}}"#, "a".repeat(57)),
            Refused,
        ),
        post("a number for a name", MAPS, JSON, named("1e999"), Code(400)),
        post(
            "numbers beyond all",
            WIDGETS,
            JSON,
            format!(
                "{{{WIDGET},{}",
                r#""metadata":{"name":"num","generation":1e30},"free":{"a":123456789012345678901234567890,"b":-1e308}}"#
            ),
            Answered,
        ),
        post("an unknown body", MAPS, "application/x-what", "x", Code(415)),
        post("CBOR", MAPS, "application/cbor", b"\xd9\xd9\xf7\xa0".to_vec(), Code(415)),
        post("protobuf of a custom resource", WIDGETS, PROTOBUF, enveloped("example.com/v1", "Widget", b""), Code(415)),
    ]
}

fn queries() -> Vec<Case> {
    let huge = i64::MAX;
    let values = (0..9_000).map(|n| format!("v{n}")).collect::<Vec<_>>().join(",");
    let mut cases: Vec<Case> = [
        format!("{MAPS}?limit=-1"),
        format!("{MAPS}?limit={huge}"),
        format!("{MAPS}?limit=99999999999999999999"),
        format!("{MAPS}?labelSelector=a+in+({values})"),
        format!("{MAPS}?labelSelector={}", "(".repeat(60_000)),
        format!("{MAPS}?labelSelector={}", "a,".repeat(30_000)),
        format!("{MAPS}?labelSelector=a%00b"),
        format!("{MAPS}?labelSelector=a%3E99999999999999999999"),
        format!("{MAPS}?fieldSelector={}", "metadata.name%3Da,".repeat(3_000)),
        format!("{MAPS}?fieldSelector=a%5C"),
        format!("{MAPS}?continue={}", "A".repeat(60_000)),
        format!("{MAPS}?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTg0NDY3NDQwNzM3MDk1NTE2MTUsIm5hbWVzcGFjZSI6Im4iLCJuYW1lIjoiYSJ9"),
        format!("{MAPS}?resourceVersion=-1"),
        format!("{MAPS}?resourceVersion={}&resourceVersionMatch=Exact", u64::MAX),
        format!("{MAPS}?resourceVersion=1&resourceVersionMatch=Exact"),
        format!("{MAPS}?watch=1&timeoutSeconds={huge}"),
        format!("{MAPS}?watch=1&timeoutSeconds=-{huge}"),
        format!("{MAPS}?watch=1&resourceVersion={}&timeoutSeconds=1", u64::MAX),
        format!("{MAPS}?timeout={huge}h"),
        format!("{MAPS}?timeout=-1ns"),
        format!("{MAPS}?pretty={}", "%ff".repeat(20_000)),
        format!("{MAPS}?{}", "&".repeat(60_000)),
        format!("{MAPS}?{}", "a=b&".repeat(15_000)),
        format!("{MAPS}/%00"),
        format!("{MAPS}/..%2f..%2fnamespaces%2fn"),
        format!("{MAPS}/%zz%"),
        format!("{MAPS}/%ff%fe"),
        format!("{MAPS}/{}", "a".repeat(60_000)),
        "/api/v1/namespaces/../namespaces/n/configmaps".to_owned(),
        "/api/v1/namespaces/n%2fconfigmaps/configmaps/m".to_owned(),
        "/api/v1/namespaces/n/configmaps%2fm".to_owned(),
        format!("/{}", "a/".repeat(30_000)),
        format!("/apis/{}", "%2f".repeat(20_000)),
        "/api//v1//namespaces//n//configmaps".to_owned(),
        "/openapi/v3/apis/..%2f..%2f?hash=%00".to_owned(),
        "/healthz/..?exclude=%ff&verbose".to_owned(),
    ]
    .iter()
    .map(|url| get(&url.chars().take(58).collect::<String>(), url))
    .collect();
    for requested in [huge, i64::MIN, 0] {
        let url = format!("/api/v1/namespaces/n/pods/p?gracePeriodSeconds={requested}");
        cases.push(with(&format!("a grace of {requested} seconds"), "DELETE", &url, JSON, "", Answered));
    }
    for (name, accept) in [
        ("10,000 alternatives", "application/json;q=0.1,".repeat(2_500)),
        ("an absurd quality", "application/json;q=1e999,*/*;q=-1,application/yaml;q=NaN".to_owned()),
        ("nothing known", "text/html;;;;,=;=,/,,".to_owned()),
        ("a table of what", "application/json;as=;g=;v=".to_owned()),
    ] {
        cases.push(Case { headers: vec![("accept", accept)], ..get(&format!("accepting {name}"), MAPS) });
    }
    for method in ["HEAD", "OPTIONS", "TRACE", "CONNECT", "FROBNICATE", "PUT"] {
        cases.push(with(&format!("{method} of a collection"), method, MAPS, JSON, "", Answered));
    }
    cases
}
