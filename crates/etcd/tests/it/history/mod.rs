//! Recorded histories of eight clients: create, update, delete, get, list and watch of a few objects, on every engine;
//! on etcd with `kill -9` and SIGSTOP, and with two API servers that crash at random. Each history must be
//! linearizable, and no watch may omit, repeat or reorder a change.
//!
//! `HISTORY_CALLS` sets the calls of each client (60), `HISTORY_SEED` the seed.

mod check;
mod record;
pub(crate) mod run;

use std::time::Duration;

use storage::embedded::{EmbeddedStore, Options};
use storage::memory::MemoryStore;

use super::{Engine, Etcd};
use run::{History, Rng};

#[tokio::test(flavor = "multi_thread")]
async fn histories_on_the_store_in_memory_are_linearizable() {
    // The log is read at the end.
    let history = storage::memory::Options { history_changes: 1 << 20, history_bytes: 1 << 30, ..Default::default() };
    let engine = Engine::Memory(MemoryStore::with_options(history).into());
    History::begin(&engine, 1).await.calls().await.end(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn histories_on_the_embedded_store_are_linearizable() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::Embedded(EmbeddedStore::open(directory.path(), Options::default()).await.unwrap());
    History::begin(&engine, 1).await.calls().await.end(&engine).await;
}

/// Two API servers, of which one at a time crashes and starts again.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn histories_of_two_servers_that_crash_are_linearizable() {
    let engine = Engine::Etcd(Etcd::start(&[]));
    let history = History::begin(&engine, 2).await;
    let mut rng = Rng::of("crashes");
    let history = history
        .calls_beside(async |history: &History| {
            for turn in 0.. {
                tokio::time::sleep(Duration::from_millis(200 + rng.below(300))).await;
                history.crash(turn % 2, &engine).await;
            }
        })
        .await;
    history.end(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn servers_that_crash_allocate_no_address_twice() {
    let engine = Engine::Etcd(Etcd::start(&[]));
    let history = History::begin(&engine, 2).await;
    let mut rng = Rng::of("crashes");
    let crashes = async |history: &History| {
        for turn in 0.. {
            tokio::time::sleep(Duration::from_millis(200 + rng.below(300))).await;
            history.crash(turn % 2, &engine).await;
        }
    };
    history.services_beside(&engine, crashes).await;
}

/// etcd is killed, or stopped for a moment as behind a network that is cut.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn histories_on_an_etcd_that_is_killed_and_stopped_are_linearizable() {
    let etcd = Etcd::start(&[]);
    let mut engine = Engine::Etcd(etcd);
    let history = History::begin(&engine, 2).await;
    let mut rng = Rng::of("faults");
    let faults = &mut engine;
    let history = history
        .calls_beside(async |_: &History| {
            let Engine::Etcd(etcd) = faults else { return };
            for turn in 0.. {
                tokio::time::sleep(Duration::from_millis(300 + rng.below(300))).await;
                if turn % 2 == 0 {
                    tokio::task::block_in_place(|| etcd.restart());
                } else {
                    etcd.signal("-STOP");
                    tokio::time::sleep(Duration::from_millis(100 + rng.below(400))).await;
                    etcd.signal("-CONT");
                }
            }
        })
        .await;
    history.end(&engine).await;
}
