//! A bounded GET of a public document over TLS.

use bytes::Bytes;
use client::{Client, Endpoint};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Request;
use http::header::{ACCEPT, USER_AGENT};
use http_body_util::{BodyExt as _, Collected, Limited};

/// An https URL, as server and path.
fn parts(url: &str) -> Option<(&str, &str)> {
    let after_scheme = url.strip_prefix("https://").map(|_| "https://".len())?;
    let at = url[after_scheme..].find('/').map_or(url.len(), |at| at + after_scheme);
    let path = if at == url.len() { "/" } else { &url[at..] };
    Some((&url[..at], path))
}

/// At most `limit` bytes of the document at an https URL. `authority` is PEM; without it the machine's authorities are
/// trusted. Redirects are not followed.
pub(crate) async fn document(url: &str, authority: Option<&str>, limit: usize) -> Result<Vec<u8>, String> {
    let failed = |why: &dyn std::fmt::Display| format!("GET {url}: {why}");
    let (server, path) = parts(url).ok_or_else(|| failed(&"it is not an https URL"))?;
    let endpoint = Endpoint {
        server: server.to_owned(),
        ca_bundle: authority.map(|pem| pem.as_bytes().to_vec()),
        ..Endpoint::default()
    };
    let client = Client::from_endpoint(&endpoint).map_err(|error| failed(&error))?;
    let request = Request::get(path).header(ACCEPT, "application/json").header(USER_AGENT, "kube-apiserver");
    let request = request.body(transport::full(Bytes::new())).map_err(|error| failed(&error))?;
    let response = client.send(request).await.map_err(|error| failed(&error.cause()))?;
    let (parts, body) = response.into_parts();
    if parts.status != http::StatusCode::OK {
        return Err(failed(&format!("the server answered {}", parts.status)));
    }
    let body = read(body, limit).await.map_err(|why| failed(&why))?;
    Ok(body.to_vec())
}

/// Not an `async fn`: the compiler could not prove its callers `Send`.
fn read(body: transport::Body, limit: usize) -> BoxFuture<'static, Result<Bytes, String>> {
    let whole = Limited::new(body, limit).collect();
    Box::pin(whole.map(|whole| whole.map(Collected::to_bytes).map_err(|error| error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split() {
        assert_eq!(parts("https://h:1/a/b?c"), Some(("https://h:1", "/a/b?c")));
        assert_eq!(parts("https://h"), Some(("https://h", "/")));
        assert_eq!(parts("http://h"), None);
    }
}
