//! What a connection needs to know: the server, whom to trust, what to present, and the proxy between.

pub(crate) mod document;
mod proxy;
mod validation;

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderName, HeaderValue, Uri};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::{Error, Result};

use document::{AuthProvider, Cluster, Exec, User};
use proxy::proxy;
pub(crate) use validation::Names;

/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Which servers are trusted.
#[derive(Clone, Debug, Default)]
pub(crate) enum Roots {
    /// Those that the machine trusts.
    #[default]
    Platform,
    Bundle(Vec<CertificateDer<'static>>),
    /// A bundle in a file that changes.
    File(PathBuf),
    /// Any.
    Unverified,
}

/// Where the credentials of requests come from.
#[derive(Clone, Default)]
pub(crate) enum Source {
    /// No header. There may still be a client certificate.
    #[default]
    None,
    Basic {
        user: String,
        password: String,
    },
    Bearer(String),
    File {
        path: PathBuf,
        /// Used while the file cannot be read.
        token: Option<String>,
    },
    Exec(Box<Plugin>),
}

/// The name of the cluster's extension with settings for the program.
pub(crate) const EXTENSION: &str = "client.authentication.k8s.io/exec";

/// A program that prints credentials.
#[derive(Clone)]
pub(crate) struct Plugin {
    pub exec: Exec,
    /// The cluster that the credentials are for, if the program requests it.
    pub cluster: Option<Value>,
}

/// How to connect to a server.
#[derive(Clone)]
pub(crate) struct Config {
    /// `https://host:port[/path]`
    pub server: Uri,
    /// The namespace of requests that name none.
    pub namespace: String,
    pub roots: Roots,
    /// A client certificate and its key, both in PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    pub credentials: Source,
    /// Headers of every request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub proxy: Option<Uri>,
    /// The name that the certificate must have, if not the server's host.
    pub server_name: Option<String>,
    /// See [`crate::Endpoint::balanced`].
    pub balanced: bool,
}

impl Config {
    pub(crate) fn new(server: Uri) -> Self {
        Self {
            server,
            namespace: "default".into(),
            roots: Roots::default(),
            identity: None,
            credentials: Source::default(),
            headers: Vec::new(),
            proxy: None,
            server_name: None,
            balanced: false,
        }
    }

