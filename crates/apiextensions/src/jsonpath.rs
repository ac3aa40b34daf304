//! The part of kubectl's JSONPath that definitions use: children, indices, wildcards and equality filters.
//!
//! `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`, `.spec.items[*].kind`, `.metadata.labels.a\.b`,
//! `.metadata.annotations['a.b/c']`, `.spec.list[-1]`. No recursive descent, no unions, no slices.

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Child(Box<str>),
    /// Negative counts from the end.
    Index(i64),
    Wildcard,
    Filter {
        left: Box<[Box<str>]>,
        operator: Operator,
        right: Value,
    },
    /// `[?(@.x)]`: the field exists.
    Exists(Box<[Box<str>]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid path {path:?}: {why}")]
pub struct ParsePathError {
    path: String,
    why: &'static str,
}

impl JsonPath {
    /// Parses a path with or without the surrounding braces.
    ///
    /// # Errors
    /// When the text is not in the supported dialect.
    pub fn parse(path: &str) -> Result<Self, ParsePathError> {
        let fail = |why| ParsePathError { path: path.to_owned(), why };
        let mut rest = path.trim();
        if let Some(inner) = rest.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
            rest = inner.trim();
        }
        rest = rest.strip_prefix('$').unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, remaining) = if let Some(bracket) = rest.strip_prefix('[') {
                bracket_step(bracket).map_err(fail)?
            } else {
                dot_step(rest.strip_prefix('.').ok_or_else(|| fail("expected '.' or '['"))?).map_err(fail)?
            };
            steps.extend(step);
            rest = remaining;
        }
        Ok(Self { steps })
    }

    /// The values the path reaches, in document order.
    pub fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.apply(value)).collect();
        }
        found
    }

    /// The names it begins with: all it reaches is below there.
    pub fn beginning(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map_while(|step| match step {
            Step::Child(name) => Some(&**name),
            _ => None,
        })
    }

    /// The field names, when the path consists of children only.
    pub fn fields(&self) -> Option<Vec<&str>> {
        self.steps
            .iter()
            .map(|step| match step {
                Step::Child(name) => Some(&**name),
                _ => None,
            })
            .collect()
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Child(name) => value.get(&**name).into_iter().collect(),
            Self::Index(index) => item(value, *index).into_iter().collect(),
            Self::Wildcard => children(value),
            Self::Exists(left) => items(value).filter(|item| descend(item, left).is_some()).collect(),
            Self::Filter { left, operator, right } => items(value)
                .filter(|item| descend(item, left).is_some_and(|found| operator.holds(found, right)))
                .collect(),
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> bool {
        use std::cmp::Ordering::{Greater, Less};
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            _ => None,
        };
        match self {
            Self::Equal => left == right || order.is_some_and(|order| order.is_eq()),
            Self::NotEqual => left != right && order.is_none_or(|order| order.is_ne()),
            Self::Less => order == Some(Less),
            Self::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Self::Greater => order == Some(Greater),
            Self::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn item(value: &Value, index: i64) -> Option<&Value> {
    let items = value.as_array()?;
    let position = if index < 0 { i64::try_from(items.len()).ok()? + index } else { index };
    items.get(usize::try_from(position).ok()?)
}

fn descend<'a>(value: &'a Value, names: &[Box<str>]) -> Option<&'a Value> {
    names.iter().try_fold(value, |value, name| value.get(&**name))
}

type Parsed<'a> = Result<(Option<Step>, &'a str), &'static str>;

/// After a dot: a name in which `\.` is an escaped dot, `*`, or nothing (`.` alone, or a bracket follows).
fn dot_step(rest: &str) -> Parsed<'_> {
    let (name, remaining) = read_name(rest)?;
    if name.is_empty() {
        return if remaining.is_empty() || remaining.starts_with('[') {
            Ok((None, remaining))
        } else {
            Err("empty field name")
        };
    }
    Ok((Some(if name == "*" { Step::Wildcard } else { Step::Child(name.into()) }), remaining))
}

