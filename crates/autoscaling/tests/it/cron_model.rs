//! Ten years in twenty time zones: every due time, against a model that compares each quarter of an hour, and each
//! minute around changes of the clock, with the fields of the expression.

use autoscaling::cron::{Schedule, zone};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// With changes of an hour, of half an hour, at midnight, in Ramadan, by decree, and without changes.
const ZONES: [&str; 20] = [
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Dublin",
    "Europe/Chisinau",
    "America/New_York",
    "America/Los_Angeles",
    "America/St_Johns",
    "America/Sao_Paulo",
    "America/Santiago",
    "America/Havana",
    "America/Nuuk",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Asia/Beirut",
    "Asia/Gaza",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
];

/// An expression as sets of values, one entry for each.
struct Model {
    text: String,
    minutes: Vec<i8>,
    hours: Vec<i8>,
    days: Option<Vec<i8>>,
    months: Vec<i8>,
    weekdays: Option<Vec<i8>>,
}

impl Model {
    /// Minutes are quarters of an hour if `quarters`.
    fn random(rng: &mut StdRng, quarters: bool) -> Self {
        let mut choose = |low: i8, high: i8, most: usize| -> Vec<i8> {
            let count = rng.random_range(1..=most);
            let mut values: Vec<i8> = (0..count).map(|_| rng.random_range(low..=high)).collect();
            values.sort_unstable();
            values.dedup();
            values
        };
        let minutes: Vec<i8> = match quarters {
            true => choose(0, 3, 2).iter().map(|quarter| quarter * 15).collect(),
            false => choose(0, 59, 3),
        };
        let hours = if choose(0, 3, 1) == [0] { (0..24).collect() } else { choose(0, 23, 3) };
        let days = (choose(0, 2, 1) == [0]).then(|| choose(1, 31, 3));
        let weekdays = (choose(0, 2, 1) == [0]).then(|| choose(0, 6, 2));
        let months = if choose(0, 3, 1) == [0] { choose(1, 12, 3) } else { (1..=12).collect() };
        let list = |values: &[i8]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let hours_text = if hours.len() == 24 { "*".to_owned() } else { list(&hours) };
        let months_text = if months.len() == 12 { "*".to_owned() } else { list(&months) };
        let of = |values: &Option<Vec<i8>>| values.as_ref().map_or("*".to_owned(), |values| list(values));
        let text = format!("{} {hours_text} {} {months_text} {}", list(&minutes), of(&days), of(&weekdays));
        Self { text, minutes, hours, days, months, weekdays }
    }

    fn is_due(&self, local: jiff::civil::DateTime) -> bool {
        let day = |days: &Vec<i8>| days.contains(&local.day());
        let weekday = |days: &Vec<i8>| days.contains(&local.weekday().to_sunday_zero_offset());
        let is_day = match (&self.days, &self.weekdays) {
            (Some(days), Some(weekdays)) => day(days) || weekday(weekdays),
            (days, weekdays) => days.as_ref().is_none_or(day) && weekdays.as_ref().is_none_or(weekday),
        };
        self.minutes.contains(&local.minute())
            && self.hours.contains(&local.hour())
            && self.months.contains(&local.month())
            && is_day
    }
}

fn start() -> Timestamp {
    "2020-01-01T00:00:00Z".parse().expect("a time")
}

fn models(seed: u64, count: usize, quarters: bool) -> Vec<Model> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..count).map(|_| Model::random(&mut rng, quarters)).collect()
}

/// Every due time of the steps between two instants is the one that the schedule gives.
fn compare(name: &str, zone: &TimeZone, models: &[Model], from: Timestamp, end: Timestamp, step: i64) {
    let schedules: Vec<Schedule> =
        models.iter().map(|model| Schedule::parse(&model.text, zone.clone()).expect("a schedule")).collect();
    let before = Timestamp::from_second(from.as_second() - 1).expect("a time");
    let mut next: Vec<Option<Timestamp>> = schedules.iter().map(|schedule| schedule.next(before)).collect();
    // The first and the last due time of each.
    let mut passed: Vec<Option<(Timestamp, Timestamp)>> = vec![None; models.len()];
    let mut second = from.as_second();
    while second < end.as_second() {
        let now = Timestamp::from_second(second).expect("a time");
        let local = zone.to_datetime(now);
        for (index, model) in models.iter().enumerate() {
            let expected = next[index] == Some(now);
            assert_eq!(
                model.is_due(local),
                expected,
                "{} in {name} at {now} ({local}), next {:?}",
                model.text,
                next[index]
            );
            if expected {
                next[index] = schedules[index].next(now);
                passed[index] = Some((passed[index].map_or(now, |(first, _)| first), now));
            }
            if second / step % 997 == 0
                && let Some((first, last)) = passed[index]
            {
                assert_eq!(schedules[index].latest(first, now), last, "{} in {name} at {now}", model.text);
            }
        }
        second += step;
    }
}

#[test]
fn ten_years_in_twenty_zones() {
    let end = "2030-01-01T00:00:00Z".parse().expect("a time");
    for (index, name) in ZONES.iter().enumerate() {
        let zone = zone(name, &TimeZone::UTC).expect("a zone");
        compare(name, &zone, &models(index as u64, 6, true), start(), end, 900);
    }
}

#[test]
fn every_minute_around_changes_of_the_clock() {
    let end: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a time");
    let mut changes = 0;
    for (index, name) in ZONES.iter().enumerate() {
        let zone = zone(name, &TimeZone::UTC).expect("a zone");
        for change in zone.following(start()).take_while(|it| it.timestamp() < end) {
            let second = change.timestamp().as_second();
            let at = |second| Timestamp::from_second(second).expect("a time");
            let models = models(second.unsigned_abs() ^ index as u64, 6, false);
            compare(name, &zone, &models, at(second - 86_400), at(second + 86_400), 60);
            changes += 1;
        }
    }
    assert!(changes > 200, "{changes}");
}
