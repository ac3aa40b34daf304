//! Rights from other programs: `--authorization-mode`, `--authorization-config`, `--authorization-webhook-*`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::apiserver::Authorization;
use ::apiserver::auth::authz::{AlwaysAllow, Authorizer};
use ::identity::authorization::{Authorizer as Configured, Configuration, FailurePolicy, Webhook as WebhookSettings};
use ::identity::{Chain, Entry, Reviewer, Version};
use anyhow::Context as _;
use futures::future::BoxFuture;

use super::reload::{Followed, Kind, LoadedContent};
use super::{kubeconfig, read};

const CONFIGURATION: &str = "--authorization-config";
const WEBHOOK: &str = "--authorization-webhook-config-file";
/// The timeout of a review with all its attempts, as in kube-apiserver.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// A mode of `--authorization-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Node,
    Rbac,
    Webhook,
    AlwaysAllow,
    AlwaysDeny,
}

/// The flags about authorization.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `--authorization-mode`, in order; empty for RBAC.
    pub modes: Vec<Mode>,
    /// `--authorization-config`.
    pub file: Option<PathBuf>,
    /// `--authorization-webhook-*`.
    pub webhook: Option<Webhook>,
}

/// The webhook of the mode Webhook.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub config_file: PathBuf,
    pub version: Version,
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
}

impl Settings {
    /// # Errors
    /// The flag or file that cannot be used.
    pub fn check(&self) -> anyhow::Result<()> {
        self.configured().map(drop)
    }

    /// `None` if RBAC decides alone.
    fn configured(&self) -> anyhow::Result<Option<Vec<Configured>>> {
        if let Some(file) = &self.file {
            anyhow::ensure!(
                self.modes.is_empty() && self.webhook.is_none(),
                "{CONFIGURATION} excludes --authorization-mode and --authorization-webhook-*: list the authorizers in the file"
            );
            return Ok(Some(parse(&read(CONFIGURATION, file)?, file)?));
        }
        let has_webhook = self.modes.contains(&Mode::Webhook);
        anyhow::ensure!(
            has_webhook == self.webhook.is_some(),
            "--authorization-mode=Webhook and {WEBHOOK} must be set together"
        );
        if self.modes.iter().all(|mode| matches!(mode, Mode::Node | Mode::Rbac)) {
            let is_rbac = self.modes.is_empty() || self.modes.contains(&Mode::Rbac);
            anyhow::ensure!(is_rbac, "--authorization-mode=Node allows no user anything here: add RBAC");
            return Ok(None);
        }
        Ok(Some(self.modes.iter().filter_map(|mode| self.of_mode(*mode)).collect()))
    }

    fn of_mode(&self, mode: Mode) -> Option<Configured> {
        Some(match mode {
            Mode::Node => Configured::Node,
            Mode::Rbac => Configured::Rbac,
            Mode::AlwaysAllow => Configured::AlwaysAllow,
            Mode::AlwaysDeny => Configured::AlwaysDeny,
            Mode::Webhook => {
                let webhook = self.webhook.as_ref()?;
                Configured::Webhook(WebhookSettings {
                    name: "default".to_owned(),
                    authorized_ttl: webhook.authorized_ttl,
                    unauthorized_ttl: webhook.unauthorized_ttl,
                    timeout: WEBHOOK_TIMEOUT,
                    version: webhook.version,
                    failure_policy: FailurePolicy::NoOpinion,
                    kubeconfig: Some(webhook.config_file.display().to_string()),
                    conditions: Vec::new(),
                })
            }
        })
    }

    pub(super) async fn open(&self) -> anyhow::Result<Option<Open>> {
        let Some(configured) = self.configured()? else { return Ok(None) };
        let has_rbac = configured.iter().any(|it| matches!(it, Configured::Rbac));
        let entries = connected(configured).await?;
        let chain = Arc::new(Chain::default());
        Ok(Some(Open { chain, rbac: Arc::default(), entries: Arc::new(parking_lot::Mutex::new(entries)), has_rbac }))
    }
}

