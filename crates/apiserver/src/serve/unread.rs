//! Request bodies that were not read to their end, for example for an unserved path or an unknown user. Clients that
//! are still sending (curl over HTTP/2, Python over HTTP/1.1) lose a response that comes with a reset, so the rest is
//! read and discarded, within bounds.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use transport::{BoxError, Response};

/// Bytes to discard over HTTP/2: the window that a client may fill without a window update.
const MOST: usize = 64 * 1024;
/// HTTP/1.1 has no window, and the kernel resets a connection that is closed with unread bytes: an object at the bound
/// on bodies (3 MiB) with its overhead.
const MOST_HTTP1: usize = 4 * 1024 * 1024;
const LONGEST: Duration = Duration::from_secs(1);

/// The body of a request.
pub(super) struct Unread {
    body: Option<Incoming>,
    most: usize,
    /// Set when the body is dropped before its end.
    left: Option<Arc<AtomicBool>>,
}

/// The body of `request`, and over HTTP/1.1, if it has one, a handle that shows whether it was read to its end.
pub(super) fn watched(request: http::Request<Incoming>) -> (http::Request<Unread>, Option<Arc<AtomicBool>>) {
    let is_http2 = request.version() == http::Version::HTTP_2;
    let left = (!is_http2 && !request.body().is_end_stream()).then(Arc::<AtomicBool>::default);
    let most = match is_http2 {
        true => MOST,
        // Reading would send 100-continue, and the client would begin.
        false if request.headers().contains_key(EXPECT) => 0,
        false => MOST_HTTP1,
    };
    let watch = left.clone();
    (request.map(|body| Unread { body: Some(body), most, left }), watch)
}

/// Adds `Connection: close` to an early refusal. Requests after it would wait for the rest of the body.
pub(super) fn close_after_refusal(left: Option<&AtomicBool>, response: &mut Response) {
    let is_refusal =
        [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::PAYLOAD_TOO_LARGE].contains(&response.status());
    if is_refusal && left.is_some_and(|left| left.load(Ordering::Acquire)) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

impl Body for Unread {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        if let Some(left) = &self.left {
            left.store(true, Ordering::Release);
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && self.most > 0
        {
            runtime.spawn(tokio::time::timeout(LONGEST, discard(body, self.most)));
        }
    }
}

async fn discard(mut body: Incoming, mut left: usize) {
    while let Some(Ok(frame)) = body.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}
