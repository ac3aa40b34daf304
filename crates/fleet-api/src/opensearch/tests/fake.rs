//! A simulated OpenSearch that is as strict as a real one, with faults.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use transport::{ApiService, Request, Response};

use super::at;

const CLUSTER: [&str; 3] = ["metadata", "annotations", "resource.karmada.io/cached-from-cluster"];

/// A response instead of the right one.
#[derive(Clone, Debug)]
pub enum Fault {
    Status(u16),
    StatusAfter(u16, u64),
    Text(&'static str),
    Redirect(&'static str),
    Hang,
}

#[derive(Default)]
pub struct Fake {
    pub documents: BTreeMap<String, BTreeMap<String, Value>>,
    /// The mapping of `metadata` by index.
    pub mappings: BTreeMap<String, Value>,
    pub log: Vec<String>,
    /// The next responses by method and path.
    pub faults: HashMap<String, Vec<Fault>>,
    /// Errors of documents by id: so many times a status.
    pub items: HashMap<String, (u16, usize)>,
    /// Larger requests are answered 413.
    pub most_bytes: Option<usize>,
    /// A document whose presence fails a whole request.
    pub poison: Option<String>,
    pub unknown_types: Vec<String>,
    /// The only user.
    pub user: Option<String>,
    /// Hits in a page; 0 for as many as requested.
    pub page: usize,
    pub scrolls: BTreeMap<String, Vec<Value>>,
}

type Answer = (u16, Value);

fn error(code: u16, type_: &str, reason: &str) -> Answer {
    (code, json!({"error": {"root_cause": [], "type": type_, "reason": reason}, "status": code}))
}

impl Fake {
    pub fn put(&mut self, index: &str, id: &str, cluster: &str, version: u64) {
        let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": id, "namespace": "default",
            "resourceVersion": version.to_string(), "annotations": {CLUSTER[2]: cluster}}});
        self.documents.entry(index.to_owned()).or_default().insert(id.to_owned(), document);
    }

    /// The versions of all documents by id.
    pub fn versions(&self) -> BTreeMap<String, u64> {
        let version = |it: &Value| it["metadata"]["resourceVersion"].as_str().and_then(|it| it.parse().ok());
        let documents = self.documents.values().flatten();
        documents.map(|(id, it)| (id.clone(), version(it).unwrap_or_default())).collect()
    }

    pub fn count(&self, request: &str) -> usize {
        self.log.iter().filter(|it| *it == request).count()
    }

    fn fault(&mut self, request: &str) -> Option<Fault> {
        let faults = self.faults.get_mut(request)?;
        (!faults.is_empty()).then(|| faults.remove(0))
    }

    fn respond(&mut self, method: &str, path: &str, headers: &HeaderMap, body: &[u8]) -> Answer {
        if let Some(user) = &self.user {
            let expected = format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(format!("{user}:")));
            if headers.get(header::AUTHORIZATION).is_none_or(|it| it.as_bytes() != expected.as_bytes()) {
                return (401, json!("Unauthorized"));
            }
        }
        let media = headers.get(header::CONTENT_TYPE).map(|it| it.to_str().expect("text").to_owned());
        if path == "/_bulk" {
            assert_eq!(media.as_deref(), Some("application/x-ndjson"));
            return self.bulk(body);
        }
        assert_eq!(media.as_deref(), Some("application/json"));
        let body: Value = serde_json::from_slice(body).expect("JSON");
        match (method, path.strip_suffix("/_search")) {
            ("POST", Some(index)) => self.search(index.trim_start_matches('/'), &body),
            ("POST", None) if path == "/_search/scroll" => self.scroll(body["scroll_id"].as_str().expect("an id")),
            ("DELETE", None) if path == "/_search/scroll" => {
                self.scrolls.remove(body["scroll_id"][0].as_str().expect("an id")).expect("a search");
                (200, json!({"succeeded": true}))
            }
            ("PUT", None) => self.create(path.trim_start_matches('/'), &body),
            _ => error(405, "method", path),
        }
    }

    fn create(&mut self, index: &str, body: &Value) -> Answer {
        let forbidden = |it: char| it.is_uppercase() || " ,:\"*+/\\|?#><".contains(it);
        if index.starts_with(['_', '-']) || index.contains(forbidden) {
            return error(400, "invalid_index_name_exception", index);
        }
        if self.documents.contains_key(index) {
            return error(400, "resource_already_exists_exception", &format!("index [{index}/x] already exists"));
        }
        let metadata = at(body, &["mappings", "properties", "metadata", "properties"]);
        if let Some(unknown) = self.unknown_types.iter().find(|it| metadata["labels"]["type"] == it.as_str()) {
            let reason = format!("No handler for type [{unknown}] declared on field [labels]");
            return error(400, "mapper_parsing_exception", &reason);
        }
        self.mappings.insert(index.to_owned(), metadata.clone());
        self.documents.entry(index.to_owned()).or_default();
        (200, json!({"acknowledged": true}))
    }

    fn bulk(&mut self, body: &[u8]) -> Answer {
        if self.most_bytes.is_some_and(|most| body.len() > most) {
            return error(413, "content_too_long", "too large");
        }
        let text = std::str::from_utf8(body).expect("UTF-8");
        if self.poison.as_ref().is_some_and(|id| text.contains(&format!("\"_id\":\"{id}\""))) {
            return error(400, "illegal_argument_exception", "Malformed action/metadata line");
        }
        assert!(text.ends_with('\n'), "The bulk request must be terminated by a newline [\\n]");
        let (mut lines, mut items) = (text.lines(), Vec::new());
        while let Some(line) = lines.next() {
            let action: Value = serde_json::from_str(line).expect("an action");
            let (verb, target) = action.as_object().and_then(|it| it.iter().next()).expect("an action");
            assert!(target.get("_type").is_none());
            let (index, id) = (target["_index"].as_str().expect("an index"), target["_id"].as_str().expect("an id"));
            let document = (verb == "index").then(|| lines.next().expect("a document"));
            let status = self.item(index, id, document);
            let mut item = json!({"status": status});
            if status >= 400 && status != 404 {
                item["error"] = json!({"type": "mapper_parsing_exception", "reason": "failed to parse"});
            }
            items.push(json!({ verb: item }));
        }
        (200, json!({"errors": false, "items": items}))
    }

    fn item(&mut self, index: &str, id: &str, document: Option<&str>) -> u16 {
        if let Some((status, times)) = self.items.get_mut(id)
            && *times > 0
        {
            *times -= 1;
            return *status;
        }
        let documents = self.documents.entry(index.to_owned()).or_default();
        match document {
            Some(document) => {
                documents.insert(id.to_owned(), serde_json::from_str(document).expect("a document"));
                201
            }
            None if documents.remove(id).is_some() => 200,
            None => 404,
        }
    }

    fn search(&mut self, index: &str, body: &Value) -> Answer {
        let Some(documents) = self.documents.get(index) else { return error(404, "index_not_found_exception", index) };
        let terms = body["query"]["bool"]["should"].as_array().expect("terms");
        let (_, cluster) = terms[0]["term"].as_object().and_then(|it| it.iter().next()).expect("a term");
        let found = documents.iter().filter(|(_, it)| at(it, &CLUSTER) == cluster);
        let hits = found.map(|(id, it)| json!({"_index": index, "_id": id, "_source": it})).collect();
        let id = format!("scroll-{}", self.log.len());
        self.scrolls.insert(id.clone(), hits);
        let size = usize::try_from(body["size"].as_u64().expect("a size")).expect("a size");
        self.page = if self.page == 0 { size } else { self.page };
        self.scroll(&id)
    }

    fn scroll(&mut self, id: &str) -> Answer {
        let page = self.page;
        let Some(hits) = self.scrolls.get_mut(id) else { return error(404, "search_context_missing_exception", id) };
        let page: Vec<Value> = hits.drain(..hits.len().min(page)).collect();
        (200, json!({"_scroll_id": id, "timed_out": false, "hits": {"total": {"value": 1}, "hits": page}}))
    }
}

