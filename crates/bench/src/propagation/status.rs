//! From a change of status in a member to the template in the control plane.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Patch, PatchOptions};
use controller_runtime::InformerSet;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use world::World;

use super::documents::{NAMESPACE, cluster_policies, create};
use crate::figures::{Latencies, line};
use crate::fleet::Fleet;

const PATIENCE: Duration = Duration::from_secs(60);
const NAME: &str = "karmada-bench-ingresses";

/// Uses Ingresses, whose status no controller of a simulated member changes: `count` of them are propagated to the
/// first member, and get a load balancer there one after the other, so that none waits for another.
pub(super) async fn latency(fleet: &Fleet, count: usize) -> anyhow::Result<()> {
    let Some(member) = fleet.members.first().filter(|_| count > 0) else { return Ok(()) };
    create(&fleet.control, &cluster_policies(), &policy(&member.name)).await?;
    let names: Vec<String> = (0..count).map(|n| format!("status-{n}")).collect();
    let seen = Arc::new((Mutex::new(HashMap::new()), Notify::new()));
    let shared = seen.clone();
    let informer = InformerSet::new(fleet.control.clone(), World::system()).informer(&ingresses());
    informer.subscribe(move |event| {
        if let Some(address) = address(event.object()) {
            shared.0.lock().insert((event.object().name().to_owned(), address), Instant::now());
            shared.1.notify_one();
        }
    });
    for name in &names {
        create(&fleet.control, &ingresses(), &ingress(name)).await?;
    }
    let arrived = InformerSet::new(member.client.clone(), World::system()).informer(&ingresses());
    let deadline = Instant::now() + PATIENCE;
    while !names.iter().all(|name| arrived.cache().get(&key(name)).is_some()) {
        if Instant::now() > deadline {
            bail!("not all Ingresses arrived within {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The first statuses are in flight.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut samples = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let address = format!("192.0.2.{}", n % 250);
        let patch = Patch::Merge(json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}));
        let sent = Instant::now();
        member.client.patch(&ingresses(), &key(name), &patch, &PatchOptions::status()).await.context("patching")?;
        let expected = (name.clone(), address);
        let at = async {
            loop {
                if let Some(at) = seen.0.lock().get(&expected).copied() {
                    return at;
                }
                seen.1.notified().await;
            }
        };
        let at =
            tokio::time::timeout(PATIENCE, at).await.with_context(|| format!("waiting for the status of {name}"))?;
        samples.push(at - sent);
    }
    line("status: change in a member to the template", Latencies::new(samples).report());
    Ok(())
}

fn address(object: &Object) -> Option<String> {
    let tree = object.to_value().ok()?;
    tree["status"]["loadBalancer"]["ingress"][0]["ip"].as_str().map(str::to_owned)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced(NAMESPACE, name)
}

fn ingresses() -> ApiResource {
    ApiResource::namespaced("networking.k8s.io", "v1", "Ingress", "ingresses")
}

fn ingress(name: &str) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}})
}

fn policy(member: &str) -> Value {
    let selector = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "namespace": NAMESPACE});
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy", "metadata": {"name": NAME},
        "spec": {"resourceSelectors": [selector], "placement": {"clusterAffinity": {"clusterNames": [member]}}}})
}
