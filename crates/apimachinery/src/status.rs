//! `meta/v1.Status`: how every failure is told to a client.

use serde::{Deserialize, Serialize};

use crate::field;

/// The machine-readable reason of a failure; clients act on it, so the texts are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusReason {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Gone,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServiceUnavailable,
    Timeout,
    ServerTimeout,
}

impl StatusReason {
    /// The reason's text and its HTTP status code.
    const TABLE: [(Self, &'static str, u16); 18] = [
        (Self::BadRequest, "BadRequest", 400),
        (Self::Unauthorized, "Unauthorized", 401),
        (Self::Forbidden, "Forbidden", 403),
        (Self::NotFound, "NotFound", 404),
        (Self::MethodNotAllowed, "MethodNotAllowed", 405),
        (Self::NotAcceptable, "NotAcceptable", 406),
        (Self::AlreadyExists, "AlreadyExists", 409),
        (Self::Conflict, "Conflict", 409),
        (Self::Gone, "Gone", 410),
        (Self::Expired, "Expired", 410),
        (Self::RequestEntityTooLarge, "RequestEntityTooLarge", 413),
        (Self::UnsupportedMediaType, "UnsupportedMediaType", 415),
        (Self::Invalid, "Invalid", 422),
        (Self::TooManyRequests, "TooManyRequests", 429),
        (Self::InternalError, "InternalError", 500),
        (Self::ServiceUnavailable, "ServiceUnavailable", 503),
        (Self::Timeout, "Timeout", 504),
        (Self::ServerTimeout, "ServerTimeout", 500),
    ];

    pub fn as_str(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    pub fn code(self) -> u16 {
        Self::TABLE[self as usize].2
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::TABLE.iter().find(|(_, name, _)| *name == text).map(|(reason, ..)| *reason)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", default)]
#[error("{message}")]
pub struct Status {
    pub kind: String,
    pub api_version: String,
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<StatusDetails>>,
    #[serde(skip_serializing_if = "is_zero")]
    pub code: u16,
}

fn is_zero(n: &u16) -> bool {
    *n == 0
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_as_default")]
    pub causes: Vec<StatusCause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Status {
    pub fn failure(reason: StatusReason, message: impl Into<String>) -> Self {
        Self {
            kind: "Status".into(),
            api_version: "v1".into(),
            status: "Failure".into(),
            message: message.into(),
            reason: reason.as_str().into(),
            code: reason.code(),
            ..Self::default()
        }
    }

    /// A 500 without a reason: what kube-apiserver makes of errors that nobody gave a status. Clients match the code.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self {
            kind: "Status".into(),
            api_version: "v1".into(),
            status: "Failure".into(),
            message: message.into(),
            code: 500,
            ..Self::default()
        }
    }

    #[must_use]
    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The reply to a DELETE that removed the object at once.
    pub fn deleted(group: &str, resource: &str, name: &str, uid: &str) -> Self {
        Self { kind: "Status".into(), api_version: "v1".into(), status: "Success".into(), ..Self::default() }
            .with_details(StatusDetails {
                name: name.into(),
                group: group.into(),
                kind: resource.into(),
                uid: uid.into(),
                ..StatusDetails::default()
            })
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(StatusReason::BadRequest, message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::failure(StatusReason::InternalError, format!("Internal error occurred: {message}"))
    }

    /// `deployments.apps "x" not found`.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::failure(StatusReason::NotFound, format!("{} \"{name}\" not found", group_resource(group, resource)))
            .with_details(named(group, resource, name))
    }

    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self::failure(
            StatusReason::AlreadyExists,
            format!("{} \"{name}\" already exists", group_resource(group, resource)),
        )
        .with_details(named(group, resource, name))
    }

    /// `Operation cannot be fulfilled on RESOURCE "NAME": WHY`.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        Self::failure(
            StatusReason::Conflict,
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", group_resource(group, resource)),
        )
        .with_details(named(group, resource, name))
    }

    /// The conflict that clients retry after reading again.
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        Self::conflict(
            group,
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let subject = group_resource(group, resource);
        let message = match (resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{subject} is forbidden: {why}"),
            (false, false) => format!("{subject} \"{name}\" is forbidden: {why}"),
        };
        Self::failure(StatusReason::Forbidden, message).with_details(named(group, resource, name))
    }

    /// 422 from validation. `kind` is the object's Kind.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[field::Error]) -> Self {
        // What several checks say is a cause each, but told once.
        let mut texts: Vec<String> = Vec::with_capacity(errors.len());
        for error in errors.iter().map(ToString::to_string) {
            if !texts.contains(&error) {
                texts.push(error);
            }
        }
        let text = match &texts[..] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let subject = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        Self::failure(StatusReason::Invalid, format!("{subject} \"{name}\" is invalid: {text}")).with_details(
            StatusDetails {
                name: name.into(),
                group: group.into(),
                kind: kind.into(),
                causes: errors.iter().map(field::Error::to_cause).collect(),
                ..StatusDetails::default()
            },
        )
    }

    pub fn reason(&self) -> Option<StatusReason> {
        StatusReason::parse(&self.reason)
    }

    pub fn is(&self, reason: StatusReason) -> bool {
        self.reason == reason.as_str()
    }
}

fn named(group: &str, resource: &str, name: &str) -> StatusDetails {
    StatusDetails { name: name.into(), group: group.into(), kind: resource.into(), ..StatusDetails::default() }
}

fn group_resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_index_their_own_row() {
        for (position, (reason, name, _)) in StatusReason::TABLE.iter().enumerate() {
            assert_eq!(*reason as usize, position, "{name}");
            assert_eq!(StatusReason::parse(name), Some(*reason));
        }
    }
}
