//! `/api`, `/apis`, `/apis/G`, `/apis/G/V`: the served resources, in the legacy and the aggregated form.
//!
//! Documents are rendered from one snapshot of the served resources; a new snapshot creates a new [`Discovery`], which
//! costs nothing until it is requested. For unknown groups and versions the caller answers 404.

mod aggregated;
mod apis;
mod legacy;
mod negotiation;
pub(crate) mod order;

pub use apis::{Apis, ExternalVersion, Priority};
pub(crate) use legacy::describe_subresource;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use apimachinery::resource::Resource;
use apimachinery::{Status, StatusReason};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use transport::Response;

use negotiation::Form;

/// The resources of one group, versions in order of preference.
struct Group {
    name: String,
    versions: Vec<Version>,
}

struct Version {
    name: String,
    /// By plural name; empty for a foreign version.
    resources: Vec<Resource>,
    /// Set if another server serves it.
    external: Option<ExternalVersion>,
}

/// Discovery documents of one snapshot.
pub struct Discovery {
    groups: Vec<Group>,
    /// Aggregated documents: core and named groups, each in two versions.
    aggregated: [OnceLock<Document>; 4],
}

/// An encoded document and its strong entity tag.
#[derive(Clone)]
struct Document {
    body: Bytes,
    etag: String,
}

impl Discovery {
    /// The documents of these resources.
    pub fn new(resources: impl IntoIterator<Item = Resource>) -> Self {
        Self::with(resources, &Apis::default())
    }

    /// The documents of these resources and of other servers' group versions, in the order of the priorities.
    pub fn with(resources: impl IntoIterator<Item = Resource>, apis: &Apis) -> Self {
        Self { groups: group(resources, apis), aggregated: Default::default() }
    }

    /// Answers a GET of a discovery path; `host` is the server's name in the request. `None` if it is not a discovery
    /// path or names an unserved group.
    pub fn get(&self, path: &str, host: Option<&str>, headers: &http::HeaderMap) -> Option<Response> {
        let path = path.strip_suffix('/').unwrap_or(path);
        let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let root = matches!(segments.as_slice(), ["api" | "apis"]);
        let form = negotiation::choose(headers, root);
        let legacy = match segments.as_slice() {
            ["api"] | ["apis"] if matches!(form, Some(Form::Aggregated(_))) => {
                let Some(Form::Aggregated(version)) = form else { return None };
                return Some(self.aggregated(segments[0] == "api", version, headers));
            }
            ["api"] => line(&legacy::api_versions(&self.groups, host)),
            ["apis"] => line(&legacy::group_list(&self.groups)),
            ["api", version] => line(&legacy::resource_list("", self.version("", version)?)),
            ["apis", group] => line(&legacy::group(self.group(group)?)),
            ["apis", group, version] if !group.is_empty() => {
                let version = self.version(group, version)?;
                // The other server answers for itself.
                if version.external.is_some() {
                    return None;
                }
                line(&legacy::resource_list(group, version))
            }
            _ => return None,
        };
        Some(match form {
            Some(Form::Legacy(encoding)) => crate::wire::respond::document(StatusCode::OK, legacy, encoding),
            _ => not_acceptable(),
        })
    }

    fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name && !name.is_empty())
    }

    fn version(&self, group: &str, version: &str) -> Option<&Version> {
        let group = self.groups.iter().find(|candidate| candidate.name == group)?;
        group.versions.iter().find(|candidate| candidate.name == version)
    }

    fn aggregated(&self, core: bool, version: &'static str, headers: &http::HeaderMap) -> Response {
        let slot = usize::from(core) * 2 + usize::from(version == "v2");
        let document = self.aggregated[slot].get_or_init(|| {
            let groups = self.groups.iter().filter(|group| group.name.is_empty() == core);
            let body = line(&aggregated::group_list(groups, version));
            Document { etag: entity_tag(&body), body }
        });
        let type_ = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
        cached(document.clone(), &type_, headers)
    }
}

fn group(resources: impl IntoIterator<Item = Resource>, apis: &Apis) -> Vec<Group> {
    let mut grouped: BTreeMap<String, BTreeMap<String, BTreeMap<String, Resource>>> = BTreeMap::new();
    for resource in resources {
        let names = &resource.info.resource;
        let version = grouped.entry(names.group.clone()).or_default().entry(names.version.clone()).or_default();
        version.insert(names.plural.clone(), resource);
    }
    for (group, version) in apis.external.keys() {
        grouped.entry(group.clone()).or_default().entry(version.clone()).or_default().clear();
    }
    let mut groups: Vec<Group> = grouped
        .into_iter()
        .map(|(group, versions)| {
            let version = |(name, resources): (String, BTreeMap<String, Resource>)| {
                let external = apis.external.get(&(group.clone(), name.clone())).cloned();
                Version { name, resources: resources.into_values().collect(), external }
            };
            let mut versions: Vec<Version> = versions.into_iter().map(version).collect();
            versions.sort_by(|a, b| {
                let priority = |version: &Version| apis.version_priority(&group, &version.name);
                priority(b).cmp(&priority(a)).then_with(|| order::compare_versions(&a.name, &b.name))
            });
            Group { name: group, versions }
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(apis.group_priority(&group.name)));
    groups
}

fn line(document: &impl serde::Serialize) -> Bytes {
    let mut text = serde_json::to_vec(document).expect("strings, flags and lists of them are JSON");
    text.push(b'\n');
    text.into()
}

pub(crate) fn entity_tag(body: &[u8]) -> String {
    use sha2::Digest;
    format!("\"{}\"", hex::encode_upper(sha2::Sha512::digest(body)))
}

/// 304 when the client has this very document.
fn cached(document: Document, content_type: &str, headers: &http::HeaderMap) -> Response {
    let mut response = if is_current(headers, &document.etag) {
        let mut response = http::Response::new(transport::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        negotiated(StatusCode::OK, content_type, document.body)
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    if let Ok(etag) = HeaderValue::from_str(&document.etag) {
        headers.insert(header::ETAG, etag);
    }
    response
}

/// Whether the client has this version. Proxies that compress a response weaken its tag.
pub(crate) fn is_current(headers: &http::HeaderMap, etag: &str) -> bool {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_same = |tag: &str| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag;
    known.is_some_and(|known| known.split(',').any(|tag| is_same(tag.trim())))
}

pub(crate) fn negotiated(status: StatusCode, content_type: &str, body: Bytes) -> Response {
    let mut response = http::Response::new(transport::full(body));
    *response.status_mut() = status;
    if let Ok(value) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

fn not_acceptable() -> Response {
    let accepted = "only the following media types are accepted: application/json, application/yaml, \
                    application/vnd.kubernetes.protobuf";
    let status = Status::failure(StatusReason::NotAcceptable, accepted);
    let body = serde_json::to_vec(&status).unwrap_or_default();
    negotiated(StatusCode::NOT_ACCEPTABLE, "application/json", body.into())
}

/// A snapshot that can be replaced while it is read.
pub type Shared = arc_swap::ArcSwap<Discovery>;

/// The first snapshot, for a new server.
pub fn shared(resources: impl IntoIterator<Item = Resource>) -> Shared {
    Shared::new(Arc::new(Discovery::new(resources)))
}

#[cfg(test)]
mod tests;
