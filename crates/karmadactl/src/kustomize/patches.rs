//! Patches of resources: strategic merge patches and JSON patches, by identity or by selector.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::object::ObjectTree as _;
use apimachinery::schema::{Property, Schema, SchemaId, Schemas, TypeOf};
use apimachinery::selector::Selector;
use apimachinery::{json_patch, strategic};
use regex::Regex;
use serde_json::{Value, json};

use super::BuildError;
use super::config::{Patch, Target};
use super::read::Place;
use super::resource::{Resource, gvk, id};

/// `patchesStrategicMerge`: files, or patches themselves.
pub fn strategic(place: &Place<'_>, entries: &[String], resources: &mut Vec<Resource>) -> Result<(), BuildError> {
    for entry in entries {
        let text = if place.has_file(entry) { place.file(entry)? } else { entry.as_bytes().to_vec() };
        for patch in documents(place, &text)? {
            by_identity(&patch, &BTreeMap::new(), resources).map_err(|why| place.invalid(why))?;
        }
    }
    Ok(())
}

/// `patches`: of either form.
pub fn all(place: &Place<'_>, patches: &[Patch], resources: &mut Vec<Resource>) -> Result<(), BuildError> {
    for patch in patches {
        let documents = documents(place, &text(place, patch)?)?;
        let chosen = patch.target.as_ref().map(|target| select(target, resources)).transpose();
        let chosen = chosen.map_err(|why| place.invalid(why))?;
        for document in &documents {
            let applied = match &chosen {
                Some(chosen) => to_selected(document, patch, chosen, resources),
                None if document.is_array() => Err("a JSON patch must have a target".to_owned()),
                None => by_identity(document, &patch.options, resources),
            };
            applied.map_err(|why| place.invalid(why))?;
        }
        resources.retain(|resource| !is_deleted(resource));
    }
    Ok(())
}

/// `patchesJson6902`: JSON patches.
pub fn json(place: &Place<'_>, patches: &[Patch], resources: &mut [Resource]) -> Result<(), BuildError> {
    for patch in patches {
        let Some(target) = &patch.target else { return Err(place.invalid("patchesJson6902: must specify the target")) };
        let chosen = select(target, resources).map_err(|why| place.invalid(why))?;
        for document in documents(place, &text(place, patch)?)? {
            let mut apply = |at: usize| json_patch(&document, &mut resources[at]);
            chosen.iter().try_for_each(|&at| apply(at)).map_err(|why| place.invalid(why))?;
        }
    }
    Ok(())
}

fn text(place: &Place<'_>, patch: &Patch) -> Result<Vec<u8>, BuildError> {
    match (patch.path.as_str(), patch.patch.as_str()) {
        ("", "") => Err(place.invalid("a patch has neither patch nor path")),
        ("", text) => Ok(text.as_bytes().to_vec()),
        (path, "") => place.file(path),
        _ => Err(place.invalid("a patch has both patch and path")),
    }
}

fn documents(place: &Place<'_>, text: &[u8]) -> Result<Vec<Value>, BuildError> {
    super::read::documents(text).map_err(|why| place.invalid(format!("a patch cannot be parsed: {why}")))
}

/// The resources that a target selects, by their places.
fn select(target: &Target, resources: &[Resource]) -> Result<Vec<usize>, String> {
    let pattern = |text: &str| {
        let anchored = Regex::new(&format!("^(?:{text})$"));
        anchored.map_err(|error| format!("the target's pattern {text:?} is invalid: {error}"))
    };
    let selector =
        |text: &str| Selector::parse(text).map_err(|error| format!("the target's selector {text:?}: {error}"));
    let (group, version, kind) = (pattern(&target.group)?, pattern(&target.version)?, pattern(&target.kind)?);
    let (name, namespace) = (pattern(&target.name)?, pattern(&target.namespace)?);
    let (labels, annotations) = (selector(&target.label_selector)?, selector(&target.annotation_selector)?);
    let is = |pattern: &Regex, required: &str, found: &str| required.is_empty() || pattern.is_match(found);
    let selects = |resource: &Resource| {
        let (now, first) = (resource.id(), resource.original());
        let metadata =
            |field: &'static str| move |key: &str| resource.object["metadata"][field].get(key).and_then(Value::as_str);
        [&now, &first].iter().any(|id| is(&name, &target.name, &id.name))
            && [&now, &first].iter().any(|id| is(&namespace, &target.namespace, id.effective_namespace()))
            && is(&group, &target.group, &now.gvk.group)
            && is(&version, &target.version, &now.gvk.version)
            && is(&kind, &target.kind, &now.gvk.kind)
            && labels.matches_with(metadata("labels"))
            && annotations.matches_with(metadata("annotations"))
    };
    Ok((0..resources.len()).filter(|&at| selects(&resources[at])).collect())
}

