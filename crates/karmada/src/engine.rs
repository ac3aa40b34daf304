//! The store of a server: the embedded one on disk, one in etcd, or one in memory that ends with the process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use adoption::store::ReadableStore;
use anyhow::Context as _;
use bytes::Bytes;
use etcd::EtcdStore;
use futures::future::BoxFuture;
use identity::encrypted::Places;
use storage::Store;
use storage::embedded::{Break, EmbeddedStore, Options};
use storage::memory::MemoryStore;
use world::World;

use crate::data_dir::DataDir;
use crate::external;
use crate::external::agreement::Agreement;

#[derive(Clone, Debug, Default)]
pub enum Kind {
    /// Acknowledged writes survive a crash.
    #[default]
    Embedded,
    /// For members of a demonstration, and for tests on virtual time.
    Memory,
    /// etcd, a separate program that several servers may share.
    Etcd(Arc<external::Settings>),
}

impl Kind {
    /// Whether other processes may use the same store.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Etcd(_))
    }
}

/// An open store.
pub enum Engine {
    /// With its directory.
    Embedded(EmbeddedStore, PathBuf),
    Memory(Arc<MemoryStore>),
    /// With its settings, the stores of overrides, and the lock of the data directory.
    Etcd(EtcdStore, Arc<external::Settings>, Vec<EtcdStore>, File),
}

impl Engine {
    /// `path` is the directory of the embedded store. With `must_exist` a missing or empty store is an error.
    pub async fn open(kind: Kind, path: &Path, must_exist: bool, world: &World) -> anyhow::Result<Self> {
        let now = Some(world.now().into());
        match kind {
            Kind::Memory => Ok(Self::Memory(Arc::new(MemoryStore::new()))),
            Kind::Etcd(settings) => {
                let store = external::open(&settings, must_exist).await?;
                let others = external::open_overrides(&settings).await?;
                let lock = external::lock(path.parent().unwrap_or(path))?;
                Ok(Self::Etcd(store, settings, others, lock))
            }
            Kind::Embedded => EmbeddedStore::open(path, Options { must_exist, now, ..Options::default() })
                .await
                .map(|store| Self::Embedded(store, path.to_owned()))
                .with_context(|| {
                    let is_elsewhere = must_exist && DataDir::lacks_store(path.parent().unwrap_or(path));
                    let hint = if is_elsewhere { " (if the objects are in etcd, add --etcd-servers)" } else { "" };
                    format!("opening the store in {}{hint}", path.display())
                }),
        }
    }

    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store, _) => Arc::new(store.clone()),
            Self::Memory(store) => store.clone(),
            Self::Etcd(store, ..) => Arc::new(store.clone()),
        }
    }

    /// Resources in separate stores, with these stores.
    pub fn apart(&self) -> Vec<apiserver::cache::Apart> {
        let Self::Etcd(_, settings, others, _) = self else { return Vec::new() };
        let with = others.iter().map(|store| Arc::new(store.clone()) as Arc<dyn Store>);
        let resources = settings.overrides.iter().map(|it| it.resources.clone());
        resources.zip(with).map(|(resources, store)| apiserver::cache::Apart { resources, store }).collect()
    }

    /// The places of resources apart, as the servers on one store agree on them.
    ///
    /// # Errors
    /// A store cannot be read.
    pub async fn agreement(&self, world: &World) -> anyhow::Result<Agreement> {
        let Self::Etcd(store, settings, others, _) = self else { return Ok(Agreement::default()) };
        Agreement::of(store, &settings.overrides, others, world).await
    }

    /// The keys of the store in the engine.
    pub fn places(&self) -> Places {
        match self {
            Self::Etcd(_, settings, ..) => settings.places(),
            Self::Embedded(..) | Self::Memory(_) => Arc::new(Bytes::clone),
        }
    }

    /// The store as a server reads it. The values in etcd may have been written by a kube-apiserver.
    pub fn readable(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        match self {
            Self::Etcd(..) => Arc::new(ReadableStore::new(store)),
            Self::Embedded(..) | Self::Memory(_) => store,
        }
    }

    /// The points where the store lost history, oldest first. The embedded store records them.
    pub fn breaks(&self) -> &[Break] {
        match self {
            Self::Embedded(store, _) => store.breaks(),
            Self::Memory(_) | Self::Etcd(..) => &[],
        }
    }

    /// Whether other processes may use the same store.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Etcd(..))
    }

    /// Counts in `registry`; the in-memory store has no counts.
    pub fn count_in(&self, registry: &metrics::Registry) {
        match self {
            Self::Embedded(store, directory) => {
                crate::metrics::of_store(registry, store.clone(), directory.clone());
            }
            Self::Etcd(store, settings, others, _) => {
                let stores: Vec<_> = std::iter::once(store).chain(others).cloned().collect();
                external::count(registry, &stores, settings.sizes);
            }
            Self::Memory(_) => {}
        }
    }

    /// The embedded store.
    pub fn embedded(&self) -> Option<&EmbeddedStore> {
        match self {
            Self::Embedded(store, _) => Some(store),
            Self::Memory(_) | Self::Etcd(..) => None,
        }
    }

    /// Closes the gate `storage-integrity` when the store finds something damaged, `etcd` when it refuses writes until a
    /// restart, and `etcd-readiness` while etcd does not answer.
    pub fn report_damage_to(&self, health: &apiserver::health::Health) {
        if let Self::Etcd(store, _, others, _) = self {
            for (number, store) in std::iter::once(store).chain(others).enumerate() {
                let [_, name] = apiserver::health::of_store(number);
                let (mut answers, gate) = (store.answers(), health.ready_gate(&name));
                gate.set(true);
                tokio::spawn(async move {
                    while answers.changed().await.is_ok() {
                        gate.set(*answers.borrow_and_update());
                    }
                });
            }
        }
        let Self::Embedded(store, _) = self else { return };
        let (found, gate) = (store.damage_found(), health.ready_gate(apiserver::health::STORAGE_INTEGRITY));
        tokio::spawn(async move {
            if found.await {
                gate.set(false);
            }
        });
        let [live, _] = apiserver::health::of_store(0);
        let (stopped, gate) = (store.writing_stopped(), health.live_gate(&live));
        tokio::spawn(async move {
            if stopped.await {
                gate.set(false);
            }
        });
    }

    /// Returns with the reason when the store under this process was replaced by another one: the process has to end, because
    /// its caches and controllers know the former one.
    pub fn replaced(&self) -> BoxFuture<'static, anyhow::Error> {
        let Self::Etcd(store, _, others, _) = self else { return Box::pin(std::future::pending()) };
        let all: Vec<_> = std::iter::once(store).chain(others).map(EtcdStore::replaced).collect();
        Box::pin(async move {
            let (reason, ..) = futures::future::select_all(all).await;
            anyhow::Error::msg(reason.to_string())
        })
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
            Self::Etcd(store, _, others, _) => {
                std::iter::once(store).chain(others).for_each(EtcdStore::close);
                Ok(())
            }
        }
    }
}
