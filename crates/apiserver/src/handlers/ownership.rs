//! Field ownership of a request: the bridge to `apimachinery::managed_fields`.

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use apimachinery::managed_fields::{self, EntryError, FieldSet, ManagerContext, NO_FIELDS, Owners};
use apimachinery::object::Apart;
use apimachinery::object::ObjectTree as _;
use apimachinery::{Status, names};
use http::HeaderMap;
use http::header::USER_AGENT;
use serde_json::{Value, json};

use super::Call;
use crate::admit::Rounds;
use crate::conversion;
use crate::errors;
use crate::request::RequestInfo;

/// Names longer than this are cut; kube-apiserver's bound.
const MAX_MANAGER: usize = 128;

static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::from_paths(&[&["status"]]));
/// By the metadata fields, as bits in the order of [`METADATA`], that a write of the status does not change.
static BESIDES_STATUS: LazyLock<[FieldSet; 1 << METADATA.len()]> =
    LazyLock::new(|| std::array::from_fn(besides_status));

/// The fields of metadata that a write of the status may change for some kinds.
const METADATA: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];

fn besides_status(unchanged: usize) -> FieldSet {
    let fields: Vec<[&str; 2]> = METADATA
        .iter()
        .enumerate()
        .filter(|(bit, _)| unchanged >> bit & 1 == 1)
        .map(|(_, name)| ["metadata", name])
        .collect();
    let mut paths: Vec<&[&str]> = fields.iter().map(<[_; 2]>::as_slice).collect();
    if fields.len() == METADATA.len() {
        paths = vec![&["metadata"]];
    }
    paths.push(&["spec"]);
    FieldSet::from_paths(&paths)
}

/// A stored object on which a change is based.
pub(crate) struct Live<'o> {
    /// Without the list of owners.
    pub tree: Value,
    list: Option<&'o str>,
}

impl<'o> Live<'o> {
    /// Reads the object's document.
    pub fn of(json: &'o [u8]) -> Result<Self, Status> {
        let Apart { tree, owners } = Apart::read(json).map_err(errors::document)?;
        Ok(Self { tree, list: owners })
    }

    /// The list of owners as it is stored.
    pub fn list(&self) -> Option<&'o str> {
        self.list
    }

    pub fn owners(&self) -> Result<Owners, EntryError> {
        Owners::parse(self.list)
    }

    /// The tree with the list of owners, in the form for clients.
    pub fn with_owners(&self) -> Value {
        let mut tree = self.tree.clone();
        let list = self.list.and_then(|list| serde_json::from_str::<Value>(list).ok());
        if let (Some(list), Some(metadata)) = (list, tree.metadata_mut()) {
            metadata.insert("managedFields".into(), list);
        }
        tree
    }
}

/// An object to be stored.
#[derive(Clone)]
pub(crate) struct Proposal {
    pub object: Value,
    /// The owners of its fields, if server-side apply has determined them; the object then has no list. Otherwise the
    /// writer owns the changed fields.
    pub owners: Option<Owners>,
}

impl From<Value> for Proposal {
    fn from(object: Value) -> Self {
        Self { object, owners: None }
    }
}

/// `fieldManager`, or the User-Agent up to its first slash.
pub(crate) fn manager(info: &RequestInfo, headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("unknown");
    let name = info.query.text("fieldManager").unwrap_or_else(|| agent.split('/').next().unwrap_or(agent));
    match name.len() <= MAX_MANAGER {
        true => name.to_owned(),
        false => name.chars().take(MAX_MANAGER).collect(),
    }
}

impl Call<'_> {
    pub(super) fn manager(&self) -> String {
        manager(self.info, self.headers)
    }

    /// Runs `with` in the context of this request's manager.
    pub(super) fn as_manager<T>(&self, with: impl FnOnce(&ManagerContext<'_>) -> T) -> T {
        with(&self.context_for(&self.manager(), self.reset_fields()))
    }

    /// The fields that a request to this endpoint does not change, and whose owner it therefore does not become.
    fn reset_fields(&self) -> &'static FieldSet {
        if let Some(own) = (self.kind.reset_fields)(&self.info.subresource) {
            return own;
        }
        match self.info.subresource.as_str() {
            "status" => {
                let changed = self.resource.strategy.status_metadata();
                let unchanged = METADATA.iter().enumerate().filter(|(_, field)| !changed.contains(field));
                &BESIDES_STATUS[unchanged.map(|(bit, _)| 1 << bit).sum::<usize>()]
            }
            _ if self.resource.info.has_status() && !self.with_status => &STATUS,
            _ => &NO_FIELDS,
        }
    }

    fn context_for<'c>(&'c self, manager: &'c str, reset_fields: &'c FieldSet) -> ManagerContext<'c> {
        ManagerContext {
            manager,
            api_version: &self.api_version,
            subresource: &self.info.subresource,
            now: self.now,
            reset_fields,
            versions: self.resource,
        }
    }

    /// Gives the fields that a create or update changed to its writer; a list of the object's own is taken out of it.
    pub(super) fn track(&self, old: Option<(&Value, Owners)>, new: &mut Value) -> Owners {
        // Upstream reads the metadata of custom resources into a type that omits empty lists: such a list requests no
        // reset of the owners, unlike that of a built-in kind.
        if self.resource.info.custom
            && let Some(metadata) = new.metadata_mut()
            && metadata.get("managedFields").and_then(Value::as_array).is_some_and(Vec::is_empty)
        {
            metadata.remove("managedFields");
        }
        self.as_manager(|context| managed_fields::track(old, new, context, &self.resource.info.schema))
    }

    /// [`Call::track`] for an update, unless the owners are settled; a webhook may convert the object for owners in other
    /// versions.
    pub(super) async fn tracked(&self, settled: Option<Owners>, live: &Live<'_>, new: &mut Value) -> Owners {
        if let Some(owners) = settled {
            return owners;
        }
        let known = live.owners().unwrap_or_default();
        let conversions = &self.server.conversions;
        let is_versioned =
            || known.are_in_other_versions(&self.api_version) || !new["metadata"]["managedFields"].is_null();
        if !conversions.has(&self.resource.info) || !is_versioned() {
            return self.track(Some((&live.tree, known)), new);
        }
        let (owners, changed) = Box::pin(conversion::settled(conversions, self.resource, || {
            let mut new = new.clone();
            let owners = self.track(Some((&live.tree, known.clone())), &mut new);
            (owners, new)
        }))
        .await;
        *new = changed;
        owners
    }
}

