//! A model of JSON patches for tests: documents are one table of paths and values, with no tree to walk. An operation
//! removes rows, adds rows, and renames the paths of items that move up or down.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The tokens that lead to a value.
type Place = Vec<String>;

/// The value at a path; containers without their content.
#[derive(Clone, Debug, PartialEq)]
enum Row {
    Map,
    List,
    Scalar(Value),
}

type Table = BTreeMap<Place, Row>;

fn table(value: &Value) -> Table {
    let mut rows = Table::new();
    let mut open = vec![(Place::new(), value.clone())];
    while let Some((place, value)) = open.pop() {
        let below = |token: String| [place.clone(), vec![token]].concat();
        let row = match value {
            Value::Object(map) => {
                open.extend(map.into_iter().map(|(key, value)| (below(key), value)));
                Row::Map
            }
            Value::Array(items) => {
                let numbered = items.into_iter().enumerate();
                open.extend(numbered.map(|(at, value)| (below(at.to_string()), value)));
                Row::List
            }
            scalar => Row::Scalar(scalar),
        };
        rows.insert(place, row);
    }
    rows
}

/// The rows at a path and below it, as a separate table.
fn part(table: &Table, place: &[String]) -> Table {
    let below = table.iter().filter(|(other, _)| other.starts_with(place));
    below.map(|(other, row)| (other[place.len()..].to_vec(), row.clone())).collect()
}

fn without(table: &Table, place: &[String]) -> Table {
    table.iter().filter(|(other, _)| !other.starts_with(place)).map(|(p, row)| (p.clone(), row.clone())).collect()
}

fn length(table: &Table, list: &[String]) -> usize {
    table.keys().filter(|place| place.len() == list.len() + 1 && place.starts_with(list)).count()
}

fn number(token: &str) -> Option<usize> {
    token.parse::<usize>().ok()
}

/// The place of an item among so many: a number, counted from the end where it is negative.
fn item(token: &str, count: usize) -> Option<usize> {
    let number: isize = token.parse().ok()?;
    let at = if number < 0 { number + isize::try_from(count).ok()? } else { number };
    usize::try_from(at).ok().filter(|at| *at < count)
}

/// A place with the numbers of items as they are written in the table. The last one may be one more than there are.
fn written(table: &Table, place: &[String], adding: bool) -> Option<Place> {
    let mut found = Place::new();
    for (depth, token) in place.iter().enumerate() {
        let is_last = depth + 1 == place.len();
        let token = match table.get(&found) {
            Some(Row::List) if adding && is_last && token == "-" => length(table, &found).to_string(),
            Some(Row::List) => {
                let count = length(table, &found) + usize::from(adding && is_last);
                item(token, count)?.to_string()
            }
            _ => token.clone(),
        };
        found.push(token);
    }
    Some(found)
}

/// Renames the items of a list from one on.
fn shifted(table: &Table, list: &[String], from: usize, up: bool) -> Table {
    let rename = |place: &Place| {
        let mut place = place.clone();
        if place.len() > list.len() && place.starts_with(list) {
            let at = number(&place[list.len()]).expect("an item");
            if at >= from {
                place[list.len()] = (if up { at + 1 } else { at - 1 }).to_string();
            }
        }
        place
    };
    table.iter().map(|(place, row)| (rename(place), row.clone())).collect()
}

fn placed(mut table: Table, place: &[String], part: Table) -> Table {
    table.extend(part.into_iter().map(|(below, row)| ([place, &below].concat(), row)));
    table
}

fn add(table: &Table, place: &[String], part: Table) -> Option<Table> {
    let place = written(table, place, true)?;
    let (last, parent) = place.split_last()?;
    match table.get(parent)? {
        Row::Map => Some(placed(without(table, &place), &place, part)),
        Row::List => Some(placed(shifted(table, parent, number(last)?, true), &place, part)),
        Row::Scalar(_) => None,
    }
}

fn remove(table: &Table, place: &[String]) -> Option<(Table, Table)> {
    let place = written(table, place, false)?;
    table.get(&place)?;
    let taken = part(table, &place);
    let (last, parent) = place.split_last()?;
    let rest = without(table, &place);
    let rest = match table.get(parent)? {
        Row::List => shifted(&rest, parent, number(last)?, false),
        _ => rest,
    };
    Some((rest, taken))
}

