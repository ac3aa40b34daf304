//! `TracingConfiguration` of `apiserver.config.k8s.io`.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use apimachinery::configuration::{ConfigurationError, FileKind, remove_nulls};
use apimachinery::field::{Error, ErrorList, Path};
use http::uri::Authority;
use serde::Deserialize;

const KIND: FileKind = FileKind {
    api_versions: &[
        "apiserver.config.k8s.io/v1",
        "apiserver.config.k8s.io/v1beta1",
        "apiserver.config.k8s.io/v1alpha1",
    ],
    kind: "TracingConfiguration",
};

/// OTLP's port.
const PORT: u16 = 4317;
const MILLION: i32 = 1_000_000;

/// A valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The collector.
    pub endpoint: Endpoint,
    /// Sampled requests of a million, besides those whose client decides.
    pub sampling_rate_per_million: u32,
}

/// The address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A host and a port.
    Tcp(String, u16),
    /// The path of a socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    endpoint: Option<String>,
    sampling_rate_per_million: Option<i32>,
}

impl Configuration {
    /// Reads a configuration file, YAML or JSON.
    ///
    /// # Errors
    /// If it is not a TracingConfiguration or has invalid fields.
    pub fn parse(file: &[u8]) -> Result<Self, ConfigurationError> {
        let mut tree = KIND.read(file)?;
        remove_nulls(&mut tree);
        let document: Document = serde_json::from_value(tree).map_err(ConfigurationError::undecodable)?;
        let mut errors = ErrorList::new();
        let rate = document.sampling_rate_per_million.unwrap_or_default();
        let path = Path::new("samplingRatePerMillion");
        if rate < 0 {
            errors.push(Error::invalid(&path, rate, "sampling rate must be positive"));
        }
        if rate > MILLION {
            let why = "sampling rate per million must be less than or equal to one million";
            errors.push(Error::invalid(&path, rate, why));
        }
        let endpoint = match document.endpoint.as_deref() {
            None => Ok(Endpoint::Tcp("localhost".to_owned(), PORT)),
            Some(text) => endpoint(text).map_err(|why| errors.push(Error::invalid(&Path::new("endpoint"), text, why))),
        };
        match (endpoint, u32::try_from(rate)) {
            (Ok(endpoint), Ok(rate)) if errors.is_empty() => Ok(Self { endpoint, sampling_rate_per_million: rate }),
            _ => Err(ConfigurationError::invalid(&errors)),
        }
    }
}

/// gRPC's names of servers: `HOST:PORT`, `dns:///HOST:PORT`, `unix:/PATH`, `unix:///PATH`.
fn endpoint(text: &str) -> Result<Endpoint, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return match path.starts_with('/') {
            true => Ok(Endpoint::Unix(path.into())),
            false => Err("the path of a unix socket must be absolute, such as unix:///run/otlp.sock".to_owned()),
        };
    }
    match text.split_once("://") {
        None => address(text),
        Some(("dns", rest)) => match rest.strip_prefix('/') {
            Some(text) => address(text),
            None => Err("a DNS server cannot be chosen; write dns:///HOST:PORT".to_owned()),
        },
        Some((scheme, _)) => Err(format!(
            "unsupported scheme: {scheme}.  Options are none, dns, or unix.  \
             See https://github.com/grpc/grpc/blob/master/doc/naming.md"
        )),
    }
}

fn address(text: &str) -> Result<Endpoint, String> {
    let form = || "must be HOST:PORT".to_owned();
    let authority: Authority = text.parse().map_err(|_| form())?;
    let port = match (authority.port_u16(), authority.as_str().len() == authority.host().len()) {
        (Some(port), _) if port > 0 => port,
        (None, true) => PORT,
        _ => return Err(form()),
    };
    // The rest of the text: a user.
    let is_whole = !authority.as_str().contains('@');
    let host = host(authority.host()).filter(|_| is_whole).ok_or_else(form)?;
    Ok(Endpoint::Tcp(host.to_owned(), port))
}

