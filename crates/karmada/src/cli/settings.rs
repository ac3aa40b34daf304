//! From the flags of upstream's programs to the settings of the components.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use controllers::Skip;
use karmada_api::gates;
use karmada_api::policy::v1alpha1::ClusterPurgeMode;

use crate::flags::FlagValues;
use crate::{components, webhook};

pub(super) fn admission(flags: &FlagValues<'_>) -> anyhow::Result<karmada_api::admission::Options> {
    Ok(karmada_api::admission::Options {
        allow_no_execute_taint_policy: flags.is_true("allow-no-execute-taint-policy")?,
        multiple_pod_templates: flags.gates.is_open(gates::MULTIPLE_POD_TEMPLATES_SCHEDULING),
        quota_enforcement: flags.gates.is_open(gates::FEDERATED_QUOTA_ENFORCEMENT),
        preemption: flags.gates.is_open(gates::PROPAGATION_POLICY_PREEMPTION),
        workload_affinity: flags.gates.is_open(gates::WORKLOAD_AFFINITY),
        failover: flags.gates.is_open(gates::FAILOVER),
        no_execute_eviction: flags.gates.is_open(gates::FAILOVER) && components::evicts_by_taints(flags)?,
        stateful_failover: flags.gates.is_open(gates::STATEFUL_FAILOVER_INJECTION),
        multi_cluster_service: flags.gates.is_open(gates::MULTI_CLUSTER_SERVICE),
        scale_to_zero: flags.gates.is_open(gates::HPA_SCALE_TO_ZERO),
        ..Default::default()
    })
}

/// The settings of the controllers of a control plane.
pub(super) fn settings(flags: &FlagValues<'_>) -> anyhow::Result<controllers::Settings> {
    let period = positive(flags, "cluster-monitor-period")?;
    let graces = controllers::Graces {
        usual: grace(flags, "cluster-monitor-grace-period")?,
        startup: grace(flags, "cluster-startup-grace-period")?,
    };
    Ok(controllers::Settings {
        skip: Skip::parse(flags.text("skipped-propagating-apis"), &flags.list("skipped-propagating-namespaces"))?,
        monitoring: controllers::Monitoring { period, graces },
        eviction: eviction(flags)?,
        quota_sync_period: positive(flags, "federated-resource-quota-sync-period")?,
        scaling: scaling(flags)?,
        ..of_members(flags)?
    })
}

/// The settings of FederatedHPA.
fn scaling(flags: &FlagValues<'_>) -> anyhow::Result<controllers::Scaling> {
    let window = |name: &str| {
        let seconds = seconds(flags, &format!("horizontal-pod-autoscaler-{name}"))?;
        Ok::<_, anyhow::Error>(jiff::SignedDuration::from_secs(seconds))
    };
    let tolerance: f64 = flags.parsed("horizontal-pod-autoscaler-tolerance")?;
    anyhow::ensure!(
        tolerance.is_finite() && tolerance >= 0.0,
        "--horizontal-pod-autoscaler-tolerance must be at least 0, and is {tolerance}"
    );
    let decisions = autoscaling::Settings {
        downscale_stabilization: window("downscale-stabilization")?,
        tolerance,
        cpu_initialization: window("cpu-initialization-period")?,
        initial_readiness_delay: window("initial-readiness-delay")?,
    };
    Ok(controllers::Scaling { sync_period: positive(flags, "horizontal-pod-autoscaler-sync-period")?, decisions })
}

/// The settings of an agent.
pub(super) fn agent_settings(flags: &FlagValues<'_>) -> anyhow::Result<controllers::Settings> {
    let duration = positive(flags, "cluster-lease-duration")?;
    let fraction: f64 = flags.parsed("cluster-lease-renew-interval-fraction")?;
    anyhow::ensure!(
        fraction > 0.0 && fraction < 1.0,
        "--cluster-lease-renew-interval-fraction must be greater than 0 and less than 1"
    );
    let threshold: f64 = flags.parsed("cert-rotation-remaining-time-threshold")?;
    anyhow::ensure!(
        threshold > 0.0 && threshold < 1.0,
        "--cert-rotation-remaining-time-threshold must be greater than 0 and less than 1"
    );
    let rotation = controllers::Rotation {
        namespace: flags.text("karmada-kubeconfig-namespace").to_owned(),
        interval: positive(flags, "cert-rotation-checking-interval")?,
        threshold,
        ..Default::default()
    };
    Ok(controllers::Settings { renewal: controllers::Renewal { duration, fraction }, rotation, ..of_members(flags)? })
}

