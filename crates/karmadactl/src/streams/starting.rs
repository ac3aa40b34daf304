//! `--pod-running-timeout`: waits until one of the pods that a command names runs. A watch, no polling.

use std::time::Duration;

use client::{Client, ListOptions, WatchOptions};
use futures::StreamExt;
use serde_json::Value;
use transport::WatchEvent;

use super::pods;
use crate::Context;
use crate::error::Error;

/// Pause before a watch that ended at once is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// The pods of `named`, at least one of which has started; waits for that until `limit`.
///
/// # Errors
/// As [`pods::named`], or when no pod starts in time.
pub async fn named(
    context: &Context,
    client: &Client,
    namespace: &str,
    named: &str,
    limit: Duration,
) -> Result<Vec<Value>, Error> {
    let found = pods::named(context, client, namespace, named).await?;
    if found.iter().any(has_started) {
        return Ok(found);
    }
    let options = match pods::selection(context, client, namespace, named).await? {
        Some(selector) => ListOptions::labels(selector),
        None => {
            let name = found.first().map_or(named, pods::name);
            ListOptions { field_selector: Some(format!("metadata.name={name}")), ..ListOptions::default() }
        }
    };
    // If no pod starts, the last state shows why.
    let mut last = found;
    let ended = tokio::time::timeout(limit, started(client, namespace, &options, &mut last)).await;
    match ended {
        Ok(ended) => ended.map_err(Error::client("watch pods")).map(|()| last),
        Err(_) => Err(Error::message(late(named, namespace, limit, &last))),
    }
}

fn has_started(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Running" | "Succeeded" | "Failed"))
}

/// Ends when one of the pods has started; `last` holds their last states.
async fn started(
    client: &Client,
    namespace: &str,
    options: &ListOptions,
    last: &mut Vec<Value>,
) -> Result<(), client::Error> {
    loop {
        let list = client.list(&pods::resource(), Some(namespace), options).await?;
        *last = list.items.iter().filter_map(|pod| pod.to_value().ok()).collect();
        pods::sort(last);
        if last.iter().any(has_started) {
            return Ok(());
        }
        let watch = WatchOptions {
            label_selector: options.label_selector.clone(),
            field_selector: options.field_selector.clone(),
            resource_version: Some(list.resource_version.to_string()),
            ..WatchOptions::default()
        };
        let mut events = client.watch(&pods::resource(), Some(namespace), &watch).await?;
        let mut is_silent = true;
        while let Some(event) = events.next().await {
            is_silent = false;
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod)
                    if pod.to_value().is_ok_and(|it| has_started(&it)) =>
                {
                    break;
                }
                WatchEvent::Error(_) => break,
                _ => {}
            }
        }
        if is_silent {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn late(named: &str, namespace: &str, limit: Duration, last: &[Value]) -> String {
    let limit = limit.as_secs_f64();
    let Some(pod) = last.first() else {
        return format!("timed out after {limit} s: {named} has no pods in namespace {namespace}");
    };
    let phase = pod["status"]["phase"].as_str().unwrap_or("Unknown");
    let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let why = conditions.iter().find(|it| it["status"] == "False" && it["message"].is_string());
    let why = why.and_then(|it| it["message"].as_str()).map(|why| format!(": {why}")).unwrap_or_default();
    format!("timed out after {limit} s waiting for pod {} to run; it is {phase}{why}", pods::name(pod))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_that_did_not_start_are_named() {
        let check = |last: &[Value], expected: &str| {
            assert_eq!(late("deployment/web", "shop", Duration::from_secs(20), last), expected);
        };
        check(&[], "timed out after 20 s: deployment/web has no pods in namespace shop");
        let mut pod = json!({"metadata": {"name": "web-1"}, "status": {"phase": "Pending"}});
        check(std::slice::from_ref(&pod), "timed out after 20 s waiting for pod web-1 to run; it is Pending");
        pod["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]);
        check(&[pod], "timed out after 20 s waiting for pod web-1 to run; it is Pending: 0/1 nodes are available");
    }
}
