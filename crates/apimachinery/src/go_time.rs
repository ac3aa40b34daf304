//! Times on the wire, read as strictly as Go reads them, and refused in its words.

use jiff::civil::Date;

const EPOCH: Date = Date::constant(1970, 1, 1);

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// Why `text` is no time of RFC 3339; `None` for a time.
pub fn rfc3339_error(text: &str) -> Option<String> {
    let mut reader = Reader { rest: text };
    reader.read().err().map(|wrong| match wrong {
        TimeError::Unreadable { at, expected } => {
            format!("parsing time {text:?} as {LAYOUT:?}: cannot parse {at:?} as {expected:?}")
        }
        TimeError::OutOfRange(what) => format!("parsing time {text:?}: {what} out of range"),
        TimeError::Extra(rest) => format!("parsing time {text:?}: extra text: {rest:?}"),
    })
}

/// A time of RFC 3339, as Go reads it: seconds since 1970, and nanoseconds, of which further digits are dropped. `None` for
/// other texts.
pub fn rfc3339(text: &str) -> Option<(i64, u32)> {
    Reader { rest: text }.read().ok()
}

enum TimeError<'t> {
    Unreadable { at: &'t str, expected: &'static str },
    OutOfRange(&'static str),
    Extra(&'t str),
}

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn read(&mut self) -> Result<(i64, u32), TimeError<'t>> {
        let year = self.digits(4, "2006")?;
        self.literal("-")?;
        let month = self.digits(2, "01")?;
        within(1..=12, month, "month")?;
        self.literal("-")?;
        let day = self.digits(2, "02")?;
        self.literal("T")?;
        // Go takes hours of one digit, too.
        let one = self.rest.as_bytes().get(1).is_none_or(|byte| !byte.is_ascii_digit());
        let hour = self.digits(if one { 1 } else { 2 }, "15")?;
        within(0..=23, hour, "hour")?;
        self.literal(":")?;
        let minute = self.digits(2, "04")?;
        within(0..=59, minute, "minute")?;
        self.literal(":")?;
        let second = self.digits(2, "05")?;
        within(0..=59, second, "second")?;
        let nanos = self.fraction();
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(TimeError::Extra(self.rest));
        }
        // Of two to four digits each.
        let date = Date::new(year as i16, month as i8, day as i8).and_then(|date| date.since(EPOCH));
        let days = date.map_err(|_| TimeError::OutOfRange("day"))?.get_days();
        let clock = hour * 3600 + minute * 60 + second;
        Ok((i64::from(days) * 86_400 + i64::from(clock) - offset, nanos))
    }

    fn digits(&mut self, count: usize, expected: &'static str) -> Result<u32, TimeError<'t>> {
        let found = self.rest.get(..count).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number =
            found.and_then(|text| text.parse().ok()).ok_or(TimeError::Unreadable { at: self.rest, expected })?;
        self.rest = &self.rest[count..];
        Ok(number)
    }

    fn literal(&mut self, expected: &'static str) -> Result<(), TimeError<'t>> {
        self.rest = self.rest.strip_prefix(expected).ok_or(TimeError::Unreadable { at: self.rest, expected })?;
        Ok(())
    }

    /// Seconds may have any number of decimals, although the layout has none. In nanoseconds.
    fn fraction(&mut self) -> u32 {
        let Some(decimals) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let after = decimals.trim_start_matches(|letter: char| letter.is_ascii_digit());
        if after.len() < decimals.len() {
            self.rest = after;
        }
        let digits = decimals[..decimals.len() - after.len()].bytes().chain(std::iter::repeat(b'0'));
        digits.take(9).fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0'))
    }

    /// In seconds east of UTC.
    fn zone(&mut self) -> Result<i64, TimeError<'t>> {
        const ZONE: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let unreadable = TimeError::Unreadable { at: self.rest, expected: ZONE };
        let bytes = self.rest.as_bytes();
        let shaped = matches!(bytes, [b'+' | b'-', h1, h2, b':', m1, m2, ..]
            if [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()));
        if !shaped {
            return Err(unreadable);
        }
        let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
        let (hours, minutes) = (number(&self.rest[1..3]), number(&self.rest[4..6]));
        within(0..=24, hours, "time zone offset hour")?;
        within(0..=60, minutes, "time zone offset minute")?;
        let offset = i64::from(hours * 3600 + minutes * 60);
        let is_west = bytes.first() == Some(&b'-');
        self.rest = &self.rest[6..];
        Ok(if is_west { -offset } else { offset })
    }
}

fn within<'t>(range: std::ops::RangeInclusive<u32>, number: u32, what: &'static str) -> Result<(), TimeError<'t>> {
    if range.contains(&number) { Ok(()) } else { Err(TimeError::OutOfRange(what)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_3339_times_are_validated() {
        for fine in [
            "2020-01-01T00:00:00Z",
            "2020-02-29T23:59:59.123456789+05:30",
            "2020-01-01T1:00:00Z",
            "0001-01-01T00:00:00Z",
        ] {
            assert_eq!(rfc3339_error(fine), None, "{fine}");
        }
        for (fine, read) in [
            ("1970-01-01T00:00:00.5Z", (0, 500_000_000)),
            ("2020-02-29T23:59:59,1234567891+05:30", (1_583_000_999, 123_456_789)),
            ("1969-12-31T1:00:00-24:60", (7_200, 0)),
            ("0000-01-01T00:00:00Z", (-62_167_219_200, 0)),
            ("9999-12-31T23:59:59Z", (253_402_300_799, 0)),
        ] {
            assert_eq!(rfc3339(fine), Some(read), "{fine}");
        }
        assert_eq!(rfc3339("2020-01-01T00:00:00.\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}Z"), None);
        let cannot = |at: &str, expected: &str| format!(" as {LAYOUT:?}: cannot parse {at:?} as {expected:?}");
        for (text, why) in [
            ("nonsense", cannot("nonsense", "2006")),
            ("", cannot("", "2006")),
            ("2020", cannot("", "-")),
            ("2020-1-01T00:00:00Z", cannot("1-01T00:00:00Z", "01")),
            ("2020-01-01", cannot("", "T")),
            ("2020-01-01 00:00:00Z", cannot(" 00:00:00Z", "T")),
            ("2020-01-01T00:00:00", cannot("", "Z07:00")),
            ("2020-01-01T00:00:00+0100", cannot("+0100", "Z07:00")),
            ("2020-13-01T00:00:00Z", ": month out of range".into()),
            ("2021-02-29T00:00:00Z", ": day out of range".into()),
            ("2021-02-28T24:00:00Z", ": hour out of range".into()),
            ("2021-02-28T00:00:00Zzz", ": extra text: \"zz\"".into()),
            ("20\u{e9}0-01-01T00:00:00Z", cannot("20\u{e9}0-01-01T00:00:00Z", "2006")),
        ] {
            assert_eq!(rfc3339_error(text), Some(format!("parsing time {text:?}{why}")));
        }
    }
}
