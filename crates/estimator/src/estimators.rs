//! Whom to ask about a cluster: the member's state if this process follows it, its estimator over gRPC if there is one,
//! else nobody.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::future::{BoxFuture, join, join_all};
use parking_lot::Mutex;
use scheduling::accurate::Observer;
use tokio::time::{Duration, Instant, timeout_at};

use crate::client::{Answer, Ask, Connections, Question};
use crate::member::MemberEstimator;
use crate::metrics::{Counted, Stopwatch};
use crate::server::Estimate;

/// Members whose state is followed in this process.
pub trait Near: Send + Sync + 'static {
    /// `None` for all others.
    fn member(&self, cluster: &str) -> Option<MemberEstimator>;
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Estimators(Arc<Inner>);

struct Inner {
    near: Option<Arc<dyn Near>>,
    far: Option<Connections>,
    timeout: Duration,
    counted: Option<Counted>,
    /// Members that did not become known in a whole round: nobody waits for them again.
    slow: Mutex<HashSet<String>>,
}

impl std::fmt::Debug for Estimators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { near, far, timeout, .. } = &*self.0;
        f.debug_struct("Estimators")
            .field("near", &near.is_some())
            .field("far", far)
            .field("timeout", timeout)
            .finish_non_exhaustive()
    }
}

impl Estimators {
    /// `timeout`: for all clusters that are asked together.
    pub fn new(near: Option<Arc<dyn Near>>, far: Option<Connections>, timeout: Duration) -> Self {
        Self(Arc::new(Inner { near, far, timeout, counted: None, slow: Mutex::default() }))
    }

    /// Counts what is answered in this process as an estimator of its own would.
    #[must_use]
    pub fn counting(self, registry: &metrics::Registry) -> Self {
        let Inner { near, far, timeout, .. } = &*self.0;
        let counted = Some(Counted::new(registry));
        let (near, far, timeout) = (near.clone(), far.clone(), *timeout);
        Self(Arc::new(Inner { near, far, timeout, counted, slow: Mutex::default() }))
    }

    /// Asks all of them at the same time.
    pub fn ask<'a>(&'a self, questions: Vec<Question>, ask: &'a Ask) -> BoxFuture<'a, BTreeMap<String, Answer>> {
        Box::pin(async move {
            let deadline = Instant::now() + self.0.timeout;
            let (mut near, mut far) = (Vec::new(), Vec::new());
            for question in questions {
                match self.0.near.as_ref().and_then(|near| near.member(&question.cluster)) {
                    Some(member) => near.push((question, member)),
                    None => far.push(question),
                }
            }
            let near = join_all(near.into_iter().map(async |(question, member)| {
                let answer = self.near(&question, &member, ask, deadline).await;
                (question.cluster, answer)
            }));
            let far = async {
                match &self.0.far {
                    Some(connections) if !far.is_empty() => connections.ask(far, ask).await,
                    _ => BTreeMap::new(),
                }
            };
            let (near, mut answers) = join(near, far).await;
            answers.extend(near);
            answers
        })
    }

    async fn near(&self, question: &Question, member: &MemberEstimator, ask: &Ask, deadline: Instant) -> Answer {
        let cluster = &question.cluster;
        if !member.has_synced() {
            let waits = !self.0.slow.lock().contains(cluster);
            if !waits || !timeout_at(deadline, member.synced()).await.unwrap_or(false) {
                self.0.slow.lock().insert(cluster.clone());
                return Answer::Unknown(format!("the nodes and pods of cluster {cluster} are not known yet"));
            }
        }
        self.0.slow.lock().remove(cluster);
        let started = Instant::now();
        let stopwatch = self.0.counted.as_ref().map(|counted| counted.stopwatch(ask.kind()));
        let observer: &dyn Observer = match &stopwatch {
            Some(stopwatch) => stopwatch,
            None => &(),
        };
        let assumed = &question.assumed;
        let result = match ask {
            Ask::Replicas { requirements } => member.replicas(requirements.as_ref(), assumed, observer),
            Ask::Sets { namespace, components } => member.component_sets(namespace, components, assumed, observer),
            Ask::Unschedulable { resource, threshold } => member.unschedulable(resource, *threshold, observer),
        };
        stopwatch.iter().for_each(Stopwatch::ended);
        if let Some(counted) = &self.0.counted {
            counted.request(ask.kind(), result.is_ok(), started.elapsed());
        }
        match result {
            Ok(number) => Answer::Known(number),
            Err(why) => Answer::Unknown(format!("cluster {cluster}: {why}")),
        }
    }

    /// The cluster is gone.
    pub fn forget(&self, cluster: &str) {
        self.0.slow.lock().remove(cluster);
        if let Some(far) = &self.0.far {
            far.forget(cluster);
        }
    }
}
