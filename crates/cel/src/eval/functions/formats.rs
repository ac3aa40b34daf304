//! Named formats: `format.dns1123Label().validate(text)`.

use std::rc::Rc;

use apimachinery::names;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Outcome;
use crate::budget::EvalError;
use crate::eval::Evaluation;
use crate::eval::node::CallNode;
use crate::opaque::Opaque;
use crate::times;
use crate::url::Url;
use crate::value::Value;

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

pub fn named<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    if let [Value::String(name)] = args {
        on.meter.scan(name)?;
    }
    let find = |format_name: &str| NAMES.into_iter().find(|name| *name == format_name);
    match (call.name.trim_start_matches("format."), args) {
        ("named", [Value::String(name)]) => {
            Ok(Value::Optional(find(name).map(|name| Rc::new(Value::opaque(Opaque::Format(name))))))
        }
        (name, []) => match find(name) {
            Some(name) => Ok(Value::opaque(Opaque::Format(name))),
            None => Err(EvalError::NoSuchOverload),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Returns none for a valid text, otherwise the errors.
pub fn validate<'a>(on: &mut Evaluation<'a, '_>, _: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Opaque(format), Value::String(text)] = args else { return Err(EvalError::NoSuchOverload) };
    let Opaque::Format(name) = **format else { return Err(EvalError::NoSuchOverload) };
    on.meter.text(text.len())?;
    let invalid = |fine: bool, why: &str| if fine { Vec::new() } else { vec![why.to_owned()] };
    let errors = match name {
        "dns1123Label" => names::label_rule(text, false),
        "dns1123LabelPrefix" => names::label_rule(text, true),
        "dns1123Subdomain" => names::subdomain_rule(text, false),
        "dns1123SubdomainPrefix" => names::subdomain_rule(text, true),
        "dns1035Label" => names::label_1035_rule(text, false),
        "dns1035LabelPrefix" => names::label_1035_rule(text, true),
        "qualifiedName" => names::is_qualified_name(text),
        "labelValue" => names::is_label_value(text),
        "uri" => {
            let why = if text.is_empty() { "empty url" } else { "invalid URI for request" };
            invalid(Url::parse(text).is_some(), &format!("parse {text:?}: {why}"))
        }
        "uuid" => invalid(is_uuid(text), "does not match the UUID format"),
        "byte" => invalid(STANDARD.decode(text.as_bytes()).is_ok(), "invalid base64"),
        "date" => invalid(times::parse_date(text).is_some(), "invalid date"),
        _ => invalid(times::read_timestamp(text).is_some(), "invalid datetime"),
    };
    if errors.is_empty() {
        return Ok(Value::Optional(None));
    }
    on.meter.allocate(errors.iter().map(String::len).sum())?;
    Ok(Value::some(Value::list(errors.into_iter().map(Value::string).collect())))
}

/// Five groups of hexadecimal digits; the hyphens are optional.
fn is_uuid(text: &str) -> bool {
    let digits: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = digits.iter().map(|group| group.len()).collect();
    digits.iter().all(|group| group.bytes().all(|b| b.is_ascii_hexdigit()))
        && (lengths == [8, 4, 4, 4, 12] || lengths == [32])
}
