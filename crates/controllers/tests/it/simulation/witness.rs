//! Invariants of every write of the controllers, checked when it arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apimachinery::ObjectKey;
use apimachinery::meta::Time;
use client::Client;
use http::Method;
use karmada_api::ApiType;
use karmada_api::apps::v1alpha1::WorkloadRebalancer;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use parking_lot::Mutex;
use serde_json::Value;
use world::World;

use super::desired_state::DesiredState;
use super::history::Action;
use super::kinds::{Kind, template};
use super::read::{all, binding_name, execution_space, is_managed, is_present, name, overwrites, text};
use crate::harness::{Plane, get, namespaces};
use crate::network::{CONTROL, Sent};

/// The parts of a path of one object or a collection.
struct Path<'a> {
    namespace: &'a str,
    plural: &'a str,
    name: &'a str,
}

impl<'a> Path<'a> {
    fn of(path: &'a str) -> Self {
        let words: Vec<&str> = path.trim_matches('/').split('/').collect();
        let rest = &words[if words[0] == "api" { 2 } else { 3 }..];
        let at = |n: usize| rest.get(n).copied().unwrap_or_default();
        match rest.first() {
            Some(&"namespaces") if rest.len() > 2 => Self { namespace: at(1), plural: at(2), name: at(3) },
            _ => Self { namespace: "", plural: at(0), name: at(1) },
        }
    }

    fn kind(&self) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.resource().plural == self.plural)
    }

    fn key(&self) -> ObjectKey {
        match self.namespace {
            "" => ObjectKey::cluster(self.name),
            namespace => ObjectKey::namespaced(namespace, self.name),
        }
    }
}

/// Checks the writes of the controllers; each violation is a line.
#[derive(Clone)]
pub struct Witness {
    world: World,
    control: Arc<Mutex<Client>>,
    desired_state: DesiredState,
    members: Arc<BTreeMap<&'static str, Client>>,
    broken: Arc<Mutex<Vec<String>>>,
    /// Two processes ran concurrently: one may still execute a Work that the other has ended.
    two: Arc<AtomicBool>,
    /// The controllers' deletions in members.
    deleted: Arc<Mutex<BTreeSet<(String, Kind, String)>>>,
}

impl Witness {
    pub fn new(plane: &Plane, members: &[&'static str]) -> Self {
        let members = members.iter().map(|name| (*name, plane.member(name))).collect();
        let control = Arc::new(Mutex::new(plane.client.clone()));
        let (members, two) = (Arc::new(members), Arc::default());
        let (world, desired_state) = (plane.world.clone(), DesiredState::default());
        desired_state.follow(&plane.client);
        Self { world, control, desired_state, members, broken: Arc::default(), two, deleted: Arc::default() }
    }

    /// The control plane has another store now.
    pub fn follow(&self, plane: &Plane) {
        *self.control.lock() = plane.client.clone();
        self.desired_state.follow(&plane.client);
    }

    fn control(&self) -> Client {
        self.control.lock().clone()
    }

    /// The deletions in members since the last call.
    pub fn take_deleted(&self) -> BTreeSet<(String, Kind, String)> {
        std::mem::take(&mut self.deleted.lock())
    }

    /// Deletions by users of a member are excluded.
    pub fn forget_deleted(&self, action: &Action) {
        self.deleted.lock().retain(|(in_member, of_kind, name)| match action {
            Action::DeleteInMember { member, kind, n } | Action::CreateInMember { member, kind, n } => {
                (in_member.as_str(), *of_kind, name.as_str()) != (*member, *kind, template(*n).as_str())
            }
            Action::DropNamespaceIn(member) => in_member != member || !of_kind.is_namespaced(),
            Action::DropDefinition(Some(member)) => in_member != member || *of_kind != Kind::Widget,
            _ => true,
        });
    }

    pub fn two_processes(&self) {
        self.two.store(true, Ordering::Relaxed);
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.broken.lock())
    }

    pub async fn see(&self, sent: Sent) {
        let path = Path::of(&sent.path);
        // The marker of the member.
        if sent.server != CONTROL && path.namespace == "karmada-cluster" {
            return;
        }
        if let (true, &Method::DELETE, Some(kind)) = (sent.server != CONTROL, &sent.method, path.kind()) {
            self.deleted.lock().insert((sent.server.clone(), kind, path.name.to_owned()));
        }
        let broken = match (sent.server.as_str(), &sent.method) {
            (CONTROL, &Method::DELETE) => self.deletion(&path).await,
            (CONTROL, _) | (_, &Method::POST) => None,
            (member, &Method::DELETE) => self.deletion_in(member, &path).await,
            (member, _) => self.change_in(member, &path).await,
        };
        if let Some(broken) = broken {
            self.broken.lock().push(format!("{} {} {}: {broken}", sent.server, sent.method, sent.path));
        }
    }

