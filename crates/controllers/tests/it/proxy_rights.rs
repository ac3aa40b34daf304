//! The rights of the cluster proxy in members.

use apimachinery::{ApiResource, ObjectKey};
use client::{DeleteOptions, ListOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::work::v1alpha1::Work;
use serde_json::json;

use crate::harness::{Plane, get, namespaces};

#[tokio::test(start_paused = true)]
async fn they_are_synced_reported_and_recreated() {
    let plane = Plane::start().await;
    let default = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    plane.create(namespaces(), default).await;
    let reference = json!({"spec": {"impersonatorSecretRef": {"namespace": "karmada-cluster", "name": "m1"}}});
    plane.merge(&Cluster::api_resource(), &ObjectKey::cluster("m1"), reference, client::PatchOptions::default()).await;
    let roles = ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
    let (m1, name) = (plane.member("m1"), ObjectKey::cluster("karmada-impersonator"));
    plane.until("the role in m1", async || get(&m1, &roles, &name).await).await;
    let events = ApiResource::namespaced("", "v1", "Event", "events");
    plane
        .until("it is reported", async || {
            let list = plane.client.list(&events, None, &ListOptions::default()).await.expect("events");
            let reported = list.items.iter().map(|event| event.to_value().expect("an event")).any(|event| {
                event["reason"] == "SyncImpersonationConfigSucceed"
                    && event["involvedObject"]["name"] == "m1"
                    && event["message"] == "Sync impersonation config succeed."
            });
            reported.then_some(())
        })
        .await;
    let old = get(&m1, &roles, &name).await.expect("the role")["metadata"]["uid"].clone();
    let works = Work::api_resource();
    for work in plane.client.list(&works, Some("karmada-es-m1"), &ListOptions::default()).await.expect("Works").items {
        plane.client.delete(&works, &work.key(), &DeleteOptions::background()).await.expect("a deletion");
    }
    plane
        .until("the role is back after all Works were deleted", async || {
            get(&m1, &roles, &name).await.filter(|role| role["metadata"]["uid"] != old)
        })
        .await;
    plane.shutdown().await;
}
