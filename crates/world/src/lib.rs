//! The clock and the source of randomness. `Instant::now`, `SystemTime::now` and thread-local randomness appear in this
//! crate only; all other code receives a [`World`], which tests make virtual.

mod level;
mod steps;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub use level::Level;
pub use steps::Moment;
use steps::{Clocks, Steps};

/// A clock and a source of randomness; clones share them. Code sleeps with `tokio::time`: a paused runtime and a
/// virtual world advance together.
#[derive(Clone, Debug)]
pub struct World(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    /// Where the monotonic times of `steps` begin.
    origin: Origin,
    steps: Steps,
    rng: Mutex<StdRng>,
}

#[derive(Clone, Copy, Debug)]
enum Origin {
    System(std::time::Instant),
    Virtual(tokio::time::Instant),
}

#[derive(Debug)]
enum Clock {
    System,
    /// The machine's clock, wrong by so many seconds.
    Skewed(Arc<AtomicI64>),
    /// Wall time is `start` plus the time that tokio's clock has advanced since the origin, wrong by so many seconds.
    Virtual(jiff::Timestamp, AtomicI64),
}

/// Between two observations of the clock.
const OBSERVED: Duration = Duration::from_secs(5);

impl Origin {
    fn elapsed(self) -> Duration {
        match self {
            Self::System(origin) => origin.elapsed(),
            Self::Virtual(origin) => origin.elapsed(),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "this crate is where time and randomness enter")]
fn wall(clock: &Clock, origin: Origin) -> jiff::Timestamp {
    match clock {
        Clock::System => jiff::Timestamp::now(),
        Clock::Skewed(seconds) => jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds.load(Relaxed)),
        Clock::Virtual(start, skew) => *start + origin.elapsed() + jiff::SignedDuration::from_secs(skew.load(Relaxed)),
    }
}

fn clocks(clock: &Clock, origin: Origin) -> Clocks {
    loop {
        let (monotonic, wall) = (origin.elapsed(), wall(clock, origin));
        // A process that stands still between the two readings would see a step.
        if origin.elapsed().saturating_sub(monotonic) < Duration::from_secs(1) {
            return Clocks { wall, monotonic };
        }
    }
}

/// The alphabet of generated names: no vowels, and no digits that resemble letters (upstream's
/// `k8s.io/apimachinery/pkg/util/rand`).
const NAME_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

#[allow(clippy::disallowed_methods, reason = "this crate is where time and randomness enter")]
impl World {
    /// The machine's clock, and randomness seeded by the operating system.
    pub fn system() -> Self {
        Self::with(Clock::System, Origin::System(std::time::Instant::now()), rand::make_rng())
    }

    /// For tests: the machine's clock, wrong by `seconds`, which a test changes at any moment.
    pub fn skewed_by(seconds: Arc<AtomicI64>) -> Self {
        Self::with(Clock::Skewed(seconds), Origin::System(std::time::Instant::now()), rand::make_rng())
    }

    /// For tests: time starts at `start` and advances with tokio's (pausable) clock; randomness is seeded with `seed`.
    /// Must be called inside a tokio runtime.
    pub fn simulated(start: jiff::Timestamp, seed: u64) -> Self {
        let clock = Clock::Virtual(start, AtomicI64::new(0));
        Self::with(clock, Origin::Virtual(tokio::time::Instant::now()), StdRng::seed_from_u64(seed))
    }

    fn with(clock: Clock, origin: Origin, rng: StdRng) -> Self {
        let first = clocks(&clock, origin);
        Self(Arc::new(Inner { clock, origin, steps: Steps::new(first), rng: Mutex::new(rng) }))
    }

    /// For tests: sets a simulated clock forward by so many seconds, or back. Other clocks are not changed.
    pub fn step(&self, seconds: i64) {
        if let Clock::Virtual(_, skew) = &self.0.clock {
            skew.fetch_add(seconds, Relaxed);
        }
    }

    /// Wall-clock time.
    pub fn now(&self) -> jiff::Timestamp {
        wall(&self.0.clock, self.0.origin)
    }

    /// The time, and the time that has passed since others, for decisions that a step of the clock must not cause.
    pub fn moment(&self) -> Moment {
        self.0.steps.observe(clocks(&self.0.clock, self.0.origin))
    }

    /// How often the clock has been set, as far as it was observed.
    pub fn steps(&self) -> u64 {
        self.moment();
        self.0.steps.count()
    }

    /// Ends once the clock has been set, a few seconds later.
    pub async fn stepped(&self) {
        let before = self.steps();
        while self.steps() == before {
            tokio::time::sleep(OBSERVED).await;
        }
    }

    /// Observes steps of the clock when they happen: a stamp that was made between a step and its observation is
    /// attributed to the wrong side of it. Ends with `stop`.
    pub async fn observe_steps(self, stop: impl Future<Output = ()>) {
        let observing = async {
            loop {
                self.moment();
                tokio::time::sleep(OBSERVED).await;
            }
        };
        tokio::select! {
            biased;
            () = stop => {}
            () = observing => {}
        }
    }

    pub fn random_u64(&self) -> u64 {
        self.0.rng.lock().random()
    }

    /// Uniform in `0.0..1.0`; for jitter.
    pub fn random_fraction(&self) -> f64 {
        self.0.rng.lock().random()
    }

    /// `len` characters of the alphabet of generated names.
    pub fn random_suffix(&self, len: usize) -> String {
        let mut rng = self.0.rng.lock();
        (0..len).map(|_| char::from(NAME_ALPHABET[rng.random_range(0..NAME_ALPHABET.len())])).collect()
    }

    /// A random (version 4) UUID in its usual text form.
    pub fn uuid(&self) -> String {
        let bits: u128 = self.0.rng.lock().random();
        let bits = (bits & !(0xf << 76) | (4 << 76)) & !(0b11 << 62) | (0b10 << 62);
        let mut text = String::with_capacity(36);
        for (place, byte) in bits.to_be_bytes().into_iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.extend([byte >> 4, byte & 0xf].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_time_follows_tokio_and_randomness_follows_the_seed() {
        let start = jiff::Timestamp::UNIX_EPOCH;
        let (a, b) = (World::simulated(start, 7), World::simulated(start, 7));
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(a.now().as_second(), 90);
        let text = a.uuid();
        assert_eq!(text, b.uuid());
        let parts: Vec<usize> = text.split('-').map(str::len).collect();
        assert_eq!((parts, text.as_bytes()[14]), (vec![8, 4, 4, 4, 12], b'4'));
        b.moment();
        b.step(3600);
        let moment = b.moment();
        assert_eq!((moment.now().as_second(), moment.since(start).as_secs(), b.steps(), a.steps()), (3690, 90, 1, 0));
        assert!(matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{text}");
    }
}
