//! ConfigMaps and Secrets that are generated, and the hashes in their names.

use std::collections::BTreeMap;
use std::path::Path;

use apimachinery::field::json_of_go;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::config::{Generator, GeneratorOptions, Kustomization};
use super::read::Place;
use super::resource::Resource;
use super::{BuildError, add};

/// kustomize breaks the data of Secrets into lines of this length.
const LINE: usize = 70;

/// The generators of one kustomization.
pub fn all(place: &Place<'_>, found: &Kustomization, resources: &mut Vec<Resource>) -> Result<(), BuildError> {
    let kinds = [("ConfigMap", &found.config_map_generator), ("Secret", &found.secret_generator)];
    for (kind, generators) in kinds {
        for generator in generators {
            let options = merged(found.generator_options.as_ref(), generator.options.as_ref());
            let generated = generated(place, kind, generator, &options)?;
            absorb(resources, generated, &generator.behavior).map_err(|why| place.invalid(why))?;
        }
    }
    Ok(())
}

/// The options of the kustomization with those of the generator, which win.
fn merged(all: Option<&GeneratorOptions>, own: Option<&GeneratorOptions>) -> GeneratorOptions {
    let mut options = all.cloned().unwrap_or_default();
    if let Some(own) = own {
        options.labels.extend(own.labels.clone());
        options.annotations.extend(own.annotations.clone());
        options.disable_name_suffix_hash |= own.disable_name_suffix_hash;
        options.immutable |= own.immutable;
    }
    options
}

fn generated(
    place: &Place<'_>,
    kind: &str,
    generator: &Generator,
    options: &GeneratorOptions,
) -> Result<Resource, BuildError> {
    if generator.name.is_empty() {
        return Err(place.invalid(format!("a generator of a {kind} has no name")));
    }
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": generator.name}});
    if !generator.namespace.is_empty() {
        object["metadata"]["namespace"] = Value::from(generator.namespace.as_str());
    }
    for (field, pairs) in [("labels", &options.labels), ("annotations", &options.annotations)] {
        if !pairs.is_empty() {
            object["metadata"][field] = json!(pairs);
        }
    }
    if kind == "Secret" {
        let requested_type = generator.secret_type.as_str();
        object["data"] = json!({});
        object["type"] = Value::from(if requested_type.is_empty() { "Opaque" } else { requested_type });
    }
    if options.immutable {
        object["immutable"] = Value::Bool(true);
    }
    for (key, content) in contents(place, generator)? {
        let (field, text) = match String::from_utf8(content) {
            Ok(text) if kind == "ConfigMap" => ("data", text),
            Ok(text) => ("data", encoded(text.as_bytes())),
            Err(error) => (if kind == "ConfigMap" { "binaryData" } else { "data" }, encoded(error.as_bytes())),
        };
        object[field][key] = Value::from(text);
    }
    Ok(Resource { hashed: !options.disable_name_suffix_hash, ..Resource::new(object) })
}

fn encoded(bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    if text.len() < LINE {
        return text;
    }
    text.as_bytes().chunks(LINE).flat_map(|line| line.iter().copied().chain([b'\n'])).map(char::from).collect()
}

/// Keys and contents: of environment files, literals and files.
fn contents(place: &Place<'_>, generator: &Generator) -> Result<BTreeMap<String, Vec<u8>>, BuildError> {
    let name = &generator.name;
    let mut found = Vec::new();
    for file in generator.envs.iter().chain((!generator.env.is_empty()).then_some(&generator.env)) {
        let text = String::from_utf8(place.file(file)?)
            .map_err(|_| place.invalid(format!("the environment file {file:?} of {name:?} is not UTF-8")))?;
        let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim_start);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            found.push((key.to_owned(), value.as_bytes().to_vec()));
        }
    }
    for literal in &generator.literals {
        let (key, value) = literal.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
            place.invalid(format!("invalid literal source {literal:?} of {name:?}, expected key=value"))
        })?;
        found.push((key.to_owned(), unquoted(value).as_bytes().to_vec()));
    }
    for file in &generator.files {
        let (key, path) = match file.split_once('=') {
            Some((key, path)) => (key.to_owned(), path),
            None => (Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned(), file.as_str()),
        };
        found.push((key, place.file(path)?));
    }
    let mut contents = BTreeMap::new();
    for (key, content) in found {
        if contents.insert(key.clone(), content).is_some() {
            return Err(
                place.invalid(format!("cannot add key {key:?} to {name:?}, another key by that name already exists"))
            );
        }
    }
    Ok(contents)
}

