//! Tables of the pages that are compared with the program, or generated from its data with `UPDATE_DOCS=1`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use karmada_api::admission::{Place, WARNINGS};

/// Upstream's commands, in the order of its help.
const UPSTREAM: &str = "explain get create delete edit init deinit addons join unjoin token register unregister cordon uncordon \
                        taint attach logs exec describe interpret apply promote top patch label annotate completion \
                        api-resources api-versions version options";

#[test]
fn the_table_of_commands_is_true() {
    let path = super::root().join("docs/coming-from-karmada.md");
    let text = std::fs::read_to_string(path).expect("a readable page");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = text.lines().map(cells).filter(|row| row.len() == 5 && ["yes", "not yet"].contains(&row[2].as_str()));
    let rows: BTreeMap<String, bool> = rows.map(|row| (row[1].trim_matches('`').to_owned(), row[2] == "yes")).collect();
    let has = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
        let output =
            command.args(["karmadactl", name, "--kubeconfig=/nonexistent"]).output().expect("the binary starts");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        !complaint.contains("unknown command") && !complaint.contains("is not part of this version")
    };
    let upstream: BTreeMap<String, bool> =
        UPSTREAM.split_whitespace().map(|name| (name.to_owned(), has(name))).collect();
    assert_eq!(rows, upstream, "the second column of the page, and whether karmadactl has the command");
}

/// Kinds and fields without effect, as docs/features-and-limits.md lists them.
fn warnings() -> String {
    let mut text = String::from("\n| kind | field | |\n|---|---|---|\n");
    for row in WARNINGS.iter().filter(|row| row.copies.is_none()) {
        let field = if row.field.is_empty() { String::new() } else { format!("`{}`", row.field) };
        let place = if row.place == Place::OurServer { ", with our API server" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {}{place} | {field} | {} |", row.kinds.join(", "), row.text);
    }
    text.push('\n');
    text
}

#[test]
fn warnings_about_copied_secrets_are_documented() {
    let page = std::fs::read_to_string(super::root().join("docs/access.md")).expect("a readable page");
    for row in WARNINGS.iter().filter(|row| row.copies.is_some()) {
        let text = format!("{}: {}", row.field, row.text);
        assert!(page.contains(&text), "docs/access.md does not have: {text}");
    }
}

#[test]
fn the_table_of_kinds_and_fields_without_effect_is_current() {
    let path = super::root().join("docs/features-and-limits.md");
    let page = std::fs::read_to_string(&path).expect("a readable page");
    let begin = page.find("do not edit. -->\n").expect("the mark at the beginning") + "do not edit. -->\n".len();
    let end = page.find("<!-- end -->").expect("the mark at the end");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let page = format!("{}{}{}", &page[..begin], warnings(), &page[end..]);
        std::fs::write(&path, page).expect("the documentation is writable");
        return;
    }
    assert!(page[begin..end] == warnings(), "UPDATE_DOCS=1 cargo test -p karmada --test it docs::tables");
}
