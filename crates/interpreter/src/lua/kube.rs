//! `require("kube")`: functions for scripts about workloads.

use std::sync::Arc;

use apimachinery::quantity::{ParseQuantityError, Quantity};
use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::convert::{Reader, to_lua};
use super::meter::Meter;
use super::type_name;
use crate::native::dependencies::pod_dependencies;
use crate::native::requirements::replica_requirements;

fn error(text: impl Into<String>) -> mlua::Error {
    mlua::Error::runtime(text.into())
}

fn quantity(text: &LuaString) -> mlua::Result<Quantity> {
    let text = text.to_str()?;
    text.parse().map_err(|problem: ParseQuantityError| error(format!("{:?}: {problem}", &*text)))
}

/// A document from a script; empty tables are dropped.
fn document(value: &Value, meter: &Meter) -> mlua::Result<serde_json::Value> {
    let mut document = Reader::new(meter, 3 << 20).read(value, 0)?;
    super::convert::settle(&mut document, &[]);
    Ok(document)
}

fn encoded<T: serde::Serialize>(lua: &Lua, value: &T, meter: &Meter) -> mlua::Result<Value> {
    let value = serde_json::to_value(value).map_err(|problem| error(problem.to_string()))?;
    to_lua(lua, &value, meter)
}

pub fn library(lua: &Lua, meter: &Arc<Meter>) -> mlua::Result<Table> {
    let lib = lua.create_table()?;
    let m = meter.clone();
    lib.raw_set(
        "resourceAdd",
        lua.create_function(move |_, quantities: MultiValue| {
            m.charge(50)?;
            let mut sum = None;
            for value in quantities {
                match value {
                    Value::Nil => {}
                    Value::String(text) => {
                        let amount = quantity(&text)?;
                        sum = Some(sum.map_or(amount, |sum| sum + amount));
                    }
                    other => return Err(error(format!("expect a quantity string, got {}", type_name(&other)))),
                }
            }
            Ok(sum.unwrap_or(Quantity::ZERO).to_string())
        })?,
    )?;
    let m = meter.clone();
    lib.raw_set(
        "getResourceQuantity",
        lua.create_function(move |_, text: Value| {
            m.charge(50)?;
            let amount = match text {
                Value::Nil => return Ok(0.0),
                Value::String(text) => quantity(&text)?,
                other => return Err(error(format!("expect a quantity string, got {}", type_name(&other)))),
            };
            if amount.is_negative() {
                return Err(error(format!("quantity {amount} is negative")));
            }
            Ok(amount.as_f64())
        })?,
    )?;
    let m = meter.clone();
    lib.raw_set(
        "accuratePodRequirements",
        lua.create_function(move |lua, arguments: MultiValue| {
            let (1, Some(template @ Value::Table(_))) = (arguments.len(), arguments.front()) else {
                return Err(error("accuratePodRequirements only accepts one argument, a pod template"));
            };
            match replica_requirements(&document(template, &m)?).map_err(error)? {
                Some(requirements) => encoded(lua, &requirements, &m),
                None => Ok(Value::Nil),
            }
        })?,
    )?;
    let m = meter.clone();
    lib.raw_set(
        "getPodDependencies",
        lua.create_function(move |lua, arguments: MultiValue| {
            let (2, Some(template @ Value::Table(_))) = (arguments.len(), arguments.front()) else {
                return Err(error("getPodDependencies only accepts two arguments, a pod template and a namespace"));
            };
            let namespace = match arguments.get(1) {
                Some(Value::String(name)) => name.to_str()?.to_owned(),
                Some(Value::Nil) | None => "default".to_owned(),
                Some(other) => return Err(error(format!("expect a namespace, got {}", type_name(other)))),
            };
            let found = pod_dependencies(&document(template, &m)?, &namespace);
            if found.is_empty() { Ok(Value::Nil) } else { encoded(lua, &found, &m) }
        })?,
    )?;
    Ok(lib)
}
