//! Selects the source of a cluster's estimate: the member's state if this process watches it, else its estimator over
//! gRPC if there is one.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::future::{BoxFuture, join, join_all};
use parking_lot::Mutex;
use scheduling::accurate::Observer;
use tokio::time::{Duration, Instant, timeout_at};

use crate::client::{Answer, Connections, Query, Target};
use crate::member::MemberEstimator;
use crate::metrics::{Counted, Stopwatch};
use crate::server::Estimate;

/// The members whose state this process watches.
pub trait LocalMembers: Send + Sync + 'static {
    /// `None` for all others.
    fn member(&self, cluster: &str) -> Option<MemberEstimator>;
}

/// The sources of estimates. Cheap to clone.
#[derive(Clone)]
pub struct Estimators(Arc<Inner>);

struct Inner {
    local: Option<Arc<dyn LocalMembers>>,
    remote: Option<Connections>,
    timeout: Duration,
    counted: Option<Counted>,
    /// Members that did not sync within a whole query: later queries do not wait for them.
    slow: Mutex<HashSet<String>>,
}

impl std::fmt::Debug for Estimators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { local, remote, timeout, .. } = &*self.0;
        f.debug_struct("Estimators")
            .field("local", &local.is_some())
            .field("remote", remote)
            .field("timeout", timeout)
            .finish_non_exhaustive()
    }
}

impl Estimators {
    /// `timeout` applies to all clusters that are queried together.
    pub fn new(local: Option<Arc<dyn LocalMembers>>, remote: Option<Connections>, timeout: Duration) -> Self {
        Self(Arc::new(Inner { local, remote, timeout, counted: None, slow: Mutex::default() }))
    }

    /// Counts estimates of this process as a separate estimator would.
    #[must_use]
    pub fn counting(self, registry: &metrics::Registry) -> Self {
        let Inner { local, remote, timeout, .. } = &*self.0;
        let counted = Some(Counted::new(registry));
        let (local, remote, timeout) = (local.clone(), remote.clone(), *timeout);
        Self(Arc::new(Inner { local, remote, timeout, counted, slow: Mutex::default() }))
    }

    /// Queries all clusters concurrently.
    pub fn query<'a>(&'a self, targets: Vec<Target>, query: &'a Query) -> BoxFuture<'a, BTreeMap<String, Answer>> {
        Box::pin(async move {
            let deadline = Instant::now() + self.0.timeout;
            let (mut local, mut remote) = (Vec::new(), Vec::new());
            for target in targets {
                match self.0.local.as_ref().and_then(|local| local.member(&target.cluster)) {
                    Some(member) => local.push((target, member)),
                    None => remote.push(target),
                }
            }
            let local = join_all(local.into_iter().map(async |(target, member)| {
                let answer = self.local(&target, &member, query, deadline).await;
                (target.cluster, answer)
            }));
            let remote = async {
                match &self.0.remote {
                    Some(connections) if !remote.is_empty() => connections.query(remote, query).await,
                    _ => BTreeMap::new(),
                }
            };
            let (local, mut answers) = join(local, remote).await;
            answers.extend(local);
            answers
        })
    }

    async fn local(&self, target: &Target, member: &MemberEstimator, query: &Query, deadline: Instant) -> Answer {
        let cluster = &target.cluster;
        if !member.has_synced() {
            let waits = !self.0.slow.lock().contains(cluster);
            if !waits || !timeout_at(deadline, member.synced()).await.unwrap_or(false) {
                self.0.slow.lock().insert(cluster.clone());
                return Answer::Unknown(format!("the nodes and pods of cluster {cluster} are not known yet"));
            }
        }
        self.0.slow.lock().remove(cluster);
        let started = Instant::now();
        let stopwatch = self.0.counted.as_ref().map(|counted| counted.stopwatch(query.kind()));
        let observer: &dyn Observer = match &stopwatch {
            Some(stopwatch) => stopwatch,
            None => &(),
        };
        let assumed = &target.assumed;
        let result = match query {
            Query::Replicas { requirements } => member.replicas(requirements.as_ref(), assumed, observer),
            Query::Sets { namespace, components } => member.component_sets(namespace, components, assumed, observer),
            Query::Unschedulable { resource, threshold } => member.unschedulable(resource, *threshold, observer),
        };
        stopwatch.iter().for_each(Stopwatch::ended);
        if let Some(counted) = &self.0.counted {
            counted.request(query.kind(), result.is_ok(), started.elapsed());
        }
        match result {
            Ok(number) => Answer::Known(number),
            Err(why) => Answer::Unknown(format!("cluster {cluster}: {why}")),
        }
    }

    /// Removes the state of a removed cluster.
    pub fn forget(&self, cluster: &str) {
        self.0.slow.lock().remove(cluster);
        if let Some(remote) = &self.0.remote {
            remote.forget(cluster);
        }
    }
}
