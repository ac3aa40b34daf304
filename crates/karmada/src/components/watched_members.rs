//! Estimators for the members that this process follows.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use controllers::{Member, Members};
use estimator::{LocalMembers, MemberEstimator};
use parking_lot::Mutex;
use scheduling::accurate::Switches;

/// One for each connected member, created at its first estimate, and recreated with the connection.
pub struct WatchedMembers {
    members: Members,
    switches: Switches,
    kept: Mutex<HashMap<String, (Weak<Member>, MemberEstimator)>>,
}

impl WatchedMembers {
    pub fn new(members: Members, switches: Switches) -> Arc<Self> {
        Arc::new(Self { members, switches, kept: Mutex::default() })
    }
}

impl LocalMembers for WatchedMembers {
    fn member(&self, cluster: &str) -> Option<MemberEstimator> {
        let mut kept = self.kept.lock();
        let Some(member) = self.members.connected(cluster) else {
            kept.remove(cluster);
            return None;
        };
        if let Some((known, estimator)) = kept.get(cluster)
            && known.upgrade().is_some_and(|known| Arc::ptr_eq(&known, &member))
        {
            return Some(estimator.clone());
        }
        let estimator = MemberEstimator::follow(cluster, &member.informers, self.switches);
        kept.insert(cluster.to_owned(), (Arc::downgrade(&member), estimator.clone()));
        Some(estimator)
    }
}
