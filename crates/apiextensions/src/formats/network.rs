//! Addresses and host names, as upstream's libraries read them: more loosely than Go's present ones.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use super::{is_hex, pattern};

/// Reads an address whose decimal numbers may begin with zeros.
fn loose_ip(text: &str) -> Option<IpAddr> {
    match text.find(['.', ':']).map(|at| text.as_bytes()[at])? {
        b'.' => loose_v4(text).map(IpAddr::V4),
        _ => loose_v6(text).map(IpAddr::V6),
    }
}

fn loose_v4(text: &str) -> Option<Ipv4Addr> {
    let octets: Vec<u8> = text.split('.').map(|octet| decimal(octet)?.try_into().ok()).collect::<Option<_>>()?;
    <[u8; 4]>::try_from(octets).ok().map(Ipv4Addr::from)
}

fn loose_v6(text: &str) -> Option<Ipv6Addr> {
    let (head, tail) = text.rsplit_once(':')?;
    match tail.contains('.').then(|| loose_v4(tail)) {
        Some(v4) => format!("{head}:{}", v4?).parse().ok(),
        None => text.parse().ok(),
    }
}

fn decimal(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// An address in dotted form, also within one of IPv6.
pub fn is_ipv4(text: &str) -> bool {
    text.contains('.') && loose_ip(text).is_some()
}

pub fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let limit = match loose_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    decimal(bits).is_some_and(|bits| bits <= limit)
}

pub fn is_mac(text: &str) -> bool {
    let grouped = |separator: char, width: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| part.len() == width && is_hex(part))
    };
    grouped(':', 2, &[6, 8, 20]) || grouped('-', 2, &[6, 8, 20]) || grouped('.', 4, &[3, 4, 10])
}

/// One label with at most one hyphen, after its first character; or several, the last of letters only. Letters and symbols
/// of all scripts count.
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let any = r"[0-9\p{S}\p{L}]";
    pattern(&format!(r"^(?:{any}-?{any}{{0,62}}|(?:{any}(?:[-0-9\p{{S}}\p{{L}}]{{0,61}}{any})?\.)+\p{{L}}{{2,63}})$"))
});

pub fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(text)
}
