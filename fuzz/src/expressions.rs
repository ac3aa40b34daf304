//! CEL: an expression is compiled, its cost estimated, and evaluated within a budget.

use std::collections::BTreeMap;

use cel::budget::Meter;
use cel::value::{Key, Text};
use cel::{Env, Type, Value};

/// The cost limit of one expression in custom resources.
const BUDGET: u64 = 1_000_000;

/// A second evaluation has the same result and cost, within the budget.
pub(crate) fn cel(input: &[u8]) {
    let Ok(source) = std::str::from_utf8(input) else { return };
    let env = Env::new()
        .with("x", Type::Int)
        .with("s", Type::String)
        .with("l", Type::list(Type::Int))
        .with("m", Type::map(Type::String, Type::Dyn))
        .with("d", Type::Dyn);
    let Ok(program) = env.compile(source) else { return };
    let list = Value::list(vec![Value::Int(1), Value::Int(-2), Value::Int(i64::MAX)]);
    let map = Value::map(BTreeMap::from([(Key::String(Text::Borrowed("k")), list.clone())]));
    let variables = [Some(Value::Int(3)), Some(Value::string("ä b-c")), Some(list), Some(map.clone()), Some(map)];
    let evaluate = || {
        let mut meter = Meter::new(BUDGET);
        let shown = program.eval(&variables, &mut meter).map(|value| format!("{value:?}")).map_err(|e| e.to_string());
        (shown, meter.cost())
    };
    assert_eq!(evaluate(), evaluate());
}
