//! One history.

use std::sync::Arc;

use apimachinery::{ApiResource, ObjectKey};
use client::{Patch, PatchOptions};
use controllers::{Eviction, Settings};
use karmada_api::ApiType;
use karmada_api::apps::v1alpha1::WorkloadRebalancer;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::policy::v1alpha1::FederatedResourceQuota;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ledger::Ledger;
use super::members::Fleet;
use super::steps::Step;
use super::{AGENT, ALL, PULLED, WORKLOADS, workload};
use crate::failover::brake::taint_automatically;
use crate::harness::{Plane, Serves};
use crate::network::CONTROL;
use crate::simulation::kinds::Kind;
use crate::simulation::perform::{delete, put, taint, tolerant};
use crate::simulation::policies::policies;
use crate::simulation::run::{run_kubernetes_in, serves};
use crate::simulation::witness::Witness;

pub async fn run(seed: u64, steps: &[Step]) -> Vec<String> {
    let mut run = Run::start(seed).await;
    if std::env::var_os("TRACE").is_some() {
        run.plane.network.record(true);
    }
    for step in steps {
        run.plane.network.note(step);
        run.perform(step).await;
    }
    let mut wrong = run.converge().await;
    wrong.extend(run.ledger.take());
    wrong.extend(run.witness.take());
    if std::env::var_os("SHOW").is_some() {
        let (begun, replaced) = run.ledger.counts();
        eprintln!("seed {seed}: {begun} graceful evictions, {replaced} replaced in time");
    }
    run.end().await;
    wrong
}

pub struct Run {
    pub plane: Plane,
    pub fleet: Fleet,
    ledger: Ledger,
    witness: Witness,
    stop: CancellationToken,
    agent: Vec<JoinHandle<()>>,
}

fn serves_here(plural: &str) -> bool {
    const MORE: [&str; 4] =
        ["clustertaintpolicies", "federatedresourcequotas", "resourcequotas", "workloadrebalancers"];
    serves(plural) || MORE.contains(&plural)
}

pub fn rebalancer(n: u8) -> (ApiResource, ObjectKey) {
    (WorkloadRebalancer::api_resource(), ObjectKey::cluster(format!("r{n}")))
}

pub fn quota() -> (ApiResource, ObjectKey) {
    (FederatedResourceQuota::api_resource(), ObjectKey::namespaced("demo", "q"))
}

fn deployment(n: u8, replicas: i64) -> Value {
    let name = workload(n);
    let container = json!({"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1"}}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "demo"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}}})
}

