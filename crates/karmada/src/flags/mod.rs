//! The flags of upstream's components, declared once as data (`flags.tsv`): `--help`, parsing and the documentation are
//! generated from it, for every flag. A flag without an effect is accepted if it needs none, and refused if ignoring it
//! would change behavior that the user relies on.

mod gates;
mod reference;
mod table;

use anyhow::Context as _;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use karmada_api::gates::{Gates, help};

use crate::logging::Logging;

pub use reference::{flags_page, gates_page, metrics_page};
use table::named;
pub use table::{Flag, Ignored, flags};

/// Upstream's components, in the order of the documentation. Each is a command.
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

/// The components whose flags `karmada up` has.
const UP: &[&str] = &["controller-manager", "scheduler", "webhook", "descheduler"];

/// Log flags that change something here. The others concern log files only and have no effect in upstream either while
/// `--logtostderr` is on, as it always is here; only `--help-all` lists them.
fn is_shown(flag: &Flag) -> bool {
    !flag.is_for_logs() || flag.ignored != Ignored::Inert
}

/// Adds the flags of `components` to a command that has not declared them itself.
fn with_flags(mut command: Command, components: &[&str]) -> Command {
    let name = command.get_name().to_owned();
    let mut declared: Vec<String> =
        command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
    for component in components {
        for flag in flags() {
            let Some(default) = flag.default_here(component) else { continue };
            if declared.iter().any(|name| name == flag.name) {
                continue;
            }
            declared.push(flag.name.to_owned());
            let arg = argument(flag, default, named(flag.name).any(|row| row.is_effective(&name)));
            // Only several processes on one etcd elect one.
            let is_rare = name == "up" && flag.name.starts_with("leader-elect");
            command = command.arg(if is_rare { arg.hide_short_help(true) } else { arg });
        }
    }
    command
}

/// Distinct from the ids of arguments that a command declares itself.
fn id(name: &str) -> String {
    format!("upstream:{name}")
}

