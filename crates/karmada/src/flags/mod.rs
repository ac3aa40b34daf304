//! The flags of upstream's components, declared once as data (`flags.tsv`): `--help`, parsing and the documentation come
//! from it. A flag without an effect here is known and refused, never ignored; what has no effect in upstream either, or
//! asks for what happens anyway, is taken.

mod reference;

use std::sync::OnceLock;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use karmada_api::gates::{self, Gates};

use crate::logging::Logging;

pub use reference::{flags_page, gates_page, metrics_page};

const TABLE: &str = include_str!("flags.tsv");

/// Upstream's components, in the order of the documentation.
pub const COMPONENTS: &[&str] = &[
    "controller-manager",
    "agent",
    "scheduler",
    "scheduler-estimator",
    "descheduler",
    "webhook",
    "aggregated-apiserver",
    "search",
    "metrics-adapter",
];

/// What `karmada up` takes the flags of.
const UP: &[&str] = &["controller-manager", "scheduler", "webhook", "descheduler"];

/// Flags of upstream's components that `karmada up` carries out, besides those it declares itself.
pub const EFFECTIVE_IN_UP: &[&str] = &[
    "allow-no-execute-taint-policy",
    "cluster-api-burst",
    "cluster-api-qps",
    "cluster-failure-threshold",
    "cluster-status-update-frequency",
    "cluster-success-threshold",
    "descheduling-interval",
    "disable-scheduler-estimator-in-pull-mode",
    "enable-empty-workload-propagation",
    "enable-scheduler-estimator",
    "feature-gates",
    "insecure-skip-estimator-verify",
    "plugins",
    "scheduler-estimator-ca-file",
    "scheduler-estimator-cert-file",
    "scheduler-estimator-key-file",
    "scheduler-estimator-port",
    "scheduler-estimator-service-namespace",
    "scheduler-estimator-service-prefix",
    "scheduler-estimator-timeout",
    "scheduler-name",
    "skipped-propagating-apis",
    "skipped-propagating-namespaces",
    "unschedulable-threshold",
];

/// Those `karmada scheduler` carries out.
pub const EFFECTIVE_IN_SCHEDULER: &[&str] = &[
    "disable-scheduler-estimator-in-pull-mode",
    "enable-empty-workload-propagation",
    "enable-scheduler-estimator",
    "feature-gates",
    "health-probe-bind-address",
    "insecure-skip-estimator-verify",
    "kube-api-burst",
    "kube-api-qps",
    "kubeconfig",
    "leader-elect",
    "leader-elect-lease-duration",
    "leader-elect-renew-deadline",
    "leader-elect-resource-name",
    "leader-elect-resource-namespace",
    "leader-elect-retry-period",
    "master",
    "metrics-bind-address",
    "plugins",
    "rate-limiter-base-delay",
    "rate-limiter-bucket-size",
    "rate-limiter-max-delay",
    "rate-limiter-qps",
    "scheduler-estimator-ca-file",
    "scheduler-estimator-cert-file",
    "scheduler-estimator-key-file",
    "scheduler-estimator-port",
    "scheduler-estimator-service-namespace",
    "scheduler-estimator-service-prefix",
    "scheduler-estimator-timeout",
    "scheduler-name",
];

/// Those `karmada scheduler-estimator` carries out.
pub const EFFECTIVE_IN_SCHEDULER_ESTIMATOR: &[&str] = &[
    "cluster-name",
    "feature-gates",
    "grpc-auth-cert-file",
    "grpc-auth-key-file",
    "grpc-client-ca-file",
    "health-probe-bind-address",
    "insecure-skip-grpc-client-verify",
    "kube-api-burst",
    "kube-api-qps",
    "kubeconfig",
    "master",
    "metrics-bind-address",
    "server-port",
];

/// Those `karmada descheduler` carries out.
pub const EFFECTIVE_IN_DESCHEDULER: &[&str] = &[
    "descheduling-interval",
    "health-probe-bind-address",
    "insecure-skip-estimator-verify",
    "kube-api-burst",
    "kube-api-qps",
    "kubeconfig",
    "leader-elect",
    "leader-elect-lease-duration",
    "leader-elect-renew-deadline",
    "leader-elect-resource-namespace",
    "leader-elect-retry-period",
    "master",
    "metrics-bind-address",
    "scheduler-estimator-ca-file",
    "scheduler-estimator-cert-file",
    "scheduler-estimator-key-file",
    "scheduler-estimator-port",
    "scheduler-estimator-service-namespace",
    "scheduler-estimator-service-prefix",
    "scheduler-estimator-timeout",
    "unschedulable-threshold",
];

