//! Flags of every command.

use super::super::line::{dashed, find};
use super::*;

#[test]
fn every_command_accepts_a_verbosity() {
    for (line, expected) in [
        ("get pods -v 6", ("get", 6)),
        ("get pods -v=6", ("get", 6)),
        ("get pods -v6", ("get", 6)),
        ("get --v=6 pods", ("get", 6)),
        ("--v 9 get pods", ("get", 9)),
        ("-v 9 get pods -v=4", ("get", 4)),
        ("-v9 token -v=2 list", ("token list", 2)),
        ("token -v 2 create --ttl -1h", ("token create", 2)),
        ("exec pod -v=6 -- cmd -v 3", ("exec", 6)),
        ("version --v=-1", ("version", -1)),
        ("options -v 1", ("options", 1)),
        ("get pods", ("get", 0)),
    ] {
        match read("karmadactl", words(line)) {
            Request::Execute { name, cli } => {
                assert_eq!((name.as_str(), cli.control_plane.verbosity), expected, "{line}");
            }
            Request::Print(text) | Request::Refuse(text) => panic!("{line}: {text}"),
        }
    }
    for line in ["get pods -v", "get pods --v"] {
        let Request::Refuse(text) = read("karmadactl", words(line)) else { panic!("{line} is accepted") };
        assert_eq!(text, "error: flag needs an argument: --v\nSee 'karmadactl get --help' for usage.\n", "{line}");
    }
    let Request::Refuse(text) = read("karmadactl", words("get pods -v high")) else { panic!("it is accepted") };
    assert!(text.starts_with("error: invalid argument \"high\" for \"--v\" flag: invalid digit"), "{text}");
}

#[test]
fn underscores_in_the_names_of_flags_are_dashes() {
    fn executed(line: &str) -> Box<Cli> {
        match read("karmadactl", words(line)) {
            Request::Execute { cli, .. } => cli,
            Request::Print(text) | Request::Refuse(text) => panic!("{line}: {text}"),
        }
    }
    for line in [
        "get pods --karmada_context=a_b",
        "get pods --karmada_context a_b",
        "--karmada_context a_b get pods",
        "token --karmada_context a_b list",
        "get pods --karmada_context=x --all_namespaces --karmada-context a_b",
        "get pods -n --karmada_context --karmada_context a_b",
    ] {
        assert_eq!(executed(line).control_plane.karmada_context.as_deref(), Some("a_b"), "{line}");
    }
    let tree = tree();
    for (line, values) in [
        ("get pods --field_selector --a_b", "--field-selector --a_b"),
        ("get pods -l --a_b=c_d --sort_by x_y", "-l --a_b=c_d --sort-by x_y"),
        ("get pods -Al --a_b", "-Al --a_b"),
        ("get pods -lx --sort_by y", "-lx --sort-by y"),
        ("get pods --no_such=a", "--no_such=a"),
        ("get pods -- --sort_by", "-- --sort_by"),
    ] {
        let got = dashed(words(line), &tree, find(&tree, "get").expect("a command"));
        assert_eq!(got, words(&format!("get pods {values}")), "{line}");
    }
    let Command::Exec { .. } = executed("exec pod --operation_scope=members -C m_1 -- cmd --a_b").command else {
        panic!("another command")
    };
    let Request::Refuse(text) = read("karmadactl", words("get --no_such")) else { panic!("it is accepted") };
    assert!(text.starts_with("error: unknown flag: --no_such\n"), "{text}");
}
