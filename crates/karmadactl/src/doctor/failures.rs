//! Templates on which the control plane fails, by their events.

use std::collections::BTreeMap;

use apimachinery::{ApiResource, ObjectKey};
use client::Client;
use futures::StreamExt;
use karmada_api::scope::{Binding, Scope};
use serde_json::Value;

use super::facts::{Facts, Problem, Stuck, seconds};
use super::read::each;
use crate::answers::text;
use crate::placement::failing::{self, failing};
use crate::{objects, resources};

/// Templates read at a time.
const CONCURRENT: usize = 16;

/// Adds those that still exist to the findings: events outlive their objects by an hour.
pub(super) async fn read(control: &Client, facts: &mut Facts) {
    let events = ApiResource::namespaced("", "v1", "Event", "events");
    let mut about: BTreeMap<(String, String, String), Vec<Value>> = BTreeMap::new();
    each(control, &events, None, facts, &mut |event, _| {
        let object = &event["involvedObject"];
        let (kind, namespace, name) = (text(&object["kind"]), text(&object["namespace"]), text(&object["name"]));
        let is_template = Scope::ALL.iter().all(|scope| kind != Binding::kind(*scope)) && kind != resources::WORK.kind;
        if is_template && failing::outcome(event["reason"].as_str().unwrap_or_default()).is_some() {
            about.entry((kind.to_lowercase(), namespace, name)).or_default().push(event);
        }
    })
    .await;
    about.retain(|_, events| failing(events).is_some());
    if about.is_empty() {
        return;
    }
    let served = objects::discovery(control).await.map(|it| it.resources).unwrap_or_default();
    let resource_of = |object: &Value| {
        let mut all = served.iter().map(|it| &it.resource);
        all.find(|it| object["apiVersion"] == *it.api_version() && object["kind"] == *it.kind).cloned()
    };
    let checks: Vec<_> = about
        .into_iter()
        .map(|(place, events)| async {
            let resource = events.last().and_then(|event| resource_of(&event["involvedObject"]));
            let live = match resource {
                Some(resource) => uid(control, &resource, &place.1, &place.2).await,
                None => Live::Unknown,
            };
            stuck(place, of_object(events, &live))
        })
        .collect();
    let found: Vec<Option<Stuck>> = futures::stream::iter(checks).buffered(CONCURRENT).collect().await;
    facts.objects.extend(found.into_iter().flatten());
}

/// The present object of a name.
#[derive(Debug)]
enum Live {
    Missing,
    Uid(String),
    /// It cannot be read.
    Unknown,
}

async fn uid(control: &Client, resource: &ApiResource, namespace: &str, name: &str) -> Live {
    let key = match namespace {
        "" => ObjectKey::cluster(name),
        namespace => ObjectKey::namespaced(namespace, name),
    };
    match control.get_opt(resource, &key).await {
        Ok(Some(object)) => Live::Uid(object.uid().to_owned()),
        Ok(None) => Live::Missing,
        Err(_) => Live::Unknown,
    }
}

/// The events about the present object, not about earlier ones of its name.
fn of_object(mut events: Vec<Value>, live: &Live) -> Vec<Value> {
    events.retain(|event| match (live, event["involvedObject"]["uid"].as_str()) {
        (Live::Missing, _) => false,
        (Live::Uid(live), Some(uid)) => uid.is_empty() || uid == live,
        (Live::Uid(_), None) | (Live::Unknown, _) => true,
    });
    events
}

fn stuck((kind, namespace, name): (String, String, String), events: Vec<Value>) -> Option<Stuck> {
    let found = failing(&events)?;
    let since = seconds(&Value::String(found.since))?;
    let problem = Problem::Failing { reason: found.reason, message: found.message };
    Some(Stuck { kind, namespace, name, subject: None, problem, since })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_deleted_objects_do_not_count() {
        let event = |uid: Value| {
            json!({"reason": "GetReplicasFailed", "message": "no", "involvedObject": {"uid": uid},
                "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"})
        };
        for (uid, live, expected) in [
            (json!("a"), Live::Uid("a".into()), true),
            (json!("a"), Live::Uid("b".into()), false),
            (json!(""), Live::Uid("b".into()), true),
            (Value::Null, Live::Uid("b".into()), true),
            (json!("a"), Live::Unknown, true),
            (json!("a"), Live::Missing, false),
        ] {
            let place = ("deployment".to_owned(), "n".to_owned(), "web".to_owned());
            assert_eq!(stuck(place, of_object(vec![event(uid.clone())], &live)).is_some(), expected, "{uid} {live:?}");
        }
    }
}
