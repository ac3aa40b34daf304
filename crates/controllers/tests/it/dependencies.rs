//! Dependencies are propagated with their templates.

use apimachinery::{ApiResource, ObjectKey};
use client::PatchOptions;
use karmada_api::scope::{Binding, Scope};
use serde_json::{Value, json};

use crate::harness::{Plane, get};

pub fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn policies() -> ApiResource {
    ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies")
}

pub fn demo(name: &str) -> ObjectKey {
    ObjectKey::namespaced("demo", name)
}

/// A Deployment that mounts ConfigMap `settings`, and its policy with `propagateDeps`.
pub async fn application(plane: &Plane, name: &str, cluster: &str, more: Value) {
    let pod = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "nginx"}],
        "volumes": [{"name": "v", "configMap": {"name": "settings"}}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "demo"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": pod}});
    plane.create(deployments(), deployment).await;
    let mut spec = json!({"propagateDeps": true, "placement": {"clusterAffinity": {"clusterNames": [cluster]}},
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}]});
    apimachinery::merge_patch::apply(&mut spec, &more);
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "demo"}, "spec": spec});
    plane.create(policies(), policy).await;
}

async fn settings(plane: &Plane) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "demo"}, "data": {"a": "1"}});
    plane.create(config_maps(), object).await;
}

/// Waits until `settings` has `a` = `value` in a member, or does not exist.
async fn settings_in(plane: &Plane, member: &str, value: Option<&str>) {
    let client = plane.member(member);
    plane
        .until(&format!("settings of {member} = {value:?}"), async || {
            let object = get(&client, &config_maps(), &demo("settings")).await;
            let found = object.as_ref().and_then(|object| object["data"]["a"].as_str());
            (found == value && (value.is_some() || object.is_none())).then_some(())
        })
        .await;
}

async fn attached(plane: &Plane) -> Value {
    plane
        .get(&Binding::api_resource(Scope::Namespaced), &demo("settings-configmap"))
        .await
        .expect("the attached binding")
}

async fn change_policy(plane: &Plane, name: &str, spec: Value) {
    plane.merge(&policies(), &demo(name), json!({"spec": spec}), PatchOptions::default()).await;
}

#[tokio::test(start_paused = true)]
async fn a_dependency_follows_its_template() {
    let plane = Plane::start().await;
    application(&plane, "web", "m1", json!({})).await;
    plane.settle().await;
    // The dependency may be created later than the dependent.
    settings(&plane).await;
    settings_in(&plane, "m1", Some("1")).await;
    settings_in(&plane, "m2", None).await;
    let web = plane.get(&Binding::api_resource(Scope::Namespaced), &demo("web-deployment")).await.expect("the binding");
    assert_eq!(
        web["metadata"]["annotations"]["resourcebinding.karmada.io/dependencies"],
        r#"[{"apiVersion":"v1","kind":"ConfigMap","namespace":"demo","name":"settings"}]"#
    );

    plane.merge(&config_maps(), &demo("settings"), json!({"data": {"a": "2"}}), PatchOptions::default()).await;
    settings_in(&plane, "m1", Some("2")).await;

    change_policy(&plane, "web", json!({"placement": {"clusterAffinity": {"clusterNames": ["m2"]}}})).await;
    settings_in(&plane, "m2", Some("2")).await;
    settings_in(&plane, "m1", None).await;

    change_policy(&plane, "web", json!({"propagateDeps": false})).await;
    settings_in(&plane, "m2", None).await;
    assert!(plane.get(&config_maps(), &demo("settings")).await.is_some(), "the template stays");
    let binding = attached(&plane).await;
    assert!(binding["spec"]["requiredBy"].as_array().is_none_or(Vec::is_empty), "{binding}");
    plane.shutdown().await;
}

/// A binding that no longer has `propagateDeps` when the controllers start is released nevertheless.
#[tokio::test(start_paused = true)]
async fn dependencies_released_while_no_controller_runs_are_detached() {
    let mut plane = Plane::start().await;
    settings(&plane).await;
    application(&plane, "web", "m1", json!({})).await;
    settings_in(&plane, "m1", Some("1")).await;
    plane.settle().await;
    plane.stop_controllers().await;
    change_policy(&plane, "web", json!({"propagateDeps": false})).await;
    let (bindings, web) = (Binding::api_resource(Scope::Namespaced), demo("web-deployment"));
    plane.merge(&bindings, &web, json!({"spec": {"propagateDeps": false}}), PatchOptions::default()).await;
    plane.restart_controllers().await;
    settings_in(&plane, "m1", None).await;
    let released = plane.get(&bindings, &web).await.expect("the binding");
    let finalizers = released["metadata"]["finalizers"].to_string();
    assert!(!finalizers.contains("dependencies-distributor"), "{finalizers}");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn two_applications_share_a_dependency() {
    let plane = Plane::start().await;
    settings(&plane).await;
    application(&plane, "web", "m1", json!({"conflictResolution": "Overwrite"})).await;
    application(&plane, "api", "m2", json!({})).await;
    settings_in(&plane, "m1", Some("1")).await;
    settings_in(&plane, "m2", Some("1")).await;
    plane.settle().await;
    let binding = attached(&plane).await;
    assert_eq!(binding["spec"]["requiredBy"].as_array().map(Vec::len), Some(2), "{binding}");
    assert_eq!(binding["spec"]["conflictResolution"], "Overwrite");
    assert_eq!(binding["spec"]["placement"], Value::Null);

    let client = plane.client.clone();
    client.delete(&deployments(), &demo("web"), &client::DeleteOptions::default()).await.expect("the deletion");
    // The garbage collector, which this plane does not run, deletes the binding with its template.
    let bindings = Binding::api_resource(Scope::Namespaced);
    client.delete(&bindings, &demo("web-deployment"), &client::DeleteOptions::default()).await.expect("the deletion");
    settings_in(&plane, "m1", None).await;
    settings_in(&plane, "m2", Some("1")).await;
    assert_eq!(attached(&plane).await["spec"]["conflictResolution"], "Abort");
    plane.shutdown().await;
}

/// The old copy of an evicted workload runs until it is replaced.
#[tokio::test(start_paused = true)]
async fn a_dependency_stays_with_an_old_copy() {
    let plane = Plane::start().await;
    settings(&plane).await;
    let one = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    let placement = json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}, "spreadConstraints": one});
    application(&plane, "web", "m1", json!({"placement": placement})).await;
    let (bindings, web) = (Binding::api_resource(Scope::Namespaced), demo("web-deployment"));
    let chosen = async || Some(plane.get(&bindings, &web).await?["spec"]["clusters"][0]["name"].as_str()?.to_owned());
    let from = plane.until("a cluster", chosen).await;
    settings_in(&plane, &from, Some("1")).await;
    let task = json!({"fromCluster": from, "purgeMode": "Gracefully", "suppressDeletion": true,
        "reason": "TaintUntolerated", "producer": "TaintManager"});
    let evicted = json!({"spec": {"clusters": null, "gracefulEvictionTasks": [task]}});
    plane.merge(&bindings, &web, evicted, PatchOptions::default()).await;
    let to = plane.until("another cluster", async || chosen().await.filter(|to| *to != from)).await;
    settings_in(&plane, &to, Some("1")).await;
    plane.settle().await;
    settings_in(&plane, &from, Some("1")).await;
    let ended = json!({"spec": {"gracefulEvictionTasks": null}});
    plane.merge(&bindings, &web, ended, PatchOptions::default()).await;
    settings_in(&plane, &from, None).await;
    plane.shutdown().await;
}

