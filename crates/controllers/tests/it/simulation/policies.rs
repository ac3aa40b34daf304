//! The policies of histories.

use apimachinery::{ApiResource, ObjectKey};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::MEMBERS;
use super::kinds::{Kind, template};

/// The number of names for each kind, including policies and overrides.
pub const NAMES: u8 = 2;

#[derive(Clone, Debug)]
pub struct PolicySpec {
    kind: Kind,
    selects: Selects,
    clusters: Where,
    lazy: bool,
    divided: bool,
    overwrite: bool,
    preserve: bool,
    propagate_deps: bool,
    priority: i32,
    preempts: bool,
    suspends: Suspends,
}

#[derive(Clone, Debug)]
enum Selects {
    Name(u8),
    Colour(&'static str),
    All,
}

#[derive(Clone, Debug)]
enum Where {
    Named(Vec<&'static str>),
    Zone(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub enum Suspends {
    Nothing,
    Everywhere,
    In(&'static str),
}

impl Suspends {
    pub fn suspension(self) -> Option<Value> {
        match self {
            Self::Nothing => None,
            Self::Everywhere => Some(json!({"dispatching": true})),
            Self::In(member) => Some(json!({"dispatchingOnClusters": {"clusterNames": [member]}})),
        }
    }
}

pub fn policies(cluster_wide: bool) -> ApiResource {
    let group = ("policy.karmada.io", "v1alpha1");
    match cluster_wide {
        false => ApiResource::namespaced(group.0, group.1, "PropagationPolicy", "propagationpolicies"),
        true => ApiResource::cluster(group.0, group.1, "ClusterPropagationPolicy", "clusterpropagationpolicies"),
    }
}

pub fn overrides(cluster_wide: bool) -> ApiResource {
    let group = ("policy.karmada.io", "v1alpha1");
    match cluster_wide {
        false => ApiResource::namespaced(group.0, group.1, "OverridePolicy", "overridepolicies"),
        true => ApiResource::cluster(group.0, group.1, "ClusterOverridePolicy", "clusteroverridepolicies"),
    }
}

/// The key of a policy or override of either scope.
pub fn key(cluster_wide: bool, name: String) -> ObjectKey {
    if cluster_wide { ObjectKey::cluster(name) } else { ObjectKey::namespaced("demo", name) }
}

impl PolicySpec {
    pub fn is_lazy(&self) -> bool {
        self.lazy
    }

    pub fn draw(rng: &mut StdRng, kind: Kind) -> Self {
        let mut once_in = |n: u32| rng.random_range(0..n) == 0;
        let (divided, overwrite, preserve) = (once_in(2), once_in(4), once_in(8));
        let (propagate_deps, preempts, suspended, one) = (once_in(2), once_in(4), once_in(8), once_in(2));
        let selects = match rng.random_range(0..4) {
            _ if preempts => Selects::Name(rng.random_range(0..NAMES)),
            0 | 1 => Selects::Name(rng.random_range(0..NAMES)),
            2 => Selects::Colour(["red", "blue"][rng.random_range(0..2)]),
            _ => Selects::All,
        };
        let suspends = match (suspended, one) {
            (false, _) => Suspends::Nothing,
            (true, false) => Suspends::Everywhere,
            (true, true) => Suspends::In(MEMBERS[rng.random_range(0..MEMBERS.len())]),
        };
        let named = MEMBERS.into_iter().filter(|_| rng.random_range(0..3) > 0).collect();
        let zone = ["a", "b"][rng.random_range(0..2)];
        let clusters = if rng.random_range(0..5) == 0 { Where::Zone(zone) } else { Where::Named(named) };
        let priority = rng.random_range(0..3);
        let lazy = rng.random_range(0..6) == 0;
        Self {
            kind,
            selects,
            clusters,
            lazy,
            divided,
            overwrite,
            preserve,
            propagate_deps,
            priority,
            preempts,
            suspends,
        }
    }

    pub fn object(&self, kind: &str, key: &ObjectKey) -> Value {
        let resource = self.kind.resource();
        let mut selector = json!({"apiVersion": resource.api_version(), "kind": resource.kind});
        if let Some(namespace) = self.kind.namespace() {
            selector["namespace"] = json!(namespace);
        }
        match self.selects {
            Selects::Name(n) => selector["name"] = json!(template(n)),
            Selects::Colour(colour) => selector["labelSelector"] = json!({"matchLabels": {"colour": colour}}),
            Selects::All => {}
        }
        let mut placement = match &self.clusters {
            Where::Named(names) if names.is_empty() => json!({}),
            Where::Named(names) => json!({"clusterAffinity": {"clusterNames": names}}),
            Where::Zone(zone) => json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"zone": zone}}}}),
        };
        if self.divided {
            placement["replicaScheduling"] =
                json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
        }
        let mut spec = json!({"resourceSelectors": [selector], "placement": placement,
            "conflictResolution": if self.overwrite { "Overwrite" } else { "Abort" },
            "preserveResourcesOnDeletion": self.preserve, "propagateDeps": self.propagate_deps,
            "priority": self.priority, "preemption": if self.preempts { "Always" } else { "Never" }});
        if self.lazy {
            spec["activationPreference"] = json!("Lazy");
        }
        if let Some(suspension) = self.suspends.suspension() {
            spec["suspension"] = suspension;
        }
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind,
            "metadata": {"name": key.name(), "namespace": key.namespace()}, "spec": spec})
    }
}
