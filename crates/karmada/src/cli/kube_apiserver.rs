//! Flags of kube-apiserver without an effect here: each is accepted, because the server already behaves that way or
//! does not depend on it, or refused with the reason. Flags of `karmada apiserver` and `karmada up` are not listed.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

/// The treatment of a flag.
#[derive(Clone, Copy)]
enum Meaning {
    /// These values match the built-in behavior; others are refused with the reason.
    Only(&'static [&'static str], &'static str),
    /// Accepted with a notice that gives the reason.
    Notice(&'static str),
    /// Refused with the reason.
    Refused(&'static str),
}

use Meaning::{Notice, Only, Refused};

/// A name and whether it is a boolean.
type Row = (&'static str, bool, Meaning);

const KUBELETS: &str = "no kubelet registers with a control plane, and none is called";
const CACHE: &str = "every resource is kept in memory as a whole";
const ONE: &str = "one process serves a store";
const GO: &str = "there is no Go runtime to profile";
const BROWSERS: &str = "the server adds no headers for browsers; let a proxy add them";
const METRICS: &str = "all metrics are reported, and their labels have few values";
const LOGS: &str = "log lines are written at once";
const LEADERS: &str = "clients elect their leaders with Leases";
const PEERS: &str = "all servers serve the same API";
const FEATURES: &str =
    "the features of Kubernetes that are generally available are on, others are not part of this version";

const FLAGS: &[Row] = &[
    (
        "aggregator-reject-forwarding-redirect",
        true,
        Only(&["true"], "redirects of aggregated servers are not followed"),
    ),
    ("allow-metric-labels", false, Notice(METRICS)),
    ("allow-metric-labels-manifest", false, Notice(METRICS)),
    (
        "allow-privileged",
        true,
        Only(&["true"], "pods are templates here: whether they may be privileged is decided in members"),
    ),
    ("apiserver-count", false, Notice(ONE)),
    (
        "authorization-policy-file",
        false,
        Refused("attribute-based access control is not supported: its policies are in a file outside of the API"),
    ),
    ("cert-dir", false, Notice("generated certificates are in the data directory")),
    ("contention-profiling", true, Notice(GO)),
    ("coordinated-leadership-lease-duration", false, Notice(LEADERS)),
    ("coordinated-leadership-renew-deadline", false, Notice(LEADERS)),
    ("coordinated-leadership-retry-period", false, Notice(LEADERS)),
    ("cors-allowed-origins", false, Refused(BROWSERS)),
    ("debug-socket-path", false, Only(&[""], GO)),
    ("default-watch-cache-size", false, Notice(CACHE)),
    ("delete-collection-workers", false, Notice("a collection is deleted in one transaction after another")),
    ("disable-http2-serving", true, Only(&["false"], "HTTP/2 is bounded by --http2-max-streams-per-connection")),
    ("disabled-metrics", false, Notice(METRICS)),
    (
        "egress-selector-config-file",
        false,
        Refused("members are reached by the endpoint, the proxy or the tunnel of their Cluster"),
    ),
    ("emulated-version", false, Only(&["", "1.36", "kube=1.36"], "one version of the API is served")),
    ("emulation-forward-compatible", true, Only(&["false"], "one version of the API is served")),
    (
        "enable-bootstrap-token-auth",
        true,
        Only(&["true"], "bootstrap tokens are accepted as long as their Secrets exist; delete these"),
    ),
    (
        "enable-garbage-collector",
        true,
        Only(&["true"], "the garbage collector runs with the server; --kube-controllers leaves it out"),
    ),
    ("enable-logs-handler", true, Only(&["false"], "log files are not served")),
    ("endpoint-reconciler-type", false, Notice(ONE)),
    ("event-ttl", false, Only(&["1h", "1h0m0s", "60m"], "events are kept for one hour")),
    ("feature-gates", false, Only(&[""], FEATURES)),
    ("insecure-port", false, Only(&["0"], "the API is served over TLS only")),
    ("kubelet-certificate-authority", false, Notice(KUBELETS)),
    ("kubelet-client-certificate", false, Notice(KUBELETS)),
    ("kubelet-client-key", false, Notice(KUBELETS)),
    ("kubelet-port", false, Notice(KUBELETS)),
    ("kubelet-preferred-address-types", false, Notice(KUBELETS)),
    ("kubelet-read-only-port", false, Notice(KUBELETS)),
    ("kubelet-timeout", false, Notice(KUBELETS)),
    ("livez-grace-period", false, Notice("the server is alive as soon as it listens")),
    ("log-json-info-buffer-size", false, Notice(LOGS)),
    ("log-json-split-stream", true, Notice(LOGS)),
    ("log-text-info-buffer-size", false, Notice(LOGS)),
    ("log-text-split-stream", true, Notice(LOGS)),
    ("max-connection-bytes-per-sec", false, Only(&["0"], "connections are bounded by unread bytes")),
    (
        "min-compatibility-version",
        false,
        Only(&["", "1.36", "kube=1.36", "1.35", "kube=1.35"], "one version of the API is served"),
    ),
    ("peer-advertise-ip", false, Notice(PEERS)),
    ("peer-advertise-port", false, Notice(PEERS)),
    ("peer-ca-file", false, Notice(PEERS)),
    ("permit-address-sharing", true, Only(&["false"], "an address has one listener")),
    ("permit-port-sharing", true, Only(&["false"], "a port has one listener")),
    ("profiling", true, Notice(GO)),
    ("runtime-config", false, Only(&["", "api/ga=true"], FEATURES)),
    ("runtime-config-emulation-forward-compatible", true, Only(&["false"], "one version of the API is served")),
    ("service-account-lookup", true, Only(&["true"], "a token is valid as long as its ServiceAccount exists")),
    (
        "service-account-signing-endpoint",
        false,
        Only(&[""], "tokens are signed with --service-account-signing-key-file"),
    ),
    ("show-hidden-metrics-for-version", false, Notice(METRICS)),
    ("storage-initialization-timeout", false, Notice("the server listens once its store is read")),
    ("strict-transport-security-directives", false, Refused(BROWSERS)),
    ("watch-cache", true, Only(&["true"], CACHE)),
    ("watch-cache-sizes", false, Notice(CACHE)),
];

fn id(name: &str) -> String {
    format!("kube-apiserver:{name}")
}

/// Adds those flags that a command has not declared itself. No help lists them.
pub(super) fn extend(mut command: Command) -> Command {
    for (name, is_boolean, _) in FLAGS {
        if command.get_arguments().any(|arg| arg.get_long() == Some(name)) {
            continue;
        }
        let arg = Arg::new(id(name)).long(*name).hide(true).allow_hyphen_values(true).action(clap::ArgAction::Append);
        command = command.arg(match is_boolean {
            true => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
            false => arg.num_args(1),
        });
    }
    command
}

/// The notices about set flags without an effect.
///
/// # Errors
/// For a refused flag, with the reason.
pub(super) fn check(matches: &ArgMatches) -> anyhow::Result<Vec<String>> {
    let mut notices = Vec::new();
    for (name, _, meaning) in FLAGS {
        let id = id(name);
        if !matches.try_contains_id(&id).unwrap_or(false) || matches.value_source(&id) != Some(ValueSource::CommandLine)
        {
            continue;
        }
        let values = matches.get_many::<String>(&id).into_iter().flatten();
        for value in values {
            match meaning {
                Only(known, _) if known.contains(&value.as_str()) => {}
                Only(_, why) | Refused(why) => {
                    anyhow::bail!("--{name}={value} is not supported: {why}; leave it out")
                }
                Notice(why) => notices.push(format!("--{name}={value} has no effect here: {why}")),
            }
        }
    }
    Ok(notices)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags that Karmada's installers pass to karmada-apiserver: its chart, its operator and `karmadactl init`. Flags
    /// of certificates, front proxies and tokens have separate tests.
    const INSTALLERS: &[(&str, &str)] = &[
        ("--allow-privileged=true", ""),
        ("--apiserver-count=1", "notice"),
        ("--bind-address=0.0.0.0", ""),
        ("--disable-admission-plugins=StorageObjectInUseProtection,ServiceAccount", ""),
        ("--disable-admission-plugins=", ""),
        ("--enable-admission-plugins=NodeRestriction", ""),
        ("--enable-bootstrap-token-auth=true", ""),
        ("--kubelet-client-certificate=/etc/karmada/pki/karmada.crt", "notice"),
        ("--kubelet-client-key=/etc/karmada/pki/karmada.key", "notice"),
        ("--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname", "notice"),
        ("--runtime-config=", ""),
        ("--secure-port=5443", ""),
        ("--service-cluster-ip-range=10.96.0.0/12", ""),
        ("--v=4", ""),
        // Extra arguments in the installers' documentation.
        ("--authorization-policy-file=abac.jsonl", "refused: attribute-based access control"),
        ("--cert-dir=/var/run/kubernetes", "notice"),
        ("--default-watch-cache-size=200", "notice"),
        ("--egress-selector-config-file=egress.yaml", "refused: members are reached by"),
        ("--emulated-version=1.36", ""),
        ("--emulated-version=1.30", "refused: one version of the API"),
        ("--enable-logs-handler=false", ""),
        ("--service-account-lookup", ""),
        ("--service-account-lookup=false", "refused: a token is valid as long as"),
        ("--storage-initialization-timeout=2m", "notice"),
        ("--event-ttl=1h", ""),
        ("--event-ttl=2h", "refused: events are kept for one hour"),
        ("--feature-gates=AllAlpha=true", "refused: the features of Kubernetes"),
        ("--goaway-chance=0.001", ""),
        ("--http2-max-streams-per-connection=250", ""),
        ("--profiling=false", "notice"),
        ("--request-timeout=1m0s", ""),
        ("--shutdown-delay-duration=20s", ""),
        ("--shutdown-send-retry-after=true", ""),
        ("--shutdown-send-retry-after", ""),
        ("--shutdown-watch-termination-grace-period=10s", ""),
        ("--tracing-config-file=tracing.yaml", ""),
        ("--watch-cache=false", "refused: every resource is kept in memory"),
    ];

    fn outcome(flag: &str) -> String {
        let matches = match super::super::command().try_get_matches_from(["karmada", "apiserver", flag]) {
            Ok(matches) => matches,
            Err(error) => return error.to_string(),
        };
        let (_, matches) = matches.subcommand().expect("a command");
        match check(matches) {
            Ok(notices) if notices.is_empty() => String::new(),
            Ok(_) => "notice".into(),
            Err(error) => {
                format!("refused: {}", error.to_string().split(" is not supported: ").nth(1).unwrap_or_default())
            }
        }
    }

    #[test]
    fn flags_of_installers_have_an_effect_or_are_refused_with_the_reason() {
        for (flag, expected) in INSTALLERS {
            let found = outcome(flag);
            assert!(found.starts_with(expected) && found.is_empty() == expected.is_empty(), "{flag}: {found}");
        }
    }

    #[test]
    fn shares_of_requests_are_bounded() {
        for flag in ["--goaway-chance=0.03", "--goaway-chance=-1", "--goaway-chance=x"] {
            assert!(outcome(flag).contains("--goaway-chance can not be less than 0 or greater than 0.02"), "{flag}");
        }
    }

    #[test]
    fn names_are_sorted_and_no_command_has_declared_them() {
        assert!(FLAGS.is_sorted_by_key(|(name, ..)| name));
        let command = super::super::command();
        let apiserver = command.find_subcommand("apiserver").expect("a command");
        for (name, ..) in FLAGS {
            let found = apiserver.get_arguments().find(|arg| arg.get_long() == Some(name)).expect("a flag");
            assert_eq!(found.get_id().as_str(), id(name), "--{name} has an effect: remove its row");
        }
    }
}
