//! Items of "What never happens" without a test are found.

use xtask::promises::promises;

#[test]
fn every_item_names_a_test_that_exists() {
    let read = |path: &str| {
        (path == "crates/a/src/b.rs").then(|| {
            "fn helper() {}\n\n#[test]\nfn one() {}\n\n#[tokio::test(start_paused = true)]\n#[ignore]\nasync fn two() {}\n".to_owned()
        })
    };
    let check =
        |items: &str| promises(&format!("# A\n\n## What never happens\n\n{items}\n## Next\n- x\n"), read).join("; ");
    assert_eq!(check("- One (`crates/a/src/b.rs::one`).\n- Two\n  (`crates/a/src/b.rs::two`).\n"), "");
    assert_eq!(check("- One (`clippy.toml`).\n"), "names no test: One (`clippy.toml`).");
    assert_eq!(check("- One (`crates/a/src/b.rs::gone`).\n"), "crates/a/src/b.rs has no test gone");
    assert_eq!(check("- One (`crates/a/src/b.rs::helper`).\n"), "crates/a/src/b.rs has no test helper");
    assert_eq!(check("- One (`crates/a/src/c.rs::one`).\n"), "crates/a/src/c.rs has no test one");
    assert_eq!(promises("# A\n", read), ["no section \"## What never happens\""]);
}
