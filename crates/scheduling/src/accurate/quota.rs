//! The remaining quota of a namespace.
//!
//! As in Kubernetes, all scopes of a quota must match, both `cpu` and `requests.cpu` count, and the number of pods is
//! limited. Upstream's estimator accepts one matching scope, lets one spelling replace the other, ignores pods, and
//! returns a negative number for an overdrawn quota.

use karmada_api::work::v1alpha2::Component;
use serde::Deserialize;
use serde_json::Value;

use super::AssumedWorkload;
use super::node::{Amounts, amounts, needs};
use crate::estimate::UNLIMITED;

/// A ResourceQuota as estimates read it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quota {
    scopes: Vec<Scope>,
    /// The remaining amount of each resource, by the name that requests use.
    free: Amounts,
    pods: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Scope {
    scope_name: String,
    operator: String,
    values: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    scopes: Vec<String>,
    scope_selector: Option<Selector>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Selector {
    match_expressions: Vec<Scope>,
}

impl Scope {
    fn matches(&self, priority_class: &str) -> bool {
        let listed = || !priority_class.is_empty() && self.values.iter().any(|value| value == priority_class);
        self.scope_name == "PriorityClass"
            && match self.operator.as_str() {
                "Exists" => !priority_class.is_empty(),
                "DoesNotExist" => priority_class.is_empty(),
                "In" => listed(),
                "NotIn" => !listed(),
                _ => false,
            }
    }
}

impl Quota {
    /// Reads a ResourceQuota. A resource counts only if the status has both its limit and its usage.
    pub fn of(quota: &Value) -> Self {
        let spec = Spec::deserialize(&quota["spec"]).unwrap_or_default();
        let exists = |scope_name: String| Scope { scope_name, operator: "Exists".to_owned(), values: Vec::new() };
        let mut scopes: Vec<Scope> = spec.scopes.into_iter().map(exists).collect();
        scopes.extend(spec.scope_selector.unwrap_or_default().match_expressions);
        let (hard, used) = (amounts(&quota["status"]["hard"]), amounts(&quota["status"]["used"]));
        let mut found = Self { scopes, free: Amounts::new(), pods: None };
        for (name, hard) in &hard {
            let Some(used) = used.get(name) else { continue };
            let free = hard.saturating_sub(*used);
            match name.strip_prefix("requests.").unwrap_or(name) {
                "pods" | "count/pods" => found.pods = Some(found.pods.map_or(free, |known| known.min(free))),
                resource if is_counted(resource) => {
                    let known = found.free.entry(resource.to_owned()).or_insert(free);
                    *known = free.min(*known);
                }
                _ => {}
            }
        }
        found
    }

    fn applies(&self, component: &Component) -> bool {
        let class = component.replica_requirements.as_ref().map_or("", |it| it.priority_class_name.as_str());
        self.scopes.iter().all(|scope| scope.matches(class))
    }

    /// Returns how many sets of these components the quota admits; [`UNLIMITED`] when it does not apply to them.
    pub(super) fn bound(&self, namespace: &str, components: &[Component], assumed: &[AssumedWorkload]) -> i64 {
        let of = |components: &mut dyn Iterator<Item = &Component>| {
            let mut pods = 0_i64;
            let mut sums = Amounts::new();
            for component in components.filter(|component| self.applies(component)) {
                let replicas = i64::from(component.replicas.max(0));
                pods = pods.saturating_add(replicas);
                for (name, amount) in needs(component, |name| self.free.contains_key(name)) {
                    let sum = sums.entry(name.to_owned()).or_default();
                    *sum = sum.saturating_add(amount.saturating_mul(replicas));
                }
            }
            (pods, sums)
        };
        let here = assumed.iter().filter(|workload| workload.namespace == namespace);
        let (pods_taken, taken) = of(&mut here.flat_map(|workload| &workload.components));
        let (pods, needed) = of(&mut components.iter());
        let times = |free: i64, taken: i64, needed: i64| free.saturating_sub(taken).max(0) / needed;
        let by_pods = self.pods.filter(|_| pods > 0).map(|free| times(free, pods_taken, pods));
        let by_amount = needed.iter().filter(|(_, needed)| **needed > 0).map(|(name, needed)| {
            let free = self.free.get(name).copied().unwrap_or(0);
            times(free, taken.get(name).copied().unwrap_or(0), *needed)
        });
        by_pods.into_iter().chain(by_amount).fold(UNLIMITED, i64::min)
    }
}

fn is_counted(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || (resource.contains('/') && !resource.starts_with("count/"))
}
