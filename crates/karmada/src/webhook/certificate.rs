//! The serving certificate in files that another process renews: read at the start, and again when they change.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use apiserver::serve::{Certificate, TlsConfig};
use controller_runtime::Failures;
use metrics::{Counters, Description, Registry};
use tokio_util::sync::CancellationToken;

use super::Options;

/// controller-runtime's own interval.
const LOOK: Duration = Duration::from_secs(10);

pub const READS: Description = Description::counter(
    "certwatcher_read_certificate_total",
    &[],
    "Reloads of the serving certificate after its files changed.",
);
pub const READ_ERRORS: Description = Description::counter(
    "certwatcher_read_certificate_errors_total",
    &[],
    "Failed reloads of the serving certificate: unreadable or inconsistent files.",
);

/// The content of the files when they were last read.
#[derive(PartialEq)]
struct Pair {
    certificate: String,
    key: String,
}

pub struct Files {
    options: Options,
    current: Certificate,
    last: Pair,
    reads: Counters,
    errors: Counters,
    failures: Failures<()>,
}

/// # Errors
/// The files are unusable at the start.
pub fn open(options: &Options, registry: &Registry) -> anyhow::Result<(Files, TlsConfig)> {
    let (reads, errors) = (registry.counters(&READS), registry.counters(&READ_ERRORS));
    let last = read(options)?;
    let tls = TlsConfig::without_client_certificates(&last.certificate, &last.key, options.tls_13_only)
        .context("setting up TLS with the files of --cert-dir")?;
    let current = tls.certificate().clone();
    reads.increment(&[]);
    errors.add(&[], 0);
    let failures = Failures::lasting(Duration::ZERO);
    Ok((Files { options: options.clone(), current, last, reads, errors, failures }, tls))
}

fn read(options: &Options) -> anyhow::Result<Pair> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("--cert-dir: cannot read {}", path.display()))
    };
    Ok(Pair { certificate: read(&options.certificate)?, key: read(&options.key)? })
}

impl Files {
    /// Serves new certificates until `stop`. An invalid one is logged, and the previous one stays in effect.
    pub async fn follow(mut self, stop: CancellationToken) {
        let mut interval = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                _ = interval.tick() => {}
                () = stop.cancelled() => return,
            }
            if let Err(error) = self.reload() {
                self.errors.increment(&[]);
                let err = format!("{error:#}");
                if self.failures.failed(&(), &err) {
                    tracing::error!(err, "Serving certificate cannot be reloaded; the last valid one is used");
                }
            } else if let Some(lasted) = self.failures.succeeded(&()) {
                tracing::info!(duration = ?lasted, "Serving certificate is reloaded again");
            }
        }
    }

    fn reload(&mut self) -> anyhow::Result<()> {
        let now = read(&self.options)?;
        if now == self.last {
            return Ok(());
        }
        self.reads.increment(&[]);
        // Files are written one after the other: the pair is retried when the second has been written.
        self.current.replace(&now.certificate, &now.key)?;
        self.last = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pki::{Authority, KeyPairPem, ServerNames};
    use world::World;

    use super::*;
    use crate::probes::Addresses;

    fn write(directory: &std::path::Path, pair: &KeyPairPem) {
        std::fs::write(directory.join("tls.crt"), &pair.certificate).expect("a file");
        std::fs::write(directory.join("tls.key"), &pair.key).expect("a file");
    }

    #[test]
    fn new_certificates_are_served_and_invalid_ones_ignored() {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
        let (authority, _) = Authority::generate("ca", &world).expect("an authority");
        let issue = || authority.issue_server(&ServerNames::api_server("a", &[]), &world).expect("a certificate");
        let directory = tempfile::tempdir().expect("a directory");
        write(directory.path(), &issue());
        let options = Options {
            listen: "127.0.0.1:0".parse().expect("an address"),
            certificate: directory.path().join("tls.crt"),
            key: directory.path().join("tls.key"),
            tls_13_only: true,
            probes: Addresses::default(),
        };
        let registry = Registry::default();
        let (mut files, _) = open(&options, &registry).expect("a pair");
        files.reload().expect("the same files");
        assert_eq!(registry.counters(&READS).value(&[]), 1);
        let next = issue();
        // The certificate alone does not fit to the key that is still there.
        std::fs::write(&options.certificate, &next.certificate).expect("a file");
        files.reload().expect_err("another key");
        std::fs::write(&options.key, &next.key).expect("a file");
        files.reload().expect("the second pair");
        files.reload().expect("the same files");
        assert_eq!(registry.counters(&READS).value(&[]), 3);
        std::fs::remove_file(&options.key).expect("a file");
        files.reload().expect_err("no key");
    }
}
