//! Requests to one OpenSearch service: its addresses, credentials and failures.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::Object;
use apimachinery::url;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use client::{Client, Endpoint};
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use serde::Deserialize;

use super::bulk::short;

/// A bulk request of 5 MiB takes a busy service seconds; OpenSearch itself gives up on unavailable shards after one
/// minute.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
/// Responses to 1,000 documents have some 200 KiB with errors.
const MAX_RESPONSE: usize = 16 << 20;
/// The longest pause that a service can request.
const MAX_AFTER: Duration = Duration::from_secs(300);

/// Connects to an address; tests connect to services in the process.
pub(super) type Connect = Arc<dyn Fn(&Endpoint) -> client::Result<Client> + Send + Sync>;

/// The credentials for a service, and the authorities of its certificate.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Access {
    authorization: Option<HeaderValue>,
    /// `None` accepts any certificate.
    pub authorities: Option<Vec<u8>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SecretData {
    data: std::collections::BTreeMap<String, String>,
}

impl Access {
    /// The content of a Secret: `username`, `password`, and `ca.crt` or `caBundle`.
    ///
    /// # Errors
    /// The unusable key.
    pub fn of(secret: &Object) -> Result<Self, String> {
        let SecretData { data } = secret.decode().map_err(|error| error.to_string())?;
        let field = |name: &str| {
            let text = data.get(name)?;
            Some(BASE64_STANDARD.decode(text).map_err(|error| format!("key {name}: {error}")))
        };
        // The type's description in upstream's API says `userName`, its code reads `username`.
        let user = field("username").or_else(|| field("userName")).transpose()?.unwrap_or_default();
        let password = field("password").transpose()?.unwrap_or_default();
        let authorities = field("ca.crt").or_else(|| field("caBundle")).transpose()?;
        let authorization = match user.as_slice() {
            [] => None,
            user => Some(basic(&[user, b":", &password].concat())?),
        };
        Ok(Self { authorization, authorities })
    }

    pub fn has_user(&self) -> bool {
        self.authorization.is_some()
    }
}

fn basic(credentials: &[u8]) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(credentials)))
        .map_err(|error| error.to_string())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Why a request had no effect. It can be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub why: String,
    /// The pause that the service requests.
    pub after: Option<Duration>,
}

impl Failure {
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), after: None }
    }

    /// For a response that is not expected.
    pub fn unexpected(attempt: &str, (code, body): &Answer) -> Self {
        Self::new(format!("{attempt} is answered {code}: {}", reason(body)))
    }
}

/// The status and the body of a response.
pub(super) type Answer = (StatusCode, Bytes);

/// OpenSearch's reason in the body of an error, or the beginning of the body.
pub(super) fn reason(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Body {
        error: Reason,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Reason {
        Parts {
            #[serde(rename = "type")]
            type_: String,
            #[serde(default)]
            reason: Option<String>,
        },
        Text(String),
    }
    match serde_json::from_slice(body) {
        Ok(Body { error: Reason::Parts { type_, reason } }) => {
            short(&format!("{type_}: {}", reason.as_deref().unwrap_or_default()))
        }
        Ok(Body { error: Reason::Text(text) }) => short(&text),
        Err(_) => short(String::from_utf8_lossy(&body[..body.len().min(1000)]).trim()),
    }
}

/// The connections to a service.
pub(super) struct Service {
    addresses: Vec<String>,
    /// The address in use: the last one that has answered.
    current: usize,
    clients: Vec<Option<Client>>,
    access: Access,
    connect: Connect,
}

impl Service {
    pub fn new(addresses: Vec<String>, connect: Connect) -> Self {
        let clients = addresses.iter().map(|_| None).collect();
        Self { addresses, current: 0, clients, access: Access::default(), connect }
    }

    /// Later requests have these credentials, over new connections.
    pub fn set_access(&mut self, access: Access) {
        self.access = access;
        self.clients.fill(None);
    }

    /// Sends a request to the current address, and to the others if that does not answer.
    ///
    /// # Errors
    /// No address answers, the service requires a pause or other credentials, or the response is a redirect.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        media: &'static str,
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let mut failure = Failure::new("spec.backendStore.openSearch.addresses is empty");
        for _ in 0..self.addresses.len() {
            let attempt = self.attempt(method.clone(), path, media, body.clone());
            let (code, headers, body) = match attempt.await {
                Ok(answer) => answer,
                Err(why) => {
                    failure = Failure::new(why);
                    self.next();
                    continue;
                }
            };
            let answer = (code, body);
            let what = || format!("{method} {}", path.split('?').next().unwrap_or(path));
            match code.as_u16() {
                502..=504 => {
                    failure = Failure::unexpected(&what(), &answer);
                    failure.after = after(&headers);
                    self.next();
                }
                401 | 429 | 500.. => {
                    return Err(Failure { after: after(&headers), ..Failure::unexpected(&what(), &answer) });
                }
                300..=399 => {
                    let location = headers.get(header::LOCATION).and_then(|it| it.to_str().ok()).unwrap_or_default();
                    let address = &self.addresses[self.current];
                    let why = format!(
                        "{} redirects to {}; set the address of OpenSearch itself",
                        without_user(address).0,
                        short(location)
                    );
                    return Err(Failure::new(why));
                }
                _ => return Ok(answer),
            }
        }
        Err(failure)
    }

    fn next(&mut self) {
        self.current = (self.current + 1) % self.addresses.len();
    }

    async fn attempt(
        &mut self,
        method: Method,
        path: &str,
        media: &'static str,
        body: Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes), String> {
        let (address, user) = without_user(&self.addresses[self.current]);
        let request = http::Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media);
        let mut request = request.body(transport::full(body)).map_err(|error| format!("{path}: {error}"))?;
        let authorization = match (&self.access.authorization, user) {
            (Some(authorization), _) => Some(authorization.clone()),
            (None, Some(user)) => Some(basic(user.as_bytes())?),
            (None, None) => None,
        };
        request.headers_mut().extend(authorization.map(|value| (header::AUTHORIZATION, value)));
        let client = self.client(&address).map_err(|error| error.to_string())?;
        exchange(client, request, address).await
    }

    fn client(&mut self, address: &str) -> client::Result<Client> {
        if let Some(client) = &self.clients[self.current] {
            return Ok(client.clone());
        }
        let client = (self.connect)(&Endpoint {
            balanced: true,
            server: address.to_owned(),
            insecure: self.access.authorities.is_none(),
            ca_bundle: self.access.authorities.clone(),
            // The address is data of a registry.
            guarded: true,
            ..Endpoint::default()
        })?;
        self.clients[self.current] = Some(client.clone());
        Ok(client)
    }
}

