//! A block of addresses, written `10.96.0.0/12`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The ranges of service addresses and node ports.
#[derive(Clone, Debug)]
pub struct Ranges {
    /// `--service-cluster-ip-range`.
    pub primary: Range,
    /// Its second half, of the other family.
    pub secondary: Option<Range>,
    /// `--service-node-port-range`.
    pub node_ports: RangeInclusive<u16>,
}

/// Karmada's own: `10.96.0.0/12`, and the node ports every cluster has by default.
impl Default for Ranges {
    fn default() -> Self {
        let primary = Range { base: u128::from(u32::from(Ipv4Addr::new(10, 96, 0, 0))), bits: 32, prefix: 12 };
        Self { primary, secondary: None, node_ports: 30000..=32767 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no range of addresses such as 10.96.0.0/12")]
pub struct ParseRangeError(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    base: u128,
    /// The size of the address family: 32 or 128.
    bits: u8,
    prefix: u8,
}

pub(super) fn family_of(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn number(address: &IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(ip) => (u32::from(*ip).into(), 32),
        IpAddr::V6(ip) => (u128::from(*ip), 128),
    }
}

impl FromStr for Range {
    type Err = ParseRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseRangeError(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(error)?;
        let (base, bits) = number(&address.parse().map_err(|_| error())?);
        let prefix: u8 = prefix.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(error)?;
        let range = Self { base: 0, bits, prefix };
        Ok(Self { base: base & !range.mask(), ..range })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.at(0), self.prefix)
    }
}

impl Range {
    /// The bits that distinguish addresses of this range.
    fn mask(&self) -> u128 {
        match u32::from(self.bits - self.prefix) {
            128 => u128::MAX,
            free => (1 << free) - 1,
        }
    }

    /// The address of the API server itself.
    pub fn first(&self) -> IpAddr {
        self.at(1)
    }

    /// `IPv4` or `IPv6`.
    pub fn family(&self) -> &'static str {
        if self.bits == 32 { "IPv4" } else { "IPv6" }
    }

    pub fn contains(&self, address: &IpAddr) -> bool {
        let (value, bits) = number(address);
        bits == self.bits && value & !self.mask() == self.base
    }

    /// The last allocatable offset; excludes the network address and the broadcast address.
    pub(super) fn last(&self) -> u128 {
        let last = self.mask();
        if self.bits == 32 { last.saturating_sub(1) } else { last }
    }

    pub(super) fn at(&self, offset: u128) -> IpAddr {
        let value = self.base | (offset & self.mask());
        match u32::try_from(value) {
            Ok(value) if self.bits == 32 => IpAddr::V4(Ipv4Addr::from(value)),
            _ => IpAddr::V6(Ipv6Addr::from(value)),
        }
    }

    /// Start of dynamic allocation; addresses below it are reserved for services that request them.
    pub(super) fn dynamic(&self) -> u128 {
        let size = self.mask().saturating_add(1);
        if size <= 16 { 1 } else { (size / 16).clamp(16, 256) + 1 }
    }
}
