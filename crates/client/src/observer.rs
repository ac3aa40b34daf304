//! What observers of a client learn about its requests: of headers and bodies, which have credentials, only warnings.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode, Uri};
use tokio::time::Instant;
use transport::{Request, Response};

use crate::Result;

/// A request, once the head of its response has arrived or it has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The verb of HTTP.
    pub method: Method,
    /// With the query.
    pub url: String,
    /// `None` without a response.
    pub status: Option<StatusCode>,
    /// From the start of the request.
    pub elapsed: Duration,
    /// The `Warning` headers of the response.
    pub warnings: Vec<String>,
}

/// Called after each request.
pub type Observer = Arc<dyn Fn(&Exchange) + Send + Sync>;

/// Sends a request to the server at `url` and reports it.
pub(crate) async fn observed<F>(
    observer: &Observer,
    url: &str,
    request: Request,
    send: impl FnOnce(Request) -> F,
) -> Result<Response>
where
    F: Future<Output = Result<Response>>,
{
    let (method, url, begun) = (request.method().clone(), format!("{url}{}", request.uri()), Instant::now());
    let response = send(request).await;
    let status = response.as_ref().ok().map(Response::status);
    let headers = response.as_ref().ok().map(Response::headers);
    let warnings = headers.into_iter().flat_map(|headers| headers.get_all(http::header::WARNING));
    let warnings = warnings.filter_map(|value| Some(value.to_str().ok()?.to_owned())).collect();
    observer(&Exchange { method, url, status, elapsed: begun.elapsed(), warnings });
    response
}

/// A server's URL without a user and a password.
pub(crate) fn url_of(server: &Uri) -> Arc<str> {
    let authority = server.authority().map(|it| it.as_str().rsplit('@').next().unwrap_or_default());
    let scheme = server.scheme_str().unwrap_or("https");
    format!("{scheme}://{}{}", authority.unwrap_or_default(), server.path().trim_end_matches('/')).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_server_has_no_credentials() {
        for (server, expected) in [
            ("https://a.example:6443", "https://a.example:6443"),
            ("https://a.example/clusters/one/", "https://a.example/clusters/one"),
            ("http://user:secret@[::1]:80/p", "http://[::1]:80/p"),
        ] {
            assert_eq!(&*url_of(&server.parse().expect("a URL")), expected, "{server}");
        }
    }
}
