//! Calls of webhooks for a traced request.

use std::sync::Arc;

use http::Method;
use parking_lot::Mutex;
use serde_json::json;
use trace::{Finished, Kind, Sink, Tracer};
use world::World;

use crate::harness::{CONFIG_MAPS, Hooks, Plane, config_map};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Finished>>>);

impl Sink for Kept {
    fn take(&self, span: Finished) {
        self.0.lock().push(span);
    }
}

#[tokio::test]
async fn webhooks_continue_the_trace_of_the_request() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    plane.configure("Mutating", "m", vec![hooks.webhook("m", "allow/m", json!({}))]).await;
    let both = vec![hooks.webhook("v", "allow/v", json!({})), hooks.webhook("w", "code/500", json!({}))];
    plane.configure("Validating", "v", both).await;
    let refused = plane.send(Method::POST, CONFIG_MAPS, "application/json", &config_map("x")).await;
    assert_eq!((refused.code, hooks.parents().len()), (500, 0), "not traced: {refused:?}");
    let kept = Kept::default();
    plane.server.trace(Tracer::new(World::system(), 1_000_000, kept.clone()));
    let refused = plane.send(Method::POST, CONFIG_MAPS, "application/json", &config_map("x")).await;
    assert_eq!(refused.code, 500);
    let spans = kept.0.lock();
    let parent = |span: &Finished| spans.iter().find(|other| Some(other.context.span) == span.parent);
    let attribute = |span: &Finished, name: &str| {
        let found = span.attributes.iter().find(|(key, _)| *key == name);
        found.map_or_else(String::new, |(_, value)| format!("{value:?}"))
    };
    let calls: Vec<_> = spans.iter().filter(|span| span.kind == Kind::Client).collect();
    let mut lines: Vec<_> = calls
        .iter()
        .filter_map(|span| {
            let call = parent(span)?;
            let webhook = attribute(call, "webhook");
            Some(format!("{} < {} {webhook} < {}", span.name, call.name, parent(call)?.name))
        })
        .collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "HTTP POST < Call mutating webhook Text(\"m.example.com\") < Create",
            "HTTP POST < Call validating webhook Text(\"v.example.com\") < Create",
            "HTTP POST < Call validating webhook Text(\"w.example.com\") < Create",
        ]
    );
    let mut named: Vec<_> = calls.iter().map(|span| span.context.header()).collect();
    let mut received = hooks.parents();
    named.sort();
    received.sort();
    assert_eq!(named, received, "each webhook is sent the span of its own call");
    let failed: Vec<_> = calls.iter().filter(|span| span.error.is_some()).collect();
    assert!(failed.len() == 1 && attribute(failed[0], "http.response.status_code") == "Number(500)", "{failed:?}");
}
