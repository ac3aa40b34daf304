//! The string formats that upstream checks in custom resources. Formats not listed are not checked.

use std::net::{Ipv4Addr, Ipv6Addr};

use apimachinery::names;
use apimachinery::schema::Type;
use base64::Engine;
use serde_json::Value;

use crate::structural;

/// A reply has room for no more warnings, see the API server.
const MAX_UNKNOWN: usize = 256;

/// The formats that upstream knows, without their dashes.
const KNOWN: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Whether values of a type may have the format; without a type, the formats of strings apply.
pub(crate) fn applies(type_: Type, format: &str) -> bool {
    match type_ {
        Type::Any | Type::String => KNOWN.contains(&&*format.replace('-', "")),
        Type::Integer => matches!(format, "int32" | "int64"),
        Type::Number => matches!(format, "float" | "double"),
        Type::Object | Type::Array | Type::Boolean => false,
    }
}

/// The formats in a schema that upstream does not know for their type, each once, in order.
pub fn unknown_in(schema: &Value) -> Vec<&str> {
    let mut unknown = Vec::new();
    collect_unknown(schema, &mut unknown);
    unknown
}

fn collect_unknown<'s>(schema: &'s Value, unknown: &mut Vec<&'s str>) {
    if !schema.is_object() {
        return;
    }
    let type_ = match schema["x-kubernetes-int-or-string"] {
        Value::Bool(true) => Type::Any,
        _ => structural::read_type(schema["type"].as_str()),
    };
    if let Some(format) = schema["format"].as_str().filter(|format| !format.is_empty())
        && !applies(type_, format)
        && !unknown.contains(&format)
        && unknown.len() < MAX_UNKNOWN
    {
        unknown.push(format);
    }
    for field in ["items", "additionalProperties", "not"] {
        collect_unknown(&schema[field], unknown);
    }
    let lists = ["allOf", "anyOf", "oneOf"].map(|field| schema[field].as_array());
    lists.into_iter().flatten().flatten().for_each(|schema| collect_unknown(schema, unknown));
    let properties = schema["properties"].as_object();
    properties.into_iter().flatten().for_each(|(_, schema)| collect_unknown(schema, unknown));
}

/// Whether the text has the format; unknown formats accept everything.
pub fn matches(format: &str, text: &str) -> bool {
    match format {
        "k8s-short-name" => names::is_dns1123_label(text).is_empty(),
        "k8s-long-name" => names::is_dns1123_subdomain(text).is_empty(),
        "date-time" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some(b'3')),
        "uuid4" => is_uuid(text, Some(b'4')),
        "uuid5" => is_uuid(text, Some(b'5')),
        "hostname" => is_hostname(text),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "bsonobjectid" => text.len() == 24 && is_hex(text),
        "hexcolor" => is_hex_color(text),
        "rgbcolor" => is_rgb_color(text),
        "creditcard" => is_credit_card(text),
        "ssn" => is_ssn(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        _ => true,
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn digits(text: &str, length: usize, range: std::ops::RangeInclusive<u32>) -> bool {
    text.len() == length
        && text.bytes().all(|b| b.is_ascii_digit())
        && text.parse().is_ok_and(|number| range.contains(&number))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// RFC 3339 with an offset, upper or lower case.
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let Some(offset_at) = time.find(['Z', 'z', '+', '-']) else { return false };
    let (clock, offset) = time.split_at(offset_at);
    is_date(date) && is_clock(clock) && is_offset(offset)
}

fn is_clock(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let parts: Vec<&str> = whole.split(':').collect();
    let [hour, minute, second] = parts.as_slice() else { return false };
    digits(hour, 2, 0..=23)
        && digits(minute, 2, 0..=59)
        && digits(second, 2, 0..=59)
        && !fraction.is_empty()
        && fraction.bytes().all(|b| b.is_ascii_digit())
}

fn is_offset(text: &str) -> bool {
    if text.eq_ignore_ascii_case("z") {
        return true;
    }
    let Some((hour, minute)) = text[1..].split_once(':') else { return false };
    digits(hour, 2, 0..=23) && digits(minute, 2, 0..=59)
}

/// Go durations (`1h30m`), and amounts of words (`3 days`) as go-openapi takes them.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 20] = [
        "ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "w", "nano", "micro", "milli", "second", "minute", "min",
        "hour", "hr", "day", "week",
    ];
    let mut rest = text.trim_start_matches(['-', '+']);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let after = rest[number..].trim_start();
        let unit = after.len() - after.trim_start_matches(char::is_alphabetic).len();
        let name = &after[..unit];
        let known = UNITS.contains(&name) || name.strip_suffix('s').is_some_and(|name| UNITS[10..].contains(&name));
        if number == 0 || rest[..number].parse::<f64>().is_err() || !known {
            return false;
        }
        rest = after[unit..].trim_start();
        parts += 1;
    }
    parts > 0
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let limit = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    bits.len() <= 3 && digits(bits, bits.len(), 0..=limit) && (bits == "0" || !bits.starts_with('0'))
}

