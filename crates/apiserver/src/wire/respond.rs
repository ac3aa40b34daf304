//! Building replies.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use apimachinery::Object;
use apimachinery::{Status, StatusReason};
use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, Collected};
use serde_json::Value;
use transport::{Body, BoxError, Payload, Response, empty, full};

use crate::limits::budget::{PIECE, Produced};
use crate::wire::negotiate::Encoding;
use crate::wire::rows::Rows;
use crate::wire::splice::Splice;

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A list of whole objects in the form the client accepts, which holds `held` bytes while it is sent.
pub async fn list(list: Splice, held: usize, encoding: Encoding) -> Response {
    if encoding == Encoding::Json {
        let produced = list.produced(held);
        let body = list.map_err(|never| match never {}).boxed_unsync();
        return with_produced(with_type(StatusCode::OK, body, "application/json"), produced);
    }
    let whole = list.collect().await.map_or_else(|never| match never {}, Collected::to_bytes);
    document(StatusCode::OK, whole, encoding)
}

/// A list in another shape. Small ones are sent as a whole.
pub(crate) fn rows(mut rows: Rows, encoding: Encoding) -> Result<Response, Status> {
    let most = if encoding == Encoding::Json { crate::wire::finish::WORTH_COMPRESSING } else { usize::MAX };
    if rows.write(most)? {
        return Ok(document(StatusCode::OK, rows.written().into(), encoding));
    }
    let produced = Produced { held: rows.size(), shared: false, to_begin: 0 };
    Ok(with_produced(with_type(StatusCode::OK, rows.boxed_unsync(), "application/json"), produced))
}

fn with_produced(mut response: Response, produced: Produced) -> Response {
    response.extensions_mut().insert(produced);
    response
}

fn with_type(code: StatusCode, body: Body, media_type: &'static str) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A document in the form the client accepts.
pub fn document(code: StatusCode, json: Bytes, encoding: Encoding) -> Response {
    let (bytes, media_type) = match encoding {
        Encoding::Json => (json, "application/json"),
        Encoding::Yaml => match to_yaml(&json) {
            Ok(yaml) => (yaml, "application/yaml"),
            Err(status) => return failure(&status),
        },
        Encoding::Protobuf => match to_protobuf(&json) {
            Ok(bytes) => (bytes, PROTOBUF),
            Err(status) => return failure(&status),
        },
    };
    with_type(code, full(bytes), media_type)
}

fn to_yaml(json: &[u8]) -> Result<Bytes, Status> {
    let tree: Value = serde_json::from_slice(json).map_err(crate::errors::document)?;
    Ok(apimachinery::yaml::to_string(&tree).into())
}

fn to_protobuf(json: &[u8]) -> Result<Bytes, Status> {
    kubernetes_api::protobuf::encode(json).map(Bytes::from).map_err(no_protobuf)
}

/// A list of whole objects as protobuf; `head` is the list without its items.
///
/// # Errors
/// 406 for kinds without a protobuf form.
pub fn protobuf_list(head: &[u8], items: &[Arc<Object>]) -> Result<Response, Status> {
    let items: Vec<_> = items.iter().map(|item| item.json()).collect();
    let items = items.iter().map(|item| &item[..]);
    let bytes = kubernetes_api::protobuf::encode_list(head, items).map_err(no_protobuf)?;
    Ok(with_type(StatusCode::OK, full(bytes), PROTOBUF))
}

/// Some kinds have no such form, tables among them.
pub(crate) fn no_protobuf(error: kubernetes_api::protobuf::ProtobufError) -> Status {
    Status::failure(
        StatusReason::NotAcceptable,
        format!("only the following media types are accepted: application/json, application/yaml ({error})"),
    )
}

/// A tree as JSON.
pub fn value(code: StatusCode, value: &Value) -> Response {
    match serde_json::to_vec(value) {
        Ok(json) => document(code, json.into(), Encoding::Json),
        Err(error) => failure(&Status::internal(error)),
    }
}

/// [`value`] in the form the client accepts.
pub fn negotiated(code: StatusCode, value: &Value, headers: &http::HeaderMap) -> Response {
    match serde_json::to_vec(value) {
        Ok(json) => document(code, json.into(), crate::wire::negotiate::error_encoding(headers)),
        Err(error) => failure(&Status::internal(error)),
    }
}

/// Shared objects instead of bytes, for callers in this process.
pub fn payload(code: StatusCode, payload: Payload) -> Response {
    let mut response = Response::new(empty());
    *response.status_mut() = code;
    response.extensions_mut().insert(payload);
    response
}

/// An object in the requested encoding; with `shared`, the cache's own object for a caller in this process.
pub fn object(code: StatusCode, object: &Arc<Object>, encoding: Encoding, shared: bool) -> Response {
    if shared {
        return payload(code, Payload::Object(Arc::clone(object)));
    }
    let json = object.json();
    if encoding == Encoding::Json && json.len() > PIECE {
        // Sent from where it is stored, unless it is packed.
        let held = if object.is_packed() { json.len() } else { 0 };
        let response = with_type(code, Line(json, Bytes::from_static(b"\n")).boxed_unsync(), "application/json");
        return with_produced(response, Produced { held, shared: false, to_begin: 0 });
    }
    let mut json = json.to_vec();
    json.push(b'\n');
    document(code, json.into(), encoding)
}

/// A document and the end of its line.
struct Line(Bytes, Bytes);

impl http_body::Body for Line {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let part = if this.0.is_empty() { &mut this.1 } else { &mut this.0 };
        let part = std::mem::take(part);
        Poll::Ready((!part.is_empty()).then(|| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty() && self.1.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((self.0.len() + self.1.len()) as u64)
    }
}

/// A failure, as every client expects it.
pub fn failure(status: &Status) -> Response {
    failure_as(status, Encoding::Json)
}

/// [`failure`] for clients that accept another encoding than JSON.
pub fn failure_as(status: &Status, encoding: Encoding) -> Response {
    let json = serde_json::to_vec(status).unwrap_or_default();
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = document(code, json.into(), encoding);
    let seconds = status.details.as_ref().and_then(|details| details.retry_after_seconds);
    if let Some(seconds) = seconds {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Numbers in Prometheus' text form.
pub fn text(text: String) -> Response {
    let mut response = Response::new(full(text));
    let type_ = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    response.headers_mut().insert(CONTENT_TYPE, type_);
    response
}

/// kube-apiserver's response to unknown paths.
pub fn page_not_found() -> Response {
    let mut response = Response::new(full("404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
