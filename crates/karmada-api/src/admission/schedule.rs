//! Validates schedules of a CronFederatedHPA: five fields, six (seconds first, or a year last), seven, or a tag. Due
//! times are not computed here.

/// Tags for a whole schedule.
const TAGS: &[&str] = &[
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@hourly",
    "@5minutes",
    "@10minutes",
    "@15minutes",
    "@30minutes",
    "@always",
    "@everysecond",
];

const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The range of values, names of values, and special values.
struct Field {
    low: u32,
    high: u32,
    names: &'static [&'static str],
    special: fn(&str) -> bool,
}

const fn plain(low: u32, high: u32) -> Field {
    Field { low, high, names: &[], special: |_| false }
}

/// Seconds, minutes, hours, days of the month, months, days of the week, years.
const FIELDS: [Field; 7] = [
    plain(0, 59),
    plain(0, 59),
    plain(0, 23),
    Field { low: 1, high: 31, names: &[], special: special_day_of_month },
    Field { low: 1, high: 12, names: MONTHS, special: |_| false },
    // Sunday is 0 and 7.
    Field { low: 0, high: 7, names: DAYS, special: special_day_of_week },
    plain(0, 9999),
];

/// Whether a schedule is valid.
pub(super) fn is_valid(schedule: &str) -> bool {
    if schedule.starts_with('@') {
        return TAGS.contains(&schedule.to_ascii_lowercase().as_str());
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    let ends_with_year = fields.last().is_some_and(|it| it.len() == 4 && it.bytes().all(|c| c.is_ascii_digit()));
    let kinds = match fields.len() {
        5 => &FIELDS[1..6],
        6 if ends_with_year => &FIELDS[1..],
        6 => &FIELDS[..6],
        7 => &FIELDS[..],
        _ => return false,
    };
    kinds.iter().zip(fields).all(|(field, text)| text.split(',').all(|part| field.accepts(part)))
}

impl Field {
    /// `*`, `?`, `N`, `N-M`, each with an optional `/STEP`.
    fn accepts(&self, part: &str) -> bool {
        if (self.special)(part) {
            return true;
        }
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        if step.is_some_and(|step| number(step).is_none_or(|step| step == 0)) {
            return false;
        }
        match range {
            "*" | "?" => true,
            _ => match range.split_once('-') {
                Some((low, high)) => {
                    matches!((self.value(low), self.value(high)), (Some(low), Some(high)) if low <= high)
                }
                None => self.value(range).is_some(),
            },
        }
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let value = match named {
            Some(position) => self.low + u32::try_from(position).ok()?,
            None => number(text)?,
        };
        (self.low..=self.high).contains(&value).then_some(value)
    }
}

/// At most four digits, so it cannot overflow.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.len() <= 4 && text.bytes().all(|c| c.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// `L` is the last day; `15W` the working day nearest to the 15th.
fn special_day_of_month(part: &str) -> bool {
    let nearest = part.strip_suffix('W').and_then(number);
    part == "L" || nearest.is_some_and(|day| (1..=31).contains(&day))
}

/// `5L` is the last Friday; `5#2` the second one.
fn special_day_of_week(part: &str) -> bool {
    let day = |text: &str| number(text).is_some_and(|day| day <= 7);
    match part.split_once('#') {
        Some((of, nth)) => day(of) && number(nth).is_some_and(|nth| (1..=5).contains(&nth)),
        None => part.strip_suffix('L').is_some_and(day),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for good in [
            "* * * * *",
            "0 0 1 * * *",
            "0 0 1 1 * 2030",
            "0 0 0 1 1 * 2030",
            "*/5 0-6 1,15 JAN-mar sun",
            "0 0 ? * 7",
            "0 0 L * *",
            "0 0 15W * *",
            "0 0 * * 5L",
            "0 0 * * 5#2",
            "@5minutes",
            "@daily",
        ] {
            assert!(is_valid(good), "{good}");
        }
        for bad in [
            "",
            "* * * *",
            "@every 5m",
            "@reboot",
            "TZ=UTC * * * * *",
            "60 * * * *",
            "* * 0 * *",
            "5-1 * * * *",
            "0 0 LW * *",
            "*/0 * * * *",
            "a * * * *",
            "* * * * * * * *",
            "99999999999 * * * *",
        ] {
            assert!(!is_valid(bad), "{bad}");
        }
    }
}
