//! The log at the default level: each change once, however often it is retried.

use std::io;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use apimachinery::ObjectKey;
use client::DeleteOptions;
use http::{Method, StatusCode};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use parking_lot::Mutex;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::by_hand::{bind, bindings, config_maps, demo, targets};
use crate::harness::{Plane, get};
use crate::network::Sent;

/// With a single subscriber, tracing lets the first thread at an event decide whether it is enabled.
static OTHER: LazyLock<tracing::Dispatch> = LazyLock::new(|| tracing::Dispatch::new(tracing_subscriber::registry()));

/// The lines of this test's thread, on which everything runs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn begin() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        LazyLock::force(&OTHER);
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .with_max_level(tracing::Level::INFO)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines since the last call, without the durations.
    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock());
        let text = String::from_utf8(bytes).expect("UTF-8");
        let line = |line: &str| line.split(" duration=").next().unwrap_or_default().trim().to_owned();
        text.lines().map(line).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_joins_disconnects_reconnects_and_leaves() {
    let (log, _guard) = Log::begin();
    let plane = Plane::of(&["m1"], controllers::Settings::default()).await;
    plane.settle().await;
    assert_eq!(log.take(), ["INFO Controllers started clusters=0 ready=0"]);
    plane.join("m1").await;
    plane.until_ready("m1").await;
    bind(&plane, &["m1"]).await;
    let joined = [
        r#"INFO Cluster joined cluster="m1" syncMode=Push apiEndpoint="https://m1""#,
        r#"INFO Cluster is ready cluster="m1" new="True" reason="ClusterReady""#,
    ];
    assert_eq!(log.take(), joined);

    // Its probe and the watches of a dozen kinds fail for ten minutes.
    plane.network.cut("m1");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let lines = log.take();
    let away = [
        r#"WARN Member cluster does not answer; calls are retried, and its last known state is kept cluster="m1" call="#,
        r#"WARN Cluster is not ready cluster="m1" old="True" new="False" reason="ClusterNotReachable" err="cluster is not reachable (since 2026-11-21T"#,
    ];
    assert_eq!(lines.len(), away.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(away) {
        assert!(line.starts_with(expected), "{lines:#?}");
    }
    assert!(lines[0].ends_with(r#"err="the server answered 503: Service Unavailable""#), "{lines:#?}");

    plane.network.heal("m1");
    tokio::time::sleep(Duration::from_secs(120)).await;
    let back = [
        r#"INFO Member cluster answers again cluster="m1""#,
        r#"INFO Cluster is ready cluster="m1" old="False" new="True" reason="ClusterReady""#,
    ];
    assert_eq!(log.take(), back);

    plane.merge(&bindings(), &demo("thing-configmap"), json!({"spec": {"clusters": null}}), Default::default()).await;
    let (resource, key) = (Cluster::api_resource(), ObjectKey::cluster("m1"));
    plane.client.delete(&resource, &key, &DeleteOptions::default()).await.expect("the deletion");
    plane.settle().await;
    // No controller here removes the execution namespace that the finalizer waits for.
    let released = json!({"metadata": {"finalizers": null}});
    plane.merge(&resource, &key, released, Default::default()).await;
    plane.until("it is gone", async || plane.get(&resource, &key).await.is_none().then_some(())).await;
    plane.settle().await;
    let lines = log.take();
    assert_eq!(lines, [r#"INFO Cluster is being removed cluster="m1""#, r#"INFO Cluster was removed cluster="m1""#]);
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_work_that_cannot_be_applied() {
    let plane = Plane::start().await;
    let (log, _guard) = Log::begin();
    plane.network.set_answers(Some(Arc::new(|sent: &Sent| {
        let creates = sent.server == "m1" && sent.method == Method::POST && sent.path.ends_with("/configmaps");
        creates.then_some(StatusCode::FORBIDDEN)
    })));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing", "namespace": "demo"}});
    let uid = plane.create(config_maps(), map).await.uid().to_owned();
    let mut binding = targets(&["m1", "m2"]);
    binding["apiVersion"] = json!("work.karmada.io/v1alpha2");
    binding["kind"] = json!("ResourceBinding");
    binding["metadata"] = json!({"name": "thing-configmap", "namespace": "demo"});
    binding["spec"]["resource"] =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "demo", "name": "thing", "uid": uid});
    plane.create(bindings(), binding).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let lines = log.take();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    for part in [
        r#"WARN Work cannot be applied; retrying cluster="m1" work=karmada-es-m1/"#,
        r#" binding="demo/thing-configmap" err="creating ConfigMap demo/thing: the server answered 403: Forbidden""#,
    ] {
        assert!(lines[0].contains(part), "{lines:#?}");
    }

    plane.network.set_answers(None);
    let m1 = plane.member("m1");
    plane.until("a copy", async || get(&m1, &config_maps(), &demo("thing")).await).await;
    plane.settle().await;
    let lines = log.take();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].starts_with(r#"INFO Work is applied after failures cluster="m1" work=karmada-es-m1/"#),
        "{lines:#?}"
    );
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_eviction_begins_and_ends() {
    let plane = Plane::start().await;
    bind(&plane, &["m1"]).await;
    let (log, _guard) = Log::begin();
    let mut patch = targets(&["m2"]);
    patch["spec"]["gracefulEvictionTasks"] =
        json!([{"fromCluster": "m1", "reason": "TaintUntolerated", "producer": "TaintManager"}]);
    plane.merge(&bindings(), &demo("thing-configmap"), patch, Default::default()).await;
    plane.settle().await;
    let touched = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 3}});
    plane.merge(&bindings(), &demo("thing-configmap"), touched, Default::default()).await;
    plane.settle().await;
    let started = r#"INFO Eviction started binding=demo/thing-configmap cluster="m1" reason="TaintUntolerated" producer="TaintManager""#;
    assert_eq!(log.take(), [started]);
    let done = json!({"spec": {"gracefulEvictionTasks": null}});
    plane.merge(&bindings(), &demo("thing-configmap"), done, Default::default()).await;
    plane.settle().await;
    assert_eq!(log.take(), [r#"INFO Eviction finished binding=demo/thing-configmap cluster="m1""#]);
    plane.shutdown().await;
}
