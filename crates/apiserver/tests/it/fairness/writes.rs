//! Many writers of one object.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use storage::Store;

use super::{call, fill, server};
use crate::slow_store::Slow;

#[tokio::test(start_paused = true)]
async fn concurrent_patches_of_one_object_succeed_without_retries() {
    let store = Slow::new(Duration::from_millis(1));
    let server = server(Arc::clone(&store) as Arc<dyn Store>).await;
    let service = server.service();
    fill(&service, 2).await;
    let before = store.transactions.load(Relaxed);
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let patch = |user: &'static str, n: usize| {
        let (service, order) = (service.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            let url = "/api/v1/namespaces/default/configmaps/a0";
            let body = format!(r#"{{"data":{{"{user}{n}":"x"}}}}"#);
            let (code, status) = call(&service, user, "PATCH", url, "application/merge-patch+json", &body).await;
            assert_eq!(code, 200, "{status}");
            order.lock().push(user);
        })
    };
    let mut patches: Vec<_> = (0..300).map(|n| patch("greedy", n)).collect();
    tokio::time::sleep(Duration::from_millis(10)).await;
    patches.push(patch("neighbor", 0));
    for patch in patches {
        patch.await.expect("no panic");
    }
    assert_eq!(store.transactions.load(Relaxed) - before, 301, "no write loses a race");
    let place = order.lock().iter().position(|user| *user == "neighbor");
    assert!(place < Some(30), "another user's patch was number {place:?}");
    let (_, map) = call(&service, "reader", "GET", "/api/v1/namespaces/default/configmaps/a0", "", "").await;
    assert_eq!(map["data"].as_object().map(serde_json::Map::len), Some(302));
    server.shutdown();
}
