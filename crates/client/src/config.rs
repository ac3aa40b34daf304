//! What a connection needs to know: the server, whom to trust, what to present, and the proxy between.

pub(crate) mod document;

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderName, HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::{Error, Result};

use document::{AuthProvider, Cluster, Exec, User};

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
        }
    }

    /// Of a cluster and a user of a kubeconfig, whose paths are absolute. `variable` reads the environment, which may
    /// name a proxy.
    ///
    /// # Errors
    /// What is wrong with it, or which file cannot be read.
    pub(crate) fn of(
        cluster: &Cluster,
        user: &User,
        namespace: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> std::result::Result<Self, String> {
        let server =
            cluster.server.as_deref().filter(|server| !server.is_empty()).ok_or("the cluster has no server")?;
        let mut config = Self::new(server.parse().map_err(|error| format!("server {server:?}: {error}"))?);
        config.namespace = namespace.unwrap_or("default").to_owned();
        config.server_name = cluster.tls_server_name.clone().filter(|name| !name.is_empty());
        let authority = authority(cluster)?;
        config.roots = match authority {
            _ if cluster.insecure_skip_tls_verify == Some(true) => Roots::Unverified,
            Some(pem) => Roots::Bundle(certificates(&pem).map_err(|error| format!("certificate-authority: {error}"))?),
            None => Roots::Platform,
        };
        let certificate = pem("client-certificate", user.client_certificate_data.as_deref(), &user.client_certificate)?;
        let key = user.client_key_data.as_ref().map(|secret| secret.0.as_str());
        let key = pem("client-key", key, &user.client_key)?;
        config.identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err("the user has a client-certificate and no client-key".into()),
            (None, Some(_)) => return Err("the user has a client-key and no client-certificate".into()),
        };
        config.credentials = source(user, cluster)?;
        config.headers = impersonation(user)?;
        config.proxy = proxy(cluster.proxy_url.as_deref(), &config.server, variable)?;
        Ok(config)
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

fn authority(cluster: &Cluster) -> std::result::Result<Option<Vec<u8>>, String> {
    pem("certificate-authority", cluster.certificate_authority_data.as_deref(), &cluster.certificate_authority)
}

/// A PEM text in base64 or in a file.
fn pem(what: &str, data: Option<&str>, file: &Option<String>) -> std::result::Result<Option<Vec<u8>>, String> {
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        let decoded = BASE64_STANDARD.decode(data).map_err(|error| format!("{what}-data is not base64: {error}"))?;
        return Ok(Some(decoded));
    }
    let Some(file) = file.as_deref().filter(|file| !file.is_empty()) else { return Ok(None) };
    std::fs::read(file).map(Some).map_err(|error| format!("{what} {file} cannot be read: {error}"))
}

