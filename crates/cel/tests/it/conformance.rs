//! Tables: one expression per line, and its result after the arrow.

use crate::printing::{cost, outcome};

fn check(table: &str) {
    compare(table, outcome);
}

fn compare(table: &str, found: fn(&str) -> String) {
    let mut wrong = Vec::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (source, expected) = line.split_once(" ==> ").unwrap_or_else(|| panic!("no arrow: {line}"));
        let found = found(source);
        if found != expected {
            wrong.push(format!("{source}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn literals_and_operators() {
    check(include_str!("tables/operators.txt"));
}

#[test]
fn compile_errors() {
    check(include_str!("tables/refused.txt"));
}

#[test]
fn macros() {
    check(include_str!("tables/macros.txt"));
}

#[test]
fn documents() {
    check(include_str!("tables/documents.txt"));
}

#[test]
fn strings() {
    check(include_str!("tables/strings.txt"));
}

#[test]
fn libraries() {
    check(include_str!("tables/libraries.txt"));
}

#[test]
fn costs_are_upstreams() {
    compare(include_str!("tables/costs.txt"), cost);
}
