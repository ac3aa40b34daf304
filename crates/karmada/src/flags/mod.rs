//! The flags of upstream's components, declared once as data (`flags.tsv`): `--help`, parsing and the documentation come
//! from it. All are known. What has no effect here is accepted where it needs none, and refused where ignoring it would
//! change what the user relies on.

mod effects;
mod reference;

use std::sync::OnceLock;

use anyhow::Context as _;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use karmada_api::gates::{self, Gates};

use crate::logging::Logging;

pub use effects::*;
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
    /// The default in this program, which differs from upstream's for some; empty is none.
    pub fn default_here(&self, component: &str) -> Option<&'static str> {
        let upstream = self.default_of(component)?;
        let local = OWN_DEFAULTS.iter().find(|(name, of_upstream, _)| *name == self.name && *of_upstream == upstream);
        Some(local.map_or(upstream, |(_, _, here)| here))
    }

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
            let Some(default) = flag.default_here(component) else { continue };
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
    let mut arg = Arg::new(id(flag.name)).long(flag.name).value_name(flag.type_).allow_hyphen_values(true);
    arg = match flag.name {
        "feature-gates" => {
            arg.help("Feature gates as Name=true|false,...; --help-all lists them").long_help(gates::help())
        }
        _ => arg.help(flag.meaning.trim_end_matches('.')),
    };
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
        let hides = LOGGING.contains(&flag.name) && !LOGGING_SHOWN.contains(&flag.name);
        return arg.help_heading("Options of Karmada's components").hide_short_help(hides);
    }
    match needless(flag.name) {
        Some(_) => arg.help_heading("Options without an effect here"),
        None => arg.help_heading("Options that cannot be changed in this version"),
    }
    .hide_short_help(true)
}

/// A socket that a component opens by default.
pub struct Listener {
    pub component: &'static str,
    pub flags: &'static str,
    pub address: std::net::SocketAddr,
}

impl std::fmt::Display for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.component, self.flags, self.address)
    }
}

/// Every socket of every component that this version serves. Those for metrics and health are for this machine; those
/// for requests of others (an API server, a scheduler) are for all, as running the component is for.
pub fn listeners() -> Vec<Listener> {
    let mut found = Vec::new();
    for (component, effective) in ALONE {
        let default = |name: &str| {
            let flag = flags().iter().find(|flag| flag.name == name && flag.default_of(component).is_some())?;
            flag.default_here(component).filter(|_| effective.contains(&name))
        };
        let mut add = |flags, address: Option<String>| {
            let address = address.and_then(|text| text.parse().ok());
            found.extend(address.map(|address| Listener { component, flags, address }));
        };
        add("--metrics-bind-address", default("metrics-bind-address").map(str::to_owned));
        add("--health-probe-bind-address", default("health-probe-bind-address").map(str::to_owned));
        let serving = default("bind-address").zip(default("secure-port"));
        add("--bind-address, --secure-port", serving.map(|(address, port)| format!("{address}:{port}")));
        add("--server-port", default("server-port").map(|port| format!("0.0.0.0:{port}")));
    }
    found.sort_by_key(|listener| COMPONENTS.iter().position(|component| *component == listener.component));
    found
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
    /// Values that were accepted without an effect, each with the reason.
    pub notices: Vec<String>,
}