    async fn stays(&self, member: &str) -> bool {
        get(&self.control(), &Cluster::api_resource(), &ObjectKey::cluster(member))
            .await
            .is_some_and(|it| is_present(&it))
    }

    /// The Work of an object in a member.
    async fn work_for(&self, member: &str, path: &Path<'_>) -> Option<Value> {
        let works = all(&self.control(), &Work::api_resource(), Some(&execution_space(member))).await;
        works.into_iter().find(|work| {
            let manifest = &work["spec"]["workload"]["manifests"][0];
            let plural = format!("{}s", text(manifest, "/kind").to_lowercase());
            plural == path.plural
                && name(manifest) == path.name
                && text(manifest, "/metadata/namespace") == path.namespace
        })
    }

    async fn object(&self, member: &str, path: &Path<'_>) -> Option<Value> {
        get(&self.members[member], &path.kind()?.resource(), &path.key()).await
    }

    /// No object is deleted in a member while a Work requires it, if it is not managed, or if it must be preserved.
    async fn deletion_in(&self, member: &str, path: &Path<'_>) -> Option<String> {
        if let Some(work) = self.work_for(member, path).await {
            if is_present(&work) && self.stays(member).await {
                return Some(format!("Work {} holds it", name(&work)));
            }
            if work["spec"]["preserveResourcesOnDeletion"] == true {
                return Some(format!("Work {} preserves it", name(&work)));
            }
        }
        let object = self.object(member, path).await?;
        (!is_managed(&object)).then(|| "it is not managed".to_owned())
    }

    /// No unmanaged object is changed unless the Work allows it.
    async fn change_in(&self, member: &str, path: &Path<'_>) -> Option<String> {
        let object = self.object(member, path).await?;
        let work = self.work_for(member, path).await.filter(is_present);
        let allowed = work.map_or_else(|| self.two.load(Ordering::Relaxed), |work| overwrites(&work));
        (!is_managed(&object) && !allowed).then(|| "it is not managed, and its Work does not overwrite".to_owned())
    }

    /// Works and bindings are deleted when nothing requires them; users' objects are never deleted.
    async fn deletion(&self, path: &Path<'_>) -> Option<String> {
        // A namespace that a user deletes is deleted with its content.
        if path.namespace == "demo" {
            let namespace = get(&self.control(), &namespaces(), &ObjectKey::cluster("demo")).await;
            if !namespace.is_some_and(|namespace| is_present(&namespace)) {
                return None;
            }
        }
        if let Some(member) = path.namespace.strip_prefix("karmada-es-") {
            if !self.stays(member).await || path.name.is_empty() {
                return None;
            }
            let work = get(&self.control(), &Work::api_resource(), &path.key()).await?;
            let (scope, binding) = binding_name(&work)?;
            let binding = self.binding(scope, binding).await.filter(is_present)?;
            return self
                .desired_state
                .for_long(&binding, member)
                .then(|| format!("binding {} wants it", name(&binding)));
        }
        match path.plural {
            "resourcebindings" | "clusterresourcebindings" => {
                let scope = if path.namespace.is_empty() { Scope::Cluster } else { Scope::Namespaced };
                let binding = self.binding(scope, path.name).await?;
                let template = template_of(&self.control(), &binding).await?;
                Some(format!("its template {} is there", name(&template)))
            }
            "namespaces" => {
                let member = path.name.strip_prefix("karmada-es-")?;
                self.stays(member).await.then(|| format!("cluster {member} is there"))
            }
            "workloadrebalancers" => {
                let found = get(&self.control(), &WorkloadRebalancer::api_resource(), &path.key()).await?;
                let finished = serde_json::from_value::<Time>(found["status"]["finishTime"].clone()).ok();
                let kept = found["spec"]["ttlSecondsAfterFinished"].as_i64();
                let is_over = finished.zip(kept).is_some_and(|(finished, seconds)| {
                    self.world.now().duration_since(finished.timestamp()).as_secs() >= seconds
                });
                (!is_over).then(|| "its TTL has not expired".to_owned())
            }
            _ => Some("it is the user's".to_owned()),
        }
    }

    async fn binding(&self, scope: Scope, name: &str) -> Option<Value> {
        let key = match scope {
            Scope::Namespaced => ObjectKey::namespaced("demo", name),
            Scope::Cluster => ObjectKey::cluster(name),
        };
        get(&self.control(), &Binding::api_resource(scope), &key).await
    }
}

/// The template of a binding, unless it is deleted or terminating.
async fn template_of(control: &Client, binding: &Value) -> Option<Value> {
    let reference = &binding["spec"]["resource"];
    let kind = Kind::of(reference)?;
    let template = get(control, &kind.resource(), &kind.key(text(reference, "/name"))).await?;
    (is_present(&template) && template["metadata"]["uid"] == reference["uid"]).then_some(template)
}
