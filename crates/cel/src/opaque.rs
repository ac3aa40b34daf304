//! Values of Kubernetes' own types: quantities, addresses, URLs, versions, formats.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use apimachinery::field::go_quoted;
use apimachinery::go_netip;
use apimachinery::quantity::Quantity;

use crate::authorization::Authorization;
use crate::names;
use crate::url::Url;

#[derive(Clone, Debug, PartialEq)]
pub enum Opaque {
    Quantity(Quantity),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Url),
    Semver(Semver),
    Authorization(Box<Authorization>),
    /// A named format, by its name.
    Format(&'static str),
}

impl Opaque {
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Quantity(_) => names::QUANTITY,
            Self::Ip(_) => names::IP,
            Self::Cidr(_) => names::CIDR,
            Self::Url(_) => names::URL,
            Self::Semver(_) => names::SEMVER,
            Self::Authorization(value) => value.type_name(),
            Self::Format(_) => names::FORMAT,
        }
    }
}

/// Parses an address by Kubernetes' rules: no zone, no IPv4 inside IPv6, no leading zeros.
pub fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let quoted = || go_quoted(text);
    let (address, zone) = text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)));
    match (address.parse(), zone) {
        (Ok(IpAddr::V6(v6)), None) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {} is not allowed", quoted()))
        }
        (Ok(ip), None) => Ok(ip),
        (Ok(IpAddr::V6(_)), Some(zone)) if !zone.is_empty() => {
            Err(format!("IP address {} with zone value is not allowed", quoted()))
        }
        _ => {
            let why = go_netip::address_fault(text);
            Err(format!("IP Address {} parse error during conversion from string: {why}", quoted()))
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The written address: bits after the prefix stay until `masked()`.
    pub address: IpAddr,
    pub prefix: u8,
}

impl Cidr {
    pub fn parse(text: &str) -> Result<Self, String> {
        let refused = |why: String| format!("network address parse error during conversion from string: {why}");
        let longest = |address: &str| {
            let plain = address.split('%').next().unwrap_or(address);
            plain.parse::<IpAddr>().ok().map(|ip| if ip.is_ipv4() { 32 } else { 128 })
        };
        // Upstream adds the context twice.
        if let Some(why) = go_netip::prefix_fault(text, longest) {
            return Err(refused(refused(why)));
        }
        let (address, prefix) = text.rsplit_once('/').unwrap_or((text, ""));
        match (address.parse(), prefix.parse()) {
            (Ok(IpAddr::V6(v6)), _) if v6.to_ipv4_mapped().is_some() => {
                Err(refused(format!("IPv4-mapped IPv6 address {} is not allowed", go_quoted(text))))
            }
            (Ok(address), Ok(prefix)) => Ok(Self { address, prefix }),
            _ => Err(refused(go_netip::address_fault(address))),
        }
    }

    #[must_use]
    pub fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(ip) & mask))
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(ip) & mask))
            }
        };
        Self { address, ..self }
    }

    pub fn contains_ip(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.address.is_ipv4()
            && Self { address: ip, prefix: self.prefix }.masked().address == self.masked().address
    }

    pub fn contains(self, other: Self) -> bool {
        other.prefix >= self.prefix && self.contains_ip(other.address)
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn number(name: &str, text: &str, normalize: bool) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {} number {}", name.to_ascii_lowercase(), go_quoted(text)));
    }
    if !normalize && text.len() > 1 && text.starts_with('0') {
        return Err(format!("{name} number must not contain leading zeroes {}", go_quoted(text)));
    }
    text.parse().map_err(|_| {
        let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {why}", go_quoted(text))
    })
}

/// A version of semver.org 2.0. Build metadata is parsed and ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semver {
    pub numbers: [u64; 3],
    pre: Vec<String>,
}

impl Semver {
    /// `normalize` allows a leading `v`, leading zeros and missing parts.
    ///
    /// # Errors
    /// The first fault, in the order and with the messages of the library that upstream uses.
    pub fn parse(text: &str, normalize: bool) -> Result<Self, String> {
        let text = if normalize { text.trim_start_matches('v') } else { text };
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts: Vec<&str> = text.splitn(3, '.').collect();
        while normalize && parts.len() < 3 && !text.contains(['+', '-']) {
            parts.push("0");
        }
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest.split_once('+').map_or((*rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let number = |name: &str, text: &str| number(name, text, normalize);
        let numbers = [number("Major", major)?, number("Minor", minor)?, number("Patch", patch)?];
        let pre: Vec<String> = pre.map_or_else(Vec::new, |pre| pre.split('.').map(str::to_owned).collect());
        for part in &pre {
            if part.is_empty() {
                return Err("Prerelease is empty".to_owned());
            }
            if part.bytes().all(|b| b.is_ascii_digit()) {
                if part.len() > 1 && part.starts_with('0') {
                    return Err(format!(
                        "Numeric PreRelease version must not contain leading zeroes {}",
                        go_quoted(part)
                    ));
                }
            } else if !part.bytes().all(is_identifier) {
                return Err(format!("Invalid character(s) found in prerelease {}", go_quoted(part)));
            }
        }
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !part.bytes().all(is_identifier) {
                return Err(format!("Invalid character(s) found in build meta data {}", go_quoted(part)));
            }
        }
        Ok(Self { numbers, pre })
    }

    /// The number of identifiers that a comparison may visit.
    pub fn size(&self) -> usize {
        self.pre.len()
    }

    pub fn compare(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            // A release is greater than its pre-releases.
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let pairs = self.pre.iter().zip(&other.pre);
                let differing = pairs.map(|(a, b)| compare_identifier(a, b)).find(|order| order.is_ne());
                differing.unwrap_or_else(|| self.pre.len().cmp(&other.pre.len()))
            }
        })
    }
}

/// Numbers are compared as numbers and precede words.
fn compare_identifier(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}
