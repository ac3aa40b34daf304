//! Sets the condition of every FlowSchema on whether its priority level exists. Upstream's API server does this itself;
//! here it is a controller, because only the condition depends on it.

use std::sync::Arc;

use apimachinery::ObjectKey;
use apimachinery::meta::{Condition, Time, null_as_default};
use client::{Patch, PatchOptions};
use controller_runtime::{Next, WorkQueue, run_workers};
use serde::Deserialize;
use serde_json::json;

use crate::context::Context;
use crate::error::{Result, decoded};
use crate::resources::{FLOW_SCHEMAS, PRIORITY_LEVELS};
use crate::running::Starting;

const NAME: &str = "flowschema-controller";
/// The field manager that upstream uses for the condition.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FlowSchema {
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    priority_level_configuration: Reference,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reference {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "null_as_default")]
    conditions: Vec<Condition>,
}

pub(crate) async fn run(context: Context, starting: Starting) {
    let queue: Arc<WorkQueue<Box<str>>> = Arc::new(WorkQueue::new());
    let schemas = context.informers.informer(&FLOW_SCHEMAS);
    let levels = context.informers.informer(&PRIORITY_LEVELS);
    let keys = queue.clone();
    schemas.subscribe(move |event| keys.add(event.object().name().into()));
    if !(schemas.synced().await && levels.synced().await) {
        return;
    }
    let (keys, known) = (queue.clone(), schemas.clone());
    levels.subscribe(move |_| {
        // Levels change rarely, so the schemas that reference one are searched each time.
        for schema in known.cache().list(None) {
            keys.add(schema.name().into());
        }
    });
    drop(starting);
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    run_workers(NAME, queue, workers, stop, move |name| {
        let context = context.clone();
        async move { reconcile(&context, &ObjectKey::cluster(&*name)).await }
    })
    .await;
}

async fn reconcile(context: &Context, key: &ObjectKey) -> Result<Next> {
    let schemas = context.informers.informer(&FLOW_SCHEMAS);
    let Some(object) = schemas.cache().get(key).filter(|schema| !schema.is_deleting()) else { return Ok(Next::Done) };
    let schema: FlowSchema = decoded(&object, object.decode())?;
    let level = &schema.spec.priority_level_configuration.name;
    let exists = context.informers.informer(&PRIORITY_LEVELS).cache().get(&ObjectKey::cluster(&**level)).is_some();
    let Some(condition) = dangling(&schema, exists, context.now()) else { return Ok(Next::Done) };
    let value = json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": {"name": key.name(), "uid": object.uid()}, "status": {"conditions": [condition]}});
    let patch = Patch::Apply { manager: MANAGER.into(), force: true, value };
    let options = PatchOptions { subresource: Some("status"), ..PatchOptions::default() };
    match context.client.patch(&FLOW_SCHEMAS, key, &patch, &options).await {
        // Deleted, and possibly recreated, in the meantime.
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
        _ => Ok(Next::Done),
    }
}

/// The desired condition; `None` if the schema has it.
fn dangling(schema: &FlowSchema, exists: bool, now: Time) -> Option<serde_json::Value> {
    let level = &schema.spec.priority_level_configuration.name;
    let begin = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, message) = if exists {
        ("False", "Found", format!("{begin} and it exists"))
    } else {
        ("True", "NotFound", format!("{begin} but there is no such object"))
    };
    let known = schema.status.conditions.iter().find(|condition| condition.type_ == "Dangling");
    if known.is_some_and(|known| known.status == status && known.reason == reason && known.message == message) {
        return None;
    }
    let since = known.filter(|known| known.status == status).and_then(|known| known.last_transition_time);
    Some(json!({"type": "Dangling", "status": status, "lastTransitionTime": since.unwrap_or(now), "reason": reason,
        "message": message}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_exists_or_not() {
        let now = Time::new("2026-01-01T00:00:00Z".parse().expect("a time"));
        let schema = |conditions: serde_json::Value| -> FlowSchema {
            serde_json::from_value(
                json!({"spec": {"priorityLevelConfiguration": {"name": "a"}}, "status": {"conditions": conditions}}),
            )
            .expect("a schema")
        };
        let found = dangling(&schema(json!(null)), true, now).expect("no condition yet");
        let message = r#"This FlowSchema references the PriorityLevelConfiguration object named "a" and it exists"#;
        assert_eq!(
            found,
            json!({"type": "Dangling", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "Found", "message": message})
        );
        assert_eq!(dangling(&schema(json!([found])), true, now), None);
        let lost = dangling(&schema(json!([found])), false, now).expect("the level is deleted");
        let message =
            r#"This FlowSchema references the PriorityLevelConfiguration object named "a" but there is no such object"#;
        assert_eq!(
            (&lost["status"], &lost["reason"], &lost["message"]),
            (&json!("True"), &json!("NotFound"), &json!(message))
        );
    }
}
