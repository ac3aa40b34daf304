//! Flags of every command.

use expect_test::expect;

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
    assert!(text.starts_with("error: invalid argument \"high\" for \"--v\" flag: strconv.ParseInt:"), "{text}");
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

/// Scripts and upstream's documentation use them with every command.
#[test]
fn klogs_flags_are_accepted() {
    for line in [
        "get pods --add-dir-header --alsologtostderr --one-output --skip-headers --skip-log-headers",
        "get pods --logtostderr=false --log-dir=/tmp --log-file x --log-file-max-size 100",
        "--logtostderr --add_dir_header=true get pods --log-backtrace-at=a.go:7",
        "--stderrthreshold WARNING token --alsologtostderr list --vmodule=a=4",
        "version --alsologtostderrthreshold=1 --legacy-stderr-threshold-behavior=false",
    ] {
        let request = read("karmadactl", words(line));
        assert!(matches!(request, Request::Execute { .. }), "{line}");
    }
    let Request::Refuse(text) = read("karmadactl", words("get --log-file-max-size=a")) else {
        panic!("it is accepted")
    };
    assert!(text.starts_with("error: invalid argument \"a\" for \"--log-file-max-size\" flag: "), "{text}");
}

#[test]
fn options_lists_klogs_flags() {
    expect![[r#"
        The following options can be passed to any command:

            --kubeconfig='':
        	Path to the kubeconfig file of the control plane; $KUBECONFIG or ~/.kube/config when empty

            --karmada-context='':
        	Name of the control plane's context in the kubeconfig file; its current one when empty

            -v, --v=0:
        	Number for the log level verbosity; from 6 on, each request is logged

            --add-dir-header=false:
        	Name the directory of the source file in each log line (no effect)

            --alsologtostderr=false:
        	Log to standard error as well as to files (no effect)

            --alsologtostderrthreshold='':
        	With --alsologtostderr, the least severity that goes to standard error (no effect)

            --legacy-stderr-threshold-behavior=true:
        	With --logtostderr, do not apply --stderrthreshold (no effect)

            --log-backtrace-at=':0':
        	Write a stack trace where a line is logged from FILE:LINE (no effect)

            --log-dir='':
        	Directory of log files, without --logtostderr (no effect)

            --log-file='':
        	Log file, without --logtostderr (no effect)

            --log-file-max-size=1800:
        	Maximum size of a log file in megabytes; 0 is no limit (no effect)

            --logtostderr=true:
        	Log to standard error instead of files (no effect)

            --one-output=false:
        	Write a line to the file of its own severity only (no effect)

            --skip-headers=false:
        	Leave out the header of each log line (no effect)

            --skip-log-headers=false:
        	Leave out the header of each log file (no effect)

            --stderrthreshold='2':
        	Least severity that goes to standard error when logs go to files (no effect)

            --vmodule='':
        	Values of -v by source file: pattern=N, comma-separated (no effect)
    "#]]
    .assert_eq(&help::options(&tree()));
}
