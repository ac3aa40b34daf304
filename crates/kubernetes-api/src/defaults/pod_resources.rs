//! Defaults of pod-level resources. They depend on the resources of the containers, whose defaults are set before.

use serde_json::Value;

use super::computed::{Object, made, object};
use crate::pods::has_pod_level;
use crate::validation::pod_resources::needed;

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Completes pod-level resources that are partly specified: limits of huge pages are the sum of the containers'
/// limits; with limits, requests are the sum of the containers' requests, or else the limits.
pub(super) fn pod_resources(pod: &mut Object) {
    let Some(spec) = object(pod, "spec") else { return };
    let amounts = |part: &str| spec.get("resources")?.get(part)?.as_object().filter(|map| !map.is_empty()).cloned();
    let (mut limits, mut requests) = (amounts("limits").unwrap_or_default(), amounts("requests").unwrap_or_default());
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    for (name, sum) in needed(spec, "limits") {
        if is_huge(name) && !requests.contains_key(name) && !limits.contains_key(name) {
            limits.insert(name.to_owned(), sum.to_string().into());
        }
    }
    if !limits.is_empty() {
        for (name, sum) in needed(spec, "requests") {
            if has_pod_level(name) && !is_huge(name) && !requests.contains_key(name) {
                requests.insert(name.to_owned(), sum.to_string().into());
            }
        }
        for (name, limit) in limits.iter().filter(|(name, _)| has_pod_level(name)) {
            requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
    let Some(resources) = made(spec, "resources") else { return };
    for (part, amounts) in [("limits", limits), ("requests", requests)] {
        if !amounts.is_empty() {
            resources.insert(part.to_owned(), Value::Object(amounts));
        }
    }
}
