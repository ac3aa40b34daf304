//! Flags against upstream's: names, short forms, defaults, types.

use expect_test::expect;

use super::super::line::{find, tree};
use super::help;

/// Upstream's flags, one a line: `COMMAND [-SHORT,]--NAME[=DEFAULT]`.
const UPSTREAM: &str = include_str!("../upstream_flags.txt");

/// Where ours differ, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("api-resources --namespaced", "without the flag both are printed, which upstream calls true"),
    ("interpret --output", "upstream prints YAML without the flag, too"),
    ("describe --show-events", "true for a single object only, as in kubectl 1.36, whose help names true"),
];

fn upstream() -> impl Iterator<Item = &'static str> {
    UPSTREAM.lines().filter(|line| !line.starts_with('#') && !line.ends_with(" none"))
}

fn of_type<T: 'static>(arg: &clap::Arg) -> bool {
    arg.get_value_parser().type_id() == std::any::TypeId::of::<T>()
}

#[test]
fn flags_are_upstreams() {
    let tree = tree();
    let mut wrong = Vec::new();
    for line in upstream() {
        let (command, flag) = line.split_once(" -").expect("a command and a flag");
        let (names, default) = flag.split_once('=').unwrap_or((flag, ""));
        let (short, long) = match names.split_once(',') {
            Some((short, long)) => (short.chars().next(), long.trim_start_matches('-')),
            None => (None, names.trim_start_matches('-')),
        };
        if DIFFERENT.iter().any(|(known, _)| *known == format!("{command} --{long}")) {
            continue;
        }
        let found = find(&tree, command).expect("a command of ours");
        let global = tree.get_arguments().filter(|arg| arg.is_global_set());
        let Some(arg) = found.get_arguments().chain(global).find(|arg| arg.get_long() == Some(long)) else {
            wrong.push(format!("{command} --{long} is missing"));
            continue;
        };
        if short.is_some() && arg.get_short() != short {
            wrong.push(format!("{command} --{long}: -{} is not {short:?}", arg.get_short().unwrap_or(' ')));
        }
        let own = help::default(arg);
        let bare = |text: &str| text.trim_matches(['\'', '[', ']']).to_owned();
        let is_switch = matches!(default, "true" | "false");
        let is_own_switch = of_type::<bool>(arg);
        let is_number = !default.is_empty() && default.parse::<i64>().is_ok();
        let is_text = of_type::<String>(arg) || of_type::<std::path::PathBuf>(arg);
        if bare(&own) != bare(default) || is_switch != is_own_switch || (is_number && is_text) {
            wrong.push(format!("{command} --{long}: {own}, upstream's is {default}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every command of upstream's is compared, and a flag that upstream does not have is a decision.
#[test]
fn flags_beyond_upstreams_are_listed() {
    let tree = tree();
    let known: Vec<String> = upstream()
        .map(|line| {
            let (command, flag) = line.split_once(" -").expect("a command and a flag");
            let names = flag.split('=').next().unwrap_or_default();
            format!("{command} --{}", names.rsplit(',').next().unwrap_or_default().trim_start_matches('-'))
        })
        .collect();
    let without = UPSTREAM.lines().filter_map(|line| line.strip_suffix(" none"));
    let commands = without.chain(known.iter().filter_map(|it| Some(it.split_once(" --")?.0)));
    let commands: std::collections::BTreeSet<&str> = commands.collect();
    let mut more = String::new();
    for name in &commands {
        let command = find(&tree, name).unwrap_or_else(|| panic!("{name} is not a command"));
        let own = help::own_flags(command).into_iter().filter_map(clap::Arg::get_long);
        let own: Vec<&str> = own.filter(|long| !known.contains(&format!("{name} --{long}"))).collect();
        if !own.is_empty() {
            more.push_str(&format!("{name}: {}\n", own.join(" ")));
        }
    }
    expect![[r#"
        create: namespace
        get: chunk-size field-selector
        join: renew
        token delete: dry-run
        version: output
    "#]]
    .assert_eq(&more);
}
