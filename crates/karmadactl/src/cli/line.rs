//! A command line into the request that it is.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, FromArgMatches};

use super::{Cli, help, pages, refusal};

/// The request of a command line.
pub enum Request {
    /// Text for stdout, with exit code 0.
    Print(String),
    /// Text for stderr, with exit code 1.
    Refuse(String),
    Execute {
        name: String,
        cli: Box<Cli>,
    },
}

/// Parses a command line; `program` is the name by which the user calls it.
pub fn read(program: &str, args: Vec<OsString>) -> Request {
    let mut args = command_first(args);
    let tree = tree();
    if args.get(1).is_some_and(|word| word == "--version") {
        args[1] = "version".into();
    }
    // `help COMMAND` is `COMMAND --help`.
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.truncate(2);
        args.push("--help".into());
    }
    let word = args.get(1).map(|word| word.to_string_lossy().into_owned()).filter(|word| !word.starts_with('-'));
    let Some(name) = word else {
        return match tree.clone().try_get_matches_from(&args) {
            Err(error) if error.kind() == ErrorKind::UnknownArgument => {
                Request::Refuse(refusal::of_parser(program, None, &error))
            }
            // No command is a question for one.
            _ => Request::Print(help::root(program, &tree)),
        };
    };
    if let Some(text) = pages::absent(program, &name) {
        return Request::Refuse(text);
    }
    let Some(mut command) = tree.find_subcommand(&name) else {
        return Request::Refuse(refusal::unknown_command(program, &tree, &name));
    };
    let mut name = command.get_name().to_owned();
    if command.has_subcommands() {
        match args.get(2).map(|word| word.to_string_lossy()).filter(|word| !word.starts_with('-')) {
            None => return Request::Print(help::command(program, &name, command)),
            Some(word) => match command.find_subcommand(&*word) {
                Some(below) => {
                    command = below;
                    name = format!("{name} {}", below.get_name());
                }
                None => return Request::Refuse(refusal::unknown_command(&format!("{program} {name}"), command, &word)),
            },
        }
    }
    match tree.clone().try_get_matches_from(&args).and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => Request::Execute { name, cli: Box::new(cli) },
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Request::Print(help::command(program, &name, command)),
        Err(error) => Request::Refuse(refusal::of_parser(program, Some(&name), &error)),
    }
}

/// The command of a page, whose name may have two words.
pub fn find<'t>(tree: &'t clap::Command, name: &str) -> Option<&'t clap::Command> {
    name.split(' ').try_fold(tree, |command, word| command.find_subcommand(word))
}

/// The tree of commands. As in Go, a switch takes a value, too: `--dry-run=false`; and the word after a flag that needs
/// a value is the value, whatever it begins with: `--ttl -1h`.
pub fn tree() -> clap::Command {
    fn needs_value(flag: &clap::Arg) -> bool {
        !flag.is_require_equals_set() && flag.get_num_args().is_none_or(|number| number.min_values() > 0)
    }
    fn with_values(command: clap::Command) -> clap::Command {
        let with_value = |arg: clap::Arg| match arg.get_action() {
            ArgAction::SetTrue => arg
                .action(ArgAction::Set)
                .num_args(0..=1)
                .require_equals(true)
                .default_value("false")
                .default_missing_value("true")
                .value_parser(clap::value_parser!(bool)),
            ArgAction::Set | ArgAction::Append if !arg.is_positional() && needs_value(&arg) => {
                arg.allow_hyphen_values(true)
            }
            _ => arg,
        };
        // As deep as the tree of commands, which is two.
        command.mut_args(with_value).mut_subcommands(with_values)
    }
    with_values(Cli::command())
}

/// Moves the command before its leading flags, because users of kubectl write `karmadactl -n web get pods`. Whether a
/// flag takes the next word as its value is unknown before the command is; as cobra does, long flags without `=` and
/// all short flags are assumed to take one.
pub fn command_first(mut args: Vec<OsString>) -> Vec<OsString> {
    let mut at = 1;
    while let Some(word) = args.get(at).and_then(|word| word.to_str()) {
        if !word.starts_with('-') {
            args[1..=at].rotate_right(1);
            break;
        }
        // These need no command.
        if matches!(word, "--" | "-h" | "--help" | "-V" | "--version") {
            break;
        }
        let has_value = !word.contains('=') && (word.starts_with("--") || word.len() == 2);
        at += if has_value { 2 } else { 1 };
    }
    args
}
