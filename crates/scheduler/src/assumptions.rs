//! Scheduled replicas that do not run yet (gate SchedulingOvercommitProtection): until a cluster reports them, they are
//! subtracted from its available capacity. The time is an argument; kept in memory only.
//!
//! Upstream assumes the whole workload again with every result, and counts it against its own binding. Here only the
//! added replicas are assumed, and never against their own binding.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use karmada_api::identity::{BindingKey, ClusterName};
use karmada_api::work::v1alpha2::{Component, ResourceBindingSpec, TargetCluster};
use scheduling::Estimates;
use scheduling::accurate::AssumedWorkload;
use scheduling::estimate::added;

use crate::pacing::Moment;

/// Replicas that did not become healthy within this time no longer count.
const EXPIRY: Duration = Duration::from_secs(300);

/// The assumed replicas of one binding, by cluster.
pub type AssumedReplicas = BTreeMap<ClusterName, Assumed>;

/// Bounded by the results of the bindings there are.
#[derive(Debug, Default)]
pub struct Assumptions {
    bindings: BTreeMap<BindingKey, AssumedReplicas>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Assumed {
    /// The number of running replicas when the first assumption was added.
    base: i32,
    components: Vec<Component>,
    until: Moment,
}

impl Assumptions {
    /// Assumes a result; returns the previous assumption, for [`Assumptions::restore`].
    pub fn assume(
        &mut self,
        key: &BindingKey,
        spec: &ResourceBindingSpec,
        result: &[TargetCluster],
        now: Moment,
    ) -> Option<AssumedReplicas> {
        let before = self.bindings.remove(key);
        let known = |cluster: &str| before.as_ref().and_then(|known| known.get(cluster)).filter(|it| it.until > now);
        let mut after = AssumedReplicas::new();
        for target in result {
            let ran = spec.clusters.iter().find(|old| old.name == target.name);
            let earlier = known(&target.name);
            let base = earlier.map_or(ran.map_or(0, |old| old.replicas), |earlier| earlier.base);
            let components = if spec.components.len() > 1 {
                let is_new = ran.is_none() || earlier.is_some();
                if is_new { spec.components.clone() } else { Vec::new() }
            } else {
                added(spec, target.replicas.saturating_sub(base))
            };
            if components.is_empty() {
                continue;
            }
            let until = match earlier {
                Some(earlier) if earlier.components == components => earlier.until,
                _ => now + EXPIRY,
            };
            after.insert(ClusterName::from(&target.name), Assumed { base, components, until });
        }
        if !after.is_empty() {
            self.bindings.insert(key.clone(), after);
        }
        before
    }

    pub fn known(&self, key: &BindingKey) -> Option<AssumedReplicas> {
        self.bindings.get(key).cloned()
    }

    /// Reverts the assumption of a result that was not stored.
    pub fn restore(&mut self, key: &BindingKey, before: Option<AssumedReplicas>) {
        match before {
            Some(before) => self.bindings.insert(key.clone(), before),
            None => self.bindings.remove(key),
        };
    }

    /// It runs there.
    pub fn arrived(&mut self, key: &BindingKey, cluster: &str) {
        if let Some(known) = self.bindings.get_mut(key) {
            known.remove(cluster);
            if known.is_empty() {
                self.bindings.remove(key);
            }
        }
    }

    pub fn forget(&mut self, key: &BindingKey) {
        self.bindings.remove(key);
    }

