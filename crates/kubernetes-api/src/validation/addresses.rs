//! Ranges of service addresses, and addresses allocated from them.

use std::net::IpAddr;

use apimachinery::field::{Error, ErrorKind, ErrorList, Path, go_quoted};
use apimachinery::{go_netip, names};
use serde_json::{Value, json};

use super::at::At;
use super::checks::shape;
use super::table::Function;
use super::{Object, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[("ip_address", ip_address), ("service_ranges", service_ranges)];

const ONE_OF_EACH: &str = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";

fn service_ranges(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (ranges, at) = (list(spec, "cidrs"), at.child("cidrs"));
    // Upstream prints its own struct around them.
    let mut refuse = |detail| {
        let shown = json!({"CIDRs": ranges}).to_string();
        errors.push(Error::invalid(&at.path(), Value::Null, detail).shown_as(shown));
    };
    match ranges {
        [] => required(errors, &at, "at least one CIDR required"),
        [_, _, _, ..] => refuse("may only hold up to 2 values"),
        [one, other] if !is_dual(one, other) => refuse(ONE_OF_EACH),
        _ => strict_ranges(ranges, &at, errors),
    }
}

fn strict_ranges(ranges: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    for (index, range) in ranges.iter().enumerate() {
        if let Some(detail) = range_complaint(range.as_str().unwrap_or_default()) {
            invalid(errors, &at.index(index), range, &detail);
        }
    }
}

/// An address and its prefix length; leading zeros are ignored.
pub(crate) fn parse(range: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = range.split_once('/')?;
    let plain = |octet: &str| -> Option<String> {
        let digits = octet.bytes().all(|byte| byte.is_ascii_digit());
        octet.parse::<u8>().ok().filter(|_| digits).map(|octet| octet.to_string())
    };
    let address: IpAddr = match address.parse() {
        Ok(address) => address,
        Err(_) => address.split('.').map(plain).collect::<Option<Vec<_>>>()?.join(".").parse().ok()?,
    };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = length.parse().ok().filter(|_| digits)?;
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

fn is_dual(one: &Value, other: &Value) -> bool {
    let family = |range: &Value| parse(range.as_str()?).map(|(address, _)| address.is_ipv4());
    matches!((family(one), family(other)), (Some(one), Some(other)) if one != other)
}

const LEADING_ZEROS: &str = "must not have leading 0s";
const LEADING_ZEROS_OF_RANGE: &str = "must not have leading 0s in IP or prefix length";
const MAPPED: &str = "must not be an IPv4-mapped IPv6 address";
const MAPPED_RANGE: &str = "must not have an IPv4-mapped IPv6 address";
const BITS_BEYOND: &str = "must not have bits set beyond the prefix length";

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// Why an address is invalid, as far as fields from before Kubernetes 1.36 are checked: other forms than the shortest
/// are valid.
pub(super) fn address_complaint(address: &str) -> Option<&'static str> {
    match address.parse() {
        Ok(address) => is_mapped(address).then_some(MAPPED),
        Err(_) if parse(&format!("{address}/0")).is_some() => Some(LEADING_ZEROS),
        Err(_) => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    }
}

/// As [`address_complaint`], of a range.
pub(super) fn block_complaint(range: &str) -> Option<&'static str> {
    let Some((address, length)) = parse(range) else {
        return Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    };
    let (written, digits) = range.split_once('/')?;
    if written.parse::<IpAddr>().is_err() || digits != length.to_string() {
        return Some(LEADING_ZEROS_OF_RANGE);
    }
    if is_mapped(address) {
        return Some(MAPPED_RANGE);
    }
    (masked(address, length) != address).then_some(BITS_BEYOND)
}

/// Addresses and ranges that earlier versions accepted are tolerated where the old object has them.
pub(super) fn tolerate_known(old: &Value, errors: &mut ErrorList) {
    let is_new_rule = |error: &Error| {
        [LEADING_ZEROS, LEADING_ZEROS_OF_RANGE, MAPPED, MAPPED_RANGE, BITS_BEYOND].contains(&error.detail.as_str())
    };
    errors.retain(|error| match &error.kind {
        ErrorKind::Invalid(Value::String(text)) if is_new_rule(error) => !holds(&old["spec"], text),
        _ => true,
    });
}

/// Whether a text occurs in an object. Recursion is bounded by the depth of objects (128).
fn holds(within: &Value, text: &str) -> bool {
    match within {
        Value::String(found) => found == text,
        Value::Array(items) => items.iter().any(|item| holds(item, text)),
        Value::Object(fields) => fields.values().any(|value| holds(value, text)),
        _ => false,
    }
}

fn range_complaint(range: &str) -> Option<String> {
    if let Some(complaint) = block_complaint(range) {
        return Some(complaint.to_owned());
    }
    let (address, length) = parse(range)?;
    let canonical = format!("{address}/{length}");
    (range != canonical).then(|| format!("must be in canonical form ({})", go_quoted(&canonical)))
}