    /// Of a cluster and a user of a kubeconfig, whose paths are absolute. `variable` reads the environment, which may
    /// name a proxy. As in client-go, the user's credentials go to HTTPS servers only.
    ///
    /// # Errors
    /// What is wrong with it, or which file cannot be read.
    pub(crate) fn of(
        cluster: &Cluster,
        user: &User,
        names: &Names<'_>,
        namespace: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> std::result::Result<Self, String> {
        let server =
            cluster.server.as_deref().filter(|server| !server.is_empty()).ok_or("the cluster has no server")?;
        validation::validate(cluster, user, names)?;
        let (server, own) = address(server)?;
        let mut config = Self::new(server);
        config.namespace = namespace.unwrap_or("default").to_owned();
        config.server_name = cluster.tls_server_name.clone().filter(|name| !name.is_empty());
        if config.server.scheme_str() == Some("https") {
            config.secure(cluster, user)?;
        } else if cluster.insecure_skip_tls_verify == Some(true) {
            config.roots = Roots::Unverified;
        }
        config.credentials = own.unwrap_or(config.credentials);
        config.headers = impersonation(user)?;
        config.proxy = proxy(cluster.proxy_url.as_deref(), &config.server, variable)?;
        Ok(config)
    }

    /// Adds what only connections over TLS use: the trusted authorities, the certificate and the token.
    fn secure(&mut self, cluster: &Cluster, user: &User) -> std::result::Result<(), String> {
        self.roots = match authority(cluster)? {
            Some(_) if cluster.insecure_skip_tls_verify == Some(true) => {
                return Err("specifying a root certificates file with the insecure flag is not allowed".into());
            }
            None if cluster.insecure_skip_tls_verify == Some(true) => Roots::Unverified,
            Some(pem) => Roots::Bundle(certificates(&pem).map_err(|error| format!("certificate-authority: {error}"))?),
            None => Roots::Platform,
        };
        let certificate = pem("client-certificate", user.client_certificate_data.as_deref(), &user.client_certificate)?;
        // A key without a certificate is ignored; the validation refuses a certificate without a key.
        if let Some(certificate) = certificate {
            let key = user.client_key_data.as_ref().map(|secret| secret.0.as_str());
            self.identity = pem("client-key", key, &user.client_key)?.map(|key| (certificate, key));
        }
        self.credentials = source(user, cluster, self.identity.is_some())?;
        Ok(())
    }

    /// Of the pod that this process runs in.
    ///
    /// # Errors
    /// Which variable or file is missing.
    pub(crate) fn in_the_pod() -> std::result::Result<Self, String> {
        let variable = |name: &str| std::env::var(name).map_err(|error| format!("{name}: {error}"));
        let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
        Self::of_service_account(Path::new(SERVICE_ACCOUNT), &host, &port)
    }

    fn of_service_account(folder: &Path, host: &str, port: &str) -> std::result::Result<Self, String> {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let port: u16 = port.parse().map_err(|error| format!("port {port:?}: {error}"))?;
        let server = format!("https://{host}:{port}");
        let mut config = Self::new(server.parse().map_err(|error| format!("server {server:?}: {error}"))?);
        let namespace = folder.join("namespace");
        let text = std::fs::read_to_string(&namespace).map_err(|error| format!("{}: {error}", namespace.display()))?;
        config.namespace = text.trim().to_owned();
        config.roots = Roots::File(folder.join("ca.crt"));
        config.credentials = Source::File { path: folder.join("token"), token: None };
        Ok(config)
    }

    /// Whether any connection is over TLS.
    pub(crate) fn uses_tls(&self) -> bool {
        let is_plain = |uri: &Uri| uri.scheme_str() == Some("http");
        !is_plain(&self.server) || self.proxy.as_ref().is_some_and(|proxy| proxy.scheme_str() == Some("https"))
    }
}

pub(crate) fn authority(cluster: &Cluster) -> std::result::Result<Option<Vec<u8>>, String> {
    pem("certificate-authority", cluster.certificate_authority_data.as_deref(), &cluster.certificate_authority)
}

/// A PEM text in base64 or in a file.
fn pem(what: &str, data: Option<&str>, file: &Option<String>) -> std::result::Result<Option<Vec<u8>>, String> {
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        return decoded(data).map(Some).map_err(|error| format!("{what}-data is not base64: {error}"));
    }
    let Some(file) = file.as_deref().filter(|file| !file.is_empty()) else { return Ok(None) };
    std::fs::read(file).map(Some).map_err(|error| format!("{what} {file} cannot be read: {error}"))
}

/// Bytes in base64. Line breaks are no part of it, such as those of a block scalar.
pub(crate) fn decoded(data: &str) -> std::result::Result<Vec<u8>, base64::DecodeError> {
    BASE64_STANDARD.decode(data.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect::<String>())
}

/// The URL of a server, by default over HTTP, and the credentials in it.
fn address(server: &str) -> std::result::Result<(Uri, Option<Source>), String> {
    let url = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let server: Uri = url.parse().map_err(|error| format!("server {server:?}: {error}"))?;
    let Some((user, host)) = server.authority().and_then(|authority| authority.as_str().rsplit_once('@')) else {
        return Ok((server, None));
    };
    let plain = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let own = Source::Basic { user: plain(user), password: plain(password) };
    let bad = |error: &dyn std::fmt::Display| format!("server {host:?}: {error}");
    let authority = host.parse().map_err(|error: http::uri::InvalidUri| bad(&error))?;
    let mut parts = server.clone().into_parts();
    parts.authority = Some(authority);
    Ok((Uri::from_parts(parts).map_err(|error| bad(&error))?, Some(own)))
}

/// The user's credentials. `has_certificate` makes a program unnecessary.
fn source(user: &User, cluster: &Cluster, has_certificate: bool) -> std::result::Result<Source, String> {
    let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let token = user.token.as_ref().map(|secret| secret.0.clone()).filter(|token| !token.is_empty());
    let file = set(&user.token_file);
    if let Some(name) = set(&user.username) {
        if file.is_some() || token.is_some() {
            return Err("username/password or bearer token may be set, but not both".into());
        }
        let password = user.password.as_ref().map(|secret| secret.0.clone()).unwrap_or_default();
        return Ok(Source::Basic { user: name, password });
    }
    // As in client-go the file counts before the token, which counts while the file cannot be read.
    if let Some(file) = file {
        return Ok(Source::File { path: file.into(), token });
    }
    match (token, &user.auth_provider, &user.exec) {
        (Some(token), _, _) => Ok(Source::Bearer(token)),
        (None, Some(provider), _) => of_provider(provider),
        (None, None, Some(exec)) if !has_certificate => Ok(Source::Exec(Box::new(plugin(exec, cluster)?))),
        (None, None, _) => Ok(Source::None),
    }
}

fn of_provider(provider: &AuthProvider) -> std::result::Result<Source, String> {
    let plugin = match provider.name.as_str() {
        "oidc" => {
            let token = provider.config.get("id-token").map(|token| token.0.clone()).filter(|token| !token.is_empty());
            return token.map(Source::Bearer).ok_or_else(|| "auth-provider oidc has no id-token".into());
        }
        "gcp" => "gke-gcloud-auth-plugin",
        "azure" => "kubelogin",
        other => return Err(format!("no Auth Provider found for name {other:?}")),
    };
    Err(format!(
        "The {} auth plugin has been removed.\nPlease use the {plugin:?} kubectl/client-go credential plugin instead.",
        provider.name
    ))
}

fn plugin(exec: &Exec, cluster: &Cluster) -> std::result::Result<Plugin, String> {
    let mut info = None;
    if exec.provide_cluster_info {
        let mut known = json!({"server": cluster.server});
        let mut add = |name: &str, value: Value| known[name] = value;
        if let Some(pem) = authority(cluster)? {
            add("certificate-authority-data", BASE64_STANDARD.encode(pem).into());
        }
        if cluster.insecure_skip_tls_verify == Some(true) {
            add("insecure-skip-tls-verify", true.into());
        }
        for (name, text) in [("tls-server-name", &cluster.tls_server_name), ("proxy-url", &cluster.proxy_url)] {
            if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                add(name, text.into());
            }
        }
        if cluster.disable_compression == Some(true) {
            add("disable-compression", true.into());
        }
        let extension = cluster.extensions.iter().find(|it| it.name == EXTENSION);
        add("config", extension.map_or(Value::Null, |it| it.extension.clone()));
        info = Some(known);
    }
    Ok(Plugin { exec: exec.clone(), cluster: info })
}

