//! Encodes requests, and decodes responses into objects, lists and errors.

use std::sync::Arc;

use apimachinery::status::StatusReason;
use apimachinery::{ApiResource, Object, Status, raw_json};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use transport::{Draft, ObjectList, Request};

use crate::Error;

pub(crate) fn request(method: http::Method, path: &str, body: Bytes, content_type: &str) -> Result<Request, Error> {
    let mut builder = http::Request::builder().method(method).uri(path).header(ACCEPT, "application/json");
    if !body.is_empty() {
        builder = builder.header(CONTENT_TYPE, content_type);
    }
    let body = if body.is_empty() { transport::empty() } else { transport::full(body) };
    builder.body(body).map_err(|e| Error::encode(path, e))
}

/// A request whose body is encoded only for readers that need bytes; a server in this process takes the tree.
pub(crate) fn draft(
    method: http::Method,
    path: &str,
    document: Value,
    content_type: &'static str,
) -> Result<Request, Error> {
    let draft = Draft::new(document);
    let body = draft.body();
    http::Request::builder()
        .method(method)
        .uri(path)
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, content_type)
        .extension(draft)
        .body(body)
        .map_err(|e| Error::encode(path, e))
}

/// Requests metadata only; a server that does not support it returns whole objects.
pub(crate) fn metadata_only(request: &mut Request, kind: &str) {
    let accept = format!("application/json;as={kind};g=meta.k8s.io;v=v1,application/json");
    if let Ok(accept) = http::HeaderValue::from_str(&accept) {
        request.headers_mut().insert(ACCEPT, accept);
    }
}

pub(crate) fn read(path: &str, accept: &str) -> Result<Request, Error> {
    let builder = http::Request::get(path).header(ACCEPT, accept);
    builder.body(transport::empty()).map_err(|e| Error::encode(path, e))
}

/// Prepends a prefix to a request's path.
pub(crate) fn prefix(request: &mut Request, prefix: &str) -> Result<(), Error> {
    let own = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let uri = format!("{prefix}{own}").parse().map_err(|e| Error::encode(prefix, e))?;
    *request.uri_mut() = uri;
    Ok(())
}

/// The name of a request in error messages.
pub(crate) fn attempt(request: &Request) -> String {
    Attempt::of(request).to_string()
}

/// The name of a request, which becomes text only in an error.
pub(crate) struct Attempt(http::Method, http::Uri);

impl Attempt {
    pub fn of(request: &Request) -> Self {
        Self(request.method().clone(), request.uri().clone())
    }
}

impl std::fmt::Display for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0, self.1.path())
    }
}

/// Parses an object from text that is known to be JSON. Without `owners` its managed fields are dropped: they are half
/// of the memory it would take.
pub(crate) fn parse(json: &str, owners: bool) -> Result<Arc<Object>, serde_json::Error> {
    let cut = if owners { None } else { raw_json::without(json.as_bytes(), "metadata", "managedFields") };
    Object::parse_valid(cut.unwrap_or_else(|| json.as_bytes().to_vec())).map(Arc::new)
}

pub(crate) fn object(attempt: &str, kind: &str, bytes: Bytes) -> Result<Arc<Object>, Error> {
    let object = Object::parse(bytes).map_err(|e| Error::decode(attempt, e))?;
    if object.kind() != kind {
        return Err(wrong_kind(attempt, object.kind(), kind));
    }
    Ok(object.shared())
}

/// The response to a deletion is the object, a list, or a Status. Another document is that of an intermediary which did
/// not forward the request.
pub(crate) fn deleted(attempt: &str, bytes: &[u8]) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        kind: String,
        #[serde(default)]
        status: Value,
    }
    let answer: Answer = serde_json::from_slice(bytes).map_err(|e| Error::decode(attempt, e))?;
    match answer.kind.as_str() {
        "" => Err(Error::decode(attempt, "it is neither an object nor a Status")),
        "Status" if answer.status != "Success" => Err(Error::decode(attempt, "a Status without success")),
        _ => Ok(()),
    }
}

