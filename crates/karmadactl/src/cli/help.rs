//! Help in kubectl's layout, from the tree of commands and their pages.

use std::any::TypeId;
use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

use super::pages::{self, ABSENT, Group, Page};

/// The width of lines that are filled.
const WIDTH: usize = 110;

/// `karmadactl --help`.
pub fn root(program: &str, tree: &Command) -> String {
    let listed = || pages::all().filter(|page| !page.command.contains(' '));
    let width = listed().map(|page| page.command.len()).max().unwrap_or_default();
    let mut text = format!("{}\n", about(tree));
    for group in Group::LISTED {
        let _ = write!(text, "\n{}\n", group.title());
        for page in listed().filter(|page| page.group == group) {
            let about = tree.find_subcommand(page.command).map(about).unwrap_or_default();
            let _ = writeln!(text, "  {:width$}   {about}", page.command);
        }
    }
    text.push_str("\nNot in this version (each answers with what to use instead):\n");
    let absent: Vec<&str> = ABSENT.iter().map(|(name, _)| *name).collect();
    text.push_str(&filled(&absent));
    let _ = write!(
        text,
        "\nUsage:\n  {program} [flags] [options]\n\nUse \"{program} <command> --help\" for more information about a given \
         command.\n{}",
        footer(program)
    );
    text
}

/// `karmadactl COMMAND --help`.
pub fn command(program: &str, name: &str, command: &Command) -> String {
    let Some(page) = pages::page(name) else { return String::new() };
    let mut text = format!("{}.\n", about(command));
    if !page.description.is_empty() {
        let _ = write!(text, "\n {}\n", page.description);
    }
    let _ = write!(text, "\nExamples:\n{}", examples(program, page, "  "));
    let below: Vec<&Command> = command.get_subcommands().collect();
    if !below.is_empty() {
        let width = below.iter().map(|it| it.get_name().len()).max().unwrap_or_default().max(11);
        text.push_str("\nAvailable Commands:\n");
        below.iter().for_each(|it| text.push_str(&format!("  {:width$} {}\n", it.get_name(), about(it))));
    }
    let flags: Vec<&Arg> = own_flags(command);
    if !flags.is_empty() {
        text.push_str("\nOptions:\n");
        text.push_str(&flags.into_iter().map(flag).collect::<Vec<_>>().join("\n"));
    }
    let _ = write!(text, "\nUsage:\n  {}\n\n{}", usage(program, page), footer(program));
    text
}

/// `karmadactl options`.
pub fn options(tree: &Command) -> String {
    let global = tree.get_arguments().filter(|arg| arg.is_global_set() && !arg.is_hide_set());
    let flags: Vec<String> = global.map(flag).collect();
    format!("The following options can be passed to any command:\n\n{}", flags.join("\n"))
}

/// How a command is called.
pub fn usage(program: &str, page: &Page) -> String {
    let arguments = [program, page.command, page.arguments, "[options]"];
    arguments.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The examples of a page, each with its comment.
pub fn examples(program: &str, page: &Page, indent: &str) -> String {
    let mut text = String::new();
    for (position, (comment, lines)) in page.examples.iter().enumerate() {
        let gap = if position == 0 { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{indent}# {comment}");
        for line in lines.lines() {
            let _ = writeln!(text, "{indent}{}", line.replace("karmadactl ", &format!("{program} ")));
        }
    }
    text
}

pub fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// The flags of a command, without those of every command, sorted by name.
pub fn own_flags(command: &Command) -> Vec<&Arg> {
    let own =
        |arg: &&Arg| arg.get_long().is_some_and(|name| name != "help") && !arg.is_hide_set() && !arg.is_global_set();
    let mut flags: Vec<&Arg> = command.get_arguments().filter(own).collect();
    flags.sort_by_key(|arg| arg.get_long());
    flags
}

fn flag(arg: &Arg) -> String {
    format!("    {}={}:\n\t{}\n", names(arg), default(arg), meaning(arg))
}

/// `-n, --namespace`
pub fn names(arg: &Arg) -> String {
    let long = arg.get_long().unwrap_or_default();
    arg.get_short().map_or_else(|| format!("--{long}"), |short| format!("-{short}, --{long}"))
}

pub fn meaning(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// The default as kubectl prints it: text in quotes, lists in brackets, other values unchanged.
pub fn default(arg: &Arg) -> String {
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(",");
    let type_ = arg.get_value_parser().type_id();
    let is_bool = type_ == TypeId::of::<bool>();
    let is_text = type_ == TypeId::of::<String>() || type_ == TypeId::of::<std::path::PathBuf>();
    match arg.get_action() {
        ArgAction::Append => format!("[{defaults}]"),
        _ if arg.get_value_delimiter().is_some() => format!("[{defaults}]"),
        _ if is_bool && defaults.is_empty() => "false".to_owned(),
        _ if is_text => format!("'{defaults}'"),
        _ => defaults,
    }
}

fn footer(program: &str) -> String {
    format!("Use \"{program} options\" for a list of global command-line options (applies to all commands).\n")
}

/// Words in lines of [`WIDTH`] at most, separated by commas.
fn filled(words: &[&str]) -> String {
    let mut text = String::new();
    let mut line = String::from(" ");
    for (position, word) in words.iter().enumerate() {
        let comma = if position + 1 < words.len() { "," } else { "" };
        if line.len() + word.len() + 2 > WIDTH {
            let _ = writeln!(text, "{line}");
            line = String::from(" ");
        }
        let _ = write!(line, " {word}{comma}");
    }
    let _ = writeln!(text, "{line}");
    text
}
