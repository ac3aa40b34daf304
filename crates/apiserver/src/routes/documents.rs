//! Documents about the API: discovery, OpenAPI, `/version` and the list of paths.

use std::sync::Arc;

use apimachinery::resource::{Resource, ResourceInfo};
use apimachinery::{GroupVersion, ObjectKey, Status};
use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use transport::{Identity, Request, Response};
use world::World;

use crate::documents::discovery::{Apis, Discovery};
use crate::documents::openapi::{self, OpenApi, Source};
use crate::documents::version::VersionInfo;
use crate::registry::Served;
use crate::request::RequestInfo;
use crate::state::{Route, Shared};
use crate::wire::respond;

/// The documents of the resources served at one moment.
struct Snapshot {
    /// The generations of the served resources, and of other servers' group versions.
    generations: (u64, u64),
    discovery: Discovery,
    openapi: OpenApi,
}

/// The route of all documents. Each is rendered on its first request and cached until the served resources change.
pub struct Documents {
    version: VersionInfo,
    current: ArcSwapOption<Snapshot>,
}

impl Documents {
    /// The route, with this document at `/version`.
    pub fn new(version: VersionInfo) -> Self {
        Self { version, current: ArcSwapOption::empty() }
    }

    fn snapshot(&self, served: &Served, apis: &Apis, world: &World, source: Source<'_>) -> Arc<Snapshot> {
        let generations = (served.generation, apis.generation);
        if let Some(current) = self.current.load_full().filter(|current| current.generations == generations) {
            return current;
        }
        let is_own = |resource: &&Resource| {
            let named = &resource.info.resource;
            !apis.is_external(&named.group, &named.version)
        };
        let own = || served.iter().filter(is_own).cloned();
        let fresh = Arc::new(Snapshot {
            generations,
            discovery: Discovery::with(own().map(|resource| without_writes_while_deleted(resource, source)), apis),
            openapi: OpenApi::new(own(), &self.version.git_version, world.now()).beside(apis),
        });
        self.current.store(Some(Arc::clone(&fresh)));
        fresh
    }

    fn answer(&self, server: &Shared, request: &Request) -> Option<Response> {
        let uri = request.uri();
        let (served, apis) = (server.registry.snapshot(), server.apis.load());
        let definitions = server.cache.resource(&crate::crds::place());
        // A definition that cannot be read is documented as if it were absent.
        let source = |name: &str| definitions.get(&ObjectKey::cluster(name)).ok().flatten();
        match uri.path() {
            "/version" | "/version/" => {
                Some(respond::value(StatusCode::OK, &serde_json::to_value(&self.version).unwrap_or(Value::Null)))
            }
            "/" => Some(respond::value(StatusCode::OK, &paths(&served, &apis))),
            path if path.starts_with("/openapi/") => {
                self.snapshot(&served, &apis, &server.world, &source).openapi.get(uri, request.headers(), &source)
            }
            path => self.snapshot(&served, &apis, &server.world, &source).discovery.get(
                path,
                host(request),
                request.headers(),
            ),
        }
    }
}

/// Upstream's discovery lists no writes of a resource whose definition is being deleted.
fn without_writes_while_deleted(mut resource: Resource, source: Source<'_>) -> Resource {
    let info = &resource.info;
    if info.custom && source(&openapi::definition_name(info)).is_some_and(|definition| definition.is_deleting()) {
        let mut info = ResourceInfo::clone(info);
        info.verbs.retain(|verb| !matches!(verb.as_str(), "create" | "update" | "patch"));
        resource.info = Arc::new(info);
    }
    resource
}

impl Route for Documents {
    fn takes(&self, info: &RequestInfo) -> bool {
        let path = info.path.as_str();
        let known =
            |prefix: &str| path == prefix || path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
        !info.is_resource && (path == "/" || ["/api", "/apis", "/openapi", "/version"].into_iter().any(known))
    }

    fn call<'a>(
        &'a self,
        server: &'a Shared,
        _info: &'a RequestInfo,
        _user: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        let served = server.registry.snapshot();
        let (path, is_get) = (request.uri().path(), request.method() == Method::GET);
        let response = match self.answer(server, &request) {
            Some(_) if !is_get && is_for_get_only(path, &served) => Err(crate::errors::method_not_allowed()),
            Some(answer) => Ok(answer),
            None => served.unknown(group_of(path)),
        };
        Box::pin(async move { response })
    }
}

/// Upstream's routes of built-in versions have methods; its other handlers of documents ignore them.
fn is_for_get_only(path: &str, served: &Served) -> bool {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    match (segments.next(), segments.next(), segments.next()) {
        (Some("api" | "version"), ..) => true,
        (Some("apis"), Some(group), Some(_)) => served.has_built_in(group),
        _ => false,
    }
}

/// The group of a path; `None` if it is in none.
fn group_of(path: &str) -> Option<&str> {
    match path.split('/').collect::<Vec<_>>()[1..] {
        ["api", ..] => Some(""),
        ["apis", group, ..] => Some(group),
        _ => None,
    }
}

/// The address a client called, as it called it.
fn host(request: &Request) -> Option<&str> {
    let named = || request.headers().get(http::header::HOST).and_then(|value| value.to_str().ok());
    request.uri().authority().map(http::uri::Authority::as_str).or_else(named)
}

/// Every path without parameters, sorted.
fn paths(served: &Served, apis: &Apis) -> Value {
    let fixed = ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];
    let mut paths: std::collections::BTreeSet<String> = fixed.map(str::to_owned).into();
    let own = served.iter().map(|resource| resource.info.resource.group_version());
    let external = apis.external.keys().map(|(group, version)| GroupVersion::new(group.as_str(), version.as_str()));
    for group_version in own.chain(external) {
        paths.insert(group_version.url_prefix());
        paths.insert(format!("/openapi/v3{}", group_version.url_prefix()));
        if !group_version.group.is_empty() {
            paths.insert(format!("/apis/{}", group_version.group));
        }
    }
    json!({"paths": paths})
}