fn wrong_kind(attempt: &str, is: &str, required: &str) -> Error {
    Error::decode(attempt, other_kind(is, required))
}

fn other_kind(is: &str, required: &str) -> String {
    let is: String = is.chars().take(64).collect();
    format!("its kind is {is:?}, not {required:?}")
}

#[derive(Deserialize)]
struct WireList<'a> {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: WireListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
    remaining_item_count: Option<u64>,
}

/// Splits a list into separate objects, so that keeping one object does not keep the whole response in memory.
pub(crate) fn list(attempt: &str, resource: &ApiResource, bytes: &[u8], owners: bool) -> Result<ObjectList, Error> {
    let list: WireList<'_> = serde_json::from_slice(bytes).map_err(|e| Error::decode(attempt, e))?;
    // A response that is not a list must not read as an empty list: objects missing from a list count as deleted. Other
    // kinds are accepted, because a definition chooses the name of its list kind.
    if ["", "Status", &resource.kind].contains(&list.kind.as_str()) {
        return Err(wrong_kind(attempt, &list.kind, &format!("{}List", resource.kind)));
    }
    let items = list.items.unwrap_or_default();
    let items = items.into_iter().map(|raw| item(resource, raw.get(), owners));
    Ok(ObjectList {
        items: items.collect::<Result<_, _>>().map_err(|e| Error::decode(attempt, e))?,
        resource_version: revision(attempt, &list.metadata.resource_version)?,
        continue_token: list.metadata.continue_token.unwrap_or_default(),
        remaining: list.metadata.remaining_item_count,
    })
}

/// An object of a list or of a watch event. Items of built-in kinds omit `apiVersion` and `kind`. One of another kind
/// must not get into a cache, where it would stand for the object of its name.
///
/// # Errors
/// For text that is no object, and for an object that is neither of the resource's kind nor its metadata alone.
pub(crate) fn item(resource: &ApiResource, json: &str, owners: bool) -> Result<Arc<Object>, serde_json::Error> {
    let object = parse(json, owners)?;
    if [resource.kind.as_str(), "PartialObjectMetadata"].contains(&object.kind()) {
        return Ok(object);
    }
    if !object.kind().is_empty() {
        return Err(serde::de::Error::custom(other_kind(object.kind(), &resource.kind)));
    }
    let rest = json.trim_start().trim_start_matches('{').trim_start();
    let comma = if rest.starts_with('}') { "" } else { "," };
    let api_version = resource.api_version();
    let full = format!(r#"{{"apiVersion":"{api_version}","kind":"{}"{comma}{rest}"#, resource.kind);
    parse(&full, owners)
}

/// Since Kubernetes 1.35 resource versions are documented as comparable integers; earlier servers used integers too. An
/// absent one (a list of a proxy or an aggregated server) reads as 0.
pub(crate) fn revision(attempt: &str, text: &str) -> Result<u64, Error> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| Error::decode(attempt, format_args!("resourceVersion {text:?} is not an integer")))
}

/// The error for an unsuccessful response.
pub(crate) fn refusal(code: http::StatusCode, body: &[u8]) -> Error {
    match serde_json::from_slice::<Status>(body) {
        Ok(mut status) if status.kind == "Status" => {
            if status.code == 0 {
                status.code = code.as_u16();
            }
            if status.message.is_empty() {
                status.message = default_message(code);
            }
            status.into()
        }
        _ => refusal_without_status(code, body).into(),
    }
}

