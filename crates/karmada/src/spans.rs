//! `--tracing-config-file`: spans of requests, sent to a collector.

use std::path::Path;

use anyhow::Context as _;
use apiserver::ApiServer;
use otlp::{Configuration, Exporter, Limits, Source};
use sha2::{Digest as _, Sha256};
use trace::Tracer;

/// `service.name`: kube-apiserver's.
const SERVICE: &str = "apiserver";

/// Reads the file of the flag.
///
/// # Errors
/// If it cannot be used, naming the flag and the file.
pub fn read(file: &Path) -> anyhow::Result<Configuration> {
    let place = || format!("--tracing-config-file {}", file.display());
    let text = std::fs::read(file).with_context(place)?;
    Configuration::parse(&text).with_context(place)
}

/// Records spans of the server's requests from now on.
///
/// # Errors
/// As [`read`].
pub fn start(file: &Path, server: &ApiServer) -> anyhow::Result<Exporter> {
    let Configuration { endpoint, sampling_rate_per_million } = read(file)?;
    let shared = server.shared();
    let source = Source { name: SERVICE.to_owned(), instance: instance() };
    let (queue, exporter) = otlp::start(endpoint, &source, Limits::default(), &shared.metrics);
    server.trace(Tracer::new(shared.world.clone(), sampling_rate_per_million, queue));
    Ok(exporter)
}

/// `service.instance.id`: of the host's name, as kube-apiserver's.
fn instance() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("apiserver-{}", hex::encode(&Sha256::digest(host.trim())[..16]))
}
