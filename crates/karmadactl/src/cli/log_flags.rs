//! klog's flags, which upstream's commands inherit from the root command.

use clap::{Arg, ArgAction, value_parser};

/// Names, defaults and meanings. A switch has the default `true` or `false`.
///
/// They have no effect: the log has only the lines that `-v` requires, which are always written to standard error.
const FLAGS: &[(&str, &str, &str)] = &[
    ("add-dir-header", "false", "Name the directory of the source file in each log line"),
    ("alsologtostderr", "false", "Log to standard error as well as to files"),
    ("alsologtostderrthreshold", "", "With --alsologtostderr, the least severity that goes to standard error"),
    ("legacy-stderr-threshold-behavior", "true", "With --logtostderr, do not apply --stderrthreshold"),
    ("log-backtrace-at", ":0", "Write a stack trace where a line is logged from FILE:LINE"),
    ("log-dir", "", "Directory of log files, without --logtostderr"),
    ("log-file", "", "Log file, without --logtostderr"),
    ("log-file-max-size", "1800", "Maximum size of a log file in megabytes; 0 is no limit"),
    ("logtostderr", "true", "Log to standard error instead of files"),
    ("one-output", "false", "Write a line to the file of its own severity only"),
    ("skip-headers", "false", "Leave out the header of each log line"),
    ("skip-log-headers", "false", "Leave out the header of each log file"),
    ("stderrthreshold", "2", "Least severity that goes to standard error when logs go to files"),
    ("vmodule", "", "Values of -v by source file: pattern=N, comma-separated"),
];

/// The flags as arguments of every command.
pub fn args() -> impl Iterator<Item = Arg> {
    FLAGS.iter().map(|(name, default, meaning)| {
        let arg = Arg::new(*name).long(*name).global(true).help(format!("{meaning} (no effect)"));
        let arg = arg.action(ArgAction::Set).default_value(*default);
        match *default {
            "true" | "false" => {
                arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_parser(value_parser!(bool))
            }
            "1800" => arg.value_parser(value_parser!(u64)),
            _ => arg,
        }
    })
}

/// Whether a flag is one of them.
pub fn is_one(name: &str) -> bool {
    FLAGS.iter().any(|(known, ..)| *known == name)
}
