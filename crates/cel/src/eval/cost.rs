//! The costs that kube-apiserver charges for calls, by the sizes of their arguments and results.
//!
//! They are part of the API: the budget of an expression decides which objects are accepted. The functions themselves
//! count their steps as work, whose limit bounds what these costs do not cover.

use super::node::Node;
use crate::budget::EvalError;
use crate::opaque::Opaque;
use crate::value::{List, Value};

/// An authorization check; an expression of 1,000,000 units can make two.
const CHECK: u64 = 350_000;

/// The parts of a call and of the list that it allocates.
const LIST_CALL: u64 = 11;

/// The cost of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// One unit.
    Call,
    Check,
    /// A parsed label or field selector.
    Selector,
    /// One traversal of the first argument with its elements.
    Traversal,
    /// So many traversals of the text that is the first argument; one unit for values of other types.
    Text(u64),
    /// As `Text(1)`, for a text that is converted to another type.
    Conversion,
    /// The construction of the resulting text.
    Result,
    /// The second argument is a pattern.
    Pattern,
    /// The second argument is sought in the first.
    Contains,
    /// The second argument is compared with the start or end of the first.
    Affix,
    ContainsIp,
    ContainsCidr,
    /// A text is matched with the pattern of a format.
    Format,
    Equality,
    Order,
    Addition,
    /// Every item of the list that is the second argument.
    Membership,
    /// So many comparisons of every item of one list with every item of another.
    Product(u64),
    /// Every item of a list is compared with every other one: the list is the argument of this index.
    SelfProduct(usize),
    /// The resulting list.
    Output,
    Flatten,
    /// The element of a list or map. If the operand is no attribute, the access costs one more unit.
    Index {
        attribute: bool,
    },
}

impl Cost {
    /// The cost of calls of a function.
    pub fn of(name: &str, args: &[Node]) -> Self {
        match name {
            "check" => Self::Check,
            "fieldSelector" | "labelSelector" => Self::Selector,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Self::Traversal,
            "url"
            | "lowerAscii"
            | "upperAscii"
            | "substring"
            | "trim"
            | "jsonpatch.escapeKey"
            | "strings.quote"
            | "format"
            | "cidr"
            | "isIP"
            | "isCIDR"
            | "ip"
            | "quantity"
            | "isQuantity"
            | "semver"
            | "isSemver" => Self::Text(1),
            "replace" | "split" | "ip.isCanonical" => Self::Text(2),
            "string" | "bytes" => Self::Conversion,
            "join" => Self::Result,
            "find" | "findAll" | "matches" => Self::Pattern,
            "contains" => Self::Contains,
            "startsWith" | "endsWith" => Self::Affix,
            "containsIP" => Self::ContainsIp,
            "containsCIDR" => Self::ContainsCidr,
            "validate" => Self::Format,
            "_==_" | "_!=_" => Self::Equality,
            "_<_" | "_<=_" | "_>_" | "_>=_" => Self::Order,
            "_+_" => Self::Addition,
            "@in" => Self::Membership,
            "sets.contains" | "sets.intersects" => Self::Product(1),
            "sets.equivalent" => Self::Product(2),
            "sort" | "distinct" => Self::SelfProduct(0),
            "@sortByAssociatedKeys" => Self::SelfProduct(1),
            "slice" | "lists.range" | "reverse" => Self::Output,
            "flatten" => Self::Flatten,
            "_[_]" | "_[?_]" => Self::Index { attribute: args.first().is_some_and(Node::is_attribute) },
            _ => Self::Call,
        }
    }

