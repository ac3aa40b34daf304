//! An autoscaler in a member scales a workload that the control plane divides.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, Patch, PatchOptions};
use http::Method;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use propagation::contest::CONDITION;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::failures::messages_of;
use crate::harness::{Plane, get, writes};

const LABEL: &str = "resourcetemplate.karmada.io/retain-replicas";

fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

fn web() -> ObjectKey {
    ObjectKey::namespaced("demo", "web")
}

fn work() -> ObjectKey {
    ObjectKey::namespaced("karmada-es-m1", karmada_api::names::work_name("Deployment", "web", "demo"))
}

/// A Deployment with two replicas in each member.
async fn deploy(plane: &Plane, annotations: Value) {
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}});
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "demo"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    plane.create(deployments(), object).await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "pp", "namespace": "demo", "annotations": annotations}, "spec": {"placement": {},
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]}});
    plane
        .create(
            ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies"),
            policy,
        )
        .await;
    for name in ["m1", "m2"] {
        let member = plane.member(name);
        plane.until("the copy", async || get(&member, &deployments(), &web()).await).await;
    }
    plane.settle().await;
}

/// The write of a HorizontalPodAutoscaler in a member every 15 seconds.
async fn scale(member: &Client, manager: &str, replicas: i64) {
    let client = member.with_user_agent(manager);
    let path = format!("{}/scale", deployments().object_path(&web()));
    let scale = client.request(Method::GET, &path, None).await.expect("the scale");
    let mut scale: Value = serde_json::from_slice(&scale).expect("a scale");
    if scale["spec"]["replicas"] != replicas {
        scale["spec"]["replicas"] = json!(replicas);
        client.request(Method::PUT, &path, Some(scale)).await.expect("the scale is written");
    }
    tokio::time::sleep(Duration::from_secs(15)).await;
}

async fn replicas(member: &Client) -> Value {
    get(member, &deployments(), &web()).await.expect("the Deployment")["spec"]["replicas"].clone()
}

/// The replicas after each of some rounds.
async fn rounds(member: &Client, manager: &str, desired: i64, count: usize) -> Vec<Value> {
    let mut seen = Vec::new();
    for _ in 0..count {
        scale(member, manager, desired).await;
        seen.push(replicas(member).await);
    }
    seen
}

fn contested(object: &Value) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|it| it["type"] == CONDITION)?;
    condition["message"].as_str().map(str::to_owned)
}

/// The messages of the Work and of the binding.
async fn reported(plane: &Plane) -> (Option<String>, Option<String>) {
    plane.settle().await;
    let work = plane.get(&Work::api_resource(), &work()).await.expect("the work");
    let binding = ObjectKey::namespaced("demo", "web-deployment");
    let binding = plane.get(&Binding::api_resource(Scope::Namespaced), &binding).await.expect("the binding");
    (contested(&work), contested(&binding))
}

