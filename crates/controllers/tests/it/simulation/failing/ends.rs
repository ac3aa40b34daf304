//! After recovery, everything matches the templates, policies, rebalancers and quotas.

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Scope};
use serde_json::Value;

use super::run::{Run, quota, rebalancer};
use super::steps::HealthBehavior;
use super::{AGENT, ALL, WORKLOADS, workload};
use crate::harness::get;
use crate::simulation::kinds::Kind;
use crate::simulation::perform::{binding_named, taint};
use crate::simulation::read::{all, clusters, condition, name, text};

/// Together longer than the grace period, the period of a quota's count and the longest back-off.
const PAUSES: [u64; 11] = [2, 3, 5, 10, 20, 40, 80, 160, 320, 640, 1_280];

impl Run {
    /// Heals everything and waits until there are no discrepancies.
    pub async fn converge(&mut self) -> Vec<String> {
        let plane = &self.plane;
        plane.network.set_faults(None);
        for member in ALL {
            plane.network.heal(member);
            self.fleet.behaves(member, HealthBehavior::Truthful);
        }
        plane.network.heal(AGENT);
        let mut wrong = Vec::new();
        for seconds in PAUSES {
            for member in ALL {
                taint(plane, member, serde_json::json!([])).await;
            }
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            wrong = self.discrepancies().await;
            if wrong.is_empty() {
                break;
            }
        }
        wrong
    }

    async fn discrepancies(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for cluster in all(&self.plane.client, &Cluster::api_resource(), None).await {
            if condition(&cluster, "Ready") != "True"
                || cluster["spec"]["taints"].as_array().is_some_and(|it| !it.is_empty())
            {
                let (taints, conditions) = (&cluster["spec"]["taints"], &cluster["status"]["conditions"]);
                wrong.push(format!("cluster {} has taints {taints} and conditions {conditions}", name(&cluster)));
            }
        }
        for n in 0..WORKLOADS {
            wrong.extend(self.of_workload(&workload(n)).await);
        }
        for n in 0..2 {
            wrong.extend(self.of_rebalancer(n).await);
        }
        wrong.extend(self.of_quota().await);
        wrong
    }

    async fn of_workload(&self, workload: &str) -> Vec<String> {
        let kind = Kind::Deployment;
        let (resource, key) = binding_named(kind, workload);
        let Some(template) = self.plane.get(&kind.resource(), &kind.key(workload)).await else {
            return vec![format!("{workload} is gone")];
        };
        let replicas = template["spec"]["replicas"].as_i64().unwrap_or_default();
        let Some(binding) = self.plane.get(&resource, &key).await else {
            return vec![format!("{workload} has no binding")];
        };
        let (mut wrong, targets) = (Vec::new(), clusters(&binding["spec"]["clusters"]));
        if binding["spec"]["resource"]["uid"] != template["metadata"]["uid"] {
            wrong.push(format!("the binding of {workload} is of a former one"));
        }
        let tasks = &binding["spec"]["gracefulEvictionTasks"];
        if tasks.as_array().is_some_and(|tasks| !tasks.is_empty()) {
            wrong.push(format!("the evictions of {workload} do not end: {tasks}"));
        }
        if targets.values().sum::<i64>() != replicas {
            wrong.push(format!("{workload}: {replicas} replicas in {targets:?}"));
        }
        for member in ALL {
            let copy = get(&self.plane.member(member), &kind.resource(), &kind.key(workload)).await;
            let desired = targets.get(member).copied();
            let found = copy.as_ref().map(|copy| copy["spec"]["replicas"].as_i64().unwrap_or_default());
            let ready = copy.as_ref().map(|copy| copy["status"]["readyReplicas"].as_i64().unwrap_or_default());
            if desired != found || found != ready {
                wrong.push(format!(
                    "{workload} in {member}: {desired:?} replicas wanted, {found:?} there, {ready:?} ready"
                ));
            }
        }
        wrong
    }

    /// It has finished, and is deleted after its TTL.
    async fn of_rebalancer(&self, n: u8) -> Option<String> {
        let (resource, key) = rebalancer(n);
        let found = self.plane.get(&resource, &key).await?;
        let status = &found["status"];
        let results = status["observedWorkloads"].as_array().cloned().unwrap_or_default();
        let is_done =
            status["observedGeneration"] == found["metadata"]["generation"] && status["finishTime"].is_string();
        let requested = found["spec"]["workloads"].as_array().map_or(0, Vec::len);
        let is_well = results.len() >= requested && results.iter().all(|it| it["result"] == "Successful");
        let expires = found["spec"]["ttlSecondsAfterFinished"].is_u64();
        (!is_done || !is_well || expires).then(|| format!("rebalancer {}: {} {status}", key.name(), found["spec"]))
    }

    /// Its usage is the sum over bindings, and each assignment is in its cluster and nowhere else.
    async fn of_quota(&self) -> Vec<String> {
        let (resource, key) = quota();
        let found = self.plane.get(&resource, &key).await;
        let shares = ApiResource::namespaced("", "v1", "ResourceQuota", "resourcequotas");
        let assignments =
            found.iter().flat_map(|it| it["spec"]["staticAssignments"].as_array().cloned().unwrap_or_default());
        let assigned: BTreeMap<String, Value> =
            assignments.map(|it| (text(&it, "/clusterName").to_owned(), it["hard"]["cpu"].clone())).collect();
        let mut wrong = Vec::new();
        for member in ALL {
            let share = get(&self.plane.member(member), &shares, &ObjectKey::namespaced("demo", "q")).await;
            let (is, desired) = (share.map(|it| it["spec"]["hard"]["cpu"].clone()), assigned.get(member).cloned());
            if is != desired {
                wrong.push(format!("the quota's share in {member} is {is:?}, not {desired:?}"));
            }
        }
        let Some(found) = found else { return wrong };
        let bindings = all(&self.plane.client, &Binding::api_resource(Scope::Namespaced), Some("demo")).await;
        let sum: i64 = bindings.iter().flat_map(|it| clusters(&it["spec"]["clusters"]).into_values()).sum();
        let used = found["status"]["overallUsed"]["cpu"].as_str().unwrap_or("0");
        if used != sum.to_string() {
            wrong.push(format!("the quota's usage is {used}, and its bindings have {sum}"));
        }
        wrong
    }
}
