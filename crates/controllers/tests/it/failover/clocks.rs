//! Steps of the clock: none moves or deletes a workload.

use std::time::Duration;

use apimachinery::ObjectKey;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use serde_json::json;
use tokio::time::Instant;

use super::{
    binding, clusters, copy, evicting, plane, report, running, taint, taint_down, tasks, until_gone, until_health,
};
use crate::harness::Plane;

async fn ready(plane: &Plane, cluster: &str) -> String {
    let cluster = plane.get(&Cluster::api_resource(), &ObjectKey::cluster(cluster)).await.expect("a cluster");
    let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|it| it["type"] == "Ready").expect("a condition");
    ready["status"].as_str().unwrap_or_default().to_owned()
}

const HOUR: i64 = 3600;
const STEPS: [i64; 3] = [HOUR, 400 * 24 * HOUR, -HOUR];

#[tokio::test(start_paused = true)]
async fn tolerations_last_as_long_as_they_are_required_to() {
    for step in STEPS {
        let plane = plane(evicting()).await;
        let (from, to) = running(&plane, "web", json!(null)).await;
        taint_down(&plane, &from).await;
        let tainted = Instant::now();
        tokio::time::sleep(Duration::from_secs(10)).await;
        plane.world.step(step);
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert!(tasks(&binding(&plane, "web").await).is_empty(), "it is tolerated for 30 s, step {step}");
        plane.until("it moves", async || (clusters(&binding(&plane, "web").await) == [to.clone()]).then_some(())).await;
        // Stamps have whole seconds.
        assert!((29..=35).contains(&tainted.elapsed().as_secs()), "{:?}, step {step}", tainted.elapsed());
        // The scheduler counts as the taint manager does.
        plane.settle().await;
        let bound = binding(&plane, "web").await;
        assert_eq!((clusters(&bound), tasks(&bound).len()), (vec![to], 1), "step {step}");
        plane.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn copies_are_kept_for_the_whole_grace_period() {
    for step in STEPS {
        let plane = plane(evicting()).await;
        let (from, to) = running(&plane, "web", json!(null)).await;
        let started = Instant::now();
        taint(&plane, &from, json!([{"key": "gone", "effect": "NoExecute"}])).await;
        report(&plane, &to, "web", 1).await;
        until_health(&plane, &to, "web", "Unhealthy").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        plane.world.step(step);
        // A change of the binding has its tasks assessed again.
        report(&plane, &to, "web", 2).await;
        tokio::time::sleep(Duration::from_secs(595) - started.elapsed()).await;
        assert!(copy(&plane, &from, "web").await.is_some(), "step {step}");
        until_gone(&plane, &from, "web").await;
        assert!((600..=610).contains(&started.elapsed().as_secs()), "{:?}, step {step}", started.elapsed());
        plane.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn unhealthy_workloads_stay_for_their_whole_toleration() {
    for step in STEPS {
        let plane = plane(evicting()).await;
        let behavior = json!({"application": {"decisionConditions": {"tolerationSeconds": 120}}});
        let (from, to) = running(&plane, "web", behavior).await;
        report(&plane, &from, "web", 1).await;
        until_health(&plane, &from, "web", "Unhealthy").await;
        let failed = Instant::now();
        tokio::time::sleep(Duration::from_secs(30)).await;
        plane.world.step(step);
        report(&plane, &from, "web", 2).await;
        tokio::time::sleep(Duration::from_secs(80)).await;
        assert!(tasks(&binding(&plane, "web").await).is_empty(), "step {step}");
        plane.until("it moves", async || (clusters(&binding(&plane, "web").await) == [to.clone()]).then_some(())).await;
        assert!((118..=130).contains(&failed.elapsed().as_secs()), "{:?}, step {step}", failed.elapsed());
        plane.shutdown().await;
    }
}

/// A cluster whose probes fail turns after the threshold, neither earlier nor later.
#[tokio::test(start_paused = true)]
async fn clusters_turn_after_the_threshold() {
    for step in STEPS {
        let plane = plane(evicting()).await;
        plane.network.cut("m1");
        let cut = Instant::now();
        tokio::time::sleep(Duration::from_secs(12)).await;
        plane.world.step(step);
        tokio::time::sleep(Duration::from_secs(13)).await;
        assert_eq!(ready(&plane, "m1").await, "True", "step {step}");
        plane.until("it is not ready", async || (ready(&plane, "m1").await == "False").then_some(())).await;
        assert!(cut.elapsed().as_secs() <= 90, "{:?}, step {step}", cut.elapsed());
        plane.shutdown().await;
    }
}
