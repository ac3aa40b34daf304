//! The rules of admission, row by row: `tests/rules.txt`.

use std::collections::BTreeMap;

use apimachinery::merge_patch;
use karmada_api::admission::Operation;
use serde_json::{Value, json};

use crate::samples::{Kind, admit, kinds, read, validate};

const ROWS: &str = include_str!("../rules.txt");

/// Whether a text is the pattern, in which `…` stands for anything.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The object after admission, or the refusal.
fn run(kind: &Kind, sample: &str, operation: &str, patch: &Value) -> Result<Value, String> {
    let mut object = read(sample);
    match operation {
        "create" => merge_patch::apply(&mut object, patch),
        // On the first of the webhooks a configuration lists.
        "hook" => merge_patch::apply(&mut object["webhooks"][0], patch),
        "update" => {
            admit(kind, Operation::Create, None, &mut object)?;
            let old = object.clone();
            merge_patch::apply(&mut object, patch);
            return admit(kind, Operation::Update, Some(&old), &mut object).map(|()| object);
        }
        // Validating rules alone, as for who goes past the mutating ones.
        "validate" => {
            merge_patch::apply(&mut object, patch);
            return validate(kind, Operation::Create, None, &object).map(|()| object);
        }
        "delete" => {
            merge_patch::apply(&mut object, patch);
            return validate(kind, Operation::Delete, Some(&object), &object).map(|()| object);
        }
        other => panic!("no operation {other}"),
    }
    admit(kind, Operation::Create, None, &mut object).map(|()| object)
}

#[test]
fn every_rule_accepts_and_refuses_as_upstream_does() {
    let kinds = kinds();
    let mut wrong = Vec::new();
    let mut seen: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for row in ROWS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let parts: Vec<&str> = row.split(" | ").collect();
        let [id, sample, operation, patch, expected] = parts[..] else { panic!("not a row: {row}") };
        let patch = serde_json::from_str(patch).unwrap_or_else(|error| panic!("{error}: {row}"));
        let found = run(&kinds[sample], sample, operation, &patch);
        let counts = seen.entry(id).or_default();
        let fits = match (&found, expected.strip_prefix('/').and_then(|rest| rest.split_once(" = "))) {
            (Ok(object), Some((pointer, value))) => {
                counts.0 += 1;
                let value: Value = serde_json::from_str(value).unwrap_or_else(|error| panic!("{error}: {row}"));
                object.pointer(&format!("/{pointer}")) == Some(&value)
            }
            (Ok(_), None) => {
                counts.0 += 1;
                expected == "ok"
            }
            (Err(text), _) => {
                counts.1 += 1;
                is_like(&text.replace('\n', "\\n"), expected)
            }
        };
        if !fits {
            let found = found.map(|object| object.to_string());
            wrong.push(format!("{row}\n  => {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    for (id, (accepting, refusing)) in &seen {
        assert!(*accepting > 0, "{id} has no row that accepts");
        assert!(*refusing > 0 || id.contains("-M"), "{id} has no row that refuses");
    }
    assert_eq!(seen.len(), 167, "rules with rows");
}

#[test]
fn what_is_not_a_rule_of_a_kind_is_left_alone() {
    let kinds = kinds();
    for name in ["remedy", "workloadrebalancer", "serviceexport", "serviceimport"] {
        let mut object = read(name);
        let before = object.clone();
        admit(&kinds[name], Operation::Create, None, &mut object).unwrap();
        assert_eq!(object, before, "{name}");
    }
    let object = json!({"metadata": {"name": "a"}});
    assert_eq!(validate(&kinds["remedy"], Operation::Update, Some(&object), &object), Ok(()));
}
