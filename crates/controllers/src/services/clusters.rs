//! Changes of Clusters that matter to Services across them.

use std::collections::{BTreeMap, BTreeSet};

use controller_runtime::Event;
use karmada_api::cluster::v1alpha1::{ApiEnablementStatus, Cluster};
use karmada_api::identity::ClusterName;
use multicluster::dispatched::Consumer;
use parking_lot::Mutex;

use crate::Context;

/// The clusters that exist and do not leave.
pub(super) fn existing(context: &Context) -> BTreeSet<String> {
    let clusters = context.clusters.all();
    let staying = clusters.iter().filter(|cluster| cluster.metadata.deletion_timestamp.is_none());
    staying.map(|cluster| cluster.metadata.name.clone()).collect()
}

/// The state of a cluster as a consumer.
pub(super) fn consumer(context: &Context, name: &str) -> Consumer {
    match context.clusters.get(name) {
        None => Consumer::Leaving,
        Some(cluster) => state(&cluster),
    }
}

fn state(cluster: &Cluster) -> Consumer {
    if cluster.metadata.deletion_timestamp.is_some() {
        return Consumer::Leaving;
    }
    // An API enablement that a cluster does not report is unknown, not absent.
    if cluster.api_enablement("discovery.k8s.io/v1", "EndpointSlice") == ApiEnablementStatus::Disabled {
        return Consumer::Incompatible;
    }
    if cluster.is_ready() { Consumer::Ready } else { Consumer::NotReady }
}

/// Calls `changed` when a cluster is added or removed, or changes its state as a consumer.
pub(super) fn on_change(context: &Context, changed: impl Fn(&ClusterName) + Send + Sync + 'static) {
    let (clusters, known) = (context.clusters.clone(), Mutex::new(BTreeMap::new()));
    context.cluster_informer.subscribe(move |event| {
        let name = ClusterName::from(event.object().name());
        let now = match event {
            Event::Deleted(_) => None,
            Event::Added { .. } | Event::Updated { .. } => clusters.get(&name).map(|cluster| state(&cluster)),
        };
        let before = match now {
            None => known.lock().remove(&name),
            Some(now) => known.lock().insert(name.clone(), now),
        };
        if before != now {
            changed(&name);
        }
    });
}