/// A response that is not a Status comes from an intermediary (a proxy), or from a handler such as `/readyz`.
fn refusal_without_status(code: http::StatusCode, body: &[u8]) -> Status {
    let reason = match code.as_u16() {
        400 => StatusReason::BadRequest,
        401 => StatusReason::Unauthorized,
        403 => StatusReason::Forbidden,
        404 => StatusReason::NotFound,
        405 => StatusReason::MethodNotAllowed,
        406 => StatusReason::NotAcceptable,
        409 => StatusReason::Conflict,
        410 => StatusReason::Gone,
        413 => StatusReason::RequestEntityTooLarge,
        415 => StatusReason::UnsupportedMediaType,
        422 => StatusReason::Invalid,
        429 => StatusReason::TooManyRequests,
        503 => StatusReason::ServiceUnavailable,
        504 => StatusReason::Timeout,
        _ => StatusReason::InternalError,
    };
    // The first line of an HTML page is enough to identify the proxy.
    let text = String::from_utf8_lossy(&body[..body.len().min(512)]);
    let text = text.lines().next().unwrap_or_default().trim();
    let text = if text.is_empty() { code.canonical_reason().unwrap_or("unknown") } else { text };
    let mut status = Status::failure(reason, format!("the server answered {}: {text}", code.as_u16()));
    status.code = code.as_u16();
    status
}

/// The message for a Status without one.
fn default_message(code: http::StatusCode) -> String {
    let unknown = || format!("the server answered {}: {}", code.as_u16(), code.canonical_reason().unwrap_or("unknown"));
    generic_message(code).map_or_else(unknown, str::to_owned)
}

/// client-go's message about a response without a usable Status, for the codes of which it has one.
pub fn generic_message(code: http::StatusCode) -> Option<&'static str> {
    Some(match code.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 => "the server was unable to respond with a content type that the client supports",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_items_get_their_kind() {
        let pods = ApiResource::namespaced("", "v1", "Pod", "pods");
        let body = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"12","continue":"t","remainingItemCount":3},
            "items":[ {"metadata":{"name":"a","namespace":"n"}}, {"kind":"Pod","apiVersion":"v1","metadata":{"name":"b"}}, {} ]}"#;
        let list = list("GET /", &pods, body, true).expect("a list");
        assert_eq!((list.resource_version, list.continue_token.as_str(), list.remaining), (12, "t", Some(3)));
        let names: Vec<_> =
            list.items.iter().map(|i| format!("{} {} {}", i.api_version(), i.kind(), i.key())).collect();
        assert_eq!(names, ["v1 Pod n/a", "v1 Pod b", "v1 Pod "]);
        assert!(list.items.iter().all(|i| i.to_value().is_ok()));
        let empty = super::list("GET /", &pods, br#"{"kind":"PodList","items":null,"metadata":{}}"#, true)
            .expect("an empty list");
        assert!(empty.items.is_empty() && empty.resource_version == 0);
    }

    #[test]
    fn errors_have_the_servers_message_or_the_code() {
        let status = serde_json::to_vec(&Status::not_found("apps", "deployments", "x")).expect("encodes");
        let error = refusal(http::StatusCode::NOT_FOUND, &status);
        assert!(error.is_not_found());
        assert_eq!(error.to_string(), r#"deployments.apps "x" not found"#);
        let error = refusal(http::StatusCode::BAD_GATEWAY, b"<html>\nno route");
        assert_eq!(error.to_string(), "the server answered 502: <html>");
        for (code, body, expected) in [
            (401, "", "the server answered 401: Unauthorized"),
            (
                401,
                r#"{"kind":"Status","reason":"Unauthorized"}"#,
                "the server has asked for the client to provide credentials",
            ),
            (401, "denied", "the server answered 401: denied"),
            (403, "", "the server answered 403: Forbidden"),
            (403, r#"{"kind":"Status","reason":"Forbidden","code":403}"#, "the server answered 403: Forbidden"),
            (503, r#"{"kind":"Status"}"#, "the server is currently unable to handle the request"),
        ] {
            let error = refusal(http::StatusCode::from_u16(code).expect("a code"), body.as_bytes());
            assert_eq!(error.to_string(), expected, "{code} {body}");
            assert_eq!(error.is_unauthorized(), code == 401);
        }
    }
}
