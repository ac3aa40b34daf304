//! `search` and `proxying` of search.karmada.io: reads over members as if they were one cluster.
//!
//! Resources that ResourceRegistries select are read from the members. `search/cache` and single objects are served
//! from caches of members, which the first request starts; lists and watches of `proxying` are sent to the members and
//! merged. All other requests to `proxying` are forwarded to the control plane, impersonating the user. OpenSearch, which
//! [`crate::opensearch`] writes to, is not read.

mod follow;
mod form;
mod forwarded;
mod found;
mod merged;
mod path;
mod versions;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apimachinery::selector::{FieldSelector, Selector};
use apimachinery::{ApiResource, GroupVersionResource, Object, Status, StatusReason};
use apiserver::Shared;
use apiserver::auth::authz::{Attributes, ResourceAttributes};
use apiserver::cache::Cache;
use apiserver::respond;
use apiserver::{RequestInfo, Route, method_not_allowed};
use client::Mapper;
use controllers::Members;
use futures::future::{BoxFuture, join_all};
use http::{HeaderValue, StatusCode, header};
use karmada_api::ApiType;
use karmada_api::cluster::proxy_path;
use karmada_api::cluster::v1alpha1::{ApiEnablementStatus, Cluster};
use karmada_api::search::v1alpha1::ResourceRegistry;
use parking_lot::RwLock;
use serde_json::json;
use transport::{Identity, Request, Response};

use crate::proxy::{ClusterProxy, Clusters, read_body, target_of};
use follow::{WatchQuery, follow};
use form::Form;
use found::{Found, list};
use merged::{ListQuery, Target};
use path::{Native, native};
use versions::{Since, Token};

const GROUP: &str = "search.karmada.io";

/// How long a request waits for the first list of a member's cache. Slower members are omitted from the response.
const SYNC: Duration = Duration::from_secs(3);

/// Largest body of a write through `proxying`, the limit of kube-apiserver.
const MAX_BODY: usize = 3 << 20;

/// Timeout of a watch without `timeoutSeconds`, the default of kube-apiserver's `--min-request-timeout`.
const WATCH: Duration = Duration::from_secs(1800);

pub struct Search {
    proxy: Arc<ClusterProxy>,
    /// `None` if no controllers run: then there are no caches.
    members: RwLock<Option<Members>>,
    /// Discovery of the control plane, if that is another server.
    served: OnceLock<Mapper>,
    offers: Offers,
}

/// The APIs that a server offers: the negation of `--disable-search` and `--disable-proxy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offers {
    pub search: bool,
    pub proxying: bool,
}

impl Offers {
    pub const ALL: Self = Self { search: true, proxying: true };

    /// Whether a resource of the group is served.
    pub fn has(self, resource: &str) -> bool {
        match resource {
            "search" => self.search,
            "proxying" => self.proxying,
            _ => true,
        }
    }
}

impl Search {
    /// `proxy` forwards requests to a single member.
    pub fn new(proxy: Arc<ClusterProxy>, offers: Offers) -> Self {
        Self { proxy, members: RwLock::default(), served: OnceLock::new(), offers }
    }

    /// The control plane is another server; only ResourceRegistries are stored in this one.
    pub fn beside(&self, served: Mapper) {
        let _ = self.served.set(served);
    }

