//! `meta/v1.Status`: the form of every failure that a client receives.

use serde::{Deserialize, Serialize};

use crate::field;

/// The machine-readable reason of a failure; clients act on it, so the texts are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusReason {
    /// 400: the request is malformed.
    BadRequest,
    /// 401: the credentials are missing or invalid.
    Unauthorized,
    /// 403: the user may not do this.
    Forbidden,
    /// 404: the object or resource does not exist.
    NotFound,
    /// 405: the resource does not support the verb.
    MethodNotAllowed,
    /// 406: no requested media type can be served.
    NotAcceptable,
    /// 409: an object of this name exists.
    AlreadyExists,
    /// 409: the object changed since it was read.
    Conflict,
    /// 410: the item is permanently unavailable.
    Gone,
    /// 410: the resource version or continue token is too old.
    Expired,
    /// 413: the body is too large.
    RequestEntityTooLarge,
    /// 415: the body's media type is not supported.
    UnsupportedMediaType,
    /// 422: the object is invalid.
    Invalid,
    /// 429: the client must wait.
    TooManyRequests,
    /// 500: the server failed.
    InternalError,
    /// 503: the server cannot serve the request now.
    ServiceUnavailable,
    /// 504: the request took too long.
    Timeout,
    /// 500 (kube-apiserver's): the server could not complete the request in time; the client may retry.
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

    /// The reason as text of a Status.
    pub fn as_str(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    /// The HTTP status of the reason.
    pub fn code(self) -> u16 {
        Self::TABLE[self as usize].2
    }

    /// The reason of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::TABLE.iter().find(|(_, name, _)| *name == text).map(|(reason, ..)| *reason)
    }
}

/// `meta/v1.Status`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", default)]
#[error("{message}")]
pub struct Status {
    /// Always `Status`.
    pub kind: String,
    /// Always `v1`.
    pub api_version: String,
    /// Usually empty.
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    pub status: String,
    /// An explanation for users.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// A [`StatusReason`] by name; empty for a Status without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The object, the causes and when to retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<StatusDetails>>,
    /// The HTTP status code.
    #[serde(skip_serializing_if = "is_zero")]
    pub code: u16,
}

fn is_zero(n: &u16) -> bool {
    *n == 0
}

/// `meta/v1.ListMeta`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The token for the next page; empty on the last one.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// How many objects follow this page, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
    /// The revision of the list.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

/// `meta/v1.StatusDetails`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The kind or the plural of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The UID of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The causes, such as one for each invalid field.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::meta::null_as_default")]
    pub causes: Vec<StatusCause>,
    /// Seconds after which the client may retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<i32>,
}

/// `meta/v1.StatusCause`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// A machine-readable reason, such as `FieldValueInvalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// An explanation for users.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl StatusCause {
    /// The error of a field.
    pub fn of(error: &field::Error) -> Self {
        Self { reason: error.reason().into(), message: error.body(), field: error.path.as_str().into() }
    }
}

impl Status {
    /// A failure with the reason's HTTP status.
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

    /// A 500 without a reason, as kube-apiserver returns for errors without a status. Clients match the code.
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

    /// The same failure with these details.
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

    /// A 400 with this message.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(StatusReason::BadRequest, message)
    }

    /// A 500 with this message.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = message.to_string();
        let status = Self::failure(StatusReason::InternalError, format!("Internal error occurred: {message}"));
        let cause = StatusCause { message, ..StatusCause::default() };
        status.with_details(StatusDetails { causes: vec![cause], ..StatusDetails::default() })
    }

    /// `deployments.apps "x" not found`.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::failure(StatusReason::NotFound, format!("{} \"{name}\" not found", group_resource(group, resource)))
            .with_details(named(group, resource, name))
    }

    /// The 409 of a name that is taken.
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

    /// The 403 of a refusal with its explanation.
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
        // Equal messages of several checks are separate causes, but appear once in the text.
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
                causes: errors.iter().map(StatusCause::of).collect(),
                ..StatusDetails::default()
            },
        )
    }

    /// The reason, if it is a known one.
    pub fn reason(&self) -> Option<StatusReason> {
        StatusReason::parse(&self.reason)
    }

    /// Whether it has this reason.
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
