//! Go's texts about failed connections: clients and operators search for them.

use super::Failure;
use crate::Error;

impl Error {
    /// The cause as Go words it. `server` is the URL of the server.
    pub fn in_go(&self, server: &str) -> String {
        let server = server.trim_start_matches("https://");
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        let certificate = |why: String| format!("tls: failed to verify certificate: x509: {why}");
        match self.failure() {
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
            _ => self.cause(),
        }
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