/// Sends a request and reads the response. Boxed with erased lifetimes, so that the compiler can prove callers `Send`.
fn exchange(
    client: Client,
    request: transport::Request,
    address: String,
) -> BoxFuture<'static, Result<(StatusCode, HeaderMap, Bytes), String>> {
    Box::pin(async move {
        let whole = async {
            let (parts, body) = client.send(request).await.map_err(|error| error.to_string())?.into_parts();
            let (mut chunks, mut whole) = (body.into_data_stream(), BytesMut::new());
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk.map_err(|error| format!("reading the response of {address}: {error}"))?;
                if whole.len() + chunk.len() > MAX_RESPONSE {
                    return Err(format!("the response of {address} has more than {MAX_RESPONSE} bytes"));
                }
                whole.extend_from_slice(&chunk);
            }
            Ok((parts.status, parts.headers, whole.freeze()))
        };
        let answered = tokio::time::timeout(TIMEOUT, whole).await;
        answered.unwrap_or_else(|_| Err(format!("{address} does not answer within {TIMEOUT:?}")))
    })
}

/// An address without the user and password that it may contain, and these.
pub(super) fn without_user(address: &str) -> (String, Option<String>) {
    let address = address.trim_end_matches('/');
    let split = url::parse(address).ok().and_then(|_| {
        let (scheme, rest) = address.split_once("://")?;
        let end = rest.find('/').unwrap_or(rest.len());
        let (user, host) = rest[..end].rsplit_once('@')?;
        Some((format!("{scheme}://{host}{}", &rest[end..]), user.to_owned()))
    });
    match split {
        Some((address, user)) => (address, Some(user)),
        None => (address.to_owned(), None),
    }
}

/// `Retry-After` in seconds.
fn after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_AFTER))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_have_credentials_and_authorities() {
        let text = |text: &str| BASE64_STANDARD.encode(text);
        let header = |text: &str| Some(format!("Basic {}", BASE64_STANDARD.encode(text)));
        for (data, authorization, authorities) in [
            (json!({"username": text("a"), "password": text("b:c")}), header("a:b:c"), None),
            (json!({"userName": text("a")}), header("a:"), None),
            (json!({"password": text("b")}), None, None),
            (json!({"username": text("ü"), "ca.crt": text("pem")}), header("ü:"), Some("pem")),
            (json!({"caBundle": text("pem")}), None, Some("pem")),
            (json!(null), None, None),
        ] {
            let access = Access::of(&Object::from_value(&json!({ "data": data })).unwrap());
            let access = access.unwrap_or_else(|_| Access::default());
            let found = access.authorization.map(|it| it.to_str().unwrap().to_owned());
            assert_eq!(
                (found, access.authorities.as_deref()),
                (authorization, authorities.map(str::as_bytes)),
                "{data}"
            );
        }
        let broken = Access::of(&Object::from_value(&json!({"data": {"password": "!"}})).unwrap());
        assert!(broken.is_err_and(|why| why.starts_with("key password: ")));
    }

    #[test]
    fn reasons_are_short_and_in_one_line() {
        for (body, expected) in [
            (r#"{"error":{"type":"t","reason":"r\nx","root_cause":[]},"status":400}"#, "t: r x"),
            (r#"{"error":{"type":"t","reason":null}}"#, "t: "),
            (r#"{"error":"no handler","status":405}"#, "no handler"),
            (" <html>\n", "<html>"),
            ("", ""),
        ] {
            assert_eq!(reason(body.as_bytes()), expected);
        }
        assert_eq!(reason(&[b'x'; 5000]).len(), 303);
    }

    #[test]
    fn users_in_addresses_are_not_part_of_the_server() {
        for (address, server, user) in [
            ("https://s:9200/", "https://s:9200", None),
            ("https://a:b@s:9200/p", "https://s:9200/p", Some("a:b")),
            ("http://s/p@q", "http://s/p@q", None),
        ] {
            assert_eq!(without_user(address), (server.to_owned(), user.map(str::to_owned)));
        }
    }
}
