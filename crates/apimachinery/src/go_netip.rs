//! Why Go's `net/netip` refuses a text: the order of the checks and the messages are those of `ParseAddr` and
//! `ParsePrefix`. Apart from zones, Go refuses the texts that the standard library refuses.

use crate::field::go_quoted;

/// A message, and the rest of the text where the parser stopped; empty if Go leaves it out.
type Fault<'t> = (&'static str, &'t str);

/// Go's error for an address that is invalid.
pub fn address_fault(text: &str) -> String {
    let separator = text.find(['.', ':', '%']).and_then(|at| text[at..].chars().next());
    let (why, at) = match separator {
        Some('.') => ipv4(text).err(),
        Some(':') => ipv6(text).err(),
        Some(_) => Some(("missing IPv6 address", "")),
        None => None,
    }
    .unwrap_or(("unable to parse IP", ""));
    let at = if at.is_empty() { String::new() } else { format!(" (at {})", go_quoted(at)) };
    format!("ParseAddr({}): {why}{at}", go_quoted(text))
}

/// Go's error for an invalid prefix; `None` for a valid one. `longest` is the number of bits of a valid address, which may
/// have a zone.
pub fn prefix_fault(text: &str, longest: impl Fn(&str) -> Option<u8>) -> Option<String> {
    let failed = |why: String| Some(format!("netip.ParsePrefix({}): {why}", go_quoted(text)));
    let Some((address, bits)) = text.rsplit_once('/') else { return failed("no '/'".to_owned()) };
    let Some(longest) = longest(address) else { return failed(address_fault(address)) };
    if address.contains('%') {
        return failed("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let canonical = bits.len() < 2 || bits.starts_with(|c: char| ('1'..='9').contains(&c));
    match bits.parse::<i64>() {
        Ok(number) if canonical && (0..=i64::from(longest)).contains(&number) => None,
        Ok(_) if canonical => failed("prefix length out of range".to_owned()),
        _ => failed(format!("bad bits after slash: {}", go_quoted(bits))),
    }
}

fn ipv4(text: &str) -> Result<(), Fault<'_>> {
    let (mut value, mut digits, mut fields) = (0_u32, 0, 0);
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            b'.' if at == 0 || at + 1 == bytes.len() || bytes[at - 1] == b'.' => {
                return Err(("IPv4 field must have at least one digit", &text[at..]));
            }
            b'.' if fields == 3 => return Err(("IPv4 address too long", "")),
            b'.' => (fields, value, digits) = (fields + 1, 0, 0),
            _ => return Err(("unexpected character", &text[at..])),
        }
    }
    if fields < 3 { Err(("IPv4 address too short", "")) } else { Ok(()) }
}

fn ipv6(text: &str) -> Result<(), Fault<'_>> {
    let mut rest = match text.split_once('%') {
        Some((_, "")) => return Err(("zone must be a non-empty string", "")),
        Some((address, _)) => address,
        None => text,
    };
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = Some(0);
        rest = after;
        if rest.is_empty() {
            return Ok(());
        }
    }
    // Counted in bytes of the address.
    let mut at = 0;
    while at < 16 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        match digits {
            0 => return Err(("each colon-separated field must have at least one digit", rest)),
            1..=4 => {}
            _ => return Err(("each group must have 4 or less digits", rest)),
        }
        if rest[digits..].starts_with('.') {
            match ellipsis {
                None if at != 12 => {
                    return Err(("embedded IPv4 address must replace the final 2 fields of the address", rest));
                }
                _ if at + 4 > 16 => {
                    return Err(("too many hex fields to fit an embedded IPv4 at the end of the address", rest));
                }
                _ => ipv4(rest)?,
            }
            (rest, at) = ("", at + 4);
            break;
        }
        at += 2;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else { return Err(("unexpected character, want colon", rest)) };
        if after.is_empty() {
            return Err(("colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return Err(("multiple :: in address", rest));
            }
            ellipsis = Some(at);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    match ellipsis {
        _ if !rest.is_empty() => Err(("trailing garbage after address", rest)),
        None if at < 16 => Err(("address string too short", "")),
        Some(_) if at >= 16 => Err(("the :: must expand to at least one field of zeros", "")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_addresses_have_gos_messages() {
        for (text, expected) in [
            ("x", "unable to parse IP"),
            ("", "unable to parse IP"),
            ("x%1", "missing IPv6 address"),
            ("1.2.3.04", "IPv4 field has octet with leading zero"),
            ("1.2.3.256", "IPv4 field has value >255"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1..2.3", r#"IPv4 field must have at least one digit (at ".2.3")"#),
            (".1.2.3", r#"IPv4 field must have at least one digit (at ".1.2.3")"#),
            ("1.2.3.", r#"IPv4 field must have at least one digit (at ".")"#),
            ("1.2.3.x", r#"unexpected character (at "x")"#),
            ("::%", "zone must be a non-empty string"),
            ("1:::2", r#"each colon-separated field must have at least one digit (at ":2")"#),
            ("12345::", r#"each group must have 4 or less digits (at "12345::")"#),
            ("1:2:1.2.3.4", r#"embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")"#),
            (
                "::1:2:3:4:5:6:7:1.2.3.4",
                r#"too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")"#,
            ),
            ("::1.2.3", "IPv4 address too short"),
            ("1:2-3", r#"unexpected character, want colon (at "-3")"#),
            ("1:2:", r#"colon must be followed by more characters (at ":")"#),
            ("1::2::3", r#"multiple :: in address (at ":3")"#),
            ("1:2:3:4:5:6:7:8:9", r#"trailing garbage after address (at "9")"#),
            ("1:2", "address string too short"),
            ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
        ] {
            assert!(text.parse::<std::net::IpAddr>().is_err(), "{text}");
            assert_eq!(address_fault(text), format!("ParseAddr({text:?}): {expected}"));
        }
    }
}