    /// The cost of a call with these arguments.
    pub fn charge(self, args: &[Value<'_>], made: &Result<Value<'_>, EvalError>) -> u64 {
        let first = || args.first().map_or(1, size);
        let second = || args.get(1).map_or(1, size);
        match (self, args) {
            (Self::Check, _) => CHECK,
            (Self::Selector, _) => {
                let length = second();
                10 + tenths(length) + length.div_ceil(2) * 50
            }
            (Self::Traversal, [value, ..]) => traversal(value),
            (Self::Text(times), [Value::String(text), ..]) => tenths(length(text) * times),
            (Self::Conversion, [Value::Bytes(_)]) => tenths(first()),
            (Self::Conversion, [Value::String(text)]) if matches!(made, Ok(Value::Bytes(_))) => tenths(length(text)),
            (Self::Result, _) => made.as_ref().map_or(0, |text| tenths(size(text) * 2)),
            (Self::Pattern, _) => tenths(first() + 1) * second().div_ceil(4),
            (Self::Contains, _) => tenths(first()) * tenths(second()),
            (Self::Affix, _) => tenths(second()),
            (Self::ContainsIp, _) => tenths(first() * 2) + of_text(args.get(1)),
            (Self::ContainsCidr, _) => tenths(first() * 2) + tenths(first()) + 1 + of_text(args.get(1)),
            (Self::Format, [Value::Opaque(format), text, ..]) => match **format {
                Opaque::Format(name) => tenths(size(text) + 1) * pattern_of(name).div_ceil(4),
                _ => 1,
            },
            (Self::Order, [Value::String(_), Value::String(_)] | [Value::Bytes(_), Value::Bytes(_)])
            | (Self::Equality, [_, _]) => smaller(&args[0], &args[1]),
            (Self::Addition, [Value::String(a), Value::String(b)]) => tenths(length(a) + length(b)),
            (Self::Addition, [Value::Bytes(a), Value::Bytes(b)]) => tenths((a.len() + b.len()) as u64),
            (Self::Membership, [_, Value::List(list)]) => list.len() as u64,
            (Self::Product(times), _) => first().saturating_mul(second()).saturating_mul(times) + 1,
            (Self::SelfProduct(of), _) => match args.get(of) {
                Some(Value::List(list)) => self_product(list),
                _ => 1,
            },
            (Self::Output, [Value::String(_)]) => 1,
            (Self::Output, _) => made.as_ref().map_or(1, size) + LIST_CALL,
            (Self::Flatten, _) => {
                let depth = match args.get(1) {
                    Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(1),
                    _ => 1,
                };
                first().saturating_mul(depth).saturating_add(LIST_CALL)
            }
            (Self::Index { attribute }, _) => {
                u64::from(!attribute) + u64::from(!matches!(made, Ok(Value::Optional(None))))
            }
            _ => 1,
        }
    }
}

fn tenths(size: u64) -> u64 {
    size.div_ceil(10)
}

/// The number of characters.
fn length(text: &str) -> u64 {
    if text.is_ascii() { text.len() as u64 } else { text.chars().count() as u64 }
}

fn of_text(value: Option<&Value<'_>>) -> u64 {
    match value {
        Some(Value::String(text)) => tenths(length(text)),
        _ => 0,
    }
}

/// The size of a value; one for values without a size.
fn size(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => length(text),
        Value::Bytes(data) => data.len() as u64,
        Value::List(list) => list.len() as u64,
        Value::Map(map) => map.len() as u64,
        Value::Object(object) => object.fields.len() as u64,
        Value::Optional(Some(inner)) => size(inner),
        Value::Opaque(opaque) => match &**opaque {
            Opaque::Ip(ip) if ip.is_ipv4() => 4,
            Opaque::Ip(_) => 16,
            Opaque::Cidr(cidr) => u64::from(cidr.prefix).div_ceil(8),
            _ => 1,
        },
        _ => 1,
    }
}

/// A tenth of the size of the smaller value. Of two texts, no more is counted than four times the smaller one.
fn smaller(a: &Value<'_>, b: &Value<'_>) -> u64 {
    tenths(match (a, b) {
        (Value::Opaque(_), _) => 1,
        (Value::String(a), Value::String(b)) => {
            let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
            let least = length(short);
            // A character has at most four bytes.
            if (long.len() as u64).div_ceil(4) >= least { least } else { least.min(length(long)) }
        }
        (a, b) => size(a).min(size(b)),
    })
}

/// Recursion is bounded by the depth of documents and expressions.
fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 10,
        Value::Bytes(data) => data.len() as u64 / 10,
        Value::List(list) => list.iter().map(|item| item.map_or(1, |item| traversal(&item))).sum(),
        Value::Map(map) => {
            let of = |key| map.get(key).ok().flatten().map_or(1, |value| traversal(&value));
            map.keys().iter().map(|key| traversal(&key.to_value()) + of(key)).sum()
        }
        Value::Object(object) => {
            let of = |name: &str| {
                object.get(name).ok().flatten().map_or(0, |value| name.len() as u64 / 10 + traversal(&value))
            };
            object.shape.fields.keys().map(|name| of(name)).sum()
        }
        _ => 1,
    }
}

/// Two units for each pair of items; a tenth more for texts.
fn self_product(list: &List<'_>) -> u64 {
    let pairs = (list.len() as u64).saturating_mul(list.len() as u64);
    let is_text = matches!(list.get(0), Ok(Some(Value::String(_) | Value::Bytes(_))));
    let of_text = if is_text { pairs / 10 } else { 0 };
    pairs.saturating_mul(2).saturating_add(of_text).saturating_add(LIST_CALL)
}

/// The length of a format's pattern.
fn pattern_of(format: &str) -> u64 {
    match format {
        "dns1123Subdomain" | "qualifiedName" | "dns1123SubdomainPrefix" => 60,
        "labelValue" => 40,
        "uri" => 1_103,
        "uuid" => 70,
        "byte" => 84,
        "date" | "datetime" => 71,
        _ => 30,
    }
}
