//! The string formats that upstream checks in custom resources. Formats not listed are not checked.

mod email;
mod network;

use std::borrow::Cow;
use std::net::Ipv6Addr;
use std::sync::LazyLock;

use apimachinery::names;
use apimachinery::schema::Type;
use regex::Regex;
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

/// The name of a format without its dashes.
fn undashed(format: &str) -> Cow<'_, str> {
    match format {
        // Of most times, in every condition.
        "date-time" => "datetime".into(),
        _ if format.contains('-') => format.replace('-', "").into(),
        _ => format.into(),
    }
}

/// Whether values of a type may have the format; without a type, the formats of strings apply.
pub(crate) fn applies(type_: Type, format: &str) -> bool {
    match type_ {
        Type::Any | Type::String => KNOWN.contains(&&*undashed(format)),
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

/// Whether the text has the format; unknown formats accept everything. Dashes in the name do not count.
pub fn matches(format: &str, text: &str) -> bool {
    match &*undashed(format) {
        "k8sshortname" => names::is_dns1123_label(text).is_empty(),
        "k8slongname" => names::is_dns1123_subdomain(text).is_empty(),
        "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "byte" => is_base64(text),
        "ipv4" => network::is_ipv4(text),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => network::is_cidr(text),
        "mac" => network::is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some(b'3')),
        "uuid4" => is_uuid(text, Some(b'4')),
        "uuid5" => is_uuid(text, Some(b'5')),
        "hostname" => network::is_hostname(text),
        "uri" => cel::is_request_uri(text),
        "email" => email::is_email(text),
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

/// What Go's `\s` matches.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

fn digits(text: &str, length: usize, range: std::ops::RangeInclusive<u32>) -> bool {
    text.len() == length
        && text.bytes().all(|b| b.is_ascii_digit())
        && text.parse().is_ok_and(|number| range.contains(&number))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// A date, `T`, a time and an offset, in any case. Upstream bounds no offset, takes any character before the fraction, and
/// ignores what follows another `T`.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && TIME.is_match(time)
}

static TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$"));

/// Panics for an invalid pattern, which a test of the format finds.
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns of this crate are valid")
}

static AMOUNT: LazyLock<Regex> = LazyLock::new(|| pattern(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)"));

/// Durations of Go (`1h30m`), or texts with an amount of time (`3 days`): upstream ignores everything else in them.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 12] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "μs"];
    const PREFIXES: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    if text.parse::<apimachinery::duration::Duration>().is_ok() {
        return true;
    }
    let mut is_known = false;
    for amount in AMOUNT.captures_iter(text) {
        if amount[1].parse::<i64>().is_err() {
            return false;
        }
        let unit = amount[2].to_lowercase();
        is_known |= UNITS.contains(&unit.as_str()) || PREFIXES.iter().any(|prefix| unit.starts_with(prefix));
    }
    is_known
}

/// Padded, and not empty. Surplus bits of the last character do not count.
fn is_base64(text: &str) -> bool {
    let data = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let is_data = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    !data.is_empty() && text.len().is_multiple_of(4) && data.bytes().all(is_data)
}

/// Groups of hexadecimal digits, each hyphen between them is optional.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut compact = String::with_capacity(32);
    let mut rest = text;
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length).filter(|(group, _)| is_hex(group)) else {
            return false;
        };
        compact.push_str(group);
        rest = after;
    }
    let compact = compact.as_bytes();
    rest.is_empty()
        && version.is_none_or(|version| compact[12] == version)
        && (!matches!(version, Some(b'4' | b'5')) || b"89abAB".contains(&compact[16]))
}

fn is_hex_color(text: &str) -> bool {
    let code = text.strip_prefix('#').unwrap_or(text);
    matches!(code.len(), 3 | 6) && is_hex(code)
}

fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|inner| inner.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inner.split(',').map(|part| part.trim_matches(is_space)).collect();
    let is_plain = |part: &str| part == "0" || !part.starts_with('0');
    let is_color = |part: &&str| (1..=3).contains(&part.len()) && is_plain(part) && digits(part, part.len(), 0..=255);
    parts.len() == 3 && parts.iter().all(is_color)
}

/// A number of a known issuer with the right check digit; upstream ignores everything but digits.
fn is_credit_card(text: &str) -> bool {
    let number: String = text.chars().filter(char::is_ascii_digit).collect();
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| number.starts_with(prefix));
    let is_issued = match number.len() {
        13 => begins(&["4"]),
        14 => begins(&["300", "301", "302", "303", "304", "305", "36", "38"]),
        15 => begins(&["34", "37", "2131", "1800"]),
        16 => begins(&["4", "51", "52", "53", "54", "55", "6011", "65", "35"]),
        _ => false,
    };
    let sum: u32 = number
        .bytes()
        .rev()
        .enumerate()
        .map(|(position, digit)| match (position % 2, u32::from(digit - b'0')) {
            (0, digit) => digit,
            (_, digit) if digit > 4 => digit * 2 - 9,
            (_, digit) => digit * 2,
        })
        .sum();
    is_issued && sum.is_multiple_of(10)
}

