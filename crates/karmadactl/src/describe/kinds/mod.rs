//! The pages of built-in kinds with a special layout in kubectl. Pure: other data of a page is in [`Related`].

mod access;
mod certificates;
mod containers;
mod core;
mod ingress;
mod limits;
mod network;
mod network_policy;
mod node;
mod pods;
mod scaling;
mod volumes;
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
    pub secrets: Vec<Value>,
    pub services: Vec<Value>,
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
    Secrets,
    Services,
    Lease,
}

/// The related objects of a kind's page; `None` for kinds without a special page.
pub fn needs(group: &str, kind: &str) -> Option<&'static [Need]> {
    Some(match (group, kind) {
        ("apps", "Deployment") => &[Need::ReplicaSets],
        ("apps", "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("", "PersistentVolumeClaim" | "ReplicationController") => &[Need::Pods],
        ("", "Node") => &[Need::Pods, Need::Lease],
        ("", "Service") => &[Need::Slices],
        ("", "Namespace") => &[Need::Quotas, Need::Limits],
        ("", "ServiceAccount") => &[Need::Secrets],
        ("networking.k8s.io", "Ingress") => &[Need::Services, Need::Slices],
        ("batch", "Job" | "CronJob")
        | ("", "Pod" | "ConfigMap" | "Secret" | "ResourceQuota" | "LimitRange" | "PersistentVolume" | "Endpoints") => {
            &[]
        }
        ("rbac.authorization.k8s.io", _)
        | ("policy", "PodDisruptionBudget")
        | ("scheduling.k8s.io", "PriorityClass")
        | ("storage.k8s.io", "StorageClass" | "CSINode")
        | ("discovery.k8s.io", "EndpointSlice")
        | ("certificates.k8s.io", "CertificateSigningRequest")
        | ("networking.k8s.io", "NetworkPolicy" | "IngressClass" | "ServiceCIDR") => &[],
        ("autoscaling", "HorizontalPodAutoscaler") => &[],
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
        "ReplicaSet" => workloads::replica_set(lines, object, related),
        "ReplicationController" => workloads::replication_controller(lines, object, related),
        "Job" => workloads::job(lines, object),
        "CronJob" => workloads::cron_job(lines, object),
        "Role" | "ClusterRole" => access::role(lines, object),
        "RoleBinding" | "ClusterRoleBinding" => access::binding(lines, object),
        "ServiceAccount" => access::service_account(lines, object, related),
        "ResourceQuota" => limits::quota(lines, object),
        "LimitRange" => limits::limit_range(lines, object),
        "PodDisruptionBudget" => limits::disruption_budget(lines, object),
        "PriorityClass" => limits::priority_class(lines, object),
        "StorageClass" => limits::storage_class(lines, object),
        "HorizontalPodAutoscaler" => scaling::autoscaler(lines, object),
        "Ingress" => ingress::ingress(lines, object, related),
        "NetworkPolicy" => network_policy::network_policy(lines, object),
        "Endpoints" => network::endpoints(lines, object),
        "EndpointSlice" => network::slice(lines, object),
        "IngressClass" => network::ingress_class(lines, object),
        "ServiceCIDR" => network::service_cidr(lines, object),
        "CertificateSigningRequest" => certificates::request(lines, object),
        "Node" => node::node(lines, object, related, now),
        "Pod" => pods::pod(lines, object, now),
        "Service" => core::service(lines, object, related),
        "Namespace" => core::namespace(lines, object, related),
        "PersistentVolumeClaim" => core::claim(lines, object, related, now),
        "PersistentVolume" => volumes::persistent_volume(lines, object, now),
        "CSINode" => volumes::csi_node(lines, object),
        "ConfigMap" => core::config_map(lines, object),
        _ => core::secret(lines, object),
    }
    !matches!(kind, "Secret" | "Namespace" | "ResourceQuota" | "LimitRange" | "NetworkPolicy")
        && !kind.ends_with("Role")
        && !kind.ends_with("RoleBinding")
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

/// `a=b,c=d`
fn pairs(map: &Value) -> String {
    let pairs: Vec<String> = entries(map).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

fn selector(selector: &Value) -> String {
    let parsed = serde_json::from_value(selector.clone()).ok();
    let parsed = parsed.and_then(|it| Selector::from_label_selector(&it).ok());
    parsed.map(|it| it.to_string()).filter(|it| !it.is_empty()).unwrap_or_else(|| "<none>".to_owned())
}

/// `Terminating (lasts 5s)`, for an object in deletion.
fn terminating(metadata: &Value, now: Timestamp) -> Option<String> {
    let since = seconds(&metadata["deletionTimestamp"])?;
    Some(format!("Terminating (lasts {})", apimachinery::age::human_duration(now.as_second() - since)))
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
