//! Why a request has no usable response.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::Status;
use apimachinery::status::StatusReason;
use transport::BoxError;

/// Why a request has no usable response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server returned an error; the message is the server's.
    #[error(transparent)]
    Status(#[from] Box<Status>),
    /// No response, or an incomplete one.
    #[error("{attempt}: {}", chain(source.as_ref()))]
    Transport {
        /// The server's host and port.
        host: Arc<str>,
        /// The request.
        attempt: String,
        /// The error of the HTTP library.
        source: BoxError,
    },
    /// No response within the time-out.
    #[error("{attempt}: no answer within {} s", after.as_secs())]
    Timeout {
        /// The server's host and port.
        host: Arc<str>,
        /// The request.
        attempt: String,
        /// The time-out.
        after: Duration,
    },
    /// The response violates the API's conventions.
    #[error("cannot understand the answer to {attempt}: {why}")]
    Decode {
        /// The request.
        attempt: String,
        /// The error in the response.
        why: String,
    },
    /// The request could not be built from its arguments.
    #[error("cannot build the request {attempt}: {why}")]
    Request {
        /// The request.
        attempt: String,
        /// The error in the arguments.
        why: String,
    },
    /// A request for one object without its name, whose path would be that of the whole collection.
    #[error("resource name may not be empty")]
    Unnamed,
    /// A write of a process that may no longer be the leader. Over a socket it may have been executed.
    #[error("{attempt}: writes have ended, because another process may have the Lease by now")]
    Fenced {
        /// The request.
        attempt: String,
    },
    /// The connection's configuration (kubeconfig, certificates, proxy) is invalid.
    #[error("{0}")]
    Config(String),
}

impl Error {
    pub(crate) fn transport(host: &Arc<str>, attempt: &str, source: BoxError) -> Self {
        Self::Transport { host: host.clone(), attempt: attempt.to_owned(), source }
    }

    pub(crate) fn decode(attempt: &str, why: impl std::fmt::Display) -> Self {
        Self::Decode { attempt: attempt.to_owned(), why: why.to_string() }
    }

    pub(crate) fn encode(attempt: &str, why: impl std::fmt::Display) -> Self {
        Self::Request { attempt: attempt.to_owned(), why: why.to_string() }
    }

    pub(crate) fn unexpected(attempt: &str, what: &str) -> Self {
        Self::decode(attempt, format_args!("got {what}"))
    }

    /// The Status of an error response.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The reason in the Status of an error response.
    pub fn reason(&self) -> Option<StatusReason> {
        self.status().and_then(Status::reason)
    }

    /// Whether the server returned NotFound.
    pub fn is_not_found(&self) -> bool {
        self.reason() == Some(StatusReason::NotFound)
    }

    /// Whether the server returned NotFound for this object. Any other 404 may be from an intermediary, or concern the
    /// whole kind.
    pub fn is_absence_of(&self, name: &str) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        self.is_not_found() && details.is_some_and(|details| details.name == name)
    }

    /// Whether the API server itself returned Forbidden: an intermediary does not report the denied resource.
    pub fn is_denial(&self) -> bool {
        self.reason() == Some(StatusReason::Forbidden) && self.status().is_some_and(|status| status.details.is_some())
    }

    /// Whether the server returned Conflict.
    pub fn is_conflict(&self) -> bool {
        self.reason() == Some(StatusReason::Conflict)
    }

    /// Whether the server returned AlreadyExists.
    pub fn is_already_exists(&self) -> bool {
        self.reason() == Some(StatusReason::AlreadyExists)
    }

    /// Whether a write was rejected because its namespace is being deleted.
    pub fn is_namespace_terminating(&self) -> bool {
        let causes = self.status().and_then(|status| status.details.as_ref()).map(|details| &details.causes);
        causes.into_iter().flatten().any(|cause| cause.reason == "NamespaceTerminating")
    }

    /// Whether the server returned Unauthorized.
    pub fn is_unauthorized(&self) -> bool {
        self.reason() == Some(StatusReason::Unauthorized)
    }

    /// The requested resource version has expired: the caller must list again.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason(), Some(StatusReason::Expired | StatusReason::Gone))
            || self.status().is_some_and(|status| status.code == 410)
    }

    /// The host and port of the server that did not respond.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Transport { host, .. } | Self::Timeout { host, .. } => Some(host),
            _ => None,
        }
    }

    /// The cause without the request: calls that fail for the same reason have equal causes.
    pub fn cause(&self) -> String {
        match self {
            Self::Transport { source, .. } => chain(source.as_ref()),
            Self::Timeout { after, .. } => format!("no answer within {} s", after.as_secs()),
            _ => self.to_string(),
        }
    }

    /// Whether the server did not respond at all (as opposed to returning an error).
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Transport { .. } | Self::Timeout { .. })
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// An error with all its sources: the outermost messages of HTTP libraries ("client error") are not specific.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text = format!("{text}: {inner}");
        }
        next = error.source();
    }
    text
}
