//! Cron expressions, and when they are due.
//!
//! The rules are those of `robfig/cron`, which upstream runs: five fields, lists, ranges, steps, names, `?`, macros,
//! and a prefix `TZ=` or `CRON_TZ=`. A schedule is due at every instant whose local time matches: a time that the clock
//! skips is not due on that day, a time that the clock repeats is due twice. Upstream's admission also accepts seconds,
//! years, `L`, `W`, `#` and more macros, which upstream then cannot run; they run here.

use apimachinery::duration::Duration;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::calendar::Calendar;
use super::field::{self, Bits, Field, MonthDays, WeekDays};

/// When a rule is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    zone: TimeZone,
    when: When,
}

#[derive(Clone, Debug, PartialEq)]
enum When {
    At(Box<Calendar>),
    /// `@every 90s`
    Every(SignedDuration),
}

/// Why a text is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The number of fields is wrong.
    #[error("expected 5 to 7 fields, found {found}: {text:?}")]
    Count {
        /// The number of fields.
        found: usize,
        /// The schedule.
        text: String,
    },
    /// A part of a field is invalid.
    #[error("{name} {part:?} is invalid")]
    Field {
        /// The field.
        name: &'static str,
        /// The part.
        part: String,
    },
    /// An unknown macro.
    #[error("unrecognized descriptor: {0}")]
    Macro(String),
    /// The duration after `@every` is invalid or not positive.
    #[error("failed to parse duration {0}")]
    Every(String),
    /// The time zone is unknown.
    #[error("unknown time zone {0}")]
    Zone(String),
}

/// The macros and their expressions.
const MACROS: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
    ("@5minutes", "*/5 * * * *"),
    ("@10minutes", "*/10 * * * *"),
    ("@15minutes", "*/15 * * * *"),
    ("@30minutes", "0,30 * * * *"),
    ("@always", "* * * * *"),
    ("@everysecond", "* * * * * *"),
];

/// The years in which a due time is searched: every combination of month, day and weekday that exists recurs within 40.
const YEARS: i32 = 40;

/// A time zone of the bundled IANA database; the empty name is UTC, and `Local` is `local`.
///
/// # Errors
/// When it is unknown.
pub fn zone(name: &str, local: &TimeZone) -> Result<TimeZone, ScheduleError> {
    match name {
        "" | "UTC" => Ok(TimeZone::UTC),
        "Local" => Ok(local.clone()),
        name => TimeZoneDatabase::bundled().get(name).map_err(|_| ScheduleError::Zone(name.to_owned())),
    }
}

impl Schedule {
    /// A schedule in `zone`, unless the text names another one.
    ///
    /// # Errors
    /// The error in the text.
    pub fn parse(text: &str, zone: TimeZone) -> Result<Self, ScheduleError> {
        let text = text.trim();
        if let Some(named) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
            let (name, rest) = named.split_once(char::is_whitespace).unwrap_or((named, ""));
            let zone = self::zone(name, &zone)?;
            return Self::parse_in(rest.trim(), zone);
        }
        Self::parse_in(text, zone)
    }

    fn parse_in(text: &str, zone: TimeZone) -> Result<Self, ScheduleError> {
        if let Some(every) = text.strip_prefix("@every ") {
            let wrong = || ScheduleError::Every(text.to_owned());
            let duration: Duration = every.trim().parse().map_err(|_| wrong())?;
            if duration.as_nanos() <= 0 {
                return Err(wrong());
            }
            let period = SignedDuration::from_secs(duration.as_secs().max(1));
            return Ok(Self { zone, when: When::Every(period) });
        }
        let known = MACROS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        let fields = match known {
            Some((_, fields)) => fields,
            None if text.starts_with('@') => return Err(ScheduleError::Macro(text.to_owned())),
            None => text,
        };
        Ok(Self { zone, when: When::At(Box::new(calendar(fields)?)) })
    }

    /// The first due time after an instant, in whole seconds; `None` if there is none within 40 years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let calendar = match &self.when {
            When::Every(period) => {
                let start = Timestamp::from_second(after.as_second()).ok()?;
                return start.checked_add(*period).ok();
            }
            When::At(calendar) => calendar,
        };
        let mut from = Timestamp::from_second(after.as_second().checked_add(1)?).ok()?;
        let last = self.zone.to_datetime(from).checked_add(YEARS.years()).ok()?;
        let mut changes = self.zone.following(from);
        loop {
            // Until the next change of the clock, local time advances as time does.
            let offset = self.zone.to_offset(from);
            let start = offset.to_datetime(from);
            let change = changes.next().map(|change| change.timestamp());
            let end = change.map_or(last, |at| offset.to_datetime(at).min(last));
            if let Some(found) = calendar.next(start, end) {
                return offset.to_timestamp(found).ok();
            }
            from = change.filter(|_| end < last)?;
        }
    }
}

