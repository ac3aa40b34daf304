//! A command line into the request that it is.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, FromArgMatches};

use super::help::own_flags;
use super::{Cli, help, log_flags, pages, refusal};

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
    let tree = tree();
    let mut args = command_first(args, &tree);
    if args.get(1).is_some_and(|word| word == "--version") {
        args[1] = "version".into();
    }
    // `help COMMAND` is `COMMAND --help`.
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        // Words behind the command are not read.
        let mut known = Some(&tree);
        let below = args.iter().skip(1).take_while(|word| {
            known = known.and_then(|command| command.find_subcommand(word));
            known.is_some()
        });
        let words = 1 + below.count().max(1);
        args.truncate(words);
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
    let mut depth = 2;
    while command.has_subcommands() {
        // One that also does something itself, such as `create -f`.
        let is_optional = !own_flags(command).is_empty();
        let Some(at) = next_word(&args, depth, &tree, command) else {
            if is_optional {
                break;
            }
            return Request::Print(help::command(program, &name, command));
        };
        let word = args[at].to_string_lossy().into_owned();
        let Some(below) = command.find_subcommand(&word) else {
            return Request::Refuse(refusal::unknown_command(&format!("{program} {name}"), command, &word));
        };
        args[depth..=at].rotate_right(1);
        command = below;
        name = format!("{name} {}", below.get_name());
        depth += 1;
    }
    let args = without_empty(dashed(args, &tree, command));
    match tree.clone().try_get_matches_from(&args).and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => Request::Execute { name, cli: Box::new(cli) },
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Request::Print(help::command(program, &name, command)),
        Err(error) => Request::Refuse(refusal::of_parser(program, Some(&name), &error)),
    }
}

/// The place of the first word from `from` on that is neither a flag nor its value. Flags of the command are known; of
/// others, which a command below may have, long ones without `=` and all short ones are assumed to take a value, as
/// cobra does.
fn next_word(args: &[OsString], from: usize, tree: &clap::Command, command: &clap::Command) -> Option<usize> {
    let find =
        |is_it: &dyn Fn(&clap::Arg) -> bool| command.get_arguments().chain(tree.get_arguments()).find(|arg| is_it(arg));
    let mut at = from;
    while let Some(word) = args.get(at).and_then(|word| word.to_str()) {
        if matches!(word, "--" | "-h" | "--help" | "-V" | "--version") {
            return None;
        }
        let known = match (word.strip_prefix("--"), word.strip_prefix('-')) {
            (Some(long), _) => find(&|arg| arg.get_long() == Some(&long.replace('_', "-"))),
            (None, Some(short)) => short.chars().last().and_then(|last| find(&|arg| arg.get_short() == Some(last))),
            (None, None) => return Some(at),
        };
        let is_alone = !word.contains('=') && (word.starts_with("--") || word.len() == 2);
        at += if is_alone && known.is_none_or(takes_next) { 2 } else { 1 };
    }
    None
}

/// The command of a page, whose name may have several words.
pub fn find<'t>(tree: &'t clap::Command, name: &str) -> Option<&'t clap::Command> {
    name.split(' ').try_fold(tree, |command, word| command.find_subcommand(word))
}

fn needs_value(flag: &clap::Arg) -> bool {
    !flag.is_require_equals_set() && flag.get_num_args().is_none_or(|number| number.min_values() > 0)
}

/// Whether the word after a flag is its value.
fn takes_next(flag: &clap::Arg) -> bool {
    flag.get_action().takes_values() && needs_value(flag)
}

/// The tree of commands. As in Go, a switch takes a value, too: `--dry-run=false`; and the word after a flag that needs
/// a value is the value, whatever it begins with: `--ttl -1h`.
pub fn tree() -> clap::Command {
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
        // As deep as the tree of commands, which is three.
        command.mut_args(with_value).mut_subcommands(with_values)
    }
    with_values(Cli::command().args(log_flags::args()))
}

/// Moves the command before its leading flags, because users of kubectl write `karmadactl -n web get pods`.
pub fn command_first(mut args: Vec<OsString>, tree: &clap::Command) -> Vec<OsString> {
    if let Some(at) = next_word(&args, 1, tree, tree) {
        args[1..=at].rotate_right(1);
    }
    args
}

/// Removes flags with an empty value whose absence means the same, as scripts with unset variables have them.
pub fn without_empty(args: Vec<OsString>) -> Vec<OsString> {
    let is_one = |name: &str| matches!(name, "-n" | "--namespace" | "--kubeconfig");
    let end = args.iter().position(|word| word == "--").unwrap_or(args.len());
    let mut kept = Vec::with_capacity(args.len());
    let mut words = args.into_iter().enumerate().peekable();
    while let Some((at, word)) = words.next() {
        let text = word.to_str().filter(|_| at < end).unwrap_or_default();
        if is_one(text) && words.next_if(|(_, value)| value.is_empty()).is_some() {
            continue;
        }
        if !text.strip_suffix('=').is_some_and(is_one) {
            kept.push(word);
        }
    }
    kept
}

/// Writes the names of known flags with `-` for `_`, which upstream accepts. Values do not change.
pub fn dashed(mut args: Vec<OsString>, tree: &clap::Command, command: &clap::Command) -> Vec<OsString> {
    let find =
        |is_it: &dyn Fn(&clap::Arg) -> bool| command.get_arguments().chain(tree.get_arguments()).find(|arg| is_it(arg));
    let mut is_value = false;
    for word in &mut args {
        let is_flag = !std::mem::take(&mut is_value);
        let Some(text) = word.to_str().filter(|_| is_flag) else { continue };
        if text == "--" {
            break;
        }
        if let Some(flag) = text.strip_prefix("--") {
            let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            let name = name.replace('_', "-");
            let Some(arg) = find(&|arg| arg.get_long() == Some(&name)) else { continue };
            is_value = value.is_none() && takes_next(arg);
            *word = value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}")).into();
        } else if let Some(letters) = text.strip_prefix('-') {
            // The rest of the word after the first flag with a value is its value.
            let of = |letter| find(&|arg| arg.get_short() == Some(letter));
            let valued = letters.char_indices().find(|(_, letter)| of(*letter).is_none_or(takes_next));
            is_value =
                valued.is_some_and(|(at, letter)| of(letter).is_some() && letters[at..].len() == letter.len_utf8());
        }
    }
    args
}