/// Components that are commands of their own: the command's name is the component's, with what it carries out.
pub const ALONE: &[(&str, &[&str])] = &[
    ("webhook", EFFECTIVE_IN_WEBHOOK),
    ("scheduler", EFFECTIVE_IN_SCHEDULER),
    ("scheduler-estimator", EFFECTIVE_IN_SCHEDULER_ESTIMATOR),
    ("descheduler", EFFECTIVE_IN_DESCHEDULER),
];

/// Those `karmada webhook` carries out.
pub const EFFECTIVE_IN_WEBHOOK: &[&str] = &[
    "allow-no-execute-taint-policy",
    "bind-address",
    "cert-dir",
    "feature-gates",
    "health-probe-bind-address",
    "kubeconfig",
    "metrics-bind-address",
    "secure-port",
    "tls-cert-file-name",
    "tls-min-version",
    "tls-private-key-file-name",
];

/// Log flags, which every command with flags of upstream's takes. Those of them that only concern files have no effect in
/// upstream either while `--logtostderr` is on, and it always is here.
pub const LOGGING: &[&str] = &[
    "add-dir-header",
    "alsologtostderr",
    "alsologtostderrthreshold",
    "legacy-stderr-threshold-behavior",
    "log-dir",
    "log-file",
    "log-file-max-size",
    "log-flush-frequency",
    "logging-format",
    "logtostderr",
    "one-output",
    "skip-headers",
    "skip-log-headers",
    "stderrthreshold",
    "v",
    "vmodule",
];

/// Flags without an effect on anything that can be seen: of profiles, which are never served; of how many threads share
/// the work of one estimate, which is one computation here.
pub const INERT: &[&str] = &["parallelism", "profiling-bind-address"];

/// Commands that carry out every gate their counterpart in upstream reads; other gates change nothing in either.
const READ_ALL_THEIR_GATES: &[&str] = &["scheduler", "scheduler-estimator"];

/// Gates that change something when they are set to what is not their default.
pub const EFFECTIVE_GATES: &[&str] = &[
    gates::CONTROLLER_PRIORITY_QUEUE,
    gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING,
    gates::FEDERATED_QUOTA_ENFORCEMENT,
    gates::MULTIPLE_POD_TEMPLATES_SCHEDULING,
    gates::PRIORITY_BASED_SCHEDULING,
    gates::PROPAGATE_DEPS,
    gates::PROPAGATION_POLICY_PREEMPTION,
    gates::RESOURCE_QUOTA_ESTIMATE,
    gates::SCHEDULING_OVERCOMMIT_PROTECTION,
    gates::WORKLOAD_AFFINITY,
];

/// One flag. A name stands twice where components mean different things by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    pub name: &'static str,
    pub type_: &'static str,
    /// Component and default.
    pub defaults: Vec<(&'static str, &'static str)>,
    pub meaning: &'static str,
}

impl Flag {
    pub fn default_of(&self, component: &str) -> Option<&'static str> {
        self.defaults.iter().find(|(name, _)| *name == component).map(|(_, default)| *default)
    }
}

fn flag(line: &'static str) -> Option<Flag> {
    let mut cells = line.split('\t');
    let (name, type_, spread, meaning) = (cells.next()?, cells.next()?, cells.next()?, cells.next()?);
    let defaults = spread.split(';').filter_map(|group| group.split_once('='));
    let defaults = defaults.flat_map(|(on, default)| on.split(',').map(move |component| (component, default)));
    Some(Flag { name, type_, defaults: defaults.collect(), meaning })
}

/// All of them.
pub fn flags() -> &'static [Flag] {
    static FLAGS: OnceLock<Vec<Flag>> = OnceLock::new();
    FLAGS.get_or_init(|| TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(flag).collect())
}

/// Adds the flags of `components` to a command that has not declared them itself.
fn with_flags(mut command: Command, components: &[&str], effective: &[&str]) -> Command {
    let mut declared: Vec<String> =
        command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
    for component in components {
        for flag in flags() {
            let Some(default) = flag.default_of(component) else { continue };
            if declared.iter().any(|name| name == flag.name) {
                continue;
            }
            declared.push(flag.name.to_owned());
            let works = effective.contains(&flag.name) || LOGGING.contains(&flag.name);
            command = command.arg(argument(flag, default, works));
        }
    }
    command
}

