//! Admission: changes and checks of a write after authorization. In-process plugins run in the order of their
//! registration, first all mutations, then, on the final object, all validations.

mod certificates;
mod chain;
pub(crate) mod claims;
pub mod durations;
pub mod escalation;
pub(crate) mod lifecycle;
pub mod plugins;
pub mod priority;
pub mod services;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apimachinery::managed_fields::Owners;
use apimachinery::meta::Time;
use apimachinery::object::ObjectTree as _;
use apimachinery::resource::{Resource, ResourceInfo};
use apimachinery::{GroupVersionKind, Object, ObjectKey, Status, extent, names};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use storage::Guard;
use transport::Identity;

pub(crate) use chain::Chain;

use self::durations::Phase;
use crate::auth::authz::{self, Attributes, Authorizer, ResourceAttributes};
use crate::cache::{Cache, Event, keys};
use crate::conversion::{self, Conversions};

use crate::registry::{Registry, Served};
pub use crate::request::options::Operation;
use crate::request::options::Options;
use crate::wire::warnings::Warnings;

/// The server state that admission reads.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub cache: &'a Cache,
    pub registry: &'a Registry,
    pub authorizer: &'a Arc<dyn Authorizer>,
    pub conversions: &'a Conversions,
}

/// One write during admission.
pub struct AdmissionRequest<'a> {
    /// The stored and served state. It includes everything acknowledged before the request began.
    pub(crate) known: Known<'a>,
    /// The operation.
    pub operation: Operation,
    /// The resource.
    pub info: &'a ResourceInfo,
    /// The object's namespace and name.
    pub key: &'a ObjectKey,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The stored object; `None` on create.
    pub old: Option<&'a Value>,
    /// The object to be stored; `None` on delete.
    pub object: Option<&'a mut Value>,
    /// The requesting user.
    pub user: &'a Identity,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// The request would create an existing object. Validation records nothing for it.
    pub(crate) repeats: bool,
    /// The moment the request was received.
    pub now: Time,
    /// The server generated the name from `generateName`.
    pub generated_name: bool,
    /// The request deletes a collection; it names no object.
    pub collection: bool,
    pub(crate) options: Options<'a>,
    /// The owners of the fields of `object`, which has no list.
    pub(crate) owners: Option<&'a Owners>,
    /// The list of `old`, which has none of its own.
    pub(crate) old_owners: Option<&'a str>,
    pub(crate) face: &'a dyn Face,
    pub(crate) notes: &'a Notes,
    /// The state of mutation.
    pub rounds: Rounds,
}

/// The mutations of one request. A plugin that calls users' programs requests a second round when they have changed the
/// object: plugins that ran before then see the result.
#[derive(Default)]
pub struct Rounds {
    /// Whether this is the second round.
    pub is_second: bool,
    /// Whether a second round is requested.
    pub is_second_requested: bool,
    /// The object was changed by a program that may have changed server-populated fields.
    pub is_changed_by_user: bool,
    /// The list of the owners of fields, if such a program has changed it; null without a list.
    pub(crate) owners: Option<Value>,
    /// State that a plugin keeps from the first round for the second one, by the plugin's name.
    pub kept: Vec<(&'static str, Box<dyn Any + Send + Sync>)>,
}

/// An annotation of the audit event of a request.
#[derive(Debug)]
pub(crate) struct Annotation {
    pub key: String,
    pub value: String,
    /// Whether it is recorded only with the object of the request, of which it has parts.
    pub has_body: bool,
}

/// Additions of admission to a response, whether the write succeeds or not.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    warnings: Mutex<Warnings>,
    findings: Mutex<Vec<String>>,
    annotations: Mutex<Vec<Annotation>>,
    claims: Mutex<Vec<Guard>>,
    /// Nanoseconds, of mutating and of validating programs.
    waited: [AtomicU64; 2],
}

impl Notes {
    /// The guards of the claims for the write, see [`claims`].
    pub(crate) fn claims(&self) -> Vec<Guard> {
        self.claims.lock().clone()
    }