/// A user removed the finalizers of a binding that requires the dependency. The others are not blocked.
#[tokio::test(start_paused = true)]
async fn a_binding_that_is_gone_requires_nothing() {
    let plane = Plane::start().await;
    settings(&plane).await;
    for (name, cluster) in [("web", "m1"), ("api", "m2")] {
        application(&plane, name, cluster, json!({})).await;
        settings_in(&plane, cluster, Some("1")).await;
    }
    plane.settle().await;
    let (bindings, web) = (Binding::api_resource(Scope::Namespaced), demo("web-deployment"));
    let mut unknown = attached(&plane).await["spec"]["requiredBy"].clone();
    let required = unknown.as_array_mut().expect("a list");
    let mut gone = required[0].clone();
    gone["name"] = json!("gone-deployment");
    required.push(gone);
    let patch = json!({"spec": {"requiredBy": unknown}});
    plane.merge(&bindings, &demo("settings-configmap"), patch, PatchOptions::default()).await;

    plane.merge(&config_maps(), &demo("settings"), json!({"data": {"a": "2"}}), PatchOptions::default()).await;
    settings_in(&plane, "m1", Some("2")).await;
    let left = attached(&plane).await["spec"]["requiredBy"].clone();
    assert_eq!(left.as_array().map(Vec::len), Some(2), "{left}");
    plane.client.delete(&deployments(), &demo("web"), &client::DeleteOptions::default()).await.expect("the deletion");
    plane.client.delete(&bindings, &web, &client::DeleteOptions::default()).await.expect("the deletion");
    plane.until("the binding is gone", async || plane.get(&bindings, &web).await.is_none().then_some(())).await;
    settings_in(&plane, "m1", None).await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn customizations_precede_the_built_in_rules() {
    let plane = Plane::start().await;
    let script = |text: &str| json!({"luaScript": text});
    let customization = json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "ours"}, "spec": {"target": {"apiVersion": "apps/v1", "kind": "Deployment"}, "customizations": {
        "replicaResource": script("function GetReplicas(o) return o.spec.replicas * 2, {resourceRequest={cpu='1'}} end"),
        "replicaRevision": script("function ReviseReplica(o, n) o.spec.replicas = n / 2 return o end"),
        "healthInterpretation": script("function InterpretHealth(o) return o.metadata.annotations.sick == nil end"),
        "dependencyInterpretation": script("function GetDependencies(o) while true do end end"),
    }}});
    let resource = ApiResource::cluster(
        "config.karmada.io",
        "v1alpha1",
        "ResourceInterpreterCustomization",
        "resourceinterpretercustomizations",
    );
    plane.create(resource.clone(), customization).await;
    plane.settle().await;
    settings(&plane).await;
    application(&plane, "web", "m1", json!({"placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}}}))
        .await;
    let member = plane.member("m1");
    plane.until("web in m1", async || get(&member, &deployments(), &demo("web")).await).await;
    let binding =
        plane.get(&Binding::api_resource(Scope::Namespaced), &demo("web-deployment")).await.expect("the binding");
    assert_eq!(binding["spec"]["replicas"], 2);
    assert_eq!(binding["spec"]["replicaRequirements"], json!({"resourceRequest": {"cpu": "1"}}));
    assert_eq!(get(&member, &deployments(), &demo("web")).await.expect("web")["spec"]["replicas"], 1);
    // The endless script returns nothing, and does not block other work.
    settings_in(&plane, "m1", None).await;
    let key = ObjectKey::cluster("ours");
    plane.client.delete(&resource, &key, &client::DeleteOptions::default()).await.expect("the deletion");
    plane.settle().await;
    plane
        .merge(&deployments(), &demo("web"), json!({"metadata": {"labels": {"a": "b"}}}), PatchOptions::default())
        .await;
    settings_in(&plane, "m1", Some("1")).await;
    plane.shutdown().await;
}