fn impersonation(user: &User) -> std::result::Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut headers = Vec::new();
    let mut add = |name: &str, value: &str| {
        let bad = |why: &dyn std::fmt::Display| format!("impersonation, {name}: {why}");
        let header: HeaderName = name.parse().map_err(|error: http::header::InvalidHeaderName| bad(&error))?;
        headers.push((header, HeaderValue::from_str(value).map_err(|error| bad(&error))?));
        Ok::<_, String>(())
    };
    for (name, value) in [("impersonate-user", &user.impersonate), ("impersonate-uid", &user.impersonate_uid)] {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            add(name, value)?;
        }
    }
    user.impersonate_groups.iter().try_for_each(|group| add("impersonate-group", group))?;
    for (key, values) in &user.impersonate_extra {
        let name = format!("impersonate-extra-{}", escaped(key));
        values.iter().try_for_each(|value| add(&name, value))?;
    }
    Ok(headers)
}

/// The key of an extra value as part of a header's name: bytes that no name may have are percent-encoded.
fn escaped(key: &str) -> String {
    let mut text = String::new();
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            text.push(byte.to_ascii_lowercase().into());
        } else {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
    text
}

/// The certificates of a PEM text; at least one.
pub(crate) fn certificates(pem: &[u8]) -> std::result::Result<Vec<CertificateDer<'static>>, String> {
    let certificates: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err("holds no certificate".into()),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("is not PEM: {error:?}")),
    }
}

