//! Labels, annotations and finalizers of an object, written without the other fields if the kind permits that: the
//! others are neither decoded, validated nor encoded, and keep their bytes. For callers in this process, which write
//! many claims and finalizers; requests that may get warnings about other fields, and all unusual ones, take the
//! general path.

use std::sync::Arc;

use apimachinery::field::Path;
use apimachinery::object::ObjectTree as _;
use apimachinery::{Object, Status, managed_fields, merge_patch, names, raw_json, strict};
use serde_json::{Map, Value};

use super::Call;
use super::status::named;
use super::update::next_generation;
use crate::cache::keys;
use crate::errors;

/// The metadata fields that can be changed without the rest.
const FIELDS: [&str; 3] = ["annotations", "finalizers", "labels"];

impl Call<'_> {
    /// Executes a merge patch of the metadata; `None`, without effect, if that requires the whole object.
    pub(super) async fn patch_metadata(&self, patch: &Value) -> Result<Option<Arc<Object>>, Status> {
        let info = &self.resource.info;
        let Some((metadata, fields)) = parts(patch) else { return Ok(None) };
        if !self.shared
            || !self.info.subresource.is_empty()
            || !self.server.admission.metadata_is_independent(info, &fields)
        {
            return Ok(None);
        }
        let key = self.key();
        let _writing = self.follow_writers(&key).await;
        let is_current = self.stored().catch_up_own().await?;
        let Some(stored) = self.cache().get(&key)? else { return Ok(None) };
        if !self.resource.strategy.metadata_is_independent(&stored) {
            return Ok(None);
        }
        let Some(is_version_named) = named(Some(metadata), &stored) else { return Ok(None) };
        let Some((old, new)) = self.metadatas(&stored, metadata, &fields)? else { return Ok(None) };
        if old == new {
            let is_newest = is_current || self.newer(&key, &stored).await?.is_none();
            return Ok(is_newest.then_some(stored));
        }
        let Some(encoded) = self.with_metadata(&stored, &old, &new) else { return Ok(None) };
        self.replace_part(&key, &stored, &encoded, self.is_finished(&new), is_version_named).await
    }

    /// The old and the new metadata, each in a separate object and without owners; `None` unless both are valid.
    fn metadatas(
        &self,
        stored: &Object,
        change: &Map<String, Value>,
        fields: &[&str],
    ) -> Result<Option<(Value, Value)>, Status> {
        let Some(metadata) = stored.member("metadata") else { return Ok(None) };
        let mut old = raw_json::tree(&metadata).map_err(errors::document)?;
        let Some(members) = old.as_object_mut() else { return Ok(None) };
        members.remove("managedFields");
        let mut new = old.clone();
        let changes = fields.iter().map(|field| ((*field).to_owned(), change[*field].clone()));
        merge_patch::apply(&mut new, &Value::Object(changes.collect()));
        let [old, mut new] =
            [old, new].map(|metadata| Value::Object(Map::from_iter([("metadata".to_owned(), metadata)])));
        let is_known =
            strict::prune(&mut new, &self.resource.info.schema).is_empty() && self.mistyped(&mut new).is_none();
        if let Some(members) = new.metadata_mut() {
            let is_empty = |value: &Value| match value {
                Value::Object(map) => map.is_empty(),
                Value::Array(list) => list.is_empty(),
                other => other.is_null(),
            };
            members.retain(|name, value| !FIELDS.contains(&name.as_str()) || !is_empty(value));
        }
        let mut wrong = self.metadata_errors(&old, &new);
        if self.has_core_metadata() {
            wrong.extend(names::validate_core_finalizers(&new["metadata"], &Path::new("metadata")));
        }
        let strategy = &self.resource.strategy;
        if strategy.has_generation() && strategy.raises_generation(&old, &new) {
            new["metadata"]["generation"] = next_generation(&old);
        }
        Ok((is_known && wrong.is_empty()).then_some((old, new)))
    }

    /// The stored form of the object with its new metadata.
    fn with_metadata(&self, stored: &Object, old: &Value, new: &Value) -> Option<bytes::Bytes> {
        let (list, schema) = (stored.managed_fields_json(), &self.resource.info.schema);
        let owners = self.as_manager(|context| {
            managed_fields::track_member(list.as_deref(), "metadata", (old, new), context, schema)
        });
        keys::with_metadata(stored, &owners?, new["metadata"].as_object()?)
    }
}

/// The metadata of a patch, and the changed fields; `None` if the patch has other fields.
fn parts(patch: &Value) -> Option<(&Map<String, Value>, Vec<&'static str>)> {
    let patch = patch.as_object()?;
    let metadata = patch.get("metadata").filter(|_| patch.len() == 1)?.as_object()?;
    let fields: Vec<&'static str> = FIELDS.into_iter().filter(|field| metadata.contains_key(*field)).collect();
    let is_expected =
        |name: &String| matches!(name.as_str(), "uid" | "resourceVersion") || FIELDS.contains(&name.as_str());
    (!fields.is_empty() && metadata.keys().all(is_expected)).then_some((metadata, fields))
}
