//! Allocates addresses and node ports of services before they are stored.

use apimachinery::{Object, ObjectKey, Status};
use futures::future::BoxFuture;
use kubernetes_api::services::{Book, Ranges, new_allocations};
use parking_lot::Mutex;
use serde_json::Value;

use crate::admit::claims::{self, Claimed};
use crate::admit::{Admission, AdmissionRequest, Operation};
use crate::cache::Event;
use crate::cache::keys;

/// Allocations that other servers are quicker to claim, of one request.
const TRIES: usize = 64;

/// The plugin that holds the book of addresses. It belongs to one server; with other servers on the same store it agrees by
/// claims in the store ([`claims`]).
#[derive(Debug)]
pub struct ServiceAddresses {
    place: String,
    book: Mutex<Book>,
}

impl ServiceAddresses {
    /// A plugin that allocates from these ranges. The first address belongs to the server's own service, which clients
    /// have in their variables, also when a user deletes it.
    pub fn new(ranges: Ranges) -> Self {
        let own = ObjectKey::namespaced("default", "kubernetes");
        let book = Book::new(ranges).with_first_reserved_for(own);
        Self { place: keys::group_resource("", "services"), book: Mutex::new(book) }
    }
}

impl Default for ServiceAddresses {
    fn default() -> Self {
        Self::new(Ranges::default())
    }
}

/// Any address or port may belong to a service that cannot be read.
fn refusal(unknown: &Status) -> Status {
    let why = unknown.message.trim_start_matches("Internal error occurred: ");
    Status::internal(format!("failed to allocate addresses or node ports, because which are free is unknown: {why}"))
}

impl ServiceAddresses {
    /// Allocates the addresses and ports of the service, by the state of this server.
    fn assign(&self, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let unknown = request.all_known(&self.place, None).err();
        let Some(object) = &mut request.object else { return Ok(()) };
        let now = request.now.timestamp().as_second();
        let dry_run = request.dry_run || unknown.is_some();
        let assigned = self.book.lock().assign(request.key, request.old, object, now, dry_run);
        match unknown {
            Some(unknown) if !new_allocations(request.old, object).is_empty() => assigned.and(Err(refusal(&unknown))),
            _ => assigned,
        }
    }

    /// Allocates addresses and ports that no other server has allocated.
    async fn assign_and_claim(&self, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let (requested, cache) = (request.object.as_deref().cloned(), request.known.cache);
        let (store, mut lease) = (&**cache.store(), None);
        // What another process has released is free.
        cache.catch_up().await?;
        for _ in 0..TRIES {
            self.assign(request)?;
            let allocations = request.object.as_deref().map(|object| new_allocations(request.old, object));
            let allocations = allocations.unwrap_or_default();
            if allocations.is_empty() {
                request.notes.set_claims(Vec::new());
                return Ok(());
            }
            let values: Vec<String> = allocations.iter().map(ToString::to_string).collect();
            let lease = match lease {
                Some(lease) => lease,
                None => *lease.insert(claims::lease(store).await?),
            };
            match claims::take(store, lease, "services", request.key, &values).await? {
                Claimed::All(guards) => {
                    // Services that were stored before are known now; later ones need a claim.
                    cache.catch_up().await?;
                    if self.book.lock().holds(request.key, &allocations) {
                        request.notes.set_claims(guards);
                        return Ok(());
                    }
                    claims::release(store, guards).await?;
                }
                Claimed::Others(others) => {
                    let (mut book, now) = (self.book.lock(), request.now.timestamp().as_second());
                    for (place, by) in others {
                        if let Some(allocation) = allocations.get(place) {
                            book.reserve_for_peer(allocation, by, now);
                        }
                    }
                }
            }
            if let (Some(object), Some(requested)) = (&mut request.object, &requested) {
                (**object).clone_from(requested);
            }
        }
        Err(Status::internal(
            "failed to allocate addresses or node ports: other servers allocate at the same time; try again",
        ))
    }
}

impl Admission for ServiceAddresses {
    fn concerns(&self, group: &str, plural: &str) -> bool {
        group.is_empty() && plural == "services"
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        if !request.is_for("", "services") || request.operation == Operation::Delete {
            return Box::pin(std::future::ready(Ok(())));
        }
        if request.known.cache.store().is_shared() && !request.dry_run {
            return Box::pin(self.assign_and_claim(request));
        }
        Box::pin(std::future::ready(self.assign(request)))
    }

    /// The addresses are assigned already.
    fn runs_again(&self) -> bool {
        false
    }

    fn observe(&self, place: &str, event: &Event) {
        if place != self.place {
            return;
        }
        let tree = |object: &Option<std::sync::Arc<Object>>| -> Option<Value> { object.as_ref()?.to_value().ok() };
        let Some(key) = event.current.as_ref().or(event.previous.as_ref()).map(|object| object.key()) else { return };
        self.book.lock().absorb(&key, tree(&event.previous).as_ref(), tree(&event.current).as_ref());
    }
}
