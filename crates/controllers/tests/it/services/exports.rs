//! ServiceExport and ServiceImport.

use std::time::Duration;

use karmada_api::cluster::v1alpha1::Cluster;

use super::*;

async fn until_imported(plane: &Plane, expected: &str) {
    until(plane, &plane.client, "derived-serve", expected).await;
}

/// The journey of the documentation: a Service of one member is reached from another.
#[tokio::test(start_paused = true)]
async fn an_exported_service_is_imported_in_another_cluster() {
    let stop = CancellationToken::new();
    let plane = joined(&["m1", "m2"], &stop).await;
    let (m1, m2) = (plane.member("m1"), plane.member("m2"));
    assert_eq!(slice_requests(&plane, "m1"), 0, "unused, it costs the members nothing");
    endpoints(&plane, "m1", "serve-a", "serve", &["10.0.0.1"]).await;
    endpoints(&plane, "m1", "other-a", "other", &["10.0.0.9"]).await;
    export(&plane, "serve", &["m1"]).await;
    until_imported(&plane, "imported-m1-serve-a=10.0.0.1").await;
    assert_eq!(works(&plane).await, BTreeSet::from(["m1/serve-a by ServiceExport".to_owned()]));
    assert_eq!(slice_requests(&plane, "m2"), 0);
    let (resource, options) = (Work::api_resource(), ListOptions::labels("endpointslice.karmada.io/name=serve"));
    let items = plane.client.list(&resource, Some("karmada-es-m1"), &options).await.expect("a list").items;
    let work = items[0].to_value().expect("JSON");
    assert_eq!(work["spec"]["suspendDispatching"], true);
    assert_eq!(work["metadata"]["finalizers"], json!(["karmada.io/endpointslice-controller"]));
    assert_eq!(work["metadata"]["name"], karmada_api::names::work_name("EndpointSlice", "serve-a", "demo"));

    import(&plane, "serve", &["m2"]).await;
    until(&plane, &m2, "derived-serve", "imported-m1-serve-a=10.0.0.1").await;
    let derived = plane.until("the derived Service", async || get(&m2, &services(), &key("derived-serve")).await).await;
    assert_eq!(derived["spec"]["type"], "ClusterIP");
    assert_eq!(
        (&derived["spec"]["ports"][0]["port"], &derived["spec"]["ports"][0]["targetPort"]),
        (&json!(80), &json!(80))
    );
    let slice = get(&m2, &slices(), &key("imported-m1-serve-a")).await.expect("the slice");
    assert_eq!(slice["metadata"]["labels"]["karmada.io/managed"], "true");
    assert_eq!(
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"],
        "endpointslice-controller.karmada.io"
    );
    assert_eq!(get(&m1, &services(), &key("derived-serve")).await, None, "m1 does not import");
    let events = plane
        .until("the event", async || reasons(&plane, "ServiceImport").await.remove("SyncDerivedServiceSucceed"))
        .await;
    assert_eq!(events, BTreeSet::from(["Sync derived service for serviceImport(serve) succeed.".to_owned()]));

    // A rollout: the addresses change, a slice is added, one is deleted.
    endpoints(&plane, "m1", "serve-a", "serve", &["10.0.0.1", "10.0.0.2"]).await;
    endpoints(&plane, "m1", "serve-b", "serve", &["10.0.0.3"]).await;
    until(&plane, &m2, "derived-serve", "imported-m1-serve-a=10.0.0.1,10.0.0.2 imported-m1-serve-b=10.0.0.3").await;
    delete(&m1, &slices(), "serve-a").await;
    until(&plane, &m2, "derived-serve", "imported-m1-serve-b=10.0.0.3").await;

    // A user's changes in the control plane are undone.
    delete(&plane.client, &slices(), "imported-m1-serve-b").await;
    delete(&plane.client, &services(), "derived-serve").await;
    until_imported(&plane, "imported-m1-serve-b=10.0.0.3").await;
    plane.until("the derived Service", async || plane.get(&services(), &key("derived-serve")).await).await;

    delete(&plane.client, &ServiceExport::api_resource(), "serve").await;
    until_imported(&plane, "").await;
    until(&plane, &m2, "derived-serve", "").await;
    plane.until("no Works", async || works(&plane).await.is_empty().then_some(())).await;
    delete(&plane.client, &ServiceImport::api_resource(), "serve").await;
    plane
        .until("no Service", async || plane.get(&services(), &key("derived-serve")).await.is_none().then_some(()))
        .await;
    plane
        .until("none in m2", async || get(&m2, &services(), &key("derived-serve")).await.is_none().then_some(()))
        .await;
    stop.cancel();
    plane.shutdown().await;
}

