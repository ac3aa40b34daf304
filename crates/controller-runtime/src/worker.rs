//! Runs a reconcile function over the keys of a queue, many at once, each key by one at a time.

use std::any::Any;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::ObjectKey;
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, PollSemaphore};

use crate::metrics::{Counted, Ending};
use crate::{Failures, Priority, WorkQueue};

/// When to reconcile again after a successful pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Done, until the key is added again.
    Done,
    /// Another pass after this time, failure or not.
    After(Duration),
}

/// The name of a controller, and how the log names its keys.
#[derive(Clone, Copy, Debug)]
pub struct Controller {
    pub name: &'static str,
    pub subject: Subject,
}

/// The log field that a controller's keys go into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Object,
    Cluster,
    Binding,
    /// The controller logs the failures of its passes itself.
    Own,
}

impl Controller {
    pub fn of_clusters(name: &'static str) -> Self {
        Self { name, subject: Subject::Cluster }
    }

    pub fn of_bindings(name: &'static str) -> Self {
        Self { name, subject: Subject::Binding }
    }
}

impl From<&'static str> for Controller {
    fn from(name: &'static str) -> Self {
        Self { name, subject: Subject::Object }
    }
}

/// A pass that has failed for this long is worth a line. Conflicts and caches that lag are over by then.
const PATIENCE: Duration = Duration::from_secs(1);

/// The inverse share of workers for keys of low priority: a backlog is processed beside current changes, which need not
/// wait for it, and lose little processor time to it.
const BACKLOG_SHARE: usize = 8;

/// Processes keys until `stop`, at most `workers` at once; then waits for the running passes. A failed or panicked pass
/// is retried with the queue's back-off. A key that keeps failing is logged once for each cause, and once when it
/// succeeds again.
pub async fn run_workers<K, F, Fut, E>(
    controller: impl Into<Controller>,
    queue: Arc<WorkQueue<K>>,
    workers: usize,
    stop: CancellationToken,
    reconcile: F,
) where
    K: Ord + Clone + Debug + Send + Sync + 'static,
    F: Fn(K) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Next, E>> + Send + 'static,
    E: Display + Send + 'static,
{
    let reconcile = move |key| -> BoxFuture<'static, Result<Next, String>> {
        Box::pin(reconcile(key).map_err(|error| error.to_string()))
    };
    process(controller.into(), queue, workers, stop, Arc::new(reconcile)).await;
}

/// A pass over a key. One type for all controllers: the loop around it is compiled once for each type of key.
type Reconcile<K> = dyn Fn(K) -> BoxFuture<'static, Result<Next, String>> + Send + Sync;

async fn process<K: Ord + Clone + Debug + Send + Sync + 'static>(
    controller: Controller,
    queue: Arc<WorkQueue<K>>,
    workers: usize,
    stop: CancellationToken,
    reconcile: Arc<Reconcile<K>>,
) {
    let name = controller.name;
    let failures = Arc::new(Failures::lasting(PATIENCE));
    let panics = Arc::new(Failures::lasting(Duration::ZERO));
    let slots = Arc::new(Semaphore::new(workers));
    let low = Arc::new(Semaphore::new((workers / BACKLOG_SHARE).max(1)));
    let turn = Arc::new(Semaphore::new(1));
    let counted = Counted::here(name, &queue, workers);
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { break };
        let Some(Some((key, low_slot))) = stop.run_until_cancelled(take(&queue, &low)).await else { break };
        let (queue, reconcile, counted) = (queue.clone(), reconcile.clone(), counted.clone());
        let journal = Journal { controller, failures: failures.clone(), panics: panics.clone() };
        let turn = low_slot.is_some().then(|| turn.clone());
        tokio::spawn(async move {
            let pass = pass(&journal, &queue, key, &*reconcile, counted.as_deref());
            match turn {
                Some(turn) => in_turn(turn, pass).await,
                None => pass.await,
            }
            drop((slot, low_slot));
        });
    }
    queue.close();
    // Every slot is free again once the last running pass has ended.
    let all = u32::try_from(workers).unwrap_or(u32::MAX);
    let _ = slots.acquire_many(all).await;
}

