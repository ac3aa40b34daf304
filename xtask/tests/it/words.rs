//! Words of the project's own dialect are found in comments and pages, and nowhere else.

use xtask::words::{changelog, is_prose, words};

#[test]
fn words_are_found_in_prose_only() {
    let rows = [
        ("a.rs", "/// What a client is told.", "a.rs:1: \"told\"; write reported, returned, logged"),
        ("a.rs", "let a = 1; // nobody knows", "a.rs:1: \"nobody\"; write no client, no user, no caller"),
        ("a.rs", "let told = \"nobody\";", ""),
        ("a.rs", "/// As `told` reports; foretold.", ""),
        ("a.md", "It is Judged.", "a.md:1: \"judged\"; write validated, checked, authorized"),
        ("a.md", "```\nnobody\n```\nwell", ""),
    ];
    for (path, text, expected) in rows {
        assert_eq!(words(path, text).join("; "), expected, "{text}");
    }
    assert!(!is_prose("xtask/src/words.rs") && !is_prose("a.json") && is_prose("docs/a.md"));
}

#[test]
fn changes_are_short() {
    let change = |count: usize| format!("- {}\n", vec!["word"; count].join(" "));
    assert_eq!(changelog(&change(25)), [""; 0]);
    assert_eq!(changelog(&change(26)).len(), 1);
}
