//! Why a request has no useful answer.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::Status;
use apimachinery::status::StatusReason;
use transport::BoxError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused; the text is the server's.
    #[error(transparent)]
    Status(#[from] Box<Status>),
    /// No answer, or one that broke off.
    #[error("{attempt}: {}", chain(source.as_ref()))]
    Transport {
        /// The server's name and port.
        host: Arc<str>,
        attempt: String,
        source: BoxError,
    },
    #[error("{attempt}: no answer within {} s", after.as_secs())]
    Timeout { host: Arc<str>, attempt: String, after: Duration },
    /// The answer is not what the API prescribes.
    #[error("cannot understand the answer to {attempt}: {why}")]
    Decode { attempt: String, why: String },
    /// The request could not be built from its arguments.
    #[error("cannot build the request {attempt}: {why}")]
    Request { attempt: String, why: String },
    /// The connection's settings (kubeconfig, certificates, proxy) do not make sense.
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

    /// The server's refusal, if it was one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    pub fn reason(&self) -> Option<StatusReason> {
        self.status().and_then(Status::reason)
    }

    pub fn is_not_found(&self) -> bool {
        self.reason() == Some(StatusReason::NotFound)
    }

    /// Whether the server says of this very object that it is not there. Any other 404 may come from something in between,
    /// or mean the whole kind.
    pub fn is_absence_of(&self, name: &str) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        self.is_not_found() && details.is_some_and(|details| details.name == name)
    }

    pub fn is_conflict(&self) -> bool {
        self.reason() == Some(StatusReason::Conflict)
    }

    pub fn is_already_exists(&self) -> bool {
        self.reason() == Some(StatusReason::AlreadyExists)
    }

    pub fn is_unauthorized(&self) -> bool {
        self.reason() == Some(StatusReason::Unauthorized)
    }

    /// The revision that was asked for is gone: list again.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason(), Some(StatusReason::Expired | StatusReason::Gone))
            || self.status().is_some_and(|status| status.code == 410)
    }

    /// The name and port of the server that did not answer.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Transport { host, .. } | Self::Timeout { host, .. } => Some(host),
            _ => None,
        }
    }

    /// The reason without the attempt: calls that fail for one reason have one cause.
    pub fn cause(&self) -> String {
        match self {
            Self::Transport { source, .. } => chain(source.as_ref()),
            Self::Timeout { after, .. } => format!("no answer within {} s", after.as_secs()),
            _ => self.to_string(),
        }
    }

    /// Whether the server did not answer at all (as opposed to refusing).
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Transport { .. } | Self::Timeout { .. })
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// An error with everything that caused it: the outer texts of HTTP libraries alone ("client error") say nothing.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let inner = error.to_string();
        if !text.ends_with(&inner) {
            text = format!("{text}: {inner}");
        }
        next = error.source();
    }
    text
}
