//! Documents about the API: discovery, OpenAPI, `/version` and the list of paths.

use std::sync::Arc;

use apimachinery::Status;
use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use transport::{Identity, Request, Response};
use world::World;

use crate::discovery::Discovery;
use crate::openapi::OpenApi;
use crate::registry::Served;
use crate::request::RequestInfo;
use crate::respond;
use crate::server::{Route, Shared};
use crate::version::VersionInfo;

/// The documents of the resources served at one moment.
struct Snapshot {
    generation: u64,
    discovery: Discovery,
    openapi: OpenApi,
}

/// The route of all documents. Each is rendered on its first request and kept until the served resources change.
pub struct Documents {
    version: VersionInfo,
    current: ArcSwapOption<Snapshot>,
}

impl Documents {
    /// The route, with this document at `/version`.
    pub fn new(version: VersionInfo) -> Self {
        Self { version, current: ArcSwapOption::empty() }
    }

    fn snapshot(&self, served: &Served, world: &World) -> Arc<Snapshot> {
        if let Some(current) = self.current.load_full().filter(|current| current.generation == served.generation) {
            return current;
        }
        let fresh = Arc::new(Snapshot {
            generation: served.generation,
            discovery: Discovery::new(served.iter().cloned()),
            openapi: OpenApi::new(served.iter().cloned(), &self.version.git_version, world.now()),
        });
        self.current.store(Some(Arc::clone(&fresh)));
        fresh
    }

    fn answer(&self, server: &Shared, request: &Request) -> Option<Response> {
        let uri = request.uri();
        let served = server.registry.snapshot();
        match uri.path() {
            "/version" | "/version/" => {
                Some(respond::value(StatusCode::OK, &serde_json::to_value(&self.version).unwrap_or(Value::Null)))
            }
            "/" => Some(respond::value(StatusCode::OK, &paths(&served))),
            path if path.starts_with("/openapi/") => {
                self.snapshot(&served, &server.world).openapi.get(uri, request.headers())
            }
            path => self.snapshot(&served, &server.world).discovery.get(path, host(request), request.headers()),
        }
    }
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
        let answer = self.answer(server, &request).unwrap_or_else(respond::page_not_found);
        // Known paths are read only; paths that are not are unknown to every method.
        let found = answer.status() != StatusCode::NOT_FOUND && request.method() != http::Method::GET;
        let response = if found { Err(crate::handlers::method_not_allowed()) } else { Ok(answer) };
        Box::pin(async move { response })
    }
}

/// The address a client called, as it called it.
fn host(request: &Request) -> Option<&str> {
    let named = || request.headers().get(http::header::HOST).and_then(|value| value.to_str().ok());
    request.uri().authority().map(http::uri::Authority::as_str).or_else(named)
}

/// Every path without parameters, sorted.
fn paths(served: &Served) -> Value {
    let fixed = ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];
    let mut paths: std::collections::BTreeSet<String> = fixed.map(str::to_owned).into();
    for resource in served.iter() {
        let group_version = resource.info.resource.group_version();
        paths.insert(group_version.url_prefix());
        paths.insert(format!("/openapi/v3{}", group_version.url_prefix()));
        if !group_version.group.is_empty() {
            paths.insert(format!("/apis/{}", group_version.group));
        }
    }
    json!({"paths": paths})
}
