//! `/openapi/v2` and `/openapi/v3`, rendered from the types of the served resources.
//!
//! A document is rendered on its first request and cached, compressed, as long as its snapshot. The hashes in the v3
//! index are computed from the inputs of a document, so that the index does not require rendering all of them.

mod custom;
mod descriptions;
mod external;
mod operations;
mod paths;
mod protobuf;
mod protobuf_v3;
mod rendered;
mod requests;
mod schema;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use apimachinery::resource::{Resource, ResourceInfo};
use apimachinery::{GroupVersion, Object};
use http::{HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::Digest;
use transport::Response;

use crate::documents::discovery::{Apis, is_current, negotiated};
pub use external::ExternalSpec;
use rendered::Rendered;
use schema::{Dialect, Renderer};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// The definition of a custom resource as the store has it; `None` for one that is not there.
pub type Source<'a> = &'a dyn Fn(&str) -> Option<Arc<Object>>;

/// The schema of a custom resource, if its definition has one; `None` without a definition.
type Definitions<'a> = &'a dyn Fn(&ResourceInfo) -> Option<Option<Value>>;

/// OpenAPI documents of one snapshot.
pub struct OpenApi {
    /// By the path below `/openapi/v3/`: `api/v1`, `apis/apps/v1`.
    groups: BTreeMap<String, GroupDocument>,
    /// By the same path: the documents of other servers.
    external: BTreeMap<String, ExternalDocuments>,
    version: String,
    /// The time of the last change of the served resources, in HTTP format.
    modified: String,
    etag: OnceLock<String>,
    v2_json: OnceLock<Rendered>,
    v2_protobuf: OnceLock<Rendered>,
    rendered: Mutex<BTreeMap<String, Rendered>>,
}

/// The documents of a group version that another server serves.
struct ExternalDocuments {
    v3_url: Option<String>,
    v2: Option<Arc<ExternalSpec>>,
}

struct GroupDocument {
    group_version: GroupVersion,
    resources: Vec<Resource>,
    hash: OnceLock<String>,
}

impl OpenApi {
    /// `version` is the server's `gitVersion`; it is part of the documents and of their hashes. `now` is the time since
    /// when the resources are served.
    pub fn new(resources: impl IntoIterator<Item = Resource>, version: &str, now: jiff::Timestamp) -> Self {
        let mut groups: BTreeMap<String, GroupDocument> = BTreeMap::new();
        for resource in resources {
            let group_version = resource.info.resource.group_version();
            let path = group_version.url_prefix().trim_start_matches('/').to_owned();
            let document = groups.entry(path).or_insert_with(|| GroupDocument {
                group_version,
                resources: Vec::new(),
                hash: OnceLock::new(),
            });
            document.resources.push(resource);
        }
        Self {
            groups,
            external: BTreeMap::new(),
            version: version.to_owned(),
            modified: now.strftime(HTTP_DATE).to_string(),
            etag: OnceLock::new(),
            v2_json: OnceLock::new(),
            v2_protobuf: OnceLock::new(),
            rendered: Mutex::default(),
        }
    }

    /// With the documents of other servers.
    #[must_use]
    pub fn beside(mut self, apis: &Apis) -> Self {
        for ((group, version), external) in &apis.external {
            let documents = ExternalDocuments { v3_url: external.v3_url.clone(), v2: external.v2.clone() };
            self.external.insert(format!("apis/{group}/{version}"), documents);
        }
        self
    }

    /// Answers a GET below `/openapi`, `None` when the path is not one that is served.
    /// The schemas of custom resources are read from `source` when a document is rendered, so that they take no memory.
    pub fn get(&self, uri: &http::Uri, headers: &http::HeaderMap, source: Source<'_>) -> Option<Response> {
        match uri.path().strip_prefix("/openapi/")? {
            "v2" => Some(self.v2(headers, source)),
            "v3" => Some(self.v3_index(source)),
            path => self.v3(path.strip_prefix("v3/")?, uri.query().unwrap_or_default(), headers, source),
        }
    }

    fn hash(&self, document: &GroupDocument, source: Source<'_>) -> String {
        document.hash.get_or_init(|| fingerprint(&self.version, &document.resources, source)).clone()
    }

    fn etag(&self, source: Source<'_>) -> &str {
        self.etag.get_or_init(|| {
            let mut hashes: Vec<String> = self.groups.values().map(|document| self.hash(document, source)).collect();
            hashes.extend(self.external.values().filter_map(|it| Some(it.v2.as_ref()?.hash().to_owned())));
            crate::documents::discovery::entity_tag(hashes.concat().as_bytes())
        })
    }

    fn v2(&self, headers: &http::HeaderMap, source: Source<'_>) -> Response {
        let Some(protobuf) = prefers_protobuf(headers, V2_PROTOBUF) else {
            let mut response = http::Response::new(transport::empty());
            *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
            return response;
        };
        let mut response = if self.is_known(headers, self.etag(source)) {
            let mut response = http::Response::new(transport::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else if protobuf {
            let document = || Rendered::new(protobuf::encode_document(&self.v2_document(source)));
            self.v2_protobuf.get_or_init(document).response(V2_PROTOBUF, headers)
        } else {
            let document = || Rendered::new(self.v2_document(source).to_string().into());
            self.v2_json.get_or_init(document).response("application/json", headers)
        };
        let headers = response.headers_mut();
        headers.append(header::VARY, HeaderValue::from_static("Accept"));
        if let Ok(etag) = HeaderValue::from_str(self.etag(source)) {
            headers.insert(header::ETAG, etag);
        }
        self.date(&mut response);
        response
    }

    /// Whether the client has the document already. With an etag, the date is ignored.
    fn is_known(&self, headers: &http::HeaderMap, etag: &str) -> bool {
        let since = headers.get(header::IF_MODIFIED_SINCE).and_then(|value| value.to_str().ok());
        let is_unchanged = |since| date_of(since).is_some_and(|since| Some(since) >= date_of(&self.modified));
        is_current(headers, etag) || (!headers.contains_key(header::IF_NONE_MATCH) && since.is_some_and(is_unchanged))
    }

    fn date(&self, response: &mut Response) {
        if response.status() != StatusCode::NOT_MODIFIED
            && let Ok(modified) = HeaderValue::from_str(&self.modified)
        {
            response.headers_mut().insert(header::LAST_MODIFIED, modified);
        }
    }

    fn v2_document(&self, source: Source<'_>) -> Value {
        let schema = |info: &ResourceInfo| schema_of(info, source);
        let mut renderer = Renderer::new(Dialect::V2, &schema);
        let mut paths = Map::new();
        for document in self.groups.values() {
            for resource in &document.resources {
                paths::add(resource, &mut renderer, &mut paths);
            }
        }
        let defined = renderer.finish();
        let mut document = json!({
            "swagger": "2.0", "info": {"title": "Kubernetes", "version": self.version},
            "paths": paths, "definitions": defined.schemas, "parameters": defined.parameters,
        });
        for (path, external) in &self.external {
            if let Some(other) = external.v2.as_ref().and_then(|spec| spec.read()) {
                external::merge(&mut document, other, &format!("/{path}"));
            }
        }
        document
    }

    fn v3_index(&self, source: Source<'_>) -> Response {
        let own = self.groups.iter().map(|(path, document)| {
            let url = format!("/openapi/v3/{path}?hash={}", self.hash(document, source));
            (path, url)
        });
        let external = self.external.iter().filter_map(|(path, external)| Some((path, external.v3_url.clone()?)));
        let entry = |(path, url): (&String, String)| (path.clone(), json!({"serverRelativeURL": url}));
        let paths: Map<String, Value> = own.chain(external).map(entry).collect();
        // Upstream sets no type here, and Go detects text.
        let body = json!({"paths": paths}).to_string().into();
        let mut response = negotiated(StatusCode::OK, "text/plain; charset=utf-8", body);
        self.date(&mut response);
        response
    }

    fn v3(&self, path: &str, query: &str, headers: &http::HeaderMap, source: Source<'_>) -> Option<Response> {
        let document = self.groups.get(path)?;
        let Some(protobuf) = prefers_protobuf(headers, V3_PROTOBUF) else {
            let mut response = http::Response::new(transport::empty());
            *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
            return Some(response);
        };
        let hash = self.hash(document, source);
        let etag = format!("\"{hash}\"");
        let requested_hash = query.split('&').find_map(|pair| pair.strip_prefix("hash=")).filter(|it| !it.is_empty());
        if requested_hash.is_some_and(|requested_hash| requested_hash != hash) {
            let location = format!("/openapi/v3/{path}?hash={hash}");
            let media_type = if protobuf { V3_PROTOBUF } else { "application/json" };
            let mut response = negotiated(StatusCode::MOVED_PERMANENTLY, media_type, Default::default());
            let headers = response.headers_mut();
            headers.insert(header::LOCATION, HeaderValue::from_str(&location).ok()?);
            headers.insert(header::ETAG, HeaderValue::from_str(&etag).ok()?);
            headers.insert(header::VARY, HeaderValue::from_static("Accept"));
            return Some(response);
        }
        let mut response = if self.is_known(headers, &etag) {
            let mut response = http::Response::new(transport::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else if protobuf {
            // Few clients request it, and each once.
            Rendered::new(protobuf_v3::encode_document(&self.v3_value(document, source))).response(V3_PROTOBUF, headers)
        } else {
            self.v3_document(path, document, source).response("application/json", headers)
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, HeaderValue::from_str(&etag).ok()?);
        headers.append(header::VARY, HeaderValue::from_static("Accept"));
        // With the hash in its address the document cannot change.
        let caching = if requested_hash.is_some() { "public, immutable" } else { "no-cache, private" };
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        if requested_hash.is_some() {
            headers.insert(header::EXPIRES, HeaderValue::from_static(NEVER));
        }
        self.date(&mut response);
        Some(response)
    }

    fn v3_document(&self, path: &str, document: &GroupDocument, source: Source<'_>) -> Rendered {
        if let Some(rendered) = self.rendered.lock().get(path) {
            return rendered.clone();
        }
        let rendered = Rendered::new(self.v3_value(document, source).to_string().into());
        self.rendered.lock().insert(path.to_owned(), rendered.clone());
        rendered
    }

    fn v3_value(&self, document: &GroupDocument, source: Source<'_>) -> Value {
        let schema = |info: &ResourceInfo| schema_of(info, source);
        let mut renderer = Renderer::new(Dialect::V3, &schema);
        let mut paths = Map::new();
        for resource in &document.resources {
            paths::add(resource, &mut renderer, &mut paths);
        }
        json!({
            "openapi": "3.0.0",
            "info": {"title": format!("Kubernetes {}", document.group_version), "version": self.version},
            "paths": paths, "components": {"schemas": renderer.finish().schemas},
        })
    }
}

fn date_of(text: &str) -> Option<jiff::civil::DateTime> {
    jiff::civil::DateTime::strptime(HTTP_DATE, text).ok()
}

const HTTP_DATE: &str = "%a, %d %b %Y %H:%M:%S GMT";

/// The expiry of a document that cannot change.
const NEVER: &str = "Fri, 01 Jan 2100 00:00:00 GMT";

/// The client's preferred one of the two forms; `None`: neither is acceptable.
fn prefers_protobuf(headers: &http::HeaderMap, media_type: &str) -> Option<bool> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.trim().is_empty() {
        return Some(false);
    }
    // Older clients write the version with an `@`.
    let is_same_type = |name: &str| name.replacen('@', ".", 1) == media_type;
    let mut best: Option<(f32, bool)> = None;
    for alternative in accept.split(',') {
        let mut parts = alternative.split(';').map(str::trim);
        let form = match parts.next().unwrap_or_default() {
            name if is_same_type(name) => true,
            "application/json" | "application/*" | "*/*" => false,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        if best.is_none_or(|(known, _)| weight > known) {
            best = Some((weight, form));
        }
    }
    best.map(|(_, form)| form)
}

/// The name of the definition of a custom resource.
pub(crate) fn definition_name(info: &ResourceInfo) -> String {
    format!("{}.{}", info.resource.plural, info.resource.group)
}

fn schema_of(info: &ResourceInfo, source: Source<'_>) -> Option<Option<Value>> {
    let mut definition = source(&definition_name(info)).filter(|_| info.custom)?.to_value().ok()?;
    let versions = definition.pointer_mut("/spec/versions")?.as_array_mut()?;
    let version =
        versions.iter_mut().find(|version| version.get("name").is_some_and(|name| *name == *info.resource.version))?;
    Some(version.pointer_mut("/schema/openAPIV3Schema").map(Value::take))
}

/// A hash of all inputs of a document. Built-in types change with the version only, custom ones with their definitions.
fn fingerprint(version: &str, resources: &[Resource], source: Source<'_>) -> String {
    use std::fmt::Write;
    struct Sink(sha2::Sha256);
    impl Write for Sink {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut sink = Sink(sha2::Sha256::new());
    let mut feed = |arguments: std::fmt::Arguments<'_>| {
        // Writing into a hash cannot fail.
        let _ = sink.write_fmt(arguments);
    };
    feed(format_args!("{version}\n"));
    for resource in resources {
        let info = &resource.info;
        feed(format_args!("{:?} {:?} {:?}\n", info.resource, info.verbs, info.subresources));
        if info.custom {
            feed(format_args!("{:?}\n", info.selectable_fields));
            let definition = source(&definition_name(info));
            let written = definition.as_ref().map(|definition| (definition.uid(), definition.generation()));
            feed(format_args!("{written:?}\n"));
        }
    }
    hex::encode_upper(sink.0.finalize())
}

#[cfg(test)]
mod tests;
