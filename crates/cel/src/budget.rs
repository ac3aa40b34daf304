//! The cost budget of an evaluation, and its errors.

/// The cost limit of one expression in kube-apiserver; a unit is about one elementary step.
pub const EXPRESSION_LIMIT: u64 = 1_000_000;

/// The largest number of bytes that an evaluation may allocate, including freed ones: about 20 times the largest
/// request.
const MAX_ALLOCATED: u64 = 64 << 20;

/// The largest number of elementary steps, of some ten nanoseconds each, that upstream's cost does not count: a
/// fraction of a second. An ordinary expression within the cost limit takes a tenth of this.
const MAX_WORK: u64 = 20_000_000;

/// Why an expression has no value. The messages are cel-go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The cost limit is exceeded.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostExceeded,
    /// No overload of the function accepts the arguments.
    #[error("no such overload")]
    NoSuchOverload,
    /// The map or object has no such key.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// Any other error.
    #[error("{0}")]
    Failed(String),
}

impl EvalError {
    /// An error with a custom message.
    pub fn failed(what: impl Into<String>) -> Self {
        Self::Failed(what.into())
    }
}

/// Counts the cost of one evaluation and ends it at the limit.
#[derive(Debug)]
pub struct Meter {
    cost: u64,
    limit: u64,
    /// Traversed characters and elements that do not yet make up a whole unit of cost.
    tenths: u64,
    allocated: u64,
    work: u64,
    /// Costs count as work.
    is_free: bool,
}

impl Meter {
    /// A meter with a cost limit, such as [`EXPRESSION_LIMIT`].
    pub fn new(limit: u64) -> Self {
        Self { cost: 0, limit, tenths: 0, allocated: 0, work: 0, is_free: false }
    }

    /// The cost so far.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The part of a shared budget that the evaluation consumes: its cost, or its work if that is the greater share of
    /// its own limit.
    pub fn spent(&self) -> u64 {
        self.cost.max(self.work / (MAX_WORK / EXPRESSION_LIMIT))
    }

    /// Charges a cost.
    ///
    /// # Errors
    /// When the limit is exceeded.
    pub fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        if self.is_free {
            return self.work(usize::try_from(cost).unwrap_or(usize::MAX));
        }
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::CostExceeded) } else { Ok(()) }
    }

    /// Sets whether costs count as work instead; returns what applied before.
    pub(crate) fn count_work_only(&mut self, is_free: bool) -> bool {
        std::mem::replace(&mut self.is_free, is_free)
    }

    /// Takes back a cost that was charged.
    pub(crate) fn credit(&mut self, cost: u64) {
        if !self.is_free {
            self.cost = self.cost.saturating_sub(cost);
        }
    }

    /// Charges a tenth of a unit for each traversed character or element.
    ///
    /// # Errors
    /// When the limit is exceeded.
    pub fn traverse(&mut self, length: usize) -> Result<(), EvalError> {
        self.tenths = self.tenths.saturating_add(length as u64);
        if self.tenths < 10 {
            return Ok(());
        }
        let whole = self.tenths / 10;
        self.tenths %= 10;
        self.charge(whole)
    }

    /// Charges a call that traverses `length` characters once: at least one unit.
    ///
    /// # Errors
    /// When the limit is exceeded.
    pub fn text(&mut self, length: usize) -> Result<(), EvalError> {
        self.charge((length as u64).div_ceil(10).max(1))
    }

    /// Counts steps that the cost does not cover, before they are executed.
    ///
    /// # Errors
    /// When the evaluation exceeds its limit of steps.
    pub fn work(&mut self, steps: usize) -> Result<(), EvalError> {
        self.work = self.work.saturating_add(steps as u64);
        if self.work > MAX_WORK { Err(EvalError::CostExceeded) } else { Ok(()) }
    }

    /// Counts a text that is read, copied or quoted at less than its length.
    ///
    /// # Errors
    /// As [`Self::work`].
    pub fn scan(&mut self, text: &str) -> Result<(), EvalError> {
        self.work(text.len() / 4)
    }

    /// Counts memory, before it is allocated.
    ///
    /// # Errors
    /// When the evaluation exceeds its limit of memory.
    pub fn allocate(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.allocated = self.allocated.saturating_add(bytes as u64);
        if self.allocated > MAX_ALLOCATED { Err(EvalError::CostExceeded) } else { Ok(()) }
    }
}
