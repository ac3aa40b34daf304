//! Exchanges recorded with kube-apiserver 1.36, replayed on this server. `exchanges.jsonl` has one exchange a line: the
//! request, and the response with `<uid>`, `<time>`, `<rv>` and the like in place of values that differ between two
//! runs. [`DIFFERENCES`] lists every difference of a response, with the reason; an entry without a difference also
//! fails.

mod compare;
mod server;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::engine::on_every_engine;
use crate::parity::Reply;

on_every_engine! {
    paused: [
        responses_match_kube_apiservers,
    ],
}

const EXCHANGES: &str = include_str!("exchanges.jsonl");

/// Area, step (`*` for all of an area), where the reply differs (beginning of the place), and the reason.
type Difference = (&'static str, &'static str, &'static str, &'static str);

const SCHEME: &str = "a place in Go's sources helps no user";
const BINARY: &str = "protobuf with other values and without empty fields";
const VERSION: &str = "another program";
const SORTED: &str = "fields of objects in messages are sorted, and a wrong kind is refused before its content";
const DISTRIBUTION: &str = "a distribution's own source of projected volumes";
const CERTIFICATE: &str = "the recorded client had a certificate, and the one here a token";
const UNORDERED: &str = "upstream lists rules in a random order; here in the order of their bindings' names";
const NO_ROWS: &str = "an empty list is a list";
const COMPONENTS: &str = "no components apart from the server";
const CONFLICTS: &str = "the order of a Go map";

const DIFFERENCES: &[Difference] = &[
    ("create", "create-unknown-kind", "body.message", SCHEME),
    ("create", "accept-proto", "body.__b64__", BINARY),
    ("errors", "anon-version", "body.", VERSION),
    ("patch", "merge-kind", "body.", SORTED),
    ("patch", "merge-unknown-strict", "body.", SORTED),
    ("ssa", "conflict", "body.details.causes", CONFLICTS),
    ("defaults", "pod", "body.spec.volumes[0].projected.sources", DISTRIBUTION),
    ("defaults", "pod-rich", "body.spec.volumes[8].projected.sources", DISTRIBUTION),
    ("defaults", "pod-hostnet", "body.spec.volumes[0].projected.sources", DISTRIBUTION),
    ("defaults", "ssr", "body.status.userInfo", CERTIFICATE),
    ("defaults", "ssrr", "body.status", UNORDERED),
    ("defaults", "table-customresourcedefinitions", "body.rows", NO_ROWS),
    ("defaults", "table-componentstatuses", "body.rows", COMPONENTS),
    ("defaults", "table-componentstatuses", "body.metadata.resourceVersion", COMPONENTS),
];

async fn responses_match_kube_apiservers() {
    let server = server::start().await;
    let mut replies: BTreeMap<String, Value> = BTreeMap::new();
    let (mut found, mut count) = (Vec::new(), 0);
    for line in EXCHANGES.lines() {
        let exchange: Value = serde_json::from_str(line).expect("an exchange");
        let text = |field: &str| exchange[field].as_str().unwrap_or_default().to_owned();
        let reply = send(&server, &exchange, &replies).await;
        let body = document(&reply.body);
        // A reply to HEAD loses its body on the socket only.
        let body = if exchange["method"] == "HEAD" { exchange["reply"].clone() } else { body };
        for place in compare::reply(&exchange, reply.code, &reply.headers, &body) {
            found.push((text("area"), text("step"), place));
        }
        replies.insert(text("step"), body);
        count += 1;
    }
    assert_eq!(count, 322);
    let is_of = |(area, step, at, _): &Difference, found: &(String, String, String)| {
        *area == found.0 && (*step == found.1 || *step == "*") && found.2.starts_with(at)
    };
    let unexpected: Vec<String> = found
        .iter()
        .filter(|found| !DIFFERENCES.iter().any(|known| is_of(known, found)))
        .map(|(area, step, place)| format!("{area}/{step} {place}"))
        .collect();
    assert!(unexpected.is_empty(), "{} places differ:\n{}", unexpected.len(), unexpected.join("\n"));
    let settled: Vec<&Difference> =
        DIFFERENCES.iter().filter(|known| !found.iter().any(|found| is_of(known, found))).collect();
    assert!(settled.is_empty(), "no longer differ: {settled:#?}");
}

async fn send(server: &apiserver::ApiServer, exchange: &Value, replies: &BTreeMap<String, Value>) -> Reply {
    let body = match (exchange["text"].as_str(), exchange["bytes"].as_str(), exchange.get("body")) {
        (Some(text), ..) => repeated(text).into_bytes(),
        (_, Some(bytes), _) => STANDARD.decode(bytes).expect("base64"),
        (.., Some(body)) => {
            let body = repeated(&body.to_string());
            match exchange["times"].as_u64() {
                Some(times) => format!("[{}]", vec![body; times as usize].join(",")).into_bytes(),
                None => body.into_bytes(),
            }
        }
        _ => Vec::new(),
    };
    let mut headers = Vec::new();
    for (name, value) in exchange["headers"].as_object().expect("headers") {
        let value = value.as_str().expect("a header");
        let value = match value.split_once('{') {
            // A value of an earlier reply.
            Some((head, place)) => {
                let (step, pointer) = place.trim_end_matches('}').split_once('/').expect("a place");
                let found = replies[step].pointer(&format!("/{pointer}")).and_then(Value::as_str);
                format!("{head}{}", found.expect("a text"))
            }
            None => value.to_owned(),
        };
        headers.push((name.clone(), value));
    }
    let method = exchange["method"].as_str().expect("a method");
    server::send(server, method, exchange["path"].as_str().expect("a path"), &headers, body).await
}

/// `{{x*3}}` expands to `xxx`.
fn repeated(text: &str) -> String {
    let mut parts = text.split("{{");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once("}}").and_then(|(run, rest)| Some((run.split_once('*')?, rest))) {
            Some(((what, times), rest)) if times.parse::<usize>().is_ok() => {
                out.push_str(&what.repeat(times.parse().expect("a number")));
                out.push_str(rest);
            }
            _ => {
                out.push_str("{{");
                out.push_str(part);
            }
        }
    }
    out
}

/// A JSON document, several in lines, or the text.
fn document(body: &[u8]) -> Value {
    if let Ok(tree) = serde_json::from_slice(body) {
        return tree;
    }
    let Ok(text) = std::str::from_utf8(body) else {
        return serde_json::json!({"__b64__": STANDARD.encode(body)});
    };
    let lines: Result<Vec<Value>, _> = text.lines().filter(|line| !line.is_empty()).map(serde_json::from_str).collect();
    lines.map_or_else(|_| text.into(), Value::from)
}