async fn edit(plane: &Plane, patch: Value) {
    plane.merge(&deployments(), &web(), patch, PatchOptions::default()).await;
    plane.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_loop_ends_with_a_condition_that_names_both_writers() {
    let plane = Plane::start().await;
    deploy(&plane, json!({})).await;
    let m1 = plane.member("m1");
    let hpa = "kube-controller-manager";
    assert_eq!(rounds(&m1, hpa, 5, 5).await, [2, 2, 2, 5, 5]);
    let (of_work, of_binding) = reported(&plane).await;
    let message = of_work.expect("a condition");
    let begin = "spec.replicas of Deployment demo/web in cluster m1 is written by kube-controller-manager and by karmada (2): after 3 reverts";
    assert!(message.starts_with(begin) && message.contains(LABEL), "{message}");
    assert_eq!(of_binding.as_ref(), Some(&message));
    for of in [work().name(), "web-deployment"] {
        assert_eq!(messages_of(&plane, "FieldsContested", of).await, [message.as_str()], "{of}");
    }
    let before = writes(&plane.context, "m1");
    assert_eq!(rounds(&m1, hpa, 9, 4).await, [9, 9, 9, 9]);
    assert_eq!(rounds(&m1, hpa, 3, 4).await, [3, 3, 3, 3]);
    assert_eq!(writes(&plane.context, "m1"), before, "nothing is written while the autoscaler scales");
    assert_eq!(replicas(&plane.member("m2")).await, 2, "another member is not concerned");

    // Another field of the template is applied; replicas stay.
    edit(&plane, json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}})).await;
    let copy = get(&m1, &deployments(), &web()).await.expect("the copy");
    assert_eq!(
        (&copy["spec"]["replicas"], &copy["spec"]["template"]["spec"]["containers"][0]["image"]),
        (&json!(3), &json!("nginx:2"))
    );
    assert!(reported(&plane).await.0.is_some());

    // A user sets other replicas.
    edit(&plane, json!({"spec": {"replicas": 4}})).await;
    assert_eq!(replicas(&m1).await, 4);
    assert_eq!(reported(&plane).await, (None, None));
    assert_eq!(rounds(&m1, hpa, 9, 5).await, [4, 4, 4, 9, 9], "it is contested again");

    // The label leaves replicas to the member permanently.
    edit(&plane, json!({"metadata": {"labels": {LABEL: "true"}}})).await;
    assert_eq!(reported(&plane).await, (None, None));
    assert_eq!(rounds(&m1, hpa, 7, 2).await, [7, 7]);
    // With this value they are the template's.
    edit(&plane, json!({"metadata": {"labels": {LABEL: "false"}}})).await;
    assert_eq!(rounds(&m1, hpa, 7, 8).await, [4; 8]);
    assert_eq!(reported(&plane).await, (None, None));
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn edits_of_users_and_rare_changes_are_reverted() {
    let plane = Plane::start().await;
    deploy(&plane, json!({})).await;
    let m1 = plane.member("m1");
    assert_eq!(rounds(&m1, "kubectl-edit", 5, 6).await, [2; 6]);
    for _ in 0..6 {
        scale(&m1, "keda-operator", 5).await;
        assert_eq!(replicas(&m1).await, 2);
        tokio::time::sleep(Duration::from_secs(300)).await;
    }
    assert_eq!(reported(&plane).await, (None, None));
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn restarted_controllers_count_again() {
    let mut plane = Plane::start().await;
    deploy(&plane, json!({})).await;
    let m1 = plane.member("m1");
    let keda = "keda-operator";
    assert_eq!(rounds(&m1, keda, 5, 4).await, [2, 2, 2, 5]);
    assert!(reported(&plane).await.0.is_some());
    plane.restart_controllers().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(replicas(&m1).await, 2, "reverted, as a change during the restart would be");
    assert_eq!(rounds(&m1, keda, 5, 4).await, [2, 2, 5, 5]);
    assert!(reported(&plane).await.0.expect("a condition").contains(keda));
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_forced_apply_yields() {
    let plane = Plane::start().await;
    deploy(&plane, json!({"karmada-rs.io/apply": "server-side-force"})).await;
    let m1 = plane.member("m1");
    assert_eq!(rounds(&m1, "keda-operator", 5, 6).await, [2, 2, 2, 5, 5, 5]);
    assert!(reported(&plane).await.0.expect("a condition").contains("keda-operator"));
    assert_eq!(rounds(&m1, "keda-operator", 8, 2).await, [8, 8]);
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn contested_container_requests_are_kept() {
    let plane = Plane::start().await;
    deploy(&plane, json!({})).await;
    let container = |cpu: &str| {
        json!({"spec": {"template": {"spec": {"containers": [
            {"name": "c", "image": "nginx:1", "resources": {"requests": {"cpu": cpu}}}]}}}})
    };
    edit(&plane, container("100m")).await;
    let m1 = plane.member("m1");
    let vpa = m1.with_user_agent("vpa-updater/1.0");
    let cpu = async || {
        let object = get(&m1, &deployments(), &web()).await.expect("the copy");
        object["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"].clone()
    };
    let mut seen = Vec::new();
    for _ in 0..12 {
        let patch = Patch::Strategic(container("250m"));
        vpa.patch(&deployments(), &web(), &patch, &PatchOptions::default()).await.expect("the patch");
        tokio::time::sleep(Duration::from_secs(45)).await;
        seen.push(cpu().await);
    }
    // A patch identifies its client less clearly than the subresource `scale`.
    assert_eq!(seen, [vec![json!("100m"); 10], vec![json!("250m"); 2]].concat());
    let message = reported(&plane).await.0.expect("a condition");
    assert!(
        message.contains("containers[name=c].resources.requests.cpu") && message.contains("vpa-updater"),
        "{message}"
    );
    plane.shutdown().await;
}

/// The agent of a member has the same rules.
#[tokio::test(start_paused = true)]
async fn agents_yield() {
    let plane = Plane::start().await;
    let pull = json!({"spec": {"syncMode": "Pull"}});
    plane.merge(&Cluster::api_resource(), &ObjectKey::cluster("m1"), pull, PatchOptions::default()).await;
    let stop = CancellationToken::new();
    let agent = plane.start_agent("m1", "agent-of-m1", &stop);
    deploy(&plane, json!({})).await;
    let m1 = plane.member("m1");
    assert_eq!(rounds(&m1, "kube-controller-manager", 5, 6).await, [2, 2, 2, 5, 5, 5]);
    let (of_work, of_binding) = reported(&plane).await;
    assert!(of_work.is_some());
    assert_eq!(of_work, of_binding);
    stop.cancel();
    for task in agent {
        task.await.expect("no controller panics");
    }
    plane.shutdown().await;
}
