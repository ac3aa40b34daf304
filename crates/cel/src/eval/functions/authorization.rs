//! The functions of the authorizer library.

use crate::authorization::Authorization;
use crate::budget::EvalError;
use crate::eval::Evaluation;
use crate::eval::functions::Outcome;
use crate::eval::node::CallNode;
use crate::names;
use crate::opaque::Opaque;
use crate::value::Value;

/// The cost of a check in kube-apiserver; an expression of 1,000,000 units can make two.
const CHECK_COST: u64 = 350_000;

/// The functions of the library.
pub(super) fn call<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
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
        (names::RESOURCE_CHECK, "fieldSelector", [text]) => next.check.field_selector = (*text).to_owned(),
        (names::RESOURCE_CHECK, "labelSelector", [text]) => next.check.label_selector = (*text).to_owned(),
        (names::RESOURCE_CHECK | names::PATH_CHECK, "check", [verb]) => {
            on.meter.charge(CHECK_COST)?;
            next.check.verb = (*verb).to_owned();
            (next.decision, next.type_name) = ((next.authorize)(&next.check), names::DECISION);
        }
        _ => return Err(EvalError::NoSuchOverload),
    }
    Ok(Value::opaque(Opaque::Authorization(Box::new(next))))
}
