//! Help in kubectl's form: commands in groups, examples for each, and by default only the options that have an effect.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

/// The commands in the order of the help. `karmadactl` and `help` are not clap commands.
const GROUPS: &[(&str, &[&str])] = &[
    ("Basic Commands", &["demo", "up", "member"]),
    (
        "Components",
        &[
            "apiserver",
            "controller-manager",
            "scheduler",
            "descheduler",
            "scheduler-estimator",
            "agent",
            "webhook",
            "aggregated-apiserver",
            "search",
            "metrics-adapter",
        ],
    ),
    ("Other Commands", &["store", "certs", "karmadactl", "version", "help"]),
];

const WORDS: &[(&str, &str)] = &[
    ("karmadactl", "Run karmadactl, which is also this program by the name karmadactl or kubectl-karmada"),
    ("help", "Print the help of a command"),
];

const EXAMPLES: &[(&str, &str)] = &[
    (
        "demo",
        "  # Propagate nginx to simulated clusters until Ctrl-C
  karmada demo

  # Exit with 0 once nginx is ready in the chosen ones of five clusters
  karmada demo --clusters=5 --exit",
    ),
    (
        "up",
        "  # Run a control plane; data and kubeconfig are in ./karmada-data
  karmada up

  # Join two simulated member clusters
  karmada up --simulated-clusters=2

  # Serve other machines, which know this one as karmada.example.org
  karmada up --bind-address=0.0.0.0 --external-hostname=karmada.example.org

  # Serve clients behind a load balancer with a certificate of your own
  karmada up --bind-address=0.0.0.0 --external-hostname=api.example.org:443 \\
    --tls-cert-file=fullchain.pem --tls-private-key-file=key.pem",
    ),
    (
        "apiserver",
        "  # Run an API server; data and kubeconfig are in ./karmada-data
  karmada apiserver

  # Serve other machines under two more names
  karmada apiserver --bind-address=0.0.0.0 --advertise-address=192.0.2.10 \\
    --tls-san=api.example.org,api.internal",
    ),
    (
        "member",
        "  # Run a simulated cluster and join it
  karmada member member1
  karmadactl join member1 --cluster-kubeconfig=karmada-member-member1/member1.config

  # Run a cluster of five nodes in a region
  karmada member member2 --nodes=5 --cpu=8 --memory=32Gi --region=eu-west",
    ),
    (
        "controller-manager",
        "  # Run all controllers against a control plane
  karmada controller-manager --kubeconfig=karmada-apiserver.config

  # Leave one controller out
  karmada controller-manager --kubeconfig=karmada-apiserver.config --controllers='*,-binding'",
    ),
    (
        "scheduler",
        "  # Run the scheduler against a control plane
  karmada scheduler --kubeconfig=karmada-apiserver.config

  # Request estimates of available replicas from the members' estimators
  karmada scheduler --kubeconfig=karmada-apiserver.config --enable-scheduler-estimator=true",
    ),
    (
        "descheduler",
        "  # Move replicas that cannot start, every five minutes
  karmada descheduler --kubeconfig=karmada-apiserver.config --descheduling-interval=5m",
    ),
    (
        "scheduler-estimator",
        "  # Serve estimates for member1
  karmada scheduler-estimator --kubeconfig=member1.config --cluster-name=member1

  # Serve them over TLS, to schedulers with a client certificate only
  karmada scheduler-estimator --kubeconfig=member1.config --cluster-name=member1 \\
    --grpc-auth-cert-file=server.crt --grpc-auth-key-file=server.key --grpc-client-ca-file=ca.crt",
    ),
    (
        "agent",
        "  # Register member1 in pull mode and serve it
  karmada agent --karmada-kubeconfig=karmada-apiserver.config --kubeconfig=member1.config \\
    --cluster-name=member1

  # Open metrics and health to other machines
  karmada agent --karmada-kubeconfig=karmada-apiserver.config --kubeconfig=member1.config \\
    --cluster-name=member1 --metrics-bind-address=:8080 --health-probe-bind-address=:10357",
    ),
    (
        "webhook",
        "  # Serve the webhooks with tls.crt and tls.key of a directory
  karmada webhook --kubeconfig=karmada-apiserver.config --cert-dir=certs

  # Print the webhook configurations for the API server
  karmada webhook --print-configurations --ca-file=ca.crt \\
    --url=https://karmada-webhook.karmada-system.svc:443",
    ),
    (
        "aggregated-apiserver",
        "  # Serve Clusters behind a kube-apiserver
  karmada aggregated-apiserver --kubeconfig=karmada-apiserver.config",
    ),
    (
        "metrics-adapter",
        "  # Serve metrics of members behind a kube-apiserver
  karmada metrics-adapter --kubeconfig=karmada-apiserver.config",
    ),
    (
        "search",
        "  # Serve searches behind a kube-apiserver
  karmada search --kubeconfig=karmada-apiserver.config",
    ),
    (
        "metrics-adapter",
        "  # Read the metrics of a member's pods without the adapter
  kubectl get --raw \\
    /apis/cluster.karmada.io/v1alpha1/clusters/member1/proxy/apis/metrics.k8s.io/v1beta1/pods",
    ),
    (
        "store",
        "  # Take a backup of a control plane, while it runs or while it is stopped
  karmada store backup --data-dir=karmada-data -o karmada.backup

  # Verify a backup
  karmada store verify karmada.backup

  # Restore it to a new machine
  karmada store restore karmada.backup --data-dir=karmada-data",
    ),
    (
        "certs",
        "  # Print the certificates of a control plane and when they expire
  karmada certs check --data-dir=karmada-data

  # Preview a renewal of the certificates of the server and the administrator
  karmada certs renew all --data-dir=karmada-data --dry-run",
    ),
    (
        "store stats",
        "  # Print the size of a store, also beside a running server
  karmada store stats --data-dir=karmada-data

  # Print it for scripts
  karmada store stats --data-dir=karmada-data -o json",
    ),
    (
        "store verify",
        "  # Verify the store of a control plane
  karmada store verify --data-dir=karmada-data

  # Verify a backup
  karmada store verify karmada.backup",
    ),
    (
        "store backup",
        "  # Take a backup of the control plane in ./karmada-data
  karmada store backup

  # Take a backup of a control plane on another machine
  karmada store backup --kubeconfig=karmada-apiserver.config -o karmada.backup

  # Write it to standard output
  karmada store backup -o - | zstd > karmada.backup.zst",
    ),
    (
        "store restore",
        "  # Verify a backup and print what a restore would do
  karmada store restore karmada.backup --data-dir=karmada-data --dry-run

  # Put it in the place of a damaged store, which is kept aside
  karmada store restore karmada.backup --data-dir=karmada-data --replace",
    ),
    (
        "store adopt",
        "  # Survey the etcd of another control plane, which changes nothing
  karmada store adopt --etcd-servers=https://127.0.0.1:2379 --check

  # Prepare it for this program
  karmada store adopt --etcd-servers=https://127.0.0.1:2379",
    ),
    (
        "store copy",
        "  # Print what a copy of a stopped control plane to etcd would hold
  karmada store copy --to=etcd --etcd-servers=https://127.0.0.1:2379 --dry-run

  # Copy from etcd to a data directory
  karmada store copy --to=data-dir --etcd-servers=https://127.0.0.1:2379 --data-dir=karmada-data",
    ),
    (
        "certs check",
        "  # Print the certificates of the control plane in ./karmada-data
  karmada certs check

  # Exit with 1 if a certificate expires within 60 days
  karmada certs check --data-dir=karmada-data --within=60d",
    ),
    (
        "certs renew",
        "  # Renew the certificates that are due
  karmada certs renew --data-dir=karmada-data

  # Replace the key that signs service account tokens
  karmada certs renew service-account-key --data-dir=karmada-data",
    ),
    (
        "version",
        "  # Print the version in one line
  karmada version

  # Print it for scripts
  karmada version -o json",
    ),
];

