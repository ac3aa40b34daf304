//! Validation of CronJob schedules: five fields, or a descriptor such as `@daily`. Due times are not computed here.

/// Lowest and highest value, and names of values.
struct Field {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Field; 5] = [
    Field { low: 0, high: 59, names: &[] },
    Field { low: 0, high: 23, names: &[] },
    Field { low: 1, high: 31, names: &[] },
    Field { low: 1, high: 12, names: MONTHS },
    Field { low: 0, high: 6, names: DAYS },
];
const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// The error in an invalid schedule.
pub(crate) fn check(schedule: &str) -> Result<(), String> {
    if let Some(duration) = schedule.strip_prefix("@every ") {
        let parsed = duration.parse::<apimachinery::duration::Duration>();
        return parsed.map(drop).map_err(|e| format!("failed to parse duration {schedule}: {e}"));
    }
    if schedule.starts_with('@') {
        let known = DESCRIPTORS.contains(&schedule);
        return if known { Ok(()) } else { Err(format!("unrecognized descriptor: {schedule}")) };
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    FIELDS.iter().zip(fields).try_for_each(|(field, text)| text.split(',').try_for_each(|range| field.check(range)))
}

impl Field {
    /// `*`, `N`, `N-M`, each with an optional `/STEP`.
    fn check(&self, text: &str) -> Result<(), String> {
        let (range, step) = text.split_once('/').map_or((text, None), |(range, step)| (range, Some(step)));
        let (low, high) = match range {
            "*" | "?" => (self.low, self.high),
            _ => match range.split_once('-') {
                Some((low, high)) => (self.value(low)?, self.value(high)?),
                None => {
                    let low = self.value(range)?;
                    (low, if step.is_some() { self.high } else { low })
                }
            },
        };
        if step.map(number).transpose()? == Some(0) {
            return Err(format!("step of range should be a positive number: {text}"));
        }
        if low < self.low {
            return Err(format!("beginning of range ({low}) below minimum ({}): {text}", self.low));
        }
        if high > self.high {
            return Err(format!("end of range ({high}) above maximum ({}): {text}", self.high));
        }
        if low > high {
            return Err(format!("beginning of range ({low}) beyond end of range ({high}): {text}"));
        }
        Ok(())
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        match named.and_then(|position| u32::try_from(position).ok()) {
            Some(position) => Ok(self.low + position),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for good in ["* * * * *", "*/5 0-6 1,15 jan-MAR sun", "@daily", "@every 1h", "0 0 ? * 6", "5/10 * * * *"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("x", "expected exactly 5 fields, found 1: [x]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("@never", "unrecognized descriptor: @never"),
        ] {
            assert_eq!(check(bad), Err(why.to_owned()), "{bad}");
        }
    }
}
