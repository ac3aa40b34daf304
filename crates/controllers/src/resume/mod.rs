//! Safe resume (`propagation::resume`): after the restore of an older copy of the store, no object in a member is
//! overwritten, deleted or recreated until an administrator confirms.
//!
//! [`incarnations`] maintains the list of starts in the control plane, [`marker`] a member's record of deletions,
//! [`hold`] the held members. A pass over a Work gets a [`Permit`] before it writes to a member.

mod hold;
mod incarnations;
mod marker;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use apimachinery::meta::{ObjectMeta, Time};
use apimachinery::{Object, ObjectKey};
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{annotations, labels};
use karmada_api::identity::BindingKey;
use karmada_api::manifest::metadata_map;
use karmada_api::scope::Scope;
use karmada_api::work::v1alpha1::Work;
use propagation::resume::{self, Acceptance, Decision, Found, Incarnations, Mark};
use serde_json::{Value, json};
use world::Level;

use crate::error::{Error, Result};
use crate::members::Member;
use crate::{Context, MemberError};

pub use incarnations::record_opening;
pub(crate) use incarnations::run;
pub(crate) use marker::{Ledger, write_ahead};

/// How many unknown incarnations are remembered. The list is not read again for more.
const UNKNOWN: usize = 1_000;

/// Whether members may be written to.
#[derive(Clone, Default)]
enum Gate {
    /// The list of incarnations is being read or written.
    #[default]
    Closed,
    /// There is no list, so there are no marks.
    Unmarked,
    /// Another process has started since and writes to the members.
    Superseded,
    Open(Arc<Known>),
}

/// The list as it was read last.
struct Known {
    /// The control plane's UID.
    plane: String,
    list: Incarnations,
    /// The incarnation that this process writes in its marks.
    own: String,
    /// The store's newest revision when the list was read.
    read_at: u64,
}

impl Known {
    /// Another one whenever the list has another entry: markers are compared with it again.
    fn state(&self) -> (String, u64) {
        (self.own.clone(), self.list.last_number())
    }

    fn mark(&self, revision: u64) -> Mark {
        Mark { plane: Mark::plane_of(&self.plane), incarnation: self.own.clone(), revision }
    }

    /// Whether the store is older than the object with the mark. Unreadable marks, and those of other control planes,
    /// are not compared.
    fn is_older_than(&self, text: &str, accepted: Option<&Acceptance>) -> bool {
        let Ok(mark) = text.parse::<Mark>() else { return false };
        mark.plane == Mark::plane_of(&self.plane) && self.list.is_older_than(&mark, accepted)
    }
}

/// The state of safe resume, shared by the controllers of one process.
#[derive(Default)]
pub(crate) struct Resume {
    gate: Level<Gate>,
    /// The incarnation of this process, once there is one.
    own: parking_lot::Mutex<Option<String>>,
    /// Increases whenever the known list may be outdated.
    doubts: AtomicU64,
    again: tokio::sync::Notify,
    /// One reader of the list at a time.
    reading: tokio::sync::Mutex<()>,
    /// The newest observed revision of a Work.
    highest: AtomicU64,
    /// The revision of the caches when the connection to the store ended; zero if the list was read since.
    cached: AtomicU64,
    holds: hold::Holds,
    /// Incarnations that are still missing from the list after it was read again.
    unknown: parking_lot::Mutex<BTreeSet<String>>,
    warned: AtomicBool,
    /// Works that came after the hold of their member, as found while their bindings existed: their UIDs, and the
    /// holds.
    new: parking_lot::Mutex<HashMap<String, Time>>,
}

impl Resume {
    /// A Work was deleted.
    pub(crate) fn forget(&self, work: &Object) {
        self.new.lock().remove(work.uid());
    }

    /// Records an observed revision of a Work.
    pub(crate) fn saw(&self, revision: u64) {
        self.highest.fetch_max(revision, Ordering::Relaxed);
    }

    /// Records the revision of the caches when the connection to the store ended: the first time since the list was
    /// read, because a later one may be of another history.
    fn cached(&self, revision: u64) {
        let _ = self.cached.compare_exchange(0, revision, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether the list must be read again before the mark is compared with it: a process that has lost its leadership
    /// without noticing finds the marks of its successor.
    fn reads_again(&self, known: &Known, text: &str) -> bool {
        let Ok(mark) = text.parse::<Mark>() else { return false };
        if mark.plane != Mark::plane_of(&known.plane) || !known.list.does_not_know(&mark) {
            return false;
        }
        let mut unknown = self.unknown.lock();
        let is_first = unknown.len() < UNKNOWN && unknown.insert(mark.incarnation);
        drop(unknown);
        if is_first {
            self.doubt();
        }
        is_first
    }

    fn warn_once(&self, warn: impl FnOnce()) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            warn();
        }
    }

    /// The list may have changed: no write to members before it is read again.
    pub(crate) fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::Relaxed);
        self.gate.set(Gate::Closed);
        self.again.notify_one();
    }
}

/// The permission of a pass to change a Work's objects in its member.
pub(crate) struct Permit {
    known: Option<Arc<Known>>,
    accepted: Option<Acceptance>,
    is_held: bool,
    is_new: bool,
    /// The revision of the Work.
    revision: u64,
    work_id: String,
}

