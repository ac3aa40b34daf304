//! Failures drawn from a seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::{AGENT, ALL, WORKLOADS, workload};
use crate::network::NetworkFaults;

/// The actual state of a member's Deployments, and the state it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthBehavior {
    /// They become ready one by one, and that is reported.
    Truthful,
    /// None becomes ready, and that is reported.
    Sick,
    /// None becomes ready, and all are reported as ready.
    Misreporting,
    /// Another number is ready each second.
    Varying,
}

#[derive(Clone, Debug)]
pub enum Step {
    /// The control plane cannot reach a member, or an agent cannot reach the control plane; each keeps running.
    Cut(&'static str),
    Heal(&'static str),
    /// Down for this long, and up again, several times.
    Flap(&'static str, Duration),
    Behave(&'static str, HealthBehavior),
    Taint(&'static str, &'static str),
    Untaint(&'static str),
    Scale(u8, i64),
    /// Deleted and created.
    Renew(u8),
    Policy(u8, Placement),
    /// Created, or changed if it exists.
    Rebalance {
        n: u8,
        workloads: Vec<u8>,
        ttl: Option<u64>,
    },
    DropRebalancer(u8),
    /// Its assignment to a cluster.
    Quota {
        member: &'static str,
        cpu: u8,
    },
    DropQuota,
    Restart,
    NetworkFaults(NetworkFaults),
    Wait(Duration),
}

/// Seconds until a Deployment is ready and reported. A policy with a shorter toleration moves it from cluster to
/// cluster forever.
const STARTS: u32 = 30;

#[derive(Clone, Copy, Debug, Default)]
pub struct Placement {
    /// In one cluster at a time; otherwise divided over all.
    pub single: bool,
    pub tolerates: Option<u32>,
    pub directly: bool,
    /// The toleration of application failover.
    pub application: Option<u32>,
}

impl Placement {
    fn draw(rng: &mut StdRng) -> Self {
        Self {
            single: rng.random_range(0..2) == 0,
            tolerates: (rng.random_range(0..3) == 0).then(|| rng.random_range(0..60)),
            directly: rng.random_range(0..6) == 0,
            application: (rng.random_range(0..4) == 0).then(|| rng.random_range(STARTS..STARTS + 60)),
        }
    }

    pub fn policy(self, n: u8) -> Value {
        let mut placement = json!({});
        if self.single {
            placement["spreadConstraints"] = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
        } else {
            placement["replicaScheduling"] =
                json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
        }
        if let Some(seconds) = self.tolerates {
            placement["clusterTolerations"] =
                json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
        }
        let mode = if self.directly { "Directly" } else { "Gracefully" };
        let mut failover = json!({"cluster": {"purgeMode": mode}});
        if let Some(seconds) = self.application {
            failover["application"] = json!({"decisionConditions": {"tolerationSeconds": seconds}, "purgeMode": mode});
        }
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": workload(n), "namespace": "demo"}, "spec": {"placement": placement, "failover": failover,
            "propagateDeps": true, "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": workload(n)}]}})
    }
}

fn one<T: Copy>(rng: &mut StdRng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())]
}

/// Starts with stable workloads, so that most later steps affect a running one.
pub fn draw(seed: u64) -> Vec<Step> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut steps: Vec<Step> = (0..WORKLOADS).map(|n| Step::Policy(n, Placement::draw(&mut rng))).collect();
    steps.push(Step::Wait(Duration::from_secs(60)));
    for _ in 0..rng.random_range(6..18) {
        steps.push(step(&mut rng, seed));
        if rng.random_range(0..2) == 0 {
            steps.push(Step::Wait(Duration::from_secs(rng.random_range(1..90))));
        }
    }
    steps
}

fn step(rng: &mut StdRng, seed: u64) -> Step {
    let (member, n) = (one(rng, &ALL), rng.random_range(0..WORKLOADS));
    let cut = one(rng, &["m1", "m2", "m3", "m4", AGENT]);
    match rng.random_range(0..60) {
        0..8 => Step::Cut(cut),
        8..13 => Step::Heal(cut),
        13..15 => Step::Flap(cut, Duration::from_secs(rng.random_range(5..90))),
        15..24 => Step::Behave(
            member,
            one(
                rng,
                &[
                    HealthBehavior::Truthful,
                    HealthBehavior::Sick,
                    HealthBehavior::Misreporting,
                    HealthBehavior::Varying,
                ],
            ),
        ),
        24..30 => Step::Taint(member, one(rng, &["NoExecute", "NoExecute", "NoSchedule"])),
        30..33 => Step::Untaint(member),
        33..37 => Step::Scale(n, rng.random_range(0..7)),
        37..38 => Step::Renew(n),
        38..40 => Step::Policy(n, Placement::draw(rng)),
        40..43 => {
            let workloads = (0..WORKLOADS).filter(|_| rng.random_range(0..2) == 0).collect();
            let ttl = (rng.random_range(0..2) == 0).then(|| rng.random_range(0..90));
            Step::Rebalance { n: rng.random_range(0..2), workloads, ttl }
        }
        43..44 => Step::DropRebalancer(rng.random_range(0..2)),
        44..46 => Step::Quota { member, cpu: rng.random_range(1..9) },
        46..47 => Step::DropQuota,
        47..49 => Step::Restart,
        49..51 => {
            let lag = Duration::from_millis(one(rng, &[0, 20, 300]));
            Step::NetworkFaults(NetworkFaults { seed: seed ^ rng.random::<u64>(), lost: one(rng, &[0, 20, 100]), lag })
        }
        51..54 => Step::Wait(Duration::from_millis(rng.random_range(1..3_000))),
        54..59 => Step::Wait(Duration::from_secs(rng.random_range(3..120))),
        _ => Step::Wait(Duration::from_secs(700)),
    }
}