/// Apart from the ids of what a command declares itself.
fn id(name: &str) -> String {
    format!("upstream:{name}")
}

fn argument(flag: &Flag, default: &'static str, effective: bool) -> Arg {
    let help = if flag.name == "feature-gates" { gates::help() } else { flag.meaning.to_owned() };
    let mut arg = Arg::new(id(flag.name)).long(flag.name).help(help).value_name(flag.type_).allow_hyphen_values(true);
    if !default.is_empty() {
        arg = arg.default_value(default);
    }
    if flag.name == "v" {
        arg = arg.short('v');
    }
    if flag.type_ == "bool" {
        arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    if effective {
        arg.help_heading("Flags of upstream's components")
    } else {
        arg.help_heading("Flags of upstream's components without an effect here: refused").hide_short_help(true)
    }
}

/// The commands with the flags of upstream's components.
pub fn extend(command: Command) -> Command {
    let command = command.mut_subcommand("up", |it| with_flags(it, UP, EFFECTIVE_IN_UP));
    ALONE.iter().fold(command, |command, (component, effective)| {
        command.mut_subcommand(component, |it| with_flags(it, &[component], effective))
    })
}

/// What was given on the command line.
pub struct Given<'a> {
    matches: &'a ArgMatches,
    pub gates: Gates,
}

impl<'a> Given<'a> {
    /// Checks what a command was given: nothing without an effect, unless it asks a component for its default.
    pub fn read(matches: &'a ArgMatches, command: &str, effective: &[&str]) -> anyhow::Result<Self> {
        let works = |name: &str| [effective, LOGGING, INERT].iter().any(|list| list.contains(&name));
        let is_default = |name: &str| {
            let flag = flags().iter().find(|flag| flag.name == name && flag.default_of(command).is_some());
            flag.and_then(|flag| flag.default_of(command)) == Some(text(matches, name))
        };
        for name in matches.ids().filter_map(|known| known.as_str().strip_prefix("upstream:")) {
            if !works(name) && is_given(matches, name) && !is_default(name) {
                anyhow::bail!("--{name} is a flag of upstream's that has no effect in this version; leave it out");
            }
        }
        let text = text(matches, "feature-gates");
        let gates = Gates::parse(text)
            .map_err(|error| anyhow::anyhow!("invalid argument {text:?} for \"--feature-gates\" flag: {error}"))?;
        let concerns = |name: &str| !READ_ALL_THEIR_GATES.contains(&command) && !EFFECTIVE_GATES.contains(&name);
        if let Some((gate, open)) = gates.changed().find(|(gate, _)| concerns(gate.name)) {
            anyhow::bail!(
                "feature gate {}={open} has no effect in this version, which acts as with {}; leave it out",
                gate.name,
                gate.default
            );
        }
        Ok(Self { matches, gates })
    }

    /// What the log flags of a command ask for; those of one without such flags are at their defaults.
    pub fn logging(matches: &ArgMatches) -> anyhow::Result<Logging> {
        Logging::read(|name| text(matches, name))
    }

    /// The text of a flag, empty if it has none.
    pub fn text(&self, name: &str) -> &str {
        text(self.matches, name)
    }

    /// Whether it stands on the command line.
    pub fn is_given(&self, name: &str) -> bool {
        is_given(self.matches, name)
    }

    pub fn is_true(&self, name: &str) -> anyhow::Result<bool> {
        match self.text(name) {
            "true" | "1" | "t" | "T" | "TRUE" | "True" => Ok(true),
            "" | "false" | "0" | "f" | "F" | "FALSE" | "False" => Ok(false),
            text => anyhow::bail!(
                "invalid argument {text:?} for \"--{name}\" flag: strconv.ParseBool: parsing {text:?}: invalid syntax"
            ),
        }
    }

    /// A value that is parsed as Go writes it.
    pub fn parsed<T: std::str::FromStr>(&self, name: &str) -> anyhow::Result<T>
    where
        T::Err: std::fmt::Display,
    {
        let text = self.text(name);
        text.parse().map_err(|error| anyhow::anyhow!("invalid argument {text:?} for \"--{name}\" flag: {error}"))
    }

