//! Failures of the layers below, as Status.

use apimachinery::{Status, StatusReason};

/// The Status of a failed request to the store.
pub fn store(error: storage::Error) -> Status {
    match error {
        storage::Error::Compacted { .. } => {
            Status::failure(StatusReason::Expired, "The resourceVersion for the provided list is too old.")
        }
        storage::Error::TooLarge { size, limit } => Status::failure(
            StatusReason::RequestEntityTooLarge,
            format!("Request entity too large: the object takes {size} bytes, the limit is {limit}"),
        ),
        storage::Error::NoSpace => Status::failure(
            StatusReason::ServiceUnavailable,
            "no space left on the store's device: nothing was written; free some space and try again",
        ),
        storage::Error::OverLimit(why) => {
            Status::failure(StatusReason::RequestEntityTooLarge, format!("Request entity too large: {why}"))
        }
        storage::Error::Alarm(why) => {
            Status::failure(StatusReason::ServiceUnavailable, format!("nothing was written: {why}"))
        }
        storage::Error::Unavailable(why) => Status::failure(StatusReason::ServiceUnavailable, why.to_string()),
        storage::Error::Uncertain(why) => Status::failure(StatusReason::Timeout, format!("Timeout: {why}")),
        storage::Error::Damaged(damage) => Status::internal(format!("{damage}; {}", damage.advice())),
        storage::Error::Closed => {
            Status::failure(StatusReason::ServiceUnavailable, "the server is shutting down; try again")
        }
        other => Status::internal(other),
    }
}

/// A stored or received document that is no object.
pub fn document(error: serde_json::Error) -> Status {
    Status::internal(format!("decoding a stored object: {error}"))
}

/// The answer to a method that a resource or path does not have.
pub fn method_not_allowed() -> Status {
    Status::failure(StatusReason::MethodNotAllowed, "the server does not allow this method on the requested resource")
        .with_details(apimachinery::status::StatusDetails::default())
}

pub(crate) fn no_such_resource() -> Status {
    Status::failure(StatusReason::NotFound, "the server could not find the requested resource")
        .with_details(apimachinery::status::StatusDetails::default())
}