pub(crate) fn masked(address: IpAddr, length: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4((u32::from(v4) & u32::MAX.checked_shl(32 - length).unwrap_or(0)).into()),
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & u128::MAX.checked_shl(128 - length).unwrap_or(0)).into()),
    }
}

/// Ranges are immutable, but one of the other family may be added.
pub(super) fn update_ranges(old: &Value, new: &Value, errors: &mut ErrorList) {
    const IMMUTABLE: &str = "field is immutable";
    let of = |ranges: &Value| ranges["spec"]["cidrs"].as_array().cloned().unwrap_or_default();
    let (was, is) = (of(old), of(new));
    let root = At::root();
    let at = root.child("spec");
    let at = at.child("cidrs");
    match (&was[..], &is[..]) {
        (was, is) if was.len() == is.len() => {
            // Upstream reports index 0, regardless of which one changed.
            for index in (0..is.len()).filter(|index| was[*index] != is[*index]) {
                invalid(errors, &at.index(index), &is[0], IMMUTABLE);
            }
        }
        ([was], [first, second]) => {
            if was != first {
                invalid(errors, &at.index(0), first, IMMUTABLE);
            }
            if !is_dual(first, second) {
                invalid(errors, &at, &is.into(), "dual-stack ServiceCIDR must have one CIDR for each IP family");
            } else {
                strict_ranges(&is, &at, errors);
            }
        }
        _ => invalid(errors, &at, &is.into(), IMMUTABLE),
    }
}

/// An IPAddress has the shortest form of its address as its name, and a parent.
fn ip_address(address: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let name = address.get("metadata").map_or("", |metadata| metadata["name"].as_str().unwrap_or_default());
    let complaint = match name.parse::<IpAddr>() {
        Ok(parsed) if parsed.to_string() == name => None,
        Ok(_) => Some("not a valid address in canonical format".to_owned()),
        Err(_) => Some(go_netip::address_fault(name)),
    };
    if let Some(complaint) = complaint.filter(|_| !name.is_empty()) {
        let at = at.child("metadata");
        invalid(errors, &at.child("name"), &name.into(), &complaint);
    }
    let at = at.child("spec");
    let at = at.child("parentRef");
    let Some(parent) = object(address, "spec").and_then(|spec| object(spec, "parentRef")) else {
        return required(errors, &at, "");
    };
    let specified = |field: &str| Some(text(parent, field)).filter(|text| !text.is_empty());
    if let Some(group) = specified("group") {
        shape(&group.into(), names::is_dns1123_subdomain, &at.child("group"), errors);
    }
    for field in ["resource", "name", "namespace"] {
        match specified(field) {
            Some(text) => shape(&text.into(), names::is_path_segment, &at.child(field), errors),
            None if field != "namespace" => required(errors, &at.child(field), ""),
            None => {}
        }
    }
}

/// The parent of an address is immutable.
pub(super) fn update_address(old: &Value, new: &Value, errors: &mut ErrorList) {
    let (was, is) = (&old["spec"]["parentRef"], &new["spec"]["parentRef"]);
    if was != is {
        let member = |field: &str| is[field].as_str().unwrap_or_default();
        // Upstream prints the members of its own struct.
        let shown = format!(
            r#"{{"Group":{},"Resource":{},"Namespace":{},"Name":{}}}"#,
            Value::from(member("group")),
            Value::from(member("resource")),
            Value::from(member("namespace")),
            Value::from(member("name"))
        );
        let path = Path::new("spec").child("parentRef");
        errors.push(Error::invalid(&path, is.clone(), "field is immutable").shown_as(shown));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_strictly() {
        for (range, expected) in [
            ("10.0.0.0/8", None),
            ("2001:db8::/64", None),
            ("0.0.0.0/0", None),
            ("::/0", None),
            ("", Some("must be a valid CIDR value")),
            ("10.0.0.0", Some("must be a valid CIDR value")),
            ("10.0.0.0/33", Some("must be a valid CIDR value")),
            ("10.0.0.0/+8", Some("must be a valid CIDR value")),
            ("10.0.0.300/8", Some("must be a valid CIDR value")),
            ("010.0.0.0/8", Some("must not have leading 0s in IP or prefix length")),
            ("10.0.0.0/08", Some("must not have leading 0s in IP or prefix length")),
            ("::ffff:1.1.1.0/120", Some("must not have an IPv4-mapped IPv6 address")),
            ("1.2.3.4/24", Some("must not have bits set beyond the prefix length")),
            ("2001:DB8::/64", Some("must be in canonical form (\"2001:db8::/64\")")),
        ] {
            let found = range_complaint(range);
            let fits = match (&found, expected) {
                (None, None) => true,
                (Some(found), Some(expected)) => found.starts_with(expected),
                _ => false,
            };
            assert!(fits, "{range}: {found:?}");
        }
    }
}