fn is_mac(text: &str) -> bool {
    let grouped = |separator: char, width: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| part.len() == width && is_hex(part))
    };
    grouped(':', 2, &[6, 8, 20]) || grouped('-', 2, &[6, 8, 20]) || grouped('.', 4, &[3, 4, 10])
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let compact: Vec<u8> = match text.len() {
        36 if [8, 13, 18, 23].iter().all(|at| text.as_bytes()[*at] == b'-') => {
            text.bytes().filter(|b| *b != b'-').collect()
        }
        32 => text.bytes().collect(),
        _ => return false,
    };
    compact.len() == 32
        && compact.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|version| compact[12] == version)
        && (!matches!(version, Some(b'4' | b'5')) || b"89abAB".contains(&compact[16]))
}

fn is_hostname(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    !text.is_empty()
        && text.len() <= 255
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
        })
}

/// A request URI: an absolute path, or a scheme followed by something.
fn is_uri(text: &str) -> bool {
    if text.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    text.split_once(':').is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    })
}

fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.ends_with('>')) {
        (Some(open), true) => &text[open + 1..text.len() - 1],
        _ => text,
    };
    address.rsplit_once('@').is_some_and(|(local, domain)| {
        !local.is_empty() && !local.contains([' ', '@']) && !domain.is_empty() && !domain.contains([' ', '@'])
    })
}

fn is_hex_color(text: &str) -> bool {
    let code = text.strip_prefix('#').unwrap_or(text);
    matches!(code.len(), 3 | 6) && is_hex(code)
}

fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|inner| inner.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    parts.len() == 3 && parts.iter().all(|part| (1..=3).contains(&part.len()) && digits(part, part.len(), 0..=255))
}

fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter(|c| !matches!(c, ' ' | '-')).map_while(|c| c.to_digit(10)).collect();
    let all_read = text.chars().all(|c| c.is_ascii_digit() || matches!(c, ' ' | '-'));
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(position, digit)| match (position % 2, digit * 2) {
            (0, _) => *digit,
            (_, doubled) if doubled > 9 => doubled - 9,
            (_, doubled) => doubled,
        })
        .sum();
    all_read && (13..=16).contains(&digits.len()) && sum.is_multiple_of(10)
}

fn is_ssn(text: &str) -> bool {
    let parts: Vec<&str> = text.split(['-', ' ']).collect();
    let [area, group, serial] = parts.as_slice() else { return false };
    digits(area, 3, 0..=999) && digits(group, 2, 0..=99) && digits(serial, 4, 0..=9999)
}

fn is_isbn10(text: &str) -> bool {
    let compact: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    if compact.len() != 10 {
        return false;
    }
    let values: Option<Vec<u32>> = compact
        .chars()
        .enumerate()
        .map(|(position, c)| if position == 9 && matches!(c, 'X' | 'x') { Some(10) } else { c.to_digit(10) })
        .collect();
    values.is_some_and(|values| values.iter().zip(1u32..).map(|(value, place)| value * place).sum::<u32>() % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let compact: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let values: Option<Vec<u32>> = compact.chars().map(|c| c.to_digit(10)).collect();
    values.is_some_and(|values| {
        let weighted = values.iter().zip([1, 3].into_iter().cycle()).map(|(value, weight): (&u32, u32)| value * weight);
        values.len() == 13 && weighted.sum::<u32>() % 10 == 0
    })
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn formats_accept_and_reject() {
        for (format, good, bad) in [
            ("date-time", "2024-01-01T00:00:00Z", "2024-01-01"),
            ("date-time", "2024-01-01T00:00:00.123+02:00", "2024-13-01T00:00:00Z"),
            ("date", "2024-02-29", "2023-02-29"),
            ("duration", "1h30m", "1 fortnight"),
            ("duration", "3 days", ""),
            ("byte", "aGVsbG8=", "a"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:1b:44:11:3a:b7", "00:1b:44:11:3a"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
            ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
            ("hostname", "a.example.com", "-a.example.com"),
            ("uri", "https://example.com/x", "no scheme"),
            ("email", "a@b.example", "a.b.example"),
            ("hexcolor", "#ff00aa", "#ff00a"),
            ("rgbcolor", "rgb(1, 2, 3)", "rgb(1,2,300)"),
            ("creditcard", "4111111111111111", "4111111111111112"),
            ("ssn", "111-22-3333", "111-22-333"),
            ("isbn10", "0-306-40615-2", "0-306-40615-3"),
            ("isbn13", "978-0-306-40615-7", "978-0-306-40615-8"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f1f77"),
            ("k8s-short-name", "a-1", "a.b"),
            ("k8s-long-name", "a.b-1", "A.b"),
        ] {
            assert!(matches(format, good), "{format} should take {good:?}");
            assert!(!matches(format, bad), "{format} should refuse {bad:?}");
        }
        assert!(matches("made-up", "anything"));
    }
}
