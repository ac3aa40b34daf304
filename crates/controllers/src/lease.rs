//! The Lease of an agent as its sign of life, and the handling of its cluster when it expires.
//!
//! The agent renews; the control plane checks. Clusters in push mode have no Lease.

use std::collections::HashMap;
use std::time::Duration;

use apimachinery::meta::{Condition, Time};
use apimachinery::{ApiResource, ObjectKey};
use controller_runtime::{Failures, Selection};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::{Cluster, SyncMode};
use karmada_api::constants::{conditions, namespaces};
use karmada_api::identity::ClusterName;
use propagation::failover::brake::Sign;
use propagation::readiness::{Graces, LastSign, Signs, silence};
use propagation::status::set_condition;
use serde_json::json;
use tokio::time::MissedTickBehavior;

use crate::Context;
use crate::absence::certain;
use crate::cluster_status;
use crate::error::{During, Result};

/// The interval of renewals and the duration of the Lease.
#[derive(Clone, Copy, Debug)]
pub struct Renewal {
    /// `--cluster-lease-duration`
    pub duration: Duration,
    /// `--cluster-lease-renew-interval-fraction`, of the duration.
    pub fraction: f64,
}

impl Default for Renewal {
    fn default() -> Self {
        Self { duration: Duration::from_secs(40), fraction: 0.25 }
    }
}

/// How closely agents are watched.
#[derive(Clone, Copy, Debug)]
pub struct Monitoring {
    /// `--cluster-monitor-period`
    pub period: Duration,
    /// `--cluster-monitor-grace-period`, `--cluster-startup-grace-period`
    pub graces: Graces,
}

impl Default for Monitoring {
    fn default() -> Self {
        Self { period: Duration::from_secs(5), graces: Graces::default() }
    }
}

fn leases() -> ApiResource {
    ApiResource::namespaced("coordination.k8s.io", "v1", "Lease", "leases")
}

fn key(cluster: &str) -> ObjectKey {
    ObjectKey::namespaced(namespaces::CLUSTER, cluster)
}

/// Renews the Lease of the agent's cluster, from its first health on. A cluster that leaves is not renewed any more.
pub(crate) async fn renew(context: Context, cluster: ClusterName) {
    let renewal = context.settings.renewal;
    let mut tick = tokio::time::interval(renewal.duration.mul_f64(renewal.fraction));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut begun, failures) = (false, Failures::lasting(Duration::ZERO));
    loop {
        tick.tick().await;
        let Some(known) = context.clusters.get(&cluster) else { continue };
        begun |= known.is_ready();
        if !begun {
            // The first health report follows shortly; the Lease should not wait for the next interval.
            tick.reset_after(Duration::from_millis(500));
            continue;
        }
        if known.metadata.deletion_timestamp.is_some() {
            continue;
        }
        match write(&context, &known).await {
            Ok(()) => {
                if let Some(lasted) = failures.succeeded(&()) {
                    tracing::info!(cluster = &*cluster, duration = ?lasted, "Lease of the cluster is renewed again");
                }
            }
            Err(error) => {
                let err = error.to_string();
                if failures.failed(&(), &err) {
                    tracing::warn!(
                        cluster = &*cluster,
                        err,
                        "Lease of the cluster cannot be renewed; without it the cluster becomes Unknown"
                    );
                }
            }
        }
    }
}

async fn write(context: &Context, cluster: &Cluster) -> Result<()> {
    let (name, uid) = (&cluster.metadata.name, &cluster.metadata.uid);
    let now = context.world.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let seconds = context.settings.renewal.duration.as_secs().max(1);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": namespaces::CLUSTER, "name": name, "ownerReferences": [
            {"apiVersion": Cluster::api_resource().api_version(), "kind": "Cluster", "name": name, "uid": uid}]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": now},
    });
    let key = key(name);
    let writing = || format!("writing lease {key}");
    let Some(current) = certain(&context.client, &leases(), &key).await? else {
        return context.client.create(&leases(), &lease).await.map(drop).during(writing);
    };
    let mut renewed = current.to_value().unwrap_or_default();
    renewed["spec"] = lease["spec"].clone();
    // A Cluster that was deleted and joined again has another UID.
    renewed["metadata"]["ownerReferences"] = lease["metadata"]["ownerReferences"].clone();
    context.client.update(&leases(), &renewed).await.map(drop).during(writing)
}

/// Checks the Leases of agents; a cluster whose agent stopped renewing becomes Ready=Unknown.
pub(crate) async fn monitor(context: Context) {
    let mut last_sign: HashMap<String, LastSign> = HashMap::new();
    let mut looked = context.now();
    let monitoring = context.settings.monitoring;
    let mut tick = tokio::time::interval(monitoring.period);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let mut clusters = context.clusters.all();
        clusters.retain(|cluster| cluster.spec.sync_mode == SyncMode::Pull);
        last_sign.retain(|uid, _| clusters.iter().any(|cluster| cluster.metadata.uid == *uid));
        if clusters.is_empty() {
            continue;
        }
        let selection = Selection { namespace: Some(namespaces::CLUSTER.to_owned()), ..Selection::default() };
        let leases = context.control.selected(&leases(), selection);
        // A Lease that cannot currently be read proves nothing.
        if !leases.has_synced() || leases.trouble().is_some() {
            continue;
        }
        let now = context.now();
        // While the Leases were unreadable or this process was stopped, agents may not have been able to renew them
        // either: silence is counted from now.
        let gap = now.timestamp().duration_since(looked.timestamp());
        if Duration::try_from(gap).is_ok_and(|gap| gap > 3 * monitoring.period) {
            last_sign.clear();
        }
        looked = now;
        for cluster in clusters {
            let lease = leases.cache().get(&key(&cluster.metadata.name)).and_then(|lease| lease.to_value().ok());
            let renewed = lease.as_ref().and_then(|lease| lease["spec"]["renewTime"].as_str());
            let ready = cluster.condition(conditions::READY);
            let signs = Signs { created: cluster.metadata.creation_timestamp.unwrap_or(now), ready, renewed };
            let before = last_sign.get(&cluster.metadata.uid);
            let (condition, known) = silence(signs, before, monitoring.graces, now);
            // The probes of an agent that reports "False" fail, though it is alive.
            let is_lost = known.is_suspect(monitoring.graces, now) || ready.is_some_and(|it| it.status == "False");
            let sign = if is_lost { Sign::Missing } else { Sign::Present };
            context.brake.note(&context, &cluster.metadata.name, sign);
            last_sign.insert(cluster.metadata.uid.clone(), known);
            if let Some(condition) = condition
                && let Err(error) = report(&context, &cluster, condition, now).await
            {
                let name = &cluster.metadata.name;
                tracing::warn!(cluster = name, err = %error, "Agent is silent, and the Ready condition cannot be written; retrying");
            }
        }
    }
}

async fn report(context: &Context, cluster: &Cluster, condition: Condition, now: Time) -> Result<()> {
    let mut all = cluster.status.conditions.clone();
    set_condition(&mut all, condition, now);
    match cluster_status::write_conditions(context, cluster, &all).await {
        // Another report of the cluster came first; the next turn reads it.
        Err(error) if error.is_conflict() => Ok(()),
        other => other.map(drop).during(|| format!("writing the status of cluster {}", cluster.key())),
    }
}
