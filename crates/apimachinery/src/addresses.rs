//! Network addresses to which the control plane sends no request in a user's name: those of cloud metadata services,
//! and those that are no host's own.
//!
//! Loopback and private addresses are accepted: clusters on a developer's machine and in private networks have them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata services outside the link-local range: Azure, Alibaba Cloud, Oracle Cloud; AWS and Google Cloud over IPv6.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];
/// Names that clouds resolve to them inside their networks.
const METADATA_NAMES: [&str; 7] = [
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.azure.internal",
    "metadata.goog",
    "metadata.google.internal",
    "metadata.tencentyun.com",
];

const METADATA: &str = "a cloud metadata service";

/// The use of a forbidden address, such as "a cloud metadata service"; `None` for a permitted address.
pub fn forbidden(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => forbidden_v4(address),
        IpAddr::V6(address) => forbidden_v6(address),
    }
}

/// As [`forbidden`], of the host of a URL: a name, or an address in any form that resolvers read, with or without
/// brackets.
pub fn forbidden_host(host: &str) -> Option<&'static str> {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = host.split_once('%').map_or(host, |(address, _zone)| address).parse::<Ipv6Addr>() {
        return forbidden_v6(address);
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if METADATA_NAMES.contains(&name.as_str()) {
        return Some(METADATA);
    }
    numeric(&name).and_then(forbidden_v4)
}

fn forbidden_v4(address: Ipv4Addr) -> Option<&'static str> {
    if METADATA_V4.contains(&address) {
        return Some(METADATA);
    }
    if address.is_link_local() {
        return Some("the link-local range 169.254.0.0/16, where clouds serve metadata");
    }
    if address.octets()[0] == 0 {
        return Some("the unspecified range 0.0.0.0/8");
    }
    if address.is_broadcast() {
        return Some("the broadcast address");
    }
    address.is_multicast().then_some("the multicast range 224.0.0.0/4")
}

fn forbidden_v6(address: Ipv6Addr) -> Option<&'static str> {
    if METADATA_V6.contains(&address) {
        return Some(METADATA);
    }
    if address.is_unicast_link_local() {
        return Some("the link-local range fe80::/10");
    }
    if address.is_unspecified() {
        return Some("the unspecified address");
    }
    if address.is_multicast() {
        return Some("the multicast range ff00::/8");
    }
    if address.is_loopback() {
        return None;
    }
    embedded(address).and_then(forbidden_v4)
}

/// The IPv4 address inside an IPv6 address that leads to it: mapped, compatible, NAT64, 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

/// An IPv4 address by the rules of C's `inet_aton`: one to four numbers, each decimal, octal (`0`) or hexadecimal
/// (`0x`); the last one fills the remaining bytes.
fn numeric(host: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u64> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, leading) = parts.split_last()?;
    if leading.len() > 3 || leading.iter().any(|part| *part > 255) {
        return None;
    }
    let bits = 8 * (4 - leading.len());
    if *last >= 1 << bits {
        return None;
    }
    let high = leading.iter().fold(0, |address, part| (address << 8) | part);
    u32::try_from((high << bits) | last).ok().map(Ipv4Addr::from)
}

fn number(text: &str) -> Option<u64> {
    let digits = |text: &str, radix| match text {
        "" => None,
        _ if !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) => None,
        _ => u64::from_str_radix(text, radix).ok(),
    };
    match text.strip_prefix("0x") {
        Some(hexadecimal) => digits(hexadecimal, 16),
        None if text.len() > 1 && text.starts_with('0') => digits(text, 8),
        None => digits(text, 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let metadata = "169.254.169.254 2852039166 0xa9fea9fe 0xA9FEA9FE 0251.0376.0251.0376 025177524776 169.254.43518 \
                        169.16689662 0xa9.254.0xa9fe [::ffff:169.254.169.254] ::ffff:a9fe:a9fe [::169.254.169.254] \
                        [64:ff9b::a9fe:a9fe] [2002:a9fe:a9fe::1] [::ffff:0:a9fe:a9fe] 169.254.169.254. \
                        [fe80::1] fe80::1%eth0 [fe80::1%25eth0] [febf::1] [fd00:ec2::254] [FD00:0EC2::0254] [fd20:ce::254] \
                        metadata.google.internal METADATA.Google.Internal. metadata.goog metadata instance-data \
                        100.100.100.200 168.63.129.16 192.0.0.192 169.254.0.0 169.254.255.255";
        let nowhere = "0.0.0.0 0 0x0 0.1.2.3 [::] [::ffff:0.0.0.0] 255.255.255.255 224.0.0.1 239.255.255.255 [ff02::1] \
                       4294967295 [64:ff9b::224.0.0.1]";
        for host in metadata.split_whitespace().chain(nowhere.split_whitespace()) {
            assert!(forbidden_host(host).is_some(), "{host}");
        }
        let usable = "127.0.0.1 localhost [::1] 2130706433 10.0.0.1 192.168.1.1 172.18.0.2 169.253.1.1 169.255.1.1 8.8.8.8 \
                      [fd00::1] [2001:db8::1] [::ffff:10.0.0.1] member1.example.com metadata.example.com 256.254.169.254 \
                      169.254.169.254.nip.io 169.254.169.254.1 4294967296 0xg 08.1.1.1 1..2 a. - [fec0::1] 100.64.0.1";
        for host in usable.split_whitespace() {
            assert_eq!(forbidden_host(host), None, "{host}");
        }
        assert_eq!(forbidden_host(""), None);
    }

    #[test]
    fn resolved_addresses() {
        for (address, expected) in [
            ("169.254.169.254", true),
            ("::ffff:169.254.169.254", true),
            ("fe80::a9fe:a9fe", true),
            ("0.0.0.0", true),
            ("127.0.0.1", false),
            ("::1", false),
            ("10.1.2.3", false),
        ] {
            assert_eq!(forbidden(address.parse().unwrap()).is_some(), expected, "{address}");
        }
    }
}