    fn set_claims(&self, claims: Vec<Guard>) {
        *self.claims.lock() = claims;
    }

    /// The warnings of the request.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock()).into_texts()
    }

    /// Warnings about the fields of the document, which a refusal contains as well.
    pub(crate) fn set_findings(&self, findings: &[String]) {
        if !findings.is_empty() {
            *self.findings.lock() = findings.to_vec();
        }
    }

    pub(crate) fn take_findings(&self) -> Vec<String> {
        std::mem::take(&mut *self.findings.lock())
    }

    /// How long the request waited for mutating and for validating programs of users.
    pub(crate) fn waited(&self) -> [Duration; 2] {
        self.waited.each_ref().map(|nanos| Duration::from_nanos(nanos.load(Relaxed)))
    }

    /// The audit annotations of the request.
    pub(crate) fn take_annotations(&self) -> Vec<Annotation> {
        std::mem::take(&mut *self.annotations.lock())
    }
}

/// The form of an object in a request: the object itself, or the Scale of a Deployment.
pub(crate) trait Face: Sync {
    fn kind(&self) -> GroupVersionKind;

    /// # Errors
    /// If the object has no such form.
    fn show(&self, object: &Value) -> Result<Value, Status>;

    /// Puts a changed form into its object.
    ///
    /// # Errors
    /// If it is no longer of the resource.
    fn replace(&self, operation: Operation, shown: Value, object: &mut Value) -> Result<(), Status>;
}

