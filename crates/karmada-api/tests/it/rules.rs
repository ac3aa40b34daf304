//! The rules of admission, row by row: `tests/rules.txt`.

use std::collections::BTreeMap;

use apimachinery::merge_patch;
use karmada_api::admission::{Operation, Request, quota_usage};
use serde_json::{Value, json};

use crate::samples::{Kind, admit, kinds, read, validate, with_request};

const ROWS: &str = include_str!("../rules.txt");

/// The patches of a sample's rejected rows.
pub fn breaking(sample: &str) -> Vec<Value> {
    let rows = ROWS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let cells = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    let fitting = cells.filter(|it| it[1] == sample && !it[4].starts_with(['/', 'o', 'n']));
    fitting
        .filter_map(|it| {
            let patch: Value = serde_json::from_str(it[3]).unwrap();
            match it[2] {
                "create" | "update" => Some(patch),
                "hook" => {
                    let mut webhooks = read(sample)["webhooks"].clone();
                    merge_patch::apply(&mut webhooks[0], &patch);
                    Some(json!({ "webhooks": webhooks }))
                }
                _ => None,
            }
        })
        .collect()
}

/// Whether a text matches the pattern, in which `…` matches anything.
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

/// The object after admission, or the denial.
fn run(kind: &Kind, sample: &str, operation: &str, patch: &Value) -> Result<Value, String> {
    let mut object = read(sample);
    match operation {
        "create" => merge_patch::apply(&mut object, patch),
        // On the first webhook of the configuration.
        "hook" => merge_patch::apply(&mut object["webhooks"][0], patch),
        "update" => {
            admit(kind, Operation::Create, None, &mut object)?;
            let old = object.clone();
            merge_patch::apply(&mut object, patch);
            return admit(kind, Operation::Update, Some(&old), &mut object).map(|()| object);
        }
        // Validating rules only, as for requests that bypass the mutating ones.
        "validate" => {
            merge_patch::apply(&mut object, patch);
            return validate(kind, Operation::Create, None, &object).map(|()| object);
        }
        // The charges on the sample's `quotas`; `old` is the previous binding.
        "charge" => {
            let mut patch = patch.clone();
            let quotas = patch.as_object_mut().unwrap().remove("quotas").unwrap();
            let before = patch.as_object_mut().unwrap().remove("old");
            let old = before.map(|before| {
                let mut old = object.clone();
                merge_patch::apply(&mut old, &before);
                old
            });
            merge_patch::apply(&mut object, &patch);
            let operation = if old.is_some() { Operation::Update } else { Operation::Create };
            let charge = |request: &Request<'_>| quota_usage::charge(request, &object, quotas.as_array().unwrap());
            let charges = with_request(kind, operation, old.as_ref(), &object, charge)?;
            return Ok(json!({"charges": charges.into_iter().map(|it| it.overall_used).collect::<Vec<_>>()}));
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
fn every_rule_accepts_and_rejects_as_upstream() {
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
            (Ok(object), None) => {
                counts.0 += 1;
                let absent = expected.strip_prefix("no ").is_some_and(|pointer| object.pointer(pointer).is_none());
                expected == "ok" || absent
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
    assert_eq!(seen.len(), 169, "rules with rows");
}

#[test]
fn kinds_without_rules_are_unchanged() {
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
