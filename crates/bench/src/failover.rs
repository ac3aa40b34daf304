//! The failure of a member with workloads: the duration and the cost of each part of the failover.

use std::time::Duration;

use anyhow::Context as _;
use apimachinery::{ApiResource, Object};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::figures::{Latencies, line};
use crate::fleet::{Fleet, Members};
use crate::propagation::documents::{
    NAMESPACE, cluster_policies, create, deployment, deployments, namespace, namespaces,
};
use crate::seen::{Seen, informer};
use crate::store::Engine;

const FLAGS: [&str; 3] =
    ["--feature-gates=Failover=true", "--enable-no-execute-taint-eviction", "--allow-no-execute-taint-policy"];
/// The failed member is less than half of the fleet, so that evictions do not pause.
const MEMBERS: usize = 3;
const DEAD: &str = "member1";

#[derive(clap::Args)]
pub struct Args {
    /// Deployments in the member that fails; a fleet is started for each number.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100, 10_000])]
    deployments: Vec<usize>,
    /// ConfigMaps in members that run nothing, instead of Deployments.
    #[arg(long)]
    config_maps: bool,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    for count in &args.deployments {
        one(*count, args.config_maps).await?;
    }
    Ok(())
}

async fn one(count: usize, config_maps: bool) -> anyhow::Result<()> {
    let mut fleet = Fleet::start(Members { count: MEMBERS, bare: config_maps }, Engine::Embedded, &FLAGS).await?;
    create(&fleet.control, &namespaces(), &namespace()).await?;
    create(&fleet.control, &taint_policies(), &taint_policy()).await?;
    create(&fleet.control, &cluster_policies(), &policy()).await?;
    let bindings = informer(&fleet.control, &bindings());
    let placed = Seen::follow(&bindings, |it| clusters(it).any(|name| name == DEAD).then(|| template(it)));
    let applied = Seen::follow(&bindings, |it| is_healthy(it).then(|| template(it)));
    let names: Vec<String> = (0..count).map(|n| format!("web-{n}")).collect();
    let (resource, object): (ApiResource, fn(&str) -> Value) =
        if config_maps { (config_map_resource(), config_map) } else { (deployments(), |name| deployment(name, 1)) };
    stream::iter(&names)
        .map(async |name| create(&fleet.control, &resource, &object(name)).await)
        .buffer_unordered(8)
        .try_collect::<()>()
        .await?;
    placed.all(&names).await.context("waiting for the first placement")?;
    applied.all(&names).await.context("waiting for healthy workloads")?;
    let started = fleet.started.as_mut().context("a fleet that was started here")?;
    let cpu = started.plane.cpu_seconds()?;
    let dead = Instant::now();
    drop(started.members.remove(0));
    report(&fleet, &bindings, &names, &resource, dead).await?;
    let started = fleet.started.as_ref().context("a fleet that was started here")?;
    let used = started.plane.cpu_seconds()? - cpu;
    line("  CPU of the control plane (s)", format!("{used:.2} ({:.2} ms a binding)", 1000.0 * used / count as f64));
    line("  RSS of the control plane, at most (MiB)", format!("{:.0}", started.plane.resident_mib()?.1));
    Ok(())
}