const TEMPLATE: &str = "{about}\n\n{before-help}{all-args}\n\nUsage:\n  {usage}\n";

/// Adds the help to a command. `--help` omits flags hidden from short help; `--help-all` prints them too.
pub(super) fn shown(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
    let overview = overview(&command);
    let command = names.iter().fold(command, |command, name| command.mut_subcommand(name, of_command));
    with_flags(command).disable_help_subcommand(true).override_help(overview)
}

fn of_command(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let nested: Vec<String> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
    let command = nested.iter().fold(command.disable_help_subcommand(true), |command, nested| {
        command.mut_subcommand(nested, |it| described(it, &format!("{name} {nested}")))
    });
    described(command, &name)
}

fn described(command: Command, name: &str) -> Command {
    let examples = EXAMPLES.iter().find(|(it, _)| *it == name).map_or("", |(_, examples)| examples);
    let hides = command.get_arguments().any(Arg::is_hide_short_help_set);
    let all = Arg::new("help-all").long("help-all").action(ArgAction::HelpLong).hide(!hides);
    let all = all.help("Print help with all flags of upstream's components, also those without an effect");
    with_flags(command).arg(all).help_template(TEMPLATE).before_help(format!("Examples:\n{examples}"))
}

fn with_flags(command: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    command.disable_help_flag(true).arg(help)
}

