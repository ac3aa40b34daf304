//! Requests that a server refuses for the moment are sent again when it requires that, as client-go does.

use std::time::Duration;

use http::StatusCode;
use http::header::RETRY_AFTER;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use transport::{Request, Response, full};

use crate::Result;

/// client-go's number of repetitions.
const TIMES: u32 = 10;
/// A server that requires more patience is reported at once.
const LONGEST: u64 = 30;

/// Sends a request, and again after the time in `Retry-After` of a response 429 or 5xx. A request whose body is not in
/// memory is sent once.
pub(crate) async fn sent<F>(request: Request, send: impl Fn(Request) -> F) -> Result<Response>
where
    F: Future<Output = Result<Response>>,
{
    if request.body().size_hint().exact().is_none() {
        return send(request).await;
    }
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|error| crate::Error::encode(parts.uri.path(), error))?.to_bytes();
    let mut left = TIMES;
    loop {
        let response = send(Request::from_parts(parts.clone(), full(body.clone()))).await?;
        match pause(&response) {
            Some(pause) if left > 0 => tokio::time::sleep(pause).await,
            _ => return Ok(response),
        }
        left -= 1;
    }
}

/// The time after which the server accepts the request again.
fn pause(response: &Response) -> Option<Duration> {
    let status = response.status();
    let is_momentary = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let seconds: u64 = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    (is_momentary && seconds <= LONGEST).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_are_sent_again_when_the_server_asks_for_it() {
        for (status, after, succeeds_at, requests, expected) in [
            (429, Some("1"), 2, 3, 200),
            (503, Some("1"), 1, 2, 200),
            (503, Some("1"), 100, 11, 503),
            (429, None, 1, 1, 429),
            (503, Some("31"), 1, 1, 503),
            (429, Some("soon"), 1, 1, 429),
            (409, Some("1"), 1, 1, 409),
        ] {
            let count = AtomicU32::new(0);
            let request = http::Request::post("/a").body(full("body")).expect("a request");
            let response = sent(request, async |request: Request| {
                assert_eq!(request.into_body().collect().await.expect("a body").to_bytes(), "body");
                if count.fetch_add(1, Ordering::SeqCst) == succeeds_at {
                    return Ok(Response::new(full("")));
                }
                let response = http::Response::builder().status(status);
                let response = after.iter().fold(response, |it, after| it.header(RETRY_AFTER, *after));
                Ok(response.body(full("")).expect("a response"))
            });
            let status_of = response.await.expect("a response").status().as_u16();
            assert_eq!((count.into_inner(), status_of), (requests, expected), "{status} {after:?}");
        }
    }
}