/// Runs a future that is not urgent: of all that share the `turn` one at a time is on a processor, or next to be. They
/// wait for servers side by side, but a pass that is urgent finds one of them before it, not all.
async fn in_turn<F: Future>(turn: Arc<Semaphore>, future: F) -> F::Output {
    let (mut turn, mut future) = (PollSemaphore::new(turn), std::pin::pin!(future));
    std::future::poll_fn(|context| {
        // Released at the end of each poll.
        let _permit = std::task::ready!(turn.poll_acquire(context));
        future.as_mut().poll(context)
    })
    .await
}

/// The next key; one of low priority only with a slot for such.
async fn take<K: Ord + Clone>(queue: &WorkQueue<K>, low: &Arc<Semaphore>) -> Option<(K, Option<OwnedSemaphorePermit>)> {
    let slot = match low.clone().try_acquire_owned() {
        Ok(slot) => slot,
        Err(_) => tokio::select! {
            biased;
            next = queue.next(false) => return next.map(|(key, _)| (key, None)),
            slot = low.clone().acquire_owned() => slot.ok()?,
        },
    };
    let (key, priority) = queue.next(true).await?;
    Some((key, (priority == Priority::Low).then_some(slot)))
}

/// The log lines of one controller's reconciliations.
struct Journal<K> {
    controller: Controller,
    failures: Arc<Failures<K>>,
    panics: Arc<Failures<K>>,
}

impl<K: Ord + Clone + Debug + 'static> Journal<K> {
    fn succeeded(&self, key: &K) {
        let panicked = self.panics.succeeded(key);
        if let Some(lasted) = self.failures.succeeded(key).max(panicked) {
            let [cluster, binding, object] = self.fields(key);
            let controller = self.controller.name;
            tracing::info!(controller, cluster, binding, object, duration = ?lasted, "Reconciled after failures");
        }
    }

    fn failed(&self, key: &K, err: &str) {
        let controller = self.controller.name;
        if self.controller.subject != Subject::Own && self.failures.failed(key, err) {
            let [cluster, binding, object] = self.fields(key);
            tracing::warn!(controller, cluster, binding, object, err, "Reconciling fails and is retried");
        } else {
            tracing::debug!(controller, object = reference(key), err, "Reconciling failed");
        }
    }

    fn panicked(&self, key: &K, err: &str) {
        let controller = self.controller.name;
        if self.panics.failed(key, err) {
            let [cluster, binding, object] = self.fields(key);
            tracing::error!(
                controller,
                cluster,
                binding,
                object,
                err,
                "Reconciling panicked and is retried; report this"
            );
        }
    }

    /// The key's text in the field of its subject.
    fn fields(&self, key: &K) -> [Option<String>; 3] {
        let text = Some(reference(key));
        match self.controller.subject {
            Subject::Cluster => [text, None, None],
            Subject::Binding => [None, text, None],
            Subject::Object | Subject::Own => [None, None, text],
        }
    }
}

/// `namespace/name` where the key is an object's.
fn reference<K: Debug + 'static>(key: &K) -> String {
    let any = key as &dyn Any;
    if let Some(key) = any.downcast_ref::<ObjectKey>() {
        return key.to_string();
    }
    let text = any.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| any.downcast_ref::<Box<str>>().map(|text| &**text));
    text.map_or_else(|| format!("{key:?}"), str::to_owned)
}

