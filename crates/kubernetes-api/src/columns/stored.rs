//! Table rows of stored objects: the cells are written from the encoded object, and only the fields they show are
//! decoded.

use std::collections::HashMap;
use std::sync::OnceLock;

use apimachinery::age::human_duration;
use apimachinery::meta::Time;
use apimachinery::raw_json::{self, Paths, Places};
use apimachinery::resource;
use serde_json::{Error, Value};

use super::{Cell, row_conditions, seconds_since, table};

/// The plan for the rows of a kind.
struct Plan {
    paths: Paths,
    cells: Vec<Planned>,
    /// The values that functions read, by the indexes of their paths.
    decoded: Vec<usize>,
    /// The path of the kind's conditions.
    conditions: Option<usize>,
}

/// A cell; its paths are positions in [`Plan::paths`].
enum Planned {
    Value { place: usize, otherwise: Value },
    Count(Vec<usize>),
    Age { place: usize, otherwise: &'static str },
    Run(&'static super::Function),
}

impl Plan {
    fn of(group: &str, kind: &str) -> Self {
        let mut paths = Paths::default();
        let cells = match table().get(&(group, kind)) {
            Some(rows) => rows.iter().map(|row| planned(&row.cell, &mut paths)).collect(),
            None => vec![
                Planned::Value { place: paths.add(["metadata", "name"]), otherwise: Value::Null },
                Planned::Age { place: paths.add(["metadata", "creationTimestamp"]), otherwise: "<unknown>" },
            ],
        };
        let mut read = Vec::new();
        for cell in &cells {
            if let Planned::Run(function) = cell {
                read.extend(function.reads.iter().map(|path| paths.add(names(path))));
            }
        }
        let decoded = paths.outermost(read);
        let conditions = (group.is_empty() && kind == "Pod").then(|| paths.add(["status", "phase"]));
        Self { paths, cells, decoded, conditions }
    }
}

fn planned(cell: &Cell, paths: &mut Paths) -> Planned {
    let mut place = |path: &[&'static str]| paths.add(path.iter().copied());
    match cell {
        Cell::Value { path, otherwise } => Planned::Value { place: place(path), otherwise: otherwise.clone() },
        Cell::Count(all) => Planned::Count(all.iter().map(|path| place(path)).collect()),
        Cell::Age { path, otherwise } => Planned::Age { place: place(path), otherwise },
        Cell::Run(function) => Planned::Run(function),
    }
}

fn names(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('.').skip(1)
}

fn plan(group: &str, kind: &str) -> &'static Plan {
    type Plans = HashMap<&'static str, HashMap<&'static str, Plan>>;
    static ONCE: OnceLock<(Plans, Plan)> = OnceLock::new();
    let (listed, other) = ONCE.get_or_init(|| {
        let mut listed = Plans::new();
        for (group, kind) in table().keys() {
            listed.entry(group).or_default().insert(kind, Plan::of(group, kind));
        }
        (listed, Plan::of("", ""))
    });
    listed.get(group).and_then(|kinds| kinds.get(kind)).unwrap_or(other)
}

/// [`apimachinery::resource::Strategy::write_row`] of built-in kinds.
pub(crate) fn write_row(group: &str, kind: &str, json: &[u8], now: Time, out: &mut Vec<u8>) -> Result<(), Error> {
    let plan = plan(group, kind);
    let mut places = Places::new();
    plan.paths.find(json, &mut places);
    let at = |place: usize| places[place].clone().map_or(&b"null"[..], |span| &json[span]);
    let decoded = match plan.decoded.is_empty() {
        true => Value::Null,
        false => plan.paths.tree(json, &places, &plan.decoded)?,
    };
    out.extend_from_slice(b"\"cells\":[");
    for (position, cell) in plan.cells.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        match cell {
            Planned::Value { place, otherwise } => match at(*place) {
                b"null" | b"\"\"" => serde_json::to_writer(&mut *out, otherwise)?,
                value => write_value(value, out)?,
            },
            Planned::Count(places) => {
                let count: usize = places.iter().map(|place| raw_json::entries(at(*place))).sum();
                serde_json::to_writer(&mut *out, &count)?;
            }
            Planned::Age { place, otherwise } => {
                let since = plain_text(at(*place)).and_then(|text| seconds_since(text, now));
                let text = since.map_or_else(|| (*otherwise).to_owned(), human_duration);
                serde_json::to_writer(&mut *out, &text)?;
            }
            Planned::Run(function) => serde_json::to_writer(&mut *out, &(function.run)(&decoded, now))?,
        }
    }
    out.push(b']');
    if let Some(place) = plan.conditions {
        let phase = serde_json::json!({"status": {"phase": serde_json::from_slice::<Value>(at(place))?}});
        resource::write_conditions(&row_conditions(group, kind, &phase), out)?;
    }
    Ok(())
}

/// Writes a stored value: unchanged, unless it may have several spellings.
fn write_value(json: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let is_plain = match json {
        [b'"', ..] => plain_text(json).is_some(),
        [b't' | b'f', ..] => true,
        _ => json.len() <= 18 && json.iter().all(u8::is_ascii_digit),
    };
    if is_plain {
        out.extend_from_slice(json);
        return Ok(());
    }
    let value: Value = serde_json::from_slice(json)?;
    serde_json::to_writer(out, &value)
}

/// The content of a JSON string without escapes.
fn plain_text(json: &[u8]) -> Option<&str> {
    let inside = json.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    std::str::from_utf8(inside).ok().filter(|text| !text.contains('\\'))
}

#[cfg(test)]
mod tests {
    use super::super::{cells, functions};
    use super::*;

    #[test]
    fn functions_read_their_declared_paths() {
        for function in functions() {
            let paths =
                function.reads.iter().all(|path| path.starts_with('.') && names(path).all(|name| !name.is_empty()));
            assert!(paths && !function.reads.is_empty(), "{}", function.name);
        }
    }

    #[test]
    fn values_are_written_as_they_would_be_encoded() {
        let now = Time::new("2026-01-01T00:05:00Z".parse().expect("a time"));
        for (json, expected) in [
            (
                r#"{"metadata":{"name":"a\u0062\n"},"type":"","data":{"a":1, "b":{}}}"#,
                r#"["ab\n","Opaque",2,"<unknown>"]"#,
            ),
            (
                r#"{"metadata":{"name":1.50,"creationTimestamp":"x"},"type":{"a": [1]}}"#,
                r#"[1.5,{"a":[1]},0,"<unknown>"]"#,
            ),
            (r#"{"metadata":[1],"type":null,"data":[1,[2,3]]}"#, r#"["","Opaque",2,"<unknown>"]"#),
        ] {
            let mut out = Vec::new();
            write_row("", "Secret", json.as_bytes(), now, &mut out).expect("a row");
            assert_eq!(String::from_utf8_lossy(&out), format!("\"cells\":{expected}"));
            let tree: Value = serde_json::from_str(json).expect("JSON");
            assert_eq!(Value::from(cells("", "Secret", &tree, now)).to_string(), expected);
        }
    }
}