fn argument(flag: &Flag, default: &'static str, effective: bool) -> Arg {
    let mut arg = Arg::new(id(flag.name)).long(flag.name).value_name(flag.type_).allow_hyphen_values(true);
    arg = match flag.name {
        "feature-gates" => arg.help("Feature gates as Name=true|false,...; --help-all lists them").long_help(help()),
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
        return arg.help_heading("Options of Karmada's components").hide_short_help(!is_shown(flag));
    }
    match flag.ignored {
        Ignored::Notice(_) => arg.help_heading("Options without an effect here"),
        Ignored::Refused(_) | Ignored::Inert => arg.help_heading("Options that cannot be changed in this version"),
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

/// All sockets that components open by default. Metrics and health listen on loopback; sockets for clients (an API
/// server, a scheduler) listen on all addresses.
pub fn listeners() -> Vec<Listener> {
    let mut found = Vec::new();
    for component in COMPONENTS {
        let default = |name: &str| {
            let flag = named(name).find(|flag| flag.default_of(component).is_some())?;
            flag.default_here(component).filter(|_| flag.is_effective(component))
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
    found
}

/// The flags of a command with their values, defaults included.
pub fn values(matches: &ArgMatches) -> Vec<(String, String)> {
    let ids = matches.ids().map(clap::Id::as_str);
    let named = ids.filter_map(|id| {
        // Groups of flags have no value.
        let values = matches.try_get_raw(id).ok().flatten()?;
        let name = id.rsplit(':').next().unwrap_or(id).replace('_', "-");
        let values: Vec<_> = values.map(|value| value.to_string_lossy().into_owned()).collect();
        Some((name, values.join(",")))
    });
    named.filter(|(name, _)| !name.starts_with(char::is_uppercase)).collect()
}

/// Adds the flags of logs to a command.
fn with_log_flags(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let for_logs = flags().iter().filter(|flag| flag.is_for_logs());
    for_logs.fold(command, |command, flag| {
        let default = flag.default_here(COMPONENTS[0]).unwrap_or_default();
        command.arg(argument(flag, default, flag.is_effective(&name)).hide_short_help(true))
    })
}

/// The commands with the flags of upstream's components.
pub fn extend(command: Command) -> Command {
    let command = command.mut_subcommand("up", |it| with_flags(it, UP)).mut_subcommand("apiserver", with_log_flags);
    COMPONENTS
        .iter()
        .fold(command, |command, component| command.mut_subcommand(component, |it| with_flags(it, &[component])))
}

/// The flags on the command line.
pub struct FlagValues<'a> {
    matches: &'a ArgMatches,
    pub gates: Gates,
    /// Accepted values without an effect, each with the reason.
    pub notices: Vec<String>,
}

impl<'a> FlagValues<'a> {
    /// Checks the flags of a command: a value that would be ignored is refused or announced.
    pub fn read(matches: &'a ArgMatches, command: &str) -> anyhow::Result<Self> {
        let mut notices = Vec::new();
        for name in matches.ids().filter_map(|known| known.as_str().strip_prefix("upstream:")) {
            let value = text(matches, name);
            let works = named(name).any(|flag| flag.is_effective(command));
            let Some(flag) = named(name).next().filter(|_| !works) else { continue };
            if !is_changed(matches, name) || is_moot(command, name, value) {
                continue;
            }
            match flag.ignored {
                Ignored::Inert => {}
                Ignored::Notice(why) => notices.push(format!("--{name}={value} has no effect here: {why}")),
                Ignored::Refused(Some(why)) => anyhow::bail!("--{name}={value} is not supported: {why}"),
                Ignored::Refused(None) => anyhow::bail!(
                    "--{name}={value} is not supported in this version, which uses the default; leave it out"
                ),
            }
        }
        notices.sort();
        let text = text(matches, "feature-gates");
        let gates = Gates::parse(text)
            .map_err(|error| anyhow::anyhow!("invalid argument {text:?} for \"--feature-gates\" flag: {error}"))?;
        Ok(Self { matches, gates, notices })
    }

    /// The log settings of a command; the defaults for one without log flags.
    pub fn logging(matches: &ArgMatches) -> anyhow::Result<Logging> {
        Logging::read(|name| text(matches, name))
    }

    /// The text of a flag, empty without one.
    pub fn text(&self, name: &str) -> &str {
        text(self.matches, name)
    }

    /// Whether the flag is on the command line.
    pub fn is_set(&self, name: &str) -> bool {
        is_set(self.matches, name)
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

    /// A parsed value.
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

/// Whether a flag was set to a value other than its default.
fn is_changed(matches: &ArgMatches, name: &str) -> bool {
    let value = text(matches, name);
    let mut defaults = named(name).flat_map(|flag| flag.defaults.iter().map(|(_, default)| (flag.type_, *default)));
    is_set(matches, name) && !defaults.any(|(type_, default)| is_same(type_, default, value))
}

/// Whether a command already behaves as the value requires.
fn is_moot(command: &str, name: &str, value: &str) -> bool {
    let moot = |flag: &Flag| flag.moot.iter().any(|(of, moot)| *of == command && is_same(flag.type_, moot, value));
    named(name).any(moot)
}

/// Parses a boolean as Go does.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "1" | "t" | "T" | "TRUE" | "True" => Some(true),
        "false" | "0" | "f" | "F" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Whether two texts have the same value: booleans, durations and lists have several forms.
fn is_same(type_: &str, one: &str, other: &str) -> bool {
    let duration = |text: &str| text.parse::<apimachinery::duration::Duration>().ok();
    let items = |text: &str| text.trim_start_matches('[').trim_end_matches(']').to_owned();
    let same_boolean = type_ == "bool" && boolean(one).is_some() && boolean(one) == boolean(other);
    same_boolean || items(one) == items(other) || duration(one).is_some_and(|it| duration(other) == Some(it))
}

fn is_set(matches: &ArgMatches, name: &str) -> bool {
    matches.value_source(&id(name)) == Some(ValueSource::CommandLine)
}

fn text<'a>(matches: &'a ArgMatches, name: &str) -> &'a str {
    matches.try_get_one::<String>(&id(name)).ok().flatten().map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use karmada_api::gates;

    use super::*;

    fn parsed(args: &[&str]) -> Result<String, String> {
        let command = with_flags(Command::new("up"), UP);
        let matches = command.try_get_matches_from(args).map_err(|error| error.to_string())?;
        let flags = FlagValues::read(&matches, "up").map_err(|error| error.to_string())?;
        let allowed = flags.is_true("allow-no-execute-taint-policy").map_err(|error| error.to_string())?;
        let threshold = flags.duration("cluster-failure-threshold").map_err(|error| error.to_string())?;
        let affinity = flags.gates.is_open(gates::WORKLOAD_AFFINITY);
        let namespaces = flags.list("skipped-propagating-namespaces");
        Ok(format!("{allowed} {threshold:?} {affinity} {namespaces:?} {}", flags.text("scheduler-name")))
    }

    #[test]
    fn flags_that_request_the_only_behaviour_are_silent() {
        for args in [
            &["--leader-elect=false"][..],
            &["--enable-taint-manager=false", "--enable-no-execute-taint-eviction=false", "--enable-pprof=F"],
            &["--metrics-bind-address=0", "--health-probe-bind-address=0"],
            &["--kubeconfig=", "--master="],
        ] {
            let command = with_flags(Command::new("up"), UP);
            let matches = command.try_get_matches_from([&["up"], args].concat()).expect("known flags");
            let flags = FlagValues::read(&matches, "up").map_err(|error| error.to_string());
            assert_eq!(flags.map(|flags| flags.notices), Ok(Vec::new()), "{args:?}");
        }
    }

    #[test]
    fn flags_without_effect_are_announced() {
        let command = with_flags(Command::new("up"), UP);
        let matches = command.try_get_matches_from(["up", "--leader-elect=false", "--leader-elect-resource-name=x"]);
        let matches = matches.expect("known flags");
        let flags = FlagValues::read(&matches, "up").expect("accepted");
        let expected = "--leader-elect-resource-name=x has no effect here: one process holds the store, so there is no \
                        Lease to elect a leader with";
        assert_eq!(flags.notices, [expected]);
    }

    #[test]
    fn only_externally_called_servers_listen_on_all_addresses() {
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
            "metrics-adapter --metrics-bind-address 127.0.0.1:8080",
            "metrics-adapter --bind-address, --secure-port 0.0.0.0:443",
        ];
        assert_eq!(found, expected);
        // Each flag of an address or a port is one of them, or of something that this version does not serve.
        for flag in flags().iter().filter(|flag| ["-address", "-port"].iter().any(|end| flag.name.ends_with(end))) {
            let known =
                ["bind-address", "metrics-bind-address", "health-probe-bind-address", "secure-port", "server-port"];
            let calls = ["scheduler-estimator-port", "proxy-server-address", "advertise-address"];
            let inert = flag.ignored == Ignored::Inert;
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
            (vec!["up", "--cluster-api-kubeconfig=x"], Ok("false 30s false [\"kube-.*\"] default-scheduler")),
            (vec!["up", "--cluster-api-kubeconfig="], Ok("false 30s false [\"kube-.*\"] default-scheduler")),
            (
                vec!["up", "--horizontal-pod-autoscaler-upscale-delay=1m"],
                Ok("false 30s false [\"kube-.*\"] default-scheduler"),
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
                Ok("false 30s false [\"kube-.*\"] default-scheduler"),
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
            let found = parsed(&args);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{args:?}");
        }
    }
}
