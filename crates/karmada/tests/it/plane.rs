//! A whole control plane with three members in this process: no socket, no disk, virtual time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, ListOptions, Patch, PatchOptions};
use karmada::engine::Kind;
use karmada::reach::Listen;
use karmada::up::{ControlPlane, Options};
use serde_json::{Value, json};
use simulator::MemberOptions;
use world::World;

/// A control plane with members `member1` to `member3`, all of it in memory.
pub fn options(data_dir: &Path) -> Options {
    let listen = Listen::new(std::net::Ipv4Addr::LOCALHOST.into(), 0, "karmada-apiserver");
    let server = karmada::apiserver::Options {
        data_dir: data_dir.to_owned(),
        store: Kind::Memory,
        listen,
        token_auth_file: None,
        admission_config: None,
        identity: Default::default(),
        service_accounts: Default::default(),
        audit: Default::default(),
        overload: Default::default(),
        aggregation: Default::default(),
        services: Default::default(),
        plugins: karmada::apiserver::default_plugins(),
        admission: Default::default(),
        resource_models: true,
        events: Default::default(),
        backups: None,
        operation: Default::default(),
    };
    Options {
        server,
        controllers: vec!["*".into()],
        kube_controllers: karmada::up::default_kube_controllers(),
        members: (1..=3).map(|n| MemberOptions::new(format!("member{n}"))).collect(),
        member_store: Kind::Memory,
        settings: Default::default(),
        scheduler: Default::default(),
        switches: Default::default(),
        estimators: None,
        descheduler: None,
        cluster_api: None,
        components: None,
        election: None,
    }
}

/// The harness of tests that need every component.
pub struct Plane {
    pub plane: ControlPlane,
    _directory: tempfile::TempDir,
}

