//! The sizes of bodies, of requests and of responses.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use metrics::{Buckets, Description, Histogram, Histograms, Registry};
use transport::{Body, BoxError, Response};

use super::{labels, verb};
use crate::request::RequestInfo;

pub const BODIES: Description = Description::histogram(
    "apiserver_request_body_size_bytes",
    &["group", "resource", "verb"],
    Buckets::Listed(&[
        50_000.0,
        150_000.0,
        250_000.0,
        350_000.0,
        450_000.0,
        550_000.0,
        650_000.0,
        750_000.0,
        850_000.0,
        950_000.0,
        1_050_000.0,
        1_550_000.0,
        2_050_000.0,
        2_550_000.0,
        3_050_000.0,
    ]),
    "Bytes of the bodies of writes whose clients send the length.",
);
pub const RESPONSES: Description = Description::histogram(
    "apiserver_response_sizes",
    &["verb", "group", "version", "resource", "subresource", "scope", "component"],
    Buckets::Exponential { start: 1000.0, factor: 10.0, count: 7 },
    "Bytes of the responses to GET and LIST, as they are sent.",
);

/// Both families.
#[derive(Debug)]
pub(crate) struct Bodies {
    requests: Histograms,
    responses: Histograms,
}

impl Bodies {
    pub fn new(registry: &Registry) -> Self {
        Self { requests: registry.histograms(&BODIES), responses: registry.histograms(&RESPONSES) }
    }

    /// Observes the body of a write.
    pub fn requested(&self, info: &RequestInfo, headers: &HeaderMap) {
        if !matches!(info.verb, "create" | "update" | "patch" | "delete") {
            return;
        }
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u32>().ok());
        if let Some(length) = length {
            self.requests.observe(&[&info.group, &info.resource, info.verb], f64::from(length));
        }
    }

    /// Observes the response to a read of a known resource: at once if its length is known, otherwise when it has been
    /// sent.
    pub fn responded(&self, info: &RequestInfo, response: Response) -> Response {
        if !matches!(verb(info), "GET" | "LIST") {
            return response;
        }
        let [verb, _, group, version, resource, subresource, scope, component] = labels(info, true);
        let size = self.responses.of(&[verb, group, version, resource, subresource, scope, component]);
        match response.body().size_hint().exact() {
            Some(exact) => {
                size.observe(exact as f64);
                response
            }
            None => response.map(|body| Counted { body, sent: 0, size }.boxed_unsync()),
        }
    }

    pub fn forget(&self, labels: &[(&str, &str)]) {
        self.requests.remove(labels);
        self.responses.remove(labels);
    }
}

/// Counts the bytes of a body.
struct Counted {
    body: Body,
    sent: u64,
    size: Histogram,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            self.sent += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.size.observe(self.sent as f64);
    }
}
