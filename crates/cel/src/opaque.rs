//! Values of Kubernetes' own types: quantities, addresses, URLs, versions, formats.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
    if text.contains('%') {
        return Err(format!("IP address {text:?} with zone value is not allowed"));
    }
    let ip: IpAddr =
        text.parse().map_err(|_| format!("IP Address {text:?} parse error during conversion from string"))?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        ip => Ok(ip),
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
        let invalid = || format!("network address parse error during conversion from string: {text:?}");
        let (address, prefix) = text.split_once('/').ok_or_else(invalid)?;
        let canonical = prefix.bytes().all(|b| b.is_ascii_digit()) && (prefix.len() == 1 || !prefix.starts_with('0'));
        let address = parse_ip(address)?;
        let prefix: u8 = prefix.parse().ok().filter(|_| canonical).ok_or_else(invalid)?;
        if prefix > if address.is_ipv4() { 32 } else { 128 } {
            return Err(invalid());
        }
        Ok(Self { address, prefix })
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

/// A version of semver.org 2.0. Build metadata is parsed and ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semver {
    pub numbers: [u64; 3],
    pre: Vec<String>,
}

impl Semver {
    /// `normalize` allows a leading `v`, leading zeros and missing parts.
    pub fn parse(text: &str, normalize: bool) -> Option<Self> {
        let text = if normalize { text.trim_start_matches('v') } else { text };
        let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
        let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
        let mut parts: Vec<&str> = core.split('.').collect();
        while normalize && parts.len() < 3 && pre.is_none() && build.is_none() {
            parts.push("0");
        }
        let [major, minor, patch] = parts.as_slice() else { return None };
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let canonical = normalize || text.len() == 1 || !text.starts_with('0');
            if digits && canonical { text.parse::<u64>().ok() } else { None }
        };
        let numbers = [number(major)?, number(minor)?, number(patch)?];
        let identifier = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let pre: Vec<String> = pre.map_or_else(Vec::new, |pre| pre.split('.').map(str::to_owned).collect());
        let numeric = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let fine = |part: &String| identifier(part) && !(numeric(part) && part.len() > 1 && part.starts_with('0'));
        let build_fine = build.is_none_or(|build| build.split('.').all(identifier));
        (pre.iter().all(fine) && build_fine).then_some(Self { numbers, pre })
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
