//! The table of karmadactl's commands in docs/coming-from-karmada.md.

use std::collections::BTreeMap;
use std::process::Command;

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
