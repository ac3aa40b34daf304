//! update, and the write of every change of an existing object.

use std::sync::Arc;

use apimachinery::field::{Error as FieldError, Path};
use apimachinery::object::ObjectTree as _;
use apimachinery::{Object, ObjectKey, Status, names};
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use storage::{Guard, Op, TxnOutcome};
use transport::{Body, Response};

use super::Call;
use super::ownership::{Live, Proposal, RECEIVED, admitted, finalizer_warnings, unique_owners};
use crate::admit::{AdmissionRequest, Operation};
use crate::cache::keys;
use crate::conversion;
use crate::errors;
use crate::limits::fairness::writers::Writing;
use crate::request::options::Write;
use crate::wire::warnings;

/// The result of a write of an object.
pub(crate) struct Changed {
    pub object: Arc<Object>,
    pub warnings: Vec<String>,
}

impl Call<'_> {
    pub(crate) async fn update(&self, body: Body) -> Result<Response, Status> {
        let options = self.write_options(Write::Update)?;
        let (mut object, mut warnings) = self.object(body, options.field_validation).await?;
        let dry_run = options.dry_run;
        self.require_name(&object)?;
        self.check_name(&mut object)?;
        self.check_namespace(&mut object)?;
        // With a version it is tried once; without one, as often as it takes.
        let has_version = object["metadata"]["resourceVersion"].as_str().is_some_and(|text| !matches!(text, "" | "0"));
        let named = |found: &Object| !has_version || object["metadata"]["resourceVersion"] == found.resource_version();
        let is_current = self.stored().catch_up_own().await?;
        if !is_current && !self.cache().get(&self.key())?.is_some_and(|found| named(&found)) {
            self.stored().catch_up().await?;
        }
        if self.cache().get(&self.key())?.is_none() {
            if !self.resource.strategy.allows_create_on_update() || !self.info.subresource.is_empty() {
                return Err(self.not_found(&self.info.name));
            }
            self.check_may_create().await?;
            self.reject_other_uid(&object)?;
            let (created, more) = self.create_object(object.into(), dry_run).await?;
            warnings.extend(more);
            let mut response = self.reply(StatusCode::CREATED, &created)?;
            warnings::warn(&mut response, &warnings);
            return Ok(response);
        }
        self.require_version(&object)?;
        let object = parking_lot::Mutex::new(object);
        let proposal = |_: &Live<'_>| {
            let mut object = object.lock();
            if object.is_null() {
                // Another version than the named one was found after the first attempt.
                return Err(self.conflict(&self.key()));
            }
            let object = if has_version { object.take() } else { object.clone() };
            Ok(Proposal::from(object))
        };
        let changed = self.modify(&self.key(), dry_run, proposal).await?;
        warnings.extend(changed.warnings);
        let mut response = self.reply(StatusCode::OK, &changed.object)?;
        warnings::warn(&mut response, &warnings);
        Ok(response)
    }

    /// The body of a replacement contains the name, and so does the outcome of a patch.
    pub(super) fn require_name(&self, object: &Value) -> Result<(), Status> {
        if object["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty()) {
            return Ok(());
        }
        Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            self.info.name
        )))
    }

    pub(super) fn check_name(&self, object: &mut Value) -> Result<(), Status> {
        let specified = object["metadata"]["name"].as_str().unwrap_or_default();
        if specified.is_empty() {
            object["metadata"]["name"] = self.info.name.as_str().into();
            return Ok(());
        }
        if specified == self.info.name {
            return Ok(());
        }
        Err(Status::bad_request(format!(
            "the name of the object ({specified}) does not match the name on the URL ({})",
            self.info.name
        )))
    }

    /// A write that names a uid is for that object, not for a new one.
    pub(super) fn reject_other_uid(&self, object: &Value) -> Result<(), Status> {
        let named = &self.resource.info.resource;
        let Some(uid) = object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) else { return Ok(()) };
        let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
        Err(Status::conflict(&named.group, &named.plural, &self.info.name, &why))
    }

    fn require_version(&self, object: &Value) -> Result<(), Status> {
        let specified = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if !specified.is_empty() || self.resource.strategy.allows_unconditional_update() {
            return Ok(());
        }
        let path = Path::new("metadata").child("resourceVersion");
        let error = FieldError::invalid(&path, 0, "must be specified for an update");
        // As upstream, which names the resource in the place of the kind.
        let named = &self.resource.info.resource;
        Err(Status::invalid(&named.group, &named.plural, &self.info.name, &[error]))
    }

    /// Waits for the other writers of an object; of several writes together, all have waited before.
    pub(super) async fn follow_writers(&self, key: &ObjectKey) -> Option<Writing<'_>> {
        if self.seat.is_some() {
            return None;
        }
        let named = &self.resource.info.resource;
        Some(self.server.writers.follow((&named.group, &named.plural), key, &self.user.user).await)
    }

    pub(super) fn conflict(&self, key: &ObjectKey) -> Status {
        let named = &self.resource.info.resource;
        Status::modified(&named.group, &named.plural, key.name())
    }

    /// Whether the new object has a resourceVersion; an error if that is not the stored one.
    pub(super) fn check_preconditions(&self, old: &Value, new: &Value) -> Result<bool, Status> {
        let named = &self.resource.info.resource;
        let (was, is) = (&old["metadata"], &new["metadata"]);
        let uid = is["uid"].as_str().unwrap_or_default();
        if !uid.is_empty() && Some(uid) != was["uid"].as_str() {
            return Err(self.uid_differs(uid, was["uid"].as_str().unwrap_or_default()));
        }
        let version = is["resourceVersion"].as_str().unwrap_or_default();
        if version.is_empty() || version == "0" {
            return Ok(false);
        }
        if version.parse::<u64>().is_err() {
            let why = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
            return Err(Status::unclassified(why));
        }
        if Some(version) != was["resourceVersion"].as_str() {
            return Err(Status::modified(&named.group, &named.plural, &self.info.name));
        }
        Ok(true)
    }

    /// A replacement of another object conflicts; a patch would change an immutable field.
    fn uid_differs(&self, specified: &str, stored: &str) -> Status {
        let named = &self.resource.info.resource;
        let name = self.info.name.as_str();
        if self.info.verb == "patch" {
            let error = FieldError::invalid(&Path::new("metadata").child("uid"), specified, "field is immutable");
            let again = usize::from(self.resource.strategy.metadata_checks().changes);
            return Status::invalid(&named.group, &named.kind, name, &vec![error; 1 + again]);
        }
        let place = match self.namespace() {
            Some(ns) => format!("/registry/{}/{ns}/{name}", named.plural),
            None => format!("/registry/{}/{name}", named.plural),
        };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: {specified}, UID in object meta: {stored}"
        );
        Status::conflict(&named.group, &named.plural, name, &why)
    }

    /// A patch changes the stored object, which users' programs see with its version.
    fn show_version(&self, old: &Value, new: &mut Value) {
        if self.info.verb == "patch" {
            new["metadata"]["resourceVersion"].clone_from(&old["metadata"]["resourceVersion"]);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one write has these parts, and one caller")]
    pub(super) async fn write(
        &self,
        key: &ObjectKey,
        stored: &Arc<Object>,
        served: &Arc<Object>,
        live: &Live<'_>,
        proposal: Proposal,
        dry_run: bool,
    ) -> Result<Written, Status> {
        let strategy = &self.resource.strategy;
        let (old, Proposal { object: mut new, owners }) = (&live.tree, proposal);
        // For custom resources, restored fields lack absent ones, including defaults.
        let custom = self.resource.info.custom;
        if custom {
            strategy.default(&mut new)?;
        }
        self.restore(old, &mut new);
        let mut notices: Vec<String> = unique_owners(&mut new, RECEIVED).into_iter().collect();
        if !custom {
            strategy.default(&mut new)?;
        }
        (self.kind.default)(&mut new);
        let owners = self.tracked(owners, live, &mut new).await;
        let context = self.context(dry_run);
        strategy.prepare_update(&context, old, &mut new);
        self.show_version(old, &mut new);
        let (operation, old_owners) = (Operation::Update, live.list());
        let request = self.admission(operation, key, Some(old), Some(&mut new), dry_run);
        let mut request = AdmissionRequest { owners: Some(&owners), old_owners, ..request };
        self.server.admission.mutate(&mut request).await?;
        let owners = admitted(request.rounds, (&mut new, owners), &mut notices, |new| {
            self.restore(old, new);
            strategy.prepare_update(&context, old, new);
        });
        let owners_seen = Some(&owners);
        let counts = !matches!(self.info.subresource.as_str(), "status" | "binding" | "eviction");
        if strategy.has_generation() && counts && strategy.raises_generation(old, &new) {
            new["metadata"]["generation"] = next_generation(old);
        }
        new["metadata"]["resourceVersion"].clone_from(&old["metadata"]["resourceVersion"]);
        // A later time alone is no change.
        let is_unchanged = new == *old && live.owners().is_ok_and(|known| owners.equal_but_times(&known));
        if is_unchanged && !self.is_stale(key).await {
            self.refuse_invalid(key.name(), &strategy.validate_unchanged(&new))?;
            let request = self.admission(operation, key, Some(old), Some(&mut new), dry_run);
            let request = AdmissionRequest { owners: owners_seen, old_owners, ..request };
            self.server.admission.validate_by_those(|plugin| plugin.validates_unchanged(), &request).await?;
            let mut warnings = strategy.warnings(&context, Some(old), &new);
            warnings.extend(notices);
            return Ok(Written::Unchanged(Changed { object: Arc::clone(served), warnings }));
        }
        let mut wrong = self.metadata_errors(old, &new);
        if self.has_core_metadata() {
            wrong.extend(names::validate_core_finalizers(&new["metadata"], &Path::new("metadata")));
        }
        let (errors, mut warnings) = strategy.check_update(&context, old, &new);
        wrong.extend(errors);
        self.refuse_invalid(key.name(), &wrong)?;
        let request = self.admission(operation, key, Some(old), Some(&mut new), dry_run);
        let request = AdmissionRequest { owners: owners_seen, old_owners, ..request };
        self.validate_status_of(&request).await?;
        self.server.admission.validate(&request).await?;
        warnings.extend(self.server.admission.warnings(&request));
        warnings.extend(notices);
        if self.resource.info.custom {
            warnings.extend(finalizer_warnings(Some(old), &new));
        }
        conversion::to_stored(&self.server.conversions, self.resource, &mut new).await?;
        let encoded = keys::encode_with(&new, &owners).map_err(Status::internal)?;
        if dry_run {
            self.check_joint(key, Some(stored), &encoded)?;
            let object = keys::with_revision(&encoded, stored.revision()).map_err(errors::document)?;
            return Ok(Written::Done(Changed { object: self.served(object.shared()).await?, warnings }));
        }
        let outcome = self.replace(key, stored, &encoded, self.is_finished(&new)).await;
        // Whether a store that fails has stored it is not known.
        let is_refused = match &outcome {
            Ok(outcome) => matches!(outcome, TxnOutcome::Failed { .. }),
            Err(status) => status.code < 500,
        };
        if is_refused {
            self.server.admission.undo(&self.admission(operation, key, Some(old), Some(&mut new), dry_run)).await;
        }
        match outcome? {
            TxnOutcome::Committed { revision } => {
                let object = self.cache().committed(key, &encoded, revision).map_err(errors::document)?;
                Ok(Written::Done(Changed { object: self.served(object).await?, warnings }))
            }
            TxnOutcome::Failed { current, .. } => Ok(Written::Raced(raced(current)?)),
        }
    }

    /// Whether the stored value of the object is to be rewritten even without changes.
    async fn is_stale(&self, key: &ObjectKey) -> bool {
        let place = keys::object_key(&self.resource.info.resource, key);
        self.stored().store().is_stale(place).await
    }

    /// To programs of users, a write of an object and its status is one of each.
    pub(super) async fn validate_status_of(&self, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        let named = &self.resource.info.resource;
        if !self.with_status || !self.server.admission.has_user_programs_for_status(&named.group, &named.plural) {
            return Ok(());
        }
        let (old, new) = (request.old.map(|old| &old["status"]), request.object.as_deref());
        if new.is_none_or(|new| new["status"].is_null() || Some(&new["status"]) == old) {
            return Ok(());
        }
        let mut new = new.cloned();
        let of_status = self.admission(Operation::Update, request.key, request.old, new.as_mut(), request.dry_run);
        let of_status = AdmissionRequest { subresource: "status", ..of_status };
        self.server.admission.validate_by_those(|plugin| plugin.runs_user_programs(), &of_status).await
    }

    /// Replaces the stored object with an encoded one, if it is still the newest. Removing the last finalizer of a
    /// deleted object deletes it (`is_finished`); the client still receives the written object.
    pub(super) async fn replace(
        &self,
        key: &ObjectKey,
        stored: &Object,
        encoded: &Bytes,
        is_finished: bool,
    ) -> Result<TxnOutcome, Status> {
        let (guard, op) = self.replacement(key, stored, encoded, is_finished).await?;
        self.commit(key, vec![guard], op, Some(stored)).await
    }

    /// [`Self::replace`] for a change of the status or the metadata only, which no joint write depends on.
    pub(super) async fn replace_around_spec(
        &self,
        key: &ObjectKey,
        stored: &Object,
        encoded: &Bytes,
    ) -> Result<TxnOutcome, Status> {
        let (guard, op) = self.replacement(key, stored, encoded, false).await?;
        self.transact(vec![guard], vec![op]).await
    }

    async fn replacement(
        &self,
        key: &ObjectKey,
        stored: &Object,
        encoded: &Bytes,
        is_finished: bool,
    ) -> Result<(Guard, Op), Status> {
        let place = keys::object_key(&self.resource.info.resource, key);
        let op = if is_finished {
            Op::Delete { key: place.clone() }
        } else {
            Op::Put { key: place.clone(), value: encoded.clone(), lease: self.lease().await? }
        };
        Ok((Guard::ModRevision(place, stored.revision()), op))
    }

    /// The errors in the metadata of an updated object, repeated as often as upstream checks it.
    pub(super) fn metadata_errors(&self, old: &Value, new: &Value) -> apimachinery::field::ErrorList {
        let (path, namespaced) = (Path::new("metadata"), self.resource.info.resource.namespaced);
        let again = self.resource.strategy.metadata_checks();
        // The name does not change; it was validated when the object was created.
        let whole = names::validate_object_meta(&new["metadata"], namespaced, names::path_segment_rule, &path);
        if whole.is_empty() {
            // Its labels, annotations and owners are valid, so only immutable fields remain to be checked.
            let changes = names::validate_object_meta_change(&new["metadata"], &old["metadata"], &path);
            return if again.changes { [changes.as_slice(), changes.as_slice()].concat() } else { changes };
        }
        let changes = names::validate_object_meta_update(&new["metadata"], &old["metadata"], &path);
        let mut wrong = [whole.as_slice(), changes.as_slice()].concat();
        wrong.extend(changes.into_iter().filter(|_| again.changes));
        wrong.extend(whole.into_iter().filter(|_| again.whole));
        wrong
    }

    /// Restores the fields that this endpoint may not change.
    fn restore(&self, old: &Value, new: &mut Value) {
        match self.info.subresource.as_str() {
            "status" => {
                let status = new["status"].take();
                let kept = self.resource.strategy.status_metadata();
                let kept: Vec<_> = kept.iter().map(|field| (*field, new["metadata"][*field].take())).collect();
                let owners = new["metadata"]["managedFields"].take();
                revert(old, new);
                set_or_remove(new, "status", status);
                // An apply has settled them already.
                set_or_remove(&mut new["metadata"], "managedFields", owners);
                for (field, value) in kept {
                    set_or_remove(&mut new["metadata"], field, value);
                }
            }
            "" | "scale" if self.resource.info.has_status() && !self.with_status => {
                set_or_remove(new, "status", old["status"].clone());
            }
            _ => {}
        }
        (self.kind.restore)(&self.info.subresource, old, new, self.now);
        let was = &old["metadata"];
        let Some(metadata) = new.metadata_mut() else { return };
        metadata.retain(|_, value| !value.is_null());
        metadata.remove("selfLink");
        for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
            match (was.get(field), metadata.get_mut(field)) {
                (Some(value), Some(known)) if value == known => {}
                (Some(value), Some(known)) => known.clone_from(value),
                (Some(value), None) => drop(metadata.insert(field.into(), value.clone())),
                (None, _) => drop(metadata.remove(field)),
            }
        }
        // An empty map and an absent one are the same; the stored form has neither.
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            let empty = metadata.get(field).is_some_and(|value| match value {
                Value::Object(map) => map.is_empty(),
                Value::Array(list) => list.is_empty(),
                _ => false,
            });
            if empty {
                metadata.remove(field);
            }
        }
    }

    /// Whether a deleted object has nothing more to wait for.
    pub(super) fn is_finished(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let none = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
        metadata["deletionTimestamp"].is_string()
            && none(&metadata["finalizers"])
            && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
            && !(self.kind.blocks_deletion)(object)
    }
}

