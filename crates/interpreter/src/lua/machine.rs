//! A Lua state with its compiled scripts.

use std::collections::HashMap;
use std::sync::Arc;

use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value as LuaValue, VmState};
use serde_json::{Map, Value};

use super::convert::{Reader, settle, to_lua};
use super::meter::{Budget, Clock, GRAIN, Meter};
use super::{Call, Script, ScriptError, Shape, clock, kube, strings, type_name};

/// Compiled scripts to keep: eight operations of thirty kinds.
const MAX_SCRIPTS: usize = 256;
/// The maximum size of an error message in bytes: it becomes part of conditions and events.
const MAX_ERROR: usize = 4096;
/// The heap size after a call above which a machine collects garbage.
const COLLECT_ABOVE: usize = 4 << 20;

pub struct Machine {
    lua: Lua,
    meter: Arc<Meter>,
    /// Creates a new set of globals.
    fresh: Function,
    /// By the scripts' numbers.
    compiled: HashMap<u64, Function>,
    stopped: bool,
}

impl From<mlua::Error> for ScriptError {
    fn from(error: mlua::Error) -> Self {
        let mut text = message(&error);
        if text.len() > MAX_ERROR {
            text.truncate(text.floor_char_boundary(MAX_ERROR));
            text.push_str("...");
        }
        Self(text)
    }
}

/// Values without a string representation.
const KINDS: [&str; 4] = ["function", "table", "thread", "userdata"];

/// The message of an error without the machine's stack traces.
fn message(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } => message(cause),
        mlua::Error::RuntimeError(text) | mlua::Error::SyntaxError { message: text, .. } => {
            let text = text.split("\nstack traceback:").next().unwrap_or_default();
            // A position in our own prelude does not help the author.
            let text =
                text.strip_prefix("prelude:").and_then(|text| text.split_once(": ")).map_or(text, |(_, text)| text);
            // An error that is not a string prints as its type and address, which does not help.
            let kind = text.trim_start_matches('<').split_once(" 0x").map(|(kind, _)| kind.trim_end_matches(':'));
            match kind.filter(|kind| KINDS.contains(kind)) {
                Some(kind) => format!("the error is a {kind}, not a string"),
                None => text.to_owned(),
            }
        }
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        other => other.to_string(),
    }
}

impl Machine {
    pub fn new(clock: &Clock, quotas: bool) -> Result<Self, ScriptError> {
        let meter = Arc::new(Meter::new(clock.clone()));
        let lua = Lua::new_with(StdLib::TABLE | StdLib::MATH, LuaOptions::new())?;
        let native = natives(&lua, &meter, quotas)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude").into_function()?;
        let (fresh, methods): (Function, Table) = prelude.call(native)?;
        let of_strings = lua.create_table()?;
        of_strings.raw_set("__index", methods)?;
        lua.set_type_metatable::<LuaString>(Some(of_strings));
        let counted = meter.clone();
        lua.set_hook(HookTriggers::new().every_nth_instruction(GRAIN), move |_, _| {
            counted.charge(GRAIN.into())?;
            Ok(VmState::Continue)
        })?;
        Ok(Self { lua, meter, fresh, compiled: HashMap::new(), stopped: false })
    }

    /// Whether the last call exhausted its budget.
    pub fn is_exhausted(&self) -> bool {
        self.meter.end().is_some()
    }

    pub fn reusable(&self) -> bool {
        !self.stopped && !self.is_exhausted() && self.compiled.len() < MAX_SCRIPTS
    }

    pub fn prepare(&mut self, script: &Script) -> Result<Function, ScriptError> {
        if let Some(function) = self.compiled.get(&script.id) {
            return Ok(function.clone());
        }
        let function = self.lua.load(&*script.source).set_name("=script").into_function()?;
        self.compiled.insert(script.id, function.clone());
        Ok(function)
    }

    pub fn call(&mut self, script: &Script, call: &Call<'_>, budget: &Budget) -> Result<Vec<Value>, ScriptError> {
        let script = self.prepare(script)?;
        self.lua.set_memory_limit(self.lua.used_memory() + budget.memory)?;
        self.meter.start(budget);
        let result = self.run(&script, call, budget);
        self.lua.set_memory_limit(0)?;
        if result.is_err() && self.lua.used_memory() > COLLECT_ABOVE {
            self.stopped = true;
        } else if self.lua.used_memory() > COLLECT_ABOVE {
            self.lua.gc_collect()?;
        }
        self.meter.end().map_or(result, |end| Err(ScriptError(end.to_string())))
    }

    fn run(&self, script: &Function, call: &Call<'_>, budget: &Budget) -> Result<Vec<Value>, ScriptError> {
        let env: Table = self.fresh.call(())?;
        script.set_environment(env.clone())?;
        script.call::<()>(())?;
        let function = match env.raw_get(call.function)? {
            LuaValue::Function(function) => function,
            LuaValue::Nil => return Err(ScriptError(format!("not found function {}", call.function))),
            other => {
                return Err(ScriptError(format!("{} is not a function: {}", call.function, type_name(&other))));
            }
        };
        let arguments: mlua::Result<MultiValue> =
            call.arguments.iter().map(|argument| to_lua(&self.lua, argument, &self.meter)).collect();
        let returned: MultiValue = function.call(arguments?)?;
        let mut reader = Reader::new(&self.meter, budget.output);
        let mut values = Vec::with_capacity(returned.len());
        for value in &returned {
            let mut value = reader.read(value, 0)?;
            let empty = value.as_array().is_some_and(Vec::is_empty);
            if empty && call.shape == Shape::Object {
                value = Value::Object(Map::new());
            }
            settle(&mut value, call.references);
            values.push(value);
        }
        Ok(values)
    }
}

/// Lua's own out-of-memory error is a string, that of a library function is an error object.
fn is_of_memory(error: &LuaValue) -> bool {
    fn cause(error: &mlua::Error) -> bool {
        match error {
            mlua::Error::MemoryError(_) => true,
            mlua::Error::CallbackError { cause: inner, .. } => cause(inner),
            _ => false,
        }
    }
    match error {
        LuaValue::String(text) => *text == "not enough memory",
        LuaValue::Error(error) => cause(error),
        _ => false,
    }
}

fn natives(lua: &Lua, meter: &Arc<Meter>, quotas: bool) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.raw_set("string", strings::library(lua, meter)?)?;
    native.raw_set("gmatch", strings::gmatch_step(lua, meter)?)?;
    native.raw_set("os", clock::library(lua, meter)?)?;
    native.raw_set("kube", kube::library(lua, meter, quotas)?)?;
    let m = meter.clone();
    native.raw_set("charge", lua.create_function(move |_, units: f64| m.charge(units as u64))?)?;
    let m = meter.clone();
    native.raw_set("check", lua.create_function(move |_, ()| m.check())?)?;
    let m = meter.clone();
    native.raw_set(
        "caught",
        lua.create_function(move |lua, error: LuaValue| {
            if is_of_memory(&error) {
                m.out_of_memory();
            }
            // Errors of our own functions are strings to scripts, like Lua's.
            match &error {
                LuaValue::Error(raised) => lua.create_string(message(raised)).map(LuaValue::String),
                _ => Ok(error),
            }
        })?,
    )?;
    native.raw_set("number", lua.create_function(|_, value: f64| Ok(strings::number_text(value)))?)?;
    Ok(native)
}
