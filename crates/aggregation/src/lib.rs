//! Aggregated API servers: an APIService with `spec.service` makes another server serve a group version. Requests for
//! it are authorized here and forwarded with the front proxy's certificate and headers that name the user.
//!
//! One route forwards requests, one task per APIService checks the other server and reads its discovery and OpenAPI,
//! and one task reconciles the local APIServices. Without an APIService that names a service, a request costs the load
//! of one atomic. Requests for built-in group versions of this server are never forwarded.

mod automanaged;
mod availability;
mod check;
pub mod counted;
mod documents;
mod listed;
mod manage;
mod outgoing;
mod proxy;
mod registered;
mod resolve;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, Weak};

use apimachinery::Status;
use apimachinery::resource::Resource;
use apiserver::Shared;
use apiserver::cache::Event;
use apiserver::documents::discovery::{ExternalVersion, Priority};
use apiserver::forwarding::Joins;
use apiserver::{Admission, RequestInfo, Route};
use arc_swap::ArcSwap;
use client::ClientIdentity;
use client::webhooks::Webhooks;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use transport::{Identity, Request, Response};
use world::Level;

use counted::Counted;
use documents::Documents;
pub use documents::openapi_url;
pub use listed::resources as listed_resources;
use registered::{ApiService, Table, group_version};
pub use resolve::Routing;

const PLACE: &str = "apiregistration.k8s.io/apiservices";

/// The current client certificate of the front proxy.
pub type Certificate = Box<dyn Fn() -> Option<Arc<ClientIdentity>> + Send + Sync>;

/// The aggregator: a route, a plugin that follows objects, and tasks.
pub struct Aggregation {
    routing: Routing,
    certificate: Certificate,
    /// Connections to other servers, which requests share.
    connections: Webhooks,
    joins: Joins,
    /// Group versions that are built into this server.
    own: BTreeSet<(String, String)>,
    /// Group versions that a route of this server serves, unless an APIService names a service for them.
    routed: ArcSwap<Vec<Routed>>,
    stored: Mutex<Stored>,
    table: ArcSwap<Table>,
    /// Counts changes of APIServices, and of the services that they name.
    changes: Level<u64>,
    server: OnceLock<Weak<Shared>>,
    /// The APIServices that existed when the server started, until those of built-in groups are as they should be.
    at_start: Mutex<Option<BTreeSet<String>>>,
    counted: Counted,
}

/// A group version that a route of this server serves, without resources in the store.
pub struct Routed {
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The priority of its local APIService.
    pub priority: Priority,
    /// Whether it is listed.
    pub listing: Listing,
}

/// Whether a routed group version is listed.
#[derive(Clone)]
pub enum Listing {
    /// As long as the server runs, with this discovery and OpenAPI.
    Always(ExternalVersion),
    /// At present, with this discovery and OpenAPI.
    Now(ExternalVersion),
    /// It is not known whether there is anything to list: an APIService of an earlier time stays.
    Unknown,
}

impl Listing {
    fn documents(&self) -> Option<&ExternalVersion> {
        match self {
            Self::Always(documents) | Self::Now(documents) => Some(documents),
            Self::Unknown => None,
        }
    }
}

#[derive(Default)]
struct Stored {
    services: BTreeMap<String, ApiService>,
    /// The lists of other servers, by the UID of the APIService.
    documents: HashMap<String, Documents>,
}

impl Aggregation {
    /// `resources` are those of the server. `certificate` is presented to other servers. `connections` opens the
    /// connections.
    pub fn new(resources: &[Resource], routing: Routing, certificate: Certificate, connections: Webhooks) -> Arc<Self> {
        let built_in = resources.iter().filter(|resource| !resource.info.custom).map(|resource| {
            let named = &resource.info.resource;
            (named.group.clone(), named.version.clone())
        });
        // Definitions are served by the server itself.
        let definitions = ("apiextensions.k8s.io".to_owned(), "v1".to_owned());
        Arc::new(Self {
            routing,
            certificate,
            connections,
            joins: Joins::default(),
            own: built_in.chain([definitions]).collect(),
            routed: ArcSwap::default(),
            stored: Mutex::default(),
            table: ArcSwap::default(),
            changes: Level::new(0),
            server: OnceLock::new(),
            at_start: Mutex::default(),
            counted: Counted::default(),
        })
    }

    /// Sets the group versions of routes behind this one, replacing those of the last call. They have local
    /// APIServices, and another server can serve them instead.
    pub fn serve_routed(&self, versions: Vec<Routed>) {
        let mut stored = self.stored.lock();
        self.routed.store(Arc::new(versions));
        self.publish(&mut stored);
        drop(stored);
        self.changed();
    }

    fn is_own(&self, group: &str, version: &str) -> bool {
        self.own.contains(&(group.to_owned(), version.to_owned()))
    }

    fn changed(&self) {
        self.changes.change(|count| {
            *count += 1;
            true
        });
    }

    /// Takes in a change of an APIService.
    fn absorb(&self, event: &Event) {
        let Some(object) = event.current.as_ref().or(event.previous.as_ref()) else { return };
        let found = event.current.as_ref().and_then(|object| ApiService::of(object));
        let mut stored = self.stored.lock();
        let before = match &found {
            Some(found) => stored.services.insert(object.name().to_owned(), found.clone()),
            None => stored.services.remove(object.name()),
        };
        let table = Table::of(&stored.services, |group, version| self.is_own(group, version));
        self.table.store(Arc::new(table));
        self.publish(&mut stored);
        // Conditions are written by checks, which need not run again for them.
        let same = |one: &ApiService, other: &ApiService| {
            (&one.uid, &one.spec, one.managed) == (&other.uid, &other.spec, other.managed)
        };
        let is_same = before.as_ref().zip(found.as_ref()).is_some_and(|(before, found)| same(before, found));
        drop(stored);
        if !is_same {
            self.changed();
        }
    }

    /// Whether an APIService names the service that an object is, or belongs to.
    fn uses(&self, place: &str, event: &Event) -> bool {
        let table = self.table.load();
        if table.is_empty() {
            return false;
        }
        let Some(object) = event.current.as_ref().or(event.previous.as_ref()) else { return false };
        let slice = || object.labels().get("kubernetes.io/service-name").unwrap_or_default();
        let name = if place.ends_with("endpointslices") { slice() } else { object.name() };
        let mut services = table.iter().map(|target| &target.remote.service);
        services.any(|service| service.name == name && object.namespace() == Some(&*service.namespace))
    }
}

impl Admission for Aggregation {
    fn concerns(&self, _group: &str, _plural: &str) -> bool {
        false
    }

    fn observe(&self, place: &str, event: &Event) {
        match place {
            PLACE => self.absorb(event),
            "core/services" | "core/endpoints" | "discovery.k8s.io/endpointslices" if self.uses(place, event) => {
                self.changed();
            }
            _ => {}
        }
    }
}

impl Route for Aggregation {
    fn takes(&self, info: &RequestInfo) -> bool {
        let table = self.table.load();
        !table.is_empty()
            && group_version(&info.path).is_some_and(|(group, version)| table.find(group, version).is_some())
    }

    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        user: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        Box::pin(self.forward(server, info, user, request))
    }
}
