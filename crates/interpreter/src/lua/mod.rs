//! Runs scripts in a sandbox: Lua 5.1 without files, processes, coroutines, metatables or state between calls. Every
//! call ends within its [`Budget`], and a script cannot catch that.

mod clock;
mod convert;
mod kube;
mod machine;
mod meter;
mod pattern;
mod strings;
mod suspects;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde_json::Value;

use machine::Machine;
pub use meter::{Budget, Clock};
use suspects::Suspects;

/// Machines to keep for later calls; further concurrent calls create temporary ones. Each takes about 100 KiB plus its
/// scripts.
const IDLE: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScriptError(pub(crate) String);

/// A script. Each machine compiles it once.
#[derive(Clone)]
pub struct Script {
    id: u64,
    source: Arc<str>,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "script {} of {} bytes", self.id, self.source.len())
    }
}

/// Compiles a script without running it.
///
/// # Errors
/// The compiler's error.
pub fn compiles(source: &str) -> Result<(), String> {
    let never: Clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    Engine::new(never, Budget::default()).compile(source).map(drop).map_err(|error| error.to_string())
}

/// Lua's name for the type of a value; all numbers are `number`.
fn type_name(value: &mlua::Value) -> &'static str {
    match value {
        mlua::Value::Integer(_) => "number",
        other => other.type_name(),
    }
}

/// The type of an empty table at the top of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Object,
    List,
}

/// A function call, and how to read its results.
pub struct Call<'a> {
    pub function: &'static str,
    pub arguments: &'a [&'a Value],
    pub shape: Shape,
    /// Documents that determine the type of empty tables in the result.
    pub references: &'a [&'a Value],
}

/// Runs scripts. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

/// Runs a closure where it does not block other tasks.
pub type Aside = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

struct Shared {
    clock: Clock,
    budget: Budget,
    aside: Option<Aside>,
    quotas: bool,
    suspects: Suspects,
    scripts: AtomicU64,
    idle: Mutex<Vec<Machine>>,
    uses: [AtomicU64; 4],
}

/// How often machines were taken and returned since the engine was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    pub from_pool: u64,
    pub new: u64,
    pub to_pool: u64,
    pub destroyed: u64,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({:?})", self.0.budget)
    }
}

impl Engine {
    pub fn new(clock: Clock, budget: Budget) -> Self {
        Self::with(clock, budget, None, false)
    }

    /// Runs scripts with `aside`: a script may block its thread for almost a second. With `quotas`, the requirements of
    /// pods have their priority class (gate ResourceQuotaEstimate).
    pub fn running_aside(clock: Clock, budget: Budget, aside: Aside, quotas: bool) -> Self {
        Self::with(clock, budget, Some(aside), quotas)
    }

    fn with(clock: Clock, budget: Budget, aside: Option<Aside>, quotas: bool) -> Self {
        let (scripts, uses) = (AtomicU64::new(0), Default::default());
        let (suspects, idle) = Default::default();
        Self(Arc::new(Shared { clock, budget, aside, quotas, suspects, scripts, idle, uses }))
    }

    /// A script whose syntax is checked when it is called.
    pub fn script(&self, source: &str) -> Script {
        Script { id: self.0.scripts.fetch_add(1, Ordering::Relaxed), source: source.into() }
    }

    /// # Errors
    /// The syntax errors of the script.
    pub fn compile(&self, source: &str) -> Result<Script, ScriptError> {
        let script = self.script(source);
        self.with_machine(|machine| machine.prepare(&script))?;
        Ok(script)
    }

    /// Runs the script's main chunk, then its function. Returns one value per returned value; nil is null.
    ///
    /// # Errors
    /// The script's error, or `context deadline exceeded` when it exhausts its budget, or did so recently.
    pub fn call(&self, script: &Script, call: &Call<'_>) -> Result<Vec<Value>, ScriptError> {
        let Shared { clock, suspects, aside, .. } = &*self.0;
        let from = clock();
        let waits = || ScriptError("context deadline exceeded recently; the script runs again later".to_owned());
        let run = suspects.enter(script.id, from).ok_or_else(waits)?;
        let (mut result, mut exhausted) = (Ok(Vec::new()), false);
        let mut call = || {
            result = self.with_machine(|machine| {
                let result = machine.call(script, call, &self.0.budget);
                exhausted = machine.is_exhausted();
                result
            });
        };
        match aside {
            Some(aside) => aside(&mut call),
            None => call(),
        }
        suspects.leave(script.id, run, exhausted, from, clock());
        result
    }

    fn with_machine<T>(&self, run: impl FnOnce(&mut Machine) -> Result<T, ScriptError>) -> Result<T, ScriptError> {
        let idle = self.0.idle.lock().pop();
        let count = |which: usize| self.0.uses[which].fetch_add(1, Ordering::Relaxed);
        count(usize::from(idle.is_none()));
        let mut machine = match idle {
            Some(machine) => machine,
            None => Machine::new(&self.0.clock, self.0.quotas)?,
        };
        let result = run(&mut machine);
        // A machine that was stopped may be full, or in an inconsistent state.
        let kept = machine.reusable() && {
            let mut idle = self.0.idle.lock();
            let has_capacity = idle.len() < IDLE;
            if has_capacity {
                idle.push(machine);
            }
            has_capacity
        };
        count(if kept { 2 } else { 3 });
        result
    }

    /// The usage of the pool of machines.
    pub fn uses(&self) -> Uses {
        let [from_pool, new, to_pool, destroyed] =
            [0, 1, 2, 3].map(|it: usize| self.0.uses[it].load(Ordering::Relaxed));
        Uses { from_pool, new, to_pool, destroyed }
    }
}
