//! The status of an object, written without the other fields if the kind permits that: the others are neither decoded,
//! validated nor encoded, and keep their bytes. Unusual requests take the general path.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey, Status, managed_fields, merge_patch, raw_json, strict};
use bytes::Bytes;
use serde_json::{Map, Value};
use storage::TxnOutcome;

use super::Call;
use crate::cache::keys;
use crate::errors;

impl Call<'_> {
    /// Executes a merge patch of the status; `None`, without effect, if that requires the whole object.
    pub(super) async fn patch_status(&self, patch: &Value) -> Result<Option<Arc<Object>>, Status> {
        let info = &self.resource.info;
        if self.info.subresource != "status" || !self.server.admission.admits_any_status(info) {
            return Ok(None);
        }
        let Some((metadata, change)) = parts(patch) else { return Ok(None) };
        let key = self.key();
        let _writing = self.follow_writers(&key).await;
        let is_current = self.stored().catch_up_own().await?;
        let Some(stored) = self.cache().get(&key)?.filter(|stored| !stored.is_deleting()) else { return Ok(None) };
        let Some(is_version_named) = named(metadata, &stored) else { return Ok(None) };
        let Some((old, new)) = self.statuses(&stored, change)? else { return Ok(None) };
        if old == new {
            let is_newest = is_current || self.newer(&key, &stored).await?.is_none();
            return Ok(is_newest.then_some(stored));
        }
        let Some(encoded) = self.spliced(&stored, &old, &new) else { return Ok(None) };
        self.replace_part(&key, &stored, &encoded, false, is_version_named).await
    }

    /// Writes an object of which a part has changed; `None` after a concurrent write, if the client named no version.
    pub(super) async fn replace_part(
        &self,
        key: &ObjectKey,
        stored: &Object,
        encoded: &Bytes,
        is_finished: bool,
        is_version_named: bool,
    ) -> Result<Option<Arc<Object>>, Status> {
        let outcome = match is_finished {
            true => self.replace(key, stored, encoded, true).await?,
            false => self.replace_around_spec(key, stored, encoded).await?,
        };
        match outcome {
            TxnOutcome::Committed { revision } => {
                self.cache().committed(key, encoded, revision).map(Some).map_err(errors::document)
            }
            TxnOutcome::Failed { .. } if is_version_named => Err(self.conflict(key)),
            TxnOutcome::Failed { .. } => Ok(None),
        }
    }

    /// The old and the new status, each in a separate object; `None` unless both are valid.
    fn statuses(&self, stored: &Object, change: &Value) -> Result<Option<(Value, Value)>, Status> {
        let old = stored.member("status").map(|status| raw_json::tree(&status));
        let old = old.transpose().map_err(errors::document)?;
        let mut status = old.clone().unwrap_or_default();
        merge_patch::apply(&mut status, change);
        let of_status = |status| Value::Object(Map::from_iter([("status".to_owned(), status)]));
        let (old, mut new) = (old.map_or_else(|| Value::Object(Map::new()), of_status), of_status(status));
        // Types are checked before defaults, which drop empty values of any type.
        let is_known =
            strict::prune(&mut new, &self.resource.info.schema).is_empty() && self.mistyped(&mut new).is_none();
        self.resource.strategy.default(&mut new)?;
        // Defaults of absent parts do not matter here.
        let status = new["status"].take();
        if !is_known || !status.is_object() {
            return Ok(None);
        }
        let new = of_status(status);
        let wrong = self.resource.strategy.validate_status(stored, &old, &new);
        Ok(wrong.is_some_and(|wrong| wrong.is_empty()).then_some((old, new)))
    }

    /// The stored form of the object with its new status.
    fn spliced(&self, stored: &Object, old: &Value, new: &Value) -> Option<Bytes> {
        let (list, schema) = (stored.managed_fields_json(), &self.resource.info.schema);
        let owners = self
            .as_manager(|context| managed_fields::track_member(list.as_deref(), "status", (old, new), context, schema));
        keys::with_status(stored, &owners?, &new["status"])
    }
}

/// The metadata with which a patch identifies its object, and the change of the status; `None` if it has other fields.
fn parts(patch: &Value) -> Option<(Option<&Map<String, Value>>, &Value)> {
    let patch = patch.as_object()?;
    let metadata = match patch.get("metadata") {
        Some(metadata) => Some(metadata.as_object()?),
        None => None,
    };
    let is_plain = patch.keys().all(|name| matches!(name.as_str(), "metadata" | "status"));
    let mut names = metadata.into_iter().flat_map(Map::keys);
    let is_expected = is_plain && names.all(|name| matches!(name.as_str(), "uid" | "resourceVersion"));
    let change = patch.get("status").filter(|status| status.is_object())?;
    is_expected.then_some((metadata, change))
}

/// Whether a patch names the version it is for; `None` when it is for another object or version.
pub(super) fn named(metadata: Option<&Map<String, Value>>, stored: &Object) -> Option<bool> {
    let text = |name| match metadata.and_then(|metadata| metadata.get(name)) {
        Some(value) => value.as_str(),
        None => Some(""),
    };
    let (uid, version) = (text("uid")?, text("resourceVersion")?);
    let fits = (uid.is_empty() || uid == stored.uid()) && (version.is_empty() || version == stored.resource_version());
    // An empty uid is an edit of the metadata.
    let is_set = |name: &str| metadata.is_some_and(|metadata| metadata.contains_key(name));
    let is_empty = (uid.is_empty() && is_set("uid")) || (version.is_empty() && is_set("resourceVersion"));
    (fits && !is_empty).then_some(!version.is_empty())
}
