//! Measures the time until all workloads have left a failed cluster, and the cost. Run manually, in virtual time:
//!
//! ```text
//! BINDINGS=1,100,10000 cargo test -p controllers --test it -- --ignored --nocapture failover::leaving
//! ```

use std::time::Duration;

use apimachinery::{ApiResource, Object, raw_json};
use karmada_api::scope::{Binding, Policy, Scope};
use serde_json::json;
use tokio::time::Instant;

use super::brake::{cluster, condition, taint_automatically};
use super::{evicting, plane_of, taint};
use crate::harness::Plane;

/// The processor time of this thread, on which everything runs.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// The progress of the bindings.
#[derive(Default)]
struct Progress {
    scheduled: usize,
    left: usize,
    placed: usize,
    ended: usize,
}

fn names_cluster(binding: &Object, field: &str, cluster: &str) -> bool {
    let spec = binding.member("spec").expect("a spec");
    let quoted = format!("\"{cluster}\"");
    raw_json::member(&spec, field).is_some_and(|span| {
        let text = String::from_utf8_lossy(&spec[span]);
        text.contains(&quoted)
    })
}

fn progress(plane: &Plane) -> Progress {
    let bindings = plane.context.informers().informer(&Binding::api_resource(Scope::Namespaced));
    let mut progress = Progress::default();
    for binding in bindings.cache().list(None) {
        let (here, there) = (names_cluster(&binding, "clusters", "m1"), names_cluster(&binding, "clusters", "m2"));
        progress.scheduled += usize::from(here);
        progress.left += usize::from(!here);
        progress.placed += usize::from(!here && there);
        progress.ended += usize::from(!here && there && !names_cluster(&binding, "gracefulEvictionTasks", "m1"));
    }
    progress
}

async fn leave(count: usize) {
    let plane = plane_of(&["m1", "m2"], evicting()).await;
    taint_automatically(&plane).await;
    taint(&plane, "m2", json!([{"key": "full", "effect": "NoSchedule"}])).await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "maps", "namespace": "demo"}, "spec": {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
        "placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}}});
    plane.create(Policy::api_resource(Scope::Namespaced), policy).await;
    let maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    for n in 0..count {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{n}"), "namespace": "demo"},
            "data": {"key": "value"}});
        plane.create(maps.clone(), map).await;
    }
    plane.until("all are in m1", async || (progress(&plane).scheduled == count).then_some(())).await;
    taint(&plane, "m2", json!([])).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (requests, started) = (plane.requests(), Instant::now());
    plane.network.cut("m1");
    let seconds = || started.elapsed().as_secs_f64();
    plane
        .until("it is not ready", async || {
            (condition(&cluster(&plane, "m1").await, "Ready")["status"] == "False").then_some(())
        })
        .await;
    let (detected, used) = (seconds(), cpu());
    let (mut left, mut placed, mut ended, mut watching) = (None, None, None, Duration::ZERO);
    while ended.is_none() && seconds() < 1800.0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let before = cpu();
        let now = progress(&plane);
        left = left.or((now.left == count).then(seconds));
        placed = placed.or((now.placed == count).then(seconds));
        ended = ended.or((now.ended == count).then(seconds));
        watching += cpu().saturating_sub(before);
    }
    let used = cpu().saturating_sub(used).saturating_sub(watching);
    let after = |time: Option<f64>| time.map_or_else(|| "never".to_owned(), |time| format!("{:.1} s", time - detected));
    let patches = "patch resourcebindings.work.karmada.io";
    let patches = plane.requests()[patches] - requests.get(patches).copied().unwrap_or_default();
    let mut written: Vec<String> = Vec::new();
    for (name, number) in plane.requests() {
        let more = number - requests.get(&name).copied().unwrap_or_default();
        written.extend((more > 0).then(|| format!("{name} {more}")));
    }
    println!(
        "{count} bindings: not ready after {detected:.1} s; then all have left after {}, are placed after {}, and their \
         evictions have ended after {}; processor time {:.2} s, {:.2} ms a binding; requests: {}",
        after(left),
        after(placed),
        after(ended),
        used.as_secs_f64(),
        used.as_secs_f64() * 1000.0 / f64::from(u32::try_from(count).expect("a count")),
        written.join(", ")
    );
    // Virtual time: it is the same on every machine.
    assert!(ended.is_some_and(|ended| ended - detected < 60.0));
    // One to evict, one by the scheduler, one to end the eviction; plus conflicts.
    assert!(patches <= 3 * count as u64 + count as u64 / 2, "{patches} patches of {count} bindings");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn workloads_leave_an_unreachable_cluster_faster_than_upstream() {
    leave(120).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes; prints figures for docs/benchmarks.md"]
async fn measured() {
    let counts = std::env::var("BINDINGS").unwrap_or_else(|_| "1,100,10000".to_owned());
    for count in counts.split(',') {
        leave(count.parse().expect("a number of bindings")).await;
    }
}
