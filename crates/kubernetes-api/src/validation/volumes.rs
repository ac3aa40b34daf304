//! Volumes of pods: each has exactly one valid source. Persistent volumes are validated in `persistent_volumes`.

use std::collections::{HashMap, HashSet};

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::at::At;
use super::checks::{no_backsteps, supported};
use super::containers::{field_reference, resource_field};
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("downward_items", downward_items),
    ("empty_dir", empty_dir),
    ("host_path", host_path),
    ("image_volume", image_volume),
    ("projected", projected),
    ("token_projection", token_projection),
    ("volume", volume),
];

/// The order in which upstream checks the sources of a volume: of several, the first is the valid one.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// The volumes that can be mounted, by name: those with a unique name and exactly one source. Duplicate names are
/// reported.
pub(super) fn in_pod<'a>(spec: &'a Object, at: &At<'_>, errors: &mut ErrorList) -> HashMap<&'a str, &'a Object> {
    let mut sound = HashMap::new();
    let list_at = at.child("volumes");
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let Some(volume) = volume.as_object() else { continue };
        let name = text(volume, "name");
        if sound.contains_key(name) {
            errors.push(Error::duplicate(&list_at.index(index).child("name").path(), name));
        } else if names::is_dns1123_label(name).is_empty() && sources(volume).count() == 1 {
            sound.insert(name, volume);
        }
    }
    sound
}

fn sources(volume: &Object) -> impl Iterator<Item = &'static str> {
    SOURCES.into_iter().filter(|source| volume.get(*source).is_some_and(|value| !value.is_null()))
}

fn volume(volume: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let mut specified = sources(volume);
    if specified.next().is_none() {
        required(errors, at, "must specify a volume type");
    }
    for source in specified {
        // Two of upstream's paths are not the names of the fields.
        let shown = match source {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            other => other,
        };
        forbidden(errors, &at.child(shown), "may not specify more than 1 volume type");
    }
}

/// In a template, the reference may be absent until it is filled in.
fn image_volume(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if text(source, "reference").is_empty() && !at.path().to_string().contains("template.") {
        required(errors, &at.child("reference"), "");
    }
}

fn empty_dir(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let limit = source.get("sizeLimit").and_then(Value::as_str).and_then(|text| text.parse::<Quantity>().ok());
    if limit.is_some_and(Quantity::is_negative) {
        forbidden(errors, &at.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

fn host_path(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    // Without a path no further error is reported.
    if let Some(type_) = source.get("type").filter(|_| !text(source, "path").is_empty()) {
        supported(type_, &HOST_PATH_TYPES, &at.child("type"), errors);
    }
}

const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Files of a downward API volume. Upstream's path names the volume, not the file.
fn downward_items(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    for file in list(source, "items").iter().filter_map(Value::as_object) {
        let path = Value::from(text(file, "path"));
        let at_path = at.child("path");
        if path == "" {
            required(errors, &at_path, "");
        }
        no_backsteps(&path, &at_path, errors);
        if path.as_str().is_some_and(|path| path.starts_with('/')) {
            invalid(errors, &at_path, &path, "must be a relative path");
        }
        match (object(file, "fieldRef"), object(file, "resourceFieldRef")) {
            (Some(reference), other) => {
                field_reference(reference, &VOLUME_FIELDS, &at.child("fieldRef"), errors);
                if other.is_some() {
                    let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                    invalid(errors, at, &"resource".into(), detail);
                }
            }
            (None, Some(reference)) => resource_field(reference, true, &at.child("resourceFieldRef"), errors),
            (None, None) => required(errors, at, "one of fieldRef and resourceFieldRef is required"),
        }
        if let Some(mode) =
            file.get("mode").filter(|mode| mode.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)))
        {
            invalid(errors, &at.child("mode"), mode, "must be a number between 0 and 0777 (octal), both inclusive");
        }
    }
}

/// Several sources share one directory, so their file paths must differ.
fn projected(volume: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let mut paths = HashSet::new();
    let at_sources = at.child("sources");
    for (index, source) in list(volume, "sources").iter().enumerate() {
        let Some(source) = source.as_object() else { continue };
        let at_source = at_sources.index(index);
        for kind in ["secret", "configMap"] {
            let Some(part) = object(source, kind) else { continue };
            if text(part, "name").is_empty() {
                let at = at_source.child(kind);
                required(errors, &at.child("name"), "");
            }
            for path in list(part, "items").iter().filter_map(|item| item["path"].as_str()) {
                if !path.is_empty() && !paths.insert(path) {
                    invalid(errors, at, &text(part, "name").into(), "conflicting duplicate paths");
                }
            }
        }
        if source.values().filter(|part| part.is_object()).count() > 1 {
            forbidden(errors, &at_source, "may not specify more than 1 volume type per source");
        }
        if object(source, "serviceAccountToken").is_some_and(|token| text(token, "path").is_empty()) {
            required(errors, &at.child("path"), "");
        }
    }
}

fn token_projection(token: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("expirationSeconds");
    match token.get("expirationSeconds").and_then(Value::as_i64) {
        Some(seconds) if seconds < 600 => {
            invalid(errors, &at, &seconds.into(), "may not specify a duration less than 10 minutes");
        }
        Some(seconds) if seconds > 1 << 32 => {
            invalid(errors, &at, &seconds.into(), "may not specify a duration larger than 2^32 seconds");
        }
        _ => {}
    }
}
