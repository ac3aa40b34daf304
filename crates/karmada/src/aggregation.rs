//! The aggregator of a control plane: its settings, and the certificate that it presents to aggregated API servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::aggregation::{Aggregation, Certificate, Routing};
use anyhow::Context as _;
use apimachinery::resource::Resource;
use apiserver::bootstrap::objects::{PublishedProxies, authentication_data};
use client::ClientIdentity;
use client::webhooks::Webhooks;
use parking_lot::Mutex;
use pki::Authority;
use serde_json::Value;
use world::World;

use crate::certificates::Keys;
use crate::data_dir::DataDir;
use crate::front_proxies::{FrontProxies, OWN_NAME as NAME};
use crate::listed_metrics::{Offered, Versions};

/// A certificate is replaced after this time, a twelfth of its lifetime.
const RENEWED: Duration = Duration::from_secs(30 * 24 * 3600);
/// The time between two reads of the operator's files.
const REREAD: Duration = Duration::from_secs(60);

/// The files of `--proxy-client-cert-file` and `--proxy-client-key-file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The operator's client certificate; without it one of the data directory's front proxy authority is presented.
    pub proxy_client: Option<Files>,
    pub routing: Routing,
    /// Whether this server reaches the members, and serves the metrics APIs over them.
    pub metrics: bool,
}

impl Files {
    fn read(&self) -> anyhow::Result<ClientIdentity> {
        let text = |flag: &str, file: &Path| {
            std::fs::read_to_string(file).with_context(|| format!("{flag}: reading {}", file.display()))
        };
        let certificate = text("--proxy-client-cert-file", &self.certificate)?;
        pki::Holder::from_pem(&certificate)
            .with_context(|| format!("--proxy-client-cert-file: {} has no certificate", self.certificate.display()))?;
        let key = text("--proxy-client-key-file", &self.key)?;
        anyhow::ensure!(
            key.contains("PRIVATE KEY"),
            "--proxy-client-key-file: {} has no private key in PEM",
            self.key.display()
        );
        Ok(ClientIdentity { certificate, key })
    }
}

impl Settings {
    /// # Errors
    /// A file that cannot be read or used.
    pub fn check(&self) -> anyhow::Result<()> {
        self.proxy_client.as_ref().map(Files::read).transpose().map(drop)
    }

    /// The aggregator of a server with these resources.
    pub fn open(&self, resources: &[Resource], data: &DataDir, world: &World) -> Arc<Aggregation> {
        let certificate = match &self.proxy_client {
            Some(files) => of_files(files.clone(), world.clone()),
            None => of_authority(data.keys.clone(), world.clone()),
        };
        let aggregation = Aggregation::new(resources, self.routing, certificate, Webhooks::new(|_| None));
        if self.metrics {
            aggregation.serve_routed(Versions::default().routed(&Offered::default()));
        }
        aggregation
    }

    /// The data that aggregated API servers need to authenticate this server. The authority of the operator's
    /// certificate is unknown here: aggregated servers get it by `--requestheader-client-ca-file` or by their own
    /// flags.
    pub fn published(&self, data: &DataDir, front_proxies: Option<&FrontProxies>) -> Value {
        let own = data.pki.front_proxy_trusted.as_str();
        let proxies = match front_proxies {
            Some(proxies) => Some(proxies.published(own)),
            None => self.proxy_client.is_none().then(|| PublishedProxies::new(own, &[NAME])),
        };
        authentication_data(&data.client_authorities, proxies.as_ref())
    }
}

/// A value with its creation time, in seconds since 1970.
struct Made<S> {
    since: i64,
    source: S,
    identity: Arc<ClientIdentity>,
}

fn is_young(since: i64, world: &World, limit: Duration) -> bool {
    let age = world.now().as_second().saturating_sub(since);
    u64::try_from(age).is_ok_and(|age| age < limit.as_secs())
}

