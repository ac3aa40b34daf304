//! The encryption of stored values: `--encryption-provider-config` and `--encryption-provider-config-automatic-reload`.

use std::path::PathBuf;
use std::sync::Arc;

use ::encryption::Configuration;
use ::identity::Encryption;
use ::identity::encrypted::OnHealth;
use anyhow::Context as _;
use futures::future::BoxFuture;

use super::read;
use super::reload::{Followed, Kind, LoadedContent};

const CONFIGURATION: &str = "--encryption-provider-config";

/// The flags about encryption.
#[derive(Clone, Debug)]
pub struct Settings {
    pub file: PathBuf,
    /// Whether a changed file is read while the server runs.
    pub reload: bool,
}

impl Settings {
    /// # Errors
    /// The file that cannot be used.
    pub fn read(&self) -> anyhow::Result<(Vec<u8>, Configuration)> {
        let content = read(CONFIGURATION, &self.file)?;
        let parsed = self.parse(&content)?;
        Ok((content, parsed))
    }

    fn parse(&self, content: &[u8]) -> anyhow::Result<Configuration> {
        Configuration::parse(content).with_context(|| format!("{CONFIGURATION} {}", self.file.display()))
    }

    /// A misspelled resource is no error, as in kube-apiserver, but its values are stored unencrypted.
    fn report_misspelled(&self, configuration: &Configuration) {
        let built_in = kubernetes_api::resources();
        let names = built_in.iter().map(|it| (it.info.resource.group.as_str(), it.info.resource.plural.as_str()));
        for resource in configuration.misspelled(&names.collect::<Vec<_>>()) {
            tracing::warn!(resource, file = %self.file.display(), "No such resource exists, so a rule encrypts nothing");
        }
    }
}

/// The providers of a server, and the file that they are from.
pub struct Open {
    pub providers: Arc<Encryption>,
    loaded: LoadedContent,
}

impl Open {
    /// # Errors
    /// A file that cannot be used; a key management service that does not answer.
    pub async fn start(settings: &Settings) -> anyhow::Result<Self> {
        let (content, configuration) = settings.read()?;
        settings.report_misspelled(&configuration);
        let providers = Encryption::start(configuration).await.map_err(anyhow::Error::msg);
        let providers = providers.with_context(|| format!("{CONFIGURATION} {}", settings.file.display()))?;
        Ok(Self { providers: Arc::new(providers), loaded: LoadedContent::new(content) })
    }
}

struct File {
    open: Open,
    settings: Settings,
    health: OnHealth,
}

/// The providers follow their file.
pub(super) fn followed(open: Open, settings: Settings, health: OnHealth) -> Box<dyn Followed> {
    Box::new(File { open, settings, health })
}

impl Followed for File {
    fn kind(&self) -> Kind {
        Kind::Encryption
    }

    fn file(&self) -> PathBuf {
        self.settings.file.clone()
    }

    fn reload(&mut self) -> BoxFuture<'_, anyhow::Result<bool>> {
        Box::pin(async move {
            let content = read(CONFIGURATION, &self.settings.file)?;
            if !self.open.loaded.takes(&content) {
                return Ok(false);
            }
            let configuration = self.settings.parse(&content)?;
            self.settings.report_misspelled(&configuration);
            let replaced = self.open.providers.replace(configuration, &self.health).await;
            replaced.map_err(anyhow::Error::msg).context(CONFIGURATION)?;
            Ok(true)
        })
    }
}
