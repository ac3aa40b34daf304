//! The columns of server-side tables (`kubectl get`), and the cells of a row, by the table `data/columns.txt`. Cells
//! other than a value or an age are functions in the modules below.

use std::collections::HashMap;
use std::sync::OnceLock;

use apimachinery::age::human_duration;
use apimachinery::meta::Time;
use apimachinery::resource::{CREATED_DESCRIPTION, Column};
use serde_json::{Value, json};

mod cluster;
mod events;
mod network;
mod pods;
mod stored;
mod workloads;

const TABLE: &str = include_str!("../data/columns.txt");
const DESCRIPTIONS: &str = include_str!("../data/column_descriptions.txt");

pub(crate) use stored::write_row;

/// A cell computed by a function.
struct Function {
    name: &'static str,
    /// The paths that the column reads.
    reads: &'static [&'static str],
    run: fn(&Value, Time) -> Value,
}

const fn function(name: &'static str, reads: &'static [&'static str], run: fn(&Value, Time) -> Value) -> Function {
    Function { name, reads, run }
}

struct Row {
    column: Column,
    cell: Cell,
}

enum Cell {
    Value {
        path: Vec<&'static str>,
        otherwise: Value,
    },
    /// The total number of entries at these paths.
    Count(Vec<Vec<&'static str>>),
    Age {
        path: Vec<&'static str>,
        otherwise: &'static str,
    },
    Run(&'static Function),
}

/// Groups and kinds with columns.
#[cfg(test)]
pub(crate) fn kinds() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    table().keys()
}

/// By group and kind.
type Table = HashMap<(&'static str, &'static str), Vec<Row>>;

fn table() -> &'static Table {
    static ONCE: OnceLock<Table> = OnceLock::new();
    ONCE.get_or_init(|| {
        let mut table = Table::new();
        let mut current = ("", "");
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix(' ') {
                Some(text) => table.entry(current).or_default().extend(row(text)),
                None => current = kind_of(line),
            }
        }
        for row in table.values_mut().flatten() {
            let column = &mut row.column;
            match column.name.as_str() {
                "Name" => *column = Column { priority: column.priority, ..Column::of_names() },
                "Age" | "Created At" => column.description = CREATED_DESCRIPTION.into(),
                _ => {}
            }
        }
        describe(&mut table);
        table
    })
}

/// Fills in the descriptions of columns.
fn describe(table: &mut Table) {
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for line in DESCRIPTIONS.lines().filter(|line| !line.starts_with('#')) {
        let Some(text) = line.strip_prefix(' ') else {
            kinds = line.split(", ").map(kind_of).collect();
            continue;
        };
        let Some((name, description)) = text.split_once(": ") else { continue };
        for kind in &kinds {
            let rows = table.get_mut(kind).map_or(&mut [][..], Vec::as_mut_slice);
            if let Some(row) = rows.iter_mut().find(|row| row.column.name == name) {
                row.column.description = description.into();
            }
        }
    }
}

fn kind_of(line: &'static str) -> (&'static str, &'static str) {
    let (group, kind) = line.split_once(' ').unwrap_or((line, ""));
    (if group == "core" { "" } else { group }, kind)
}

/// `None` for an unreadable line; a test finds those.
fn row(text: &'static str) -> Option<Row> {
    let (head, cell) = text.split_once(" = ")?;
    let (head, wide) = head.strip_suffix(" +").map_or((head, false), |head| (head, true));
    let (name, type_) = head.split_once(" : ").unwrap_or((head, "string"));
    let (type_, written) = type_.split_once(" as ").unwrap_or((type_, type_));
    let column = Column::new(name, type_);
    Some(Row { column: if wide { column.wide() } else { column }, cell: cell_of(cell, written)? })
}

fn cell_of(text: &'static str, type_: &str) -> Option<Cell> {
    let (head, otherwise) = text.split_once(" | ").map_or((text, None), |(head, text)| (head, Some(text)));
    if let Some(name) = head.strip_prefix("! ") {
        return functions().find(|function| function.name == name).map(Cell::Run);
    }
    if let Some(paths) = head.strip_prefix("# ") {
        return paths.split(" + ").map(path_of).collect::<Option<_>>().map(Cell::Count);
    }
    if let Some(path) = head.strip_prefix("age") {
        let path = if path.is_empty() { ".metadata.creationTimestamp" } else { path.trim_start() };
        return Some(Cell::Age { path: path_of(path)?, otherwise: otherwise.unwrap_or("<unknown>") });
    }
    let otherwise = match (otherwise, type_) {
        (Some(text), _) => text.into(),
        (None, "integer") => 0.into(),
        (None, "boolean") => false.into(),
        (None, "string") => "".into(),
        _ => Value::Null,
    };
    Some(Cell::Value { path: path_of(head)?, otherwise })
}