fn replace(table: &Table, place: &[String], part: Table) -> Option<Table> {
    let place = written(table, place, false)?;
    if place.is_empty() {
        return Some(part).filter(|part| !matches!(part.get(&place), Some(Row::Scalar(_))));
    }
    // kube-apiserver's tolerance: a member that is not there is added.
    let is_member = place.split_last().is_some_and(|(_, parent)| table.get(parent) == Some(&Row::Map));
    (is_member || table.contains_key(&place)).then(|| placed(without(table, &place), &place, part))
}

fn operate(rows: &Table, operation: &Value) -> Option<Table> {
    let place = |key: &str| -> Place {
        let text = operation[key].as_str().unwrap_or_default();
        text.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect()
    };
    let (path, from) = (place("path"), place("from"));
    let value = || table(&operation["value"]);
    match operation["op"].as_str()? {
        "add" => add(rows, &path, value()),
        "remove" => remove(rows, &path).map(|(rest, _)| rest),
        "replace" => replace(rows, &path, value()),
        "move" => {
            let (rest, taken) = remove(rows, &from)?;
            add(&rest, &path, taken)
        }
        // So is one that is copied.
        "copy" => {
            let from = written(rows, &from, false)?;
            let (_, parent) = from.split_last()?;
            let found = part(rows, &from);
            let is_member = rows.get(parent) == Some(&Row::Map);
            let found = if found.is_empty() && is_member { table(&Value::Null) } else { found };
            add(rows, &path, Some(found).filter(|found| !found.is_empty())?)
        }
        _ => {
            let path = written(rows, &path, false)?;
            let found = part(rows, &path);
            let is_member = path.split_last().is_some_and(|(_, parent)| rows.get(parent) == Some(&Row::Map));
            let is_absent = found.is_empty() && is_member && operation["value"].is_null();
            (is_absent || found == value()).then(|| rows.clone())
        }
    }
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), (0..3).prop_map(Value::from), "[ab]".prop_map(Value::from)];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("(a|b|0|1|-|/|~|)", inner, 0..5).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// A path of the document with its last token or two changed, so that it often exists and often barely misses.
fn pointer(places: Vec<Place>) -> impl Strategy<Value = String> {
    let tail = prop::collection::vec("(a|b|0|1|2|3|-|-1|01|/|~|)", 0..2);
    (any::<prop::sample::Index>(), 0..2usize, tail).prop_map(move |(index, cut, tail)| {
        let place = &places[index.index(places.len())];
        let tokens = place[..place.len() - cut.min(place.len())].iter().chain(&tail);
        tokens.map(|token| format!("/{}", token.replace('~', "~0").replace('/', "~1"))).collect()
    })
}

fn document_and_patch() -> impl Strategy<Value = (Value, Vec<Value>)> {
    document().prop_flat_map(|document| {
        let places: Vec<Place> = table(&document).into_keys().collect();
        let op = "(add|remove|replace|move|copy|test)";
        let operation = (op, pointer(places.clone()), pointer(places), self::document(), any::<bool>());
        let kept = document.clone();
        let operation = operation.prop_map(move |(op, path, from, value, same)| {
            // A test that compares with the existing value.
            let there = kept.pointer(&path).filter(|_| op == "test" && same).cloned();
            json!({"op": op, "path": path, "from": from, "value": there.unwrap_or(value)})
        });
        (Just(document), prop::collection::vec(operation, 1..4))
    })
}

proptest! {
    #[test]
    fn operations_equal_the_model((document, operations) in document_and_patch()) {
        let expected = operations.iter().try_fold(table(&document), |rows, operation| operate(&rows, operation));
        let patch = from_value(&Value::from(operations.clone())).expect("a patch");
        let mut result = document.clone();
        let found = patch.apply(&mut result).map(|()| table(&result));
        prop_assert_eq!(found.ok(), expected, "{} + {}", document, Value::from(operations));
    }
}
