//! The keys and certificates of a running server: reread when their files change and when one is due for renewal, and
//! passed to their users. New connections get the new certificate; open ones continue.

mod expiry;
mod files;
mod keys;
mod published;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::apiserver::serve::{Certificate, TlsConfig};
use anyhow::Context as _;
use client::Client;
use controller_runtime::Failures;
use metrics::{Counters, Description, Registry};
use pki::{Directory, ServerNames};
use tokio_util::sync::CancellationToken;
use world::World;

use crate::data_dir::{self, DataDir};
use crate::reach::Listen;
use crate::serving_names;
pub(crate) use files::Changes;
pub use keys::Keys;

/// The longest time between two checks, for file systems that report no changes.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Pause after a failed check.
const RETRY: Duration = Duration::from_secs(600);

pub const EXPIRATION: Description = Description::gauge(
    "karmada_certificate_expiration_timestamp_seconds",
    &["certificate"],
    "Expiry of a certificate of this server, in seconds since 1970: ca, ca-N, front-proxy-ca, apiserver, admin, tls-cert-file.",
);
pub const CHECKS: Description = Description::counter(
    "karmada_certificate_checks_total",
    &["result"],
    "Checks of this server's certificates, with renewals where due: success, error.",
);
pub const METRICS: &[Description] = &[EXPIRATION, CHECKS];

/// The server whose certificates are renewed.
pub struct Served<'s> {
    pub data: &'s DataDir,
    pub listen: &'s Listen,
    pub tls: &'s TlsConfig,
    /// The names in an issued certificate.
    pub names: ServerNames,
    /// Publishes the trusted authorities; `None` for a server behind another one.
    pub client: Option<Client>,
    pub registry: &'s Registry,
    pub world: &'s World,
}

/// Renews the certificates of one server.
pub struct Keeper {
    root: PathBuf,
    listen: Listen,
    names: ServerNames,
    shown: Certificate,
    keys: Keys,
    client: Option<Client>,
    expiry: expiry::Expiry,
    checks: Counters,
    failures: Failures<&'static str>,
    /// The last valid content of `--client-ca-file`.
    client_authorities: String,
    world: World,
}

impl Keeper {
    pub fn new(served: Served<'_>) -> Self {
        Self {
            root: served.data.root().to_owned(),
            listen: served.listen.clone(),
            names: served.names,
            shown: served.tls.certificate().clone(),
            keys: served.data.keys.clone(),
            client: served.client,
            expiry: expiry::Expiry::new(served.registry),
            checks: served.registry.counters(&CHECKS),
            failures: Failures::lasting(Duration::ZERO),
            client_authorities: served.listen.client_authorities().unwrap_or_default(),
            world: served.world.clone(),
        }
    }

    /// Ends with `stop`.
    pub fn start(self, stop: CancellationToken) -> tokio::task::JoinHandle<()> {
        tokio::spawn(self.keep(stop))
    }

    async fn keep(mut self, stop: CancellationToken) {
        let mut changes = files::Changes::of(&self.watched());
        loop {
            let pause = match self.check().await {
                Ok(pause) => {
                    self.checks.increment(&["success"]);
                    if self.failures.succeeded(&"check").is_some() {
                        tracing::info!("Certificates are renewed and reloaded again");
                    }
                    pause
                }
                Err(error) => {
                    self.checks.increment(&["error"]);
                    let err = format!("{error:#}");
                    if self.failures.failed(&"check", &err) {
                        tracing::warn!(err, "Certificates cannot be renewed or reloaded; the present ones are used");
                    }
                    RETRY
                }
            };
            // After the clock was set, a certificate may have expired, or not be valid yet.
            tokio::select! {
                goes_on = changes.settled(pause, &stop) => if !goes_on { return },
                () = self.world.stepped() => {}
            }
        }
    }

    /// The directories whose files are followed.
    fn watched(&self) -> Vec<PathBuf> {
        let own = self.listen.certificate.iter().flat_map(|own| [&own.files.certificate, &own.files.key]);
        let named = self.listen.named.iter().flat_map(|named| [&named.certificate, &named.key]);
        let proxies = self.listen.front_proxies.iter().map(|proxies| &proxies.settings.file);
        let files = own.chain(self.keys.tokens.files()).chain(&self.listen.client_ca_file).chain(named).chain(proxies);
        let parents = files.filter_map(|file| Some(file.parent()?.to_owned()));
        std::iter::once(self.root.join(data_dir::KEYS)).chain(parents).collect()
    }

