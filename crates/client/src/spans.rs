//! Spans of the requests that are sent for a traced one.

use std::sync::Arc;

use http::Method;
use trace::{Kind, Span};
use transport::{Request, Response};

use crate::{Result, remote};

/// Sends a request: if the caller has a span, in a child span that the server can continue.
pub(crate) async fn sent(service: &remote::Service, host: &Arc<str>, mut request: Request) -> Result<Response> {
    let Some(mut span) = begin(host, &request) else { return remote::send(service, host, request).await };
    span.scope().propagate(request.headers_mut());
    let answer = remote::send(service, host, request).await;
    match &answer {
        Ok(response) => {
            span.set("http.response.status_code", response.status().as_u16());
            if response.status().is_client_error() || response.status().is_server_error() {
                span.fail("");
            }
        }
        Err(error) => span.fail(error.cause()),
    }
    answer
}

/// With the name and the attributes of OpenTelemetry's HTTP clients; no query and no header is in them.
fn begin(host: &str, request: &Request) -> Option<Span> {
    let name = match *request.method() {
        Method::GET => "HTTP GET",
        Method::POST => "HTTP POST",
        Method::PUT => "HTTP PUT",
        Method::PATCH => "HTTP PATCH",
        Method::DELETE => "HTTP DELETE",
        _ => "HTTP",
    };
    let mut span = trace::child(Kind::Client, name)?;
    span.set("http.request.method", request.method().to_string());
    span.set("server.address", host.to_owned());
    span.set("url.path", request.uri().path().to_owned());
    Some(span)
}