impl AdmissionRequest<'_> {
    /// Whether it is about objects of this resource themselves, not about a subresource.
    pub fn is_for(&self, group: &str, plural: &str) -> bool {
        let named = &self.info.resource;
        named.group == group && named.plural == plural && self.subresource.is_empty()
    }

    /// Fails if an object of `place` (`GROUP/PLURAL`) in a namespace (`None`: any) cannot be read, because a plugin
    /// that decides by these objects would miss it.
    pub(crate) fn all_known(&self, place: &str, namespace: Option<&str>) -> Result<(), Status> {
        let cache = &self.known.cache;
        if cache.is_sound() { Ok(()) } else { cache.resource(place).check_scope(namespace) }
    }

    /// Whether the user of the request has another right.
    pub async fn is_allowed(&self, wanted: ResourceAttributes) -> bool {
        authz::decide(self.known.authorizer.as_ref(), self.user, &Attributes::Resource(wanted)).await.is_allowed()
    }

    /// Decides on requests of any user.
    pub fn authorizer(&self) -> Arc<dyn Authorizer> {
        Arc::clone(self.known.authorizer)
    }

    /// A stored object of another resource. Everything acknowledged before the request began is found.
    ///
    /// # Errors
    /// If the object cannot be read.
    pub fn stored(&self, group: &str, plural: &str, key: &ObjectKey) -> Result<Option<Arc<Object>>, Status> {
        self.known.cache.resource(&keys::group_resource(group, plural)).get(key)
    }

    /// The stored objects of another resource, in a namespace or in all.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn others(&self, group: &str, plural: &str, namespace: Option<&str>) -> Result<Vec<Arc<Object>>, Status> {
        let place = keys::group_resource(group, plural);
        let (objects, ..) = self.known.cache.resource(&place).list(namespace, None, 0, |_| true)?;
        Ok(objects)
    }

    /// The resources that the server serves.
    pub fn served(&self) -> Arc<Served> {
        self.known.registry.snapshot()
    }

    /// An object of one version of a resource in another one; a webhook may convert it.
    ///
    /// # Errors
    /// A conversion that fails.
    pub async fn converted(&self, versions: (&Resource, &Resource), document: Value) -> Result<Value, Status> {
        conversion::between(self.known.conversions, versions, document).await
    }

    /// The kind of the objects in the request: that of the subresource, if it has one.
    pub fn kind(&self) -> GroupVersionKind {
        self.face.kind()
    }

    /// A copy of the new object in the form for clients.
    ///
    /// # Errors
    /// If the object has no such subresource.
    pub fn object_document(&self) -> Result<Option<Value>, Status> {
        let Some(object) = self.object.as_deref() else { return Ok(None) };
        let mut document = self.face.show(object)?;
        if let (Some(list), Some(metadata)) = (self.listed_owners(), document.metadata_mut()) {
            metadata.insert("managedFields".into(), list);
        }
        Ok(Some(document))
    }

    /// The list of the owners of the new object's fields, as far as programs of users have changed it.
    fn listed_owners(&self) -> Option<Value> {
        let owners = self.owners.filter(|_| self.subresource != "scale")?;
        let list = self.rounds.owners.clone().unwrap_or_else(|| {
            let mut listed = json!({"metadata": {}});
            owners.put(&mut listed);
            listed["metadata"]["managedFields"].take()
        });
        Some(list).filter(|list| !list.is_null())
    }

    /// A copy of the stored object in the form for clients.
    ///
    /// # Errors
    /// If the object has no such subresource.
    pub fn old_document(&self) -> Result<Option<Value>, Status> {
        let Some(old) = self.old else { return Ok(None) };
        let mut document = self.face.show(old)?;
        let list = self.old_owners.filter(|_| self.subresource != "scale");
        let list = list.and_then(|list| serde_json::from_str::<Value>(list).ok());
        if let (Some(list), Some(metadata)) = (list, document.metadata_mut()) {
            metadata.insert("managedFields".into(), list);
        }
        Ok(Some(document))
    }

    /// Replaces the object by the document of a user's program. Server-populated fields keep their values; missing
    /// fields get their defaults.
    ///
    /// # Errors
    /// If the document is no longer of the resource, or is larger than any object that can be stored: the next program
    /// would add to it.
    pub fn replace_object(&mut self, mut document: Value) -> Result<(), Status> {
        let known = self.listed_owners();
        let Some(object) = self.object.as_deref_mut() else { return Ok(()) };
        extent::check(&document)?;
        let list = document.metadata_mut().and_then(|metadata| metadata.remove("managedFields"));
        if self.owners.is_some() && self.subresource != "scale" && list != known {
            self.rounds.owners = Some(list.unwrap_or_default());
        }
        self.face.replace(self.operation, document, object)?;
        self.rounds.is_changed_by_user = true;
        self.rounds.is_second_requested = true;
        Ok(())
    }

    /// The options of the request: CreateOptions, UpdateOptions or DeleteOptions of `meta.k8s.io/v1`.
    pub fn options(&self) -> Value {
        self.options.document(self.operation)
    }

    /// Adds a `Warning` header to the reply, also to a refusal.
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.notes.warnings.lock().add(text);
        }
    }

    /// Counts the duration of calls of users' programs, for which the server does not account.
    pub fn waited(&self, phase: Phase, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let [mutating, validating] = &self.notes.waited;
        let counted = if phase == Phase::Admit { mutating } else { validating };
        counted.fetch_add(nanos, Relaxed);
    }

    /// Adds an annotation to the audit event of the request. As upstream, only a qualified name with a prefix is a key.
    pub fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.note(key.into(), value.into(), false);
    }

    /// Adds an annotation that has parts of the object, and is recorded with it.
    pub fn annotate_with_body(&self, key: impl Into<String>, value: impl Into<String>) {
        self.note(key.into(), value.into(), true);
    }

    fn note(&self, key: String, value: String, has_body: bool) {
        if key.contains('/') && names::is_qualified_name(&key).is_empty() {
            self.notes.annotations.lock().push(Annotation { key, value, has_body });
        }
    }

    /// The refusal of a plugin: 403, as all of upstream's.
    pub fn forbidden(&self, why: &str) -> Status {
        let named = &self.info.resource;
        Status::forbidden(&named.group, &named.plural, self.key.name(), why)
    }
}

/// One object's change, right before it is committed. Both states are in the stored version, which need not be the version
/// of the request.
pub struct Change<'a> {
    pub(crate) cache: &'a Cache,
    /// The resource.
    pub info: &'a ResourceInfo,
    /// The object's namespace and name.
    pub key: &'a ObjectKey,
    /// `None` on create.
    pub old: Option<&'a Object>,
    /// `None` if the object is removed.
    pub new: Option<&'a Object>,
}