impl Schedule {
    /// The last time up to `now`, given an earlier one.
    pub fn latest(&self, first: Timestamp, now: Timestamp) -> Timestamp {
        let passed = |after: i64| {
            let next = Timestamp::from_second(after).ok().and_then(|after| self.next(after));
            next.filter(|next| *next <= now)
        };
        let (mut latest, mut from, mut to) = (first, first.as_second(), now.as_second());
        if matches!(self.when, When::Every(_)) {
            return latest;
        }
        // Times follow `from`, at `latest` the first; none follows `to`.
        while let Some(next) = passed(from) {
            latest = next;
            let middle = from + (to - from) / 2;
            match passed(middle) {
                Some(next) => (latest, from) = (next, next.as_second()),
                None => (from, to) = (next.as_second(), middle),
            }
        }
        latest
    }
}

/// Five fields; six with seconds first or a year of four digits last; or seven.
fn calendar(text: &str) -> Result<Calendar, ScheduleError> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let ends_with_year = fields.last().is_some_and(|it| it.len() == 4 && it.bytes().all(|c| c.is_ascii_digit()));
    let (second, rest, year) = match fields.as_slice() {
        rest @ [_, _, _, _, _] => (None, rest, None),
        [rest @ .., year] if rest.len() == 5 && ends_with_year => (None, rest, Some(*year)),
        [second, rest @ ..] if rest.len() == 5 => (Some(*second), rest, None),
        [second, rest @ .., year] if rest.len() == 5 => (Some(*second), rest, Some(*year)),
        _ => return Err(ScheduleError::Count { found: fields.len(), text: text.to_owned() }),
    };
    let [minute, hour, month_day, month, week_day] = rest else {
        return Err(ScheduleError::Count { found: fields.len(), text: text.to_owned() });
    };
    let bits = |field: Field, text: &str| field.bits(text);
    Ok(Calendar {
        seconds: second.map_or(Ok(Bits::only(0)), |text| bits(field::SECOND, text))?,
        minutes: bits(field::MINUTE, minute)?,
        hours: bits(field::HOUR, hour)?,
        month_days: MonthDays::parse(month_day)?,
        months: bits(field::MONTH, month)?,
        week_days: WeekDays::parse(week_day)?,
        years: year.map_or(Ok(Vec::new()), |text| field::YEAR.spans(text))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    /// Up to four due times after `after`, in the zone.
    fn due(schedule: &str, name: &str, after: &str) -> String {
        let zone = zone(name, &TimeZone::UTC).expect("a zone");
        let schedule = match Schedule::parse(schedule, zone.clone()) {
            Ok(schedule) => schedule,
            Err(error) => return error.to_string(),
        };
        let mut at = time(after);
        let mut found = Vec::new();
        while found.len() < 4
            && let Some(next) = schedule.next(at)
        {
            found.push(next.to_zoned(schedule.zone.clone()).strftime("%Y-%m-%d %H:%M:%S%:z").to_string());
            at = next;
        }
        found.join(", ")
    }

    /// Due times of `robfig/cron`, from its own tests and documentation.
    #[test]
    fn due_times() {
        let rows = [
            ("0/15 * * * *", "2026-07-09T14:45:00Z", "2026-07-09 15:00:00+00:00"),
            ("20-35/15 * * * *", "2026-07-09T15:45:00Z", "2026-07-09 16:20:00+00:00"),
            ("20-35/15 * 9-20 Apr-Oct *", "2026-10-20T23:36:00Z", "2027-04-09 00:20:00+00:00"),
            ("0 0 * Feb Mon", "2026-07-09T23:35:00Z", "2027-02-01 00:00:00+00:00"),
            ("0 0 29 Feb ?", "2026-07-09T23:35:00Z", "2028-02-29 00:00:00+00:00"),
            ("* * * * *", "2026-12-31T23:59:45Z", "2027-01-01 00:00:00+00:00"),
            // Either day is sufficient if both are restricted; a step of a star is a restriction.
            ("0 0 1,15 * Sun", "2026-07-10T00:00:00Z", "2026-07-12 00:00:00+00:00"),
            ("0 0 1,15 * *", "2026-07-10T00:00:00Z", "2026-07-15 00:00:00+00:00"),
            ("0 0 * * Sun", "2026-07-10T00:00:00Z", "2026-07-12 00:00:00+00:00"),
            ("0 0 */10 * Sun", "2026-07-10T00:00:00Z", "2026-07-11 00:00:00+00:00"),
            ("0 0 ? * 7", "2026-07-10T00:00:00Z", "2026-07-12 00:00:00+00:00"),
            ("@hourly", "2026-07-10T00:30:00Z", "2026-07-10 01:00:00+00:00"),
            ("@every 90s", "2026-07-10T00:30:00.5Z", "2026-07-10 00:31:30+00:00"),
            ("@weekly", "2026-07-10T00:30:00Z", "2026-07-12 00:00:00+00:00"),
            ("TZ=Asia/Tokyo 0 9 * * *", "2026-07-10T00:30:00Z", "2026-07-11 09:00:00+09:00"),
            ("CRON_TZ=UTC 0 9 * * *", "2026-07-10T00:30:00Z", "2026-07-10 09:00:00+00:00"),
            // From upstream's admission.
            ("30 0 0 1 1 ?", "2026-07-10T00:30:00Z", "2027-01-01 00:00:30+00:00"),
            ("0 0 1 1 * 2030", "2026-07-10T00:30:00Z", "2030-01-01 00:00:00+00:00"),
            ("5 0 0 1 1 * 2030-2031", "2030-07-10T00:30:00Z", "2031-01-01 00:00:05+00:00"),
            ("0 0 L * *", "2028-02-10T00:30:00Z", "2028-02-29 00:00:00+00:00"),
            ("0 0 15W * *", "2026-08-01T00:00:00Z", "2026-08-14 00:00:00+00:00"),
            ("0 0 1W * *", "2026-07-31T00:00:00Z", "2026-08-03 00:00:00+00:00"),
            ("0 0 31W * *", "2026-05-01T00:00:00Z", "2026-05-29 00:00:00+00:00"),
            ("0 0 * * 5L", "2026-07-10T00:30:00Z", "2026-07-31 00:00:00+00:00"),
            ("0 0 * * 5#2", "2026-07-01T00:30:00Z", "2026-07-10 00:00:00+00:00"),
            // Never.
            ("0 0 30 2 *", "2026-07-01T00:30:00Z", ""),
            ("0 0 1 1 * 2020", "2026-07-01T00:30:00Z", ""),
        ];
        for (schedule, after, expected) in rows {
            let due = due(schedule, "UTC", after);
            assert_eq!(due.split(", ").next(), Some(expected), "{schedule}");
        }
    }

    #[test]
    fn changes_of_the_clock() {
        let rows = [
            // Skipped, and run twice.
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2026-03-28T00:00:00Z",
                "2026-03-28 02:30:00+01:00, 2026-03-30 02:30:00+02:00",
            ),
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2026-10-24T12:00:00Z",
                "2026-10-25 02:30:00+02:00, 2026-10-25 02:30:00+01:00",
            ),
            (
                "0 * * * *",
                "America/New_York",
                "2026-03-08T05:30:00Z",
                "2026-03-08 01:00:00-05:00, 2026-03-08 03:00:00-04:00",
            ),
            (
                "30 1 * * *",
                "America/New_York",
                "2026-11-01T00:00:00Z",
                "2026-11-01 01:30:00-04:00, 2026-11-01 01:30:00-05:00",
            ),
            // Half an hour.
            (
                "15 2 * * *",
                "Australia/Lord_Howe",
                "2026-10-03T00:00:00Z",
                "2026-10-05 02:15:00+11:00, 2026-10-06 02:15:00+11:00",
            ),
            // Midnight does not exist, or exists twice.
            (
                "0 0 * * *",
                "America/Santiago",
                "2026-09-05T05:00:00Z",
                "2026-09-07 00:00:00-03:00, 2026-09-08 00:00:00-03:00",
            ),
            (
                "0 0 * * *",
                "America/Havana",
                "2026-10-31T12:00:00Z",
                "2026-11-01 00:00:00-04:00, 2026-11-01 00:00:00-05:00",
            ),
        ];
        for (schedule, zone, after, expected) in rows {
            let due = due(schedule, zone, after);
            assert!(due.starts_with(expected), "{schedule} in {zone}: {due}");
        }
    }

    #[test]
    fn errors() {
        let rows = [
            ("* * * *", "expected 5 to 7 fields, found 4: \"* * * *\""),
            ("60 * * * *", "minute \"60\" is invalid"),
            ("* * 5-1 * *", "day of month \"5-1\" is invalid"),
            ("*/0 * * * *", "minute \"*/0\" is invalid"),
            ("* * * XYZ *", "month \"XYZ\" is invalid"),
            ("* * * * 5#6", "day of week \"5#6\" is invalid"),
            ("1,,2 * * * *", "minute \"\" is invalid"),
            ("@reboot", "unrecognized descriptor: @reboot"),
            ("@every -1s", "failed to parse duration @every -1s"),
            ("TZ=Mars/One * * * * *", "unknown time zone Mars/One"),
        ];
        for (schedule, expected) in rows {
            assert_eq!(due(schedule, "UTC", "2026-01-01T00:00:00Z"), expected);
        }
    }
}
