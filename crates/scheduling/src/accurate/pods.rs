//! Unschedulable pods.

use std::time::Duration;

use apimachinery::meta::{LabelSelector, Time};
use apimachinery::selector::Selector;
use jiff::SignedDuration;
use propagation::Since;
use serde::Deserialize;
use serde_json::Value;

const HASH_LABEL: &str = "pod-template-hash";

fn controlled_by(object: &Value, uid: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| owner["controller"] == true && owner["uid"] == uid)
}

fn selects(workload: &Value) -> Option<Selector> {
    let selector = LabelSelector::deserialize(&workload["spec"]["selector"]).ok()?;
    Selector::from_label_selector(&selector).ok()
}

fn matches(selector: &Selector, object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    selector.matches_with(|key| labels.get(key).and_then(Value::as_str))
}

/// The pod template without the hash label, which differs between the ReplicaSets of a Deployment.
fn template(workload: &Value) -> Value {
    let mut template = workload["spec"]["template"].clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    template
}

/// Returns the ReplicaSet with the Deployment's current template; the oldest if there are several.
pub fn new_replica_set<'a>(deployment: &Value, replica_sets: impl IntoIterator<Item = &'a Value>) -> Option<&'a Value> {
    let (selector, uid) = (selects(deployment)?, deployment["metadata"]["uid"].as_str()?);
    let pod_template = template(deployment);
    let same = |set: &&Value| controlled_by(set, uid) && matches(&selector, set) && template(set) == pod_template;
    let age = |set: &&Value| {
        let text = |field: &str| set["metadata"][field].as_str().unwrap_or_default().to_owned();
        (text("creationTimestamp"), text("name"))
    };
    replica_sets.into_iter().filter(same).min_by_key(age)
}

/// Returns how many pods of a ReplicaSet have been unschedulable for longer than `threshold`.
pub fn unschedulable_pods<'a>(
    replica_set: &Value,
    pods: impl IntoIterator<Item = &'a Value>,
    threshold: Duration,
    since: Since<'_>,
) -> i64 {
    let (Some(selector), Some(uid)) = (selects(replica_set), replica_set["metadata"]["uid"].as_str()) else {
        return 0;
    };
    let threshold = SignedDuration::try_from(threshold).unwrap_or(SignedDuration::MAX);
    let refused = |pod: &&Value| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| {
            let refused = Time::deserialize(&condition["lastTransitionTime"]).ok();
            condition["type"] == "PodScheduled"
                && condition["status"] == "False"
                && condition["reason"] == "Unschedulable"
                && refused.is_some_and(|at| since(at.timestamp()) > threshold)
        })
    };
    let own = pods.into_iter().filter(|pod| controlled_by(pod, uid) && matches(&selector, pod));
    i64::try_from(own.filter(refused).count()).unwrap_or(i64::MAX)
}
