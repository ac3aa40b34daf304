//! Figures and their report.

use std::time::Duration;

/// Latencies of one phase.
#[derive(Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    pub fn new(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        Self(samples)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest sample that at least `percent` of all do not exceed (nearest rank).
    pub fn percentile(&self, percent: usize) -> Option<Duration> {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied()
    }

    pub fn report(&self) -> String {
        let seconds =
            |percent| self.percentile(percent).map_or_else(|| "-".into(), |d| format!("{:.4}", d.as_secs_f64()));
        format!("p50 {} p90 {} p99 {} max {} s (n={})", seconds(50), seconds(90), seconds(99), seconds(100), self.len())
    }
}

/// A name and a value a line.
pub fn line(name: &str, value: impl std::fmt::Display) {
    println!("{name:<58} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let latencies = Latencies::new((1..=200).rev().map(Duration::from_millis).collect());
        let millis = |percent| latencies.percentile(percent).map(|d| d.as_millis());
        assert_eq!([millis(50), millis(99), millis(100)], [Some(100), Some(198), Some(200)]);
        assert_eq!(Latencies::default().percentile(50), None);
    }
}
