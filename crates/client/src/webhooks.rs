//! Webhooks: the endpoint of a `clientConfig`, and a reused connection to it.

mod credentials;

use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use parking_lot::Mutex;
use serde_json::Value;

pub use credentials::{Credential, Credentials, Token};

use crate::{Client, Endpoint, Error, Result, codec, read_body};

/// The port of a service reference without one.
const DEFAULT_PORT: u16 = 443;
/// The maximum number of reused connections. A control plane has fewer webhook servers; with more, the oldest
/// reconnects.
const MAX_CONNECTIONS: usize = 128;

/// The service of a `clientConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceReference {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The path of the URL.
    pub path: Option<String>,
    /// The service's port, 443 by default.
    pub port: Option<u16>,
}

/// A `clientConfig`: how to reach a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientConfig {
    /// The whole URL.
    pub url: Option<String>,
    /// A service instead of a URL.
    pub service: Option<ServiceReference>,
    /// PEM in base64. Empty trusts the machine's authorities.
    pub ca_bundle: String,
}

/// The endpoint and path of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The server. Connections to [`apimachinery::addresses::forbidden`] addresses are rejected.
    pub endpoint: Endpoint,
    /// Begins with a slash.
    pub path: String,
    /// The URL as Kubernetes prints it: with the name of a service, not its address.
    pub url: String,
    /// `HOST:PORT`, with the name of a service, by which the webhook has credentials.
    pub host: String,
}

impl ClientConfig {
    /// Reads a `clientConfig` of any API.
    pub fn of(config: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let reference = |service: &Value| ServiceReference {
            namespace: text(&service["namespace"]).unwrap_or_default(),
            name: text(&service["name"]).unwrap_or_default(),
            path: text(&service["path"]),
            port: service["port"].as_u64().and_then(|port| u16::try_from(port).ok()),
        };
        Self {
            url: text(&config["url"]),
            service: Some(&config["service"]).filter(|service| service.is_object()).map(reference),
            ca_bundle: text(&config["caBundle"]).unwrap_or_default(),
        }
    }

    /// The target. `service` is the Service that the configuration refers to, if the control plane has it; otherwise
    /// its name is resolved in DNS.
    ///
    /// # Errors
    /// The error in the configuration or the Service.
    pub fn target(&self, service: Option<&Value>) -> std::result::Result<Target, String> {
        let ca_bundle = match self.ca_bundle.as_str() {
            "" => None,
            text => Some(base64::prelude::BASE64_STANDARD.decode(text).map_err(|error| format!("caBundle: {error}"))?),
        };
        let endpoint = Endpoint { ca_bundle, balanced: true, guarded: true, ..Endpoint::default() };
        match (&self.service, &self.url) {
            (Some(reference), _) => {
                let (port, name) = (reference.port.unwrap_or(DEFAULT_PORT), reference.dns_name());
                let path = with_slash(reference.path.as_deref().unwrap_or_default());
                let server = address(reference, port, service)?;
                let url = format!("https://{name}:{port}{path}");
                let host = format!("{name}:{port}");
                Ok(Target { endpoint: Endpoint { server, server_name: Some(name), ..endpoint }, path, url, host })
            }
            (None, Some(url)) => {
                let after_scheme = url.find("://").map_or(0, |at| at + 3);
                let at = url[after_scheme..].find('/').map_or(url.len(), |at| at + after_scheme);
                let (server, path) = (url[..at].to_owned(), with_slash(&url[at..]));
                let host = with_port(&server[after_scheme..]);
                Ok(Target { endpoint: Endpoint { server, ..endpoint }, path, url: url.clone(), host })
            }
            (None, None) => Err("it has neither a service nor a url".to_owned()),
        }
    }
}

impl ServiceReference {
    /// The name that the webhook's certificate must have.
    fn dns_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

fn with_slash(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// A URL's host with its port.
fn with_port(host: &str) -> String {
    let host = host.rsplit('@').next().unwrap_or(host);
    match host.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
        _ => format!("{host}:{DEFAULT_PORT}"),
    }
}

/// The URL of a Service: its cluster address, its external name, or its name in DNS.
fn address(reference: &ServiceReference, port: u16, service: Option<&Value>) -> std::result::Result<String, String> {
    let Some(service) = service else { return Ok(format!("https://{}:{port}", reference.dns_name())) };
    let (spec, key) = (&service["spec"], format!("{}/{}", reference.namespace, reference.name));
    if spec["type"] == "ExternalName" {
        return Ok(format!("https://{}:{port}", spec["externalName"].as_str().unwrap_or_default()));
    }
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    if !ports.iter().any(|it| it["port"] == port) {
        return Err(format!("service {key} has no port {port}"));
    }
    match spec["clusterIP"].as_str().unwrap_or_default() {
        "" | "None" => Err(format!("service {key} is headless")),
        address if address.contains(':') => Ok(format!("https://[{address}]:{port}")),
        address => Ok(format!("https://{address}:{port}")),
    }
}

type Connect = dyn Fn(&Endpoint) -> Option<Client> + Send + Sync;

/// The connections to webhooks: one for each endpoint, which calls share.
#[derive(Clone)]
pub struct Webhooks(Arc<Pool>);

struct Pool {
    /// Connects to servers in this process.
    connect: Box<Connect>,
    credentials: Credentials,
    clients: Mutex<Vec<(Endpoint, Client)>>,
}

impl Webhooks {
    /// No connections yet. `connect` returns clients of servers that need no socket.
    pub fn new(connect: impl Fn(&Endpoint) -> Option<Client> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Pool {
            connect: Box::new(connect),
            credentials: Credentials::default(),
            clients: Mutex::default(),
        }))
    }

    /// As [`Self::new`], over sockets only, and with credentials.
    pub fn with_credentials(credentials: Credentials) -> Self {
        Self(Arc::new(Pool { connect: Box::new(|_| None), credentials, clients: Mutex::default() }))
    }

    /// A client of a webhook, with its credentials. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// As [`Self::client`].
    pub fn client_of(&self, target: &Target) -> Result<Client> {
        let mut endpoint = target.endpoint.clone();
        self.0.credentials.add_to(&mut endpoint, &target.host);
        self.client(&endpoint)
    }

    /// A client of an endpoint. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Config`] naming the part of the endpoint that is unusable.
    pub fn client(&self, endpoint: &Endpoint) -> Result<Client> {
        let mut clients = self.0.clients.lock();
        if let Some((_, client)) = clients.iter().find(|(known, _)| known == endpoint) {
            return Ok(client.clone());
        }
        let client = match (self.0.connect)(endpoint) {
            Some(client) => client,
            None => Client::from_endpoint(endpoint)?,
        };
        if clients.len() >= MAX_CONNECTIONS {
            clients.remove(0);
        }
        clients.push((endpoint.clone(), client.clone()));
        Ok(client)
    }
}

