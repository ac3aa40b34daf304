//! The pages of built-in kinds with a special layout in kubectl. Pure: other data of a page is in [`Related`].

mod core;
mod node;
mod pods;
mod workloads;

use apimachinery::selector::Selector;
use jiff::Timestamp;
use serde_json::Value;

use super::lines::Lines;

/// Objects of which a page shows a part.
#[derive(Clone, Debug, Default)]
pub struct Related {
    pub pods: Vec<Value>,
    pub replica_sets: Vec<Value>,
    pub slices: Vec<Value>,
    pub quotas: Vec<Value>,
    pub limits: Vec<Value>,
    /// The Lease of a node, or why it could not be read.
    pub lease: Option<Result<Value, String>>,
}

/// The related objects that a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Pods,
    ReplicaSets,
    Slices,
    Quotas,
    Limits,
    Lease,
}

/// The related objects of a kind's page; `None` for kinds without a special page.
pub fn needs(group: &str, kind: &str) -> Option<&'static [Need]> {
    Some(match (group, kind) {
        ("apps", "Deployment") => &[Need::ReplicaSets],
        ("apps", "StatefulSet" | "DaemonSet") | ("", "PersistentVolumeClaim") => &[Need::Pods],
        ("", "Node") => &[Need::Pods, Need::Lease],
        ("", "Service") => &[Need::Slices],
        ("", "Namespace") => &[Need::Quotas, Need::Limits],
        ("batch", "Job") | ("", "Pod" | "ConfigMap" | "Secret") => &[],
        _ => return None,
    })
}

/// The page without its events; `false` if the kind has no special page.
pub fn page(lines: &mut Lines, object: &Value, related: &Related, now: Timestamp) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    match kind {
        "Deployment" => workloads::deployment(lines, object, related),
        "StatefulSet" => workloads::stateful_set(lines, object, related),
        "DaemonSet" => workloads::daemon_set(lines, object, related),
        "Job" => workloads::job(lines, object),
        "Node" => node::node(lines, object, related, now),
        "Pod" => pods::pod(lines, object),
        "Service" => core::service(lines, object, related),
        "Namespace" => core::namespace(lines, object, related),
        "PersistentVolumeClaim" => core::claim(lines, object, related),
        "ConfigMap" => core::config_map(lines, object),
        _ => core::secret(lines, object),
    }
    !matches!(kind, "Secret" | "Namespace")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Strings unchanged, other values as JSON.
fn values(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The pairs of a map, by their keys.
fn entries(map: &Value) -> Vec<(String, String)> {
    let pairs = map.as_object().into_iter().flatten();
    let mut pairs: Vec<(String, String)> = pairs.map(|(key, value)| (key.clone(), values(value))).collect();
    pairs.sort();
    pairs
}

fn selector(selector: &Value) -> String {
    let parsed = serde_json::from_value(selector.clone()).ok();
    let parsed = parsed.and_then(|it| Selector::from_label_selector(&it).ok());
    parsed.map_or_else(|| "<none>".to_owned(), |it| it.to_string())
}

fn seconds(time: &Value) -> Option<i64> {
    time.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

/// `Mon, 02 Jan 2006 15:04:05 -0700`, in UTC.
fn rfc1123(time: &str) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string(),
        Err(_) => time.to_owned(),
    }
}
