//! The budget of a call, and its metering.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// Reads the time; the interpreter has no clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The limits of one call.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Virtual machine instructions; library calls count in proportion to their time. This limit ends a script even if
    /// the clock does not advance. 20 million take 0.2 s at 100 million per second on one modest core.
    pub instructions: u64,
    /// Elapsed time of the script's main chunk and its function together.
    pub time: SignedDuration,
    /// Bytes of Lua's heap, beyond the machine's own.
    pub memory: usize,
    /// Bytes of the result: one long string may occur in it many times.
    pub output: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            instructions: 20_000_000,
            time: SignedDuration::from_millis(800),
            memory: 15 << 20,
            // The maximum size of an object in the store is 1.5 MiB.
            output: 3 << 20,
        }
    }
}

/// The interval of metering, in instructions; one reading costs as much as twenty instructions. The slowest single
/// instructions, converting a string of 500 KB to a number or comparing two such, take 2 to 5 ms, so a script stops at
/// most a quarter of a second late. Only arithmetic on strings of several megabytes of digits stops a second later.
pub const GRAIN: u32 = 50;

/// The usage of the current call.
pub struct Meter {
    clock: Clock,
    left: AtomicU64,
    deadline: Mutex<Timestamp>,
    end: Mutex<Option<End>>,
}

/// The exhausted limit of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    #[error("context deadline exceeded")]
    Time,
    #[error("not enough memory")]
    Memory,
}

impl Meter {
    pub fn new(clock: Clock) -> Self {
        Self { clock, left: AtomicU64::new(0), deadline: Mutex::new(Timestamp::MAX), end: Mutex::default() }
    }

    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub fn start(&self, budget: &Budget) {
        let deadline = self.now().checked_add(budget.time).unwrap_or(Timestamp::MAX);
        *self.deadline.lock() = deadline;
        self.left.store(budget.instructions, Ordering::Relaxed);
        *self.end.lock() = None;
    }

    /// The exhausted limit; a script cannot reset it.
    pub fn end(&self) -> Option<End> {
        *self.end.lock()
    }

    /// Records that the script exceeded its memory. This ends it like a time-out: a script that could catch the error
    /// would collect megabytes of garbage with every step at the limit.
    pub fn out_of_memory(&self) {
        self.end.lock().get_or_insert(End::Memory);
    }

    /// # Errors
    /// The budget is exhausted. Scripts cannot catch this: every function that catches errors calls [`Meter::check`].
    pub fn charge(&self, instructions: u64) -> mlua::Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(instructions), Ordering::Relaxed);
        if left < instructions || self.now() > *self.deadline.lock() {
            self.end.lock().get_or_insert(End::Time);
        }
        self.check()
    }

    pub fn check(&self) -> mlua::Result<()> {
        self.end().map_or(Ok(()), |end| Err(mlua::Error::runtime(end)))
    }
}
