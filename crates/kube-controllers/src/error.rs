//! Why a pass failed. A failed pass is repeated with growing pauses.

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Request(#[from] client::Error),
    #[error("{object} cannot be understood: {source}")]
    Decode { object: String, source: serde_json::Error },
    #[error("{0} is not served at present")]
    NotServed(String),
    #[error("cannot tell whether an owner of {object} exists: {why}")]
    Owner { object: String, why: String },
    #[error("{object}: {user} may not ask for such a certificate")]
    NotAllowed { object: String, user: String },
    #[error("a selector of {object} cannot be understood: {why}")]
    Selector { object: String, why: String },
    #[error("{object}: {source}")]
    Certificate { object: String, source: pki::Error },
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Names the object that cannot be decoded.
pub(crate) fn decoded<T>(object: &apimachinery::Object, result: serde_json::Result<T>) -> Result<T> {
    result.map_err(|source| Error::Decode { object: format!("{} {}", object.kind(), object.key()), source })
}
