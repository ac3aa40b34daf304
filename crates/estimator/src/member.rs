//! The state of a member, updated from the caches of its objects, and the estimates from it. The scheduler uses it
//! directly in its own process; a server exposes it to others.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use controller_runtime::{Event, Informer, InformerSet, Selection};
use karmada_api::work::v1alpha2::{Component, ReplicaRequirements};
use parking_lot::RwLock;
use scheduling::accurate::{self, AssumedWorkload, Observer, State, Switches, new_replica_set, unschedulable_pods};
use serde_json::Value;
use world::World;

use crate::server::Estimate;
use crate::wire;

/// The estimator of a member. Cheap to clone.
#[derive(Clone)]
pub struct MemberEstimator(Arc<Inner>);

struct Inner {
    cluster: String,
    switches: Switches,
    state: Arc<RwLock<State>>,
    world: World,
    /// Nodes and pods, and quotas if they count.
    fed: Vec<Informer>,
    pods: Informer,
    deployments: Informer,
    replica_sets: Informer,
}

impl MemberEstimator {
    /// Watches a member with shared informers. Must be called inside a tokio runtime.
    pub fn follow(cluster: &str, informers: &InformerSet, switches: Switches) -> Self {
        Self::over(cluster, informers, informers.informer(&pods()), switches)
    }

    /// As [`Self::follow`], without other users of the informers: ended pods are not even listed.
    pub fn follow_standalone(cluster: &str, informers: &InformerSet, switches: Switches) -> Self {
        let running = Some("status.phase!=Succeeded,status.phase!=Failed".to_owned());
        let selection = Selection { field_selector: running, ..Selection::default() };
        Self::over(cluster, informers, informers.selected(&pods(), selection), switches)
    }

    fn over(cluster: &str, informers: &InformerSet, pods: Informer, switches: Switches) -> Self {
        let state: Arc<RwLock<State>> = Arc::default();
        let nodes = informers.informer(&ApiResource::cluster("", "v1", "Node", "nodes"));
        let mut fed = vec![nodes.clone(), pods.clone()];
        feed(&nodes, &state, |state, key, node| match node {
            Some(node) => state.put_node(&node),
            None => state.remove_node(key.name()),
        });
        feed(&pods, &state, |state, key, pod| match pod {
            Some(pod) => state.put_pod(&pod),
            None => state.remove_pod(key),
        });
        if switches.quotas {
            let quotas = informers.informer(&ApiResource::namespaced("", "v1", "ResourceQuota", "resourcequotas"));
            feed(&quotas, &state, |state, key, quota| match quota {
                Some(quota) => state.put_quota(&quota),
                None => state.remove_quota(key.namespace().unwrap_or_default(), key.name()),
            });
            fed.push(quotas);
        }
        let apps = |kind: &'static str, plural: &'static str| {
            informers.informer(&ApiResource::namespaced("apps", "v1", kind, plural))
        };
        Self(Arc::new(Inner {
            cluster: cluster.to_owned(),
            switches,
            state,
            world: informers.world().clone(),
            fed,
            pods,
            deployments: apps("Deployment", "deployments"),
            replica_sets: apps("ReplicaSet", "replicasets"),
        }))
    }

    /// Waits until all caches are synced; false when stopped before.
    pub async fn synced(&self) -> bool {
        for informer in self.informers() {
            if !informer.synced().await {
                return false;
            }
        }
        true
    }

    /// Whether all caches are synced. Before, there are no estimates.
    pub fn has_synced(&self) -> bool {
        self.informers().all(|informer| informer.has_synced())
    }

    fn informers(&self) -> impl Iterator<Item = &Informer> {
        self.0.fed.iter().chain([&self.0.deployments, &self.0.replica_sets])
    }
}

fn pods() -> ApiResource {
    ApiResource::namespaced("", "v1", "Pod", "pods")
}

/// Updates the state with every change of an object; without an object it is removed.
fn feed(
    informer: &Informer,
    state: &Arc<RwLock<State>>,
    apply: impl Fn(&mut State, &ObjectKey, Option<Value>) + Send + Sync + 'static,
) {
    let state = state.clone();
    informer.subscribe(move |event| {
        let object = event.object();
        let tree = match event {
            Event::Deleted(_) => None,
            // An unreadable object counts as absent: an estimate may be too low, never too high.
            _ => object.to_value().ok(),
        };
        apply(&mut state.write(), &object.key(), tree);
    });
}

fn trees(objects: &[Arc<Object>]) -> Vec<Value> {
    objects.iter().filter_map(|object| object.to_value().ok()).collect()
}

impl Estimate for MemberEstimator {
    fn cluster(&self) -> &str {
        &self.0.cluster
    }

    fn replicas(
        &self,
        requirements: Option<&ReplicaRequirements>,
        assumed: &[AssumedWorkload],
        observer: &dyn Observer,
    ) -> Result<i64, String> {
        Ok(accurate::replicas(&self.0.state.read(), requirements, assumed, self.0.switches, observer))
    }

    fn component_sets(
        &self,
        namespace: &str,
        components: &[Component],
        assumed: &[AssumedWorkload],
        observer: &dyn Observer,
    ) -> Result<i64, String> {
        Ok(accurate::component_sets(&self.0.state.read(), namespace, components, assumed, self.0.switches, observer))
    }

    fn unschedulable(
        &self,
        resource: &wire::ObjectReference,
        threshold: Duration,
        observer: &dyn Observer,
    ) -> Result<i64, String> {
        let wire::ObjectReference { kind, namespace, name, .. } = resource;
        if kind != "Deployment" {
            return Err(format!("kind({kind}) of workload({namespace}/{name}) is not supported"));
        }
        let key = ObjectKey::namespaced(namespace.as_str(), name.as_str());
        let deployment = self.0.deployments.cache().get(&key).and_then(|object| object.to_value().ok());
        let deployment = deployment.ok_or_else(|| format!("deployments.apps {name:?} not found"))?;
        observer.step_finished("GetObjectFromCache");
        let sets = trees(&self.0.replica_sets.cache().list(Some(namespace)));
        let Some(set) = new_replica_set(&deployment, &sets) else { return Ok(0) };
        let pods = trees(&self.0.pods.cache().list(Some(namespace)));
        let moment = self.0.world.moment();
        let found = unschedulable_pods(set, &pods, threshold, &|at| moment.since(at));
        observer.step_finished("GetWorkloadUnschedulablePods");
        Ok(found)
    }
}
