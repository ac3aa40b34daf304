//! delete and deletecollection.

use std::future::ready;
use std::sync::Arc;

use apimachinery::meta::Time;
use apimachinery::object::ObjectTree as _;
use apimachinery::{Object, ObjectKey, Status};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Map, Value, json};
use storage::{Guard, Op, Revision, TxnOutcome};
use transport::{Body, Response};

use super::Call;
use super::options::DeleteOptions;
use super::read::Page;
use super::update::raced;
use crate::admit::{AdmissionRequest, Operation};
use crate::cache::keys;
use crate::cache::snapshot::Snapshot;
use crate::conversion;
use crate::errors;
use crate::request::options::{ListOptions, Options};
use crate::wire::body;
use crate::wire::respond;

const TRIES: usize = 5;
/// Deletions of one deletecollection under way at once, each with its own checks and revision. The store makes those
/// that wait durable together, so that a sync serves as many.
const AT_ONCE: usize = 128;
/// Objects that a deletecollection without a limit lists at once, as kube-apiserver's does: so a resourceVersion in its
/// options means that very state.
const PAGE: usize = 10_000;
/// A century: the mark of a deletion must not leave the range of timestamps.
const MAX_GRACE: i64 = 100 * 365 * 24 * 3600;

pub(crate) enum Deleted {
    /// The object was deleted.
    Gone(Arc<Object>),
    /// It waits for its finalizers or its grace period.
    Waiting(Arc<Object>),
}