    /// The assumed replicas of all other bindings; expired ones are dropped.
    pub fn others(&mut self, own: &BindingKey, now: Moment) -> OtherAssumptions {
        self.bindings.retain(|_, known| {
            known.retain(|_, assumed| assumed.until > now);
            !known.is_empty()
        });
        let mut others = OtherAssumptions::default();
        for (key, known) in self.bindings.iter().filter(|(key, _)| *key != own) {
            for (cluster, assumed) in known {
                let there = others.0.entry(cluster.clone()).or_default();
                there.namespaces.push(key.namespace().unwrap_or_default().to_owned());
                there.components.push(assumed.components.clone());
            }
        }
        others
    }
}

/// The assumed replicas of each cluster.
#[derive(Debug, Default)]
pub struct OtherAssumptions(HashMap<ClusterName, AssumedInCluster>);

/// Two lists of the same length.
#[derive(Debug, Default)]
struct AssumedInCluster {
    namespaces: Vec<String>,
    components: Vec<Vec<Component>>,
}

impl OtherAssumptions {
    /// In the form that estimators take.
    pub fn workloads(&self, cluster: &str) -> Vec<AssumedWorkload> {
        let Some(AssumedInCluster { namespaces, components }) = self.0.get(cluster) else { return Vec::new() };
        let both = namespaces.iter().cloned().zip(components.iter().cloned());
        both.map(|(namespace, components)| AssumedWorkload { namespace, components }).collect()
    }
}

impl Estimates for OtherAssumptions {
    fn at_most(&self, _: &str) -> Option<i64> {
        None
    }

    fn assumed(&self, cluster: &str) -> &[Vec<Component>] {
        self.0.get(cluster).map_or(&[], |there| there.components.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn targets(list: &[(&str, i32)]) -> Vec<TargetCluster> {
        let target = |(name, replicas): &(&str, i32)| TargetCluster {
            name: (*name).into(),
            replicas: *replicas,
            ..Default::default()
        };
        list.iter().map(target).collect()
    }

    fn spec(clusters: &[(&str, i32)]) -> ResourceBindingSpec {
        let value = json!({"resource": {"name": "web"}, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}});
        let spec: ResourceBindingSpec = serde_json::from_value(value).expect("a spec");
        ResourceBindingSpec { clusters: targets(clusters), ..spec }
    }

    fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds)
    }

    /// Assumed replicas of bindings other than `own` in m1 and m2.
    fn seen(assumptions: &mut Assumptions, own: &str, now: Moment) -> [i32; 2] {
        let others = assumptions.others(&BindingKey::cluster(own), now);
        ["m1", "m2"].map(|cluster| others.assumed(cluster).iter().flatten().map(|component| component.replicas).sum())
    }

    #[test]
    fn only_added_replicas_are_assumed() {
        let (mut assumptions, key) = (Assumptions::default(), BindingKey::cluster("a"));
        assumptions.assume(&key, &spec(&[("m1", 2)]), &targets(&[("m1", 5), ("m2", 1)]), at(0));
        assert_eq!(seen(&mut assumptions, "b", at(1)), [3, 1]);
        assert_eq!(seen(&mut assumptions, "a", at(1)), [0, 0], "a binding's own assumptions do not count");
        let before = assumptions.assume(&key, &spec(&[("m1", 5), ("m2", 1)]), &targets(&[("m1", 7)]), at(2));
        assert_eq!(seen(&mut assumptions, "b", at(3)), [5, 0], "counted from what ran at first");
        assumptions.restore(&key, before);
        assert_eq!(seen(&mut assumptions, "b", at(3)), [3, 1]);
        assumptions.arrived(&key, "m1");
        assert_eq!(seen(&mut assumptions, "b", at(3)), [0, 1]);
        assumptions.assume(&key, &spec(&[("m1", 5), ("m2", 1)]), &targets(&[("m1", 1)]), at(4));
        assert_eq!(seen(&mut assumptions, "b", at(5)), [0, 0]);
    }

    #[test]
    fn assumptions_expire() {
        let (mut assumptions, key) = (Assumptions::default(), BindingKey::cluster("a"));
        assumptions.assume(&key, &spec(&[]), &targets(&[("m1", 1)]), at(0));
        // The same result again does not prolong it.
        assumptions.assume(&key, &spec(&[("m1", 1)]), &targets(&[("m1", 1)]), at(100));
        assert_eq!(seen(&mut assumptions, "b", at(299)), [1, 0]);
        assert_eq!(seen(&mut assumptions, "b", at(300)), [0, 0]);
        assumptions.assume(&key, &spec(&[]), &targets(&[("m1", 1)]), at(300));
        assumptions.forget(&key);
        assert_eq!(seen(&mut assumptions, "b", at(301)), [0, 0]);
    }
}