fn to_selected(document: &Value, patch: &Patch, chosen: &[usize], resources: &mut [Resource]) -> Result<(), String> {
    chosen.iter().try_for_each(|&at| match document {
        Value::Array(_) => json_patch(document, &mut resources[at]),
        _ => merge(document, &patch.options, &mut resources[at]),
    })
}

/// A patch without a target names its resource.
fn by_identity(patch: &Value, options: &BTreeMap<String, bool>, resources: &mut Vec<Resource>) -> Result<(), String> {
    let required = id(patch);
    let found = resources.iter_mut().find(|resource| resource.is_or_was(&required));
    let Some(found) = found else { return Err(format!("no resource matches the strategic merge patch of {required}")) };
    merge(patch, options, found)?;
    resources.retain(|resource| !is_deleted(resource));
    Ok(())
}

/// Whether `$patch: delete` deletes the object.
fn is_deleted(resource: &Resource) -> bool {
    resource.object.as_object().is_none_or(serde_json::Map::is_empty)
}

fn merge(patch: &Value, options: &BTreeMap<String, bool>, resource: &mut Resource) -> Result<(), String> {
    let (before, was) = (resource.object.clone(), resource.id());
    let type_ = kubernetes_api::schema_for(&gvk(&before)).unwrap_or_else(unknown);
    let failed = |error: apimachinery::patch::PatchError| format!("the patch of {was} cannot be applied: {error}");
    let mut patch = patch.clone();
    patched_first(&mut patch, &resource.object, &type_.schemas, type_.root);
    strategic::apply(&mut resource.object, &patch, &type_).map_err(failed)?;
    if is_deleted(resource) {
        return Ok(());
    }
    // A patch that selects by an earlier name, or by a pattern, must not bring the name back.
    let allows = |option: &str| options.get(option) == Some(&true);
    resource.object["apiVersion"] = before["apiVersion"].clone();
    if !allows("allowKindChange") {
        resource.object["kind"] = before["kind"].clone();
    }
    let kept: &[&str] = if allows("allowNameChange") { &["namespace"] } else { &["name", "namespace"] };
    for field in kept {
        match (before["metadata"].get(field), resource.object.metadata_mut()) {
            (Some(value), Some(metadata)) => drop(metadata.insert((*field).to_owned(), value.clone())),
            (None, Some(metadata)) => drop(metadata.remove(*field)),
            (_, None) => {}
        }
    }
    if resource.id() != was {
        resource.previous.push(was);
    }
    Ok(())
}

/// Orders the merged lists as kustomize does: the items of the patch, then the others. Recursion is bounded by the
/// decoder.
fn patched_first(patch: &mut Value, live: &Value, schemas: &Schemas, at: SchemaId) {
    let Value::Object(members) = patch else { return };
    let mut orders = Vec::new();
    for (field, change) in members.iter_mut() {
        let Some(property) = schemas.get(at).properties.get(field.as_str()) else { continue };
        match change {
            Value::Object(_) => patched_first(change, &live[field], schemas, property.schema),
            Value::Array(items) if property.patch.merge => {
                let before = live[field].as_array().map_or(&[][..], Vec::as_slice);
                orders.extend(order(items, before, property).map(|order| (format!("$setElementOrder/{field}"), order)));
                let Some((key, of_items)) = property.patch.merge_key.as_deref().zip(schemas.get(property.schema).items)
                else {
                    continue;
                };
                for item in items {
                    let same = before.iter().find(|other| other[key] == item[key]).unwrap_or(&Value::Null);
                    patched_first(item, same, schemas, of_items);
                }
            }
            _ => {}
        }
    }
    members.extend(orders);
}

/// The order of one list; `None` where an item is a directive for the whole list.
fn order(items: &[Value], before: &[Value], property: &Property) -> Option<Value> {
    let identity = |item: &Value| match property.patch.merge_key.as_deref() {
        Some(key) => item.get(key).map(|value| json!({ key: value })),
        None => Some(item.clone()),
    };
    let mut order: Vec<Value> = items.iter().map(identity).collect::<Option<_>>()?;
    for identity in before.iter().filter_map(identity) {
        if !order.contains(&identity) {
            order.push(identity);
        }
    }
    Some(order.into())
}

/// The type of a custom resource: maps are merged, lists are replaced.
fn unknown() -> TypeOf {
    let mut schemas = Schemas::default();
    let root = schemas.add(Schema::default());
    TypeOf { schemas: Arc::new(schemas), root }
}

fn json_patch(document: &Value, resource: &mut Resource) -> Result<(), String> {
    let id = resource.id();
    let failed = |error: apimachinery::patch::PatchError| format!("the JSON patch of {id} cannot be applied: {error}");
    let patch = json_patch::from_value(document).map_err(failed)?;
    patch.apply(&mut resource.object).map_err(failed)
}
