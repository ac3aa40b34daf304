//! The nginx journey: what is created, and how it is observed.

use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::Client;
use controller_runtime::{Informer, InformerSet};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};
use tokio::sync::Notify;
use world::World;

use super::view::{Member, View};
use crate::simulated::SimulatedMembers;
use crate::up::ControlPlane;

const REPLICAS: i64 = 2;

pub fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

/// At most two, so that with three clusters one must stay empty.
pub fn chosen(members: &SimulatedMembers) -> BTreeSet<String> {
    members.iter().take(2).map(|member| member.name().to_owned()).collect()
}

/// The template, and the policy that divides its replicas over the chosen clusters.
pub async fn create(client: &Client, chosen: &BTreeSet<String>) -> Result<(), client::Error> {
    let labels = json!({"app": "nginx"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "nginx", "namespace": "default", "labels": labels},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}},
    });
    let weights: Vec<Value> =
        chosen.iter().map(|name| json!({"targetCluster": {"clusterNames": [name]}, "weight": 1})).collect();
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "nginx-propagation", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
            "placement": {
                "clusterAffinity": {"clusterNames": chosen},
                "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"staticWeightList": weights}}}},
    });
    let policies = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies");
    client.create(&deployments(), &deployment).await?;
    client.create(&policies, &policy).await?;
    Ok(())
}

/// Everything the demonstration shows, kept up to date by watches.
pub struct Observed {
    clusters: Informer,
    bindings: Informer,
    works: Informer,
    templates: Informer,
    members: Vec<(String, Informer)>,
    /// Told of every change.
    pub changed: Arc<Notify>,
}

impl Observed {
    pub fn new(plane: &ControlPlane, world: &World) -> Self {
        let control = plane.context().informers();
        let watch_member = |client: &Client| InformerSet::new(client.clone(), world.clone()).informer(&deployments());
        let observed = Self {
            clusters: control.informer(&Cluster::api_resource()),
            bindings: control.informer(&Binding::api_resource(Scope::Namespaced)),
            works: control.informer(&Work::api_resource()),
            templates: control.informer(&deployments()),
            members: plane
                .members()
                .iter()
                .map(|member| (member.name().to_owned(), watch_member(member.client())))
                .collect(),
            changed: Arc::default(),
        };
        let shared = [&observed.clusters, &observed.bindings, &observed.works, &observed.templates];
        for informer in shared.into_iter().chain(observed.members.iter().map(|(_, informer)| informer)) {
            let changed = observed.changed.clone();
            informer.subscribe(move |_| changed.notify_one());
        }
        observed
    }

    pub fn view(&self) -> View {
        let nginx = ObjectKey::namespaced("default", "nginx");
        let binding = value(&self.bindings, &ObjectKey::namespaced("default", "nginx-deployment"));
        View {
            members: self.members.iter().map(|(name, informer)| self.member(name, informer, &binding)).collect(),
            conditions: conditions(&binding).collect(),
            template: replicas(&value(&self.templates, &nginx)),
        }
    }

    fn member(&self, name: &str, deployments: &Informer, binding: &Value) -> Member {
        let cluster = value(&self.clusters, &ObjectKey::cluster(name));
        let targets = binding["spec"]["clusters"].as_array();
        let target = targets.and_then(|targets| targets.iter().find(|target| target["name"] == name));
        let works = self.works.cache().list(Some(&format!("karmada-es-{name}")));
        let work = works.iter().map(|work| decoded(work)).find(|work| {
            let manifests = work["spec"]["workload"]["manifests"].as_array();
            manifests.is_some_and(|manifests| manifests.iter().any(|manifest| manifest["kind"] == "Deployment"))
        });
        let holds = |object: &Value, condition: &str| {
            conditions(object).any(|(name, status)| name == condition && status == "True")
        };
        Member {
            name: name.to_owned(),
            version: cluster["status"]["kubernetesVersion"].as_str().unwrap_or_default().to_owned(),
            ready: holds(&cluster, "Ready"),
            assigned: target.map(|target| target["replicas"].as_i64().unwrap_or(0)),
            applied: work.map(|work| holds(&work, "Applied")),
            replicas: replicas(&value(deployments, &ObjectKey::namespaced("default", "nginx"))),
        }
    }
}

fn value(informer: &Informer, key: &ObjectKey) -> Value {
    informer.cache().get(key).map_or(Value::Null, |object| decoded(&object))
}

/// Null when it cannot be read: the next look may see more.
fn decoded(object: &Object) -> Value {
    object.to_value().unwrap_or(Value::Null)
}

fn conditions(object: &Value) -> impl Iterator<Item = (String, String)> + '_ {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter_map(|condition| {
        Some((condition["type"].as_str()?.to_owned(), condition["status"].as_str()?.to_owned()))
    })
}

/// Ready and wanted; none when there is no such object.
fn replicas(deployment: &Value) -> Option<(i64, i64)> {
    let wanted = deployment["spec"]["replicas"].as_i64()?;
    Some((deployment["status"]["readyReplicas"].as_i64().unwrap_or(0), wanted))
}
