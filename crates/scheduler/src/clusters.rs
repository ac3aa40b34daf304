//! The snapshot of the clusters, shared by all passes until a relevant change.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::identity::ClusterName;
use scheduling::{Member, Snapshot};

use crate::triggers::Change;

/// Follows the Cluster objects; a heartbeat only costs its decoding.
#[derive(Debug, Default)]
pub struct Clusters {
    members: BTreeMap<ClusterName, Arc<Member>>,
    snapshot: Option<Arc<Snapshot>>,
}

impl Clusters {
    /// Stores a new state, and calls `then` with the change if it matters.
    pub fn put(&mut self, cluster: Arc<Cluster>, then: impl FnOnce(&Change<'_>)) {
        let old = self.members.get(cluster.metadata.name.as_str()).cloned();
        let Some(change) = Change::between(old.as_deref().map(Member::cluster), Some(&cluster)) else { return };
        self.members.insert(ClusterName::of(&cluster), Arc::new(Member::new(cluster.clone())));
        self.snapshot = None;
        then(&change);
    }

    pub fn remove(&mut self, name: &str, then: impl FnOnce(&Change<'_>)) {
        let Some(old) = self.members.remove(name) else { return };
        self.snapshot = None;
        if let Some(change) = Change::between(Some(old.cluster()), None) {
            then(&change);
        }
    }

    /// Members that did not change are shared with the snapshot before.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        let members = &self.members;
        self.snapshot.get_or_insert_with(|| Arc::new(Snapshot::new(members.values().cloned()))).clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn put(clusters: &mut Clusters, change: Value) -> bool {
        let mut value = json!({"metadata": {"name": "m1", "generation": 1}});
        apimachinery::merge_patch::apply(&mut value, &change);
        let mut called = false;
        clusters.put(serde_json::from_value(value).expect("a cluster"), |_| called = true);
        called
    }

    #[test]
    fn snapshots_are_shared_until_a_relevant_change() {
        let mut clusters = Clusters::default();
        assert!(put(&mut clusters, json!({})));
        assert!(put(&mut clusters, json!({"metadata": {"name": "m2"}})));
        let first = clusters.snapshot();
        assert!(!put(&mut clusters, json!({"status": {"kubernetesVersion": "v1.34.0"}})));
        assert!(Arc::ptr_eq(&first, &clusters.snapshot()));
        assert!(put(&mut clusters, json!({"metadata": {"generation": 2}})));
        let second = clusters.snapshot();
        assert!(!Arc::ptr_eq(&first.members()[0], &second.members()[0]));
        assert!(Arc::ptr_eq(&first.members()[1], &second.members()[1]));
        let mut left = 0;
        clusters.remove("m2", |_| left += 1);
        clusters.remove("m2", |_| left += 1);
        assert_eq!((clusters.snapshot().len(), left), (1, 1));
    }
}
