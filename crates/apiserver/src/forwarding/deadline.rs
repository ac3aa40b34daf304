//! A response body of another server that has to be complete in time. The time limit of a request covers its handler,
//! which is done when the response begins.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, Sleep};
use transport::{Body, BoxError};

/// The body, which fails at `end` unless it is complete by then.
pub fn complete_by(end: Instant, body: Body) -> Body {
    if http_body::Body::is_end_stream(&body) {
        return body;
    }
    Timed { body, end: Box::pin(tokio::time::sleep_until(end)) }.boxed_unsync()
}

struct Timed {
    body: Body,
    end: Pin<Box<Sleep>>,
}

impl http_body::Body for Timed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        // First, because a body without an end may always have another frame.
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err("the response of the other server was not complete in time".into())));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::stream;

    use super::*;

    async fn collected(body: Body) -> Result<usize, String> {
        let end = Instant::now() + Duration::from_secs(60);
        let whole = complete_by(end, body).collect().await.map_err(|error| error.to_string());
        assert!(Instant::now() <= end + Duration::from_millis(2));
        whole.map(|whole| whole.to_bytes().len())
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_without_an_end_are_ended() {
        let late = Err("the response of the other server was not complete in time".to_owned());
        let slowly = || {
            stream::unfold((), async |()| {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some((Ok(Bytes::from_static(b"x")), ()))
            })
        };
        assert_eq!(collected(transport::stream(slowly())).await, late);
        assert_eq!(collected(transport::stream(stream::pending())).await, late);
        use futures::StreamExt as _;
        assert_eq!(collected(transport::stream(slowly().take(50))).await, Ok(50));
        assert_eq!(collected(transport::full("abc")).await, Ok(3));
        assert_eq!(collected(transport::empty()).await, Ok(0));
    }
}