/// The name or the address, without an IPv6 address' brackets. An authority may contain more characters than either.
fn host(text: &str) -> Option<&str> {
    match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            (!text.is_empty() && text.bytes().all(is_name)).then_some(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(version: &str, fields: &str) -> String {
        let file = format!("apiVersion: apiserver.config.k8s.io/{version}\nkind: TracingConfiguration\n{fields}");
        match Configuration::parse(file.as_bytes()) {
            Ok(read) => format!("{} {}", read.endpoint, read.sampling_rate_per_million),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn files_of_kube_apiserver_are_read() {
        for (version, fields, expected) in [
            ("v1", "", "localhost:4317 0"),
            ("v1beta1", "endpoint: otel:4317\nsamplingRatePerMillion: 100", "otel:4317 100"),
            ("v1alpha1", "endpoint: null\nsamplingRatePerMillion: 1000000", "localhost:4317 1000000"),
            ("v1", "endpoint: dns:///otel.observability.svc:4317", "otel.observability.svc:4317 0"),
            ("v1", "endpoint: '[::1]:55680'", "[::1]:55680 0"),
            ("v1", "endpoint: otel", "otel:4317 0"),
            ("v1", "endpoint: unix:/run/otel.sock", "unix:/run/otel.sock 0"),
            ("v1", "endpoint: unix:///run/otel.sock", "unix:/run/otel.sock 0"),
        ] {
            assert_eq!(parsed(version, fields), expected, "{version} {fields}");
        }
    }

    #[test]
    fn invalid_fields_are_named() {
        for (version, fields, expected) in [
            (
                "v1",
                "samplingRatePerMillion: -1",
                "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
            ),
            (
                "v1",
                "samplingRatePerMillion: 1000001",
                "samplingRatePerMillion: Invalid value: 1000001: sampling rate per million must be less than or equal to one million",
            ),
            (
                "v1",
                "endpoint: https://otel:4317",
                "endpoint: Invalid value: \"https://otel:4317\": unsupported scheme: https.",
            ),
            ("v1", "endpoint: otel:0", "endpoint: Invalid value: \"otel:0\": must be HOST:PORT"),
            ("v1", "endpoint: otel:x", "endpoint: Invalid value: \"otel:x\": must be HOST:PORT"),
            ("v1", "endpoint: 'otel:'", "endpoint: Invalid value: \"otel:\": must be HOST:PORT"),
            ("v1", "endpoint: 'd$patch['", "endpoint: Invalid value: \"d$patch[\": must be HOST:PORT"),
            ("v1", "endpoint: '[otel]:4317'", "endpoint: Invalid value: \"[otel]:4317\": must be HOST:PORT"),
            ("v1", "endpoint: ''", "endpoint: Invalid value: \"\": must be HOST:PORT"),
            ("v1", "endpoint: user@otel:4317", "endpoint: Invalid value: \"user@otel:4317\": must be HOST:PORT"),
            (
                "v1",
                "endpoint: otel:4317/v1/traces",
                "endpoint: Invalid value: \"otel:4317/v1/traces\": must be HOST:PORT",
            ),
            (
                "v1",
                "endpoint: dns://1.1.1.1/otel:4317",
                "endpoint: Invalid value: \"dns://1.1.1.1/otel:4317\": a DNS server",
            ),
            (
                "v1",
                "endpoint: unix:otel.sock",
                "endpoint: Invalid value: \"unix:otel.sock\": the path of a unix socket",
            ),
            (
                "v1",
                "samplingRatePerMillion: 2000000\nendpoint: http://x",
                "[samplingRatePerMillion: Invalid value: 2000000",
            ),
            (
                "v2",
                "",
                "it is apiserver.config.k8s.io/v2 TracingConfiguration, not an apiserver.config.k8s.io/v1 TracingConfiguration",
            ),
            ("v1", "samplingRate: 1", "it cannot be decoded: unknown field `samplingRate`"),
            ("v1", "samplingRatePerMillion: 1\nsamplingRatePerMillion: 2", "it cannot be decoded: "),
            ("v1", "samplingRatePerMillion: 0.5", "it cannot be decoded: invalid type"),
        ] {
            let found = parsed(version, fields);
            assert!(found.starts_with(expected), "{fields}: {found}");
        }
    }
}