impl Call<'_> {
    pub(super) async fn delete(&self, body: Body) -> Result<Response, Status> {
        let options = self.delete_options(&body::read(body).await?)?;
        if !self.stored().catch_up_own().await? && options.is_dry_run() {
            self.stored().catch_up().await?;
        }
        let named = &self.resource.info.resource;
        match self.delete_object(&self.key(), &options).await? {
            Deleted::Gone(object) if self.shared => {
                Ok(respond::object(StatusCode::OK, &object, self.accepted.encoding, true))
            }
            Deleted::Gone(object) if self.resource.strategy.returns_deleted() => self.reply(StatusCode::OK, &object),
            Deleted::Gone(object) => {
                let status = Status::deleted(&named.group, &named.plural, object.name(), object.uid());
                Ok(respond::negotiated(StatusCode::OK, &json!(status), self.headers))
            }
            // Only with the oldest form of orphaning is the remaining object returned.
            Deleted::Waiting(object) if options.orphan_dependents == Some(false) => {
                self.reply(StatusCode::ACCEPTED, &object)
            }
            Deleted::Waiting(object) => self.reply(StatusCode::OK, &object),
        }
    }

    pub(super) async fn delete_collection(&self, body: Body) -> Result<Response, Status> {
        let mut list = ListOptions::parse(&self.info.query, false)?;
        let filter = self.filter()?;
        let options = self.delete_options(&body::read(body).await?)?;
        let is_paged = list.limit > 0;
        if !is_paged {
            list.limit = PAGE;
        }
        let mut page = self.page(&list, &filter).await?;
        let mut items = page.items.to_vec();
        while page.remaining > 0 && !is_paged {
            let continue_token = self.token_after(&page);
            list = ListOptions { continue_token, limit: PAGE, ..ListOptions::default() };
            let next = self.page(&list, &filter).await?;
            items.extend_from_slice(&next.items);
            page = Page { revision: page.revision, ..next };
        }
        page.items = Arc::new(Snapshot::own(items));
        let deletions: Vec<_> =
            page.items.iter().map(|item| self.delete_listed(item.key(), &options).boxed()).collect();
        stream::iter(deletions).buffer_unordered(AT_ONCE).try_for_each(|()| ready(Ok(()))).await?;
        self.reply_list(page, &filter).await
    }

    /// Another client may have deleted it since it was listed.
    async fn delete_listed(&self, key: ObjectKey, options: &DeleteOptions) -> Result<(), Status> {
        match self.delete_object(&key, options).await {
            Err(status) if status.is(apimachinery::StatusReason::NotFound) => Ok(()),
            other => other.map(drop),
        }
    }

    pub(crate) async fn delete_object(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<Deleted, Status> {
        let named = &self.resource.info.resource;
        (self.kind.may_delete)(key)?;
        let _writing = match options.is_dry_run() {
            true => None,
            false => self.follow_writers(key).await,
        };
        let mut is_current = options.is_dry_run() || self.stored().store().written_revision().is_none();
        let mut stored = self.found(key, &mut is_current).await?;
        for _ in 0..TRIES {
            let attempt = self.try_delete(key, &stored, options).await;
            let is_of_store = match &attempt {
                Ok(Ok(Deleted::Waiting(object))) => object.revision() != stored.revision(),
                Ok(_) => true,
                Err(status) => status.code >= 500,
            };
            if !is_of_store && let Some(newer) = self.newer_once(key, &stored, &mut is_current).await? {
                stored = newer;
                continue;
            }
            match attempt? {
                Ok(deleted) => return Ok(deleted),
                Err(Some(newer)) => stored = newer,
                Err(None) => return Err(self.not_found(key.name())),
            }
        }
        Err(Status::modified(&named.group, &named.plural, key.name()))
    }

    /// The inner error is a conflict, with the current object.
    async fn try_delete(
        &self,
        key: &ObjectKey,
        stored: &Arc<Object>,
        options: &DeleteOptions,
    ) -> Result<Result<Deleted, Option<Arc<Object>>>, Status> {
        self.check_delete_preconditions(stored.name(), (stored.uid(), stored.resource_version()), options)?;
        let served = self.served(Arc::clone(stored)).await?;
        let old = served.to_value().map_err(errors::document)?;
        let document = || options.document();
        let request = self.admission(Operation::Delete, key, Some(&old), None, options.is_dry_run());
        let mut request = AdmissionRequest { options: Options::Deletion(&document), ..request };
        self.server.admission.mutate(&mut request).await?;
        self.server.admission.validate(&request).await?;
        let place = keys::object_key(&self.resource.info.resource, key);
        let marked = self.marked(&old, options);
        if marked.as_ref() == Some(&old) {
            return Ok(Ok(Deleted::Waiting(served)));
        }
        let (op, waiting) = match marked {
            None => (Op::Delete { key: place.clone() }, None),
            Some(mut new) => {
                conversion::to_stored(&self.server.conversions, self.resource, &mut new).await?;
                let value = keys::encode(&new).map_err(Status::internal)?;
                (Op::Put { key: place.clone(), value: value.clone(), lease: None }, Some(value))
            }
        };
        let revision = if options.is_dry_run() {
            stored.revision()
        } else {
            let guards = vec![Guard::ModRevision(place, stored.revision())];
            match self.commit(key, guards, op, Some(stored)).await? {
                TxnOutcome::Committed { revision } => revision,
                TxnOutcome::Failed { current, .. } => return Ok(Err(raced(current)?)),
            }
        };
        Ok(Ok(match waiting {
            None => Deleted::Gone(self.last_form(served, old, revision)?),
            Some(value) => {
                let object = keys::with_revision(&value, revision).map_err(errors::document)?;
                Deleted::Waiting(self.served(object.shared()).await?)
            }
        }))
    }

    /// Whether the object with this UID and version may be deleted.
    pub(crate) fn check_delete_preconditions(
        &self,
        name: &str,
        (stored_uid, stored_version): (&str, &str),
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let Some(required) = &options.preconditions else { return Ok(()) };
        let named = &self.resource.info.resource;
        let refuse = |what: &str, expected: &str, found: &str, then: &str| {
            let why = format!(
                "the {what} in the precondition ({expected}) does not match the {what} in record ({found}). The object might \
                 have been {then}"
            );
            // The kind replaces the resource of other conflicts, as in upstream.
            Err(Status::conflict(&named.group, &named.kind, name, &why))
        };
        match (&required.uid, &required.resource_version) {
            (Some(uid), _) if uid != stored_uid => refuse("UID", uid, stored_uid, "deleted and then recreated"),
            (_, Some(version)) if version != stored_version => {
                refuse("ResourceVersion", version, stored_version, "modified")
            }
            _ => Ok(()),
        }
    }

    /// The object with its deletion time stamp, or `None` if it has no finalizers and can be deleted at once.
    fn marked(&self, old: &Value, options: &DeleteOptions) -> Option<Value> {
        let strategy = &self.resource.strategy;
        let mut new = old.clone();
        let already = old["metadata"]["deletionTimestamp"].is_string();
        if !already && strategy.mark_deleted(self.now, &mut new) {
            return Some(new);
        }
        let mut finalizers: Vec<Value> = old["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let policy = match (&options.propagation_policy, options.orphan_dependents) {
            // Objects that expire own no others, and the garbage collector does not see them: it would not remove the
            // finalizer.
            _ if self.kind.lifetime.is_some() => "Background",
            (Some(policy), _) => policy.as_str(),
            (None, Some(true)) => "Orphan",
            (None, Some(false)) => "Background",
            (None, None) => requested_before(&finalizers).unwrap_or_else(|| strategy.default_propagation()),
        };
        finalizers.retain(|name| name != "orphan" && name != "foregroundDeletion");
        match policy {
            "Orphan" => finalizers.push("orphan".into()),
            "Foreground" => finalizers.push("foregroundDeletion".into()),
            _ => {}
        }
        let grace = strategy.grace_seconds(old, options.grace_period_seconds).map_or(0, |it| it.min(MAX_GRACE));
        if finalizers.is_empty() && grace == 0 && !(self.kind.blocks_deletion)(old) {
            return None;
        }
        let metadata = new.metadata_mut()?;
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".into(), finalizers.into());
        }
        self.set_deadline(metadata, grace);
        (self.kind.mark_deleted)(&mut new);
        Some(new)
    }

    /// Writes when the object ends. A period that is running is shortened, and counts from its start; it is never
    /// extended.
    fn set_deadline(&self, metadata: &mut Map<String, Value>, grace: i64) {
        let running = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
        let end = metadata.get("deletionTimestamp").and_then(|it| serde_json::from_value::<Time>(it.clone()).ok());
        let started = |end: Time| end.timestamp().checked_sub(SignedDuration::from_secs(running));
        let start = match end {
            Some(_) if grace >= running => return,
            Some(end) => started(end).unwrap_or_else(|_| self.now.timestamp()),
            None => {
                if self.resource.strategy.has_generation() {
                    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0) + 1;
                    metadata.insert("generation".into(), generation.into());
                }
                self.now.timestamp()
            }
        };
        metadata.insert("deletionTimestamp".into(), json!(Time::new(start + SignedDuration::from_secs(grace))));
        metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    }

    /// A deleted object in the form for its response, with the revision of the deletion. Kinds with grace periods have
    /// a deletion time stamp, even if nothing remains to wait for: kube-apiserver stores it before it removes the
    /// object.
    fn last_form(&self, served: Arc<Object>, mut old: Value, revision: Revision) -> Result<Arc<Object>, Status> {
        let strategy = &self.resource.strategy;
        let is_graceful = strategy.grace_seconds(&old, None).is_some();
        match old.metadata_mut() {
            Some(metadata) if strategy.returns_deleted() => {
                if is_graceful {
                    self.set_deadline(metadata, 0);
                }
                metadata.insert("resourceVersion".into(), revision.to_string().into());
                Object::from_value(&old).map(Object::shared).map_err(errors::document)
            }
            _ => Ok(served),
        }
    }
}

/// The policy of the first finalizer for the garbage collector. A deletion without a policy keeps it, so that it does not
/// end the waiting of an earlier one.
fn requested_before(finalizers: &[Value]) -> Option<&'static str> {
    finalizers.iter().find_map(|name| match name.as_str()? {
        "orphan" => Some("Orphan"),
        "foregroundDeletion" => Some("Foreground"),
        _ => None,
    })
}