/// Reports the parts of the failover: `bindings` are followed, `names` have left.
async fn report(
    fleet: &Fleet,
    bindings: &controller_runtime::Informer,
    names: &[String],
    resource: &ApiResource,
    dead: Instant,
) -> anyhow::Result<()> {
    let cluster =
        informer(&fleet.control, &ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters"));
    let unready = Seen::follow(&cluster, |it| is_dead(it, |cluster| !is_ready(cluster)));
    let tainted = Seen::follow(&cluster, |it| is_dead(it, is_tainted));
    let left = Seen::follow(bindings, |it| leaves(it).then(|| template(it)));
    let decided = Seen::follow(bindings, |it| moved(it).then(|| template(it)));
    let ended = Seen::follow(bindings, |it| (moved(it) && !leaves(it)).then(|| template(it)));
    let alive: Vec<_> = fleet.members.iter().filter(|member| member.name != DEAD).collect();
    let copies: Vec<_> = alive.iter().map(|member| informer(&member.client, resource)).collect();
    let (present, ready) = (Seen::of_any(&copies, name), Seen::of_any(&copies, ready_name));
    println!("{} {} in a member that dies", names.len(), resource.plural);
    let own = [DEAD.to_owned()];
    for (what, seen, names) in [
        ("not ready", &unready, &own[..]),
        ("tainted", &tainted, &own[..]),
        ("eviction decided", &left, names),
        ("placed elsewhere", &decided, names),
        ("present elsewhere", &present, names),
        ("ready elsewhere", &ready, names),
        ("eviction ended", &ended, names),
    ] {
        let at = seen.all(names).await.with_context(|| format!("waiting for: {what}"))?;
        let samples: Vec<Duration> = at.values().map(|at| at.duration_since(dead)).collect();
        line(&format!("  dead to {what}"), Latencies::new(samples).report());
    }
    Ok(())
}

fn bindings() -> ApiResource {
    ApiResource::namespaced("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings")
}

fn taint_policies() -> ApiResource {
    ApiResource::cluster("policy.karmada.io", "v1alpha1", "ClusterTaintPolicy", "clustertaintpolicies")
}

fn config_map_resource() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value"},
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"bench": "propagation"}}})
}

/// Clusters that are not ready evict at once.
fn taint_policy() -> Value {
    let on = |values: Value| json!([{"conditionType": "Ready", "operator": "In", "statusValues": values}]);
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy", "metadata": {"name": "not-ready"},
        "spec": {"addOnConditions": on(json!(["False", "Unknown"])), "removeOnConditions": on(json!(["True"])),
            "taints": [{"key": "not-ready", "effect": "NoExecute"}]}})
}

/// One cluster at a time, the first of all if it can be.
fn policy() -> Value {
    let labels = json!({"matchLabels": {"bench": "propagation"}});
    let select = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "namespace": NAMESPACE, "labelSelector": labels});
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy", "metadata": {"name": NAMESPACE},
        "spec": {"resourceSelectors": [select("apps/v1", "Deployment"), select("v1", "ConfigMap")], "placement": {
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
            "clusterAffinities": [{"affinityName": "first", "clusterNames": [DEAD]},
                {"affinityName": "others", "clusterNames": ["member2", "member3"]}]}}})
}

fn tree(object: &Object) -> Value {
    object.to_value().unwrap_or_default()
}

fn template(binding: &Object) -> String {
    tree(binding)["spec"]["resource"]["name"].as_str().unwrap_or_default().to_owned()
}

fn names(list: &Value, field: &str) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item[field].as_str().map(str::to_owned)).collect()
}

fn clusters(binding: &Object) -> impl Iterator<Item = String> {
    names(&tree(binding)["spec"]["clusters"], "name").into_iter()
}

fn is_healthy(binding: &Object) -> bool {
    tree(binding)["status"]["aggregatedStatus"].as_array().into_iter().flatten().any(|item| item["health"] == "Healthy")
}

fn leaves(binding: &Object) -> bool {
    !names(&tree(binding)["spec"]["gracefulEvictionTasks"], "fromCluster").is_empty()
}

fn moved(binding: &Object) -> bool {
    clusters(binding).any(|name| name != DEAD)
}

fn is_dead(cluster: &Object, state: impl Fn(&Value) -> bool) -> Option<String> {
    (cluster.name() == DEAD && state(&tree(cluster))).then(|| DEAD.to_owned())
}

fn is_ready(cluster: &Value) -> bool {
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

fn is_tainted(cluster: &Value) -> bool {
    names(&cluster["spec"]["taints"], "effect").iter().any(|effect| effect == "NoExecute")
}

fn name(object: &Object) -> Option<String> {
    (object.namespace() == Some(NAMESPACE)).then(|| object.name().to_owned())
}

fn ready_name(object: &Object) -> Option<String> {
    let is_ready = object.kind() != "Deployment" || tree(object)["status"]["readyReplicas"].as_u64() >= Some(1);
    name(object).filter(|_| is_ready)
}