fn read_name(rest: &str) -> Result<(String, &str), &'static str> {
    let mut name = String::new();
    let mut chars = rest.char_indices();
    while let Some((position, c)) = chars.next() {
        match c {
            '.' | '[' => return Ok((name, &rest[position..])),
            '\\' => name.push(chars.next().ok_or("unfinished escape")?.1),
            '{' | '}' | '(' | ')' | ']' | ' ' => return Err("unexpected character in a field name"),
            c => name.push(c),
        }
    }
    Ok((name, ""))
}

fn bracket_step(rest: &str) -> Parsed<'_> {
    if let Some(filter) = rest.strip_prefix("?(") {
        let end = filter_end(filter).ok_or("unterminated filter")?;
        return Ok((Some(filter_step(&filter[..end])?), &filter[end + 2..]));
    }
    let end = match rest.chars().next() {
        Some(quote @ ('\'' | '"')) => rest[1..].find(quote).map(|at| at + 2).ok_or("unterminated string")?,
        _ => rest.find(']').ok_or("unterminated array")?,
    };
    let inner = rest[..end].trim();
    let remaining = rest[end..].strip_prefix(']').ok_or("unterminated array")?;
    if inner == "*" || inner.is_empty() {
        return Ok((Some(Step::Wildcard), remaining));
    }
    if let Some(name) = unquote(inner) {
        return Ok((Some(Step::Child(name.into())), remaining));
    }
    inner.parse().map(|index| (Some(Step::Index(index)), remaining)).map_err(|_| "invalid array index")
}

/// The position of `)]` outside quotes.
fn filter_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (position, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ')') if text[position..].starts_with(")]") => return Some(position),
            _ => {}
        }
    }
    None
}

const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

fn filter_step(text: &str) -> Result<Step, &'static str> {
    let found = OPERATORS.iter().filter_map(|(sign, operator)| Some((text.find(sign)?, sign.len(), *operator)));
    let Some((at, length, operator)) = found.min_by_key(|(at, length, _)| (*at, std::cmp::Reverse(*length))) else {
        return Ok(Step::Exists(filter_names(text)?));
    };
    let right = text[at + length..].trim();
    let right = match unquote(right) {
        Some(text) => Value::from(text),
        None => serde_json::from_str(right).map_err(|_| "invalid literal in a filter")?,
    };
    Ok(Step::Filter { left: filter_names(&text[..at])?, operator, right })
}

fn filter_names(text: &str) -> Result<Box<[Box<str>]>, &'static str> {
    let mut rest = text.trim().strip_prefix('@').ok_or("a filter must start with '@'")?;
    let mut names = Vec::new();
    while let Some(after) = rest.strip_prefix('.') {
        let (name, remaining) = read_name(after)?;
        if !name.is_empty() {
            names.push(name.into());
        }
        rest = remaining;
    }
    if rest.is_empty() { Ok(names.into()) } else { Err("unsupported filter") }
}

fn unquote(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_find_what_kubectl_finds() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x"}},
            "spec": {"replicas": 3, "list": [1, 2, 3], "workload": {"manifests": [{"kind": "A"}, {"kind": "B"}]}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "n": 2}, {"type": "Other", "status": "False"}]},
        });
        for (path, expected) in [
            (".spec.replicas", json!([3])),
            ("{.spec.replicas}", json!([3])),
            (".spec.none.deeper", json!([])),
            (".spec.list[0]", json!([1])),
            (".spec.list[-1]", json!([3])),
            (".spec.list[7]", json!([])),
            (".spec.list[*]", json!([1, 2, 3])),
            (".spec.workload.manifests[*].kind", json!(["A", "B"])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (".status.conditions[?(@.type != 'Ready')].status", json!(["False"])),
            (".status.conditions[?(@.n > 1)].type", json!(["Ready"])),
            (".status.conditions[?(@.n)].type", json!(["Ready"])),
            (r".metadata.labels.a\.b/c", json!(["x"])),
            (".metadata.labels['a.b/c']", json!(["x"])),
        ] {
            let parsed = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(json!(parsed.find(&object)), expected, "{path}");
        }
    }

    #[test]
    fn broken_paths_are_refused() {
        for path in ["spec", ".a[", ".a[x]", ".a[?(@.b==)]", ".a[?(b==1)]", ".a..b", ".a['b", "].", ".a[?(@.b=="] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