fn is_ssn(text: &str) -> bool {
    let parts: Vec<&str> = text.split(['-', ' ']).collect();
    let [area, group, serial] = parts.as_slice() else { return false };
    digits(area, 3, 0..=999) && digits(group, 2, 0..=99) && digits(serial, 4, 0..=9999)
}

/// The characters of a book number, without what separates them.
fn book_number(text: &str) -> String {
    text.chars().filter(|c| *c != '-' && !is_space(*c)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let compact = book_number(text);
    let values: Option<Vec<u32>> = compact
        .chars()
        .enumerate()
        .map(|(position, c)| if position == 9 && c == 'X' { Some(10) } else { c.to_digit(10) })
        .collect();
    let sum = |values: &[u32]| values.iter().zip(1u32..).map(|(value, place)| value * place).sum::<u32>();
    values.is_some_and(|values| values.len() == 10 && sum(&values).is_multiple_of(11))
}

fn is_isbn13(text: &str) -> bool {
    let values: Option<Vec<u32>> = book_number(text).chars().map(|c| c.to_digit(10)).collect();
    values.is_some_and(|values| {
        let weighted = values.iter().zip([1, 3].into_iter().cycle()).map(|(value, weight): (&u32, u32)| value * weight);
        values.len() == 13 && weighted.sum::<u32>().is_multiple_of(10)
    })
}

#[cfg(test)]
mod tests {
    use super::matches;

    /// Each is the verdict of apiextensions-apiserver 1.36.
    #[test]
    fn details_are_upstreams() {
        for (format, good, bad) in [
            (
                "date-time",
                &["2020-01-01t00:00:00z", "2020-01-01T00:00:00,5Z", "2020-01-01T00:00:00+25:00"][..],
                &[
                    "2020-01-01T24:00:00Z",
                    "2020-02-30T00:00:00Z",
                    "2020-01-01T00:00:60Z",
                    "2020-01-01T00:00:00",
                    "2020-01-01 00:00:00Z",
                ][..],
            ),
            (
                "duration",
                &["1H", "1m1", "1e3s", " 2 weeks!", "5 milliseconds", "-1h"],
                &["1", "h", "3 fortnights", "PT"],
            ),
            ("byte", &["YQ==", "YWI=", "YWJj", "YQT="], &["", "YQ=", "YQ", "Y Q==", "YW-_", "YQ==\n"]),
            ("ipv4", &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], &["1.2.3", "256.1.1.1", "::1", "1.2.3.4 "]),
            (
                "cidr",
                &["1.2.3.4/024", "01.2.3.4/8", "::/0", "::1.2.3.4/96"],
                &["1.2.3.4/33", "1.2.3.4/+1", "::1%e/64", "/1"],
            ),
            (
                "uuid",
                &["6a2f41a3-c54c5ce8b2d2-0324e1c32e22", "6A2F41A3C54CFCE832D20324E1C32E22"],
                &["{6a2f41a3-c54c-fce8-32d2-0324e1c32e22}", "6a2f41a3--c54cfce832d20324e1c32e22"],
            ),
            (
                "hostname",
                &["a.bb", "a-b", "a-", "$", "é.com", "x--y.com", "1.com"],
                &["a.b", "a--b", "a-b-c", "a_b.com", "com.11", "a.bb.", "", "x.a-b"],
            ),
            (
                "uri",
                &["http:", "*", "a:b", "/a", "//a", "http://a:80", "http://u:p@h", "http://[::1%25e]:1", "x://a:b:1"],
                &[
                    "http://a:b",
                    "http://[::1",
                    "http://a:-1",
                    "http://[1.2.3.4]",
                    "http://a b",
                    "http://u s@h",
                    "http://a:1:2",
                    "a",
                ],
            ),
            (
                "email",
                &[
                    "a@b",
                    "\"a b\"@c.d",
                    "A. Name <a@b.c>",
                    "a@b.c (x (y))",
                    "a@[1.2.3.4]",
                    "a@[IPv6:::1]",
                    "é@é",
                    "g: a@b;",
                    "a@-b",
                ],
                &[
                    "a.@b",
                    "a@b..c",
                    "(c)a@b.c",
                    "a@[1.2.3]",
                    "a@b, c@d",
                    "\"\"@a",
                    "a@b (",
                    "<a@b",
                    "a b@c",
                    "g: a@b, c@d;",
                    "g:;",
                ],
            ),
            ("creditcard", &["4)111 1111 .1111{ 1111", "378282246310005"], &["4111111111111112", "0000000000000000"]),
            ("isbn", &["978 0 306 40615\t7", "0306406152"], &["043942089x", "9780306406158"]),
            ("rgbcolor", &["rgb( 1 ,\t2, 3 )"], &["rgb(01,2,3)", "rgb(1,2)", "rgb (1,2,3)"]),
        ] {
            good.iter().for_each(|text| assert!(matches(format, text), "{format} should take {text:?}"));
            bad.iter().for_each(|text| assert!(!matches(format, text), "{format} should refuse {text:?}"));
        }
    }

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
        assert!(!matches("datetime", "2024-01-01") && !matches("ip-v4", "1"), "dashes do not count");
    }
}