impl<'a> Given<'a> {
    /// Checks the flags of a command: a value that would be ignored is refused or announced.
    pub fn read(matches: &'a ArgMatches, command: &str, effective: &[&str]) -> anyhow::Result<Self> {
        let works = |name: &str| [effective, LOGGING, INERT].iter().any(|list| list.contains(&name));
        let mut notices = Vec::new();
        for name in matches.ids().filter_map(|known| known.as_str().strip_prefix("upstream:")) {
            let value = text(matches, name);
            if works(name) || !is_changed(matches, name) || is_harmless(command, name, value) {
                continue;
            }
            let Some(why) = needless(name) else {
                if let Some(why) = refused(name) {
                    anyhow::bail!("--{name}={value} is not supported: {why}");
                }
                if name.starts_with("etcd-") {
                    anyhow::bail!(
                        "--{name}={value}: this version keeps nothing in etcd, but in --data-dir; leave it out"
                    );
                }
                anyhow::bail!(
                    "--{name}={value} is not supported in this version, which uses the default; leave it out"
                );
            };
            notices.push(format!("--{name}={value} has no effect here: {why}"));
        }
        notices.sort();
        let text = text(matches, "feature-gates");
        let gates = Gates::parse(text)
            .map_err(|error| anyhow::anyhow!("invalid argument {text:?} for \"--feature-gates\" flag: {error}"))?;
        let is_missed = |name: &str| NOT_YET.iter().any(|(gate, by)| *gate == name && by.contains(&command));
        for (gate, open) in gates.changed().filter(|(gate, _)| is_missed(gate.name)) {
            let does = format!("has no effect in this version, which acts as with {}", gate.default);
            // Upstream's own manifests open all gates of a stage; who names one relies on it.
            anyhow::ensure!(gates.is_of_stage(gate.name), "feature gate {}={open} {does}; leave it out", gate.name);
            notices.push(format!("feature gate {}={open} {does}", gate.name));
        }
        Ok(Self { matches, gates, notices })
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
        let text = self.text(name);
        let value = if text.is_empty() { Some(false) } else { boolean(text) };
        value.with_context(|| {
            format!(
                "invalid argument {text:?} for \"--{name}\" flag: strconv.ParseBool: parsing {text:?}: invalid syntax"
            )
        })
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

/// Whether a flag was given another value than its default.
fn is_changed(matches: &ArgMatches, name: &str) -> bool {
    let value = text(matches, name);
    let named = flags().iter().filter(|flag| flag.name == name);
    let mut defaults = named.flat_map(|flag| flag.defaults.iter().map(|(_, default)| (flag.type_, *default)));
    is_given(matches, name) && !defaults.any(|(type_, default)| is_same(type_, default, value))
}

/// Whether a value is what happens in a command anyway.
fn is_harmless(command: &str, name: &str, value: &str) -> bool {
    let mut rows = HARMLESS.iter().filter(|(flag, _, commands)| *flag == name && commands.contains(&command));
    let type_ = flags().iter().find(|flag| flag.name == name).map_or("", |flag| flag.type_);
    rows.any(|(_, harmless, _)| is_same(type_, harmless, value))
}

/// As Go reads it.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "1" | "t" | "T" | "TRUE" | "True" => Some(true),
        "false" | "0" | "f" | "F" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Whether two spellings mean the same: booleans, durations and lists have several.
fn is_same(type_: &str, one: &str, other: &str) -> bool {
    let duration = |text: &str| text.parse::<apimachinery::duration::Duration>().ok();
    let items = |text: &str| text.trim_start_matches('[').trim_end_matches(']').to_owned();
    let same_boolean = type_ == "bool" && boolean(one).is_some() && boolean(one) == boolean(other);
    same_boolean || items(one) == items(other) || duration(one).is_some_and(|it| duration(other) == Some(it))
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
    fn a_value_that_is_what_happens_anyway_is_neither_refused_nor_announced() {
        for args in [
            &["--leader-elect=false"][..],
            &["--leader-elect=0"],
            &["--enable-taint-manager=false", "--enable-no-execute-taint-eviction=false", "--enable-pprof=F"],
            &["--metrics-bind-address=0", "--health-probe-bind-address=0"],
            &["--kubeconfig=", "--master="],
        ] {
            let command = with_flags(Command::new("up"), UP, EFFECTIVE_IN_UP);
            let matches = command.try_get_matches_from([&["up"], args].concat()).expect("known flags");
            let given = Given::read(&matches, "up", EFFECTIVE_IN_UP).map_err(|error| error.to_string());
            assert_eq!(given.map(|given| given.notices), Ok(Vec::new()), "{args:?}");
        }
    }

    #[test]
    fn what_needs_no_effect_is_announced() {
        let command = with_flags(Command::new("up"), UP, EFFECTIVE_IN_UP);
        let matches = command.try_get_matches_from(["up", "--leader-elect=false", "--leader-elect-lease-duration=1m"]);
        let matches = matches.expect("known flags");
        let given = Given::read(&matches, "up", EFFECTIVE_IN_UP).expect("accepted");
        let expected = "--leader-elect-lease-duration=1m has no effect here: one process holds the store, so there is no \
                        Lease to elect a leader with";
        assert_eq!(given.notices, [expected]);
    }

    #[test]
    fn nothing_listens_on_every_address_but_what_others_must_call() {
        let found: Vec<String> = listeners().iter().map(ToString::to_string).collect();
        let expected = [
            "controller-manager --metrics-bind-address 127.0.0.1:8080",
            "controller-manager --health-probe-bind-address 127.0.0.1:10357",
            "agent --metrics-bind-address 127.0.0.1:8080",
            "agent --health-probe-bind-address 127.0.0.1:10357",
            "scheduler --metrics-bind-address 127.0.0.1:8080",
            "scheduler --health-probe-bind-address 127.0.0.1:10351",
            "scheduler-estimator --metrics-bind-address 127.0.0.1:8080",
            "scheduler-estimator --health-probe-bind-address 127.0.0.1:10351",
            "scheduler-estimator --server-port 0.0.0.0:10352",
            "descheduler --metrics-bind-address 127.0.0.1:8080",
            "descheduler --health-probe-bind-address 127.0.0.1:10358",
            "webhook --metrics-bind-address 127.0.0.1:8080",
            "webhook --health-probe-bind-address 127.0.0.1:8000",
            "webhook --bind-address, --secure-port 0.0.0.0:8443",
            "aggregated-apiserver --bind-address, --secure-port 0.0.0.0:443",
            "search --bind-address, --secure-port 0.0.0.0:443",
        ];
        assert_eq!(found, expected);
        // Each flag of an address or a port is one of them, or of something that this version does not serve.
        for flag in flags().iter().filter(|flag| ["-address", "-port"].iter().any(|end| flag.name.ends_with(end))) {
            let known =
                ["bind-address", "metrics-bind-address", "health-probe-bind-address", "secure-port", "server-port"];
            let calls = ["scheduler-estimator-port", "proxy-server-address", "advertise-address"];
            let inert = INERT.contains(&flag.name);
            assert!(known.contains(&flag.name) || calls.contains(&flag.name) || inert, "--{}", flag.name);
        }
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
                vec![
                    "up",
                    "--leader-elect=true",
                    "--leader-elect-lease-duration=15000ms",
                    "-v=4",
                    "--concurrent-work-syncs=7",
                ],
                Ok("false 30s false [\"kube-.*\"] default-scheduler"),
            ),
            (
                vec!["up", "--kubeconfig", "x"],
                Err("--kubeconfig=x is not supported in this version, which uses the default; leave it out"),
            ),
            (
                vec!["up", "--cluster-api-kubeconfig=capi.config"],
                Err(
                    "--cluster-api-kubeconfig=capi.config is not supported: this version does not discover the clusters of a Cluster API management cluster; join each of them with `karmadactl join`",
                ),
            ),
            (
                vec!["up", "--cluster-api-context=capi"],
                Err(
                    "--cluster-api-context=capi is not supported: this version does not discover the clusters of a Cluster API management cluster; join each of them with `karmadactl join`",
                ),
            ),
            (vec!["up", "--cluster-api-kubeconfig="], Ok("false 30s false [\"kube-.*\"] default-scheduler")),
            (
                vec!["up", "--horizontal-pod-autoscaler-sync-period=1m"],
                Err(
                    "--horizontal-pod-autoscaler-sync-period=1m is not supported in this version, which uses the default; leave it out",
                ),
            ),
            (
                vec!["up", "--enable-no-execute-taint-eviction", "--feature-gates=Failover=true"],
                Ok("false 30s false [\"kube-.*\"] default-scheduler"),
            ),
            (
                vec!["up", "--metrics-bind-address=0.0.0.0:9000"],
                Err(
                    "--metrics-bind-address=0.0.0.0:9000 is not supported in this version, which uses the default; leave it out",
                ),
            ),
            (
                vec!["up", "--feature-gates=ContextualLogging=false"],
                Ok("false 30s false [\"kube-.*\"] default-scheduler"),
            ),
            (
                vec!["up", "--feature-gates=Foo=true"],
                Err("invalid argument \"Foo=true\" for \"--feature-gates\" flag: unrecognized feature gate: Foo"),
            ),
            (
                vec!["up", "--feature-gates=MultiClusterService=true"],
                Err(
                    "feature gate MultiClusterService=true has no effect in this version, which acts as with false; leave it out",
                ),
            ),
            (
                vec!["up", "--feature-gates=AllAlpha=true,AllBeta=true"],
                Ok("false 30s true [\"kube-.*\"] default-scheduler"),
            ),
            (
                vec!["up", "--feature-gates=StatefulFailoverInjection=true,MultiClusterService=false"],
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
