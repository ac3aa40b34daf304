//! StatefulSets, DaemonSets and Jobs.

use std::time::Duration;

use serde_json::{Value, json};
use simulator::{Member, MemberOptions};

use crate::harness::{column, create, delete, get, list, member, patch, settle, workload};

fn slow(seconds: u64) -> MemberOptions {
    MemberOptions { pod_start: Duration::from_secs(seconds), ..MemberOptions::new("m1") }
}

async fn names(member: &Member) -> String {
    column(&list(member, "Pod").await, "/metadata/name")
}

fn conditions(object: &Value) -> String {
    object["status"]["conditions"].as_array().map(|all| column(all, "/type")).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_starts_and_ends_its_pods_in_order() {
    let member = member(slow(2)).await;
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let spec = json!({"replicas": 3, "serviceName": "db", "volumeClaimTemplates": claims});
    create(&member, workload("apps/v1", "StatefulSet", "db", spec)).await;
    settle().await;
    assert_eq!(names(&member).await, "db-0");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(names(&member).await, "db-0 db-1");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(names(&member).await, "db-0 db-1 db-2");
    let set = get(&member, "StatefulSet", "db").await;
    assert_eq!((&set["status"]["readyReplicas"], &set["status"]["currentReplicas"]), (&json!(3), &json!(3)));
    assert_eq!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    let pod = get(&member, "Pod", "db-1").await;
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "1");
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-db-1");
    assert_eq!(column(&list(&member, "PersistentVolumeClaim").await, "/status/phase"), "Bound Bound Bound");
    patch(&member, "StatefulSet", "db", json!({"spec": {"replicas": 1}})).await;
    settle().await;
    assert_eq!(names(&member).await, "db-0");
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_replaces_pods_down_to_its_partition() {
    let member = member(slow(1)).await;
    let spec = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 1}}});
    create(&member, workload("apps/v1", "StatefulSet", "db", spec)).await;
    tokio::time::sleep(Duration::from_secs(9)).await;
    let image =
        |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
    patch(&member, "StatefulSet", "db", image("nginx:2")).await;
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(column(&list(&member, "Pod").await, "/spec/containers/0/image"), "nginx:1 nginx:2 nginx:2");
    delete(&member, "Pod", "db-0").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(get(&member, "Pod", "db-0").await["spec"]["containers"][0]["image"], "nginx:1", "below the partition");
    let set = get(&member, "StatefulSet", "db").await;
    assert_eq!(set["status"]["updatedReplicas"], 2);
    assert_ne!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    assert_eq!(list(&member, "ControllerRevision").await.len(), 2);
    patch(&member, "StatefulSet", "db", json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let set = get(&member, "StatefulSet", "db").await;
    assert_eq!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_follows_the_nodes() {
    let member = member(slow(1)).await;
    create(&member, workload("apps/v1", "DaemonSet", "agent", json!({}))).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(column(&list(&member, "Pod").await, "/spec/nodeName"), "m1-node-1 m1-node-2");
    let status = get(&member, "DaemonSet", "agent").await["status"].clone();
    assert_eq!((&status["desiredNumberScheduled"], &status["numberReady"]), (&json!(2), &json!(2)));
    let taint = json!([{"key": "gone", "value": "", "effect": "NoExecute"}]);
    patch(&member, "Node", "m1-node-2", json!({"spec": {"taints": taint}})).await;
    settle().await;
    assert_eq!(column(&list(&member, "Pod").await, "/spec/nodeName"), "m1-node-1");
    patch(&member, "Node", "m1-node-2", json!({"spec": {"taints": null}})).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}});
    patch(&member, "DaemonSet", "agent", image).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let pods = list(&member, "Pod").await;
    assert_eq!(column(&pods, "/spec/containers/0/image"), "nginx:2 nginx:2");
    assert_eq!(get(&member, "DaemonSet", "agent").await["status"]["updatedNumberScheduled"], 2);
    delete(&member, "Node", "m1-node-1").await;
    settle().await;
    assert_eq!(column(&list(&member, "Pod").await, "/spec/nodeName"), "m1-node-2");
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_when_enough_pods_have() {
    let member = member(MemberOptions { job_run: Duration::from_secs(5), ..MemberOptions::new("m1") }).await;
    let spec = json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"});
    create(&member, workload("batch/v1", "Job", "sum", spec)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let job = get(&member, "Job", "sum").await;
    assert_eq!((&job["status"]["active"], &job["status"]["ready"]), (&json!(2), &json!(2)));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(get(&member, "Job", "sum").await["status"]["completedIndexes"], "0,1");
    tokio::time::sleep(Duration::from_secs(6)).await;
    let job = get(&member, "Job", "sum").await;
    assert_eq!((&job["status"]["succeeded"], &job["status"]["completedIndexes"]), (&json!(3), &json!("0-2")));
    assert_eq!(conditions(&job), "Complete SuccessCriteriaMet");
    assert!(job["status"]["completionTime"].is_string());
    assert_eq!(column(&list(&member, "Pod").await, "/status/phase"), "Succeeded Succeeded Succeeded");
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_fails_at_its_deadline() {
    let member = member(MemberOptions { job_run: Duration::from_secs(60), ..MemberOptions::new("m1") }).await;
    create(&member, workload("batch/v1", "Job", "late", json!({"activeDeadlineSeconds": 10}))).await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    let job = get(&member, "Job", "late").await;
    assert_eq!(conditions(&job), "Failed FailureTarget");
    assert_eq!(job["status"]["conditions"][1]["reason"], "DeadlineExceeded");
    assert_eq!(names(&member).await, "");
    create(&member, workload("batch/v1", "Job", "later", json!({"suspend": true}))).await;
    settle().await;
    assert_eq!(conditions(&get(&member, "Job", "later").await), "Suspended");
    patch(&member, "Job", "later", json!({"spec": {"suspend": false}})).await;
    settle().await;
    assert_eq!(get(&member, "Job", "later").await["status"]["active"], 1);
    member.stop().await;
}