    /// A list as pflag reads it: commas, with or without brackets around.
    pub fn list(&self, name: &str) -> Vec<&str> {
        let text = self.text(name);
        let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        text.split(',').filter(|item| !item.is_empty()).collect()
    }

    /// A duration that is not negative.
    pub fn duration(&self, name: &str) -> anyhow::Result<std::time::Duration> {
        let parsed: apimachinery::duration::Duration = self.parsed(name)?;
        parsed.to_std().ok_or_else(|| anyhow::anyhow!("--{name} must not be negative"))
    }
}

fn is_given(matches: &ArgMatches, name: &str) -> bool {
    matches.value_source(&id(name)) == Some(ValueSource::CommandLine)
}

fn text<'a>(matches: &'a ArgMatches, name: &str) -> &'a str {
    matches.try_get_one::<String>(&id(name)).ok().flatten().map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_flag_and_the_counts_are_upstreams() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(flags().len(), lines);
        let count = |component: &str| flags().iter().filter(|flag| flag.default_of(component).is_some()).count();
        let counts: Vec<usize> = COMPONENTS.iter().map(|component| count(component)).collect();
        // 21 of each are about logs.
        assert_eq!(counts, [76, 64, 53, 37, 44, 36, 110, 132, 92]);
        for name in EFFECTIVE_IN_UP {
            assert!(flags().iter().any(|flag| flag.name == *name), "{name}");
        }
        for (component, effective) in ALONE {
            for name in *effective {
                assert!(flags().iter().any(|it| it.name == *name && it.default_of(component).is_some()), "{name}");
            }
        }
        for name in EFFECTIVE_GATES {
            assert!(gates::GATES.iter().any(|gate| gate.name == *name), "{name}");
        }
    }

    fn given(args: &[&str]) -> Result<String, String> {
        let command = with_flags(Command::new("up"), UP, EFFECTIVE_IN_UP);
        let matches = command.try_get_matches_from(args).map_err(|error| error.to_string())?;
        let given = Given::read(&matches, "up", EFFECTIVE_IN_UP).map_err(|error| error.to_string())?;
        let allowed = given.is_true("allow-no-execute-taint-policy").map_err(|error| error.to_string())?;
        let threshold = given.duration("cluster-failure-threshold").map_err(|error| error.to_string())?;
        let affinity = given.gates.is_open(gates::WORKLOAD_AFFINITY);
        let namespaces = given.list("skipped-propagating-namespaces");
        Ok(format!("{allowed} {threshold:?} {affinity} {namespaces:?} {}", given.text("scheduler-name")))
    }

    #[test]
    fn flags_are_read_or_refused() {
        for (args, expected) in [
            (vec!["up"], Ok("false 30s false [\"kube-.*\"] default-scheduler")),
            (
                vec![
                    "up",
                    "--allow-no-execute-taint-policy",
                    "--cluster-failure-threshold=1m30s",
                    "--feature-gates=WorkloadAffinity=true",
                    "--skipped-propagating-namespaces=a,b.*",
                    "--scheduler-name",
                    "mine",
                ],
                Ok("true 90s true [\"a\", \"b.*\"] mine"),
            ),
            (
                vec!["up", "--leader-elect=true"],
                Err("--leader-elect is a flag of upstream's that has no effect in this version; leave it out"),
            ),
            (
                vec!["up", "--kubeconfig", "x"],
                Err("--kubeconfig is a flag of upstream's that has no effect in this version; leave it out"),
            ),
            (
                vec!["up", "--feature-gates=Foo=true"],
                Err("invalid argument \"Foo=true\" for \"--feature-gates\" flag: unrecognized feature gate: Foo"),
            ),
            (
                vec!["up", "--feature-gates=StatefulFailoverInjection=true"],
                Err(
                    "feature gate StatefulFailoverInjection=true has no effect in this version, which acts as with false; leave it out",
                ),
            ),
            (
                vec!["up", "--feature-gates=StatefulFailoverInjection=false"],
                Ok("false 30s false [\"kube-.*\"] default-scheduler"),
            ),
            (
                vec!["up", "--cluster-failure-threshold=soon"],
                Err(
                    "invalid argument \"soon\" for \"--cluster-failure-threshold\" flag: time: invalid duration \"soon\"",
                ),
            ),
        ] {
            let found = given(&args);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{args:?}");
        }
    }
}
