//! What an evaluation may cost, and why it can fail.

/// A cost for one expression in kube-apiserver; about as many elementary steps.
pub const EXPRESSION_LIMIT: u64 = 1_000_000;

/// Bytes an evaluation may allocate in all, freed ones included: about 20 times the largest request.
const MAX_ALLOCATED: u64 = 64 << 20;

/// Elementary steps, of some ten nanoseconds each, that upstream's cost does not count and that an evaluation may take
/// all the same: a fraction of a second. What stays below the cost limit without trickery takes a tenth of this.
const MAX_WORK: u64 = 20_000_000;

/// Why an expression has no value. The texts are cel-go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    #[error("operation cancelled: actual cost limit exceeded")]
    CostExceeded,
    #[error("no such overload")]
    NoSuchOverload,
    #[error("no such key: {0}")]
    NoSuchKey(String),
    #[error("{0}")]
    Failed(String),
}

impl EvalError {
    pub fn failed(what: impl Into<String>) -> Self {
        Self::Failed(what.into())
    }
}

/// Counts the cost of one evaluation and ends it at the limit.
#[derive(Debug)]
pub struct Meter {
    cost: u64,
    limit: u64,
    /// Traversed characters and elements that do not make up a whole unit of cost yet.
    tenths: u64,
    allocated: u64,
    work: u64,
}

impl Meter {
    pub fn new(limit: u64) -> Self {
        Self { cost: 0, limit, tenths: 0, allocated: 0, work: 0 }
    }

    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// What the evaluation takes off the budget of several: its cost, or its work where that is the greater part of its
    /// own limit.
    pub fn spent(&self) -> u64 {
        self.cost.max(self.work / (MAX_WORK / EXPRESSION_LIMIT))
    }

    /// # Errors
    /// When the limit is exceeded.
    pub fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::CostExceeded) } else { Ok(()) }
    }

    /// Charges a tenth for each character or element passed over.
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

    /// Charges a call that passes over `length` characters once: at least one.
    ///
    /// # Errors
    /// When the limit is exceeded.
    pub fn text(&mut self, length: usize) -> Result<(), EvalError> {
        self.charge((length as u64).div_ceil(10).max(1))
    }

    /// Accounts for steps whose number the cost does not follow, before they are taken.
    ///
    /// # Errors
    /// When the evaluation has taken more than it may.
    pub fn work(&mut self, steps: usize) -> Result<(), EvalError> {
        self.work = self.work.saturating_add(steps as u64);
        if self.work > MAX_WORK { Err(EvalError::CostExceeded) } else { Ok(()) }
    }

    /// Accounts for a text that is read, copied or quoted for less than its length costs.
    ///
    /// # Errors
    /// As [`Self::work`].
    pub fn scan(&mut self, text: &str) -> Result<(), EvalError> {
        self.work(text.len() / 4)
    }

    /// Accounts for memory, before it is taken.
    ///
    /// # Errors
    /// When the evaluation has taken more than it may.
    pub fn allocate(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.allocated = self.allocated.saturating_add(bytes as u64);
        if self.allocated > MAX_ALLOCATED { Err(EvalError::CostExceeded) } else { Ok(()) }
    }
}
