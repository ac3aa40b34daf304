//! Users from other programs: `--oidc-*`, `--authentication-config`, `--authentication-token-webhook-*`,
//! `--anonymous-auth`, `--api-audiences`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::authentication::{Configuration, Flags};
use ::identity::{Methods, Reviewer, Version, WebhookTokens};
use anyhow::Context as _;
use futures::future::BoxFuture;

use super::reload::{Followed, Kind, LoadedContent};
use super::{kubeconfig, read};

const CONFIGURATION: &str = "--authentication-config";
const WEBHOOK: &str = "--authentication-token-webhook-config-file";
/// The timeout of a review with all its attempts, as in kube-apiserver.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// The flags about authentication.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `--anonymous-auth`; `None` if it is not set, which means true.
    pub anonymous: Option<bool>,
    /// `--api-audiences`; empty for the issuers of service account tokens.
    pub audiences: Vec<String>,
    /// `--oidc-*`.
    pub oidc: Option<Oidc>,
    /// `--authentication-config`.
    pub file: Option<PathBuf>,
    /// `--authentication-token-webhook-*`.
    pub webhook: Option<TokenWebhook>,
}

/// The flags `--oidc-*`.
#[derive(Clone, Debug)]
pub struct Oidc {
    pub flags: Flags,
    /// `--oidc-ca-file`.
    pub ca_file: Option<PathBuf>,
}

/// A webhook that reviews tokens.
#[derive(Clone, Debug)]
pub struct TokenWebhook {
    pub config_file: PathBuf,
    pub version: Version,
    /// How long an answer is valid.
    pub lifetime: Duration,
}

impl Settings {
    /// Whether requests without credentials are `system:anonymous`, unless a configuration decides it.
    pub fn allows_anonymous(&self) -> bool {
        self.anonymous.unwrap_or(true)
    }

    /// The audiences of the server.
    pub fn audiences(&self, own_issuers: &[String]) -> Vec<String> {
        if self.audiences.is_empty() { own_issuers.to_vec() } else { self.audiences.clone() }
    }

    /// The issuers of the flags or of the file.
    ///
    /// # Errors
    /// The flag or file that cannot be used.
    pub fn configuration(&self, own_issuers: &[String]) -> anyhow::Result<Configuration> {
        let Some(file) = &self.file else {
            let Some(oidc) = &self.oidc else { return Ok(Configuration::default()) };
            let mut flags = oidc.flags.clone();
            if let Some(file) = &oidc.ca_file {
                let authority = String::from_utf8(read("--oidc-ca-file", file)?);
                flags.certificate_authority = authority.context("--oidc-ca-file: it is not PEM")?;
            }
            return Ok(Configuration { issuers: vec![flags.issuer(own_issuers)?], anonymous: None });
        };
        anyhow::ensure!(
            self.oidc.is_none(),
            "{CONFIGURATION} and --oidc-* exclude each other: describe the issuer in the file"
        );
        self.parse(&read(CONFIGURATION, file)?, file, own_issuers)
    }

    fn parse(&self, content: &[u8], file: &Path, own_issuers: &[String]) -> anyhow::Result<Configuration> {
        let parsed = Configuration::parse(content, own_issuers);
        let parsed = parsed.with_context(|| format!("{CONFIGURATION} {}", file.display()))?;
        anyhow::ensure!(
            parsed.anonymous.is_none() || self.anonymous.is_none(),
            "--anonymous-auth cannot be set when the field anonymous of {CONFIGURATION} is set"
        );
        Ok(parsed)
    }

    pub(super) async fn open(&self, own_issuers: &[String]) -> anyhow::Result<Option<Arc<Methods>>> {
        if self.file.is_none() && self.oidc.is_none() && self.webhook.is_none() {
            return Ok(None);
        }
        let webhook = match &self.webhook {
            Some(webhook) => Some(webhook.open().await?),
            None => None,
        };
        let methods = Methods::new(webhook, self.audiences(own_issuers));
        methods.replace(self.configuration(own_issuers)?);
        Ok(Some(Arc::new(methods)))
    }
}

impl TokenWebhook {
    async fn open(&self) -> anyhow::Result<WebhookTokens> {
        let reviewer = Reviewer::of_kubeconfig(&kubeconfig(&self.config_file), WEBHOOK_TIMEOUT).await;
        let reviewer = reviewer.with_context(|| format!("{WEBHOOK} {}", self.config_file.display()))?;
        Ok(WebhookTokens::new(reviewer, self.version, self.lifetime))
    }
}

struct File {
    methods: Arc<Methods>,
    file: PathBuf,
    settings: Settings,
    own_issuers: Vec<String>,
    loaded: LoadedContent,
}

/// The issuers follow their file.
pub(super) fn followed(
    methods: Arc<Methods>,
    file: &Path,
    settings: Settings,
    own_issuers: Vec<String>,
) -> Box<dyn Followed> {
    let loaded = LoadedContent::new(std::fs::read(file).unwrap_or_default());
    Box::new(File { methods, file: file.to_owned(), settings, own_issuers, loaded })
}

impl Followed for File {
    fn kind(&self) -> Kind {
        Kind::Authentication
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
            self.methods.replace(self.settings.parse(&content, &self.file, &self.own_issuers)?);
            Ok(true)
        })
    }
}