/// A value without the quotes around it.
fn unquoted(value: &str) -> &str {
    let within = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

/// Adds the generated object, or merges it into or replaces the existing one.
fn absorb(resources: &mut Vec<Resource>, mut new: Resource, behavior: &str) -> Result<(), String> {
    let id = new.id();
    let old = resources.iter_mut().find(|old| old.is_or_was(&id));
    let old = match (behavior, old) {
        ("" | "create", None) => return add(resources, new),
        ("" | "create", Some(_)) => return Err(format!("{id} exists; behavior must be merge or replace")),
        ("merge" | "replace", Some(old)) => old,
        ("merge" | "replace", None) => return Err(format!("{id} does not exist; cannot merge or replace")),
        _ => return Err(format!("{id}: unsupported behavior {behavior:?}: supported values: create, merge, replace")),
    };
    for field in ["labels", "annotations"] {
        keep(&old.object["metadata"], &mut new.object["metadata"], field);
    }
    for field in ["name", "namespace"] {
        if let Some(value) = old.object["metadata"].get(field) {
            new.object["metadata"][field] = value.clone();
        }
    }
    if behavior == "merge" {
        // A key is in one of them.
        let other = |field: &str| if field == "data" { "binaryData" } else { "data" };
        for field in ["data", "binaryData"] {
            let mut kept = old.object[field].as_object().cloned().unwrap_or_default();
            kept.retain(|key, _| new.object[other(field)].get(key).is_none());
            keep(&json!({field: kept}), &mut new.object, field);
        }
    }
    old.object = new.object;
    old.hashed &= new.hashed;
    Ok(())
}

/// Adds the members of a map that the new one does not have.
fn keep(old: &Value, new: &mut Value, field: &str) {
    let Some(kept) = old.get(field).and_then(Value::as_object).filter(|kept| !kept.is_empty()) else { return };
    let Some(new) = new.as_object_mut() else { return };
    if let Value::Object(members) = new.entry(field).or_insert_with(|| Value::Object(Map::new())) {
        for (key, value) in kept {
            members.entry(key).or_insert_with(|| value.clone());
        }
    }
}

/// Appends the hash of the content to the name.
pub fn add_hash(resource: &mut Resource) {
    if resource.hashed {
        let name = format!("{}-{}", resource.name(), hash(&resource.object));
        resource.rename("name", &name);
    }
}

/// The hash of the content. The name is not part of it.
fn hash(object: &Value) -> String {
    let is_secret = object["kind"] == "Secret";
    let or = |value: &Value, absent: Value| if value.is_null() { absent } else { value.clone() };
    let mut content = json!({
        "kind": object["kind"], "name": "", "data": or(&object["data"], json!("")),
    });
    if is_secret {
        content["type"] = or(&object["type"], json!(""));
    } else if object["binaryData"].is_object() {
        content["binaryData"] = object["binaryData"].clone();
    }
    content_hash(&content)
}

/// The hash of a content, in ten characters that form no words.
pub fn content_hash(content: &Value) -> String {
    let digest = hex::encode(Sha256::digest(json_of_go(content)));
    let sign = |c: char| match c {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        other => other,
    };
    digest.chars().take(10).map(sign).collect()
}
