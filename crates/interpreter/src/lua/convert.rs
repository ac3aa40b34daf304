//! Converts documents to Lua values and back. Lua has one type for lists and objects, so the type of an empty table is
//! taken from the script's input documents.

use std::collections::{BTreeSet, HashSet};

use mlua::{Lua, Value as LuaValue};
use serde_json::{Map, Number, Value};

use super::meter::Meter;

/// The maximum nesting of a result; documents have at most 128 levels.
const MAX_DEPTH: usize = 120;

fn error(text: impl Into<String>) -> mlua::Error {
    mlua::Error::runtime(text.into())
}

/// Null fields are dropped: a table cannot represent them.
pub fn to_lua(lua: &Lua, value: &Value, meter: &Meter) -> mlua::Result<LuaValue> {
    meter.charge(8)?;
    Ok(match value {
        Value::Null => LuaValue::Nil,
        Value::Bool(value) => LuaValue::Boolean(*value),
        Value::Number(number) => LuaValue::Number(number.as_f64().unwrap_or_default()),
        Value::String(text) => LuaValue::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items.iter().filter(|item| !item.is_null()) {
                table.raw_push(to_lua(lua, item, meter)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, field) in fields.iter().filter(|(_, field)| !field.is_null()) {
                table.raw_set(name.as_str(), to_lua(lua, field, meter)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

/// Reads results; an empty table becomes an empty list, see [`settle`].
pub struct Reader<'a> {
    pub meter: &'a Meter,
    /// The remaining bytes of the result.
    pub left: usize,
    seen: HashSet<usize>,
}

impl<'a> Reader<'a> {
    pub fn new(meter: &'a Meter, bytes: usize) -> Self {
        Self { meter, left: bytes, seen: HashSet::new() }
    }

    fn take(&mut self, bytes: usize) -> mlua::Result<()> {
        self.meter.charge(8)?;
        self.left = self.left.checked_sub(bytes).ok_or_else(|| error("the result of the script is too large"))?;
        Ok(())
    }

    pub fn read(&mut self, value: &LuaValue, depth: usize) -> mlua::Result<Value> {
        self.take(8)?;
        Ok(match value {
            LuaValue::Nil => Value::Null,
            LuaValue::Boolean(value) => Value::Bool(*value),
            LuaValue::Integer(value) => Value::from(*value),
            LuaValue::Number(value) => number(*value)?,
            LuaValue::String(text) => {
                let text = text.to_str()?;
                self.take(text.len())?;
                Value::String(text.to_owned())
            }
            LuaValue::Table(table) => self.table(table, depth)?,
            other => return Err(error(format!("cannot encode {} to JSON", other.type_name()))),
        })
    }

    fn table(&mut self, table: &mlua::Table, depth: usize) -> mlua::Result<Value> {
        if !self.seen.insert(table.to_pointer() as usize) {
            return Err(error("cannot encode recursively nested tables to JSON"));
        }
        if depth >= MAX_DEPTH {
            return Err(error("cannot encode tables nested so deeply to JSON"));
        }
        let mixed = || error("cannot encode mixed or invalid key types");
        let mut fields = Map::new();
        let mut items: Vec<(usize, Value)> = Vec::new();
        for pair in table.pairs::<LuaValue, LuaValue>() {
            let (key, value) = pair?;
            match key {
                LuaValue::String(name) if items.is_empty() => {
                    let name = name.to_str()?.to_owned();
                    self.take(name.len())?;
                    fields.insert(name, self.read(&value, depth + 1)?);
                }
                LuaValue::Integer(index) if fields.is_empty() => {
                    let index = usize::try_from(index).map_err(|_| mixed())?;
                    items.push((index, self.read(&value, depth + 1)?));
                }
                _ => return Err(mixed()),
            }
        }
        if !fields.is_empty() {
            return Ok(Value::Object(fields));
        }
        items.sort_by_key(|(index, _)| *index);
        if items.iter().enumerate().any(|(at, (index, _))| at + 1 != *index) {
            return Err(error("cannot encode sparse array"));
        }
        Ok(Value::Array(items.into_iter().map(|(_, item)| item).collect()))
    }
}

fn number(value: f64) -> mlua::Result<Value> {
    // Every whole number below 2^63 is written as an integer.
    if value.fract() == 0.0 && value.abs() < 9_223_372_036_854_775_808.0 {
        return Ok(Value::from(value as i64));
    }
    Number::from_f64(value).map(Value::Number).ok_or_else(|| error(format!("cannot encode {value} to JSON")))
}

/// Sets the type of each empty table within `result`: an object if one of `references` has an empty object at the same
/// path (list indices do not count), a list if one has an empty list; otherwise it is removed.
pub fn settle(result: &mut Value, references: &[&Value]) {
    let mut known = Empty::default();
    for reference in references {
        known.collect(reference, &mut Vec::new());
    }
    known.settle(result, &mut Vec::new());
}

type Path = Vec<String>;

#[derive(Default)]
struct Empty {
    objects: BTreeSet<Path>,
    lists: BTreeSet<Path>,
}

impl Empty {
    fn collect(&mut self, value: &Value, path: &mut Path) {
        match value {
            Value::Object(fields) if fields.is_empty() => {
                self.objects.insert(path.clone());
            }
            Value::Array(items) if items.is_empty() => {
                self.lists.insert(path.clone());
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    path.push(name.clone());
                    self.collect(field, path);
                    path.pop();
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item, path)),
            _ => {}
        }
    }

    fn settle(&self, value: &mut Value, path: &mut Path) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, field| {
                    path.push(name.clone());
                    let keep = self.keep(field, path);
                    path.pop();
                    keep
                });
            }
            Value::Array(items) => {
                for item in items {
                    // List items stay, because removing one would move the others.
                    if !self.keep(item, path) {
                        *item = Value::Object(Map::new());
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns false when an empty table has no counterpart.
    fn keep(&self, value: &mut Value, path: &mut Path) -> bool {
        let empty = value.as_array().is_some_and(Vec::is_empty);
        if !empty {
            self.settle(value, path);
            return true;
        }
        if self.objects.contains(path) {
            *value = Value::Object(Map::new());
            return true;
        }
        self.lists.contains(path)
    }
}
