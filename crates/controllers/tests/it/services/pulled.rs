//! A provider in pull mode: its agent collects.

use std::time::Duration;

use karmada_api::cluster::v1alpha1::Cluster;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_agent_collects_for_both_mechanisms() {
    let stop = CancellationToken::new();
    let plane = start(&["m1", "m2"], &stop).await;
    plane.join("m2").await;
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"syncMode": "Pull"}});
    plane.create(Cluster::api_resource(), cluster).await;
    let agent_stop = CancellationToken::new();
    let agent = plane.start_agent("m1", "agent", &agent_stop);
    for member in ["m1", "m2"] {
        plane.until_ready(member).await;
        until_namespace(&plane, member).await;
    }
    service(&plane, "web").await;
    endpoints(&plane, "m1", "web-1", "web", &["10.1.0.1"]).await;
    multi_cluster(&plane, "web", &["m1"], &["m2"]).await;
    export(&plane, "web", &["m1"]).await;
    import(&plane, "web", &["m2"]).await;
    let m2 = plane.member("m2");
    until(&plane, &m2, "web", "m1-web-1=10.1.0.1").await;
    until(&plane, &m2, "derived-web", "imported-m1-web-1=10.1.0.1").await;
    assert!(plane.context.members().connected("m1").is_none(), "the control plane does not reach m1");
    endpoints(&plane, "m1", "web-1", "web", &["10.1.0.2"]).await;
    until(&plane, &m2, "web", "m1-web-1=10.1.0.2").await;

    // The agent is stopped: its collected slices stay, until a user deletes the object that requires them.
    agent_stop.cancel();
    for task in agent {
        task.await.expect("no controller panics");
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(found(&m2, "web").await, "m1-web-1=10.1.0.2");
    delete(&plane.client, &MultiClusterService::api_resource(), "web").await;
    until(&plane, &m2, "web", "").await;
    until_ended(&plane, "web").await;
    plane
        .until("the export stays", async || {
            (works(&plane).await == BTreeSet::from(["m1/web-1 by ServiceExport".to_owned()])).then_some(())
        })
        .await;
    let second_stop = CancellationToken::new();
    let agent = plane.start_agent("m1", "agent", &second_stop);
    delete(&plane.client, &ServiceExport::api_resource(), "web").await;
    until(&plane, &m2, "derived-web", "").await;
    plane.until("no Works", async || works(&plane).await.is_empty().then_some(())).await;
    second_stop.cancel();
    for task in agent {
        task.await.expect("no controller panics");
    }
    stop.cancel();
    plane.shutdown().await;
}
