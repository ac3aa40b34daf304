//! The rules of third-party crates and of advisories can fail.

use xtask::advisories::{Advisory, of_database, row, table};
use xtask::third_party::{Locked, dependencies, duplicates, locked, permitted, sources};

#[test]
fn licences_are_expressions() {
    for (expression, expected) in [
        ("MIT", true),
        ("MIT OR GPL-3.0", true),
        ("MIT/Apache-2.0", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("GPL-3.0", false),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND AGPL-3.0", false),
        ("", false),
    ] {
        assert_eq!(permitted(expression), expected, "{expression}");
    }
}

#[test]
fn each_rule_of_a_dependency_can_fail() {
    let check = |built: &str| dependencies(built).join("; ");
    assert_eq!(check("a v1.0.0|MIT\nring v0.17.0|Apache-2.0 AND ISC\nours v0.1.0 (/w)|\n"), "");
    assert_eq!(check("openssl v1.0.0|MIT\n"), "openssl: another implementation of TLS");
    assert!(check("kube-client v5.0.0|MIT\n").starts_with("kube-client: is for tests only: "));
    assert_eq!(check("a v1.0.0|\n"), "a: licence \"\" is not permitted");
    assert!(check("ring v1.0.0|ISC\naws-lc-rs v1.0.0|ISC\n").contains("more than one provider"));
}

#[test]
fn a_second_version_needs_a_row() {
    let known = "base64 v1|MIT\nbase64 v2|MIT\n";
    let found = duplicates(&format!("{known}a v1.0.0 (/w)|\na v1.0.0|MIT\na v1.1.0|MIT\na v1.1.0 (*)|MIT\n"));
    assert!(found.contains(&"a: several versions {\"v1.0.0\", \"v1.1.0\"}".to_owned()), "{found:?}");
    assert!(!found.iter().any(|it| it.starts_with("base64")), "{found:?}");
    assert!(duplicates("").contains(&"base64: has one version; remove its row from DUPLICATES".to_owned()));
}

fn lock() -> Vec<Locked> {
    locked(
        "version = 4\n\n[[package]]\nname = \"h2\"\nversion = \"0.4.15\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n\n\
         [[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"x\"\nversion = \"1.0.0\"\nsource = \"git+https://example.com/x\"\n",
    )
}

#[test]
fn crates_must_come_from_the_registry() {
    let names: Vec<String> = lock().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["h2", "x"]);
    assert_eq!(sources(&lock()), ["x 1.0.0: from git+https://example.com/x, which is not the registry"]);
}

fn check(advisory: &Advisory, version: &str, affected: bool) {
    let locked = Locked { name: advisory.package.clone(), version: version.to_owned(), source: String::new() };
    assert_eq!(advisory.finding(&locked).is_some(), affected, "{} {version}", advisory.id);
}

#[test]
fn versions_with_an_advisory_are_found() {
    let table = table().expect("every row is well-formed");
    let found: Vec<String> = lock().iter().flat_map(|it| table.iter().filter_map(|row| row.finding(it))).collect();
    assert_eq!(found, ["h2 0.4.15: unbounded queue of empty DATA frames (RUSTSEC-2026-0258)"]);
    let ranges = row("R\ta\t>=0.11.6,<0.12.0 | >=0.12.1\t<0.2.0\tx").expect("a row");
    for (version, affected) in
        [("0.1.0", false), ("0.2.0", true), ("0.11.5", true), ("0.11.9", false), ("0.12.0", true), ("0.13.0", false)]
    {
        check(&ranges, version, affected);
    }
    check(&ranges, "new", true);
    for malformed in ["R\ta", "R\ta\tsoon\t-\tx"] {
        assert!(row(malformed).is_err(), "{malformed}");
    }
}

#[test]
fn files_of_the_database_are_read() {
    let text = |more: &str| {
        format!(
            "```toml\n[advisory]\nid = \"RUSTSEC-2026-9999\"\npackage = \"a\"\n{more}\n[versions]\npatched = [\n  \">= 1.2.0\",\n  \">= 1.1.5, < 1.2.0\",\n]\n\
             unaffected = [\"< 1.0.0\"]\n```\n\n# A title\n"
        )
    };
    let advisory = of_database(&text("")).expect("an advisory");
    for (version, affected) in [("0.9.0", false), ("1.0.0", true), ("1.1.5", false), ("1.2.0", false)] {
        check(&advisory, version, affected);
    }
    for ignored in [text("withdrawn = \"2026-01-01\""), text("informational = \"unmaintained\""), String::new()] {
        assert_eq!(of_database(&ignored), None);
    }
}