/// The certificates of a bundle in PEM.
///
/// # Errors
/// [`Error::Config`].
pub(crate) fn bundle(pem: &[u8]) -> Result<Roots> {
    certificates(pem).map(Roots::Bundle).map_err(|why| Error::Config(format!("the CA bundle {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_uses_its_service_account() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Config::of_service_account(folder.path(), "10.96.0.1", "443").err().expect("no namespace");
        assert!(error.contains("namespace: No such file"), "{error}");
        std::fs::write(folder.path().join("namespace"), "karmada-system\n").expect("written");
        for (host, port, server) in [
            ("10.96.0.1", "443", "https://10.96.0.1:443/"),
            ("fd00::1", "6443", "https://[fd00::1]:6443/"),
            ("kubernetes.default.svc", "443", "https://kubernetes.default.svc:443/"),
        ] {
            let config = Config::of_service_account(folder.path(), host, port).expect("a configuration");
            assert_eq!((config.server.to_string().as_str(), config.namespace.as_str()), (server, "karmada-system"));
            assert!(matches!(&config.roots, Roots::File(file) if *file == folder.path().join("ca.crt")));
            assert!(matches!(&config.credentials, Source::File { path, .. } if *path == folder.path().join("token")));
        }
        assert!(Config::of_service_account(folder.path(), "10.96.0.1", "http").is_err());
    }

    #[test]
    fn exec_plugins_receive_the_cluster() {
        let cluster = Cluster {
            server: Some("https://m1".into()),
            insecure_skip_tls_verify: Some(true),
            certificate_authority_data: Some(BASE64_STANDARD.encode("pem")),
            proxy_url: Some("http://p:1".into()),
            tls_server_name: Some("other".into()),
            ..Cluster::default()
        };
        let exec = Exec { provide_cluster_info: true, ..Exec::default() };
        let expected = json!({"server": "https://m1", "certificate-authority-data": BASE64_STANDARD.encode("pem"),
            "insecure-skip-tls-verify": true, "proxy-url": "http://p:1", "tls-server-name": "other", "config": null});
        assert_eq!(plugin(&exec, &cluster).expect("a program").cluster, Some(expected));
        assert_eq!(plugin(&Exec::default(), &cluster).expect("a program").cluster, None);
    }

    #[test]
    fn data_may_be_wrapped() {
        for (data, expected) in
            [("cGVt", Ok(Some(b"pem".to_vec()))), ("cG\r\nVt\n", Ok(Some(b"pem".to_vec()))), ("", Ok(None))]
        {
            assert_eq!(pem("client-key", Some(data), &None), expected, "{data:?}");
        }
        assert!(pem("client-key", Some("cG Vt"), &None).is_err());
    }

    fn of(cluster: &Cluster, user: &User) -> std::result::Result<Config, String> {
        Config::of(cluster, user, &Names { cluster: "k", user: "u" }, None, |_| None)
    }

    #[test]
    fn servers_are_trusted_as_configured() {
        let of = |cluster: &Cluster| of(cluster, &User::default()).map(|config| config.roots);
        let mut cluster = Cluster { server: Some("https://m1".into()), ..Cluster::default() };
        assert!(matches!(of(&cluster), Ok(Roots::Platform)));
        cluster.certificate_authority_data = Some(BASE64_STANDARD.encode("no PEM"));
        assert!(of(&cluster).is_err_and(|why| why == "certificate-authority: holds no certificate"));
        cluster.insecure_skip_tls_verify = Some(true);
        assert!(of(&cluster).is_err_and(|why| why.contains("with the insecure flag is not allowed")));
        cluster.server = Some("http://m1".into());
        assert!(matches!(of(&cluster), Ok(Roots::Unverified)));
        cluster.server = Some("https://m1".into());
        cluster.certificate_authority_data = None;
        assert!(matches!(of(&cluster), Ok(Roots::Unverified)));
        assert!(of(&Cluster::default()).is_err_and(|why| why == "the cluster has no server"));
    }

    #[test]
    fn credentials_are_sent_to_https_servers_only() {
        let user = User {
            token: Some(document::Secret("t".into())),
            impersonate: Some("ann".into()),
            client_key: Some("/nonexistent/key".into()),
            ..User::default()
        };
        for (server, url, expected) in [
            ("https://m1", "https://m1/", "Bearer"),
            ("http://m1", "http://m1/", "None"),
            ("m1:8080", "http://m1:8080/", "None"),
            ("127.0.0.1/base", "http://127.0.0.1/base", "None"),
            ("http://a:p%40@m1/x", "http://m1/x", "Basic a p@"),
        ] {
            let user = User { client_key: user.client_key.clone().filter(|_| expected == "None"), ..user.clone() };
            let config = of(&Cluster { server: Some(server.into()), ..Cluster::default() }, &user).expect(server);
            let found = match &config.credentials {
                Source::None => "None".to_owned(),
                Source::Bearer(_) => "Bearer".to_owned(),
                Source::Basic { user, password } => format!("Basic {user} {password}"),
                Source::File { .. } | Source::Exec(_) => "another".to_owned(),
            };
            assert_eq!((config.server.to_string().as_str(), found.as_str()), (url, expected), "{server}");
            assert_eq!(config.headers.len(), 1, "{server}");
        }
    }

    #[test]
    fn the_first_credentials_count() {
        let secret = |text: &str| Some(document::Secret(text.into()));
        let exec = Some(Exec { interactive_mode: Some(document::InteractiveMode::Never), ..Exec::default() });
        let cluster = Cluster { server: Some("https://m1".into()), ..Cluster::default() };
        let is = |user: &User, has_certificate| match source(user, &cluster, has_certificate) {
            Ok(Source::None) => "none".to_owned(),
            Ok(Source::Basic { user, password }) => format!("{user}:{password}"),
            Ok(Source::Bearer(token)) => token,
            Ok(Source::File { .. }) => "file".to_owned(),
            Ok(Source::Exec(_)) => "exec".to_owned(),
            Err(why) => why,
        };
        let mut user = User { exec, ..User::default() };
        assert_eq!((is(&user, false).as_str(), is(&user, true).as_str()), ("exec", "none"));
        let config = [("id-token".to_owned(), document::Secret("i".into()))].into();
        user.auth_provider = Some(AuthProvider { name: "oidc".into(), config });
        assert_eq!(is(&user, false), "i");
        user.token = secret("t");
        assert_eq!(is(&user, true), "t");
        user.username = Some("ann".into());
        assert_eq!(is(&user, false), "username/password or bearer token may be set, but not both");
        user.token = None;
        assert_eq!(is(&user, false), "ann:");
    }
}
