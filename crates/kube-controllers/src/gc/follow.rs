//! Keeps the graph up to date: by the server's own line of all changes where there is one.

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::Backoff;
use futures::StreamExt;
use transport::{Change, ChangeStream, Changes};

use super::Collector;
use super::graph::Graph;
use crate::context::Context;
use crate::running::Starting;

/// Events are many, short-lived, and own nothing.
const IGNORED: [&str; 2] = ["core/events", "events.k8s.io/events"];

const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);

pub(super) async fn run(context: Context, collector: Arc<Collector>, starting: Starting) {
    let stop = context.stop.clone();
    stop.run_until_cancelled(everything(&context, &collector, starting)).await;
}

async fn everything(context: &Context, collector: &Collector, starting: Starting) {
    let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE);
    let mut starting = Some(starting);
    loop {
        match context.client.watch_everything().await {
            Ok(Some(changes)) => {
                let mut following = collector.begin(changes);
                starting.take();
                while let Some(change) = following.next().await {
                    collector.take(&change);
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the garbage collector cannot follow the server"),
        }
        tokio::time::sleep(backoff.next(context.informers.world())).await;
    }
}

impl Collector {
    /// Replaces the graph by what there is now.
    fn begin(&self, changes: Changes) -> ChangeStream {
        let mut graph = Graph::default();
        for change in changes.initial.iter().filter(|change| !IGNORED.contains(&&*change.resource)) {
            if let Some(object) = &change.current {
                graph.put(&change.resource, object);
            }
        }
        let pending = graph.pending();
        *self.graph.lock() = graph;
        pending.into_iter().for_each(|uid| self.queue.add(uid));
        changes.following
    }

    fn take(&self, change: &Change) {
        if IGNORED.contains(&&*change.resource) {
            return;
        }
        let concerned = match (&change.current, &change.previous) {
            (Some(object), _) => self.graph.lock().put(&change.resource, object),
            (None, Some(object)) => self.graph.lock().remove(object),
            (None, None) => return,
        };
        concerned.into_iter().for_each(|uid| self.queue.add(uid));
    }
}
