//! Kubernetes' libraries: URLs, quantities, versions, addresses.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

use apimachinery::quantity::{Format, Quantity};

use super::Outcome;
use crate::budget::EvalError;
use crate::compare::order;
use crate::eval::Evaluation;
use crate::eval::node::CallNode;
use crate::opaque::{Cidr, Opaque, Semver, parse_ip};
use crate::url::Url;
use crate::value::{Key, Text, Value};

fn opaque<'v>(value: &'v Value<'_>) -> Option<&'v Opaque> {
    match value {
        Value::Opaque(opaque) => Some(opaque),
        _ => None,
    }
}

/// Charges for reading a text, and returns it.
fn read<'v>(on: &mut Evaluation<'_, '_>, args: &'v [Value<'_>]) -> Result<Option<&'v str>, EvalError> {
    match args.first() {
        Some(Value::String(text)) => {
            on.meter.text(text.len())?;
            on.meter.allocate(text.len())?;
            Ok(Some(text))
        }
        _ => {
            on.meter.charge(1)?;
            Ok(None)
        }
    }
}

pub fn url<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    if let Some(text) = read(on, args)? {
        let parsed = Url::parse(text);
        return match &*call.name {
            "isURL" => Ok(Value::Bool(parsed.is_some())),
            "url" => match parsed {
                Some(url) => Ok(Value::opaque(Opaque::Url(url))),
                None => {
                    let why = if text.is_empty() { "empty url" } else { "invalid URI for request" };
                    Err(EvalError::failed(format!(
                        "URL parse error during conversion from string: parse {text:?}: {why}"
                    )))
                }
            },
            _ => Err(EvalError::NoSuchOverload),
        };
    }
    let Some(Opaque::Url(url)) = args.first().and_then(opaque) else { return Err(EvalError::NoSuchOverload) };
    on.meter.work(url.size())?;
    Ok(match &*call.name {
        "getScheme" => Value::string(url.scheme.as_str()),
        "getHost" => Value::string(url.host.as_str()),
        "getHostname" => Value::string(url.hostname()),
        "getPort" => Value::string(url.port()),
        "getEscapedPath" => Value::string(url.path.as_str()),
        "getQuery" => {
            let entries = url.query().into_iter().map(|(key, values)| {
                let values = values.into_iter().map(Value::string).collect();
                (Key::String(Text::Shared(key.into())), Value::list(values))
            });
            Value::map(entries.collect::<BTreeMap<_, _>>())
        }
        _ => return Err(EvalError::NoSuchOverload),
    })
}

pub fn quantity<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    if let Some(text) = read(on, args)? {
        let parsed = Quantity::from_str(text);
        return match (&*call.name, parsed) {
            ("isQuantity", parsed) => Ok(Value::Bool(parsed.is_ok())),
            ("quantity", Ok(quantity)) => Ok(Value::opaque(Opaque::Quantity(quantity))),
            ("quantity", Err(error)) => Err(EvalError::failed(error.to_string())),
            _ => Err(EvalError::NoSuchOverload),
        };
    }
    let Some(Opaque::Quantity(quantity)) = args.first().and_then(opaque) else {
        return Err(EvalError::NoSuchOverload);
    };
    let other = match args.get(1) {
        Some(Value::Int(number)) => Some(Quantity::new(*number, Format::DecimalSi)),
        Some(value) => match opaque(value) {
            Some(Opaque::Quantity(other)) => Some(*other),
            _ => None,
        },
        None => None,
    };
    // Exact if the rounded integer equals the amount.
    let whole = Some(quantity.value()).filter(|whole| Quantity::new(*whole, Format::DecimalSi) == *quantity);
    Ok(match (&*call.name, other) {
        ("sign", None) => Value::Int(match quantity.cmp(&Quantity::default()) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }),
        ("isInteger", None) => Value::Bool(whole.is_some()),
        ("asInteger", None) => match whole {
            Some(whole) => Value::Int(whole),
            None => return Err(EvalError::failed("cannot convert value to integer")),
        },
        ("asApproximateFloat", None) => Value::Double(quantity.as_f64()),
        ("add", Some(other)) => Value::opaque(Opaque::Quantity(*quantity + other)),
        ("sub", Some(other)) => Value::opaque(Opaque::Quantity(*quantity - other)),
        _ => return Err(EvalError::NoSuchOverload),
    })
}

/// Compares quantities and versions.
pub fn compare<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    on.meter.charge(1)?;
    let [a, b] = args else { return Err(EvalError::NoSuchOverload) };
    if opaque(a).is_none() {
        return Err(EvalError::NoSuchOverload);
    }
    let order = order(a, b, on.meter)?.unwrap_or(Ordering::Equal);
    Ok(match &*call.name {
        "isGreaterThan" => Value::Bool(order.is_gt()),
        "isLessThan" => Value::Bool(order.is_lt()),
        _ => Value::Int(order as i64),
    })
}

