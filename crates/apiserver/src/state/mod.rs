//! The state of a server, and the routes that are served from it.

pub(crate) mod ending;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};

use apimachinery::{ObjectKey, Status};
use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use transport::{Identity, Request, Response};
use world::World;

use crate::admit::{Chain, Known};
use crate::audit::Auditor;
use crate::auth::authn::{Authentication, Lookup};
use crate::auth::authz::{Attributes, Authorizer};
use crate::cache::{Cache, keys};
use crate::conversion::Conversions;
use crate::documents::discovery::Apis;
use crate::flow::FlowControl;
use crate::health::Health;
use crate::limits::budget::Budgets;
use crate::limits::fairness::writers::Writers;
use crate::metrics::Counted;
use crate::registry::Registry;
use crate::request::RequestInfo;
use crate::request::log::RequestLog;
use ending::Ending;

/// Answers requests without a generic handler: documents such as `/version`, and special subresources.
pub trait Route: Send + Sync + 'static {
    /// Whether this route serves the request; called in the order of registration, after authorization.
    fn takes(&self, info: &RequestInfo) -> bool;

    /// The attributes to authorize instead of those of the path: for routes whose paths do not consist of resources
    /// after a name.
    fn instead(&self, _info: &RequestInfo) -> Option<Attributes> {
        None
    }

    /// Serves the request.
    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        user: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>>;
}

/// The state of a server, shared by its requests.
pub struct Shared {
    /// The watch cache.
    pub cache: Arc<Cache>,
    /// The served resources.
    pub registry: Arc<Registry>,
    /// The group versions of other servers, and the priorities of APIServices.
    pub apis: ArcSwap<Apis>,
    /// The conversion webhooks of custom resources.
    pub conversions: Arc<Conversions>,
    /// The clock and randomness.
    pub world: World,
    /// The accepted authentication methods.
    pub authentication: Authentication,
    /// The authorizer.
    pub authorizer: Arc<dyn Authorizer>,
    /// The health checks.
    pub health: Health,
    /// Served at `/metrics`; components of the same process count here too.
    pub metrics: metrics::Registry,
    pub(crate) counted: Counted,
    pub(crate) budgets: Arc<Budgets>,
    pub(crate) requests: RequestLog,
    pub(crate) auditor: OnceLock<Arc<Auditor>>,
    /// Set where spans of requests are recorded.
    pub(crate) tracer: OnceLock<Arc<trace::Tracer>>,
    /// The admission plugins.
    pub(crate) admission: Chain,
    pub(crate) routes: Vec<Arc<dyn Route>>,
    /// Ends the tasks of the server.
    pub(crate) stop: CancellationToken,
    /// Ends the watches of the server's clients.
    pub(crate) ending: Ending,
    /// Requests over sockets are refused, because the server shuts down.
    pub(crate) refuses: AtomicBool,
    /// The objects that are being written.
    pub(crate) writers: Writers,
    /// Priority levels, and the times of requests.
    pub(crate) flow: Arc<FlowControl>,
}

impl Shared {
    /// Cancelled when the watches of clients have to end.
    pub fn ending(&self) -> CancellationToken {
        self.ending.token()
    }

    /// The longest time of a request that is not long-running.
    pub fn request_timeout(&self) -> std::time::Duration {
        self.flow.request_timeout()
    }

    /// The state that admission reads.
    pub(crate) fn known(&self) -> Known<'_> {
        let (cache, registry, authorizer) = (&self.cache, &self.registry, &self.authorizer);
        Known { cache, registry, authorizer, conversions: &self.conversions }
    }
}

/// Counts the objects of a cache at each scrape, as long as the cache exists.
pub(crate) fn count_objects(registry: &metrics::Registry, cache: Weak<Cache>) {
    registry.collect(move |samples| {
        let Some(cache) = cache.upgrade() else { return false };
        for (place, objects) in cache.sizes() {
            crate::metrics::stored::count(samples, &place, objects);
        }
        true
    });
}

/// Current reads for credentials.
pub(crate) struct CacheLookup(pub(crate) Arc<Cache>);

impl Lookup for CacheLookup {
    fn get(
        &self,
        resource: &'static str,
        key: ObjectKey,
    ) -> BoxFuture<'_, Result<Option<Arc<apimachinery::Object>>, Status>> {
        Box::pin(async move {
            self.0.catch_up().await?;
            self.0.resource(&keys::group_resource("", resource)).get(&key)
        })
    }
}
