//! From the flags of the scheduler, the estimator and the descheduler to the settings of their crates.

use std::net::SocketAddr;

use anyhow::Context as _;
use estimator::{ClientTls, ServerTls, Settings};
use karmada_api::gates;
use scheduler::{Bucket, DeschedulerOptions, Options, Pacing};
use scheduling::Plugins;
use scheduling::accurate::Switches;

use crate::flags::FlagValues;
use crate::probes::Addresses;

/// `--metrics-bind-address` and `--health-probe-bind-address`.
pub fn addresses(flags: &FlagValues<'_>) -> anyhow::Result<Addresses> {
    let of = |name| plain_address(flags, name);
    Ok(Addresses { metrics: of("metrics-bind-address")?, health: of("health-probe-bind-address")? })
}

/// `127.0.0.1:8080`, `:8080` for all addresses, or `0` to disable it.
pub(super) fn plain_address(flags: &FlagValues<'_>, name: &str) -> anyhow::Result<Option<SocketAddr>> {
    let text = flags.text(name);
    if matches!(text, "0" | "") {
        return Ok(None);
    }
    let whole = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    whole
        .parse()
        .map(Some)
        .with_context(|| format!("--{name}: {text:?} is not an address such as 127.0.0.1:8080, or :8080 for all"))
}

/// Whether the flags allow eviction by NoExecute taints. In commands without these flags the gate decides.
pub fn evicts_by_taints(flags: &FlagValues<'_>) -> anyhow::Result<bool> {
    let is_known = !flags.text("enable-taint-manager").is_empty();
    Ok(!is_known || (flags.is_true("enable-taint-manager")? && flags.is_true("enable-no-execute-taint-eviction")?))
}

pub fn scheduler_options(flags: &FlagValues<'_>) -> anyhow::Result<Options> {
    let mut options = Options { name: flags.text("scheduler-name").to_owned(), ..Default::default() };
    anyhow::ensure!(!options.name.is_empty(), "--scheduler-name must not be empty");
    let open = |name| flags.gates.is_open(name);
    options.gates.empty_workload = flags.is_true("enable-empty-workload-propagation")?;
    options.gates.plugins = Plugins::parse(flags.list("plugins"));
    options.gates.multiple_pod_templates = open(gates::MULTIPLE_POD_TEMPLATES_SCHEDULING);
    options.gates.workload_affinity = open(gates::WORKLOAD_AFFINITY);
    options.gates.resource_models = open(gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING);
    options.gates.tolerations_expire = open(gates::FAILOVER) && evicts_by_taints(flags)?;
    options.by_priority = open(gates::PRIORITY_BASED_SCHEDULING);
    if !options.by_priority {
        options.pacing = pacing(flags)?;
    }
    options.overcommit_protection = open(gates::SCHEDULING_OVERCOMMIT_PROTECTION);
    options.spare_pull_estimators = flags.is_true("disable-scheduler-estimator-in-pull-mode")?;
    Ok(options)
}

/// The back-off of the queue without priorities; that with priorities has its own.
fn pacing(flags: &FlagValues<'_>) -> anyhow::Result<Pacing> {
    Ok(Pacing {
        first: flags.duration("rate-limiter-base-delay")?,
        longest: flags.duration("rate-limiter-max-delay")?,
        bucket: Bucket::new(flags.parsed("rate-limiter-qps")?, flags.parsed("rate-limiter-bucket-size")?),
    })
}

pub fn switches(flags: &FlagValues<'_>) -> Switches {
    Switches {
        quotas: flags.gates.is_open(gates::RESOURCE_QUOTA_ESTIMATE),
        assumed: flags.gates.is_open(gates::SCHEDULING_OVERCOMMIT_PROTECTION),
    }
}

pub fn descheduler_options(flags: &FlagValues<'_>) -> anyhow::Result<DeschedulerOptions> {
    Ok(DeschedulerOptions {
        interval: flags.duration("descheduling-interval")?,
        threshold: flags.duration("unschedulable-threshold")?,
        ..DeschedulerOptions::default()
    })
}

/// The connection settings of estimators with `--enable-scheduler-estimator`.
pub fn enabled_estimators(flags: &FlagValues<'_>) -> anyhow::Result<Option<Settings>> {
    // Invalid values are refused, as by upstream, while no estimator is used.
    flags.duration("scheduler-estimator-timeout")?;
    flags.parsed::<u16>("scheduler-estimator-port")?;
    flags.is_true("enable-scheduler-estimator")?.then(|| estimator_settings(flags)).transpose()
}

/// The connection settings of estimators.
pub(super) fn estimator_settings(flags: &FlagValues<'_>) -> anyhow::Result<Settings> {
    let prefixed = |name: &str| flags.text(&format!("scheduler-estimator-{name}")).to_owned();
    let insecure = flags.is_true("insecure-skip-estimator-verify")?;
    let (certificate, key) =
        (file(flags, "scheduler-estimator-cert-file")?, file(flags, "scheduler-estimator-key-file")?);
    let ca = file(flags, "scheduler-estimator-ca-file")?;
    let tls = (ca.is_some() || insecure).then(|| ClientTls { ca, certificate: certificate.zip(key), insecure });
    Ok(Settings {
        timeout: flags.duration("scheduler-estimator-timeout")?,
        namespace: prefixed("service-namespace"),
        prefix: prefixed("service-prefix"),
        port: flags.parsed("scheduler-estimator-port")?,
        tls,
    })
}

/// TLS of estimator connections; `None` is plain HTTP/2.
pub fn estimator_tls(flags: &FlagValues<'_>) -> anyhow::Result<Option<ServerTls>> {
    let certificate = file(flags, "grpc-auth-cert-file")?;
    let Some((certificate, key)) = certificate.zip(file(flags, "grpc-auth-key-file")?) else { return Ok(None) };
    let skips = flags.is_true("insecure-skip-grpc-client-verify")?;
    let client_ca = file(flags, "grpc-client-ca-file")?.filter(|_| !skips);
    Ok(Some(ServerTls { certificate, key, client_ca }))
}

fn file(flags: &FlagValues<'_>, flag: &str) -> anyhow::Result<Option<Vec<u8>>> {
    let path = flags.text(flag);
    if path.is_empty() {
        return Ok(None);
    }
    std::fs::read(path).map(Some).with_context(|| format!("--{flag}: reading {path}"))
}
