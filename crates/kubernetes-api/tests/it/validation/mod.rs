//! Refused objects and the messages.

mod cluster;
mod details;
mod devices;
mod events;
mod network;
mod policies;
mod statuses;
mod storage;
mod updates;
mod volume_sources;
mod webhooks;
mod workloads;

use apimachinery::meta::Time;
use apimachinery::resource::RequestContext;
use expect_test::Expect;
use serde_json::Value;

use crate::defaults::{resource, yaml};

fn texts(errors: Vec<apimachinery::field::Error>) -> String {
    errors.iter().map(|error| format!("{error}\n")).collect()
}

fn create(group: &str, kind: &str, document: &str) -> String {
    let resource = resource(group, kind);
    let mut object = yaml(document);
    resource.strategy.default(&mut object).expect("few defaults");
    texts(resource.strategy.validate_create(&object))
}

fn check(group: &str, kind: &str, document: &str, expected: Expect) {
    expected.assert_eq(&create(group, kind, document));
}

/// Complaints about changing a field of an object.
fn update(group: &str, kind: &str, document: &str, pointer: &str, value: Value) -> String {
    let resource = resource(group, kind);
    let mut old = yaml(document);
    resource.strategy.default(&mut old).expect("few defaults");
    let mut new = old.clone();
    let parts: Vec<&str> = pointer.split('.').collect();
    let at = parts.iter().fold(&mut new, |at, part| match part.parse::<usize>() {
        Ok(index) => &mut at[index],
        Err(_) => &mut at[*part],
    });
    *at = value;
    resource.strategy.default(&mut new).expect("few defaults");
    let context = RequestContext {
        now: Time::new("2026-01-01T00:00:00Z".parse().expect("a time")),
        user: String::new(),
        groups: Vec::new(),
        subresource: String::new(),
        dry_run: false,
    };
    texts(resource.strategy.validate_update(&context, &old, &new))
}

fn deployment(spec: &str, pod: &str) -> String {
    format!(
        "spec: {{{spec} selector: {{matchLabels: {{app: x}}}}, \
         template: {{metadata: {{labels: {{app: x}}}}, spec: {{{pod}}}}}}}"
    )
}

const CONTAINER: &str = "containers: [{name: a, image: 'a:1'}]";
