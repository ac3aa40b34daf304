//! The values that a JSONPath template selects in a document.

use std::cmp::Ordering;

use serde_json::Value;

use super::{JsonPath, Operator, Part, Slice, Step, shown};
use crate::go_json::go_type;
use crate::go_print::GoPrint;

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
pub fn render(parts: &[Part], value: &Value, mode: Mode, out: &mut String) -> Result<(), String> {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Find(path) => {
                let found: Vec<String> = find(path, value, mode)?.into_iter().map(shown).collect();
                out.push_str(&found.join(" "));
            }
            Part::Range(path, body) => {
                let found = find(path, value, mode)?;
                if found.is_empty() {
                    // client-go evaluates the body even so, and reports its errors.
                    render(body, &Value::Null, mode, &mut String::new())?;
                }
                for item in found {
                    render(body, item, mode, out)?;
                }
            }
        }
    }
    Ok(())
}

/// As deep as [`render`].
pub fn collect(parts: &[Part], value: &Value, mode: Mode, found: &mut Vec<Value>) -> Result<(), String> {
    for part in parts {
        match part {
            Part::Text(text) => found.push(Value::String(text.clone())),
            Part::Find(path) => found.extend(find(path, value, mode)?.into_iter().cloned()),
            Part::Range(path, body) => {
                for item in find(path, value, mode)? {
                    collect(body, item, mode, found)?;
                }
            }
        }
    }
    Ok(())
}

/// The maximum number of values of nested descents. One descent finds each value once; the next one finds a value as
/// often as it is deep, and so on.
const MOST: usize = 1 << 16;

pub fn find<'a>(path: &'a JsonPath, value: &'a Value, mode: Mode) -> Result<Vec<&'a Value>, String> {
    let mut found = vec![value];
    let mut descents = 0;
    for step in &path.0 {
        descents += usize::from(*step == Step::Descend);
        let most = if descents > 1 { MOST } else { usize::MAX };
        let mut next = Vec::new();
        match step {
            // A text is there once, a number for each value.
            Step::Literal(text @ Value::String(_)) => next.extend((!found.is_empty()).then_some(text)),
            Step::Literal(literal) => next.resize(found.len(), literal),
            Step::Identifier(_) if mode == Mode::Lenient => {}
            Step::Identifier(word) if word == "end" => return Err("not in range, nothing to end".into()),
            Step::Identifier(word) => return Err(format!("unrecognized identifier {word}")),
            _ => {
                for value in found {
                    match apply(step, value, mode) {
                        Ok(values) => next.extend(values.into_iter().take(most.saturating_sub(next.len()))),
                        Err(_) if mode == Mode::Lenient => {}
                        Err(why) => return Err(why),
                    }
                    if next.len() >= most {
                        break;
                    }
                }
            }
        }
        if let (Step::Child(name) | Step::Dotted(name, _), true) = (step, next.is_empty() && mode == Mode::Strict) {
            return Err(format!("{name} is not found"));
        }
        found = next;
    }
    Ok(found)
}

fn apply<'a>(step: &'a Step, value: &'a Value, mode: Mode) -> Result<Vec<&'a Value>, String> {
    match step {
        Step::Child(name) => Ok(value.get(name).into_iter().collect()),
        Step::Dotted(name, path) => match value.get(name) {
            Some(found) => Ok(vec![found]),
            // An item without the field does not hide that of another item.
            None => find(path, value, if mode == Mode::Strict { Mode::Checked } else { mode }),
        },
        Step::Descend => {
            let mut found = Vec::new();
            descend(value, &mut found);
            Ok(found)
        }
        Step::Wildcard => Ok(children(value)),
        Step::Slice(slice) => items(value, *slice),
        Step::Union(members) => {
            let found = members.iter().map(|member| find(member, value, mode)).collect::<Result<Vec<_>, _>>();
            Ok(found?.concat())
        }
        Step::Filter { left, comparison } => {
            let list = match value {
                Value::Null => &[][..],
                Value::Array(items) => items,
                other => {
                    return Err(format!("{} is not array or slice and cannot be filtered", GoPrint(other)));
                }
            };
            let mut kept = Vec::new();
            for item in list {
                if holds(left, comparison.as_ref(), item, mode)? {
                    kept.push(item);
                }
            }
            Ok(kept)
        }
        // They replace the value, and are evaluated once for all values.
        Step::Literal(_) | Step::Identifier(_) => Ok(Vec::new()),
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

/// The value and everything below it that has something below it; to client-go, texts have. Documents nest at most as
/// deep as the JSON decoder reads.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let below = children(value);
    if !below.is_empty() || value.as_str().is_some_and(|text| !text.is_empty()) {
        found.push(value);
    }
    below.into_iter().for_each(|child| descend(child, found));
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
            (absolute(start.unwrap_or(0)), absolute(end.unwrap_or(length)), step.unwrap_or(1))
        }
    };
    let out_of_bounds = |index: i64| Err(format!("array index out of bounds: index {index}, length {length}"));
    match () {
        // No items are requested.
        () if start == end => Ok(Vec::new()),
        () if start >= length || start < 0 => out_of_bounds(start),
        () if end > length || end < 0 => out_of_bounds(end - 1),
        () if start > end => Err(format!("starting index {start} is greater than ending index {end}")),
        () if step <= 0 => Err("step must be > 0".into()),
        () => {
            let step = usize::try_from(step).unwrap_or(1);
            let bounds = usize::try_from(start).unwrap_or(usize::MAX)..usize::try_from(end).unwrap_or(usize::MAX);
            Ok(list.get(bounds).unwrap_or_default().iter().step_by(step).collect())
        }
    }
}

fn holds(left: &JsonPath, comparison: Option<&(Operator, JsonPath)>, item: &Value, mode: Mode) -> Result<bool, String> {
    // A field without a match excludes the item.
    let mode = if mode == Mode::Strict { Mode::Checked } else { mode };
    let Some((operator, right)) = comparison else { return Ok(find(left, item, mode).is_ok_and(|it| !it.is_empty())) };
    let one = |path| match find(path, item, mode)?[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        [first, ..] if mode == Mode::Lenient => Ok(Some(first)),
        _ => Err("can only compare one element at a time".to_owned()),
    };
    let Some(left) = one(left)? else { return Ok(false) };
    let Some(right) = one(right)? else { return Ok(false) };
    operator.holds(left, right)
}

impl Operator {
    /// # Errors
    /// The values cannot be compared.
    fn holds(&self, left: &Value, right: &Value) -> Result<bool, String> {
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::Null, _) | (_, Value::Null) => None,
            (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => {
                return Err("invalid type for comparison".into());
            }
            _ => return Err("incompatible types for comparison".into()),
        };
        Ok(match self {
            Self::Equal => left == right || order == Some(Ordering::Equal),
            Self::NotEqual => left != right && order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => order.is_some_and(Ordering::is_le),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
            Self::Unknown(sign) => return Err(format!("unrecognized filter operator {sign}")),
        })
    }
}
