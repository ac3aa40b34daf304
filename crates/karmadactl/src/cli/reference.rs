//! The generated reference page of the documentation; a test of the binary compares it with the file.

use std::fmt::Write as _;

use super::help;
use super::line::{find, tree};
use super::pages::{self, ABSENT};

const PROGRAM: &str = "karmadactl";

/// `docs/reference/karmadactl.md`.
pub fn reference_page() -> String {
    let tree = tree();
    let mut page = format!(
        "# karmadactl\n\n<!-- Made from the program's data by `UPDATE_DOCS=1 cargo test -p karmada reference`; do not edit. -->\n\n\
         After reading this page you can call every command of `karmadactl`. `kubectl karmada` and `karmada karmadactl` are \
         the same program.\nData goes to standard output, everything else to standard error; the exit code is 0 for success \
         and 1 for any failure.\n\n## Options of every command\n\n{}",
        flags(tree.get_arguments().filter(|arg| arg.is_global_set()).collect())
    );
    for entry in pages::all() {
        let Some(command) = find(&tree, entry.command) else { continue };
        let _ = write!(page, "\n## {}\n\n{}.\n", entry.command, help::about(command));
        if !entry.description.is_empty() {
            let _ = writeln!(page, "{}", entry.description);
        }
        let _ = write!(
            page,
            "\n```text\n{}\n```\n\nExamples:\n\n```text\n{}```\n",
            help::usage(PROGRAM, entry),
            help::examples(PROGRAM, entry, "")
        );
        let own = help::own_flags(command);
        if !own.is_empty() {
            let _ = write!(page, "\nOptions:\n\n{}", flags(own));
        }
    }
    page.push_str(
        "\n## Commands of Karmada that are not in this version\n\nEach exits with code 1 and prints this advice.\n\n",
    );
    for (name, instead) in ABSENT {
        let _ = writeln!(page, "- `{name}`: {}", instead);
    }
    page
}

fn flags(flags: Vec<&clap::Arg>) -> String {
    let line = |arg: &clap::Arg| format!("- `{}={}`: {}\n", help::names(arg), help::default(arg), help::meaning(arg));
    flags.into_iter().map(line).collect()
}
