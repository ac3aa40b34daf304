//! Authorization: decided from the request's attributes and a table of rules in memory, before anything is read, so
//! that a forbidden user learns nothing of what exists.

pub mod escalation;
pub mod rbac;
mod rules;
mod table;

use apimachinery::Status;
use transport::Identity;

pub use rules::{PolicyRule, RoleRef, Subject};
pub use table::{Rbac, Table};

/// Members of this group are authorized for everything, regardless of rules.
pub const MASTERS: &str = "system:masters";

/// The attributes of a request, derived from its URL and method alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// A request for a resource.
    Resource(ResourceAttributes),
    /// A path outside the resource space, with the lower-case HTTP method as verb.
    Path {
        /// The lower-case HTTP method.
        verb: String,
        /// The path.
        path: String,
    },
}

/// The attributes of a request for a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or one of the special verbs
    /// (`impersonate`, `bind`, `escalate`, `approve`, `sign`).
    pub verb: String,
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural.
    pub resource: String,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped requests and for requests across all namespaces.
    pub namespace: String,
    /// Empty when the request names no object.
    pub name: String,
}

impl ResourceAttributes {
    /// `pods` or `pods/log`.
    pub fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// The result of an authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// With the reason that audit and access reviews report.
    Allow(String),
    /// No rule grants it. The reason is often empty.
    NoOpinion(String),
}

impl Decision {
    /// Whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    /// The reason; may be empty.
    pub fn reason(&self) -> &str {
        match self {
            Self::Allow(reason) | Self::NoOpinion(reason) => reason,
        }
    }
}

/// Decides synchronously, from memory, on every request.
pub trait Authorizer: Send + Sync + 'static {
    /// Whether the user may do this.
    fn authorize(&self, user: &Identity, attributes: &Attributes) -> Decision;

    /// The rules that hold for a user in a namespace (SelfSubjectRulesReview). `None` when they cannot be listed.
    fn rules_for(&self, _user: &Identity, _namespace: &str) -> Option<Vec<PolicyRule>> {
        None
    }
}

/// `--authorization-mode=AlwaysAllow`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize(&self, _user: &Identity, _attributes: &Attributes) -> Decision {
        Decision::Allow(String::new())
    }

    fn rules_for(&self, _user: &Identity, _namespace: &str) -> Option<Vec<PolicyRule>> {
        Some(vec![PolicyRule::everything(), PolicyRule::every_path()])
    }
}

/// For a server behind a front proxy that has authorized the request already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delegated;

impl Authorizer for Delegated {
    fn authorize(&self, user: &Identity, attributes: &Attributes) -> Decision {
        let known = user.groups.iter().any(|group| group == crate::authn::AUTHENTICATED);
        let allowed = match attributes {
            // The front proxy has already applied impersonation; further impersonation is not delegated.
            Attributes::Resource(wanted) if wanted.verb == "impersonate" => false,
            Attributes::Path { path, .. } => {
                known || ["/healthz", "/livez", "/readyz"].iter().any(|root| path.starts_with(root))
            }
            Attributes::Resource(_) => known,
        };
        if allowed { Decision::Allow(String::new()) } else { Decision::NoOpinion(String::new()) }
    }
}

/// Calls the authorizer and turns a refusal into kube-apiserver's 403.
///
/// # Errors
/// 403 with kube-apiserver's message.
pub fn check(authorizer: &dyn Authorizer, user: &Identity, attributes: &Attributes) -> Result<(), Status> {
    match authorizer.authorize(user, attributes) {
        Decision::Allow(_) => Ok(()),
        Decision::NoOpinion(reason) => Err(forbidden(user, attributes, &reason)),
    }
}

/// The 403 of a refused request, in kube-apiserver's words.
pub fn forbidden(user: &Identity, attributes: &Attributes, reason: &str) -> Status {
    let mut why = format!("User {:?} cannot {}", user.user, denied_action(attributes));
    if !reason.is_empty() {
        why.push_str(": ");
        why.push_str(reason);
    }
    match attributes {
        Attributes::Resource(wanted) => Status::forbidden(&wanted.group, &wanted.resource, &wanted.name, &why),
        Attributes::Path { .. } => Status::forbidden("", "", "", &why),
    }
}

fn denied_action(attributes: &Attributes) -> String {
    match attributes {
        Attributes::Path { verb, path } => format!("{verb} path {path:?}"),
        Attributes::Resource(wanted) => {
            let scope = if wanted.namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {:?}", wanted.namespace)
            };
            let (verb, group) = (&wanted.verb, &wanted.group);
            format!("{verb} resource {:?} in API group {group:?} {scope}", wanted.full_resource())
        }
    }
}