async fn pass<K: Ord + Clone + Debug + 'static>(
    journal: &Journal<K>,
    queue: &WorkQueue<K>,
    key: K,
    reconcile: &Reconcile<K>,
    counted: Option<&Counted>,
) {
    let started = tokio::time::Instant::now();
    if let Some(counted) = counted {
        counted.begin(queue.waited(&key));
    }
    let outcome = AssertUnwindSafe(async { reconcile(key.clone()).await }).catch_unwind().await;
    if let Some(counted) = counted {
        let ending = match &outcome {
            Ok(Ok(Next::Done)) => Ending::Success,
            Ok(Ok(Next::After(_))) => Ending::After,
            Ok(Err(_)) => Ending::Error,
            Err(_) => Ending::Panic,
        };
        counted.end(ending, started.elapsed());
    }
    match outcome {
        Ok(Ok(Next::Done)) => {
            journal.succeeded(&key);
            queue.forget(&key);
        }
        Ok(Ok(Next::After(delay))) => {
            journal.succeeded(&key);
            queue.forget(&key);
            queue.add_after(key.clone(), delay);
        }
        Ok(Err(error)) => {
            journal.failed(&key, &error);
            queue.add_rate_limited(key.clone());
        }
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            journal.panicked(&key, &text);
            queue.add_rate_limited(key.clone());
        }
    }
    queue.done(&key);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failing_and_a_panicking_pass_are_repeated() {
        let queue = Arc::new(WorkQueue::new());
        let stop = CancellationToken::new();
        let passes = Arc::new(AtomicU32::new(0));
        let registry = ::metrics::Registry::default();
        queue.add(7);
        let (counted, stopped) = (passes.clone(), stop.clone());
        let working = run_workers("test", queue.clone(), 2, stop, move |key: u32| {
            let pass = counted.fetch_add(1, Ordering::SeqCst);
            let stop = stopped.clone();
            async move {
                assert_eq!(key, 7);
                match pass {
                    0 => Err("refused"),
                    1 => panic!("a bug"),
                    2 => Ok(Next::After(Duration::from_secs(60))),
                    _ => {
                        stop.cancel();
                        Ok(Next::Done)
                    }
                }
            }
        });
        crate::metrics::observed(registry.clone(), working).await;
        for (result, count) in [("error", 2), ("requeue_after", 1), ("success", 1)] {
            let reconciles = registry.counters(&crate::metrics::RECONCILES);
            assert_eq!(reconciles.value(&["test", result]), count, "{result}");
        }
        assert_eq!(registry.counters(&crate::metrics::PANICS).value(&["test"]), 1);
        let text = registry.text();
        assert!(
            text.contains("workqueue_queue_duration_seconds_count{name=\"test\",controller=\"test\"} 4\n"),
            "{text}"
        );
        assert!(text.contains("workqueue_unfinished_work_seconds{name=\"test\",controller=\"test\"} 0\n"), "{text}");
        assert!(text.contains("workqueue_retries_total{name=\"test\",controller=\"test\"} 2\n"));
        assert_eq!(passes.load(Ordering::SeqCst), 4);
        assert_eq!(queue.metrics().in_flight, 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn low_priority_passes_run_one_at_a_time() {
        let (turn, running) = (Arc::new(Semaphore::new(1)), Arc::new(AtomicU32::new(0)));
        let passes = (0..8).map(|_| {
            let running = running.clone();
            let pass = async move {
                for _ in 0..50 {
                    assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "alone between two awaits");
                    std::thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            };
            tokio::spawn(in_turn(turn.clone(), pass))
        });
        for pass in futures::future::join_all(passes).await {
            pass.expect("no pass overlaps another");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn low_priority_passes_wait_concurrently() {
        let turn = Arc::new(Semaphore::new(1));
        let started = tokio::time::Instant::now();
        let sleeping = (0..8).map(|_| in_turn(turn.clone(), tokio::time::sleep(Duration::from_secs(1))));
        futures::future::join_all(sleeping).await;
        assert_eq!(started.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_backlog_leaves_workers_for_new_changes() {
        let (queue, stop) = (Arc::new(WorkQueue::new()), CancellationToken::new());
        (0..100).for_each(|key| queue.add_with(key, Priority::Low));
        let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (passes, seen, stopped) = (running.clone(), most.clone(), stop.clone());
        let keys = queue.clone();
        let working = run_workers("test", queue.clone(), 16, stop, move |key: u32| {
            let (running, most, stop, keys) = (passes.clone(), seen.clone(), stopped.clone(), keys.clone());
            async move {
                if key >= 100 {
                    stop.cancel();
                    return Ok::<_, String>(Next::Done);
                }
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                if key == 1 {
                    keys.add(100);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(Next::Done)
            }
        });
        let started = tokio::time::Instant::now();
        working.await;
        assert_eq!(most.load(Ordering::SeqCst), 2, "of 16 workers");
        assert!(started.elapsed() <= Duration::from_secs(1), "only the running passes were waited for");
    }
}
