//! Errors of reconcilers. Failed reconciles are retried with exponential backoff.

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Request(#[from] client::Error),
    #[error("{object} cannot be decoded: {source}")]
    Decode { object: String, source: serde_json::Error },
    #[error("{0} is not served")]
    NotServed(String),
    #[error("cannot determine whether an owner of {object} exists: {why}")]
    Owner { object: String, why: String },
    #[error("{object}: {user} may not request such a certificate")]
    NotAllowed { object: String, user: String },
    #[error("a selector of {object} is invalid: {why}")]
    Selector { object: String, why: String },
    #[error("{object}: {source}")]
    Certificate { object: String, source: pki::Error },
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Adds the object's name to a decoding error.
pub(crate) fn decoded<T>(object: &apimachinery::Object, result: serde_json::Result<T>) -> Result<T> {
    result.map_err(|source| Error::Decode { object: format!("{} {}", object.kind(), object.key()), source })
}
