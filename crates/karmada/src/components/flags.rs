//! From the flags of the scheduler, the estimator and the descheduler to the settings of their crates.

use std::net::SocketAddr;

use anyhow::Context as _;
use estimator::{ClientTls, ServerTls, Settings};
use karmada_api::gates;
use scheduler::{Bucket, DeschedulerOptions, Options, Pacing};
use scheduling::Plugins;
use scheduling::accurate::Switches;

use crate::flags::Given;
use crate::probes::Addresses;

/// `--metrics-bind-address` and `--health-probe-bind-address`.
pub fn addresses(given: &Given<'_>) -> anyhow::Result<Addresses> {
    let of = |name| plain_address(given, name);
    Ok(Addresses { metrics: of("metrics-bind-address")?, health: of("health-probe-bind-address")? })
}

/// `127.0.0.1:8080`, `:8080` for all addresses, or `0` to disable it.
pub(super) fn plain_address(given: &Given<'_>, name: &str) -> anyhow::Result<Option<SocketAddr>> {
    let text = given.text(name);
    if matches!(text, "0" | "") {
        return Ok(None);
    }
    let whole = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    whole
        .parse()
        .map(Some)
        .with_context(|| format!("--{name}: {text:?} is not an address such as 127.0.0.1:8080, or :8080 for all"))
}

pub fn scheduler_options(given: &Given<'_>) -> anyhow::Result<Options> {
    let mut options = Options { name: given.text("scheduler-name").to_owned(), ..Default::default() };
    anyhow::ensure!(!options.name.is_empty(), "--scheduler-name must not be empty");
    let open = |name| given.gates.is_open(name);
    options.gates.empty_workload = given.is_true("enable-empty-workload-propagation")?;
    options.gates.plugins = Plugins::parse(given.list("plugins"));
    options.gates.multiple_pod_templates = open(gates::MULTIPLE_POD_TEMPLATES_SCHEDULING);
    options.gates.workload_affinity = open(gates::WORKLOAD_AFFINITY);
    options.gates.resource_models = open(gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING);
    options.by_priority = open(gates::PRIORITY_BASED_SCHEDULING);
    if !options.by_priority {
        options.pacing = pacing(given)?;
    }
    options.overcommit_protection = open(gates::SCHEDULING_OVERCOMMIT_PROTECTION);
    options.spare_pull_estimators = given.is_true("disable-scheduler-estimator-in-pull-mode")?;
    Ok(options)
}

/// The back-off of the queue without priorities; that with priorities has its own.
fn pacing(given: &Given<'_>) -> anyhow::Result<Pacing> {
    Ok(Pacing {
        first: given.duration("rate-limiter-base-delay")?,
        longest: given.duration("rate-limiter-max-delay")?,
        bucket: Bucket::new(given.parsed("rate-limiter-qps")?, given.parsed("rate-limiter-bucket-size")?),
    })
}

pub fn switches(given: &Given<'_>) -> Switches {
    Switches {
        quotas: given.gates.is_open(gates::RESOURCE_QUOTA_ESTIMATE),
        assumed: given.gates.is_open(gates::SCHEDULING_OVERCOMMIT_PROTECTION),
    }
}

pub fn descheduler_options(given: &Given<'_>) -> anyhow::Result<DeschedulerOptions> {
    Ok(DeschedulerOptions {
        interval: given.duration("descheduling-interval")?,
        threshold: given.duration("unschedulable-threshold")?,
        ..DeschedulerOptions::default()
    })
}

/// The connection settings of estimators.
pub fn estimator_settings(given: &Given<'_>) -> anyhow::Result<Settings> {
    let prefixed = |name: &str| given.text(&format!("scheduler-estimator-{name}")).to_owned();
    let insecure = given.is_true("insecure-skip-estimator-verify")?;
    let (certificate, key) =
        (file(given, "scheduler-estimator-cert-file")?, file(given, "scheduler-estimator-key-file")?);
    let ca = file(given, "scheduler-estimator-ca-file")?;
    let tls = (ca.is_some() || insecure).then(|| ClientTls { ca, certificate: certificate.zip(key), insecure });
    Ok(Settings {
        timeout: given.duration("scheduler-estimator-timeout")?,
        namespace: prefixed("service-namespace"),
        prefix: prefixed("service-prefix"),
        port: given.parsed("scheduler-estimator-port")?,
        tls,
    })
}

/// TLS of estimator connections; `None` is plain HTTP/2.
pub fn estimator_tls(given: &Given<'_>) -> anyhow::Result<Option<ServerTls>> {
    let certificate = file(given, "grpc-auth-cert-file")?;
    let Some((certificate, key)) = certificate.zip(file(given, "grpc-auth-key-file")?) else { return Ok(None) };
    let skips = given.is_true("insecure-skip-grpc-client-verify")?;
    let client_ca = file(given, "grpc-client-ca-file")?.filter(|_| !skips);
    Ok(Some(ServerTls { certificate, key, client_ca }))
}

fn file(given: &Given<'_>, flag: &str) -> anyhow::Result<Option<Vec<u8>>> {
    let path = given.text(flag);
    if path.is_empty() {
        return Ok(None);
    }
    std::fs::read(path).map(Some).with_context(|| format!("--{flag}: reading {path}"))
}
