//! Errors of reconcilers. A failed pass is repeated with growing pauses.

use apimachinery::Object;
use apimachinery::status::StatusReason;
use client::MapError;
use karmada_api::ApiType;
use karmada_api::scope::DecodeError;

use crate::MemberError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{attempt}: {source}")]
    Api { attempt: String, source: client::Error },
    #[error(transparent)]
    Kind(#[from] MapError),
    #[error(transparent)]
    Member(#[from] MemberError),
    #[error("{what} cannot be read: {source}")]
    Decode { what: String, source: serde_json::Error },
    #[error(transparent)]
    Object(#[from] DecodeError),
    #[error(transparent)]
    Binding(#[from] propagation::binding::Error),
    #[error(transparent)]
    Interpreter(#[from] interpreter::Error),
    /// The member is newer than the store; a person has to confirm first.
    #[error("a person has to confirm first that the state of the store is applied")]
    ResumePending,
    /// The Work changed or ended while it was executed; its next pass decides.
    #[error("work {0} changed while it was executed")]
    Superseded(String),
    /// Each write that failed was of an object that has changed since it was read.
    #[error("{}", .0.join("; "))]
    Outdated(Vec<String>),
    /// A precondition is not met yet.
    #[error("{0}")]
    Wait(String),
    /// Several parts failed; the others were executed.
    #[error("{}", .0.join("; "))]
    Several(Vec<String>),
}

impl Error {
    /// The written object has changed since it was read: the next pass reads it again.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::Api { source, .. } => source.is_conflict(),
            Self::Outdated(_) => true,
            _ => false,
        }
    }

    /// The server refused what was written, and refuses it again until a user changes something.
    pub(crate) fn is_refusal(&self) -> bool {
        let Self::Api { source, .. } = self else { return false };
        match source.reason() {
            Some(StatusReason::Invalid | StatusReason::BadRequest | StatusReason::RequestEntityTooLarge) => true,
            // A cluster that leaves takes its namespace with it.
            Some(StatusReason::Forbidden) => !source.is_namespace_terminating(),
            _ => false,
        }
    }

    /// The namespace of the written object, or its kind, does not exist yet or ends.
    pub(crate) fn has_no_place(&self) -> bool {
        self.is_not_found() || matches!(self, Self::Api { source, .. } if source.is_namespace_terminating())
    }

    /// The written object or its namespace does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Api { source, .. } if source.is_not_found())
    }
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Names the attempt in an error of the API.
pub(crate) trait During<T> {
    fn during(self, attempt: impl FnOnce() -> String) -> Result<T>;
}

impl<T> During<T> for client::Result<T> {
    fn during(self, attempt: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Api { attempt: attempt(), source })
    }
}

/// A typed object.
pub(crate) fn decode<T: ApiType>(object: &Object) -> std::result::Result<T, DecodeError> {
    T::from_object(object).map_err(|source| DecodeError { kind: T::KIND.to_owned(), key: object.key(), source })
}

/// A tree or a typed value out of an object.
pub(crate) fn decoded<T>(what: impl std::fmt::Debug, result: serde_json::Result<T>) -> Result<T> {
    result.map_err(|source| Error::Decode { what: format!("{what:?}"), source })
}

/// `Ok` without errors.
pub(crate) fn all(errors: Vec<String>) -> Result<()> {
    if errors.is_empty() { Ok(()) } else { Err(Error::Several(errors)) }
}
