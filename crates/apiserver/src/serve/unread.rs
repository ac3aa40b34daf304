//! Request bodies that nobody read to their end, as when a path is not served. Over HTTP/2 the stream would be reset with the
//! answer, and clients that are still sending (curl is one) then lose the answer too; so what is left is read and thrown
//! away, within bounds. Over HTTP/1.1 the connection takes care of that itself.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use transport::BoxError;

/// Bytes read for nothing: what fits into the window a client may fill without being asked.
const MOST: usize = 64 * 1024;
const LONGEST: Duration = Duration::from_secs(1);

/// The body of a request over HTTP/2.
pub(super) struct Unread(Option<Incoming>);

impl Unread {
    pub(super) fn new(body: Incoming) -> Self {
        Self(Some(body))
    }
}

impl Body for Unread {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Some(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let Some(body) = self.0.take().filter(|body| !body.is_end_stream()) else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(LONGEST, discard(body)));
        }
    }
}

async fn discard(mut body: Incoming) {
    let mut left = MOST;
    while let Some(Ok(frame)) = body.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}
