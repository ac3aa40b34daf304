//! Authentication and authorization beyond the server's own accounts and roles, by kube-apiserver's flags: OpenID
//! Connect and webhooks; and the encryption of stored values. The files are validated before any other action and
//! reloaded while the server runs.

mod authentication;
mod authorization;
mod encryption;
mod reload;
mod tokens;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::apiserver::Authorization;
use ::apiserver::auth::authn::StaticTokens;
use ::identity::encrypted::Places;
use ::identity::{EncryptedStore, Methods};
use anyhow::Context as _;
use metrics::Registry;
use storage::Store;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use authentication::{Oidc, Settings as Authentication};
pub use authorization::{Mode, Settings as AuthorizationSettings, Webhook};
pub use encryption::{Open as OpenEncryption, Settings as Encryption};
use reload::Followed;
pub use reload::METRICS;

/// The webhook that reviews tokens.
pub use authentication::TokenWebhook;

/// The flags of an API server for users, their rights, and the encryption of stored values.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub authentication: Authentication,
    pub authorization: AuthorizationSettings,
    /// `None`: values are stored as they are.
    pub encryption: Option<Encryption>,
}

impl Settings {
    /// Validates the files.
    ///
    /// # Errors
    /// The flag and file that cannot be used.
    pub fn check(&self, own_issuers: &[String]) -> anyhow::Result<()> {
        self.authentication.configuration(own_issuers)?;
        self.authorization.check()?;
        self.encryption.as_ref().map(Encryption::read).transpose()?;
        Ok(())
    }

    /// Reads the files and connects to the services that the store needs. `own_issuers` are those of service account
    /// tokens, and the audiences of the server unless a flag sets others.
    ///
    /// # Errors
    /// As [`Self::check`]; a key management service that does not answer.
    pub async fn open(&self, own_issuers: &[String]) -> anyhow::Result<Opened> {
        let methods = self.authentication.open(own_issuers).await?;
        let authorization = self.authorization.open().await?;
        let encryption = match &self.encryption {
            Some(settings) => Some(encryption::Open::start(settings).await?),
            None => None,
        };
        Ok(Opened { settings: self.clone(), own_issuers: own_issuers.to_vec(), methods, authorization, encryption })
    }
}

/// The objects configured by the flags.
pub struct Opened {
    settings: Settings,
    own_issuers: Vec<String>,
    /// `None` if no flag configures another method.
    pub methods: Option<Arc<Methods>>,
    authorization: Option<authorization::Open>,
    encryption: Option<encryption::Open>,
}

impl Opened {
    /// The store as the server uses it. Values are encrypted for their places in the engine.
    pub fn store(&self, engine: Arc<dyn Store>, places: Places) -> Arc<dyn Store> {
        match &self.encryption {
            Some(encryption) => Arc::new(EncryptedStore::at(engine, Arc::clone(&encryption.providers), places)),
            None => engine,
        }
    }

    /// How requests are authorized.
    pub fn authorization(&self) -> Authorization {
        self.authorization.as_ref().map_or(Authorization::Rbac, authorization::Open::authorization)
    }

    /// Follows the files, also that of static tokens, and the key management services until `stop`.
    pub fn follow(
        self,
        server: &::apiserver::ApiServer,
        tokens: Option<(PathBuf, StaticTokens)>,
        stop: CancellationToken,
    ) -> Option<JoinHandle<()>> {
        let shared = server.shared();
        let mut followed: Vec<Box<dyn Followed>> = Vec::new();
        if let Some((file, tokens)) = tokens {
            followed.push(tokens::followed(file, tokens));
        }
        if let (Some(methods), Some(file)) = (self.methods, &self.settings.authentication.file) {
            followed.push(authentication::followed(
                methods,
                file,
                self.settings.authentication.clone(),
                self.own_issuers,
            ));
        }
        if let (Some(open), Some(file)) = (self.authorization, &self.settings.authorization.file) {
            followed.push(authorization::followed(open, file));
        }
        if let (Some(open), Some(settings)) = (self.encryption, &self.settings.encryption) {
            let gate = shared.health.live_gate("kms-providers");
            let health: ::identity::encrypted::OnHealth = Arc::new(move |is_well| gate.set(is_well));
            open.providers.watch_services(&health);
            if settings.reload {
                followed.push(encryption::followed(open, settings.clone(), health));
            }
        }
        let registry: &Registry = &shared.metrics;
        (!followed.is_empty()).then(|| tokio::spawn(reload::follow(followed, registry.clone(), stop)))
    }
}

/// The content of a file of a flag.
fn read(flag: &str, file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("{flag}: cannot read {}", file.display()))
}

/// A file of a flag that a webhook is described in.
fn kubeconfig(file: &Path) -> client::kubeconfig::Places {
    client::kubeconfig::Places::file(file)
}
