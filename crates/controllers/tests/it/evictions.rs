//! The copy in an evicted cluster, and when its replacement is created.

use client::PatchOptions;
use karmada_api::ApiType;
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

use crate::by_hand::{bind, bindings, config_maps, demo, targets, work_in};
use crate::harness::{Plane, get};

/// From m1 to m2.
async fn evict(plane: &Plane, purge: Option<&str>) {
    let mut patch = targets(&["m2"]);
    let mut task = json!({"fromCluster": "m1", "reason": "TaintUntolerated", "producer": "TaintManager"});
    if let Some(purge) = purge {
        task["purgeMode"] = json!(purge);
    }
    patch["spec"]["gracefulEvictionTasks"] = json!([task]);
    plane.merge(&bindings(), &demo("thing-configmap"), patch, PatchOptions::default()).await;
}

async fn work(plane: &Plane, member: &str) -> Option<Value> {
    plane.get(&Work::api_resource(), &work_in(member)).await
}

#[tokio::test(start_paused = true)]
async fn a_copy_with_mode_gracefully_or_never_is_unchanged() {
    for purge in [None, Some("Gracefully"), Some("Never")] {
        let plane = Plane::start().await;
        bind(&plane, &["m1"]).await;
        evict(&plane, purge).await;
        let (m1, m2) = (plane.member("m1"), plane.member("m2"));
        plane.until("a copy in m2", async || get(&m2, &config_maps(), &demo("thing")).await).await;
        // It is not a target any more: changes do not reach it.
        let change = json!({"data": {"a": "1"}});
        plane.merge(&config_maps(), &demo("thing"), change, PatchOptions::default()).await;
        let version =
            plane.get(&config_maps(), &demo("thing")).await.expect("it")["metadata"]["resourceVersion"].clone();
        let patch = json!({"spec": {"resource": {"resourceVersion": version}}});
        plane.merge(&bindings(), &demo("thing-configmap"), patch, PatchOptions::default()).await;
        plane
            .until("m2 follows", async || {
                (get(&m2, &config_maps(), &demo("thing")).await?["data"]["a"] == "1").then_some(())
            })
            .await;
        plane.settle().await;
        let left = get(&m1, &config_maps(), &demo("thing")).await.expect("the copy in m1");
        assert_eq!(left["data"], Value::Null, "{purge:?}");
        let binding = plane.get(&bindings(), &demo("thing-configmap")).await.expect("the binding");
        assert_eq!(binding["status"]["aggregatedStatus"].as_array().map(Vec::len), Some(2), "{purge:?}");

        let done = json!({"spec": {"gracefulEvictionTasks": null}});
        plane.merge(&bindings(), &demo("thing-configmap"), done, PatchOptions::default()).await;
        plane
            .until("m1 has no copy", async || get(&m1, &config_maps(), &demo("thing")).await.is_none().then_some(()))
            .await;
        plane.shutdown().await;
    }
}

/// The old copy cannot be removed while its member is unreachable; until then no other copy is created.
#[tokio::test(start_paused = true)]
async fn a_copy_with_mode_directly_is_removed_first() {
    let plane = Plane::start().await;
    bind(&plane, &["m1"]).await;
    plane.network.cut("m1");
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    evict(&plane, Some("Directly")).await;
    plane
        .until("its end has begun", async || {
            work(&plane, "m1").await?["metadata"]["deletionTimestamp"].as_str().map(|_| ())
        })
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(work(&plane, "m2").await, None);

    plane.network.heal("m1");
    plane.until("m1 has no copy", async || work(&plane, "m1").await.is_none().then_some(())).await;
    assert_eq!(get(&plane.member("m1"), &config_maps(), &demo("thing")).await, None);
    let m2 = plane.member("m2");
    plane.until("a copy in m2", async || get(&m2, &config_maps(), &demo("thing")).await).await;
    plane.shutdown().await;
}
