//! Allocates addresses and node ports of services before they are stored.

use apimachinery::{Object, Status};
use futures::future::BoxFuture;
use kubernetes_api::services::{Book, Ranges, takes_more};
use parking_lot::Mutex;
use serde_json::Value;

use crate::admission::{Admission, AdmissionRequest, Operation};
use crate::cache::Event;
use crate::keys;

/// The plugin that holds the book of addresses. It belongs to one server.
#[derive(Debug)]
pub struct ServiceAddresses {
    place: String,
    book: Mutex<Book>,
}

impl ServiceAddresses {
    /// A plugin that allocates from these ranges.
    pub fn new(ranges: Ranges) -> Self {
        Self { place: keys::group_resource("", "services"), book: Mutex::new(Book::new(ranges)) }
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

impl Admission for ServiceAddresses {
    fn concerns(&self, group: &str, plural: &str) -> bool {
        group.is_empty() && plural == "services"
    }

    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let named = &request.info.resource;
        let service = named.group.is_empty() && named.plural == "services" && request.subresource.is_empty();
        let unknown = request.all_known(&self.place, None).err();
        let outcome = match &mut request.object {
            Some(object) if service && request.operation != Operation::Delete => {
                let now = request.now.timestamp().as_second();
                let dry_run = request.dry_run || unknown.is_some();
                let assigned = self.book.lock().assign(request.key, object, now, dry_run);
                match unknown {
                    Some(unknown) if takes_more(request.old, object) => assigned.and(Err(refusal(&unknown))),
                    _ => assigned,
                }
            }
            _ => Ok(()),
        };
        Box::pin(std::future::ready(outcome))
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
