//! The authorizer of admission expressions: `authorizer.group('apps').resource('deployments').check('create').allowed()`.
//! The expression builds a [`Check`]; the caller of the evaluation decides it.

use std::fmt;
use std::rc::Rc;

use crate::budget::EvalError;
use crate::declarations as names;
use crate::eval::Evaluation;
use crate::functions::Outcome;
use crate::node::CallNode;
use crate::opaque::Opaque;
use crate::value::Value;

/// kube-apiserver's price of a check; an expression of 1,000,000 units affords two.
const CHECK_COST: u64 = 350_000;

/// A request that an expression wants to have authorized.
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
    authorize: Rc<Authorize>,
    check: Check,
    /// One of the names of the library's types.
    type_name: &'static str,
    decision: Decision,
}

impl Authorization {
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

impl Value<'_> {
    /// The variable `authorizer`.
    pub fn authorizer(authorize: Rc<Authorize>) -> Self {
        of(names::AUTHORIZER, authorize, Check::default())
    }

    /// The variable `authorizer.requestResource`: a check without a verb.
    pub fn resource_check(authorize: Rc<Authorize>, check: Check) -> Self {
        of(names::RESOURCE_CHECK, authorize, check)
    }
}

fn of<'v>(type_name: &'static str, authorize: Rc<Authorize>, check: Check) -> Value<'v> {
    let decision = Decision::default();
    Value::opaque(Opaque::Authorization(Box::new(Authorization { authorize, check, type_name, decision })))
}

/// The functions of the library.
pub fn call<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    let Some((Value::Opaque(target), rest)) = args.split_first() else { return Err(EvalError::NoSuchOverload) };
    let Opaque::Authorization(target) = &**target else { return Err(EvalError::NoSuchOverload) };
    let texts: Option<Vec<&str>> =
        rest.iter().map(|value| if let Value::String(text) = value { Some(&**text) } else { None }).collect();
    let texts = texts.ok_or(EvalError::NoSuchOverload)?;
    for text in &texts {
        on.meter.allocate(text.len())?;
    }
    let mut next = Authorization::clone(target);
    match (target.type_name, &*call.name, texts.as_slice()) {
        (names::DECISION, "allowed", []) => return Ok(Value::Bool(next.decision.allowed)),
        (names::DECISION, "reason", []) => return Ok(Value::string(next.decision.reason)),
        (names::DECISION, "errored", []) => return Ok(Value::Bool(next.decision.error.is_some())),
        (names::DECISION, "error", []) => return Ok(Value::string(next.decision.error.unwrap_or_default())),
        (names::AUTHORIZER, "serviceAccount", [namespace, name]) => {
            next.check.service_account = Some(((*namespace).to_owned(), (*name).to_owned()));
        }
        (names::AUTHORIZER, "path", [path]) => {
            if path.is_empty() {
                return Err(EvalError::failed("path must not be empty"));
            }
            (next.check.path, next.type_name) = (Some((*path).to_owned()), names::PATH_CHECK);
        }
        (names::AUTHORIZER, "group", [group]) => {
            (next.check.group, next.type_name) = ((*group).to_owned(), names::GROUP_CHECK);
        }
        (names::GROUP_CHECK, "resource", [resource]) => {
            if resource.is_empty() {
                return Err(EvalError::failed("resource must not be empty"));
            }
            (next.check.resource, next.type_name) = ((*resource).to_owned(), names::RESOURCE_CHECK);
        }
        (names::RESOURCE_CHECK, "subresource", [text]) => next.check.subresource = (*text).to_owned(),
        (names::RESOURCE_CHECK, "namespace", [text]) => next.check.namespace = (*text).to_owned(),
        (names::RESOURCE_CHECK, "name", [text]) => next.check.name = (*text).to_owned(),
        // The server's authorizers decide by names, not by selectors: the wider request is checked.
        (names::RESOURCE_CHECK, "fieldSelector" | "labelSelector", [_]) => {}
        (names::RESOURCE_CHECK | names::PATH_CHECK, "check", [verb]) => {
            on.meter.charge(CHECK_COST)?;
            next.check.verb = (*verb).to_owned();
            (next.decision, next.type_name) = ((next.authorize)(&next.check), names::DECISION);
        }
        _ => return Err(EvalError::NoSuchOverload),
    }
    Ok(Value::opaque(Opaque::Authorization(Box::new(next))))
}
