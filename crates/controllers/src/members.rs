//! Connections to member clusters: one client each, with its own caches and rate limit, so that one member's trouble is
//! its own.

mod error;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use apimachinery::{ApiResource, Object, ObjectKey};
use base64::Engine as _;
use client::{Client, Dial, Endpoint, Fence, TokenBucket};
use controller_runtime::{Caller, Event, Informer, InformerSet, Reach};
use futures::future::BoxFuture;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::{Cluster, ClusterSpec, SyncMode};
use karmada_api::cluster::{in_reach, proxy_path};
use karmada_api::identity::ClusterName;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use world::World;

pub use error::MemberError;

use crate::Settings;
use crate::error::decode;
use crate::identity::Identity;
use crate::member_tokens::{check_destination, secrets};
use crate::resume::Ledger;
use crate::stores::Store;

/// Connects to endpoints that are not reached over a socket (members simulated in this process); `None` for all others.
pub type Connector = Arc<dyn Fn(&Endpoint) -> Option<Client> + Send + Sync>;

/// The connections to the member of a cluster in Pull mode; `None` without a tunnel to it.
pub type Ways = Arc<dyn Fn(&str) -> Option<Arc<dyn Dial>> + Send + Sync>;

/// One member, connected.
pub struct Member {
    pub name: ClusterName,
    pub client: Client,
    /// Caches of the member's objects.
    pub informers: InformerSet,
    /// Caches of those of its objects that are ours, without their field owners.
    pub(crate) managed: InformerSet,
    pub(crate) identity: Identity,
    pub(crate) ledger: Ledger,
    endpoint: Endpoint,
    watched: Mutex<BTreeSet<ApiResource>>,
    reach: Arc<Reach>,
    /// The caller that probes its health.
    pub(crate) probe: Caller,
}

impl Member {
    /// True on the first call for a resource: the caller then subscribes.
    pub(crate) fn start_watching(&self, resource: &ApiResource) -> bool {
        self.watched.lock().insert(resource.clone())
    }

    /// Whether calls to it get no answer.
    pub(crate) fn is_lost(&self) -> bool {
        self.reach.is_lost()
    }

    /// Triggers a retry of the caches that wait for the member.
    pub(crate) fn try_again(&self) {
        self.informers.try_again();
        self.managed.try_again();
    }