pub fn semver<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    if let Some(text) = read(on, args)? {
        let parsed = Semver::parse(text, matches!(args.get(1), Some(Value::Bool(true))));
        return match (&*call.name, parsed) {
            ("isSemver", parsed) => Ok(Value::Bool(parsed.is_ok())),
            ("semver", Ok(version)) => Ok(Value::opaque(Opaque::Semver(version))),
            ("semver", Err(error)) => Err(EvalError::failed(error)),
            _ => Err(EvalError::NoSuchOverload),
        };
    }
    let Some(Opaque::Semver(version)) = args.first().and_then(opaque) else { return Err(EvalError::NoSuchOverload) };
    let index = match &*call.name {
        "major" => 0,
        "minor" => 1,
        _ => 2,
    };
    i64::try_from(version.numbers[index]).map(Value::Int).map_err(|_| EvalError::failed("integer overflow"))
}

pub fn ip<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    if let Some(text) = read(on, args)? {
        let parsed = parse_ip(text);
        return match (&*call.name, args.get(1), parsed) {
            ("isIP", None, parsed) => Ok(Value::Bool(parsed.is_ok())),
            ("isIP", Some(Value::Int(version)), parsed) => {
                Ok(Value::Bool(parsed.is_ok_and(|ip| *version == if ip.is_ipv4() { 4 } else { 6 })))
            }
            ("ip", _, Ok(ip)) => Ok(Value::opaque(Opaque::Ip(ip))),
            ("ip.isCanonical", _, Ok(ip)) => Ok(Value::Bool(ip.to_string() == *text)),
            (_, _, Err(error)) => Err(EvalError::failed(error)),
            _ => Err(EvalError::NoSuchOverload),
        };
    }
    let ip = match args.first().and_then(opaque) {
        Some(Opaque::Cidr(cidr)) if &*call.name == "ip" => return Ok(Value::opaque(Opaque::Ip(cidr.address))),
        Some(Opaque::Ip(ip)) => *ip,
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(match &*call.name {
        "family" => Value::Int(if ip.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Value::Bool(ip.is_unspecified()),
        "isLoopback" => Value::Bool(ip.is_loopback()),
        "isLinkLocalMulticast" => Value::Bool(link_local_multicast(ip)),
        "isLinkLocalUnicast" => Value::Bool(link_local_unicast(ip)),
        "isGlobalUnicast" => Value::Bool(global_unicast(ip)),
        _ => return Err(EvalError::NoSuchOverload),
    })
}

fn link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// As in Go: private addresses count, broadcast does not.
fn global_unicast(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !(broadcast || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local_unicast(ip))
}

pub fn cidr<'a>(on: &mut Evaluation<'a, '_>, call: &'a CallNode, args: &[Value<'a>]) -> Outcome<'a> {
    if let Some(text) = read(on, args)? {
        let parsed = Cidr::parse(text);
        return match (&*call.name, parsed) {
            ("isCIDR", parsed) => Ok(Value::Bool(parsed.is_ok())),
            ("cidr", Ok(cidr)) => Ok(Value::opaque(Opaque::Cidr(cidr))),
            ("cidr", Err(error)) => Err(EvalError::failed(error)),
            _ => Err(EvalError::NoSuchOverload),
        };
    }
    let Some(Opaque::Cidr(cidr)) = args.first().and_then(opaque) else { return Err(EvalError::NoSuchOverload) };
    match (&*call.name, args.get(1)) {
        ("prefixLength", None) => Ok(Value::Int(i64::from(cidr.prefix))),
        ("masked", None) => Ok(Value::opaque(Opaque::Cidr(cidr.masked()))),
        ("containsIP", Some(Value::String(text))) => {
            on.meter.text(text.len())?;
            // As upstream, without a reason.
            let ip = parse_ip(text).map_err(|_| EvalError::NoSuchOverload)?;
            Ok(Value::Bool(cidr.contains_ip(ip)))
        }
        ("containsCIDR", Some(Value::String(text))) => {
            on.meter.text(text.len())?;
            Cidr::parse(text).map(|other| Value::Bool(cidr.contains(other))).map_err(EvalError::failed)
        }
        (name, Some(value)) => match (name, opaque(value)) {
            ("containsIP", Some(Opaque::Ip(ip))) => Ok(Value::Bool(cidr.contains_ip(*ip))),
            ("containsCIDR", Some(Opaque::Cidr(other))) => Ok(Value::Bool(cidr.contains(*other))),
            _ => Err(EvalError::NoSuchOverload),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}
