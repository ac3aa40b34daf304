//! MultiClusterService.

use std::time::Duration;

use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Scope};

use super::*;

fn bindings() -> ApiResource {
    Binding::api_resource(Scope::Namespaced)
}

async fn until_not_ready(plane: &Plane, name: &str) {
    plane
        .until(&format!("{name} not ready"), async || {
            let cluster = plane.get(&Cluster::api_resource(), &ObjectKey::cluster(name)).await?;
            let conditions = cluster["status"]["conditions"].as_array()?;
            conditions.iter().find(|it| it["type"] == "Ready" && it["status"] != "True").map(drop)
        })
        .await;
}

async fn condition(plane: &Plane, type_: &str) -> Option<String> {
    let service = plane.get(&MultiClusterService::api_resource(), &key("web")).await?;
    let list = service["status"]["conditions"].as_array()?;
    let found = list.iter().find(|it| it["type"] == type_)?;
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    Some(format!("{} {}: {}", text("status"), text("reason"), text("message")))
}

/// The rows of upstream's e2e suite, one after another: each change of the lists leads to exactly its slices.
#[tokio::test(start_paused = true)]
async fn providers_and_consumers() {
    let stop = CancellationToken::new();
    let members = ["m1", "m2", "m3"];
    let plane = joined(&members, &stop).await;
    service(&plane, "web").await;
    let own = ["web-1=10.1.0.1", "web-2=10.2.0.1", "web-3=10.3.0.1"];
    for (at, member) in members.iter().enumerate() {
        let address = format!("10.{}.0.1", at + 1);
        endpoints(&plane, member, &format!("web-{}", at + 1), "web", &[&address]).await;
    }
    multi_cluster(&plane, "web", &["m1"], &["m2"]).await;
    let (one, two, three) = ("m1-web-1=10.1.0.1", "m2-web-2=10.2.0.1", "m3-web-3=10.3.0.1");
    for (providers, consumers, expected) in [
        (&["m1"][..], &["m2"][..], [&[][..], &[one], &[]]),
        (&["m1", "m2"], &["m2"], [&[], &[one], &[]]),
        (&["m1", "m2"], &["m3"], [&[], &[], &[one, two]]),
        (&["m1", "m2"], &["m1", "m2", "m3"], [&[two], &[one], &[one, two]]),
        (&[], &["m2"], [&[], &[one, three], &[]]),
        (&["m1"], &[], [&[], &[one], &[one]]),
        (&[], &[], [&[two, three], &[one, three], &[one, two]]),
        (&["m3"], &["m1"], [&[three], &[], &[]]),
        (&["m1", "nowhere"], &["m2"], [&[], &[one], &[]]),
    ] {
        change(&plane, "web", providers, consumers).await;
        for ((member, own), expected) in members.iter().zip(own).zip(expected) {
            let mut all: Vec<&str> = expected.to_vec();
            all.push(own);
            all.sort_unstable();
            until(&plane, &plane.member(member), "web", &all.join(" ")).await;
        }
    }
    plane.settle().await;
    let left = ["m1/web-1 by MultiClusterService", "m2/m1-web-1"];
    assert_eq!(works(&plane).await, left.map(str::to_owned).into(), "nothing is left of earlier rows");
    let events = reasons(&plane, "MultiClusterService").await;
    assert_eq!(events["SyncServiceSucceed"], BTreeSet::from(["Service is propagated to target clusters.".to_owned()]));
    assert_eq!(
        events["DispatchEndpointSliceSucceed"],
        BTreeSet::from(["EndpointSlice are dispatched successfully".to_owned()])
    );
    assert_eq!(events["ClusterNotFound"], BTreeSet::from(["Provider cluster nowhere is not found".to_owned()]));
    stop.cancel();
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn only_provided_services_are_claimed_and_watched() {
    let stop = CancellationToken::new();
    let plane = joined(&["m1", "m2"], &stop).await;
    assert_eq!((slice_requests(&plane, "m1"), slice_requests(&plane, "m2")), (0, 0));
    multi_cluster(&plane, "web", &["m1"], &["m2"]).await;
    plane
        .until("ServiceApplied is False", async || {
            condition(&plane, "ServiceApplied")
                .await
                .filter(|it| it.starts_with("False ServiceAppliedFailed: services \"web\" not found"))
        })
        .await;
    service(&plane, "web").await;
    let (m1, m2) = (plane.member("m1"), plane.member("m2"));
    plane.until("the Service in m1", async || get(&m1, &services(), &key("web")).await).await;
    plane.settle().await;
    assert!(slice_requests(&plane, "m1") > 0, "m1 provides");
    assert_eq!(slice_requests(&plane, "m2"), 0, "m2 does not provide");
    endpoints(&plane, "m1", "web-1", "web", &["10.1.0.1"]).await;
    until(&plane, &m2, "web", "m1-web-1=10.1.0.1").await;
    plane.settle().await;
    assert_eq!(
        condition(&plane, "ServiceApplied").await.as_deref(),
        Some("True ServiceAppliedSucceed: Service is propagated to target clusters.")
    );
    assert_eq!(
        condition(&plane, "EndpointSliceDispatched").await.as_deref(),
        Some("True EndpointSliceDispatchedSucceed: EndpointSlice are dispatched successfully")
    );
    let mcs = plane.get(&MultiClusterService::api_resource(), &key("web")).await.expect("it exists");
    let id = &mcs["metadata"]["labels"]["multiclusterservice.karmada.io/permanent-id"];
    let claimed = plane.get(&services(), &key("web")).await.expect("the Service");
    let labels = &claimed["metadata"]["labels"];
    assert_eq!(
        (&labels["resourcetemplate.karmada.io/claimed-by"], &labels["multiclusterservice.karmada.io/permanent-id"]),
        (&json!("MultiClusterService"), id)
    );
    let binding = plane.get(&bindings(), &key("web-service")).await.expect("the binding");
    assert_eq!(binding["metadata"]["labels"]["binding.karmada.io/managed-by"], "MultiClusterService");
    assert_eq!(binding["spec"]["placement"]["clusterAffinity"]["clusterNames"], json!(["m1", "m2"]));
    assert_eq!(binding["spec"]["conflictResolution"], "Overwrite");
    let name = karmada_api::names::work_name("MultiClusterService", "web", "demo");
    let work = plane.get(&Work::api_resource(), &ObjectKey::namespaced("karmada-es-m1", name)).await.expect("the Work");
    assert_eq!(work["spec"]["suspendDispatching"], true);
    assert_eq!(&work["metadata"]["labels"]["multiclusterservice.karmada.io/permanent-id"], id);
    let slice = get(&m2, &slices(), &key("m1-web-1")).await.expect("the slice");
    assert_eq!(slice["metadata"]["annotations"]["endpointslice.karmada.io/provision-cluster"], "m1");
    assert_eq!(
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"],
        "endpointslice-dispatch-controller.karmada.io"
    );
    let (resource, options) = (Work::api_resource(), ListOptions::labels("multiclusterservice.karmada.io/name=web"));
    let copies = plane.client.list(&resource, Some("karmada-es-m2"), &options).await.expect("a list").items;
    let expected = karmada_api::names::work_name("EndpointSlice", "web-1", "demo");
    assert_eq!(copies.iter().map(|it| it.name()).collect::<Vec<_>>(), [expected], "named as the collected Work");
    let requests = plane.requests();
    plane.settle().await;
    assert_eq!(plane.requests(), requests, "at rest nothing is written");
    stop.cancel();
    plane.shutdown().await;
}

/// A policy's Service is taken over, and returned at the end; no other object remains.
#[tokio::test(start_paused = true)]
async fn deletion_leaves_no_objects() {
    let stop = CancellationToken::new();
    let plane = joined(&["m1", "m2"], &stop).await;
    service(&plane, "web").await;
    propagate(&plane, "v1", "Service", "web", &["m1"]).await;
    let (m1, m2) = (plane.member("m1"), plane.member("m2"));
    plane.until("the Service in m1", async || get(&m1, &services(), &key("web")).await).await;
    endpoints(&plane, "m1", "web-1", "web", &["10.1.0.1"]).await;
    multi_cluster(&plane, "web", &["m1"], &["m2"]).await;
    until(&plane, &m2, "web", "m1-web-1=10.1.0.1").await;
    let service_in_m2 = async || get(&m2, &services(), &key("web")).await;
    plane.until("the Service in m2", async || service_in_m2().await).await;
    let claimed = plane.get(&services(), &key("web")).await.expect("the Service");
    assert!(!claimed.to_string().contains("propagationpolicy.karmada.io"), "{claimed}");
    delete(&plane.client, &MultiClusterService::api_resource(), "web").await;
    until(&plane, &m2, "web", "").await;
    plane.until("the Service leaves m2", async || service_in_m2().await.is_none().then_some(())).await;
    until_ended(&plane, "web").await;
    plane
        .until("the policy's binding", async || {
            let binding = plane.get(&bindings(), &key("web-service")).await?;
            binding["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"].as_str().map(drop)
        })
        .await;
    plane.until("the Service in m1", async || get(&m1, &services(), &key("web")).await).await;
    plane.settle().await;
    assert!(works(&plane).await.is_empty(), "{:?}", works(&plane).await);
    let released = plane.get(&services(), &key("web")).await.expect("the Service");
    assert!(!released.to_string().contains("multiclusterservice"), "{released}");
    assert_eq!(found(&m1, "web").await, "web-1=10.1.0.1", "slices of members are not ours to delete");
    stop.cancel();
    plane.shutdown().await;
}

/// As after the deletion of a policy: the Service stays in its clusters, without the endpoints of other clusters.
#[tokio::test(start_paused = true)]
async fn a_service_without_a_policy_stays_in_its_clusters() {
    let stop = CancellationToken::new();
    let plane = joined(&["m1", "m2"], &stop).await;
    service(&plane, "web").await;
    let (m1, m2) = (plane.member("m1"), plane.member("m2"));
    endpoints(&plane, "m1", "web-1", "web", &["10.1.0.1"]).await;
    multi_cluster(&plane, "web", &["m1"], &["m2"]).await;
    until(&plane, &m2, "web", "m1-web-1=10.1.0.1").await;
    plane.until("the Service in m1", async || get(&m1, &services(), &key("web")).await).await;
    delete(&plane.client, &MultiClusterService::api_resource(), "web").await;
    until(&plane, &m2, "web", "").await;
    until_ended(&plane, "web").await;
    plane.settle().await;
    for member in [&m1, &m2] {
        assert!(get(member, &services(), &key("web")).await.is_some());
    }
    let binding = plane.get(&bindings(), &key("web-service")).await.expect("the binding");
    assert!(!binding.to_string().to_lowercase().contains("multiclusterservice"), "{binding}");
    // The Service is still propagated: its deletion reaches the members.
    delete(&plane.client, &services(), "web").await;
    for member in [&m1, &m2] {
        plane.until("no Service", async || get(member, &services(), &key("web")).await.is_none().then_some(())).await;
    }
    stop.cancel();
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn clusters_without_slices_are_reported() {
    let stop = CancellationToken::new();
    let plane = joined(&["m1"], &stop).await;
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "old"},
        "spec": {"syncMode": "Pull"}});
    plane.create(Cluster::api_resource(), cluster).await;
    let complete = json!({"status": {"conditions": [
        {"type": "CompleteAPIEnablements", "status": "True", "reason": "Collected", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    plane.merge(&Cluster::api_resource(), &ObjectKey::cluster("old"), complete, PatchOptions::status()).await;
    service(&plane, "web").await;
    endpoints(&plane, "m1", "web-1", "web", &["10.1.0.1"]).await;
    multi_cluster(&plane, "web", &["m1", "old"], &["m1", "old"]).await;
    let expected = ["Consumer", "Provider"].map(|role| format!("{role} cluster old does not support EndpointSlice"));
    plane
        .until("both events", async || {
            let events = reasons(&plane, "MultiClusterService").await;
            (events.get("APIIncompatible") == Some(&BTreeSet::from(expected.clone()))).then_some(())
        })
        .await;
    plane.settle().await;
    let name = karmada_api::names::work_name("MultiClusterService", "web", "demo");
    let work = async |namespace: &str| {
        plane.get(&Work::api_resource(), &ObjectKey::namespaced(namespace, name.as_str())).await
    };
    assert!(work("karmada-es-m1").await.is_some());
    assert!(work("karmada-es-old").await.is_none());
    stop.cancel();
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn unready_clusters_keep_their_slices() {
    let stop = CancellationToken::new();
    let mut plane = joined(&["m1", "m2", "m3"], &stop).await;
    service(&plane, "web").await;
    endpoints(&plane, "m1", "web-1", "web", &["10.1.0.1"]).await;
    multi_cluster(&plane, "web", &["m1"], &["m2", "m3"]).await;
    let (m1, m2, m3) = (plane.member("m1"), plane.member("m2"), plane.member("m3"));
    until(&plane, &m2, "web", "m1-web-1=10.1.0.1").await;
    until(&plane, &m3, "web", "m1-web-1=10.1.0.1").await;
    // The provider fails.
    plane.network.cut("m1");
    until_not_ready(&plane, "m1").await;
    plane.restart_controllers().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(found(&m2, "web").await, "m1-web-1=10.1.0.1");
    plane.network.heal("m1");
    plane.until_ready("m1").await;
    // A consumer is silent while the slices change.
    plane.network.cut("m3");
    until_not_ready(&plane, "m3").await;
    endpoints(&plane, "m1", "web-1", "web", &["10.1.0.2"]).await;
    endpoints(&plane, "m1", "web-9", "web", &["10.1.0.9"]).await;
    let after = "m1-web-1=10.1.0.2 m1-web-9=10.1.0.9";
    until(&plane, &m2, "web", after).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(found(&m3, "web").await, "m1-web-1=10.1.0.1");
    plane.network.heal("m3");
    until(&plane, &m3, "web", after).await;
    assert_eq!(found(&m1, "web").await, "web-1=10.1.0.2 web-9=10.1.0.9");
    stop.cancel();
    plane.shutdown().await;
}

/// Slices that change a thousand times, also while controllers restart, end exact and without leaks.
#[tokio::test(start_paused = true)]
async fn a_thousand_changes_converge() {
    let stop = CancellationToken::new();
    let mut plane = joined(&["m1", "m2"], &stop).await;
    service(&plane, "web").await;
    multi_cluster(&plane, "web", &["m1"], &["m2"]).await;
    export(&plane, "web", &["m1"]).await;
    import(&plane, "web", &["m2"]).await;
    let m1 = plane.member("m1");
    for round in 0..1000_u32 {
        let name = format!("web-{}", round % 3);
        if round % 50 == 49 && get(&m1, &slices(), &key(&name)).await.is_some() {
            delete(&m1, &slices(), &name).await;
        } else {
            endpoints(&plane, "m1", &name, "web", &[&format!("10.1.{}.{}", round / 256, round % 256)]).await;
        }
        match round {
            300 | 700 => plane.restart_controllers().await,
            500 => plane.overlap_controllers(Duration::from_secs(2)),
            _ => tokio::time::sleep(Duration::from_millis(u64::from(round % 7) * 10)).await,
        }
    }
    let last = found(&m1, "web").await;
    let with = |prefix: &str| last.split(' ').map(|it| format!("{prefix}{it}")).collect::<Vec<_>>().join(" ");
    let m2 = plane.member("m2");
    until(&plane, &m2, "web", &with("m1-")).await;
    until(&plane, &m2, "derived-web", &with("imported-m1-")).await;
    plane.settle().await;
    let count = last.split(' ').count();
    assert_eq!(works(&plane).await.len(), 2 * count, "a collected Work and a copy for each slice");
    assert_eq!(found(&plane.client, "derived-web").await, with("imported-m1-"));
    stop.cancel();
    plane.shutdown().await;
}

/// A Service that is exported and has a MultiClusterService: one Work for each slice, and each mechanism ends by
/// itself.
#[tokio::test(start_paused = true)]
async fn both_mechanisms_share_the_works() {
    let stop = CancellationToken::new();
    let plane = joined(&["m1", "m2"], &stop).await;
    let m2 = plane.member("m2");
    service(&plane, "web").await;
    endpoints(&plane, "m1", "web-1", "web", &["10.1.0.1"]).await;
    export(&plane, "web", &["m1"]).await;
    import(&plane, "web", &["m2"]).await;
    until(&plane, &m2, "derived-web", "imported-m1-web-1=10.1.0.1").await;
    let collected = async || {
        let works = works(&plane).await;
        works.into_iter().filter_map(|it| it.strip_prefix("m1/web-1 by ").map(str::to_owned)).collect::<Vec<_>>()
    };
    multi_cluster(&plane, "web", &["m1"], &["m2"]).await;
    until(&plane, &m2, "web", "m1-web-1=10.1.0.1").await;
    assert_eq!(collected().await, ["ServiceExport.MultiClusterService"]);
    delete(&plane.client, &ServiceExport::api_resource(), "web").await;
    until(&plane, &m2, "derived-web", "").await;
    plane.until("one mechanism", async || (collected().await == ["MultiClusterService"]).then_some(())).await;
    assert_eq!(found(&m2, "web").await, "m1-web-1=10.1.0.1");
    let object =
        json!({"apiVersion": MULTICLUSTER, "kind": "ServiceExport", "metadata": {"name": "web", "namespace": "demo"}});
    plane.create(ServiceExport::api_resource(), object).await;
    until(&plane, &m2, "derived-web", "imported-m1-web-1=10.1.0.1").await;
    delete(&plane.client, &MultiClusterService::api_resource(), "web").await;
    until(&plane, &m2, "web", "").await;
    plane.until("the other mechanism", async || (collected().await == ["ServiceExport"]).then_some(())).await;
    assert_eq!(found(&m2, "derived-web").await, "imported-m1-web-1=10.1.0.1");
    stop.cancel();
    plane.shutdown().await;
}

/// With the gate disabled nothing is claimed, and members are not watched.
#[tokio::test(start_paused = true)]
async fn a_disabled_gate_changes_nothing() {
    let plane = Plane::start().await;
    service(&plane, "web").await;
    multi_cluster(&plane, "web", &["m1"], &["m2"]).await;
    endpoints(&plane, "m1", "web-1", "web", &["10.1.0.1"]).await;
    plane.settle().await;
    let object = plane.get(&MultiClusterService::api_resource(), &key("web")).await.expect("it exists");
    assert_eq!((&object["metadata"]["finalizers"], slice_requests(&plane, "m1")), (&Value::Null, 0));
    plane.shutdown().await;
}

/// A cluster that is removed and joins again, and clusters that join later, if the lists select all.
#[tokio::test(start_paused = true)]
async fn clusters_leave_and_join_again() {
    let stop = CancellationToken::new();
    let plane = start(&["m1", "m2"], &stop).await;
    plane.join("m1").await;
    plane.until_ready("m1").await;
    service(&plane, "web").await;
    multi_cluster(&plane, "web", &[], &[]).await;
    until_namespace(&plane, "m1").await;
    endpoints(&plane, "m1", "web-1", "web", &["10.1.0.1"]).await;
    plane.settle().await;
    plane.join("m2").await;
    plane.until_ready("m2").await;
    let m2 = plane.member("m2");
    until(&plane, &m2, "web", "m1-web-1=10.1.0.1").await;
    plane
        .client
        .delete(&Cluster::api_resource(), &ObjectKey::cluster("m1"), &DeleteOptions::default())
        .await
        .expect("deleted");
    until(&plane, &m2, "web", "").await;
    plane
        .until("m1 left", async || {
            plane.get(&Cluster::api_resource(), &ObjectKey::cluster("m1")).await.is_none().then_some(())
        })
        .await;
    assert!(works(&plane).await.is_empty());
    plane.join("m1").await;
    until(&plane, &m2, "web", "m1-web-1=10.1.0.1").await;
    stop.cancel();
    plane.shutdown().await;
}
