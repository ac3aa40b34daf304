//! The next local date and time that matches an expression, in a calendar without changes of the clock.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time};

use super::field::{Bits, MonthDays, Span, WeekDays};

/// The fields of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Calendar {
    pub seconds: Bits,
    pub minutes: Bits,
    pub hours: Bits,
    pub month_days: MonthDays,
    pub months: Bits,
    pub week_days: WeekDays,
    /// Empty: every year.
    pub years: Vec<Span>,
}

/// Fields of jiff are small and not negative.
fn unsigned(value: impl Into<i64>) -> u32 {
    u32::try_from(value.into()).unwrap_or(0)
}

impl Calendar {
    /// The first match from `from` on and before `end`.
    pub fn next(&self, from: DateTime, end: DateTime) -> Option<DateTime> {
        let mut date = from.date();
        let mut time = Some(from.time());
        while date <= end.date() {
            if !self.months.has(unsigned(date.month())) || !self.has_year(date) {
                date = date.first_of_month().checked_add(1.month()).ok()?;
                time = None;
                continue;
            }
            if self.has_day(date)
                && let Some(found) = self.next_time(time.unwrap_or_default())
            {
                let found = date.to_datetime(found);
                return (found < end).then_some(found);
            }
            date = date.tomorrow().ok()?;
            time = None;
        }
        None
    }

    fn has_year(&self, date: Date) -> bool {
        self.years.is_empty() || self.years.iter().any(|span| span.has(unsigned(date.year())))
    }

    /// As cron: if both kinds of days are restricted, either is sufficient.
    pub fn has_day(&self, date: Date) -> bool {
        let (of_month, of_week) = (self.has_month_day(date), self.has_week_day(date));
        if self.month_days.is_every || self.week_days.is_every { of_month && of_week } else { of_month || of_week }
    }

    fn has_month_day(&self, date: Date) -> bool {
        let days = &self.month_days;
        days.days.has(unsigned(date.day()))
            || (days.last && date.day() == date.days_in_month())
            || days.nearest.iter().any(|day| nearest_working_day(date, *day) == Some(date))
    }

    fn has_week_day(&self, date: Date) -> bool {
        let days = &self.week_days;
        let day = unsigned(date.weekday().to_sunday_zero_offset());
        let nth = unsigned(date.day() - 1) / 7 + 1;
        days.days.has(day)
            || (days.last.has(day) && date.day() + 7 > date.days_in_month())
            || days.nth.contains(&(day, nth))
    }

    /// The first time of the day from `from` on.
    fn next_time(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (unsigned(from.hour()), unsigned(from.minute()), unsigned(from.second()));
        let found = if self.hours.has(hour) { self.within_hour(minute, second).map(|it| (hour, it)) } else { None };
        let (hour, (minute, second)) = match found {
            Some(found) => found,
            None => (self.hours.next(hour + 1)?, self.within_hour(0, 0)?),
        };
        let part = |value: u32| i8::try_from(value).ok();
        Time::new(part(hour)?, part(minute)?, part(second)?, 0).ok()
    }

    fn within_hour(&self, minute: u32, second: u32) -> Option<(u32, u32)> {
        if self.minutes.has(minute)
            && let Some(second) = self.seconds.next(second)
        {
            return Some((minute, second));
        }
        Some((self.minutes.next(minute + 1)?, self.seconds.next(0)?))
    }
}

/// The working day of the date's month that is nearest to a day of it.
fn nearest_working_day(date: Date, day: u32) -> Option<Date> {
    let day = i8::try_from(day).ok()?;
    let date_of_day = Date::new(date.year(), date.month(), day).ok()?;
    let shift = match date_of_day.weekday() {
        jiff::civil::Weekday::Saturday if day == 1 => 2,
        jiff::civil::Weekday::Saturday => -1,
        jiff::civil::Weekday::Sunday if day == date_of_day.days_in_month() => -2,
        jiff::civil::Weekday::Sunday => 1,
        _ => 0,
    };
    Date::new(date.year(), date.month(), day + shift).ok()
}
