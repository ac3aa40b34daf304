//! The engine against etcd itself.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod apiserver;
mod authentication;
mod authority;
mod clocks;
mod cluster;
mod compaction;
mod conformance;
mod history;
mod leases;
mod limits;
mod restarts;
mod several;
mod suite;
mod tls;
mod writes;

use std::sync::Arc;

use etcd::process::Process;
use etcd::process::cluster::Cluster;
use etcd::{EtcdStore, Layout};
use storage::embedded::EmbeddedStore;
use storage::memory::MemoryStore;
use storage::{KeyRange, Op, Store, Txn, TxnOutcome, WatchStream};
use tempfile::TempDir;

/// An etcd and its data.
struct Etcd {
    process: Process,
    directory: TempDir,
}

impl Etcd {
    fn start(flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let process = Process::start(directory.path(), flags).expect("etcd starts; install etcd-server");
        Self { process, directory }
    }

    async fn store(&self) -> EtcdStore {
        EtcdStore::open(self.process.options(layout()).unwrap()).await.unwrap()
    }

    /// Sends a signal to the process.
    fn signal(&self, signal: &str) {
        self.process.signal(signal).unwrap();
    }

    /// Killed, and started again with its data at the same address.
    fn restart(&mut self) {
        self.process.kill();
        let address = self.process.address().to_string();
        self.process = Process::start_at(self.directory.path(), &address, &[]).unwrap();
    }
}

/// Every engine of the store.
enum Engine {
    Memory(Arc<MemoryStore>),
    Embedded(EmbeddedStore),
    Etcd(Etcd),
    /// With its data.
    Cluster(Cluster, TempDir),
}

impl Engine {
    /// A cluster of three.
    async fn cluster() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(directory.path(), 3).await.expect("etcd starts; install etcd-server");
        Self::Cluster(cluster, directory)
    }

    /// Of one more server.
    async fn store(&self) -> Arc<dyn Store> {
        self.store_of(0).await
    }

    /// Of the server with this number. Servers with different numbers use different members of a cluster.
    async fn store_of(&self, number: usize) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => Arc::clone(store) as _,
            Self::Embedded(store) => Arc::new(store.clone()),
            Self::Etcd(etcd) => Arc::new(etcd.store().await),
            Self::Cluster(cluster, _) => {
                Arc::new(EtcdStore::open(cluster.options(number % cluster.size(), layout()).unwrap()).await.unwrap())
            }
        }
    }
}

fn layout() -> Layout {
    Layout::new(
        "/registry",
        [("core/nodes", "minions"), ("core/services", "services/specs"), ("apps/deployments", "deployments")],
    )
}

fn put(key: &str, value: &str) -> Op {
    Op::Put { key: key.to_owned().into(), value: value.to_owned().into(), lease: None }
}

fn txn(ops: Vec<Op>) -> Txn {
    Txn { guards: Vec::new(), ops }
}

fn committed(outcome: TxnOutcome) -> u64 {
    match outcome {
        TxnOutcome::Committed { revision } => revision,
        TxnOutcome::Failed { .. } => panic!("{outcome:?}"),
    }
}

/// The next changes as `revision+key` or `revision-key`.
async fn changes(watch: &mut WatchStream, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let batch = futures::StreamExt::next(watch).await.unwrap().unwrap();
        seen.extend(batch.changes.iter().map(|(at, change)| {
            let sign = if matches!(change, storage::Change::Put { .. }) { '+' } else { '-' };
            format!("{at}{sign}{}", String::from_utf8_lossy(change.key()))
        }));
    }
    seen
}

fn all() -> KeyRange {
    KeyRange::prefix("/")
}
