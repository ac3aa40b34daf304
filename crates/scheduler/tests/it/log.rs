//! Log lines about unschedulable bindings: one when they fail, and one when they are placed.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::failures::refusal;
use crate::harness::{Plane, capacity, key};

/// With a single subscriber, tracing lets the first thread to reach an event decide whether it is enabled.
static OTHER: LazyLock<tracing::Dispatch> = LazyLock::new(|| tracing::Dispatch::new(tracing_subscriber::registry()));

/// The lines of this test's thread, on which everything of it runs.
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

    /// The output since the last call, without durations.
    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().expect("not poisoned"));
        let text = String::from_utf8(bytes).expect("UTF-8");
        let line = |line: &str| line.split(" duration=").next().unwrap_or_default().trim().to_owned();
        text.lines().map(line).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
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
async fn a_binding_that_fits_no_cluster() {
    let plane = Plane::start().await;
    let (log, _guard) = Log::begin();
    let web = key("web");
    let elsewhere = json!({"placement": {"clusterAffinity": {"clusterNames": ["m1"]}}});
    plane.join("m2", json!({})).await;
    plane.bind(&web, elsewhere).await;
    // Fifty times the binding is decided about again, with one result.
    for replicas in 3..53 {
        plane.change(&web, json!({"replicas": replicas})).await;
        plane.settle().await;
    }
    let unschedulable = r#"WARN Binding cannot be scheduled binding=demo/web reason="NoClusterFit" err="0/1 clusters are available: 1 cluster(s) did not match the placement cluster affinity constraint.""#;
    assert_eq!(log.take(), [unschedulable]);
    plane.join("m1", json!({"status": {"resourceSummary": capacity(100)}})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // Before its status is written, the new cluster serves no kind: another cause, and another line.
    let lines = log.take();
    assert!(lines.len() <= 2, "{lines:#?}");
    let last = lines.last().map(String::as_str);
    assert_eq!(last, Some("INFO Binding is scheduled after failures binding=demo/web"));
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_rejected_result() {
    let plane = Plane::start().await;
    plane.join("m1", json!({})).await;
    let (log, _guard) = Log::begin();
    let passes = Arc::new(AtomicU32::new(0));
    let counted = passes.clone();
    plane.gate(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Some(refusal(500, "InternalError", "no")) })
    });
    let web = key("web");
    plane.bind(&web, json!({})).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(passes.load(Ordering::SeqCst) > 100);
    assert_eq!(log.take(), ["WARN Scheduling fails and is retried binding=demo/web err=no"]);
    plane.open();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(log.take(), ["INFO Binding is scheduled after failures binding=demo/web"]);
    plane.shutdown();
}