/// The output of `karmada --help`.
fn overview(command: &Command) -> String {
    use std::fmt::Write as _;
    let about = |name: &str| {
        let word = WORDS.iter().find(|(word, _)| *word == name).map(|(_, about)| (*about).to_owned());
        let command = || command.find_subcommand(name)?.get_about().map(ToString::to_string);
        word.or_else(command).unwrap_or_default()
    };
    let mut text = command.get_about().map(ToString::to_string).unwrap_or_default();
    text.push('\n');
    for (title, names) in GROUPS {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{title}:\n");
        for name in *names {
            let _ = writeln!(text, "  {name:<22}{}", about(name));
        }
    }
    text.push_str(
        "
Options:
  -h, --help            Print help
  -V, --version         Print the version

Usage:
  karmada <command> [options]

Use \"karmada <command> --help\" for examples and options of a command.
",
    );
    text
}

/// `karmada help up` is `karmada up --help`.
pub(super) fn requested(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn help(args: &[&str]) -> String {
        let words = ["karmada"].iter().chain(args).map(OsString::from).collect();
        let error = super::super::command().try_get_matches_from(requested(words)).expect_err("help ends the parsing");
        assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{args:?}: {error}");
        error.to_string()
    }

    #[test]
    fn every_command_is_in_a_group_with_an_imperative_description() {
        let command = super::super::command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let overview = help(&["--help"]);
        for command in command.get_subcommands() {
            let name = command.get_name();
            assert_eq!(grouped.iter().filter(|it| **it == name).count(), 1, "{name}");
            let about = command.get_about().expect(name).to_string();
            assert!(!about.ends_with('.') && about.len() <= 80, "{name}: {about}");
            assert!(overview.contains(&format!("  {name:<22}{about}\n")), "{overview}");
        }
        assert_eq!(grouped.len(), command.get_subcommands().count() + WORDS.len());
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        for command in super::super::command().get_subcommands() {
            let name = command.get_name();
            assert_eq!(help(&[name, "--help"]), help(&["help", name]));
            examples_parse(name);
            for nested in command.get_subcommands() {
                examples_parse(&format!("{name} {}", nested.get_name()));
            }
        }
    }

    fn examples_parse(name: &str) {
        let with = |flag| name.split(' ').chain([flag]).collect::<Vec<_>>();
        let text = help(&with("--help"));
        assert_eq!(text, help(&with("-h")));
        let (before, after) = text.split_once("\n\nExamples:\n  # ").unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(!before.contains('\n') && after.contains("Options:"), "{text}");
        let (_, examples) = EXAMPLES.iter().find(|(it, _)| *it == name).expect(name);
        assert!(examples.lines().all(|line| line.len() < 98), "a terminal wraps it: {examples}");
        let joined = examples.replace("\\\n    ", "");
        let lines: Vec<&str> = joined.lines().map(str::trim).filter(|line| line.starts_with("karmada ")).collect();
        assert!(!lines.is_empty() || name == "metrics-adapter", "{name}");
        for line in lines {
            let command = line.split(" | ").next().unwrap_or(line);
            let words = command.split(' ').map(|word| word.trim_matches('\''));
            let parsed = super::super::command().try_get_matches_from(words);
            let parsed = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
            let first = name.split(' ').next();
            assert_eq!(parsed.subcommand_name(), first, "{line}");
        }
    }

    #[test]
    fn short_help_lists_effective_flags_and_long_help_all() {
        let (short, all) = (help(&["up", "--help"]), help(&["up", "--help-all"]));
        assert!(short.lines().count() < 190, "{} lines:\n{short}", short.lines().count());
        for flag in ["--tls-san", "--advertise-address", "--scheduler-name", "--feature-gates", "--help-all", "-v, --v"]
        {
            assert!(short.contains(flag) && all.contains(flag), "{flag}: {short}");
        }
        for flag in ["--rate-limiter-qps", "--log-dir", "--horizontal-pod-autoscaler-upscale-delay", "--kubeconfig"] {
            assert!(!short.contains(flag) && all.contains(flag), "{flag}");
        }
        assert!(!help(&["demo", "--help"]).contains("--help-all"), "it hides nothing");
    }
}
