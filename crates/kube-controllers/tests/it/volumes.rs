//! Deletion of claims and volumes in use.

use serde_json::{Value, json};

use crate::harness::{Plane, resource};

fn claim(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "demo", "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

#[tokio::test(start_paused = true)]
async fn a_claim_stays_while_a_pod_uses_it() {
    let plane = Plane::start(&["pvc-protection", "pv-protection"]).await;
    let (claims, pods, volumes) =
        (resource("v1", "PersistentVolumeClaim"), resource("v1", "Pod"), resource("v1", "PersistentVolume"));
    for name in ["used", "idle", "kept"] {
        plane.create(claim(name)).await;
    }
    plane
        .create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "demo"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}]}}))
        .await;
    for name in ["used", "idle"] {
        plane.delete(&claims, &format!("demo/{name}"), "").await;
    }
    plane.until_gone(&claims, "demo/idle").await;
    plane.settle().await;
    assert!(plane.get(&claims, "demo/used").await.is_some(), "a pod runs with it");
    let kept = plane.get(&claims, "demo/kept").await.expect("it was not deleted");
    assert_eq!(kept["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    plane.merge_status(&pods, "demo/p", json!({"status": {"phase": "Succeeded"}})).await;
    plane.until_gone(&claims, "demo/used").await;

    for name in ["bound", "free"] {
        plane
            .create(json!({"apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": {"name": name, "finalizers": ["kubernetes.io/pv-protection"]},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}))
            .await;
    }
    plane.merge_status(&volumes, "bound", json!({"status": {"phase": "Bound"}})).await;
    for name in ["bound", "free"] {
        plane.delete(&volumes, name, "").await;
    }
    plane.until_gone(&volumes, "free").await;
    plane.settle().await;
    assert!(plane.get(&volumes, "bound").await.is_some(), "a claim is bound to it");
    plane.merge_status(&volumes, "bound", json!({"status": {"phase": "Released"}})).await;
    plane.until_gone(&volumes, "bound").await;
    plane.shutdown().await;
}
