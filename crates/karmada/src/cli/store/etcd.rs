//! The etcd of a command: its flags, and its store as servers read it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use adoption::store::ReadableStore;
use anyhow::Context as _;
use clap::Args;
use etcd::EtcdStore;
use identity::EncryptedStore;
use storage::Store;

use crate::external::Settings;
use crate::identity::{Encryption, OpenEncryption};

#[derive(Args)]
pub(super) struct EtcdPlace {
    /// The URLs of etcd, comma-separated
    #[arg(long, value_delimiter = ',', value_name = "URL", required = true)]
    etcd_servers: Vec<String>,
    /// The prefix of all keys in etcd
    #[arg(long, default_value = "/registry")]
    etcd_prefix: String,
    /// The authorities of etcd's certificates, in PEM
    #[arg(long, value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,
    /// The client certificate for etcd, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    etcd_certfile: Option<PathBuf>,
    /// The key of that client certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
    /// The EncryptionConfiguration of the stored values, if they are encrypted
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
}

/// An open etcd.
pub(super) struct Etcd {
    pub settings: Settings,
    /// As servers read it.
    pub store: Arc<dyn Store>,
    /// Decrypted, in the form in which it is stored.
    pub decrypted: Arc<dyn Store>,
    pub encryption: Option<OpenEncryption>,
    engine: EtcdStore,
}

impl EtcdPlace {
    /// # Errors
    /// The invalid flag; etcd or a key management service does not answer.
    pub(super) async fn open(&self) -> anyhow::Result<Etcd> {
        let settings = Settings {
            overrides: Vec::new(),
            servers: self.etcd_servers.clone(),
            prefix: self.etcd_prefix.clone(),
            authority: self.etcd_cafile.clone(),
            certificate: self.etcd_certfile.clone(),
            key: self.etcd_keyfile.clone(),
            compaction: Duration::ZERO,
            sizes: Duration::ZERO,
        };
        let encryption = match &self.encryption_provider_config {
            Some(file) => Some(OpenEncryption::start(&Encryption { file: file.clone(), reload: false }).await?),
            None => None,
        };
        let place = || format!("etcd at {}", self.etcd_servers.join(","));
        let engine = EtcdStore::open(settings.options()?).await.with_context(place)?;
        let below: Arc<dyn Store> = Arc::new(engine.clone());
        let decrypted = match &encryption {
            Some(open) => Arc::new(EncryptedStore::at(below, Arc::clone(&open.providers), settings.places())),
            None => below,
        };
        let store = Arc::new(ReadableStore::new(Arc::clone(&decrypted)));
        Ok(Etcd { settings, store, decrypted, encryption, engine })
    }
}

impl Etcd {
    /// The key in etcd of a key of the store.
    pub(super) fn shown(&self) -> impl Fn(&[u8]) -> String + Sync + use<> {
        let layout = self.settings.layout();
        move |key| String::from_utf8_lossy(&layout.to_etcd(key)).into_owned()
    }

    pub(super) fn close(&self) {
        self.engine.close();
    }
}
