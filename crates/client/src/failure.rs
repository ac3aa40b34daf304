//! Classifies connection failures by the errors of the HTTP and TLS libraries, so that commands can explain them.

mod go;

use std::error::Error as StdError;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError, InvalidMessage};

use crate::Error;

/// Why there is no response. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection was refused: the port has no listener.
    Refused,
    /// The host name has no address; with the resolver's message.
    Unresolved(String),
    /// No connection within this time.
    NoConnection(Duration),
    /// A connection, but no response.
    NoAnswer {
        /// The request.
        attempt: String,
        /// The time-out.
        after: Duration,
    },
    /// No trusted authority issued the certificate.
    UnknownAuthority,
    /// The certificate has expired.
    Expired {
        /// The current time.
        now: u64,
        /// The end of its validity.
        ended: u64,
    },
    /// The certificate is not yet valid.
    NotYetValid {
        /// The current time.
        now: u64,
        /// The start of its validity.
        begins: u64,
    },
    /// The certificate is for other names.
    OtherNames {
        /// The host that the client connected to.
        expected: String,
        /// The names in the certificate.
        names: Vec<String>,
    },
    /// Another defect of the certificate.
    Certificate(String),
    /// The server ended the handshake because of the client's certificate.
    ClientCertificate(String),
    /// The server does not use TLS.
    Plain,
    /// Any other failure, with all causes.
    Other(String),
}

/// The connection took longer than allowed.
#[derive(Debug, thiserror::Error)]
#[error("no connection within {} s", .0.as_secs())]
pub(crate) struct NoConnection(pub Duration);

/// The control plane does not connect to this address.
#[derive(Debug, thiserror::Error)]
#[error("{host} is refused: it belongs to {what}, where no cluster is")]
pub(crate) struct Forbidden {
    /// The host of the URL, with the address that its name resolved to.
    pub host: String,
    pub what: &'static str,
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Unresolved(pub std::io::Error);

impl Error {
    /// Why there is no response; `None` if there was one.
    pub fn failure(&self) -> Option<Failure> {
        match self {
            Self::Transport { source, .. } => {
                let known = causes(source.as_ref()).into_iter().find_map(known);
                Some(known.unwrap_or_else(|| Failure::Other(crate::error::chain(source.as_ref()))))
            }
            Self::Timeout { attempt, after, .. } => Some(Failure::NoAnswer { attempt: attempt.clone(), after: *after }),
            _ => None,
        }
    }
}

/// An error and all its causes. `source` skips an error that an I/O error wraps, so it is unwrapped here.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> Vec<&'a (dyn StdError + 'static)> {
    let mut causes = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        causes.push(error);
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = inner.map(|inner| inner as &(dyn StdError + 'static)).or_else(|| error.source());
    }
    causes
}

fn known(error: &(dyn StdError + 'static)) -> Option<Failure> {
    if let Some(NoConnection(after)) = error.downcast_ref() {
        return Some(Failure::NoConnection(*after));
    }
    if let Some(Unresolved(why)) = error.downcast_ref() {
        let text = why.to_string();
        // The name of the failed C function does not help the user.
        let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
        return Some(Failure::Unresolved(text.to_owned()));
    }
    if let Some(error) = error.downcast_ref::<std::io::Error>()
        && error.kind() == std::io::ErrorKind::ConnectionRefused
    {
        return Some(Failure::Refused);
    }
    error.downcast_ref::<rustls::Error>().and_then(of_tls)
}

fn of_tls(error: &rustls::Error) -> Option<Failure> {
    match error {
        rustls::Error::InvalidCertificate(why) => Some(of_certificate(why)),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => Some(Failure::Plain),
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA),
        ) => Some(Failure::ClientCertificate(format!("{alert:?}"))),
        _ => None,
    }
}

fn of_certificate(why: &CertificateError) -> Failure {
    match why {
        // A trusted authority has the issuer's name but another key: two control planes, for example.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => Failure::UnknownAuthority,
        // A self-signed certificate that is no trusted authority.
        CertificateError::Other(error) if error.to_string() == "CaUsedAsEndEntity" => Failure::UnknownAuthority,
        CertificateError::ExpiredContext { time, not_after } => {
            Failure::Expired { now: time.as_secs(), ended: not_after.as_secs() }
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            Failure::NotYetValid { now: time.as_secs(), begins: not_before.as_secs() }
        }
        CertificateError::NotValidForNameContext { expected, presented } => Failure::OtherNames {
            expected: expected.to_str().into_owned(),
            names: presented.iter().map(|name| bare(name)).collect(),
        },
        other => Failure::Certificate(other.to_string()),
    }
}

/// `a` of `DnsName("a")`, as the library prints names.
fn bare(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::{ServerName, UnixTime};

    use super::*;
    use crate::error::Error;

    fn of(source: impl StdError + Send + Sync + 'static) -> Failure {
        // As in hyper: an outer error around an I/O error around the reason.
        let wrapped = std::io::Error::other(std::io::Error::other(source));
        Error::transport(&"h:1".into(), "GET /", Box::new(wrapped)).failure().expect("there was no answer")
    }

    #[test]
    fn reasons_are_found_below_wrapping_errors() {
        let time = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let certificate = |why| of(rustls::Error::InvalidCertificate(why));
        assert_eq!(of(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)), Failure::Refused);
        assert_eq!(of(NoConnection(Duration::from_secs(15))), Failure::NoConnection(Duration::from_secs(15)));
        let unknown = std::io::Error::other("failed to lookup address information: Name or service not known");
        assert_eq!(of(Unresolved(unknown)), Failure::Unresolved("Name or service not known".into()));
        assert_eq!(certificate(CertificateError::UnknownIssuer), Failure::UnknownAuthority);
        assert_eq!(certificate(CertificateError::BadSignature), Failure::UnknownAuthority);
        let own = rustls::OtherError(std::sync::Arc::new(std::io::Error::other("CaUsedAsEndEntity")));
        assert_eq!(certificate(CertificateError::Other(own)), Failure::UnknownAuthority);
        let expired = CertificateError::ExpiredContext { time: time(9), not_after: time(7) };
        assert_eq!(certificate(expired), Failure::Expired { now: 9, ended: 7 });
        let early = CertificateError::NotValidYetContext { time: time(7), not_before: time(9) };
        assert_eq!(certificate(early), Failure::NotYetValid { now: 7, begins: 9 });
        let others = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("a.example").expect("a name"),
            presented: vec!["DnsName(\"b.example\")".into(), "IpAddress(10.0.0.1)".into()],
        };
        let names = vec!["b.example".to_owned(), "10.0.0.1".to_owned()];
        assert_eq!(certificate(others), Failure::OtherNames { expected: "a.example".into(), names });
        assert_eq!(of(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)), Failure::Plain);
        let alert = rustls::Error::AlertReceived(AlertDescription::CertificateExpired);
        assert_eq!(of(alert), Failure::ClientCertificate("CertificateExpired".into()));
        assert_eq!(of(std::fmt::Error), Failure::Other(std::fmt::Error.to_string()));
    }
}
