//! Resolution of plain YAML 1.1 scalars, which decides which strings need quotes.

/// Whether a reader takes the plain text for a string.
pub(super) fn reads_as_string(text: &str) -> bool {
    !(is_word(text) || is_number(text) || is_base_60(text) || is_timestamp(text))
}

/// The key of a merge: plain, a reader would look for the map to merge.
pub(super) fn is_merge(key: &str) -> bool {
    key == "<<"
}

fn is_word(text: &str) -> bool {
    matches!(
        text,
        "" | "~"
            | "null"
            | "Null"
            | "NULL"
            | "y"
            | "Y"
            | "yes"
            | "Yes"
            | "YES"
            | "n"
            | "N"
            | "no"
            | "No"
            | "NO"
            | "true"
            | "True"
            | "TRUE"
            | "false"
            | "False"
            | "FALSE"
            | "on"
            | "On"
            | "ON"
            | "off"
            | "Off"
            | "OFF"
            | ".nan"
            | ".NaN"
            | ".NAN"
            | ".inf"
            | ".Inf"
            | ".INF"
            | "+.inf"
            | "+.Inf"
            | "+.INF"
            | "-.inf"
            | "-.Inf"
            | "-.INF"
    )
}

fn all(text: &str, test: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(test)
}

fn is_number(text: &str) -> bool {
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return false;
    }
    // Underscores may be in numbers that begin with a digit.
    let plain = if text.starts_with('.') { text.to_owned() } else { text.replace('_', "") };
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    is_integer(unsigned) || is_float(unsigned)
}

fn is_integer(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let digits = |radix: u32, text: &str| {
        all(text, |b| char::from(b).is_digit(radix)) && u64::from_str_radix(text, radix).is_ok()
    };
    match lower.as_bytes() {
        [b'0', b'x', ..] => digits(16, &lower[2..]),
        [b'0', b'o', ..] => digits(8, &lower[2..]),
        [b'0', b'b', ..] => digits(2, &lower[2..]),
        [b'0', _, ..] => digits(8, &lower[1..]),
        _ => digits(10, &lower),
    }
}

/// `1`, `1.`, `.5`, `1.5e3`, `1e+3`.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let mantissa = match mantissa.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent = exponent.map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
    mantissa && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}

/// `190:20:30`: sexagesimal numbers of YAML 1.1.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    if !(first.starts_with(|c: char| c.is_ascii_digit()) && all(first, |b| b.is_ascii_digit() || b == b'_')) {
        return false;
    }
    let rest: Vec<&str> = parts.collect();
    let Some((last, middle)) = rest.split_last() else { return false };
    let sixty = |text: &str| {
        matches!(text.as_bytes(), [d] if d.is_ascii_digit())
            || matches!(text.as_bytes(), [b'0'..=b'5', d] if d.is_ascii_digit())
    };
    let last_whole = last.split('.').next().unwrap_or_default();
    let fraction = last.split_once('.').map_or("", |(_, fraction)| fraction);
    middle.iter().all(|part| sixty(part))
        && sixty(last_whole)
        && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

/// `2024-01-31`, and with a time of day behind `T`, `t` or a blank.
fn is_timestamp(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else { return false };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (day, time) = rest.split_at(end);
    let short = |text: &str| (1..=2).contains(&text.len()) && all(text, |b| b.is_ascii_digit());
    if !(year.len() == 4 && all(year, |b| b.is_ascii_digit()) && short(month) && short(day)) {
        return false;
    }
    let within = |text: &str, max: u8| text.parse::<u8>().is_ok_and(|n| (1..=max).contains(&n));
    within(month, 12)
        && within(day, 31)
        && (time.is_empty() || time.strip_prefix(['T', 't', ' ']).is_some_and(is_time_of_day))
}

fn is_time_of_day(text: &str) -> bool {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(text.len());
    let (clock, zone) = text.split_at(end);
    let parts: Vec<&str> = clock.split(':').collect();
    let zone_digits = |zone: &str| zone.len() == 5 && zone.is_char_boundary(2) && zone.as_bytes()[2] == b':';
    parts.len() == 3
        && parts.iter().all(|part| part.starts_with(|c: char| c.is_ascii_digit()))
        && (zone.is_empty() || zone == "Z" || zone.strip_prefix(['+', '-']).is_some_and(zone_digits))
}
