//! Authorization: decided from the request's attributes and rules in memory, before anything is read, so that a
//! forbidden user cannot detect which objects exist.

pub mod rbac;
pub(crate) mod rules;
mod table;

use apimachinery::Status;
use futures::future::BoxFuture;
use transport::Identity;

pub use crate::request::attributes::{Attributes, ResourceAttributes, Selectors};
pub use rules::{PolicyRule, RoleRef, Subject};
pub use table::{Rbac, Table};

/// Members of this group are authorized for everything, regardless of rules.
pub const MASTERS: &str = "system:masters";

/// The result of an authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// With the reason that audit and access reviews report.
    Allow(String),
    /// No rule grants it. The reason is often empty.
    NoOpinion(String),
    /// Denied, regardless of later authorizers. RBAC never denies.
    Deny(String),
}

impl Decision {
    /// Whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    /// The reason; may be empty.
    pub fn reason(&self) -> &str {
        match self {
            Self::Allow(reason) | Self::NoOpinion(reason) | Self::Deny(reason) => reason,
        }
    }
}

/// A decision, or the future of an external authorizer's decision.
pub enum Deciding<'a> {
    /// From memory.
    Now(Decision),
    /// By another program.
    Later(BoxFuture<'a, Decision>),
}

/// Decides on every request.
pub trait Authorizer: Send + Sync + 'static {
    /// Whether the user has the right, from memory alone. An external authorizer returns cached decisions, or no
    /// opinion.
    fn authorize(&self, user: &Identity, attributes: &Attributes) -> Decision;

    /// Whether the user may do this, by other programs if need be: of requests, impersonation, access reviews, and
    /// secondary rights (`bind`, `escalate`, `approve`, `sign`, the authorizer of expressions).
    fn decide<'a>(&'a self, user: &'a Identity, attributes: &'a Attributes) -> Deciding<'a> {
        Deciding::Now(self.authorize(user, attributes))
    }

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
        let known = user.groups.iter().any(|group| group == crate::auth::authn::AUTHENTICATED);
        let allowed = match attributes {
            // The front proxy has already applied impersonation; further impersonation is not delegated.
            Attributes::Resource(requested) if requested.verb == "impersonate" => false,
            Attributes::Path { path, .. } => {
                known || ["/healthz", "/livez", "/readyz"].iter().any(|root| path.starts_with(root))
            }
            Attributes::Resource(_) => known,
        };
        if allowed { Decision::Allow(String::new()) } else { Decision::NoOpinion(String::new()) }
    }
}

/// The decision of the authorizer, by other programs if need be.
pub async fn decide(authorizer: &dyn Authorizer, user: &Identity, attributes: &Attributes) -> Decision {
    match authorizer.decide(user, attributes) {
        Deciding::Now(decision) => decision,
        Deciding::Later(deciding) => deciding.await,
    }
}

/// Calls the authorizer and turns a refusal into kube-apiserver's 403.
///
/// # Errors
/// 403 with kube-apiserver's message.
pub async fn check(authorizer: &dyn Authorizer, user: &Identity, attributes: &Attributes) -> Result<(), Status> {
    match decide(authorizer, user, attributes).await {
        Decision::Allow(_) => Ok(()),
        Decision::NoOpinion(reason) | Decision::Deny(reason) => Err(forbidden(user, attributes, &reason)),
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
        Attributes::Resource(requested) => {
            Status::forbidden(&requested.group, &requested.resource, &requested.name, &why)
        }
        Attributes::Path { .. } => Status::forbidden("", "", "", &why),
    }
}

fn denied_action(attributes: &Attributes) -> String {
    match attributes {
        Attributes::Path { verb, path } => format!("{verb} path {path:?}"),
        Attributes::Resource(requested) => {
            let scope = if requested.namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {:?}", requested.namespace)
            };
            let (verb, group) = (&requested.verb, &requested.group);
            format!("{verb} resource {:?} in API group {group:?} {scope}", requested.full_resource())
        }
    }
}
