//! The fields of a cron expression: values, names, ranges, steps and lists, and the special days `L`, `W` and `#`.

use super::ScheduleError;

/// A field's range and its names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub name: &'static str,
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

pub(super) const SECOND: Field = Field { name: "second", low: 0, high: 59, names: &[] };
pub(super) const MINUTE: Field = Field { name: "minute", low: 0, high: 59, names: &[] };
pub(super) const HOUR: Field = Field { name: "hour", low: 0, high: 23, names: &[] };
pub(super) const DAY_OF_MONTH: Field = Field { name: "day of month", low: 1, high: 31, names: &[] };
pub(super) const MONTH: Field = Field { name: "month", low: 1, high: 12, names: MONTHS };
/// 7 is Sunday as well.
pub(super) const DAY_OF_WEEK: Field = Field { name: "day of week", low: 0, high: 7, names: DAYS };
pub(super) const YEAR: Field = Field { name: "year", low: 0, high: 9999, names: &[] };

/// The values of a field up to 63, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits(u64);

impl Bits {
    pub fn only(value: u32) -> Self {
        Self(1 << value)
    }

    pub fn has(self, value: u32) -> bool {
        value < 64 && self.0 & (1 << value) != 0
    }

    /// The first value from `from` on.
    pub fn next(self, from: u32) -> Option<u32> {
        let rest = self.0.checked_shr(from)?;
        (rest != 0).then(|| from + rest.trailing_zeros())
    }

    fn insert(&mut self, value: u32) {
        self.0 |= 1 << value;
    }
}

/// `start` to `end`, each `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub start: u32,
    pub end: u32,
    pub step: u32,
}

impl Span {
    pub fn has(self, value: u32) -> bool {
        (self.start..=self.end).contains(&value) && (value - self.start).is_multiple_of(self.step)
    }
}

/// A part of a list.
enum Part {
    Span(Span),
    /// `*` or `?` without a step above 1.
    Every(Span),
}

/// Days of the month.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MonthDays {
    pub days: Bits,
    /// `L`: the last day.
    pub last: bool,
    /// `15W`: the working day of the month that is nearest to the 15th.
    pub nearest: Vec<u32>,
    pub is_every: bool,
}

/// Days of the week, Sunday is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WeekDays {
    pub days: Bits,
    /// `5L`: the last Friday of the month.
    pub last: Bits,
    /// `5#2`: the second Friday of the month.
    pub nth: Vec<(u32, u32)>,
    pub is_every: bool,
}

impl Field {
    pub fn bits(self, text: &str) -> Result<Bits, ScheduleError> {
        let mut bits = Bits::default();
        for span in self.spans(text)? {
            (span.start..=span.end).filter(|value| span.has(*value)).for_each(|value| bits.insert(value));
        }
        Ok(bits)
    }

    pub fn spans(self, text: &str) -> Result<Vec<Span>, ScheduleError> {
        let span = |part| match part {
            Part::Span(span) | Part::Every(span) => span,
        };
        text.split(',').map(|part| self.part(part).map(span)).collect()
    }

    /// `*`, `?`, `N`, `N-M`, each with an optional `/STEP`; `N/STEP` ends at the field's last value.
    fn part(self, part: &str) -> Result<Part, ScheduleError> {
        let wrong = || ScheduleError::Field { name: self.name, part: part.to_owned() };
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(number(step).filter(|step| *step > 0).ok_or_else(wrong)?)),
            None => (part, None),
        };
        if matches!(range, "*" | "?") {
            // Sunday is counted once.
            let high = if self.high == 7 { 6 } else { self.high };
            let span = Span { start: self.low, end: high, step: step.unwrap_or(1) };
            return Ok(if span.step > 1 { Part::Span(span) } else { Part::Every(span) });
        }
        let (start, end) = match range.split_once('-') {
            Some((low, high)) => (self.value(low).ok_or_else(wrong)?, self.value(high).ok_or_else(wrong)?),
            None => {
                let only = self.value(range).ok_or_else(wrong)?;
                (only, if step.is_some() { self.high } else { only })
            }
        };
        if start > end {
            return Err(wrong());
        }
        Ok(Part::Span(Span { start, end, step: step.unwrap_or(1) }))
    }

    fn value(self, text: &str) -> Option<u32> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let value = match named {
            Some(position) => self.low + u32::try_from(position).ok()?,
            None => number(text)?,
        };
        (self.low..=self.high).contains(&value).then_some(value)
    }
}

/// At most four digits.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.len() <= 4 && text.bytes().all(|c| c.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

impl MonthDays {
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let mut days = Self::default();
        for part in text.split(',') {
            if part == "L" {
                days.last = true;
            } else if let Some(day) = part.strip_suffix('W').and_then(|day| DAY_OF_MONTH.value(day)) {
                days.nearest.push(day);
            } else {
                days.is_every |= matches!(DAY_OF_MONTH.part(part)?, Part::Every(_));
                days.days.0 |= DAY_OF_MONTH.bits(part)?.0;
            }
        }
        Ok(days)
    }
}

impl WeekDays {
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let mut days = Self::default();
        let day = |text: &str| DAY_OF_WEEK.value(text).map(|day| day % 7);
        for part in text.split(',') {
            let nth = part.split_once('#').and_then(|(of, nth)| {
                let nth = number(nth).filter(|nth| (1..=5).contains(nth))?;
                Some((day(of)?, nth))
            });
            if let Some(nth) = nth {
                days.nth.push(nth);
            } else if let Some(last) = part.strip_suffix('L').and_then(day) {
                days.last.insert(last);
            } else {
                days.is_every |= matches!(DAY_OF_WEEK.part(part)?, Part::Every(_));
                let parsed = DAY_OF_WEEK.bits(part)?;
                (0..=7).filter(|value| parsed.has(*value)).for_each(|value| days.days.insert(value % 7));
            }
        }
        Ok(days)
    }
}
