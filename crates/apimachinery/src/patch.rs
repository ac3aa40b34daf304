//! Why a patch is refused, for every kind of patch.

use crate::{Status, StatusReason};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The document is not a patch.
    #[error("error decoding patch: {0}")]
    Malformed(String),
    #[error("Request entity too large: The allowed maximum operations in a JSON patch is {max}, got {actual}")]
    TooManyOperations { actual: usize, max: usize },
    /// The patch and the object do not fit together.
    #[error("{0}")]
    NotApplicable(String),
    /// A strategic merge patch uses a directive wrongly.
    #[error("{0}")]
    Directive(String),
}

impl PatchError {
    /// What the API answers. Upstream's reply to a JSON patch that does not apply carries no details; ours has the
    /// same reason and says why.
    pub fn to_status(&self) -> Status {
        match self {
            Self::Malformed(_) | Self::Directive(_) => Status::bad_request(self.to_string()),
            Self::TooManyOperations { .. } => Status::failure(StatusReason::RequestEntityTooLarge, self.to_string()),
            Self::NotApplicable(_) => Status::failure(
                StatusReason::Invalid,
                format!("the server rejected our request due to an error in our request: {self}"),
            )
            .with_details(crate::status::StatusDetails::default()),
        }
    }
}