fn source(user: &User, cluster: &Cluster) -> std::result::Result<Source, String> {
    let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let token = user.token.as_ref().map(|secret| secret.0.clone()).filter(|token| !token.is_empty());
    if let Some(provider) = &user.auth_provider {
        return of_provider(provider);
    }
    if let (Some(user), Some(password)) = (set(&user.username), &user.password) {
        return Ok(Source::Basic { user, password: password.0.clone() });
    }
    // As in client-go the file counts before the token, which counts while the file cannot be read.
    if let Some(file) = set(&user.token_file) {
        return Ok(Source::File { path: file.into(), token });
    }
    match (token, &user.exec) {
        (Some(token), _) => Ok(Source::Bearer(token)),
        (None, Some(exec)) => Ok(Source::Exec(Box::new(plugin(exec, cluster)?))),
        (None, None) => Ok(Source::None),
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
        if let Some(extension) = cluster.extensions.iter().find(|it| it.name == EXTENSION) {
            add("config", extension.extension.clone());
        }
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

/// The proxy of the kubeconfig, or the one that the environment names for the server, by Go's rules.
fn proxy(
    configured: Option<&str>,
    server: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> std::result::Result<Option<Uri>, String> {
    let parse = |url: &str| url.parse().map_err(|error| format!("proxy URL {url:?}: {error}"));
    if let Some(url) = configured.filter(|url| !url.is_empty()) {
        return parse(url).map(Some);
    }
    let either = |upper: &str, lower: &str| {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        set(upper).or_else(|| set(lower))
    };
    let named = match server.scheme_str() {
        Some("http") => either("HTTP_PROXY", "http_proxy"),
        _ => either("HTTPS_PROXY", "https_proxy"),
    };
    let Some(url) = named else { return Ok(None) };
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    let excepted = excepted(&either("NO_PROXY", "no_proxy").unwrap_or_default(), server);
    // The matcher's own proxy does not matter, only whether the server is excepted.
    if is_local || Matcher::builder().all("http://proxy").no(excepted).build().intercept(server).is_none() {
        return Ok(None);
    }
    if url.contains("://") { parse(&url).map(Some) } else { parse(&format!("http://{url}")).map(Some) }
}

/// The entries of `$NO_PROXY` as the matcher knows them: it has neither ports nor `*.`.
fn excepted(entries: &str, server: &Uri) -> String {
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("http") { 80 } else { 443 });
    let entry = |entry: &str| {
        let entry = entry.trim();
        let entry = entry.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(entry);
        match entry.rsplit_once(':') {
            Some((host, own)) if !host.contains(':') || host.ends_with(']') => {
                (own.parse() == Ok(port)).then(|| host.trim_matches(['[', ']']).to_owned())
            }
            _ => Some(entry.to_owned()),
        }
    };
    entries.split(',').filter_map(entry).collect::<Vec<_>>().join(",")
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
    fn proxies_of_the_environment_are_chosen_as_in_go() {
        let check = |server: &str, configured: &str, environment: &[(&str, &str)], expected: Option<&str>| {
            let variable =
                |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            let server = server.parse().expect("a URL");
            let found = proxy(Some(configured), &server, variable).expect("valid");
            assert_eq!(found, expected.map(|url| url.parse().expect("a URL")), "{server} {environment:?}");
        };
        let (https, http) = (("HTTPS_PROXY", "http://p:1"), ("HTTP_PROXY", "q:2"));
        let server = "https://m1.example.com:6443";
        check(server, "", &[], None);
        check(server, "socks5://s:3", &[https], Some("socks5://s:3"));
        check(server, "", &[https, http], Some("http://p:1"));
        check(server, "", &[("https_proxy", "http://p:1"), ("HTTPS_PROXY", "")], Some("http://p:1"));
        check("http://m1.example.com", "", &[https, http], Some("http://q:2"));
        check("http://m1.example.com", "", &[https], None);
        check(server, "", &[https, ("NO_PROXY", "other.com,example.com")], None);
        check(server, "", &[https, ("no_proxy", "*")], None);
        check(server, "", &[https, ("NO_PROXY", "p")], Some("http://p:1"));
        check(server, "", &[https, ("NO_PROXY", "*.example.com")], None);
        check(server, "", &[https, ("NO_PROXY", "a, example.com:6443")], None);
        check(server, "", &[https, ("NO_PROXY", "example.com:443")], Some("http://p:1"));
        check("https://[fd00::1]", "", &[https, ("NO_PROXY", "[fd00::1]:443")], None);
        check("https://[fd00::1]", "", &[https, ("NO_PROXY", "fd00::2,fd00::/120")], None);
        check("https://10.0.0.7", "", &[https, ("NO_PROXY", "10.0.0.0/24")], None);
        check("https://10.0.1.7", "", &[https, ("NO_PROXY", "10.0.0.0/24")], Some("http://p:1"));
        // The variables never concern this machine, a kubeconfig does.
        for server in ["https://localhost:6443", "https://127.0.0.1:1", "https://[::1]:1"] {
            check(server, "", &[https], None);
            check(server, "http://p:1", &[], Some("http://p:1"));
        }
        for url in ["http://[", "a b"] {
            proxy(Some(url), &Uri::from_static("https://m1"), |_| None).expect_err(url);
        }
    }

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
            "insecure-skip-tls-verify": true, "proxy-url": "http://p:1", "tls-server-name": "other"});
        assert_eq!(plugin(&exec, &cluster).expect("a program").cluster, Some(expected));
        assert_eq!(plugin(&Exec::default(), &cluster).expect("a program").cluster, None);
    }

    #[test]
    fn servers_are_trusted_as_configured() {
        let of = |cluster: &Cluster| Config::of(cluster, &User::default(), None, |_| None).map(|config| config.roots);
        let mut cluster = Cluster { server: Some("https://m1".into()), ..Cluster::default() };
        assert!(matches!(of(&cluster), Ok(Roots::Platform)));
        cluster.certificate_authority_data = Some(BASE64_STANDARD.encode("no PEM"));
        assert!(of(&cluster).is_err_and(|why| why == "certificate-authority: holds no certificate"));
        cluster.insecure_skip_tls_verify = Some(true);
        assert!(matches!(of(&cluster), Ok(Roots::Unverified)));
        cluster.certificate_authority_data = None;
        cluster.certificate_authority = Some("/nonexistent/ca".into());
        assert!(
            of(&cluster).is_err_and(|why| why.starts_with("certificate-authority /nonexistent/ca cannot be read: "))
        );
        assert!(of(&Cluster::default()).is_err_and(|why| why == "the cluster has no server"));
    }
}