pub(super) enum Written {
    Done(Changed),
    /// Nothing had to be written.
    Unchanged(Changed),
    /// Another write came first; the current object, if it still exists.
    Raced(Option<Arc<Object>>),
}

/// The generation of an object after a change that raises it.
pub(super) fn next_generation(old: &Value) -> Value {
    (old["metadata"]["generation"].as_i64().unwrap_or(0) + 1).into()
}

pub(super) fn raced(current: Vec<Option<storage::KeyValue>>) -> Result<Option<Arc<Object>>, Status> {
    let Some(Some(newer)) = current.into_iter().next() else { return Ok(None) };
    keys::with_revision(&newer.value, newer.mod_revision).map(|object| Some(object.shared())).map_err(errors::document)
}

/// Makes `new` equal to `old`. Most of it already is, and comparing is cheaper than copying.
pub(crate) fn revert(old: &Value, new: &mut Value) {
    match (old, new) {
        (Value::Object(was), Value::Object(is)) => {
            is.retain(|key, _| was.contains_key(key));
            for (key, value) in was {
                match is.get_mut(key) {
                    Some(other) => revert(value, other),
                    None => drop(is.insert(key.clone(), value.clone())),
                }
            }
        }
        (old, new) if old != new => new.clone_from(old),
        _ => {}
    }
}

pub(crate) fn set_or_remove(object: &mut Value, field: &str, value: Value) {
    let Some(map) = object.as_object_mut() else { return };
    if value.is_null() {
        map.remove(field);
    } else {
        map.insert(field.into(), value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn restoring_equals_the_old_object() {
        let old = json!({"a": {"b": [1, {"c": 2}], "d": null}, "e": "x"});
        for new in [
            json!({}),
            json!({"a": {"b": [1], "f": 1}, "e": "y", "g": {}}),
            json!({"a": 7, "e": {"x": 1}}),
            json!([1]),
            old.clone(),
        ] {
            let mut restored = new;
            revert(&old, &mut restored);
            assert_eq!(restored, old);
        }
    }
}
