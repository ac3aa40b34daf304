//! What a call may use, and counting it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// Reads the time; the interpreter has no clock of its own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Bounds of one call.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Virtual machine instructions; library calls cost as many as they take the time of. It ends a script even where
    /// the clock stands still. 20 million take 0.2 s at the 100 million a second of one modest core.
    pub instructions: u64,
    /// By the clock, running the script's text and its function together.
    pub time: SignedDuration,
    /// Of Lua's heap, in bytes, over what the machine needs for itself.
    pub memory: usize,
    /// Of the result, in bytes: one long string may appear in it many times.
    pub output: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            instructions: 20_000_000,
            time: SignedDuration::from_millis(800),
            memory: 15 << 20,
            // An object in the store has at most 1.5 MiB.
            output: 3 << 20,
        }
    }
}

/// How often the meter is read, in instructions; reading it costs as much as twenty of them. The slowest single
/// instructions, turning a text of 500 KB into a number or comparing two such, take 2 to 5 ms, so a stop is at most a
/// quarter of a second late. Only arithmetic on texts of several megabytes of digits ends a second later.
pub const GRAIN: u32 = 50;

/// The use of the call that runs.
pub struct Meter {
    clock: Clock,
    left: AtomicU64,
    deadline: Mutex<Timestamp>,
    end: Mutex<Option<End>>,
}

/// What a call used up.
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

    /// What the call used up; nothing the script does makes it none again.
    pub fn end(&self) -> Option<End> {
        *self.end.lock()
    }

    /// The script ran into its bound of memory. That ends it as time does: a script that could catch it would collect
    /// megabytes of garbage with every step that it takes at the bound.
    pub fn out_of_memory(&self) {
        self.end.lock().get_or_insert(End::Memory);
    }

    /// # Errors
    /// The budget is used up. Scripts cannot catch it: whoever catches errors asks [`Meter::check`].
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
