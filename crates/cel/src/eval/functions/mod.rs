//! The implementations of the declared functions. Each checks the types of its arguments at run time, because `dyn`
//! arguments are unknown before, and charges for what it traverses.

mod authorization;
mod conversions;
mod formats;
mod kubernetes;
mod lists;
mod math;
mod operators;
mod optionals;
pub(crate) mod printf;
pub(crate) mod text;

use crate::budget::EvalError;
use crate::eval::Evaluation;
use crate::eval::node::CallNode;
use crate::value::Value;

pub(crate) use lists::sum_durations;

pub type Outcome<'a> = Result<Value<'a>, EvalError>;

/// A function: the call, and its evaluated arguments.
pub type Function = for<'a> fn(&mut Evaluation<'a, '_>, &'a CallNode, &[Value<'a>]) -> Outcome<'a>;

/// The implementation of a function.
pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        // Evaluated by the tree walk itself; the checker needs only their existence.
        "_&&_" | "_||_" | "_?_:_" => unreachable_call,
        "!_" => operators::not,
        "_==_" => operators::equals,
        "_!=_" => operators::differs,
        "@in" => operators::within,
        "_<_" | "_<=_" | "_>_" | "_>=_" => operators::relation,
        "_+_" => operators::add,
        "_-_" => operators::subtract,
        "_*_" | "_/_" | "_%_" => operators::multiplicative,
        "-_" => operators::negate,
        "_[_]" => operators::index,
        "_[?_]" => operators::optional_index,
        "size" => operators::size,
        "type" | "dyn" | "bool" | "int" | "uint" | "double" | "string" | "bytes" | "timestamp" | "duration" => {
            conversions::convert
        }
        "getFullYear" | "getMonth" | "getDayOfYear" | "getDayOfMonth" | "getDate" | "getDayOfWeek" | "getHours"
        | "getMinutes" | "getSeconds" | "getMilliseconds" => conversions::time_field,
        "contains" | "endsWith" | "startsWith" => text::test,
        "matches" | "find" | "findAll" => text::regex,
        "charAt" => text::char_at,
        "indexOf" | "lastIndexOf" => text::index_of,
        "lowerAscii" | "upperAscii" | "trim" | "strings.quote" | "jsonpatch.escapeKey" => text::change,
        "reverse" => text::reverse,
        "replace" => text::replace,
        "split" => text::split,
        "join" => text::join,
        "substring" => text::substring,
        "format" => printf::format,
        "isSorted" | "sum" | "min" | "max" => lists::summary,
        "slice" => lists::slice,
        "flatten" => lists::flatten,
        "distinct" => lists::distinct,
        "sort" | "@sortByAssociatedKeys" => lists::sort,
        "lists.range" => lists::range,
        "first" | "last" => lists::end,
        "sets.contains" | "sets.equivalent" | "sets.intersects" => lists::sets,
        "math.greatest" | "math.least" => math::extreme,
        "math.ceil" | "math.floor" | "math.round" | "math.trunc" | "math.isInf" | "math.isNaN" | "math.isFinite"
        | "math.abs" | "math.sign" | "math.sqrt" => math::single,
        "math.bitAnd" | "math.bitOr" | "math.bitXor" | "math.bitNot" | "math.bitShiftLeft" | "math.bitShiftRight" => {
            math::bits
        }
        "optional.of" | "optional.ofNonZeroValue" | "optional.none" => optionals::make,
        "optional.unwrap" | "unwrapOpt" => optionals::unwrap,
        "value" | "hasValue" | "or" | "orValue" => optionals::read,
        "url" | "isURL" | "getScheme" | "getHost" | "getHostname" | "getPort" | "getEscapedPath" | "getQuery" => {
            kubernetes::url
        }
        "quantity" | "isQuantity" | "sign" | "isInteger" | "asInteger" | "asApproximateFloat" | "add" | "sub" => {
            kubernetes::quantity
        }
        "isGreaterThan" | "isLessThan" | "compareTo" => kubernetes::compare,
        "semver" | "isSemver" | "major" | "minor" | "patch" => kubernetes::semver,
        "ip"
        | "isIP"
        | "ip.isCanonical"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast" => kubernetes::ip,
        "cidr" | "isCIDR" | "containsIP" | "containsCIDR" | "prefixLength" | "masked" => kubernetes::cidr,
        "validate" => formats::validate,
        "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name" | "fieldSelector"
        | "labelSelector" | "check" | "allowed" | "errored" | "error" | "reason" => authorization::call,
        name if name.starts_with("format.") => formats::named,
        _ => return None,
    })
}

fn unreachable_call<'a>(_: &mut Evaluation<'a, '_>, _: &'a CallNode, _: &[Value<'a>]) -> Outcome<'a> {
    Err(EvalError::NoSuchOverload)
}

#[cfg(test)]
mod tests {
    use crate::declarations::Declarations;

    #[test]
    fn every_declared_function_exists() {
        for (name, _) in Declarations::all().iter() {
            assert!(super::find(name).is_some(), "{name}");
        }
    }
}
