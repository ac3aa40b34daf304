//! What must hold of every write the controllers send, at the moment it arrives.

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

use super::history::Action;
use super::kinds::{Kind, template};
use super::read::{all, binding_name, execution_space, is_managed, lives, name, overwrites, text};
use super::wants::Wants;
use crate::harness::{Plane, get, namespaces};
use crate::network::{Asked, CONTROL};

/// The parts of a path that names one object or a collection.
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

/// Sees the writes of the controllers; each broken rule is a line.
#[derive(Clone)]
pub struct Witness {
    world: World,
    control: Arc<Mutex<Client>>,
    wants: Wants,
    members: Arc<BTreeMap<&'static str, Client>>,
    broken: Arc<Mutex<Vec<String>>>,
    /// Two processes ran at once: one may still do what a Work said that the other has ended.
    two: Arc<AtomicBool>,
    /// What the controllers deleted in members.
    deleted: Arc<Mutex<BTreeSet<(String, Kind, String)>>>,
}

impl Witness {
    pub fn new(plane: &Plane, members: &[&'static str]) -> Self {
        let members = members.iter().map(|name| (*name, plane.member(name))).collect();
        let control = Arc::new(Mutex::new(plane.client.clone()));
        let (members, two) = (Arc::new(members), Arc::default());
        let (world, wants) = (plane.world.clone(), Wants::default());
        wants.follow(&plane.client);
        Self { world, control, wants, members, broken: Arc::default(), two, deleted: Arc::default() }
    }

    /// Another store is behind the control plane now.
    pub fn follow(&self, plane: &Plane) {
        *self.control.lock() = plane.client.clone();
        self.wants.follow(&plane.client);
    }

    fn control(&self) -> Client {
        self.control.lock().clone()
    }

    /// What was deleted in members since this was called last.
    pub fn take_deleted(&self) -> BTreeSet<(String, Kind, String)> {
        std::mem::take(&mut self.deleted.lock())
    }

    /// What somebody in a member did is not the controllers' deletion.
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

    pub async fn see(&self, asked: Asked) {
        let path = Path::of(&asked.path);
        // The marker of the member.
        if asked.server != CONTROL && path.namespace == "karmada-cluster" {
            return;
        }
        if let (true, &Method::DELETE, Some(kind)) = (asked.server != CONTROL, &asked.method, path.kind()) {
            self.deleted.lock().insert((asked.server.clone(), kind, path.name.to_owned()));
        }
        let broken = match (asked.server.as_str(), &asked.method) {
            (CONTROL, &Method::DELETE) => self.deletion(&path).await,
            (CONTROL, _) | (_, &Method::POST) => None,
            (member, &Method::DELETE) => self.deletion_in(member, &path).await,
            (member, _) => self.change_in(member, &path).await,
        };
        if let Some(broken) = broken {
            self.broken.lock().push(format!("{} {} {}: {broken}", asked.server, asked.method, asked.path));
        }
    }

    async fn stays(&self, member: &str) -> bool {
        get(&self.control(), &Cluster::api_resource(), &ObjectKey::cluster(member)).await.is_some_and(|it| lives(&it))
    }

    /// The Work that says what an object of a member is.
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

    /// Nothing leaves a member while a Work in force holds it, nothing that is not ours, and nothing that is to stay.
    async fn deletion_in(&self, member: &str, path: &Path<'_>) -> Option<String> {
        if let Some(work) = self.work_for(member, path).await {
            if lives(&work) && self.stays(member).await {
                return Some(format!("Work {} holds it", name(&work)));
            }
            if work["spec"]["preserveResourcesOnDeletion"] == true {
                return Some(format!("Work {} says that it stays", name(&work)));
            }
        }
        let object = self.object(member, path).await?;
        (!is_managed(&object)).then(|| "it is not ours".to_owned())
    }

    /// Nothing of others is changed unless the Work says so.
    async fn change_in(&self, member: &str, path: &Path<'_>) -> Option<String> {
        let object = self.object(member, path).await?;
        let work = self.work_for(member, path).await.filter(lives);
        let allowed = work.map_or_else(|| self.two.load(Ordering::Relaxed), |work| overwrites(&work));
        (!is_managed(&object) && !allowed).then(|| "it is not ours, and nobody said to overwrite it".to_owned())
    }

    /// Works and bindings go when what asked for them is gone; nothing of the users' goes at all.
    async fn deletion(&self, path: &Path<'_>) -> Option<String> {
        // With the namespace that a user deletes goes all that is in it.
        if path.namespace == "demo" {
            let namespace = get(&self.control(), &namespaces(), &ObjectKey::cluster("demo")).await;
            if !namespace.is_some_and(|namespace| lives(&namespace)) {
                return None;
            }
        }
        if let Some(member) = path.namespace.strip_prefix("karmada-es-") {
            if !self.stays(member).await || path.name.is_empty() {
                return None;
            }
            let work = get(&self.control(), &Work::api_resource(), &path.key()).await?;
            let (scope, binding) = binding_name(&work)?;
            let binding = self.binding(scope, binding).await.filter(lives)?;
            return self.wants.for_long(&binding, member).then(|| format!("binding {} wants it", name(&binding)));
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
                (!is_over).then(|| "its time is not over".to_owned())
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

/// The template a binding was made for, unless it is gone or going.
async fn template_of(control: &Client, binding: &Value) -> Option<Value> {
    let reference = &binding["spec"]["resource"];
    let kind = Kind::of(reference)?;
    let template = get(control, &kind.resource(), &kind.key(text(reference, "/name"))).await?;
    (lives(&template) && template["metadata"]["uid"] == reference["uid"]).then_some(template)
}