impl Run {
    async fn start(seed: u64) -> Self {
        let mut settings = Settings { workers: 8, ..Settings::default() };
        settings.gates.failover = true;
        settings.gates.stateful_failover = true;
        settings.gates.quota_enforcement = true;
        settings.eviction =
            Eviction { by_taints: true, rate: Some(10.0).filter(|_| seed % 4 == 1), ..Eviction::default() };
        let plane = Plane::seeded(&ALL, settings, seed, Serves(serves_here)).await;
        let stop = CancellationToken::new();
        run_kubernetes_in(&plane, &ALL, &stop);
        plane.network.mute_events();
        let fleet = Fleet::new(ALL.into_iter().map(|name| (name, plane.member(name))).collect());
        let (ledger, witness) = (Ledger::new(fleet.clone()), Witness::new(&plane, &ALL));
        let seeing = witness.clone();
        plane.network.set_guard(Arc::new(move |mut sent| {
            let seeing = seeing.clone();
            if sent.server == AGENT {
                sent.server = CONTROL.to_owned();
            }
            Box::pin(async move { seeing.see(sent).await })
        }));
        let (following, until) = (ledger.clone().follow(plane.client.clone()), stop.clone());
        tokio::spawn(async move { until.run_until_cancelled(following).await });
        let (living, until) = (fleet.clone().live(seed), stop.clone());
        tokio::spawn(async move { until.run_until_cancelled(living).await });
        let agent = plane.start_agent(PULLED, AGENT, &stop);
        taint_automatically(&plane).await;
        for name in ALL {
            if name == PULLED {
                let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                    "metadata": {"name": name}, "spec": {"syncMode": "Pull"}});
                plane.create(Cluster::api_resource(), cluster).await;
            } else {
                plane.join(name).await;
            }
            plane.until_ready(name).await;
        }
        for n in 0..WORKLOADS {
            let replicas = 1 + i64::from(u8::try_from(seed % 5).unwrap_or_default() + n) % 5;
            plane.create(Kind::Deployment.resource(), deployment(n, replicas)).await;
        }
        Self { plane, fleet, ledger, witness, stop, agent }
    }

    async fn end(self) {
        self.stop.cancel();
        for controller in self.agent {
            controller.await.expect("no controller panics");
        }
        self.plane.shutdown().await;
    }

    async fn perform(&mut self, step: &Step) {
        let plane = &mut self.plane;
        let deployments = Kind::Deployment.resource();
        let key = |n: u8| Kind::Deployment.key(&workload(n));
        match step {
            Step::Cut(server) => plane.network.cut(server),
            Step::Heal(server) => plane.network.heal(server),
            Step::Flap(server, time) => {
                for _ in 0..3 {
                    plane.network.cut(server);
                    tokio::time::sleep(*time).await;
                    plane.network.heal(server);
                    tokio::time::sleep(*time).await;
                }
            }
            Step::Behave(member, behavior) => self.fleet.behaves(member, *behavior),
            Step::Taint(member, effect) => {
                taint(plane, member, json!([{"key": "user", "value": "x", "effect": effect}])).await;
            }
            Step::Untaint(member) => taint(plane, member, json!([])).await,
            Step::Scale(n, replicas) => {
                let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
                tolerant(plane.client.patch(&deployments, &key(*n), &patch, &PatchOptions::default()).await);
            }
            Step::Renew(n) => {
                let was = plane.get(&deployments, &key(*n)).await;
                let replicas = was.and_then(|was| was["spec"]["replicas"].as_i64()).unwrap_or(1);
                delete(plane, &deployments, &key(*n)).await;
                tolerant(plane.client.create(&deployments, &deployment(*n, replicas)).await);
            }
            Step::Policy(n, placement) => {
                let key = ObjectKey::namespaced("demo", workload(*n));
                put(plane, &policies(false), &key, placement.policy(*n)).await;
            }
            Step::Rebalance { n, workloads, ttl } => {
                let (resource, key) = rebalancer(*n);
                let named = workloads.iter().map(|n| {
                    json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "demo", "name": workload(*n)})
                });
                let object = json!({"apiVersion": resource.api_version(), "kind": resource.kind,
                    "metadata": {"name": key.name()}, "spec": {
                    "workloads": named.collect::<Vec<_>>(), "ttlSecondsAfterFinished": ttl}});
                put(plane, &resource, &key, object).await;
            }
            Step::DropRebalancer(n) => {
                let (resource, key) = rebalancer(*n);
                delete(plane, &resource, &key).await;
            }
            Step::Quota { member, cpu } => {
                let (resource, key) = quota();
                let object = json!({"apiVersion": resource.api_version(), "kind": resource.kind,
                    "metadata": {"name": key.name(), "namespace": "demo"}, "spec": {"overall": {"cpu": "1000"},
                    "staticAssignments": [{"clusterName": member, "hard": {"cpu": cpu.to_string()}}]}});
                put(plane, &resource, &key, object).await;
            }
            Step::DropQuota => {
                let (resource, key) = quota();
                delete(plane, &resource, &key).await;
            }
            Step::Restart => plane.restart_controllers().await,
            Step::NetworkFaults(faults) => plane.network.set_faults(Some(*faults)),
            Step::Wait(time) => tokio::time::sleep(*time).await,
        }
    }
}