/// Issues a certificate, again when the authority changes and when it grows old.
fn of_authority(keys: Keys, world: World) -> Certificate {
    let last: Mutex<Option<Made<Arc<Authority>>>> = Mutex::default();
    Box::new(move || {
        let authority = keys.front_proxy.get();
        let mut last = last.lock();
        if let Some(made) = &*last
            && Arc::ptr_eq(&made.source, &authority)
            && is_young(made.since, &world, RENEWED)
        {
            return Some(Arc::clone(&made.identity));
        }
        match authority.issue_client(NAME, &[], &world) {
            Ok(pair) => {
                let identity = Arc::new(ClientIdentity { certificate: pair.certificate, key: pair.key });
                let since = world.now().as_second();
                *last = Some(Made { since, source: authority, identity: Arc::clone(&identity) });
                Some(identity)
            }
            Err(error) => {
                tracing::warn!(err = %error, "The front proxy's certificate cannot be issued");
                last.as_ref().map(|made| Arc::clone(&made.identity))
            }
        }
    })
}

/// Rereads the files at intervals. The last valid pair is kept.
fn of_files(files: Files, world: World) -> Certificate {
    let last: Mutex<Option<Made<()>>> = Mutex::default();
    Box::new(move || {
        let mut last = last.lock();
        if let Some(made) = &*last
            && is_young(made.since, &world, REREAD)
        {
            return Some(Arc::clone(&made.identity));
        }
        let since = world.now().as_second();
        match files.read() {
            Ok(read) => {
                // Connections are kept for an equal pair.
                let same = last.as_ref().filter(|made| *made.identity == read).map(|made| Arc::clone(&made.identity));
                *last = Some(Made { since, source: (), identity: same.unwrap_or_else(|| Arc::new(read)) });
            }
            Err(error) => {
                tracing::warn!(err = format!("{error:#}"), "The front proxy's certificate cannot be read");
                if let Some(made) = &mut *last {
                    made.since = since;
                }
            }
        }
        last.as_ref().map(|made| Arc::clone(&made.identity))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_certificate_follows_its_files_and_its_authority() {
        let world = World::simulated("2026-11-23T00:00:00Z".parse().expect("a time"), 7);
        let directory = tempfile::tempdir().expect("a directory");
        let (authority, _) = Authority::generate("ca", &world).expect("an authority");
        let files = Files { certificate: directory.path().join("c"), key: directory.path().join("k") };
        let write = || {
            let pair = authority.issue_client("proxy", &[], &world).expect("a certificate");
            std::fs::write(&files.certificate, &pair.certificate).expect("written");
            std::fs::write(&files.key, &pair.key).expect("written");
            pair.certificate
        };
        let settings = Settings { proxy_client: Some(files.clone()), ..Settings::default() };
        let error = format!("{:#}", settings.check().expect_err("missing"));
        assert!(error.starts_with("--proxy-client-cert-file: reading "), "{error}");
        let first = write();
        settings.check().expect("usable");
        let certificate = of_files(files.clone(), world.clone());
        assert_eq!(certificate().expect("a pair").certificate, first);
        let second = write();
        assert_eq!(certificate().expect("a pair").certificate, first, "read a moment ago");
        tokio::time::advance(REREAD).await;
        assert_eq!(certificate().expect("a pair").certificate, second);
        std::fs::write(&files.key, "").expect("written");
        tokio::time::advance(REREAD).await;
        assert_eq!(certificate().expect("a pair").certificate, second, "the last usable one");

        let data = DataDir::open(&directory.path().join("data"), &[], &world).expect("a data directory");
        let certificate = of_authority(data.keys.clone(), world.clone());
        let first = certificate().expect("a pair");
        assert!(Arc::ptr_eq(&first, &certificate().expect("a pair")));
        assert_eq!(pki::Holder::from_pem(&first.certificate).expect("a certificate").user, NAME);
        tokio::time::advance(RENEWED).await;
        assert_ne!(*first, *certificate().expect("a pair"));
        let data = Settings::default().published(&data, None);
        assert_eq!(data["requestheader-allowed-names"], r#"["front-proxy-client"]"#);
    }
}
