//! Times and durations: parsing, printing, and their calendar fields.

use jiff::Timestamp;
use jiff::civil::{Date, Weekday};
use jiff::tz::{Offset, TimeZone};

use crate::budget::EvalError;

/// The language's years are 1 to 9999.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

/// Returns a time within the language's range.
///
/// # Errors
/// When it is out of range.
pub fn in_range(time: Timestamp) -> Result<Timestamp, EvalError> {
    if (FIRST..=LAST).contains(&time.as_second()) { Ok(time) } else { Err(EvalError::failed("timestamp overflow")) }
}

pub fn from_seconds(seconds: i64) -> Result<Timestamp, EvalError> {
    Timestamp::from_second(seconds).map_err(|_| EvalError::failed("timestamp overflow")).and_then(in_range)
}

/// Parses a time of RFC 3339. The last day of the year 9999, a common notation for "never", exceeds the range of a
/// timestamp and becomes its maximum.
pub fn read_timestamp(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    // The same text in an earlier year shows whether it is valid.
    let rest = text.strip_prefix("9999").filter(|rest| rest.starts_with("-12-3"))?;
    format!("9998{rest}").parse::<Timestamp>().ok().map(|_| Timestamp::MAX)
}

pub fn parse_timestamp(text: &str) -> Result<Timestamp, EvalError> {
    let time = read_timestamp(text)
        .ok_or_else(|| EvalError::failed("type conversion error from 'string' to 'google.protobuf.Timestamp'"))?;
    in_range(time)
}

pub fn parse_date(text: &str) -> Option<Timestamp> {
    if text.len() != 10 {
        return None;
    }
    let date: Date = text.parse().ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Go's notation, and the days and weeks that the `duration` format allows besides.
pub fn parse_duration(text: &str) -> Option<i64> {
    if let Ok(duration) = text.parse::<apimachinery::duration::Duration>() {
        return Some(duration.as_nanos());
    }
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: i64 = number.parse().ok()?;
    let seconds = match unit.trim() {
        "d" | "day" | "days" => 86_400,
        "w" | "wk" | "week" | "weeks" => 604_800,
        "h" | "hour" | "hours" => 3_600,
        "m" | "min" | "minute" | "minutes" => 60,
        "s" | "sec" | "second" | "seconds" => 1,
        _ => return None,
    };
    number.checked_mul(seconds)?.checked_mul(1_000_000_000)
}

pub fn print_timestamp(time: Timestamp) -> String {
    time.to_string()
}

/// Seconds with as many decimals as needed: `1.5s`.
pub fn print_duration(nanos: i64) -> String {
    let (sign, magnitude) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    let (seconds, rest) = (magnitude / 1_000_000_000, magnitude % 1_000_000_000);
    if rest == 0 {
        return format!("{sign}{seconds}s");
    }
    let decimals = format!("{rest:09}");
    format!("{sign}{seconds}.{}s", decimals.trim_end_matches('0'))
}

/// A calendar field of a time, in a zone given by name or offset (`-08:00`); UTC without a zone. Named zones are from
/// the system's time zone database.
pub fn field(name: &str, time: Timestamp, zone: Option<&str>) -> Result<i64, EvalError> {
    let zone = match zone {
        None => TimeZone::UTC,
        Some(text) => parse_zone(text).ok_or_else(|| EvalError::failed(format!("unknown time zone {text}")))?,
    };
    let civil = zone.to_datetime(time);
    Ok(match name {
        "getFullYear" => i64::from(civil.year()),
        "getMonth" => i64::from(civil.month()) - 1,
        "getDayOfYear" => i64::from(civil.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(civil.day()) - 1,
        "getDate" => i64::from(civil.day()),
        "getDayOfWeek" => i64::from(civil.weekday().since(Weekday::Sunday)),
        "getHours" => i64::from(civil.hour()),
        "getMinutes" => i64::from(civil.minute()),
        "getSeconds" => i64::from(civil.second()),
        "getMilliseconds" => i64::from(civil.millisecond()),
        _ => return Err(EvalError::NoSuchOverload),
    })
}

fn parse_zone(text: &str) -> Option<TimeZone> {
    if text == "UTC" || text.is_empty() {
        return Some(TimeZone::UTC);
    }
    let Some((hours, minutes)) = text.split_once(':') else { return TimeZone::get(text).ok() };
    let negative = hours.starts_with('-');
    let hours: i32 = hours.trim_start_matches(['-', '+']).parse().ok()?;
    let minutes: i32 = minutes.parse().ok()?;
    let seconds = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?;
    let offset = Offset::from_seconds(if negative { -seconds } else { seconds }).ok()?;
    Some(TimeZone::fixed(offset))
}

/// Hours, minutes, seconds or milliseconds of a duration, each as the total.
pub fn duration_field(name: &str, nanos: i64) -> Result<i64, EvalError> {
    Ok(match name {
        "getHours" => nanos / 3_600_000_000_000,
        "getMinutes" => nanos / 60_000_000_000,
        "getSeconds" => nanos / 1_000_000_000,
        "getMilliseconds" => nanos / 1_000_000,
        _ => return Err(EvalError::NoSuchOverload),
    })
}