fn response(code: u16, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(transport::full(body));
    *response.status_mut() = StatusCode::from_u16(code).expect("a status");
    response
}

async fn answer(fake: Arc<Mutex<Fake>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let (method, path) = (parts.method.as_str(), parts.uri.path());
    let line = format!("{method} {path}");
    let fault = {
        let mut fake = fake.lock();
        fake.log.push(line.clone());
        fake.fault(&line)
    };
    match fault {
        None => {
            let (code, body) = fake.lock().respond(method, path, &parts.headers, &body);
            response(code, body.to_string())
        }
        Some(Fault::Status(code)) => response(code, error(code, "some_exception", "a reason").1.to_string()),
        Some(Fault::StatusAfter(code, seconds)) => {
            let mut response = response(code, "");
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            response
        }
        Some(Fault::Text(text)) => response(200, text),
        Some(Fault::Redirect(to)) => {
            let mut response = response(302, "");
            response.headers_mut().insert(header::LOCATION, http::HeaderValue::from_static(to));
            response
        }
        Some(Fault::Hang) => std::future::pending().await,
    }
}

/// The service, for clients in this process.
pub fn service(fake: &Arc<Mutex<Fake>>) -> ApiService {
    let fake = fake.clone();
    ApiService::new(tower::service_fn(move |request: Request| {
        let fake = fake.clone();
        async move { Ok::<_, Infallible>(answer(fake, request).await) }
    }))
}

/// An API server that refuses everything.
pub fn refusing() -> ApiService {
    ApiService::new(tower::service_fn(|_: Request| async { Ok::<_, Infallible>(response(503, "")) }))
}
