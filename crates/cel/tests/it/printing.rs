//! Prints values for tables, and declares the document that expressions use.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::budget::{EXPRESSION_LIMIT, Meter};
use cel::types::{Field, Identity, Kind, ObjectShape, Shape, escape};
use cel::value::{List, Map};
use cel::{Env, Type, Value};
use serde_json::json;

pub fn object(name: &str, fields: Vec<(&str, Arc<Shape>)>) -> Arc<Shape> {
    let fields: BTreeMap<Box<str>, Field> = fields
        .into_iter()
        .filter_map(|(name, shape)| Some((escape(name)?.into(), Field { name: name.into(), shape })))
        .collect();
    Arc::new(Shape::new(Kind::Object(Arc::new(ObjectShape { name: name.into(), fields })), 2))
}

pub fn leaf(kind: Kind) -> Arc<Shape> {
    Arc::new(Shape::new(kind, 1))
}

pub fn list(items: Arc<Shape>, identity: Identity) -> Arc<Shape> {
    leaf(Kind::List { items, identity })
}

/// The shape of [`document`].
pub fn shape() -> Arc<Shape> {
    let item = object("item", vec![("k", leaf(Kind::String)), ("v", leaf(Kind::Int))]);
    let keyed = || list(Arc::clone(&item), Identity::Map(vec!["k".into()]));
    object(
        "object",
        vec![
            ("i", leaf(Kind::Int)),
            ("d", leaf(Kind::Double)),
            ("s", leaf(Kind::String)),
            ("b", leaf(Kind::Bool)),
            ("by", leaf(Kind::Bytes)),
            ("port", leaf(Kind::Any)),
            ("name", leaf(Kind::Any)),
            ("when", leaf(Kind::DateTime)),
            ("day", leaf(Kind::Date)),
            ("span", leaf(Kind::Duration)),
            ("l", list(leaf(Kind::Int), Identity::Atomic)),
            ("set", list(leaf(Kind::String), Identity::Set)),
            ("set2", list(leaf(Kind::String), Identity::Set)),
            ("keyed", keyed()),
            ("keyed2", keyed()),
            ("m", leaf(Kind::Map { values: leaf(Kind::Int) })),
            ("o", object("inner", vec![("x", leaf(Kind::Int)), ("y", leaf(Kind::String))])),
            ("none", leaf(Kind::String)),
            ("nil", leaf(Kind::String)),
            ("a-b.c/d__e", leaf(Kind::Int)),
            ("namespace", leaf(Kind::String)),
            ("bad", leaf(Kind::DateTime)),
        ],
    )
}

pub fn document() -> serde_json::Value {
    json!({"i": 3, "d": 1.5, "s": "héllo", "b": true, "by": "YWI=", "port": 80, "name": "http", "unknown": 1,
        "when": "2024-02-29T12:34:56.789Z", "day": "2024-02-29", "span": "1h30m", "l": [3, 1, 2],
        "set": ["a", "b"], "set2": ["b", "a"], "keyed": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
        "keyed2": [{"k": "b", "v": 2}, {"k": "a", "v": 1}], "m": {"x": 1, "y-z": 2}, "o": {"x": 1}, "nil": null,
        "a-b.c/d__e": 7, "namespace": "ns", "bad": "soon"})
}

/// The result of an expression: a value, `error: …`, or `compile: …` with the messages only.
pub fn outcome(source: &str) -> String {
    let shape = shape();
    let env = Env::new().with_document("self", &shape, false).with("x", Type::Dyn).with("n", Type::Int);
    let program = match env.compile(source) {
        Ok(program) => program,
        Err(issues) => {
            let texts: Vec<&str> = issues.iter().map(|issue| issue.message.as_str()).collect();
            return format!("compile: {}", texts.join("; "));
        }
    };
    let document = document();
    let this = Value::from_json(&document, &shape).expect("of its shape");
    let variables = [Some(this), Some(Value::Int(5)), None];
    match program.eval(&variables, &mut Meter::new(EXPRESSION_LIMIT)) {
        Ok(value) => print(&value),
        Err(error) => format!("error: {error}"),
    }
}

/// The cost of an evaluation in which `x` and `n` are 5.
pub fn cost(source: &str) -> String {
    let env = Env::new().with("x", Type::Dyn).with("n", Type::Int);
    let program = env.compile(source).unwrap_or_else(|issues| panic!("{source}: {issues}"));
    let mut meter = Meter::new(EXPRESSION_LIMIT);
    let outcome = program.eval(&[Some(Value::Int(5)), Some(Value::Int(5))], &mut meter);
    drop(outcome);
    meter.cost().to_string()
}

pub fn print(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => format!("{number}u"),
        Value::Double(number) => format!("{number:?}"),
        Value::String(text) => format!("{:?}", &**text),
        Value::Bytes(data) => format!("b{:?}", String::from_utf8_lossy(data)),
        Value::List(list) => format!("[{}]", items(list).join(", ")),
        Value::Map(map) => format!("{{{}}}", entries(map).join(", ")),
        Value::Object(object) => format!("{} object", object.shape.name),
        Value::Timestamp(time) => time.to_string(),
        Value::Duration(nanos) => format!("{nanos}ns"),
        Value::Type(name) => name.to_string(),
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(inner)) => format!("some({})", print(inner)),
        Value::Opaque(_) => value.type_name().into_owned(),
    }
}

fn items(list: &List<'_>) -> Vec<String> {
    list.iter().map(|item| item.map_or_else(|error| error.to_string(), |item| print(&item))).collect()
}

fn entries(map: &Map<'_>) -> Vec<String> {
    let entry = |key: &cel::value::Key<'_>| {
        let value = map.get(key).ok().flatten().map_or_else(String::new, |value| print(&value));
        format!("{}: {value}", print(&key.to_value()))
    };
    map.keys().iter().map(entry).collect()
}
