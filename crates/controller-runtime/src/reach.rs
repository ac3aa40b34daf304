//! Reachability of one server, for the log: one line when the first of its callers gets no answer, one when all get
//! answers again. Twenty watches that break with a member are one event.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use client::Error;
use parking_lot::Mutex;

use crate::Failures;

/// A refusal heals with the next discovery when a kind was just defined or removed.
const PATIENCE: Duration = Duration::from_secs(2);

/// One server and its callers.
pub struct Reach {
    /// The member cluster; without one it is the API server of this process.
    cluster: Option<String>,
    callers: AtomicU64,
    /// Those that got no answer the last time.
    unanswered: Mutex<BTreeSet<u64>>,
    is_lost: AtomicBool,
    silence: Failures<()>,
    refusals: Failures<u64>,
}

impl Reach {
    /// The API server that a component works for.
    pub fn api_server() -> Arc<Self> {
        Self::of(None)
    }

    pub fn cluster(name: impl Into<String>) -> Arc<Self> {
        Self::of(Some(name.into()))
    }

    fn of(cluster: Option<String>) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            callers: AtomicU64::new(0),
            unanswered: Mutex::default(),
            is_lost: AtomicBool::new(false),
            silence: Failures::lasting(Duration::ZERO),
            refusals: Failures::lasting(PATIENCE),
        })
    }

    /// Registers a caller; `call` describes its request, as `watch deployments.apps`.
    pub fn caller(self: &Arc<Self>, call: impl Into<String>) -> Caller {
        let id = self.callers.fetch_add(1, Ordering::Relaxed);
        Caller { reach: Arc::clone(self), id, call: call.into() }
    }

    /// Whether at least one caller gets no response. This has been logged.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Takes a caller off the list of those without an answer. True when it was the last one on it.
    fn is_last(&self, id: u64) -> bool {
        if !self.is_lost() {
            return false;
        }
        let mut unanswered = self.unanswered.lock();
        let was_last = unanswered.remove(&id) && unanswered.is_empty();
        self.is_lost.store(!unanswered.is_empty(), Ordering::Relaxed);
        was_last
    }
}

/// A caller of a server. Its failures end with it.
pub struct Caller {
    reach: Arc<Reach>,
    id: u64,
    call: String,
}

impl Caller {
    /// The server answered as expected.
    pub fn succeeded(&self) {
        self.answered();
        if let Some(lasted) = self.reach.refusals.succeeded(&self.id) {
            let (cluster, call) = (self.reach.cluster.as_deref(), self.call.as_str());
            tracing::info!(cluster, call, duration = ?lasted, "Call is no longer refused");
        }
    }

    /// The server refused, or did not answer at all.
    pub fn failed(&self, error: &Error) {
        let (cluster, call) = (self.reach.cluster.as_deref(), self.call.as_str());
        // A proxy or a load balancer answers for a server behind it that does not.
        let is_gateway = error.status().is_some_and(|status| matches!(status.code, 502..=504));
        if error.is_unreachable() || is_gateway {
            return self.silent(&error.cause());
        }
        self.answered();
        let err = error.cause();
        if self.reach.refusals.failed(&self.id, &err) {
            tracing::warn!(cluster, call, err, "Call is refused and retried; its last known result is kept");
        }
    }

    /// No answer came; `err` is the reason.
    pub fn silent(&self, err: &str) {
        self.reach.refusals.forget(&self.id);
        self.reach.unanswered.lock().insert(self.id);
        self.reach.is_lost.store(true, Ordering::Relaxed);
        if !self.reach.silence.failed(&(), err) {
            return;
        }
        let call = self.call.as_str();
        match self.reach.cluster.as_deref() {
            Some(cluster) => {
                tracing::warn!(
                    cluster,
                    call,
                    err,
                    "Member cluster does not answer; calls are retried, and its last known state is kept"
                );
            }
            None => tracing::warn!(call, err, "API server does not answer; calls are retried"),
        }
    }

    fn answered(&self) {
        if !self.reach.is_last(self.id) {
            return;
        }
        let Some(lasted) = self.reach.silence.succeeded(&()) else { return };
        match self.reach.cluster.as_deref() {
            Some(cluster) => tracing::info!(cluster, duration = ?lasted, "Member cluster answers again"),
            None => tracing::info!(duration = ?lasted, "API server answers again"),
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.reach.refusals.forget(&self.id);
        if self.reach.is_last(self.id) {
            self.reach.silence.forget(&());
        }
    }
}