/// The settings of both.
fn of_members(flags: &FlagValues<'_>) -> anyhow::Result<controllers::Settings> {
    let mut settings = controllers::Settings {
        status_frequency: positive(flags, "cluster-status-update-frequency")?,
        sums: flags.is_true("enable-cluster-resource-modeling")?,
        gates: controllers::Gates {
            propagate_deps: flags.gates.is_open(gates::PROPAGATE_DEPS),
            schedule_priority: flags.gates.is_open(gates::PRIORITY_BASED_SCHEDULING),
            resource_models: flags.gates.is_open(gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING),
            priority_queue: flags.gates.is_open(gates::CONTROLLER_PRIORITY_QUEUE),
            preemption: flags.gates.is_open(gates::PROPAGATION_POLICY_PREEMPTION),
            multiple_pod_templates: flags.gates.is_open(gates::MULTIPLE_POD_TEMPLATES_SCHEDULING),
            workload_affinity: flags.gates.is_open(gates::WORKLOAD_AFFINITY),
            resource_quota_estimate: flags.gates.is_open(gates::RESOURCE_QUOTA_ESTIMATE),
            failover: flags.gates.is_open(gates::FAILOVER),
            graceful_eviction: flags.gates.is_open(gates::GRACEFUL_EVICTION),
            stateful_failover: flags.gates.is_open(gates::STATEFUL_FAILOVER_INJECTION),
            quota_enforcement: flags.gates.is_open(gates::FEDERATED_QUOTA_ENFORCEMENT),
            multi_cluster_service: flags.gates.is_open(gates::MULTI_CLUSTER_SERVICE),
        },
        ..Default::default()
    };
    settings.thresholds.success = seconds(flags, "cluster-success-threshold")?;
    settings.thresholds.failure = seconds(flags, "cluster-failure-threshold")?;
    // Requests are limited only if a flag sets a limit; upstream's default is 40 a second.
    if flags.is_set("cluster-api-qps") {
        settings.member_qps = flags.parsed("cluster-api-qps")?;
    }
    settings.member_burst = flags.parsed("cluster-api-burst")?;
    Ok(settings)
}

fn eviction(flags: &FlagValues<'_>) -> anyhow::Result<controllers::Eviction> {
    let by_taints = components::evicts_by_taints(flags)?;
    let purge_mode = match flags.text("no-execute-taint-eviction-purge-mode") {
        "Directly" => ClusterPurgeMode::Directly,
        "Gracefully" => ClusterPurgeMode::Gracefully,
        // Upstream does not read it either then.
        _ if !by_taints => ClusterPurgeMode::Gracefully,
        other => anyhow::bail!(
            "--no-execute-taint-eviction-purge-mode: {other:?} is not supported; supported values: Directly, Gracefully"
        ),
    };
    // Upstream's rate of 0.5 applies only where it is set: it takes hours for some thousands of workloads.
    let is_paced = flags.is_set("resource-eviction-rate");
    let rate: Option<f64> = is_paced.then(|| flags.parsed("resource-eviction-rate")).transpose()?;
    anyhow::ensure!(rate.is_none_or(|rate| rate >= 0.0), "--resource-eviction-rate must be greater than or equal to 0");
    let grace = flags.duration("graceful-eviction-timeout")?;
    Ok(controllers::Eviction { by_taints, purge_mode, rate, grace, ..Default::default() })
}

fn seconds(flags: &FlagValues<'_>, name: &str) -> anyhow::Result<i64> {
    let parsed = flags.duration(name)?.as_secs();
    i64::try_from(parsed).with_context(|| format!("--{name} is too long"))
}

/// In whole seconds, rounded up: without grace every cluster is silent.
fn grace(flags: &FlagValues<'_>, name: &str) -> anyhow::Result<i64> {
    positive(flags, name)?;
    seconds(flags, name).map(|seconds| seconds.max(1))
}

/// A period: something is done that often.
fn positive(flags: &FlagValues<'_>, name: &str) -> anyhow::Result<Duration> {
    let period = flags.duration(name)?;
    anyhow::ensure!(!period.is_zero(), "--{name} must be greater than 0");
    Ok(period)
}

pub(super) fn webhook_options(flags: &FlagValues<'_>) -> anyhow::Result<webhook::Options> {
    let directory = PathBuf::from(flags.text("cert-dir"));
    let address: IpAddr = flags.parsed("bind-address")?;
    let tls_13_only = match flags.text("tls-min-version") {
        "1.3" => true,
        "1.2" => false,
        "1.0" | "1.1" => anyhow::bail!("--tls-min-version: TLS 1.0 and 1.1 are not offered; 1.2 and 1.3 are"),
        other => anyhow::bail!("--tls-min-version: {other:?} is neither 1.2 nor 1.3"),
    };
    Ok(webhook::Options {
        listen: SocketAddr::new(address, flags.parsed("secure-port")?),
        certificate: directory.join(flags.text("tls-cert-file-name")),
        key: directory.join(flags.text("tls-private-key-file-name")),
        tls_13_only,
        probes: components::addresses(flags)?,
    })
}
