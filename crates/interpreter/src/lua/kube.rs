//! `require("kube")`: functions for scripts about workloads.

use std::sync::Arc;

use apimachinery::quantity::{ParseQuantityError, Quantity};
use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::convert::{Reader, to_lua};
use super::meter::Meter;
use super::strings::number_text;
use super::type_name;
use crate::native::dependencies::pod_dependencies;
use crate::native::requirements::replica_requirements;
use crate::tree::text;

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

/// No quantity is zero.
fn resource_quantity(arguments: &MultiValue) -> mlua::Result<f64> {
    let amount = match (arguments.len(), arguments.front()) {
        (1, Some(Value::Nil)) => return Ok(0.0),
        (1, Some(Value::String(text))) => quantity(text)?,
        (1, Some(other)) => return Err(error(format!("expect a quantity string, got {}", type_name(other)))),
        _ => return Err(error("getResourceQuantity only accepts one argument, a quantity")),
    };
    if amount.is_negative() {
        return Err(error(format!("quantity {amount} is negative")));
    }
    Ok(amount.as_f64())
}

/// With `quotas`, requirements have the priority class of the pods.
pub fn library(lua: &Lua, meter: &Arc<Meter>, quotas: bool) -> mlua::Result<Table> {
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
        lua.create_function(move |_, arguments: MultiValue| {
            m.charge(50)?;
            resource_quantity(&arguments)
        })?,
    )?;
    let m = meter.clone();
    lib.raw_set(
        "accuratePodRequirements",
        lua.create_function(move |lua, arguments: MultiValue| {
            let (1, Some(template @ Value::Table(_))) = (arguments.len(), arguments.front()) else {
                return Err(error("accuratePodRequirements only accepts one argument, a pod template"));
            };
            let template = document(template, &m)?;
            let Some(mut requirements) = replica_requirements(&template).map_err(error)? else {
                return Ok(Value::Nil);
            };
            if quotas {
                text(&template, &["spec", "priorityClassName"]).clone_into(&mut requirements.priority_class_name);
            }
            encoded(lua, &requirements, &m)
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
                Some(Value::Integer(number)) => number.to_string(),
                Some(Value::Number(number)) => number_text(*number),
                Some(other) => return Err(error(format!("expect a namespace, got {}", type_name(other)))),
            };
            let found = pod_dependencies(&document(template, &m)?, &namespace);
            if found.is_empty() { Ok(Value::Nil) } else { encoded(lua, &found, &m) }
        })?,
    )?;
    Ok(lib)
}
