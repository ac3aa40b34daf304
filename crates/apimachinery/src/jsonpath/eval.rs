//! The values that a JSONPath template selects in a document.

use std::cmp::Ordering;

use serde_json::Value;

use super::{JsonPath, Operand, Operator, Part, Slice, Step, shown};
use crate::go_json::{go_type, printed};

/// What is an error; client-go's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: what cannot be evaluated has no match.
    Lenient,
    /// An index beyond its list, and comparisons of values that cannot be compared, as in kubectl.
    Checked,
    /// A field without a match, too (`--allow-missing-template-keys=false`).
    Strict,
}

/// Recursion is as deep as the template's ranges.
pub fn render(parts: &[Part], root: &Value, value: &Value, mode: Mode, out: &mut String) -> Result<(), String> {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Find(path) => {
                let found: Vec<String> = find(path, root, value, mode)?.into_iter().map(shown).collect();
                out.push_str(&found.join(" "));
            }
            Part::Range(path, body) => {
                for item in find(path, root, value, mode)? {
                    render(body, root, item, mode, out)?;
                }
            }
        }
    }
    Ok(())
}

/// As deep as [`render`].
pub fn collect(parts: &[Part], root: &Value, value: &Value, mode: Mode, found: &mut Vec<Value>) -> Result<(), String> {
    for part in parts {
        match part {
            Part::Text(text) => found.push(Value::String(text.clone())),
            Part::Find(path) => found.extend(find(path, root, value, mode)?.into_iter().cloned()),
            Part::Range(path, body) => {
                for item in find(path, root, value, mode)? {
                    collect(body, root, item, mode, found)?;
                }
            }
        }
    }
    Ok(())
}

/// The maximum number of values of nested descents. One descent finds each value once; the next one finds a value as
/// often as it is deep, and so on.
const MOST: usize = 1 << 16;

pub fn find<'a>(path: &JsonPath, root: &'a Value, value: &'a Value, mode: Mode) -> Result<Vec<&'a Value>, String> {
    let mut found = vec![value];
    let mut descents = 0;
    for step in &path.0 {
        descents += usize::from(*step == Step::Descend);
        let most = if descents > 1 { MOST } else { usize::MAX };
        let mut next = Vec::new();
        for value in found {
            match apply(step, root, value, mode) {
                Ok(values) => next.extend(values.into_iter().take(most.saturating_sub(next.len()))),
                Err(_) if mode == Mode::Lenient => {}
                Err(why) => return Err(why),
            }
            if next.len() >= most {
                break;
            }
        }
        match step {
            Step::Root => next = vec![root],
            Step::Child(name) if next.is_empty() && mode == Mode::Strict => return Err(format!("{name} is not found")),
            _ => {}
        }
        found = next;
    }
    Ok(found)
}

fn apply<'a>(step: &Step, root: &'a Value, value: &'a Value, mode: Mode) -> Result<Vec<&'a Value>, String> {
    match step {
        Step::Root => Ok(vec![root]),
        Step::Child(name) => Ok(child(value, name)),
        Step::Descend => {
            let mut found = Vec::new();
            descend(value, &mut found);
            Ok(found)
        }
        Step::Wildcard => Ok(children(value)),
        Step::Slice(slice) => items(value, *slice),
        Step::Union(members) => {
            let found = members.iter().map(|member| apply(member, root, value, mode)).collect::<Result<Vec<_>, _>>();
            Ok(found?.concat())
        }
        Step::Filter { left, comparison } => {
            let list = match value {
                Value::Null => &[][..],
                Value::Array(items) => items,
                other => return Err(format!("{} is not array or slice and cannot be filtered", printed(other))),
            };
            let mut kept = Vec::new();
            for item in list {
                if holds(left, comparison.as_ref(), root, item, mode)? {
                    kept.push(item);
                }
            }
            Ok(kept)
        }
    }
}

/// The field of that name; in brackets, a name with dots may also be a path.
fn child<'a>(value: &'a Value, name: &str) -> Vec<&'a Value> {
    if let Some(found) = value.get(name) {
        return vec![found];
    }
    let Some((first, rest)) = name.split_once('.') else { return Vec::new() };
    value.get(first).map(|below| child(below, rest)).unwrap_or_default()
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

/// Documents nest at most as deep as the JSON decoder reads.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(value);
    children(value).into_iter().for_each(|child| descend(child, found));
}

/// The items of a slice, whose bounds must be within the list.
fn items(value: &Value, slice: Slice) -> Result<Vec<&Value>, String> {
    let list = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        other => return Err(format!("{} is not array or slice", go_type(other))),
    };
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let absolute = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let (start, end, step) = match slice {
        // The end of the last item is that of the list.
        Slice::Index(index) => {
            let end = index.saturating_add(1);
            (absolute(index), if index < 0 { end.saturating_add(length) } else { end }, 1)
        }
        Slice::Range { start, end, step } => {
            (absolute(start.unwrap_or(0)), absolute(end.unwrap_or(length)), usize::try_from(step).unwrap_or(1))
        }
    };
    let out_of_bounds = |index: i64| Err(format!("array index out of bounds: index {index}, length {length}"));
    match () {
        // No items are requested.
        () if start == end => Ok(Vec::new()),
        () if start >= length || start < 0 => out_of_bounds(start),
        () if end > length || end < 0 => out_of_bounds(end - 1),
        () if start > end => Err(format!("starting index {start} is greater than ending index {end}")),
        () => {
            let bounds = usize::try_from(start).unwrap_or(usize::MAX)..usize::try_from(end).unwrap_or(usize::MAX);
            Ok(list.get(bounds).unwrap_or_default().iter().step_by(step).collect())
        }
    }
}

fn holds(
    left: &Operand,
    comparison: Option<&(Operator, Operand)>,
    root: &Value,
    item: &Value,
    mode: Mode,
) -> Result<bool, String> {
    let Some((operator, right)) = comparison else { return Ok(!operands(left, root, item, mode)?.is_empty()) };
    let one = |operand| match operands(operand, root, item, mode)?[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        [first, ..] if mode == Mode::Lenient => Ok(Some(first)),
        _ => Err("can only compare one element at a time".to_owned()),
    };
    let (Some(left), Some(right)) = (one(left)?, one(right)?) else { return Ok(false) };
    operator.holds(left, right).map_err(str::to_owned)
}

fn operands<'a>(operand: &'a Operand, root: &'a Value, item: &'a Value, mode: Mode) -> Result<Vec<&'a Value>, String> {
    // A field without a match excludes the item.
    let mode = if mode == Mode::Strict { Mode::Checked } else { mode };
    match operand {
        Operand::Literal(value) => Ok(vec![value]),
        Operand::Path(path) => find(path, root, item, mode),
    }
}

impl Operator {
    /// # Errors
    /// The values cannot be compared.
    fn holds(self, left: &Value, right: &Value) -> Result<bool, &'static str> {
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::Null, _) | (_, Value::Null) => None,
            (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => {
                return Err("invalid type for comparison");
            }
            _ => return Err("incompatible types for comparison"),
        };
        Ok(match self {
            Self::Equal => left == right || order == Some(Ordering::Equal),
            Self::NotEqual => left != right && order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => order.is_some_and(Ordering::is_le),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        })
    }
}