impl Plane {
    /// Started and joined, with members `member1` to `member3`.
    pub async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    /// As [`Plane::start`], with changed options.
    pub async fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut options = options(directory.path());
        change(&mut options);
        let plane = ControlPlane::start_inside(&options, &world).await.expect("the control plane starts");
        assert!(plane.ready().await);
        plane.members().join(plane.client()).await.expect("the members join");
        let plane = Self { plane, _directory: directory };
        // Divided replicas are not moved later to a cluster that was not ready.
        while plane.ready_members().await < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        plane
    }

    async fn ready_members(&self) -> usize {
        let clusters = ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
        let list = self.client().list(&clusters, None, &ListOptions::default()).await.expect("the server answers");
        let is_ready = |object: &std::sync::Arc<Object>| {
            let tree = object.to_value().expect("an object of the server");
            let conditions = tree["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        };
        list.items.iter().filter(|object| is_ready(object)).count()
    }

    pub fn client(&self) -> &Client {
        self.plane.client()
    }

    async fn create(&self, resource: &ApiResource, object: Value) {
        self.client().create(resource, &object).await.unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    /// Ready replicas of Deployment default/nginx in each member that holds it.
    async fn ready_replicas(&self) -> BTreeMap<String, i64> {
        let mut replicas = BTreeMap::new();
        for member in self.plane.members().iter() {
            if let Some(deployment) = nginx(member.client()).await {
                let ready = deployment["status"]["readyReplicas"].as_i64().unwrap_or(0);
                replicas.insert(member.name().to_owned(), ready);
            }
        }
        replicas
    }

    pub async fn until(&self, expected: &[(&str, i64)]) {
        let expected: BTreeMap<String, i64> = expected.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        // Virtual seconds: far more than any back-off.
        let waited = tokio::time::timeout(Duration::from_secs(600), async {
            while self.ready_replicas().await != expected {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        if waited.await.is_err() {
            panic!("expected {expected:?}, there are {:?}", self.ready_replicas().await);
        }
    }
}

pub async fn nginx(client: &Client) -> Option<Value> {
    let key = ObjectKey::namespaced("default", "nginx");
    let object = client.get_opt(&deployments(), &key).await.expect("the server answers")?;
    Some(object.to_value().expect("an object of the server"))
}

pub fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

pub fn policies() -> ApiResource {
    ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies")
}

pub fn deployment(replicas: u32) -> Value {
    let labels = json!({"app": "nginx"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "nginx", "namespace": "default", "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}}})
}

pub fn policy(placement: Value) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "nginx", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
            "placement": placement}})
}

#[tokio::test(start_paused = true)]
async fn one_process_propagates_a_deployment() {
    let plane = Plane::start().await;
    let weight = |name: &str, weight: u32| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight});
    let placement = json!({"clusterAffinity": {"clusterNames": ["member1", "member2"]}, "replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [weight("member1", 1), weight("member2", 2)]}}});
    plane.create(&policies(), policy(placement)).await;
    plane.create(&deployments(), deployment(6)).await;
    plane.until(&[("member1", 2), ("member2", 4)]).await;

    let scale = Patch::Merge(json!({"spec": {"replicas": 9}}));
    let key = ObjectKey::namespaced("default", "nginx");
    plane.client().patch(&deployments(), &key, &scale, &PatchOptions::default()).await.expect("the template is scaled");
    plane.until(&[("member1", 3), ("member2", 6)]).await;

    let elsewhere = Patch::Merge(json!({"spec": {"placement": {
        "clusterAffinity": {"clusterNames": ["member3"]}, "replicaScheduling": null}}}));
    let name = ObjectKey::namespaced("default", "nginx");
    plane.client().patch(&policies(), &name, &elsewhere, &PatchOptions::default()).await.expect("the policy changes");
    plane.until(&[("member3", 9)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_without_an_existing_cluster_reports_it_and_waits() {
    let plane = Plane::start().await;
    plane.create(&policies(), policy(json!({"clusterAffinity": {"clusterNames": ["member4"]}}))).await;
    plane.create(&deployments(), deployment(1)).await;
    let bindings = ApiResource::namespaced("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings");
    let key = ObjectKey::namespaced("default", "nginx-deployment");
    let scheduled = async || {
        let binding = plane.client().get_opt(&bindings, &key).await.expect("the server answers")?;
        let tree = binding.to_value().expect("an object of the server");
        let conditions = tree["status"]["conditions"].as_array()?.clone();
        conditions.into_iter().find(|condition| condition["type"] == "Scheduled")
    };
    let condition = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            if let Some(condition) = scheduled().await {
                break condition;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let condition = condition.await.expect("the binding gets the condition");
    assert_eq!([&condition["status"], &condition["reason"]], ["False", "NoClusterFit"], "{condition}");
    assert_eq!(plane.ready_replicas().await, BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_estimates_by_nodes_in_process() {
    let plane = Plane::start_with(|options| options.estimators = Some(estimator::Settings::default())).await;
    let placement = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"}}});
    plane.create(&policies(), policy(placement)).await;
    // By their summaries the members have capacity; none of their nodes has the label.
    let mut choosy = deployment(2);
    choosy["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    plane.create(&deployments(), choosy).await;
    let bindings = ApiResource::namespaced("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings");
    let key = ObjectKey::namespaced("default", "nginx-deployment");
    let condition = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let binding = plane.client().get_opt(&bindings, &key).await.expect("the server answers");
            let tree = binding.map(|binding| binding.to_value().expect("an object of the server")).unwrap_or_default();
            let conditions = tree["status"]["conditions"].as_array().cloned().unwrap_or_default();
            match conditions.into_iter().find(|condition| condition["type"] == "Scheduled") {
                Some(condition) => break condition,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    let condition = condition.await.expect("the binding gets the condition");
    assert_eq!(condition["reason"], "Unschedulable", "{condition}");
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.contains("Clusters available replicas 0 are not enough to schedule."), "{message}");

    // A matching node is added, so there is capacity.
    let nodes = ApiResource::cluster("", "v1", "Node", "nodes");
    let member = plane.plane.members().iter().next().expect("a member").client().clone();
    let node = member.list(&nodes, None, &ListOptions::default()).await.expect("nodes").items.remove(0);
    let label = Patch::Merge(json!({"metadata": {"labels": {"disk": "ssd"}}}));
    member.patch(&nodes, &node.key(), &label, &PatchOptions::default()).await.expect("the node is labelled");
    plane.until(&[("member1", 2)]).await;
}
