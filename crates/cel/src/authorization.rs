//! The authorizer of admission expressions:
//! `authorizer.group('apps').resource('deployments').check('create').allowed()`. The expression builds a [`Check`]; the
//! caller of the evaluation decides it.

use std::fmt;
use std::rc::Rc;

/// An authorization check that an expression requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// The namespace and name of a service account; otherwise the user of the request is meant.
    pub service_account: Option<(String, String)>,
    /// The path of a request that names no resource.
    pub path: Option<String>,
    /// The API group.
    pub group: String,
    /// The plural.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name of an object.
    pub name: String,
    /// Restricts a list to objects with these fields; empty: all.
    pub field_selector: String,
    /// Restricts a list to objects with these labels; empty: all.
    pub label_selector: String,
    /// The verb.
    pub verb: String,
}

/// The decision on a [`Check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The authorizer's reason.
    pub reason: String,
    /// Why there is no decision.
    pub error: Option<String>,
}

/// Decides checks.
pub type Authorize = dyn Fn(&Check) -> Decision;

/// A value of one of the library's types: a check under construction, or its decision.
#[derive(Clone)]
pub struct Authorization {
    pub(crate) authorize: Rc<Authorize>,
    pub(crate) check: Check,
    /// One of the names of the library's types.
    pub(crate) type_name: &'static str,
    pub(crate) decision: Decision,
}

impl Authorization {
    /// A check that is not decided yet.
    pub(crate) fn new(type_name: &'static str, authorize: Rc<Authorize>, check: Check) -> Self {
        Self { authorize, check, type_name, decision: Decision::default() }
    }

    pub(crate) fn type_name(&self) -> &'static str {
        self.type_name
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:?})", self.type_name, self.check)
    }
}

impl PartialEq for Authorization {
    fn eq(&self, other: &Self) -> bool {
        (self.type_name, &self.check, &self.decision) == (other.type_name, &other.check, &other.decision)
    }
}
