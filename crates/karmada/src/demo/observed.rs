//! The objects that the demonstration reads: clusters, the binding, Works and Deployments, updated by watches.

use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::Client;
use controller_runtime::{Informer, InformerSet};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::taints;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use serde_json::Value;
use tokio::sync::Notify;
use world::World;

use super::view::{Member, View};
use crate::up::ControlPlane;

pub fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

/// Everything the demonstration reads.
pub struct Observed {
    clusters: Informer,
    bindings: Informer,
    works: Informer,
    templates: Informer,
    members: Vec<(String, Informer)>,
    /// Notified of every change.
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
            conditions: conditions(&binding).map(|(name, status, _)| (name.to_owned(), status.to_owned())).collect(),
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
        let applied = |work: &Value| condition(work, "Applied").is_some_and(|(status, _)| status == "True");
        Member {
            name: name.to_owned(),
            ready: condition(&cluster, "Ready"),
            is_tainted: has_taint(&cluster, taints::NOT_READY) || has_taint(&cluster, taints::UNREACHABLE),
            assigned: target.map(|target| target["replicas"].as_i64().unwrap_or(0)),
            applied: work.as_ref().map(applied),
            replicas: replicas(&value(deployments, &ObjectKey::namespaced("default", "nginx"))),
        }
    }
}

fn value(informer: &Informer, key: &ObjectKey) -> Value {
    informer.cache().get(key).map_or(Value::Null, |object| decoded(&object))
}

/// Null for an unreadable object.
fn decoded(object: &Object) -> Value {
    object.to_value().unwrap_or(Value::Null)
}

/// Type, status and reason.
fn conditions(object: &Value) -> impl Iterator<Item = (&str, &str, &str)> {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter_map(|condition| {
        let text = |field: &str| condition[field].as_str();
        Some((text("type")?, text("status")?, text("reason").unwrap_or_default()))
    })
}

/// Status and reason of one condition.
fn condition(object: &Value, type_: &str) -> Option<(String, String)> {
    let (_, status, reason) = conditions(object).find(|(name, ..)| *name == type_)?;
    Some((status.to_owned(), reason.to_owned()))
}

fn has_taint(cluster: &Value, key: &str) -> bool {
    cluster["spec"]["taints"].as_array().is_some_and(|taints| taints.iter().any(|taint| taint["key"] == key))
}

/// Ready and desired replicas; `None` when there is no such object.
fn replicas(deployment: &Value) -> Option<(i64, i64)> {
    let desired = deployment["spec"]["replicas"].as_i64()?;
    Some((deployment["status"]["readyReplicas"].as_i64().unwrap_or(0), desired))
}
