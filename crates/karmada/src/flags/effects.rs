//! Which flags and gates of upstream's components have an effect, in which command, and why the others have none.

use karmada_api::gates;

/// What `karmada up` takes the flags of.
pub(super) const UP: &[&str] = &["controller-manager", "scheduler", "webhook", "descheduler"];

/// Flags of upstream's components that have an effect in `karmada up`, besides those it declares itself.
pub const EFFECTIVE_IN_UP: &[&str] = &[
    "allow-no-execute-taint-policy",
    "cluster-api-burst",
    "cluster-api-qps",
    "cluster-failure-threshold",
    "cluster-monitor-grace-period",
    "cluster-monitor-period",
    "cluster-startup-grace-period",
    "cluster-status-update-frequency",
    "cluster-success-threshold",
    "descheduling-interval",
    "disable-scheduler-estimator-in-pull-mode",
    "enable-cluster-resource-modeling",
    "enable-empty-workload-propagation",
    "enable-no-execute-taint-eviction",
    "enable-scheduler-estimator",
    "enable-taint-manager",
    "feature-gates",
    "federated-resource-quota-sync-period",
    "graceful-eviction-timeout",
    "insecure-skip-estimator-verify",
    "no-execute-taint-eviction-purge-mode",
    "plugins",
    "resource-eviction-rate",
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

/// Those that have an effect in `karmada scheduler`.
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

/// Those that have an effect in `karmada scheduler-estimator`.
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

/// Those that have an effect in `karmada descheduler`.
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

/// Those that have an effect in `karmada controller-manager`.
pub const EFFECTIVE_IN_CONTROLLER_MANAGER: &[&str] = &[
    "cluster-api-burst",
    "cluster-api-qps",
    "cluster-failure-threshold",
    "cluster-monitor-grace-period",
    "cluster-monitor-period",
    "cluster-startup-grace-period",
    "cluster-status-update-frequency",
    "cluster-success-threshold",
    "controllers",
    "enable-cluster-resource-modeling",
    "enable-no-execute-taint-eviction",
    "enable-taint-manager",
    "feature-gates",
    "federated-resource-quota-sync-period",
    "graceful-eviction-timeout",
    "health-probe-bind-address",
    "kube-api-burst",
    "kube-api-qps",
    "kubeconfig",
    "leader-elect",
    "leader-elect-lease-duration",
    "leader-elect-renew-deadline",
    "leader-elect-resource-namespace",
    "leader-elect-retry-period",
    "metrics-bind-address",
    "no-execute-taint-eviction-purge-mode",
    "resource-eviction-rate",
    "skipped-propagating-apis",
    "skipped-propagating-namespaces",
];

/// Those that have an effect in `karmada aggregated-apiserver`.
pub const EFFECTIVE_IN_AGGREGATED_APISERVER: &[&str] = &[
    "bind-address",
    "feature-gates",
    "kube-api-burst",
    "kube-api-qps",
    "kubeconfig",
    "requestheader-allowed-names",
    "requestheader-client-ca-file",
    "requestheader-extra-headers-prefix",
    "requestheader-group-headers",
    "requestheader-uid-headers",
    "requestheader-username-headers",
    "secure-port",
    "tls-cert-file",
    "tls-min-version",
    "tls-private-key-file",
];

/// Those that have an effect in `karmada agent`.
pub const EFFECTIVE_IN_AGENT: &[&str] = &[
    "cert-rotation-checking-interval",
    "cert-rotation-remaining-time-threshold",
    "cluster-api-burst",
    "cluster-api-endpoint",
    "cluster-api-qps",
    "cluster-failure-threshold",
    "cluster-lease-duration",
    "cluster-lease-renew-interval-fraction",
    "cluster-name",
    "cluster-namespace",
    "cluster-provider",
    "cluster-region",
    "cluster-status-update-frequency",
    "cluster-success-threshold",
    "cluster-zones",
    "controllers",
    "enable-cluster-resource-modeling",
    "feature-gates",
    "health-probe-bind-address",
    "karmada-context",
    "karmada-kubeconfig",
    "karmada-kubeconfig-namespace",
    "kube-api-burst",
    "kube-api-qps",
    "kubeconfig",
    "leader-elect",
    "leader-elect-lease-duration",
    "leader-elect-renew-deadline",
    "leader-elect-resource-namespace",
    "leader-elect-retry-period",
    "metrics-bind-address",
    "proxy-server-address",
    "report-secrets",
];

/// Those that have an effect in `karmada search`.
pub const EFFECTIVE_IN_SEARCH: &[&str] = &[
    "bind-address",
    "cluster-api-burst",
    "cluster-api-qps",
    "disable-proxy",
    "disable-search",
    "kube-api-burst",
    "kube-api-qps",
    "kubeconfig",
    "requestheader-allowed-names",
    "requestheader-client-ca-file",
    "requestheader-extra-headers-prefix",
    "requestheader-group-headers",
    "requestheader-uid-headers",
    "requestheader-username-headers",
    "secure-port",
    "tls-cert-file",
    "tls-min-version",
    "tls-private-key-file",
];

/// Components that are commands of their own: the command's name is the component's, with what it carries out.
pub const ALONE: &[(&str, &[&str])] = &[
    ("controller-manager", EFFECTIVE_IN_CONTROLLER_MANAGER),
    ("aggregated-apiserver", EFFECTIVE_IN_AGGREGATED_APISERVER),
    ("webhook", EFFECTIVE_IN_WEBHOOK),
    ("scheduler", EFFECTIVE_IN_SCHEDULER),
    ("scheduler-estimator", EFFECTIVE_IN_SCHEDULER_ESTIMATOR),
    ("descheduler", EFFECTIVE_IN_DESCHEDULER),
    ("search", EFFECTIVE_IN_SEARCH),
    ("agent", EFFECTIVE_IN_AGENT),
    ("metrics-adapter", &[]),
];

/// Those that have an effect in `karmada webhook`.
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

/// Those of them that change something here; the rest only shows with `--help-all`.
pub(super) const LOGGING_SHOWN: &[&str] = &["logging-format", "v", "vmodule"];

/// Defaults that differ from upstream's: a flag, upstream's default, and ours. Metrics and health are for this machine
/// unless a flag opens them to others; requests are limited only where a flag limits them.
pub const OWN_DEFAULTS: &[(&str, &str, &str)] = &[
    ("metrics-bind-address", ":8080", "127.0.0.1:8080"),
    ("health-probe-bind-address", ":10357", "127.0.0.1:10357"),
    ("health-probe-bind-address", ":10351", "127.0.0.1:10351"),
    ("health-probe-bind-address", ":10358", "127.0.0.1:10358"),
    ("health-probe-bind-address", ":8000", "127.0.0.1:8000"),
    ("cluster-api-qps", "40", ""),
    ("resource-eviction-rate", "0.5", ""),
    ("kube-api-qps", "40", ""),
    ("kube-api-qps", "20", ""),
];

/// Values that are not the default, but what happens anyway in these commands.
pub(super) const HARMLESS: &[(&str, &str, &[&str])] = &[
    // One process holds the store: it needs no Lease.
    ("leader-elect", "false", &["up"]),
    ("metrics-bind-address", "0", &["up"]),
    ("health-probe-bind-address", "0", &["up"]),
    ("profiling", "false", &["aggregated-apiserver", "search", "metrics-adapter"]),
];

/// Flags without an effect on anything that can be seen: of profiles, which are never served; of how many threads share
/// the work of one estimate, which is one computation here.
pub const INERT: &[&str] = &["parallelism", "profiling-bind-address"];

/// Gates that change something in upstream, but nothing here yet, and the commands whose counterparts read them. Other
/// commands take them, as upstream's do, where they change nothing.
pub(super) const NOT_YET: &[(&str, &[&str])] =
    &[(gates::MULTI_CLUSTER_SERVICE, &["up", "controller-manager", "agent"])];

/// Gates that change something when they are set to what is not their default.
pub const EFFECTIVE_GATES: &[&str] = &[
    gates::CONTROLLER_PRIORITY_QUEUE,
    gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING,
    gates::FAILOVER,
    gates::FEDERATED_QUOTA_ENFORCEMENT,
    gates::GRACEFUL_EVICTION,
    gates::MULTIPLE_POD_TEMPLATES_SCHEDULING,
    gates::PRIORITY_BASED_SCHEDULING,
    gates::PROPAGATE_DEPS,
    gates::PROPAGATION_POLICY_PREEMPTION,
    gates::RESOURCE_QUOTA_ESTIMATE,
    gates::SCHEDULING_OVERCOMMIT_PROTECTION,
    gates::STATEFUL_FAILOVER_INJECTION,
    gates::WORKLOAD_AFFINITY,
];

/// Flags by their beginnings that need no effect here, and why: they are accepted, with a notice when they are changed.
/// All others are accepted with their default and refused with another value: ignoring it would change what the user
/// relies on.
pub const NEEDLESS: &[(&str, &str)] = &[
    ("audit-log-", "nothing is audited without --audit-policy-file"),
    ("authentication-", "only requests of the API server in front are accepted, and it has authenticated the user"),
    ("authorization-", "only requests of the API server in front are accepted, and it has authorized the user"),
    ("cert-dir", "a certificate that is not given is in --data-dir"),
    ("cluster-api-burst", MEMBERS),
    ("cluster-api-qps", MEMBERS),
    ("cluster-cache-sync-timeout", "a reconciliation waits for the caches it needs"),
    ("concurrent-", "reconciliations are tasks, and as many run as there is work"),
    ("contention-profiling", PROFILES),
    ("kube-api-", "requests to the API server are not rate-limited"),
    ("leader-elect-", "one process holds the store, so there is no Lease to elect a leader with"),
    ("log-backtrace-at", LOGS),
    ("log-json-", LOGS),
    ("log-text-", LOGS),
    ("profiling", PROFILES),
    ("rate-limiter-", "queues delay failed keys only, each on its own"),
    ("resync-period", "caches follow watches and need no resync"),
];
const LOGS: &str = "log lines are written to standard error without a buffer";
const MEMBERS: &str = "requests to members are not rate-limited";
const PROFILES: &str = "there is no Go runtime to profile";

/// Flags of features that this version does not have, and what to do instead.
const REFUSED: &[(&str, &str)] = &[("cluster-api-context", CLUSTER_API), ("cluster-api-kubeconfig", CLUSTER_API)];
const CLUSTER_API: &str = "this version does not discover the clusters of a Cluster API management cluster; join each of them with `karmadactl join`";

/// Why a flag is refused, where there is more to it than its value.
pub fn refused(name: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(flag, _)| *flag == name).map(|(_, why)| *why)
}

/// Gates of Go's logging library, which may be set to anything.
pub const NEEDLESS_GATES: &[&str] =
    &[gates::CONTEXTUAL_LOGGING, gates::LOGGING_ALPHA_OPTIONS, gates::LOGGING_BETA_OPTIONS];

/// Why a flag needs no effect here.
pub fn needless(name: &str) -> Option<&'static str> {
    let known = NEEDLESS.iter().find(|(start, _)| *start == name || (start.ends_with('-') && name.starts_with(start)));
    known.map(|(_, why)| *why)
}
