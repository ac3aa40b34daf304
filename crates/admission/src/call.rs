//! Calls a webhook, and reports errors with kube-apiserver's text, which clients and operators search for.

use std::time::Duration;

use apimachinery::{ObjectKey, Status};
use apiserver::AdmissionRequest;
use client::webhooks::{ClientConfig, Target, Webhooks};
use client::{Client, Failure};
use http::StatusCode;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

const AGENT: &str = "kube-apiserver-admission";
/// A JSON patch in base64 that replaces an object of 3 MiB, the largest that is accepted, twice over.
const MAX_RESPONSE: usize = 8 << 20;
/// Bytes of a response that are quoted in an error.
const MAX_QUOTED: usize = 2048;

/// A connection to a webhook, found before its review is built.
pub struct Line {
    client: Client,
    target: Target,
}

impl Line {
    /// # Errors
    /// Why the webhook cannot be reached.
    pub fn open(request: &AdmissionRequest<'_>, webhooks: &Webhooks, config: &ClientConfig) -> Result<Self, String> {
        let found = |namespace: &str, name: &str| service(request, namespace, name);
        Self::to(config, webhooks, found).map_err(|why| format!("could not get REST client: {why}"))
    }

    /// A connection to the webhook of a configuration. `service` finds the Service that the configuration names.
    ///
    /// # Errors
    /// Why the webhook cannot be reached.
    pub fn to(
        config: &ClientConfig,
        webhooks: &Webhooks,
        service: impl FnOnce(&str, &str) -> Result<Option<Value>, Status>,
    ) -> Result<Self, String> {
        let found = match &config.service {
            Some(reference) => service(&reference.namespace, &reference.name).map_err(|it| it.message)?,
            None => None,
        };
        let target = config.target(found.as_ref())?;
        let client = webhooks.client_of(&target).map_err(|it| it.to_string())?;
        Ok(Self { client, target })
    }

    /// Posts a review and returns the body of the response.
    ///
    /// # Errors
    /// Why there is no response that may be a review.
    pub async fn call(&self, body: Vec<u8>, timeout: Duration) -> Result<bytes::Bytes, String> {
        let posted = self.post((AGENT, body), timeout, MAX_RESPONSE).await;
        posted.map_err(|why| format!("failed to call webhook: {why}"))
    }

    /// As [`Self::call`], in another name and with a response of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn post(
        &self,
        (agent, body): (&'static str, Vec<u8>),
        timeout: Duration,
        limit: usize,
    ) -> Result<bytes::Bytes, String> {
        let query = format!("timeout={}s", timeout.as_secs());
        let failed = |why: String| {
            let url = format!("{}?{query}", self.target.url);
            format!("Post {url:?}: {why}")
        };
        let path = format!("{}?{query}", self.target.path);
        let (end, late) = (Instant::now() + timeout, "context deadline exceeded");
        let in_go = |error: &client::Error| error.in_go(&self.target.endpoint.server);
        let reply = match timeout_at(end, self.client.post_review(&path, agent, body.into())).await {
            Ok(reply) => reply.map_err(|error| failed(in_go(&error)))?,
            Err(_) => return Err(failed(late.to_owned())),
        };
        let (code, content_type) = (reply.code, reply.content_type.clone());
        let body = match timeout_at(end, reply.read(limit)).await {
            Ok(Ok(body)) => body,
            Ok(Err(error)) if is_too_large(&error) => {
                return Err(failed(format!("the response is larger than {limit} bytes")));
            }
            Ok(Err(error)) => return Err(cut_off(&in_go(&error))),
            Err(_) => return Err(cut_off(late)),
        };
        if !code.is_success() {
            return Err(refusal(code, &content_type, &body));
        }
        if body.is_empty() {
            let code = code.as_u16();
            return Err(format!("0-length response with status code: {code} and content type: {content_type}"));
        }
        Ok(body)
    }
}

fn is_too_large(error: &client::Error) -> bool {
    matches!(error.failure(), Some(Failure::Other(why)) if why.contains("length limit exceeded"))
}

/// client-go's text about a response whose body does not end.
fn cut_off(why: &str) -> String {
    let why = if why == "EOF" { "unexpected EOF" } else { why };
    format!("unexpected error when reading response body. Please retry. Original error: {why}")
}

fn service(request: &AdmissionRequest<'_>, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
    let found = request.stored("", "services", &ObjectKey::namespaced(namespace, name))?;
    found.map(|service| service.to_value()).transpose().map_err(Status::internal)
}

/// client-go's text about a response that is not a success. It quotes only text.
fn refusal(code: StatusCode, content_type: &str, body: &[u8]) -> String {
    if let Ok(status) = serde_json::from_slice::<Status>(body)
        && status.kind == "Status"
        && !status.message.is_empty()
    {
        return status.message;
    }
    let body = String::from_utf8_lossy(&body[..body.len().min(MAX_QUOTED)]);
    let is_text = content_type.is_empty() || content_type.starts_with("text/");
    let body = if is_text { body.trim() } else { "unknown" };
    match code.as_u16() {
        403 | 415 if !body.is_empty() => body.to_owned(),
        403 | 415 => "unknown".to_owned(),
        number => client::generic_message(code).map_or_else(|| unexplained(number, body), str::to_owned),
    }
}

fn unexplained(code: u16, body: &str) -> String {
    match code {
        500.. => format!("an error on the server ({body:?}) has prevented the request from succeeding"),
        _ => format!("the server responded with the status code {code} but did not return more information"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_match_client_gos_messages() {
        for (code, content_type, body, expected) in [
            (404, "text/plain", "404 page not found", "the server could not find the requested resource"),
            (500, "", "boom\n", "an error on the server (\"boom\") has prevented the request from succeeding"),
            (500, "text/html", "boom", "an error on the server (\"boom\") has prevented the request from succeeding"),
            (
                502,
                "application/json",
                "boom",
                "an error on the server (\"unknown\") has prevented the request from succeeding",
            ),
            (302, "", "", "the server responded with the status code 302 but did not return more information"),
            (503, "", "x", "the server is currently unable to handle the request"),
            (403, "application/json", r#"{"kind":"Status","message":"no"}"#, "no"),
            (403, "text/plain; charset=utf-8", " no\n", "no"),
            (403, "application/json", "no", "unknown"),
            (403, "", "", "unknown"),
            (415, "text/plain", "not JSON", "not JSON"),
            (406, "", "x", "the server was unable to respond with a content type that the client supports"),
        ] {
            let code = StatusCode::from_u16(code).expect("a code");
            assert_eq!(refusal(code, content_type, body.as_bytes()), expected);
        }
    }
}