/// Waits until the incarnation is recorded, and reads the member's marker unless it was read over this connection.
///
/// # Errors
/// If writes to the member are currently refused.
pub(crate) async fn permit(
    context: &Context,
    member: &Member,
    cluster: &Cluster,
    object: &Object,
    work: &Work,
) -> std::result::Result<Permit, MemberError> {
    let revision = object.revision();
    let known = match context.resume.gate.wait_for(|gate| !matches!(gate, Gate::Closed)).await {
        Gate::Open(known) => Some(incarnations::covering(context, known, revision).await?),
        Gate::Superseded => return Err(MemberError::Superseded(member.name.clone())),
        Gate::Closed | Gate::Unmarked => None,
    };
    let accepted = match &known {
        Some(known) => marker::learn(context, member, known).await?,
        None => None,
    };
    let since = hold::since(context, cluster);
    let is_new = since.is_some_and(|since| is_new(context, work, since));
    let work_id = work.metadata.labels.get(labels::WORK_ID).cloned().unwrap_or_default();
    Ok(Permit { known, accepted, is_held: since.is_some(), is_new, revision, work_id })
}

/// Whether the Work and its template were created after the hold.
fn is_new(context: &Context, work: &Work, since: Time) -> bool {
    if !resume::is_newer(work.metadata.creation_timestamp, since) {
        return false;
    }
    // An agent reads only Works.
    if context.agent_of.is_some() {
        return true;
    }
    let created = |object: &Object| {
        let metadata: Option<ObjectMeta> = serde_json::from_slice(&object.metadata_json()).ok();
        metadata.and_then(|metadata| metadata.creation_timestamp)
    };
    let named = &work.metadata.annotations;
    for scope in Scope::ALL {
        let Some(name) = named.get(scope.binding_name_annotation()) else { continue };
        let key = match scope.binding_namespace_annotation().and_then(|key| named.get(key)) {
            Some(namespace) => BindingKey::namespaced(namespace.as_str(), name.as_str()),
            None => BindingKey::cluster(name.as_str()),
        };
        let uid = &work.metadata.uid;
        let Some(binding) = context.bindings(scope).cache().get(&key) else {
            // Works end after their binding.
            return context.resume.new.lock().get(uid) == Some(&since);
        };
        let is_new = resume::is_newer(created(&binding), since);
        if is_new {
            context.resume.new.lock().insert(uid.clone(), since);
        }
        return is_new;
    }
    let namespaces = context.control.existing(&crate::namespace::resource());
    let owners = work.metadata.owner_references.iter().filter(|owner| owner.kind == "Namespace");
    owners.into_iter().all(|owner| {
        let namespace = namespaces.as_ref().and_then(|it| it.cache().get(&ObjectKey::cluster(owner.name.as_str())));
        namespace.is_some_and(|namespace| resume::is_newer(created(&namespace), since))
    })
}

impl Permit {
    /// Whether the Work is not executed in the member.
    pub(crate) fn waits(&self) -> bool {
        self.is_held && !self.is_new
    }

    /// Succeeds if the existing object may be changed or deleted. A member found to be newer than the store is held
    /// from here on.
    ///
    /// # Errors
    /// [`Error::ResumePending`], or the list of incarnations must be read again first.
    pub(crate) fn allows(&self, context: &Context, member: &Member, observed: &Object) -> Result<()> {
        let Some(known) = &self.known else { return Ok(()) };
        let mark = observed.annotation(annotations::MARK);
        if mark.as_ref().is_some_and(|mark| context.resume.reads_again(known, mark)) {
            return Err(MemberError::Unlisted(member.name.clone()).into());
        }
        let is_own = observed.label(labels::WORK_ID).is_some_and(|id| id == self.work_id);
        let is_ahead = |mark: &String| {
            known.is_older_than(mark, self.accepted.as_ref()) || (is_own && self.is_behind(known, mark))
        };
        let found = Found::Present { is_ahead: mark.as_ref().is_some_and(is_ahead), is_own };
        let decision = resume::decide(self.is_held, self.is_new, found);
        if decision == Decision::Hold {
            let carrier = format!("{} {}", observed.kind(), observed.key());
            hold::begin(context, &member.name, known, mark.unwrap_or_default(), carrier);
        }
        if decision == Decision::Act { Ok(()) } else { Err(Error::ResumePending) }
    }

    /// Whether the Work itself is older than the object that it wrote: then the store is older, even if its revision
    /// has since passed that of the mark. Losses before a confirmation are accepted.
    fn is_behind(&self, known: &Known, mark: &str) -> bool {
        let Ok(mark) = mark.parse::<Mark>() else { return false };
        // Then an older copy shows by its opening, and it is only the cache that lags.
        if known.list.records_openings() {
            return false;
        }
        let accepted = self.accepted.as_ref().and_then(|accepted| known.list.number_of(&accepted.id));
        let is_accepted =
            accepted.is_some_and(|until| known.list.number_of(&mark.incarnation).is_none_or(|it| it <= until));
        mark.plane == Mark::plane_of(&known.plane) && mark.revision > self.revision && !is_accepted
    }

    /// The object with the mark of this write: spliced into its text where it has annotations, as all manifests have.
    pub(crate) fn marked(&self, object: &Object) -> Option<Object> {
        let mark = self.known.as_ref()?.mark(self.revision).to_string();
        object.with_annotation(annotations::MARK, &mark).or_else(|| {
            let mut tree = object.to_tree().ok()?;
            metadata_map(&mut tree, "annotations").insert(annotations::MARK.to_owned(), json!(mark));
            Object::from_value(&tree).ok()
        })
    }

    pub(crate) fn mark(&self, tree: &mut Value) {
        if let Some(known) = &self.known {
            let mark = known.mark(self.revision).to_string();
            metadata_map(tree, "annotations").insert(annotations::MARK.to_owned(), json!(mark));
        }
    }

    pub(crate) fn work_id(&self) -> &str {
        &self.work_id
    }
}
