//! etcd passes the suite of all engines and agrees with the model.

use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;
use storage::conformance::model::{Step, check};
use storage::{Store, conformance};

use super::Etcd;

/// Every store's etcd runs until the next one starts.
#[derive(Default)]
struct Servers(Mutex<Option<Etcd>>);

impl Servers {
    async fn open(&self) -> Arc<dyn Store> {
        let etcd = Etcd::start(&["--max-request-bytes=8388608"]);
        let store = etcd.store().await;
        *self.0.lock() = Some(etcd);
        Arc::new(store)
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn the_etcd_store_conforms() {
    let servers = Servers::default();
    conformance::run_without_expiry(async || servers.open().await).await;
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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 10, ..ProptestConfig::with_cases(4) })]
    #[test]
    #[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
    fn the_etcd_store_agrees_with_the_model(steps in prop::collection::vec(step(), 1..60)) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let servers = Servers::default();
            check(servers.open().await, &steps).await;
        });
    }
}
