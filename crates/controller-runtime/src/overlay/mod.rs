//! An assume cache: the acknowledged writes of one writer over the cache of an informer.
//!
//! A writer that decides from its cache alone compares with states from before its own last write. An [`Overlay`]
//! returns that write until the cache has caught up with its revision, and distinguishes the writer's own changes from
//! those of other writers. It is not a separate cache: an entry ends with the informer's progress, with the deletion of
//! its object, and with the history of a server that was restored from a backup.

mod assumed;
#[cfg(test)]
mod model;

use std::future::Future;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use parking_lot::Mutex;

use self::assumed::{Assumed, Outcome};
use crate::informer::{Event, Informer};

/// The writer of the state that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The last acknowledged write of this writer.
    Own,
    /// A writer before the last acknowledged write of this writer.
    Older,
    /// Unknown until the write in flight ends: see [`Acknowledged::overwritten`]. A failed write may be the origin,
    /// too.
    Pending,
    Other,
}

/// A write that the server has executed.
#[derive(Clone, Debug)]
pub struct Acknowledged {
    pub object: Arc<Object>,
    /// The cache reported a later change while the write was in flight.
    pub overwritten: bool,
}

/// Cheap to clone; one for each writer of a resource.
#[derive(Clone)]
pub struct Overlay(Arc<Shared>);

struct Shared {
    informer: Informer,
    assumed: Mutex<Assumed>,
}

impl Overlay {
    /// The writer passes every event of `informer` to [`Overlay::observe`].
    pub fn new(informer: &Informer) -> Self {
        Self(Arc::new(Shared { informer: informer.clone(), assumed: Mutex::default() }))
    }

    /// For a writer that does not distinguish origins: observes the events itself.
    pub fn following(informer: &Informer) -> Self {
        let overlay = Self::new(informer);
        let observing = overlay.clone();
        informer.subscribe(move |event| {
            observing.observe(event, false);
        });
        overlay
    }

    /// The newest state that is known.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        // In this order: an entry that ends in between is in the cache.
        let written = self.current().written(key).cloned();
        let cached = self.0.informer.cache().get(key);
        cached.into_iter().chain(written).max_by_key(|object| object.revision())
    }

    /// The objects found in the cache, in their newest states, and those that only this writer knows. `selects` is the
    /// condition by which they were found.
    pub fn over(&self, mut found: Vec<Arc<Object>>, selects: impl Fn(&Object) -> bool) -> Vec<Arc<Object>> {
        let assumed = self.current();
        found.retain(|cached| {
            assumed.written(&cached.key()).is_none_or(|written| written.revision() <= cached.revision())
        });
        let is_newer = |written: &&Arc<Object>| found.iter().all(|cached| cached.key() != written.key());
        let newer: Vec<_> = assumed.all_written().filter(is_newer).filter(|it| selects(it)).cloned().collect();
        found.extend(newer);
        found
    }

    /// Whether the last write failed, so that neither the cache nor this overlay is known to be the newest state.
    pub fn is_unsure(&self, key: &ObjectKey) -> bool {
        self.0.assumed.lock().is_unsure(key)
    }

    /// The object is known again: the server was read since the last write failed.
    pub fn confirm(&self, key: &ObjectKey) {
        self.0.assumed.lock().confirm(key);
    }

    /// Sends a write of the object `key`, whose answer is the object.
    ///
    /// # Errors
    /// Those of `request`.
    pub async fn write<F>(&self, key: &ObjectKey, request: F) -> client::Result<Acknowledged>
    where
        F: Future<Output = client::Result<Arc<Object>>>,
    {
        self.0.assumed.lock().begin(key);
        let mut flight = Flight { overlay: self, key, ended: false };
        let answer = request.await;
        let outcome = match &answer {
            Ok(object) => Outcome::Acknowledged(object.clone()),
            Err(error) if error.is_not_found() || error.is_already_exists() => Outcome::Void,
            Err(_) => Outcome::Refused,
        };
        let overwritten = flight.end(outcome);
        answer.map(|object| Acknowledged { object, overwritten })
    }

    /// Sends writes of objects that are stored together, each recorded in its overlay if it has one. The request
    /// returns the objects in the order of `writes`; `None` if nothing was stored.
    ///
    /// # Errors
    /// Those of `request`; it is then unknown whether the writes were stored.
    pub async fn write_together<F>(
        writes: &[(Option<&Self>, &ObjectKey)],
        request: F,
    ) -> client::Result<Option<Vec<Acknowledged>>>
    where
        F: Future<Output = client::Result<Option<Vec<Arc<Object>>>>>,
    {
        let begin = |(overlay, key): &(Option<&'_ Self>, &'_ ObjectKey)| {
            overlay.map(|overlay| overlay.0.assumed.lock().begin(key));
        };
        writes.iter().for_each(begin);
        let flights = writes.iter().map(|(overlay, key)| overlay.map(|overlay| Flight { overlay, key, ended: false }));
        let flights: Vec<_> = flights.collect();
        match request.await? {
            None => {
                for mut flight in flights.into_iter().flatten() {
                    flight.end(Outcome::Withdrawn);
                }
                Ok(None)
            }
            Some(objects) => {
                let end = |(flight, object): (Option<Flight<'_>>, Arc<Object>)| {
                    let end = |mut flight: Flight<'_>| flight.end(Outcome::Acknowledged(object.clone()));
                    let overwritten = flight.is_some_and(end);
                    Acknowledged { object, overwritten }
                };
                Ok(Some(flights.into_iter().zip(objects).map(end).collect()))
            }
        }
    }

    /// Records an event of the informer. `counts`: whether the change is relevant to this writer if another one made
    /// it.
    pub fn observe(&self, event: &Event, counts: bool) -> Origin {
        self.current().observe(event, counts)
    }

    fn current(&self) -> parking_lot::MutexGuard<'_, Assumed> {
        let mut assumed = self.0.assumed.lock();
        assumed.advance(self.0.informer.progress());
        assumed
    }
}

/// A write that the server has not answered. One whose future is dropped has failed.
struct Flight<'a> {
    overlay: &'a Overlay,
    key: &'a ObjectKey,
    ended: bool,
}

impl Flight<'_> {
    fn end(&mut self, outcome: Outcome) -> bool {
        self.ended = true;
        let cached = self.overlay.0.informer.cache().get(self.key).map_or(0, |cached| cached.revision());
        self.overlay.current().end(self.key, outcome, cached)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Outcome::Refused);
        }
    }
}