impl Client {
    /// Posts a review to a webhook as kube-apiserver does, whatever the status of the response. Redirects are not
    /// followed, and no time-out applies.
    ///
    /// # Errors
    /// [`Error::Transport`] when there is no response.
    pub fn post_review(&self, path: &str, agent: &'static str, body: Bytes) -> BoxFuture<'static, Result<Reply>> {
        let request = http::Request::post(path)
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, agent)
            .body(transport::full(body))
            .map_err(|error| Error::encode(path, error));
        let client = self.clone();
        Box::pin(async move {
            let request = request?;
            let attempt = codec::attempt(&request);
            let (parts, body) = client.send(request).await?.into_parts();
            let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let content_type = content_type.unwrap_or_default().to_owned();
            Ok(Reply { code: parts.status, content_type, body, host: Arc::clone(&client.0.host), attempt })
        })
    }
}

/// The response to a review. Its body has not been read.
pub struct Reply {
    /// Its status.
    pub code: StatusCode,
    /// Its content type; empty without one.
    pub content_type: String,
    body: transport::Body,
    host: Arc<str>,
    attempt: String,
}

impl Reply {
    /// Reads a body of at most `limit` bytes.
    ///
    /// # Errors
    /// [`Error::Transport`] when it is too large, or is cut off.
    pub fn read(self, limit: usize) -> BoxFuture<'static, Result<Bytes>> {
        Box::pin(async move {
            read_body(self.body, limit).await.map_err(|error| Error::transport(&self.host, &self.attempt, error))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations_have_targets() {
        let service = |spec: Value| Some(json!({ "spec": spec }));
        let reference = json!({"service": {"name": "n", "namespace": "ns", "path": "/p"}});
        for (config, service, expected) in [
            (json!({"url": "https://h:8443/a/b"}), None, Ok(("https://h:8443", "/a/b", "https://h:8443/a/b"))),
            (json!({"url": "https://h"}), None, Ok(("https://h", "/", "https://h"))),
            (reference.clone(), None, Ok(("https://n.ns.svc:443", "/p", "https://n.ns.svc:443/p"))),
            (
                reference.clone(),
                service(json!({"clusterIP": "10.0.0.1", "ports": [{"port": 443}]})),
                Ok(("https://10.0.0.1:443", "/p", "https://n.ns.svc:443/p")),
            ),
            (
                json!({"service": {"name": "n", "namespace": "ns", "port": 9}}),
                service(json!({"clusterIP": "fd00::1", "ports": [{"port": 9}]})),
                Ok(("https://[fd00::1]:9", "/", "https://n.ns.svc:9/")),
            ),
            (
                reference.clone(),
                service(json!({"type": "ExternalName", "externalName": "x.example"})),
                Ok(("https://x.example:443", "/p", "https://n.ns.svc:443/p")),
            ),
            (reference.clone(), service(json!({"clusterIP": "10.0.0.1"})), Err("service ns/n has no port 443")),
            (
                reference,
                service(json!({"clusterIP": "None", "ports": [{"port": 443}]})),
                Err("service ns/n is headless"),
            ),
            (json!({}), None, Err("it has neither a service nor a url")),
            (json!({"url": "https://h", "caBundle": "!"}), None, Err("caBundle: Invalid symbol 33, offset 0.")),
        ] {
            let target = ClientConfig::of(&config).target(service.as_ref());
            let found = target.as_ref().map(|it| (&*it.endpoint.server, &*it.path, &*it.url)).map_err(String::as_str);
            assert_eq!(found, expected, "{config}");
            assert!(target.is_ok_and(|it| it.endpoint.guarded) == expected.is_ok());
        }
    }

    #[tokio::test]
    async fn connections_are_shared_and_bounded() {
        let webhooks = Webhooks::new(|_| None);
        for number in 0..MAX_CONNECTIONS + 5 {
            let endpoint = Endpoint { server: format!("http://127.0.0.1:{}", number + 1), ..Endpoint::default() };
            for _ in 0..2 {
                webhooks.client(&endpoint).expect("a client");
            }
        }
        assert_eq!(webhooks.0.clients.lock().len(), MAX_CONNECTIONS);
    }
}