    /// The resource of the control plane with these names.
    async fn resource(
        &self,
        server: &Shared,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<Option<ApiResource>, Status> {
        let Some(mapper) = self.served.get() else {
            let served = server.registry.snapshot();
            return Ok(served.get(group, version, plural).map(|found| found.info.resource.clone()));
        };
        let requested = GroupVersionResource::new(group, version, plural);
        let found = mapper.by_resource(&requested).await;
        found.map_err(|error| Status::failure(StatusReason::ServiceUnavailable, error.to_string()))
    }

    /// The Clusters and the registries, not older than the request.
    async fn clusters(&self, server: &Shared) -> Result<Clusters, Status> {
        server.cache.catch_up().await?;
        self.proxy.clusters(server).await
    }

    /// Enables requests to members.
    pub fn connect(&self, members: Members) {
        let tunnels = self.proxy.tunnels().clone();
        members.tunnels_are(Arc::new(move |name| tunnels.is_expected(name).then(|| tunnels.to(name))));
        *self.members.write() = Some(members);
    }

    /// The controllers have ended.
    pub fn disconnect(&self) {
        self.members.write().take();
    }

    /// `search/CATEGORY/PATH`.
    async fn search(&self, server: &Shared, info: &RequestInfo) -> Result<Response, Status> {
        if info.verb != "get" {
            return Err(method_not_allowed());
        }
        let tail = [info.subresource.as_str(), info.subpath.as_str()].join("/");
        let tail = tail.trim_matches('/');
        if tail.is_empty() {
            return Err(Status::unclassified(format!("invalid requestInfo parts: [search {}]", info.name)));
        }
        match info.name.as_str() {
            "cache" => {}
            // Upstream does not query OpenSearch either.
            "opensearch" => return Ok(Response::new(transport::empty())),
            other => return Err(Status::unclassified(format!("connect with unrecognized search category {other}"))),
        }
        let requested = native(tail).map_err(Status::unclassified)?;
        let failure = |code, why: String| Ok(respond::value(code, &json!({ "error": why })));
        let selector = match Selector::parse(info.query.get("labelSelector").unwrap_or_default()) {
            Ok(selector) => selector,
            Err(error) => return failure(StatusCode::BAD_REQUEST, error.to_string()),
        };
        let Some(resource) = self.resource(server, &requested.group, &requested.version, &requested.resource).await?
        else {
            let version = if requested.group.is_empty() { String::new() } else { format!("{}/", requested.group) };
            let why = format!("no matches for {version}{}, Resource={}", requested.version, requested.resource);
            return failure(StatusCode::INTERNAL_SERVER_ERROR, why);
        };
        let found = self.cached(server, &resource, &requested, &selector).await?;
        let list = list(&resource.api_version(), &resource.kind, &found).map_err(Status::internal)?;
        Ok(respond::value(StatusCode::OK, &list))
    }

    /// Matching objects in the caches of the selected members, by cluster, then by name.
    async fn cached(
        &self,
        server: &Shared,
        resource: &ApiResource,
        requested: &Native,
        selector: &Selector,
    ) -> Result<Vec<Found>, Status> {
        let clusters = self.clusters(server).await?;
        let targets = targets(&server.cache, &clusters, &self.proxy, resource)?;
        let members = self.members.read().clone();
        let Some(members) = &members else { return Ok(Vec::new()) };
        let reads = targets.into_iter().map(|(cluster, namespaces)| {
            let read = CacheRead {
                cluster,
                namespaces,
                resource: resource.clone(),
                requested: requested.clone(),
                selector: selector.clone(),
            };
            read.run(members.clone())
        });
        Ok(join_all(reads).await.into_iter().flatten().flatten().collect())
    }

    /// `proxying/ANY/proxy/PATH`.
    async fn proxying(
        &self,
        server: &Shared,
        info: &RequestInfo,
        user: &Identity,
        request: Request,
    ) -> Result<Response, Status> {
        if info.subresource != "proxy" {
            return Err(Status::failure(StatusReason::NotFound, "the server could not find the requested resource"));
        }
        let (target, tail) = target_of(info, &request)?;
        if tail.group == GROUP && tail.resource == "proxying" {
            return Err(Status::bad_request("proxying leads to no other proxying"));
        }
        let resource = match tail.is_resource {
            true => self.resource(server, &tail.group, &tail.version, &tail.resource).await?,
            false => None,
        };
        let registered = match &resource {
            Some(resource) => is_registered(server, resource).await?,
            None => false,
        };
        match resource.filter(|_| registered) {
            Some(resource) if tail.subresource.is_empty() && matches!(tail.verb, "get" | "list" | "watch") => {
                let form = Form::accepted(request.headers());
                self.read(server, &resource, &tail, form).await
            }
            Some(resource) => self.write(server, &resource, &tail, user, request, &target).await,
            None => self.proxy.in_control_plane(user, request, &target).await,
        }
    }

    async fn read(
        &self,
        server: &Shared,
        resource: &ApiResource,
        tail: &RequestInfo,
        form: Form,
    ) -> Result<Response, Status> {
        let query = list_query(tail)?;
        if tail.verb == "get" {
            let found = self.cached(server, resource, &native_of(tail), &Selector::everything()).await?;
            let object = one(resource, &tail.name, &found)?.single().map_err(Status::internal)?;
            return Ok(respond::value(StatusCode::OK, &form.one(object, true)));
        }
        let clusters = self.clusters(server).await?;
        let proxy = Arc::clone(&self.proxy);
        let targets = targets(&server.cache, &clusters, &proxy, resource)?;
        let members = self.members.read().clone();
        let Some(members) = &members else {
            return Err(Status::failure(StatusReason::ServiceUnavailable, "no controller here knows the members yet"));
        };
        if tail.verb == "watch" {
            let (cache, known, watched) = (Arc::clone(&server.cache), targets.clone(), resource.clone());
            // A set that can no longer be computed counts as changed.
            let is_unchanged = move || self::targets(&cache, &clusters, &proxy, &watched).is_ok_and(|now| now == known);
            let query = watch_query(tail, query, form)?;
            let lines = follow(members, targets, resource, query, is_unchanged, server.ending()).await?;
            let mut response = Response::new(transport::stream(lines));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            return Ok(response);
        }
        let limit = number(tail, "limit")?.unwrap_or_default();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let token = match tail.query.text("continue") {
            None => None,
            Some(text) => {
                let token = Token::parse(text);
                Some(token.ok_or_else(|| Status::bad_request("continue key is not valid: no page ends with it"))?)
            }
        };
        let page = merged::list(members, &targets, resource, &query, limit, token.as_ref()).await?;
        let items = page.items.iter().map(Found::marked).collect::<Result<Vec<_>, _>>().map_err(Status::internal)?;
        let list = form.list(&resource.api_version(), &resource.kind, &page.metadata(), items);
        Ok(respond::value(StatusCode::OK, &list))
    }

    /// Forwards any other request for a registered resource to the member that has the object.
    async fn write(
        &self,
        server: &Shared,
        resource: &ApiResource,
        tail: &RequestInfo,
        user: &Identity,
        request: Request,
        target: &str,
    ) -> Result<Response, Status> {
        if tail.name.is_empty() {
            return Err(not_supported(tail.verb, resource));
        }
        let found = self.cached(server, resource, &native_of(tail), &Selector::everything()).await?;
        let cluster = one(resource, &tail.name, &found)?.cluster.clone();
        let (mut parts, mut body) = request.into_parts();
        if forwarded::concerns(tail.verb, &tail.subresource) {
            let bytes = read_body(body, MAX_BODY).await?;
            let rewritten = forwarded::rewritten(media_type(&parts.headers), &bytes, &cluster);
            let rewritten = rewritten.map_err(|_| Status::modified(&resource.group, &resource.plural, &tail.name))?;
            body = match rewritten {
                Some(rewritten) => {
                    let media_type = HeaderValue::from_str(&rewritten.media_type).map_err(Status::internal)?;
                    parts.headers.insert(header::CONTENT_TYPE, media_type);
                    parts.headers.remove(header::CONTENT_LENGTH);
                    transport::full(rewritten.body)
                }
                None => transport::full(bytes),
            };
        }
        let uri = format!("{}{target}", proxy_path(&cluster));
        parts.uri = uri.parse().map_err(|error| Status::bad_request(format!("path {uri}: {error}")))?;
        self.proxy.forward(server, &cluster, user, Request::from_parts(parts, body)).await
    }
}

/// The media type without parameters; JSON if the header is missing.
fn media_type(headers: &http::HeaderMap) -> &str {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
    text.split(';').next().unwrap_or(text).trim()
}

/// The parameters of lists and watches. Only fields that every resource has can be selected.
fn list_query(tail: &RequestInfo) -> Result<ListQuery, Status> {
    let bad = |error: &dyn std::fmt::Display| Status::bad_request(error.to_string());
    let labels = Selector::parse(tail.query.get("labelSelector").unwrap_or_default()).map_err(|e| bad(&e))?;
    let fields = FieldSelector::parse(tail.query.get("fieldSelector").unwrap_or_default()).map_err(|e| bad(&e))?;
    for (field, ..) in fields.requirements() {
        if !matches!(field.as_str(), "metadata.name" | "metadata.namespace") {
            return Err(Status::bad_request(format!(
                "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )));
        }
    }
    let text = |text: String| (!text.is_empty()).then_some(text);
    Ok(ListQuery {
        namespace: text(tail.namespace.clone()),
        labels: text(labels.to_string()),
        fields: text(fields.to_string()),
        since: Since::parse(tail.query.get("resourceVersion").unwrap_or_default()),
    })
}

/// A parameter that is a non-negative number.
fn number(tail: &RequestInfo, name: &str) -> Result<Option<u64>, Status> {
    let Some(text) = tail.query.text(name) else { return Ok(None) };
    let wrong = || Status::bad_request(format!("{name}: Invalid value: {text:?}: must be a number, at least 0"));
    text.parse().map(Some).map_err(|_| wrong())
}

fn watch_query(tail: &RequestInfo, list: ListQuery, form: Form) -> Result<WatchQuery, Status> {
    let timeout = number(tail, "timeoutSeconds")?.filter(|seconds| *seconds > 0).map_or(WATCH, Duration::from_secs);
    Ok(WatchQuery {
        list,
        bookmarks: tail.query.flag("allowWatchBookmarks"),
        initial_events: tail.query.flag("sendInitialEvents"),
        form,
        timeout,
    })
}

/// A read of the cache of one member.
struct CacheRead {
    cluster: String,
    /// An empty set means all.
    namespaces: BTreeSet<String>,
    resource: ApiResource,
    requested: Native,
    selector: Selector,
}

impl CacheRead {
    /// `None` if the member cannot be reached or its cache is incomplete; it is omitted, as upstream does.
    fn run(self, members: Members) -> BoxFuture<'static, Option<Vec<Found>>> {
        Box::pin(async move {
            let member = members.reading(&self.cluster).await.ok()?;
            let informer = member.informers.informer(&self.resource);
            if tokio::time::timeout(SYNC, informer.synced()).await != Ok(true) {
                return None;
            }
            let namespace = Some(self.requested.namespace.as_str()).filter(|namespace| !namespace.is_empty());
            let mut objects = informer.cache().list(namespace);
            objects.retain(|object| self.matches(object));
            objects.sort_by_key(|object| object.key());
            Some(objects.into_iter().map(|object| Found { cluster: self.cluster.clone(), object }).collect())
        })
    }

    fn matches(&self, object: &Object) -> bool {
        (self.namespaces.is_empty() || self.namespaces.contains(object.namespace().unwrap_or_default()))
            && (self.requested.name.is_empty() || object.name() == self.requested.name)
            && self.selector.matches_with(|key| object.label(key))
    }
}

fn native_of(tail: &RequestInfo) -> Native {
    Native {
        group: tail.group.clone(),
        version: tail.version.clone(),
        namespace: tail.namespace.clone(),
        resource: tail.resource.clone(),
        name: tail.name.clone(),
    }
}

/// The object, if exactly one member has it.
fn one<'a>(resource: &ApiResource, name: &str, found: &'a [Found]) -> Result<&'a Found, Status> {
    match found {
        [] => Err(Status::not_found(&resource.group, &resource.plural, name)),
        [one] => Ok(one),
        several => {
            let clusters: Vec<&str> = several.iter().map(|found| found.cluster.as_str()).collect();
            let why = format!("ambiguous objects in clusters [{}]", clusters.join(", "));
            Err(Status::conflict(&resource.group, &resource.plural, name, &why))
        }
    }
}

fn not_supported(verb: &str, resource: &ApiResource) -> Status {
    let resource = resource.gvr().group_resource();
    let message = format!("{verb} is not supported on resources of kind \"{resource}\"");
    Status::failure(StatusReason::MethodNotAllowed, message)
}

fn registries(cache: &Cache) -> Result<Vec<ResourceRegistry>, Status> {
    let (objects, _, _) = cache.resource("search.karmada.io/resourceregistries").list(None, None, 0, |_| true)?;
    objects.iter().map(|object| ResourceRegistry::from_object(object).map_err(Status::internal)).collect()
}

fn names_resource(registry: &ResourceRegistry, resource: &ApiResource) -> bool {
    let selectors = &registry.spec.resource_selectors;
    selectors.iter().any(|selector| selector.kind == resource.kind && selector.api_version == resource.api_version())
}

async fn is_registered(server: &Shared, resource: &ApiResource) -> Result<bool, Status> {
    server.cache.catch_up().await?;
    Ok(registries(&server.cache)?.iter().any(|registry| names_resource(registry, resource)))
}

/// The clusters in which a resource is registered, by name, each with its namespaces. Clusters in Pull mode are read if
/// the proxy has a connection for them.
fn targets(
    cache: &Cache,
    clusters: &Clusters,
    proxy: &ClusterProxy,
    resource: &ApiResource,
) -> Result<Vec<Target>, Status> {
    let registries = registries(cache)?;
    let mut targets = Vec::new();
    for cluster in clusters.all()? {
        let cluster = Cluster::from_object(&cluster).map_err(Status::internal)?;
        let serves = cluster.api_enablement(&resource.api_version(), &resource.kind) != ApiEnablementStatus::Disabled;
        if !serves || !proxy.connects_to(&cluster) || !cluster.is_ready() {
            continue;
        }
        let (mut namespaces, mut everywhere) = (None::<BTreeSet<String>>, false);
        for registry in &registries {
            if !propagation::cluster::matches(&registry.spec.target_cluster, &cluster) {
                continue;
            }
            for selector in &registry.spec.resource_selectors {
                if selector.kind == resource.kind && selector.api_version == resource.api_version() {
                    everywhere |= selector.namespace.is_empty();
                    namespaces.get_or_insert_default().insert(selector.namespace.clone());
                }
            }
        }
        if let Some(namespaces) = namespaces {
            let namespaces = if everywhere { BTreeSet::new() } else { namespaces };
            targets.push((cluster.metadata.name, namespaces));
        }
    }
    Ok(targets)
}

impl Route for Search {
    fn takes(&self, info: &RequestInfo) -> bool {
        let resource = info.resource.as_str();
        info.group == GROUP && matches!(resource, "search" | "proxying") && self.offers.has(resource)
    }

    /// A path follows the category, not a subresource: the right to get the category includes searching.
    fn instead(&self, info: &RequestInfo) -> Option<Attributes> {
        (info.resource == "search").then(|| {
            Attributes::Resource(ResourceAttributes {
                verb: info.verb.into(),
                group: info.group.clone(),
                version: info.version.clone(),
                resource: info.resource.clone(),
                name: info.name.clone(),
                ..ResourceAttributes::default()
            })
        })
    }

    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        user: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        Box::pin(async move {
            match (info.resource.as_str(), info.name.is_empty()) {
                (_, true) => Err(method_not_allowed()),
                ("search", _) => self.search(server, info).await,
                _ => self.proxying(server, info, user, request).await,
            }
        })
    }
}
