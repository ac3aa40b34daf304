//! The repository follows the rules of `cargo xtask tidy`, and each rule can fail.

use xtask::tidy::{clippy, manifest, page, repository, source};

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
    assert!(check("crates/kubernetes-api/tests/it/defaults.rs", "//!\n").contains("remove its row"));
    let clock = "//!\n// Instant::now in a comment\nlet now = Instant::now();\n";
    assert_eq!(check("crates/cel/src/a.rs", clock), "crates/cel/src/a.rs:3: a pure crate uses Instant::now");
    assert_eq!(check("crates/storage/src/a.rs", clock), "", "a shell crate may");
    assert_eq!(check("crates/cel/src/a.rs", "//!\n#[cfg(test)]\nuse std::fs;\n"), "", "tests may");
    assert!(check("crates/cel/src/a.rs", "//!\nasync fn a() {}\n").contains("a pure crate uses async fn"));
    let index = "//!\nobject[\"metadata\"].as_object_mut();\n";
    assert!(check("crates/storage/src/a.rs", index).contains("use get_mut"));
    let group = "//!\nconst GROUP: &str = \"work.karmada.io\";\n";
    assert!(check("crates/apiserver/src/a.rs", group).contains("does not depend on Karmada"));
    assert!(check("crates/storage/src/a.rs", group).contains("knows no kind"));
    assert_eq!(check("crates/controllers/src/a.rs", group), "");
    let global = "//!\npub static METRICS: LazyLock<Registry> = LazyLock::new(Registry::default);\n";
    assert!(check("crates/client/src/a.rs", global).contains("a registry that is global"));
    let clock = "//!\n#[allow(clippy::disallowed_methods, reason = \"none\")]\n";
    assert!(check("crates/client/src/a.rs", clock).contains("only world reads clocks"));
    assert_eq!(check("crates/world/src/lib.rs", clock), "");
    assert_eq!(check("crates/client/tests/it/a.rs", clock), "", "tests may measure");
}

#[test]
fn a_function_has_at_most_seventy_lines() {
    let check = |path: &str, text: String| source(path, &text).join("; ");
    let lines = |count: usize| "        call();\n".repeat(count);
    let method = |count: usize| {
        format!(
            "//!\nimpl A {{\n    pub(super) async fn long(\n        a: B,\n    ) -> C\n    where\n        C: D,\n    {{\n{}    }}\n}}\n",
            lines(count)
        )
    };
    assert_eq!(check("crates/client/src/a.rs", method(63)), "");
    assert_eq!(
        check("crates/client/src/a.rs", method(64)),
        "crates/client/src/a.rs:3: long has 71 lines, the limit is 70"
    );
    let declared = format!("//!\ntrait A {{\n    fn one(&self);\n{}    fn two();\n}}\n", "    // Text.\n".repeat(80));
    assert_eq!(check("crates/client/src/a.rs", declared), "");
    let tested = format!("//!\n#[cfg(test)]\nmod tests {{\n    fn table() {{\n{}    }}\n}}\n", lines(90));
    assert_eq!(check("crates/client/src/a.rs", tested), "", "tests may be tables");
    assert_eq!(check("crates/client/tests/it/a.rs", method(90)), "");
    assert!(check("crates/cel/src/eval/functions/mod.rs", "//!\n".into()).contains("remove its row from LONG"));
}

#[test]
fn each_rule_of_a_manifest_can_fail() {
    assert_eq!(manifest("a/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n"), [""; 0]);
    assert_eq!(manifest("a/Cargo.toml", "[package]\n").len(), 1);
}

#[test]
fn a_page_may_only_name_files_that_exist() {
    let check = |text: &str| page("a.md", text, |name| ["docs/a.md", "crates/b/src/c.rs"].contains(&name)).join("; ");
    assert_eq!(check("`docs/a.md`, `crates/b/src/c`, `crates/KIND/d.rs`, `cargo test -p docs/x`, docs/none.md"), "");
    assert_eq!(check("see `docs/b.md`"), "a.md: docs/b.md does not exist");
}

#[test]
fn clocks_are_disallowed() {
    assert_eq!(clippy("").len(), 4);
}
