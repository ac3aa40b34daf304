//! Both engines pass the suite and agree with the model.

use std::sync::Arc;

use proptest::prelude::*;
use storage::conformance::model::{Step, check};
use storage::embedded::{EmbeddedStore, Options};
use storage::memory::MemoryStore;
use storage::{Store, conformance};

/// Every store's directory stays until the test ends.
struct Directories(parking_lot::Mutex<Vec<tempfile::TempDir>>);

impl Directories {
    async fn open(&self) -> Arc<dyn Store> {
        let dir = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(dir.path(), Options::default()).await.unwrap();
        self.0.lock().push(dir);
        Arc::new(store)
    }
}

#[tokio::test(start_paused = true)]
async fn the_memory_store_conforms() {
    conformance::run(async || Arc::new(MemoryStore::new()) as Arc<dyn Store>).await;
}

#[tokio::test(start_paused = true)]
async fn the_embedded_store_conforms() {
    let directories = Directories(Default::default());
    conformance::run(async || directories.open().await).await;
}

fn step() -> impl Strategy<Value = Step> {
    let pick = any::<u64>;
    prop_oneof![
        6 => (any::<u8>(), any::<u8>()).prop_map(|(key, value)| Step::Put { key, value }),
        2 => any::<u8>().prop_map(|key| Step::Delete { key }),
        4 => (prop::collection::vec((any::<u8>(), any::<u8>()), 1..4), prop::collection::vec(any::<u8>(), 0..3), any::<bool>(), pick())
            .prop_map(|(puts, deletes, absent, pick)| Step::Guarded { puts, deletes, absent, pick }),
        3 => (pick(), 0_usize..5).prop_map(|(pick, limit)| Step::ReadAt { pick, limit }),
        1 => pick().prop_map(|pick| Step::Compact { pick }),
        2 => pick().prop_map(|pick| Step::WatchAfter { pick }),
    ]
}

fn on_virtual_time(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
    #[test]
    fn the_memory_store_agrees_with_the_model(steps in prop::collection::vec(step(), 1..80)) {
        on_virtual_time(check(Arc::new(MemoryStore::new()), &steps));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]
    #[test]
    fn the_embedded_store_agrees_with_the_model(steps in prop::collection::vec(step(), 1..60)) {
        on_virtual_time(async {
            let directories = Directories(Default::default());
            check(directories.open().await, &steps).await;
        });
    }
}
