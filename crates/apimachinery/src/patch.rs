//! Errors of patches, of every type.

use crate::{Status, StatusReason};

/// Why a patch cannot be parsed or applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The document is not a patch.
    #[error("error decoding patch: {0}")]
    Malformed(String),
    /// A JSON patch with more operations than permitted.
    #[error("Request entity too large: The allowed maximum operations in a JSON patch is {max}, got {actual}")]
    TooManyOperations {
        /// The number of operations.
        actual: usize,
        /// The limit.
        max: usize,
    },
    /// The patch and the object do not fit together.
    #[error("{0}")]
    NotApplicable(String),
    /// An operation of a JSON patch expects another value at this place.
    #[error("testing value {0} failed: test failed")]
    TestFailed(String),
    /// A strategic merge patch uses a directive wrongly.
    #[error("{0}")]
    Directive(String),
    /// A directive of a strategic merge patch has the wrong form.
    #[error("invalid patch format of {0}")]
    Format(&'static str),
}

impl PatchError {
    /// The API's response. Upstream gives no reason why a JSON patch does not apply, and reports an invalid directive
    /// as an internal error.
    pub fn to_status(&self) -> Status {
        match self {
            Self::Malformed(_) | Self::Format(_) => Status::bad_request(self.to_string()),
            Self::Directive(_) => Status::unclassified(self.to_string()),
            Self::TooManyOperations { .. } => Status::failure(StatusReason::RequestEntityTooLarge, self.to_string()),
            Self::NotApplicable(_) | Self::TestFailed(_) => {
                Status::failure(StatusReason::Invalid, "the server rejected our request due to an error in our request")
                    .with_details(crate::status::StatusDetails::default())
            }
        }
    }
}
