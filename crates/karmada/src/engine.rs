//! The store of a server: the embedded one on disk, or one in memory that ends with the process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use storage::Store;
use storage::embedded::{Break, EmbeddedStore, Options};
use storage::memory::MemoryStore;
use world::World;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Acknowledged writes survive a crash.
    #[default]
    Embedded,
    /// For members of a demonstration, and for tests on virtual time.
    Memory,
}

/// An open store.
pub enum Engine {
    /// With its directory.
    Embedded(EmbeddedStore, PathBuf),
    Memory(Arc<MemoryStore>),
}

impl Engine {
    /// `path` is the directory of the embedded store. With `must_exist` a missing store is an error.
    pub async fn open(kind: Kind, path: &Path, must_exist: bool, world: &World) -> anyhow::Result<Self> {
        let now = Some(world.now().into());
        match kind {
            Kind::Memory => Ok(Self::Memory(Arc::new(MemoryStore::new()))),
            Kind::Embedded => EmbeddedStore::open(path, Options { must_exist, now, ..Options::default() })
                .await
                .map(|store| Self::Embedded(store, path.to_owned()))
                .with_context(|| format!("opening the store in {}", path.display())),
        }
    }

    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store, _) => Arc::new(store.clone()),
            Self::Memory(store) => store.clone(),
        }
    }

    /// The points where the store lost history, oldest first. The store in memory has none.
    pub fn breaks(&self) -> &[Break] {
        match self {
            Self::Embedded(store, _) => store.breaks(),
            Self::Memory(_) => &[],
        }
    }

    /// Counts in `registry`; the store in memory counts nothing.
    pub fn count_in(&self, registry: &metrics::Registry) {
        if let Self::Embedded(store, directory) = self {
            crate::metrics::of_store(registry, store.clone(), directory.clone());
        }
    }

    /// The embedded store.
    pub fn embedded(&self) -> Option<&EmbeddedStore> {
        match self {
            Self::Embedded(store, _) => Some(store),
            Self::Memory(_) => None,
        }
    }

    /// Closes the gate `storage-integrity` when the store finds something damaged.
    pub fn report_damage_to(&self, health: &apiserver::health::Health) {
        let Self::Embedded(store, _) = self else { return };
        let (found, gate) = (store.damage_found(), health.ready_gate(apiserver::health::STORAGE_INTEGRITY));
        tokio::spawn(async move {
            if found.await {
                gate.set(false);
            }
        });
    }

    /// Executes `writes` without a sync for each, then syncs once. No client may observe them before.
    ///
    /// # Errors
    /// Those of `writes`, or the store's.
    pub async fn at_once<T>(&self, writes: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let Self::Embedded(store, _) = self else { return writes.await };
        store.postpone_syncs().await.context("beginning the first writes")?;
        let written = writes.await;
        store.sync().await.context("syncing the first writes")?;
        written
    }

    /// Syncs, and releases the files.
    pub async fn close(&self) -> anyhow::Result<()> {
        match self {
            Self::Embedded(store, _) => store.close().await.context("closing the store"),
            Self::Memory(_) => Ok(()),
        }
    }
}