    /// Renews due certificates and passes new ones on. Returns the time to wait.
    async fn check(&mut self) -> anyhow::Result<Duration> {
        let (path, names, world) = (self.root.join(data_dir::KEYS), self.names.clone(), self.world.clone());
        let opened = tokio::task::spawn_blocking(move || Directory::open(&path, &names, &world)).await;
        let pki = Arc::new(opened.context("reading the certificates")?.context("reading the certificates")?);
        self.reload_own();
        self.reload_client_authorities();
        self.reload_named();
        let front = self.front_proxy_authority(&pki.front_proxy_trusted);
        let own = self.listen.certificate.as_ref();
        let trust = data_dir::trust(&pki, &self.listen);
        if own.is_none() {
            let (certificate, key) = (&pki.server.certificate, &pki.server.key);
            self.shown.replace(certificate, key).context("replacing the serving certificate")?;
        }
        let clients = format!("{}{}", pki.trusted, self.client_authorities);
        self.keys.take(&pki, &trust, &clients)?;
        self.expiry.report(&pki.certificates, own.map(|own| own.names.not_after), self.world.now().as_second());
        if let Some(client) = &self.client {
            data_dir::write_kubeconfig(&self.root, &self.listen, &pki.admin, &trust)?;
            published::update(client, (&clients, &front), &trust).await?;
        }
        let left = pki.due.saturating_sub(self.world.now().as_second());
        Ok(Duration::from_secs(u64::try_from(left).unwrap_or_default().max(1)).min(LONGEST))
    }

    /// Reloads the operator's client authorities. An invalid file is logged, and its previous content stays in effect.
    fn reload_client_authorities(&mut self) {
        match self.listen.client_authorities() {
            Ok(authorities) => {
                self.client_authorities = authorities;
                self.failures.succeeded(&"clients");
            }
            Err(error) => {
                let err = format!("{error:#}");
                if self.failures.failed(&"clients", &err) {
                    tracing::warn!(err, "Authorities of clients cannot be reloaded; the last valid ones are used");
                }
            }
        }
    }

    /// Reloads the certificates for specific names. Invalid ones are logged, and the previous ones stay in effect.
    fn reload_named(&mut self) {
        match serving_names::show(&self.listen.named, &self.shown) {
            Ok(()) => {
                self.failures.succeeded(&"named");
            }
            Err(error) => {
                let err = format!("{error:#}");
                if self.failures.failed(&"named", &err) {
                    tracing::warn!(err, "Serving certificates cannot be reloaded; the last valid ones are used");
                }
            }
        }
    }

    /// The published authorities of front proxies. An invalid file is logged, and its previous content stays in effect.
    fn front_proxy_authority(&mut self, own: &str) -> String {
        let Some(proxies) = &mut self.listen.front_proxies else { return own.to_owned() };
        match proxies.reload() {
            Ok(()) => {
                self.failures.succeeded(&"proxies");
            }
            Err(error) => {
                let err = format!("{error:#}");
                if self.failures.failed(&"proxies", &err) {
                    tracing::warn!(
                        err,
                        "Authorities of front proxies cannot be reloaded; the last valid ones are used"
                    );
                }
            }
        }
        proxies.published_authority(own)
    }

    /// Reloads the operator's certificate. An invalid pair is logged, and the previous one stays in effect.
    fn reload_own(&mut self) {
        let Some(own) = &mut self.listen.certificate else { return };
        match own.reload(&self.shown, &self.world) {
            Ok(true) => tracing::info!(file = %own.files.certificate.display(), "Serving certificate was reloaded"),
            Ok(false) => {}
            Err(error) => {
                let err = format!("{error:#}");
                if self.failures.failed(&"own", &err) {
                    tracing::warn!(err, "Serving certificate cannot be reloaded; the last valid one is used");
                }
                return;
            }
        }
        self.failures.succeeded(&"own");
    }
}