    fn stop(&self) {
        self.informers.stop_all();
        self.managed.stop_all();
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Members(Arc<Inner>);

struct Inner {
    control: InformerSet,
    clusters: Store<Cluster, ClusterName>,
    connector: Connector,
    world: World,
    qps: f64,
    burst: u32,
    allow_http: bool,
    stop: CancellationToken,
    metrics: metrics::Registry,
    fence: Option<Fence>,
    connected: Mutex<HashMap<ClusterName, Connected>>,
    /// Members in Pull mode, used only by [`Members::reading`]: their agents write to them.
    read: Mutex<HashMap<ClusterName, Connected>>,
    /// The same, reached through `clusters/NAME/proxy` of the control plane.
    proxied: Mutex<HashMap<ClusterName, Arc<Member>>>,
    ways: OnceLock<Ways>,
    /// The only one there is, in its agent.
    own: Option<Arc<Member>>,
    /// Called when a connection replaces another.
    reconnected: Mutex<Vec<Reconnected>>,
}

/// Receives the new connection, and the cached resources of the old one.
type Reconnected = Arc<dyn Fn(&Arc<Member>, Vec<ApiResource>) + Send + Sync>;

/// A connection, and its inputs: while these are unchanged, nothing is decoded.
struct Connected {
    member: Arc<Member>,
    cluster: Arc<Cluster>,
    secret: Arc<Object>,
}

impl Inner {
    fn new(
        control: InformerSet,
        clusters: Store<Cluster, ClusterName>,
        connector: Connector,
        world: World,
        settings: &Settings,
        stop: CancellationToken,
    ) -> Self {
        Self {
            control,
            clusters,
            connector,
            world,
            qps: settings.member_qps,
            burst: settings.member_burst,
            allow_http: settings.allow_http_endpoints,
            stop,
            metrics: settings.metrics.clone(),
            fence: settings.fence.clone(),
            connected: Mutex::default(),
            read: Mutex::default(),
            proxied: Mutex::default(),
            ways: OnceLock::new(),
            own: None,
            reconnected: Mutex::default(),
        }
    }

    fn member(&self, name: &str, client: Client, endpoint: Endpoint) -> Member {
        let client = client.counted_in(&self.metrics).fenced(self.fence.clone());
        let client = client.with_limit(TokenBucket::new(self.qps, self.burst).map(Arc::new));
        let reach = Reach::cluster(name);
        let (world, stop) = (&self.world, &self.stop);
        let caches =
            |client: Client| InformerSet::reaching(Arc::clone(&reach), client, world.clone(), stop.child_token());
        let (informers, managed) = (caches(client.clone()), caches(client.without_field_owners()));
        let (name, watched, identity) = (ClusterName::from(name), Mutex::default(), Identity::default());
        let probe = reach.caller("GET /readyz");
        let ledger = Ledger::default();
        Member { name, client, informers, managed, identity, ledger, endpoint, watched, reach, probe }
    }
}

impl Members {
    pub(crate) fn new(
        control: InformerSet,
        clusters: Store<Cluster, ClusterName>,
        connector: Connector,
        world: World,
        settings: &Settings,
        stop: CancellationToken,
    ) -> Self {
        let cluster_informer = control.informer(&Cluster::api_resource());
        let inner = Inner::new(control, clusters, connector, world, settings, stop);
        let members = Self(Arc::new(inner));
        let weak = Arc::downgrade(&members.0);
        cluster_informer.subscribe(move |event| {
            if let (Event::Deleted(cluster), Some(inner)) = (event, weak.upgrade()) {
                Self(inner).forget(cluster.name());
            }
        });
        members
    }

    /// The members of another process's control plane, which `client` connects to, for readers without controllers.
    /// Must be called inside a tokio runtime.
    pub fn follow(client: Client, world: World, settings: &Settings, stop: CancellationToken) -> Self {
        let control = InformerSet::until(client, world.clone(), stop.clone());
        let clusters = Store::of_clusters(&control.informer(&Cluster::api_resource()), decode);
        Self::new(control, clusters, Arc::new(|_| None), world, settings, stop)
    }

    /// The member alone whose agent this process is.
    pub(crate) fn single(
        control: InformerSet,
        (name, client): (ClusterName, Client),
        world: World,
        settings: &Settings,
        stop: CancellationToken,
    ) -> Self {
        let mut inner = Inner::new(control, Store::empty(), Arc::new(|_| None), world, settings, stop);
        inner.own = Some(Arc::new(inner.member(name.as_str(), client, Endpoint::default())));
        Self(Arc::new(inner))
    }

    /// The Clusters as the control plane has them.
    pub fn clusters(&self) -> Informer {
        self.0.control.informer(&Cluster::api_resource())
    }

    /// All Clusters, decoded; not sorted.
    pub fn all_clusters(&self) -> Vec<Arc<Cluster>> {
        self.0.clusters.all()
    }

    /// A Cluster, decoded.
    pub fn known(&self, name: &str) -> Option<Arc<Cluster>> {
        self.0.clusters.get(name)
    }

    /// The connection to a member that is read, if there is one already.
    pub fn read_connection(&self, name: &str) -> Option<Arc<Member>> {
        let read = || self.0.read.lock().get(name).map(|known| Arc::clone(&known.member));
        self.connected(name).or_else(read).or_else(|| self.0.proxied.lock().get(name).cloned())
    }

    /// The connection to a member; recreated when its Cluster or its secret changed.
    ///
    /// # Errors
    /// The missing input. A member that does not respond is not an error here.
    pub fn get<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<Member>, MemberError>> {
        Box::pin(async move {
            if let Some(own) = &self.0.own {
                let is_own = own.name == *name;
                return is_own.then(|| own.clone()).ok_or_else(|| MemberError::OfAnother(ClusterName::from(name)));
            }
            let cluster = self.cluster(name)?;
            if cluster.spec.sync_mode == SyncMode::Pull {
                return Err(MemberError::Pull(ClusterName::from(name)));
            }
            self.connection(name, cluster, None).await
        })
    }

    /// As [`Members::get`], also for a cluster in Pull mode: over a tunnel to it, or through the control plane if that
    /// is another process. This process never writes to such a member.
    ///
    /// # Errors
    /// As [`Members::get`].
    pub fn reading<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<Member>, MemberError>> {
        Box::pin(async move {
            if self.0.own.is_some() {
                return self.get(name).await;
            }
            let cluster = self.cluster(name)?;
            if cluster.spec.sync_mode != SyncMode::Pull {
                // It may have been in Pull mode before.
                self.forget_read(name);
                return self.connection(name, cluster, None).await;
            }
            let way = self.0.ways.get().and_then(|ways| ways(name));
            // The tunnels are in the process of the API server.
            if way.is_none() && !self.0.control.client().is_in_process() {
                return Ok(self.proxied(name));
            }
            let way = way.ok_or_else(|| MemberError::Pull(ClusterName::from(name)))?;
            self.connection(name, cluster, Some(way)).await
        })
    }

    /// A member in Pull mode with the credentials of this process in the control plane, which authorizes each request.
    fn proxied(&self, name: &str) -> Arc<Member> {
        let mut proxied = self.0.proxied.lock();
        if let Some(member) = proxied.get(name) {
            return Arc::clone(member);
        }
        let client = self.0.control.client().behind(&proxy_path(name));
        let member = Arc::new(self.0.member(name, client, Endpoint::default()));
        proxied.insert(member.name.clone(), Arc::clone(&member));
        member
    }

    /// How members in Pull mode are reached. Only the first counts.
    pub fn tunnels_are(&self, ways: Ways) {
        let _ = self.0.ways.set(ways);
    }

    fn cluster(&self, name: &str) -> Result<Arc<Cluster>, MemberError> {
        self.0.clusters.get(name).ok_or_else(|| MemberError::NoCluster(ClusterName::from(name)))
    }

    /// The connections of a kind: over a way, or to members that the control plane writes to.
    fn connections(&self, over_way: bool) -> &Mutex<HashMap<ClusterName, Connected>> {
        if over_way { &self.0.read } else { &self.0.connected }
    }

    async fn connection(
        &self,
        name: &str,
        cluster: Arc<Cluster>,
        way: Option<Arc<dyn Dial>>,
    ) -> Result<Arc<Member>, MemberError> {
        let over_way = way.is_some();
        let connections = self.connections(over_way);
        if let Some(member) = self.unchanged(name, &cluster, connections) {
            return Ok(member);
        }
        let reached = in_reach(&cluster);
        let (endpoint, secret) = self.endpoint(&reached).await?;
        if let Some(known) = connections.lock().get_mut(name).filter(|known| known.member.endpoint == endpoint) {
            (known.cluster, known.secret) = (cluster, secret);
            return Ok(known.member.clone());
        }
        let client = match (self.0.connector)(&endpoint) {
            Some(client) => client,
            None => self.dial(&reached, &endpoint, &secret, way).await?,
        };
        let member = Arc::new(self.0.member(name, client, endpoint));
        let mut connected = connections.lock();
        // Another pass may have been faster; its connection is the one in use.
        if let Some(other) = connected.get(&member.name).filter(|other| other.member.endpoint == member.endpoint) {
            member.stop();
            return Ok(other.member.clone());
        }
        drop(reached);
        let known = Connected { member: member.clone(), cluster, secret };
        let replaced = connected.insert(member.name.clone(), known);
        drop(connected);
        if let Some(old) = replaced {
            old.member.stop();
            if over_way {
                return Ok(member);
            }
            let watched: Vec<ApiResource> = old.member.watched.lock().iter().cloned().collect();
            let handlers = self.0.reconnected.lock().clone();
            handlers.iter().for_each(|handler| handler(&member, watched.clone()));
        }
        Ok(member)
    }

    /// Calls `handler` after each new connection: informers of the old one receive no further changes, so subscribers
    /// must subscribe again.
    pub(crate) fn on_reconnect(&self, handler: impl Fn(&Arc<Member>, Vec<ApiResource>) + Send + Sync + 'static) {
        self.0.reconnected.lock().push(Arc::new(handler));
    }

    /// The connection, if it was made from this state of the cluster and from the cached secret.
    fn unchanged(
        &self,
        name: &str,
        cluster: &Arc<Cluster>,
        connections: &Mutex<HashMap<ClusterName, Connected>>,
    ) -> Option<Arc<Member>> {
        let reference = cluster.spec.secret_ref.as_ref()?;
        let key = ObjectKey::namespaced(reference.namespace.as_str(), reference.name.as_str());
        let secret = self.cached_secret(&key)?;
        let connected = connections.lock();
        let known = connected.get(name)?;
        let same = Arc::ptr_eq(&known.cluster, cluster) && Arc::ptr_eq(&known.secret, &secret);
        same.then(|| known.member.clone())
    }

    fn cached_secret(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.0.control.existing(&secrets()).and_then(|informer| informer.cache().get(key))
    }

    /// The connection if there is one.
    pub fn connected(&self, name: &str) -> Option<Arc<Member>> {
        if let Some(own) = &self.0.own {
            return (own.name == *name).then(|| own.clone());
        }
        self.0.connected.lock().get(name).map(|known| known.member.clone())
    }

    fn forget(&self, name: &str) {
        if let Some(known) = self.0.connected.lock().remove(name) {
            known.member.stop();
        }
        self.forget_read(name);
    }

    fn forget_read(&self, name: &str) {
        let read = self.0.read.lock().remove(name).map(|known| known.member);
        let proxied = self.0.proxied.lock().remove(name);
        read.into_iter().chain(proxied).for_each(|member| member.stop());
    }

    async fn endpoint(&self, cluster: &Cluster) -> Result<(Endpoint, Arc<Object>), MemberError> {
        let (spec, name) = (&cluster.spec, || ClusterName::of(cluster));
        if spec.api_endpoint.is_empty() {
            return Err(MemberError::NoEndpoint(name()));
        }
        let reference = spec.secret_ref.as_ref().ok_or_else(|| MemberError::NoSecret(name()))?;
        let key = ObjectKey::namespaced(reference.namespace.as_str(), reference.name.as_str());
        let object = self.secret(&cluster.metadata.name, &key).await?;
        let unreadable = |_| MemberError::Field { cluster: name(), key: key.clone(), field: "data" };
        let secret: SecretData = object.decode().map_err(unreadable)?;
        let field = |field: &'static str| {
            let bytes = secret.data.get(field).and_then(|text| base64::prelude::BASE64_STANDARD.decode(text).ok());
            bytes.ok_or_else(|| MemberError::Field { cluster: name(), key: key.clone(), field })
        };
        let token = field("token").ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let token = token.filter(|token| !token.trim().is_empty()).ok_or_else(|| MemberError::NoToken(name()))?;
        let ca_bundle = if spec.insecure_skip_tls_verification { None } else { Some(field("caBundle")?) };
        Ok((endpoint_of(spec, ca_bundle, token.trim()), object))
    }

    /// A connection over a socket, to an endpoint that may get the token.
    async fn dial(
        &self,
        cluster: &Cluster,
        endpoint: &Endpoint,
        secret: &Arc<Object>,
        way: Option<Arc<dyn Dial>>,
    ) -> Result<Client, MemberError> {
        let (name, control) = (cluster.metadata.name.as_str(), self.0.control.client());
        check_destination(control, cluster, secret, self.0.allow_http).await?;
        // The impersonator's token is not sent from here; its destination is recorded before the Cluster can change.
        if let Some(reference) = &cluster.spec.impersonator_secret_ref {
            let key = ObjectKey::namespaced(reference.namespace.as_str(), reference.name.as_str());
            if let Ok(secret) = self.secret(name, &key).await
                && let Err(error) = check_destination(control, cluster, &secret, self.0.allow_http).await
            {
                tracing::debug!(cluster = name, %error, "The token of the impersonator is not sent");
            }
        }
        let client = match way {
            None => Client::from_endpoint(endpoint),
            Some(way) => Client::from_endpoint_over(endpoint, way),
        };
        client.map_err(|source| MemberError::Connect { cluster: ClusterName::from(name), source })
    }

    async fn secret(&self, cluster: &str, key: &ObjectKey) -> Result<Arc<Object>, MemberError> {
        match self.cached_secret(key) {
            Some(object) => Ok(object),
            None => {
                let live = self.0.control.client().get(&secrets(), key).await;
                live.map_err(|source| MemberError::Secret { cluster: ClusterName::from(cluster), source })
            }
        }
    }
}

/// The API endpoint of a member, with the credential `token`. Without a CA bundle the system's authorities are trusted,
/// unless the Cluster skips TLS verification.
pub fn endpoint_of(spec: &ClusterSpec, ca_bundle: Option<Vec<u8>>, token: &str) -> Endpoint {
    Endpoint {
        server: spec.api_endpoint.clone(),
        ca_bundle,
        token: Some(token.to_owned()),
        identity: None,
        balanced: false,
        insecure: spec.insecure_skip_tls_verification,
        proxy_url: (!spec.proxy_url.is_empty()).then(|| spec.proxy_url.clone()),
        proxy_headers: spec.proxy_header.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        server_name: None,
        guarded: true,
        pull: spec.sync_mode == SyncMode::Pull,
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SecretData {
    data: HashMap<String, String>,
}
