//! Times and durations: parsing, printing, and their calendar fields.

use std::cmp::Ordering;
use std::fmt;

use apimachinery::go_time;
use jiff::Timestamp;
use jiff::civil::{Date, Weekday};
use jiff::tz::{Offset, TimeZone};

use crate::budget::EvalError;

/// The language's years are 1 to 9999.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;
/// The calendar repeats after 400 years.
const PERIOD: i64 = 146_097 * 86_400;
const PERIOD_YEARS: i64 = 400;
const NANOS: i128 = 1_000_000_000;

/// A time. jiff's timestamps end a day before the year 9999 does, which is a common notation for "never".
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// Since 1970.
    seconds: i64,
    /// Below a second, never negative.
    nanos: u32,
    /// Minutes east of UTC: the offset with which the time was written. It is printed with it, as upstream, and has no
    /// other effect.
    offset: i16,
}

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

impl Time {
    fn of_nanos(nanos: i128) -> Option<Self> {
        let seconds = i64::try_from(nanos.div_euclid(NANOS)).ok()?;
        Some(Self { seconds, nanos: nanos.rem_euclid(NANOS) as u32, offset: 0 })
    }

    /// Whether it is the zero time of Go: the first second of the year 1.
    pub fn is_zero(self) -> bool {
        self.seconds == FIRST && self.nanos == 0
    }

    fn as_nanos(self) -> i128 {
        i128::from(self.seconds) * NANOS + i128::from(self.nanos)
    }

    /// Whole seconds since 1970, rounded down.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// The time after a number of nanoseconds.
    ///
    /// # Errors
    /// When it is out of the language's range.
    pub fn plus(self, nanos: i64) -> Result<Self, EvalError> {
        let moved = Self::of_nanos(self.as_nanos() + i128::from(nanos));
        let moved = moved.map(|time| Self { offset: self.offset, ..time });
        moved.filter(|time| time.is_in_range()).ok_or_else(overflow)
    }

    /// Nanoseconds since an earlier time, if they fit.
    pub fn since(self, earlier: Self) -> Option<i64> {
        i64::try_from(self.as_nanos() - earlier.as_nanos()).ok()
    }

    fn is_in_range(self) -> bool {
        (FIRST..=LAST).contains(&self.seconds)
    }

    /// The date and time in a zone, and the years to add to it.
    fn civil(self, zone: &TimeZone) -> (jiff::civil::DateTime, i64) {
        let (seconds, years) = match self.seconds > LAST - PERIOD {
            true => (self.seconds - PERIOD, PERIOD_YEARS),
            false => (self.seconds, 0),
        };
        let time = Timestamp::new(seconds, self.nanos.cast_signed()).unwrap_or_default();
        (zone.to_datetime(time), years)
    }
}

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Self::of_nanos(time.as_nanosecond()).unwrap_or(Self { seconds: LAST, nanos: 0, offset: 0 })
    }
}

/// RFC 3339 in the zone of its offset, with as many decimals as needed.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = Offset::from_seconds(i32::from(self.offset) * 60).map_or(TimeZone::UTC, TimeZone::fixed);
        let (civil, years) = self.civil(&zone);
        let (year, date, time) = (i64::from(civil.year()) + years, civil.date(), civil.time());
        write!(f, "{year:04}-{:02}-{:02}T", date.month(), date.day())?;
        write!(f, "{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())?;
        if self.nanos > 0 {
            let decimals = format!("{:09}", self.nanos);
            write!(f, ".{}", decimals.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.unsigned_abs());
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

fn overflow() -> EvalError {
    EvalError::failed("timestamp overflow")
}

pub fn from_seconds(seconds: i64) -> Result<Time, EvalError> {
    Some(Time { seconds, nanos: 0, offset: 0 }).filter(|time| time.is_in_range()).ok_or_else(overflow)
}

/// Parses the `date-time` format of a document.
pub fn read_timestamp(text: &str) -> Option<Time> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(Time { offset: offset_of(text), ..time.into() });
    }
    // The same text in an earlier year shows whether it is valid.
    let rest = text.strip_prefix("9999").filter(|rest| rest.starts_with("-12-3"))?;
    let earlier = Time::from(format!("9998{rest}").parse::<Timestamp>().ok()?);
    Some(Time { seconds: earlier.seconds + 365 * 86_400, offset: offset_of(text), ..earlier })
}

/// The offset at the end of a time, in minutes east of UTC.
fn offset_of(text: &str) -> i16 {
    let read = || {
        let (rest, minutes) = text.rsplit_once(':')?;
        let hours = rest.get(rest.len().checked_sub(3)?..)?;
        let sign = match hours.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        Some(sign * (hours[1..].parse::<i16>().ok()? * 60 + minutes.parse::<i16>().ok()?))
    };
    read().unwrap_or(0)
}

/// Converts a text as Go's layout `RFC3339` is read.
pub fn parse_timestamp(text: &str) -> Result<Time, EvalError> {
    let (seconds, nanos) = go_time::rfc3339(text)
        .ok_or_else(|| EvalError::failed("type conversion error from 'string' to 'google.protobuf.Timestamp'"))?;
    Some(Time { seconds, nanos, offset: offset_of(text) }).filter(|time| time.is_in_range()).ok_or_else(overflow)
}

pub fn parse_date(text: &str) -> Option<Time> {
    if text.len() != 10 {
        return None;
    }
    let date: Date = text.parse().ok()?;
    let days = date.since(Date::constant(1970, 1, 1)).ok()?.get_days();
    Some(Time { seconds: i64::from(days) * 86_400, nanos: 0, offset: 0 })
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
pub fn field(name: &str, time: Time, zone: Option<&str>) -> Result<i64, EvalError> {
    let zone = zone.map_or(Ok(TimeZone::UTC), parse_zone)?;
    let (civil, years) = time.civil(&zone);
    Ok(match name {
        "getFullYear" => i64::from(civil.year()) + years,
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

fn parse_zone(text: &str) -> Result<TimeZone, EvalError> {
    // The zone of a server is UTC.
    if matches!(text, "UTC" | "Local" | "") {
        return Ok(TimeZone::UTC);
    }
    let unknown = || EvalError::failed(format!("unknown time zone {text}"));
    let Some((hours, minutes)) = text.split_once(':') else { return TimeZone::get(text).map_err(|_| unknown()) };
    let is_negative = hours.starts_with('-');
    let number = |digits: &str| digits.parse::<i32>().map_err(|_| unknown());
    let (hours, minutes) = (number(hours.trim_start_matches(['-', '+']))?, number(minutes)?);
    if hours > 23 {
        return Err(EvalError::failed(format!("timezone offset hours out of range [-23, 23]: {text}")));
    }
    let seconds = hours * 3600 + minutes.checked_mul(60).ok_or_else(unknown)?;
    let offset = Offset::from_seconds(if is_negative { -seconds } else { seconds }).map_err(|_| unknown())?;
    Ok(TimeZone::fixed(offset))
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