impl Change<'_> {
    /// The stored objects of another resource in a namespace.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn others(&self, group: &str, plural: &str, namespace: &str) -> Result<Vec<Arc<Object>>, Status> {
        let place = keys::group_resource(group, plural);
        let (objects, ..) = self.cache.resource(&place).list(Some(namespace), None, 0, |_| true)?;
        Ok(objects)
    }
}

/// Creates of objects of one resource.
pub struct Creates<'a> {
    /// The resource.
    pub info: &'a ResourceInfo,
    /// The requesting user.
    pub user: &'a Identity,
    /// The namespace of the objects.
    pub namespace: Option<&'a str>,
}

/// A new state of another object, committed in the transaction of a [`Change`] or not at all.
pub struct JointWrite {
    /// The group of the object's resource.
    pub group: &'static str,
    /// The plural of the object's resource.
    pub plural: &'static str,
    /// The state that the new one was computed from. The transaction fails if it is no longer the newest.
    pub based_on: Arc<Object>,
    /// The new state.
    pub object: Value,
}

/// An in-process admission plugin.
pub trait Admission: Send + Sync + 'static {
    /// The name for the metrics of its durations; `None` if it records them itself, or does nothing.
    fn name(&self) -> Option<&'static str> {
        None
    }

    /// Whether it handles this resource; it is not called for others.
    fn concerns(&self, _group: &str, _plural: &str) -> bool {
        true
    }

    /// Whether it handles writes of the status of such a resource.
    fn concerns_status(&self, group: &str, plural: &str) -> bool {
        self.concerns(group, plural)
    }

    /// Whether it handles writes of these metadata fields alone of such a resource.
    fn concerns_metadata(&self, group: &str, plural: &str, _fields: &[&str]) -> bool {
        self.concerns(group, plural)
    }

    /// Registers its metrics; called once, at the start of the server.
    fn count_in(&self, _registry: &metrics::Registry) {}

    /// Whether it neither changes nor refuses nor counts such objects, whatever they contain. Then it is not called for
    /// them if the server has a fast path to their stored form.
    fn admits_unread(&self, creates: &Creates<'_>) -> bool {
        !self.concerns(&creates.info.resource.group, &creates.info.resource.plural)
    }

    /// Whether mutation runs again when a user's program has changed the object.
    fn runs_again(&self) -> bool {
        true
    }

    /// Whether it runs users' programs. These validate every write, including writes without changes, a status written
    /// together with the object, and joined writes.
    fn runs_user_programs(&self) -> bool {
        false
    }

    /// Whether it validates writes that change nothing.
    fn validates_unchanged(&self) -> bool {
        self.runs_user_programs()
    }

    /// Whether it runs after all plugins that do not.
    fn runs_last(&self) -> bool {
        false
    }

    /// Names of built-in plugins of the server to disable.
    fn switches_off(&self) -> &[&'static str] {
        &[]
    }

    /// May change the object.
    fn mutate<'a>(&'a self, _request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Called with every change in the store, in order, before readers see it; at start with all objects.
    fn observe(&self, _place: &str, _event: &Event) {}

    /// May only refuse.
    fn validate<'a>(&'a self, _request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Texts for `Warning` headers about an object that was validated.
    fn warnings(&self, _request: &AdmissionRequest<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Whether it changes other objects in the transactions of this resource, see [`Self::joint_writes`].
    fn has_joint_writes(&self, _group: &str, _plural: &str) -> bool {
        false
    }

    /// The writes that are committed together with a change. Called again if one of those objects has changed meanwhile, and
    /// for dry runs. May refuse the change.
    ///
    /// # Errors
    /// A Status that refuses the change.
    fn joint_writes(&self, _change: &Change<'_>) -> Result<Vec<JointWrite>, Status> {
        Ok(Vec::new())
    }

    /// Called when an object it validated was not stored: another plugin refused it, or another write came first.
    /// Undoes the side effects of validation.
    fn undo<'a>(&'a self, _request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
