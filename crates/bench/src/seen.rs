//! The times at which objects were first observed in a state.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use apimachinery::{ApiResource, Object};
use client::Client;
use controller_runtime::{Event, Informer, InformerSet};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use world::World;

/// Longest wait for one phase. Upstream needs 450 s for the bulk load of `propagation` on two cores.
const PATIENCE: Duration = Duration::from_secs(1200);

/// An informer with a separate connection.
pub fn informer(client: &Client, resource: &ApiResource) -> Informer {
    InformerSet::new(client.clone(), World::system()).informer(resource)
}

/// The first time of each name.
#[derive(Default)]
pub struct Seen {
    at: Mutex<HashMap<String, Instant>>,
    changed: Notify,
}

impl Seen {
    /// `counts` returns the name under which an object counts, once it is in the state.
    pub fn follow(
        informer: &Informer,
        counts: impl Fn(&Object) -> Option<String> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let seen = Arc::new(Self::default());
        let noted = seen.clone();
        informer.subscribe(move |event| noted.note(event, &counts));
        seen
    }

    /// As [`Seen::follow`] with objects of any of these.
    pub fn of_any(informers: &[Informer], counts: fn(&Object) -> Option<String>) -> Arc<Self> {
        let seen = Arc::new(Self::default());
        for informer in informers {
            let noted = seen.clone();
            informer.subscribe(move |event| noted.note(event, counts));
        }
        seen
    }

    fn note(&self, event: &Event, counts: impl Fn(&Object) -> Option<String>) {
        if !matches!(event, Event::Deleted(_))
            && let Some(name) = counts(event.object())
        {
            self.at.lock().entry(name).or_insert_with(Instant::now);
        }
        self.changed.notify_one();
    }

    /// The times of these names, once there is one of each.
    ///
    /// # Errors
    /// Some are missing after 20 minutes.
    pub async fn all(&self, names: &[String]) -> anyhow::Result<HashMap<String, Instant>> {
        self.until(|| {
            let at = self.at.lock();
            at.len() >= names.len() && names.iter().all(|name| at.contains_key(name))
        })
        .await?;
        let at = self.at.lock();
        Ok(names.iter().filter_map(|name| Some((name.clone(), *at.get(name)?))).collect())
    }

    /// Returns when `done` is true after an event.
    ///
    /// # Errors
    /// It is false after 20 minutes.
    pub async fn until(&self, done: impl Fn() -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !done() {
            if tokio::time::timeout_at(deadline, self.changed.notified()).await.is_err() {
                bail!("not all after {} s; {} were seen", PATIENCE.as_secs(), self.at.lock().len());
            }
        }
        Ok(())
    }
}