fn parse(content: &[u8], file: &Path) -> anyhow::Result<Vec<Configured>> {
    let parsed = Configuration::parse(content).with_context(|| format!("{CONFIGURATION} {}", file.display()))?;
    Ok(parsed.authorizers)
}

/// An authorizer whose webhook is connected. RBAC is the server's own and known later.
enum Connected {
    Rbac,
    Other(Entry),
}

async fn connected(configured: Vec<Configured>) -> anyhow::Result<Vec<Connected>> {
    let mut found = Vec::new();
    for authorizer in configured {
        found.push(match authorizer {
            Configured::Rbac => Connected::Rbac,
            // No kubelet is a client here.
            Configured::Node => continue,
            Configured::AlwaysAllow => Connected::Other(Entry::Local(Arc::new(AlwaysAllow))),
            Configured::AlwaysDeny => Connected::Other(Entry::AlwaysDeny),
            Configured::Webhook(settings) => {
                let places = settings.kubeconfig.as_ref().map(|file| kubeconfig(Path::new(file)));
                let places = places.with_context(|| {
                    format!(
                        "authorization webhook {:?}: this process runs in no pod; set a kubeConfigFile",
                        settings.name
                    )
                })?;
                let reviewer = Reviewer::of_kubeconfig(&places, settings.timeout).await;
                let reviewer = reviewer.with_context(|| format!("authorization webhook {:?}", settings.name))?;
                Connected::Other(Entry::webhook(settings, reviewer))
            }
        });
    }
    Ok(found)
}

fn entries(connected: Vec<Connected>, rbac: &Arc<dyn Authorizer>) -> Vec<Entry> {
    let entry = |it| match it {
        Connected::Rbac => Entry::Local(Arc::clone(rbac)),
        Connected::Other(entry) => entry,
    };
    connected.into_iter().map(entry).collect()
}

/// The authorizers of a server that starts.
pub struct Open {
    chain: Arc<Chain>,
    /// The server's own roles and bindings, once it has started.
    rbac: Arc<OnceLock<Arc<dyn Authorizer>>>,
    /// Taken at the start.
    entries: Arc<parking_lot::Mutex<Vec<Connected>>>,
    has_rbac: bool,
}

impl Open {
    pub fn authorization(&self) -> Authorization {
        let (chain, known) = (Arc::clone(&self.chain), Arc::clone(&self.rbac));
        let connected = std::mem::take(&mut *self.entries.lock());
        let build = Box::new(move |rbac: Arc<dyn Authorizer>| {
            chain.replace(entries(connected, &rbac));
            // A server starts once.
            let _ = known.set(rbac);
            chain as Arc<dyn Authorizer>
        });
        Authorization::Custom { build, has_rbac: self.has_rbac }
    }
}

struct File {
    open: Open,
    file: PathBuf,
    loaded: LoadedContent,
}

/// The authorizers follow their file.
pub(super) fn followed(open: Open, file: &Path) -> Box<dyn Followed> {
    let loaded = LoadedContent::new(std::fs::read(file).unwrap_or_default());
    Box::new(File { open, file: file.to_owned(), loaded })
}

impl Followed for File {
    fn kind(&self) -> Kind {
        Kind::Authorization
    }

    fn file(&self) -> PathBuf {
        self.file.clone()
    }

    fn reload(&mut self) -> BoxFuture<'_, anyhow::Result<bool>> {
        Box::pin(async move {
            let content = read(CONFIGURATION, &self.file)?;
            if !self.loaded.takes(&content) {
                return Ok(false);
            }
            let connected = connected(parse(&content, &self.file)?).await?;
            if let Some(rbac) = self.open.rbac.get() {
                self.open.chain.replace(entries(connected, rbac));
            }
            Ok(true)
        })
    }
}