/// When an object is checked for duplicate owner references, in the words of the warning.
pub(super) const RECEIVED: &str = "";
const ADMITTED: &str = " after mutating admission happens";

/// The owners of fields after admission; `complete` prepares an object that programs of users have changed. They may
/// change the list of owners, but a malformed one has no effect.
pub(super) fn admitted(
    rounds: Rounds,
    (object, owners): (&mut Value, Owners),
    warnings: &mut Vec<String>,
    complete: impl FnOnce(&mut Value),
) -> Owners {
    if rounds.is_changed_by_user {
        complete(object);
        warnings.extend(unique_owners(object, ADMITTED));
    }
    let Some(list) = rounds.owners else { return owners };
    Owners::take(&mut json!({"metadata": {"managedFields": list}})).unwrap_or_else(|why| {
        warnings.push(format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
             admission controller; please fix your requests: {why}"
        ));
        owners
    })
}

/// Removes duplicate owner references, and returns the warning about them.
pub(super) fn unique_owners(object: &mut Value, stage: &str) -> Option<String> {
    let owners = object.get_mut("metadata")?.get_mut("ownerReferences")?.as_array_mut()?;
    if owners.len() < 2 {
        return None;
    }
    // Compared by their text, as a body holds tens of thousands.
    let mut seen = HashSet::with_capacity(owners.len());
    let (mut reported, mut duplicates) = (HashSet::new(), Vec::new());
    owners.retain(|owner| {
        let is_new = seen.insert(owner.to_string());
        let uid = owner["uid"].as_str().unwrap_or_default();
        if !is_new && reported.insert(uid.to_owned()) {
            duplicates.push(uid.to_owned());
        }
        is_new
    });
    if duplicates.is_empty() {
        return None;
    }
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{stage}; API server dedups owner references in 1.20+, and may reject \
         such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        duplicates.join(", ")
    ))
}

/// Warnings about finalizers added to a custom resource: names of built-in kinds are validated, those of others only
/// yield warnings.
pub(super) fn finalizer_warnings(old: Option<&Value>, new: &Value) -> Vec<String> {
    fn of(object: &Value) -> &Value {
        &object["metadata"]["finalizers"]
    }
    fn names_of(listed: &Value) -> BTreeSet<&str> {
        listed.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }
    let mut warnings = Vec::new();
    let (listed, known) = (of(new), old.map_or(&Value::Null, of));
    if listed == known {
        return warnings;
    }
    for name in names_of(listed).difference(&names_of(known)) {
        let mut warn = |why: &str| warnings.push(format!("metadata.finalizers: {name:?}: {why}"));
        names::is_qualified_name(name).iter().for_each(|why| warn(why));
        if !name.contains('/') && !matches!(*name, "orphan" | "foregroundDeletion" | "kubernetes") {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            warn(&format!(
                "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_without_a_domain_yield_warnings() {
        let object = |names: &[&str]| json!({"metadata": {"finalizers": names}});
        let prefer = "metadata.finalizers: \"x\": prefer a domain-qualified finalizer name to avoid accidental conflicts \
                      with other finalizer writers";
        let longer = "metadata.finalizers: \"x.y\": prefer a domain-qualified finalizer name including a path (/) to avoid \
                      accidental conflicts with other finalizer writers";
        for (old, new, expected) in [
            (None, object(&["x", "orphan", "a.example/b"]), vec![prefer]),
            (Some(object(&["x"])), object(&["x", "kubernetes"]), vec![]),
            (Some(object(&[])), object(&["x"]), vec![prefer]),
            (None, object(&["x.y"]), vec![longer]),
        ] {
            assert_eq!(finalizer_warnings(old.as_ref(), &new), expected, "{new}");
        }
    }

    #[test]
    fn duplicate_owners_are_merged() {
        let owner = |uid: &str, kind: &str| json!({"apiVersion": "v1", "kind": kind, "name": "a", "uid": uid});
        let mut object = json!({"metadata": {"ownerReferences": [owner("1", "A"), owner("1", "A"), owner("1", "B")]}});
        let warning = unique_owners(&mut object, RECEIVED).expect("a warning");
        assert!(warning.ends_with("duplicate UID(s) observed: 1"), "{warning}");
        assert_eq!(object["metadata"]["ownerReferences"], json!([owner("1", "A"), owner("1", "B")]));
        assert_eq!(unique_owners(&mut object, RECEIVED), None);
    }
}
