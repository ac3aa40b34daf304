//! Addresses and ranges that are accepted in more than one form. Programs may read them differently.

use std::net::{IpAddr, Ipv4Addr};

use apimachinery::field::{Path, go_quoted};

use super::Texts;
use crate::validation::{masked, parse_range};

/// An address; leading zeros are ignored.
fn parse(text: &str) -> Option<IpAddr> {
    parse_range(&format!("{text}/0")).map(|(address, _)| address)
}

fn mapped(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    }
}

pub(super) fn address(value: &str, at: &Path, texts: &mut Texts) {
    let Some(address) = parse(value) else { return };
    let mapped = mapped(address);
    let quoted = go_quoted(value);
    if mapped.is_some() || value.parse::<IpAddr>().is_err() {
        let standard = mapped.map_or(address, IpAddr::V4);
        texts.at(at, format!("non-standard IP address {quoted} is invalid: use \"{standard}\""));
    } else if address.is_ipv6() && address.to_string() != value {
        texts.at(at, format!("IPv6 address {quoted} should be in RFC 5952 canonical format (\"{address}\")"));
    }
}

pub(super) fn range(value: &str, at: &Path, texts: &mut Texts) {
    let Some((address, length)) = parse_range(value) else { return };
    let mapped_start = mapped(masked(address, length)).filter(|_| length >= 96);
    let standard = match mapped_start {
        Some(start) => format!("{start}/{}", length - 96),
        None => format!("{}/{length}", masked(address, length)),
    };
    let quoted = go_quoted(value);
    let before = texts.0.len();
    if masked(address, length) != address {
        let shown = mapped(address).map_or(address, IpAddr::V4);
        let single = format!("{shown}/{}", if address.is_ipv4() { 32 } else { 128 });
        let why = format!("CIDR value {quoted} is ambiguous in this context");
        texts.at(at, format!("{why} (should be \"{standard}\" or \"{single}\"?)"));
    }
    let is_plain = value
        .split_once('/')
        .is_some_and(|(written, digits)| written.parse::<IpAddr>().is_ok() && digits == length.to_string());
    if !is_plain || mapped(address).is_some() {
        texts.at(at, format!("non-standard CIDR value {quoted} is invalid: use \"{standard}\""));
    }
    let canonical = format!("{address}/{length}");
    if texts.0.len() == before && address.is_ipv6() && canonical != value {
        texts.at(at, format!("IPv6 CIDR value {quoted} should be in RFC 5952 canonical format (\"{canonical}\")"));
    }
}