/// No endpoint is removed because a member does not respond, and the states of both sides are exact once it does.
#[tokio::test(start_paused = true)]
async fn a_silent_provider_keeps_its_endpoints() {
    let stop = CancellationToken::new();
    let mut plane = joined(&["m1", "m2"], &stop).await;
    endpoints(&plane, "m1", "serve-a", "serve", &["10.0.0.1"]).await;
    export(&plane, "serve", &["m1"]).await;
    import(&plane, "serve", &["m2"]).await;
    let m2 = plane.member("m2");
    until(&plane, &m2, "derived-serve", "imported-m1-serve-a=10.0.0.1").await;
    plane.network.cut("m1");
    plane
        .until("m1 not ready", async || {
            let cluster = plane.get(&Cluster::api_resource(), &ObjectKey::cluster("m1")).await?;
            let conditions = cluster["status"]["conditions"].as_array()?;
            conditions.iter().find(|it| it["type"] == "Ready" && it["status"] != "True").map(drop)
        })
        .await;
    let m1 = plane.member("m1");
    delete(&m1, &slices(), "serve-a").await;
    endpoints(&plane, "m1", "serve-b", "serve", &["10.0.0.7"]).await;
    // Controllers that start meanwhile do not know the state of m1 either.
    plane.restart_controllers().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(found(&m2, "derived-serve").await, "imported-m1-serve-a=10.0.0.1");
    assert_eq!(works(&plane).await, BTreeSet::from(["m1/serve-a by ServiceExport".to_owned()]));
    plane.network.heal("m1");
    until(&plane, &m2, "derived-serve", "imported-m1-serve-b=10.0.0.7").await;
    // Withdrawn while the provider does not respond: the state of the control plane is sufficient.
    delete(&m1, &slices(), "serve-b").await;
    endpoints(&plane, "m1", "serve-c", "serve", &["10.0.0.8"]).await;
    until(&plane, &m2, "derived-serve", "imported-m1-serve-c=10.0.0.8").await;
    plane.network.cut("m1");
    delete(&plane.client, &ServiceExport::api_resource(), "serve").await;
    until(&plane, &m2, "derived-serve", "").await;
    stop.cancel();
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn services_of_users_are_not_overwritten() {
    let stop = CancellationToken::new();
    let plane = joined(&["m1"], &stop).await;
    service(&plane, "derived-serve").await;
    import(&plane, "serve", &["m1"]).await;
    plane
        .until("the warning", async || reasons(&plane, "ServiceImport").await.remove("SyncDerivedServiceFailed"))
        .await;
    let kept = plane.get(&services(), &key("derived-serve")).await.expect("the Service");
    assert_eq!(kept["spec"]["selector"], json!({"app": "derived-serve"}));
    delete(&plane.client, &ServiceImport::api_resource(), "serve").await;
    plane.settle().await;
    assert!(plane.get(&services(), &key("derived-serve")).await.is_some());
    stop.cancel();
    plane.shutdown().await;
}

/// Slices of equal names in two providers, and a cluster that exports and imports.
#[tokio::test(start_paused = true)]
async fn equal_slices_of_two_providers_do_not_collide() {
    let stop = CancellationToken::new();
    let plane = joined(&["m1", "m2"], &stop).await;
    endpoints(&plane, "m1", "serve-a", "serve", &["10.1.0.1"]).await;
    endpoints(&plane, "m2", "serve-a", "serve", &["10.2.0.1"]).await;
    export(&plane, "serve", &["m1", "m2"]).await;
    import(&plane, "serve", &["m1", "m2"]).await;
    let both = "imported-m1-serve-a=10.1.0.1 imported-m2-serve-a=10.2.0.1";
    for member in ["m1", "m2"] {
        until(&plane, &plane.member(member), "derived-serve", both).await;
    }
    plane.settle().await;
    let collected = ["m1/serve-a by ServiceExport", "m2/serve-a by ServiceExport"];
    assert_eq!(works(&plane).await, collected.map(str::to_owned).into(), "imported slices are not collected again");
    stop.cancel();
    plane.shutdown().await;
}
