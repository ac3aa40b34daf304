//! A backup is taken during a history and restored later: changes in members in between are kept until a confirmation.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::ObjectKey;
use client::{Patch, PatchOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};
use storage::Store;
use storage::memory::MemoryStore;

use super::MEMBERS;
use super::history::Action;
use super::kinds::{Kind, template};
use super::read::{all, execution_space, is_managed, is_present, is_template, name, text};
use crate::harness::{Plane, get};

type Copies = BTreeMap<(Kind, String), Option<Version>>;

/// UID and resourceVersion.
type Version = (Value, Value);

pub struct Backup {
    pub store: MemoryStore,
    revision: u64,
}

impl Backup {
    pub async fn of(plane: &Plane) -> Self {
        let store = plane.backup();
        let revision = store.revision().await.expect("a revision");
        Self { store, revision }
    }
}

/// By member, the required state: objects in this version, and (`None`) objects that must not return.
#[derive(Default)]
pub struct Untouched(BTreeMap<&'static str, Copies>);

fn version(object: &Value) -> Version {
    (object["metadata"]["uid"].clone(), object["metadata"]["resourceVersion"].clone())
}

impl Untouched {
    /// Read after the restore, before anything runs on the store. `deleted` are the objects in members that the control
    /// plane deleted since the backup.
    pub async fn read(plane: &Plane, backup: &Backup, deleted: &BTreeSet<(String, Kind, String)>) -> Self {
        let mut untouched = Self::default();
        for member in MEMBERS {
            let copies = untouched.0.entry(member).or_default();
            for kind in Kind::ALL {
                for object in all(&plane.member(member), &kind.resource(), kind.namespace()).await {
                    let mark = text(&object, "/metadata/annotations/resume.karmada.io~1mark");
                    let revision: u64 = mark.rsplit('/').next().and_then(|it| it.parse().ok()).unwrap_or_default();
                    if is_template(&object) && is_managed(&object) && revision > backup.revision {
                        copies.insert((kind, name(&object).to_owned()), Some(version(&object)));
                    }
                }
            }
            let works = all(&plane.client, &Work::api_resource(), Some(&execution_space(member))).await;
            for work in works.iter().filter(|work| is_present(work)) {
                let manifest = &work["spec"]["workload"]["manifests"][0];
                let Some(kind) = Kind::of(manifest) else { continue };
                let key = (member.to_owned(), kind, name(manifest).to_owned());
                let is_gone = get(&plane.member(member), &kind.resource(), &kind.key(&key.2)).await.is_none();
                if is_gone && deleted.contains(&key) {
                    copies.insert((kind, key.2), None);
                }
            }
        }
        untouched
    }

    /// Changes by users of a member are excluded.
    pub fn forget(&mut self, action: &Action) {
        match action {
            Action::EditInMember { member, kind, n, .. }
            | Action::DeleteInMember { member, kind, n }
            | Action::CreateInMember { member, kind, n } => {
                drop(self.0.get_mut(member).and_then(|copies| copies.remove(&(*kind, template(*n)))));
            }
            // A user who deletes a namespace deletes its content.
            Action::DropNamespace => {
                MEMBERS.into_iter().for_each(|member| self.keep(member, |kind| !kind.is_namespaced()))
            }
            // The same holds for the removal of a cluster that is not known to be newer yet: the Work of the namespace
            // ends.
            Action::Unjoin(member) | Action::Rejoin(member) => self.keep(member, |kind| !kind.is_namespaced()),
            Action::DropNamespaceIn(member) => self.keep(member, |kind| !kind.is_namespaced()),
            Action::DropDefinition(Some(member)) => self.keep(member, |kind| kind != Kind::Widget),
            _ => {}
        }
    }

    fn keep(&mut self, member: &str, keep: impl Fn(Kind) -> bool) {
        if let Some(copies) = self.0.get_mut(member) {
            copies.retain(|(kind, _), _| keep(*kind));
        }
    }

    /// The changed objects; afterwards the member is no longer checked.
    pub async fn release(&mut self, plane: &Plane, member: &str) -> Vec<String> {
        let (mut wrong, works) =
            (Vec::new(), all(&plane.client, &Work::api_resource(), Some(&execution_space(member))).await);
        let is_new = |object: &Value| {
            let id = text(object, "/metadata/labels/work.karmada.io~1permanent-id");
            let work = works.iter().find(|work| text(work, "/metadata/labels/work.karmada.io~1permanent-id") == id);
            work.is_none_or(|work| plane.is_since_restore(work))
        };
        for ((kind, name), before) in self.0.remove(member).unwrap_or_default() {
            let now = get(&plane.member(member), &kind.resource(), &kind.key(&name)).await;
            match (before, now) {
                (Some(before), Some(now)) if version(&now) == before => {}
                (Some(_), now) => {
                    wrong.push(format!("{kind:?} {name} in {member} was changed before the confirmation: {now:?}"))
                }
                (None, Some(now)) if is_managed(&now) && !is_new(&now) => {
                    wrong.push(format!("{kind:?} {name} has returned to {member} before the confirmation"));
                }
                (None, _) => {}
            }
        }
        wrong
    }

    pub async fn rest(&mut self, plane: &Plane) -> Vec<String> {
        let mut wrong = Vec::new();
        for member in MEMBERS {
            wrong.extend(self.release(plane, member).await);
        }
        wrong
    }
}

/// The time of an unconfirmed hold.
pub async fn pending(plane: &Plane, member: &str) -> Option<Value> {
    let cluster = plane.get(&Cluster::api_resource(), &ObjectKey::cluster(member)).await.filter(is_present)?;
    let conditions = cluster["status"]["conditions"].as_array()?;
    let held = conditions.iter().find(|it| it["type"] == "ResumePending" && it["status"] == "True")?;
    let since = &held["lastTransitionTime"];
    (cluster["metadata"]["annotations"]["resume.karmada.io/confirmed"] != *since).then(|| since.clone())
}

pub async fn confirm(plane: &Plane, member: &str, since: &Value) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"resume.karmada.io/confirmed": since}}}));
    let (resource, key) = (Cluster::api_resource(), ObjectKey::cluster(member));
    drop(plane.client.patch(&resource, &key, &patch, &PatchOptions::default()).await);
}
