//! Calls a webhook, and words what goes wrong as kube-apiserver does: clients and operators search for these texts.

use std::time::Duration;

use apimachinery::{ObjectKey, Status};
use apiserver::AdmissionRequest;
use client::webhooks::{ClientConfig, Target, Webhooks};
use client::{Client, Failure};
use http::StatusCode;
use serde_json::Value;

const AGENT: &str = "kube-apiserver-admission";
/// A JSON patch in base64 that replaces an object of 3 MiB, the largest that is accepted, twice over.
const MAX_RESPONSE: usize = 8 << 20;
/// Bytes of a response that are quoted in an error.
const MAX_QUOTED: usize = 1024;

/// A connection to a webhook, found before its review is built.
pub struct Line {
    client: Client,
    target: Target,
}

impl Line {
    /// # Errors
    /// Why the webhook cannot be reached.
    pub fn open(request: &AdmissionRequest<'_>, webhooks: &Webhooks, config: &ClientConfig) -> Result<Self, String> {
        let why = |why: &dyn std::fmt::Display| format!("could not get REST client: {why}");
        let service = match &config.service {
            Some(reference) => {
                service(request, &reference.namespace, &reference.name).map_err(|it| why(&it.message))?
            }
            None => None,
        };
        let target = config.target(service.as_ref()).map_err(|it| why(&it))?;
        let client = webhooks.client(&target.endpoint).map_err(|it| why(&it))?;
        Ok(Self { client, target })
    }

    /// Posts a review and returns the body of the response.
    ///
    /// # Errors
    /// Why there is no response that may be a review.
    pub async fn call(&self, body: Vec<u8>, timeout: Duration) -> Result<bytes::Bytes, String> {
        let query = format!("timeout={}s", timeout.as_secs());
        let failed = |why: String| {
            let url = format!("{}?{query}", self.target.url);
            format!("failed to call webhook: Post {url:?}: {why}")
        };
        let path = format!("{}?{query}", self.target.path);
        let posted = self.client.post_review(&path, AGENT, body.into(), MAX_RESPONSE);
        let Ok(answer) = tokio::time::timeout(timeout, posted).await else {
            return Err(failed("context deadline exceeded".to_owned()));
        };
        let (code, body) = answer.map_err(|error| failed(cause(&error, &self.target)))?;
        if code.is_success() { Ok(body) } else { Err(format!("failed to call webhook: {}", refusal(code, &body))) }
    }
}

fn service(request: &AdmissionRequest<'_>, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
    let found = request.stored("", "services", &ObjectKey::namespaced(namespace, name))?;
    found.map(|service| service.to_value()).transpose().map_err(Status::internal)
}

/// Go's text about a connection that failed.
fn cause(error: &client::Error, target: &Target) -> String {
    let server = target.endpoint.server.trim_start_matches("https://");
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let certificate = |why: String| format!("tls: failed to verify certificate: x509: {why}");
    match error.failure() {
        Some(Failure::Refused) => format!("dial tcp {server}: connect: connection refused"),
        Some(Failure::Unresolved(_)) => format!("dial tcp: lookup {host}: no such host"),
        Some(Failure::NoConnection(_)) => format!("dial tcp {server}: i/o timeout"),
        Some(Failure::UnknownAuthority) => certificate("certificate signed by unknown authority".to_owned()),
        Some(Failure::Expired { now, ended }) => certificate(format!(
            "certificate has expired or is not yet valid: current time {} is after {}",
            time(now),
            time(ended)
        )),
        Some(Failure::NotYetValid { now, begins }) => certificate(format!(
            "certificate has expired or is not yet valid: current time {} is before {}",
            time(now),
            time(begins)
        )),
        Some(Failure::OtherNames { expected, names }) => {
            certificate(format!("certificate is valid for {}, not {expected}", names.join(", ")))
        }
        Some(Failure::Plain) => "http: server gave HTTP response to HTTPS client".to_owned(),
        Some(Failure::Other(why)) if is_end(&why) => "EOF".to_owned(),
        Some(Failure::Other(why)) if why.contains("length limit exceeded") => {
            format!("the response is larger than {MAX_RESPONSE} bytes")
        }
        _ => error.cause(),
    }
}

/// Whether the server closed the connection.
fn is_end(why: &str) -> bool {
    ["connection closed before", "unexpected EOF", "unexpected end of file", "peer closed connection", "reset by peer"]
        .iter()
        .any(|text| why.contains(text))
}

fn time(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| seconds.to_string(), |time| time.to_string())
}

/// client-go's text about a response that is not a success.
fn refusal(code: StatusCode, body: &[u8]) -> String {
    if let Ok(status) = serde_json::from_slice::<Status>(body)
        && status.kind == "Status"
        && !status.message.is_empty()
    {
        return status.message;
    }
    let body = String::from_utf8_lossy(&body[..body.len().min(MAX_QUOTED)]);
    let body = body.trim();
    let text = match code.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 if !body.is_empty() => body,
        403 => "unknown",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => return format!("an error on the server ({body:?}) has prevented the request from succeeding"),
        code => return format!("the server responded with the status code {code} but did not return more information"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_worded_as_by_client_go() {
        for (code, body, expected) in [
            (404, "404 page not found", "the server could not find the requested resource"),
            (500, "boom\n", "an error on the server (\"boom\") has prevented the request from succeeding"),
            (302, "", "the server responded with the status code 302 but did not return more information"),
            (503, "x", "the server is currently unable to handle the request"),
            (403, r#"{"kind":"Status","message":"no"}"#, "no"),
        ] {
            let code = StatusCode::from_u16(code).expect("a code");
            assert_eq!(refusal(code, body.as_bytes()), expected);
        }
    }
}
