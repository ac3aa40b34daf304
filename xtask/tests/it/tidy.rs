//! The rules of `cargo xtask tidy` hold, and each of them can fail.

use xtask::tidy::{dependencies, manifest, page, permitted, repository, source};

#[test]
fn the_repository_is_tidy() {
    let findings = repository().expect("git and cargo");
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn each_rule_of_a_source_file_can_fail() {
    let check = |path: &str, text: &str| source(path, text).join("; ");
    assert_eq!(check("crates/cel/src/lib.rs", "//! Good.\n"), "");
    assert_eq!(check("crates/cel/src/lib.rs", "use x;\n"), "crates/cel/src/lib.rs: does not begin with //!");
    assert_eq!(check("a.rs", &format!("//!\n{}", "\n".repeat(500))), "a.rs: 501 lines, the limit is 500");
    assert!(check("crates/propagation/src/works.rs", "//!\n").contains("remove its row"));
    let clock = "//!\n// Instant::now in a comment\nlet now = Instant::now();\n";
    assert_eq!(check("crates/cel/src/a.rs", clock), "crates/cel/src/a.rs:3: a pure crate uses Instant::now");
    assert_eq!(check("crates/storage/src/a.rs", clock), "", "a shell crate may");
    assert_eq!(check("crates/cel/src/a.rs", "//!\n#[cfg(test)]\nuse std::fs;\n"), "", "tests may");
}

#[test]
fn each_rule_of_a_manifest_can_fail() {
    assert_eq!(manifest("a/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n"), [""; 0]);
    assert_eq!(manifest("a/Cargo.toml", "[package]\n").len(), 1);
}

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
    assert_eq!(check("a v1.0.0|\n"), "a: licence \"\" is not permitted");
    assert!(check("ring v1.0.0|ISC\naws-lc-rs v1.0.0|ISC\n").contains("more than one provider"));
}

#[test]
fn a_page_may_only_name_files_that_exist() {
    let check = |text: &str| page("a.md", text, |name| ["docs/a.md", "crates/b/src/c.rs"].contains(&name)).join("; ");
    assert_eq!(check("`docs/a.md`, `crates/b/src/c`, `crates/KIND/d.rs`, `cargo test -p docs/x`, docs/none.md"), "");
    assert_eq!(check("see `docs/b.md`"), "a.md: docs/b.md does not exist");
}
