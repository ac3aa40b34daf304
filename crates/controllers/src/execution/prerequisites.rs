//! Works whose member lacks what other Works bring: the namespace of an object, or the definition of its kind. They are
//! applied again as soon as it exists, although their back-off may have grown to minutes.

use std::collections::HashMap;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use karmada_api::identity::{ClusterName, WorkKey};
use karmada_api::names;
use parking_lot::Mutex;

use super::apply::Manifest;
use crate::Context;

/// What an object needs in a member before it can be created there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Namespace,
    Definition,
}

impl Kind {
    /// `None` for resources that no object depends on in this way.
    pub(super) fn of(resource: &ApiResource) -> Option<Self> {
        match (&*resource.group, &*resource.kind) {
            ("", "Namespace") => Some(Self::Namespace),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => Some(Self::Definition),
            _ => None,
        }
    }
}

/// How long a Work waits for those that bring what its objects lack, before it is applied nevertheless: they may be
/// suspended, or fail because the namespace exists and belongs to another client.
pub(super) const WAIT: Duration = Duration::from_secs(15);

/// Whether a Work that is not applied yet brings the namespace or the definition of an object to the member.
pub(super) fn are_coming(context: &Context, work: &WorkKey, manifest: &Manifest) -> bool {
    let cluster = ClusterName::from(work.cluster());
    let namespace = manifest.key.namespace().map(|namespace| names::work_name("Namespace", namespace, ""));
    let definition = names::work_name("CustomResourceDefinition", &definition_of(&manifest.resource), "");
    let works = namespace.into_iter().chain([definition]).map(|name| WorkKey::new(&cluster, name));
    let mut known = works.filter(|work| context.works.cache().get(work).is_some());
    let records = context.engine.records.lock();
    known.any(|work| !records.get(&work).is_some_and(|record| record.applied))
}

fn definition_of(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

/// The Works with objects that a member has no place for, by member. A Work stays until it is applied, so that a
/// prerequisite that appears during an attempt is not missed.
#[derive(Default)]
pub(super) struct Prerequisites(Mutex<HashMap<ClusterName, HashMap<WorkKey, Vec<Missing>>>>);

/// What an object without a place in a member may lack: a status of 404 does not tell which of the two.
pub(super) struct Missing {
    namespace: Option<Box<str>>,
    definition: Box<str>,
}

impl Missing {
    pub(super) fn of(resource: &ApiResource, key: &ObjectKey) -> Self {
        Self { namespace: key.namespace().map(Box::from), definition: definition_of(resource).into() }
    }

    fn is_met_by(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Namespace => self.namespace.as_deref() == Some(name),
            Kind::Definition => *self.definition == *name,
        }
    }
}

impl Prerequisites {
    /// Records what the objects of a Work may lack in the member; a Work that lacks nothing is removed.
    pub(super) fn record(&self, work: &WorkKey, missing: Vec<Missing>) {
        if missing.is_empty() {
            return self.forget(work);
        }
        let mut all = self.0.lock();
        all.entry(ClusterName::from(work.cluster())).or_default().insert(work.clone(), missing);
    }

    pub(super) fn forget(&self, work: &WorkKey) {
        let mut all = self.0.lock();
        let Some(works) = all.get_mut(work.cluster()) else { return };
        works.remove(work);
        if works.is_empty() {
            all.remove(work.cluster());
        }
    }

    pub(super) fn forget_cluster(&self, cluster: &str) {
        self.0.lock().remove(cluster);
    }

    /// The Works of a member that waited for this object.
    pub(super) fn waiting_for(&self, cluster: &ClusterName, kind: Kind, name: &str) -> Vec<WorkKey> {
        let all = self.0.lock();
        let works = all.get(cluster).into_iter().flatten();
        let waits = works.filter(|(_, missing)| missing.iter().any(|it| it.is_met_by(kind, name)));
        waits.map(|(work, _)| work.clone()).collect()
    }
}
