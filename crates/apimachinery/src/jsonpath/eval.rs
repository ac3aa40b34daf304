//! The values that a JSONPath template selects in a document.

use std::cmp::Ordering;

use serde_json::Value;

use super::{JsonPath, Operand, Operator, Part, Slice, Step, shown};

/// Recursion is as deep as the template's ranges.
pub fn render(parts: &[Part], root: &Value, value: &Value, out: &mut String) {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Find(path) => {
                let found: Vec<String> = find(path, root, value).into_iter().map(shown).collect();
                out.push_str(&found.join(" "));
            }
            Part::Range(path, body) => {
                find(path, root, value).into_iter().for_each(|item| render(body, root, item, out));
            }
        }
    }
}

/// As deep as [`render`].
pub fn misses(parts: &[Part], root: &Value, value: &Value) -> bool {
    parts.iter().any(|part| match part {
        Part::Text(_) => false,
        Part::Find(path) => find(path, root, value).is_empty(),
        Part::Range(path, body) => {
            let found = find(path, root, value);
            found.is_empty() || found.into_iter().any(|item| misses(body, root, item))
        }
    })
}

/// As deep as [`render`].
pub fn collect(parts: &[Part], root: &Value, value: &Value, found: &mut Vec<Value>) {
    for part in parts {
        match part {
            Part::Text(text) => found.push(Value::String(text.clone())),
            Part::Find(path) => found.extend(find(path, root, value).into_iter().cloned()),
            Part::Range(path, body) => {
                find(path, root, value).into_iter().for_each(|item| collect(body, root, item, found));
            }
        }
    }
}

/// The maximum number of values of nested descents. One descent finds each value once; the next one finds a value as
/// often as it is deep, and so on.
const MOST: usize = 1 << 16;

pub fn find<'a>(path: &JsonPath, root: &'a Value, value: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![value];
    let mut descents = 0;
    for step in &path.0 {
        descents += usize::from(*step == Step::Descend);
        let most = if descents > 1 { MOST } else { usize::MAX };
        found = match step {
            Step::Root => vec![root],
            step => found.into_iter().flat_map(|value| apply(step, root, value)).take(most).collect(),
        };
    }
    found
}

fn apply<'a>(step: &Step, root: &'a Value, value: &'a Value) -> Vec<&'a Value> {
    match step {
        Step::Root => vec![root],
        Step::Child(name) => child(value, name),
        Step::Descend => {
            let mut found = Vec::new();
            descend(value, &mut found);
            found
        }
        Step::Wildcard => children(value),
        Step::Slice(slice) => items(value, *slice),
        Step::Union(members) => members.iter().flat_map(|member| apply(member, root, value)).collect(),
        Step::Filter { left, comparison } => {
            let list = value.as_array().map_or(&[][..], Vec::as_slice);
            list.iter().filter(|item| holds(left, comparison.as_ref(), root, item)).collect()
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

fn items(value: &Value, slice: Slice) -> Vec<&Value> {
    let Some(list) = value.as_array() else { return Vec::new() };
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let absolute = |index: i64| if index < 0 { index + length } else { index };
    let at = |index: i64| usize::try_from(index).ok().and_then(|index| list.get(index));
    match slice {
        Slice::Index(index) => at(absolute(index)).into_iter().collect(),
        Slice::Range { start, end, step } => {
            let start = absolute(start.unwrap_or(0)).max(0);
            let end = absolute(end.unwrap_or(length)).min(length);
            let step = usize::try_from(step).unwrap_or(1);
            (start..end).step_by(step).filter_map(at).collect()
        }
    }
}

fn holds(left: &Operand, comparison: Option<&(Operator, Operand)>, root: &Value, item: &Value) -> bool {
    let Some(left) = first(left, root, item) else { return false };
    match comparison {
        None => true,
        Some((operator, right)) => first(right, root, item).is_some_and(|right| operator.holds(left, right)),
    }
}

fn first<'a>(operand: &'a Operand, root: &'a Value, item: &'a Value) -> Option<&'a Value> {
    match operand {
        Operand::Literal(value) => Some(value),
        Operand::Path(path) => find(path, root, item).first().copied(),
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            _ => None,
        };
        match self {
            Self::Equal => left == right || order == Some(Ordering::Equal),
            Self::NotEqual => left != right && order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => order.is_some_and(Ordering::is_le),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}