fn path_of(text: &'static str) -> Option<Vec<&'static str>> {
    Some(text.strip_prefix('.')?.split('.').collect())
}

fn functions() -> impl Iterator<Item = &'static Function> {
    let tables = [pods::FUNCTIONS, workloads::FUNCTIONS, network::FUNCTIONS, cluster::FUNCTIONS, events::FUNCTIONS];
    tables.into_iter().flatten()
}

pub(crate) fn columns(group: &str, kind: &str) -> Vec<Column> {
    match table().get(&(group, kind)) {
        Some(rows) => rows.iter().map(|row| row.column.clone()).collect(),
        None => {
            vec![Column::of_names(), Column::new("Age", "string").described(CREATED_DESCRIPTION)]
        }
    }
}

/// One cell for each of [`columns`].
pub(crate) fn cells(group: &str, kind: &str, object: &Value, now: Time) -> Vec<Value> {
    match table().get(&(group, kind)) {
        Some(rows) => rows.iter().map(|row| cell(&row.cell, object, now)).collect(),
        None => {
            let metadata = &object["metadata"];
            vec![metadata["name"].clone(), age(&metadata["creationTimestamp"], now).into()]
        }
    }
}

/// Flow schemas are sorted by their precedence.
pub(crate) fn row_rank(group: &str, kind: &str) -> Option<fn(&Value) -> i64> {
    fn precedence(schema: &Value) -> i64 {
        schema["spec"]["matchingPrecedence"].as_i64().unwrap_or(0)
    }
    (group == "flowcontrol.apiserver.k8s.io" && kind == "FlowSchema").then_some(precedence)
}

/// The row condition by which clients hide completed pods.
pub(crate) fn row_conditions(group: &str, kind: &str, object: &Value) -> Vec<Value> {
    let phase = object["status"]["phase"].as_str().filter(|_| group.is_empty() && kind == "Pod");
    let (reason, message) = match phase {
        Some("Succeeded") => ("Succeeded", "The pod has completed successfully."),
        Some("Failed") => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

fn cell(cell: &Cell, object: &Value, now: Time) -> Value {
    let at = |path: &[&str]| path.iter().fold(object, |at, name| &at[*name]);
    match cell {
        Cell::Value { path, otherwise } => {
            let value = at(path);
            if value.is_null() || value == "" { otherwise.clone() } else { value.clone() }
        }
        Cell::Count(paths) => paths.iter().map(|path| entries(at(path))).sum::<usize>().into(),
        Cell::Age { path, otherwise } => {
            let seconds = seconds_between(at(path), now);
            seconds.map_or_else(|| (*otherwise).to_owned(), human_duration).into()
        }
        Cell::Run(function) => (function.run)(object, now),
    }
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn entries(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.len(),
        Value::Array(list) => list.len(),
        _ => 0,
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn joined(texts: impl Iterator<Item = impl AsRef<str>>, otherwise: &str) -> String {
    let mut line = String::new();
    for text in texts {
        if !line.is_empty() {
            line.push(',');
        }
        line.push_str(text.as_ref());
    }
    if line.is_empty() { otherwise.to_owned() } else { line }
}

fn pairs(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten();
    joined(pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())), "<none>")
}

/// A selector as text, e.g. `a=b,c in (d,e),!f`: by key, values in order.
fn selector_text(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default())));
    let expressions = list(&selector["matchExpressions"]).map(|expression| {
        let key = expression["key"].as_str().unwrap_or_default();
        let values = || {
            let mut values: Vec<&str> = list(&expression["values"]).filter_map(Value::as_str).collect();
            values.sort_unstable();
            values.join(",")
        };
        let text = match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values()),
            "NotIn" => format!("{key} notin ({})", values()),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        (key, text)
    });
    let mut requirements: Vec<(&str, String)> = labels.chain(expressions).collect();
    requirements.sort_by_key(|(key, _)| *key);
    joined(requirements.into_iter().map(|(_, text)| text), "<none>")
}

fn seconds_between(from: &Value, to: Time) -> Option<i64> {
    seconds_since(from.as_str()?, to)
}

fn seconds_since(from: &str, to: Time) -> Option<i64> {
    let from: jiff::Timestamp = from.parse().ok()?;
    Some(to.timestamp().as_second() - from.as_second())
}

fn age(created: &Value, now: Time) -> String {
    seconds_between(created, now).map_or_else(|| "<unknown>".to_owned(), human_duration)
}

fn condition<'a>(status: &'a Value, type_: &str) -> Option<&'a Value> {
    list(&status["conditions"]).find(|condition| condition["type"] == type_)
}

fn holds(status: &Value, type_: &str) -> bool {
    condition(status, type_).is_some_and(|condition| condition["status"] == "True")
}

/// A value as a cell of type string: numbers as text.
fn plain(value: &Value, otherwise: &str) -> Value {
    match value {
        Value::Null => otherwise.into(),
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests;
