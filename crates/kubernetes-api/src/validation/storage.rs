//! Storage classes, CSI drivers, CSI nodes, and volume attachments.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::at::At;
use super::checks::{at_least, shape};
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("attachment", attachment),
    ("attributes_class", attributes_class),
    ("csi_driver", csi_driver),
    ("csi_driver_name", csi_driver_name),
    ("csi_node", csi_node),
    ("storage_capacity", storage_capacity),
    ("storage_class", storage_class),
];

/// Parameters of a class, and their bytes.
const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 * 1024;
/// The maximum length of a driver's name and of its node ID.
const MAX_DRIVER_NAME: usize = 63;
const MAX_NODE_ID: usize = 256;
/// Seconds.
const MIN_TOKEN: i64 = 600;
const MAX_TOKEN: i64 = 1 << 32;
const MIN_PERIOD: i64 = 10;

/// The name of a driver, of volumes or of devices.
pub(super) fn driver_name(name: &str, at: &At<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        required(errors, at, "");
    }
    if name.len() > MAX_DRIVER_NAME {
        errors.push(Error::too_long(&at.path(), MAX_DRIVER_NAME));
    }
    for complaint in names::is_dns1123_subdomain(&name.to_lowercase()) {
        invalid(errors, at, &name.into(), &complaint);
    }
}

/// A provisioner: a qualified name, in letters of any case.
fn provisioner(name: &str, at: &At<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return required(errors, at, "");
    }
    for complaint in names::is_qualified_name(&name.to_lowercase()) {
        invalid(errors, at, &name.into(), &complaint);
    }
}

fn parameters(parameters: Option<&Object>, at: &At<'_>, errors: &mut ErrorList) {
    let Some(parameters) = parameters else { return };
    if parameters.len() > MAX_PARAMETERS {
        return errors.push(Error::too_long(&at.path(), MAX_PARAMETERS));
    }
    if parameters.contains_key("") {
        invalid(errors, at, &"".into(), "field can not be empty.");
    }
    let bytes = parameters.iter().map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len());
    if bytes.sum::<usize>() > MAX_PARAMETER_BYTES {
        errors.push(Error::too_long(&at.path(), MAX_PARAMETER_BYTES));
    }
}

fn storage_class(class: &Object, at: &At<'_>, errors: &mut ErrorList) {
    provisioner(text(class, "provisioner"), &at.child("provisioner"), errors);
    parameters(object(class, "parameters"), &at.child("parameters"), errors);
    topologies(list(class, "allowedTopologies"), &at.child("allowedTopologies"), errors);
}

/// The values that a term permits, by key.
type Allowed<'t> = BTreeMap<&'t str, BTreeSet<&'t str>>;

fn topologies(terms: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    // Upstream compares each term with as many empty ones as there are terms, too.
    let mut seen: Vec<Allowed<'_>> = vec![Allowed::new(); terms.len()];
    for (index, term) in terms.iter().enumerate() {
        let at = at.index(index);
        let at = at.child("matchLabelExpressions");
        let expressions = term["matchLabelExpressions"].as_array().map_or(&[][..], Vec::as_slice);
        let allowed = topology_term(expressions, &at, errors);
        for _ in seen.iter().filter(|other| **other == allowed) {
            errors.push(Error::duplicate(&at.path(), ""));
        }
        seen.push(allowed);
    }
}

fn topology_term<'t>(expressions: &'t [Value], at: &At<'_>, errors: &mut ErrorList) -> Allowed<'t> {
    let mut allowed = Allowed::new();
    for (index, expression) in expressions.iter().enumerate() {
        let at = at.index(index);
        let at_values = at.child("values");
        let specified = expression["values"].as_array().map_or(&[][..], Vec::as_slice);
        if specified.is_empty() {
            required(errors, &at_values, "");
        }
        let mut values = BTreeSet::new();
        for (place, value) in specified.iter().filter_map(Value::as_str).enumerate() {
            if !values.insert(value) {
                errors.push(Error::duplicate(&at_values.index(place).path(), value));
            }
        }
        let key = expression["key"].as_str().unwrap_or_default();
        shape(&key.into(), names::is_qualified_name, &at.child("key"), errors);
        if allowed.insert(key, values).is_some() {
            errors.push(Error::duplicate(&at.child("key").path(), key));
        }
    }
    allowed
}

fn attributes_class(class: &Object, at: &At<'_>, errors: &mut ErrorList) {
    provisioner(text(class, "driverName"), &at.child("driverName"), errors);
    let (specified, at) = (object(class, "parameters"), at.child("parameters"));
    if specified.is_none_or(Object::is_empty) {
        required(errors, &at, "must contain at least one key/value pair");
    }
    parameters(specified, &at, errors);
}

/// Upstream's path is `name` here, `metadata.name` elsewhere.
fn csi_driver_name(driver: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let name = driver.get("metadata").map_or("", |metadata| metadata["name"].as_str().unwrap_or_default());
    if !name.is_empty() {
        driver_name(name, &at.child("name"), errors);
    }
}

fn csi_driver(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_tokens = at.child("tokenRequests");
    let mut audiences = HashSet::new();
    for (index, request) in list(spec, "tokenRequests").iter().enumerate() {
        let at = at_tokens.index(index);
        let audience = request["audience"].as_str().unwrap_or_default();
        if !audiences.insert(audience) {
            errors.push(Error::duplicate(&at.child("audience").path(), audience));
            continue;
        }
        let (specified, at) = (&request["expirationSeconds"], at.child("expirationSeconds"));
        match specified.as_i64() {
            Some(seconds) if seconds < MIN_TOKEN => {
                invalid(errors, &at, specified, "may not specify a duration less than 10 minutes");
            }
            Some(seconds) if seconds > MAX_TOKEN => {
                invalid(errors, &at, specified, "may not specify a duration larger than 2^32 seconds");
            }
            _ => {}
        }
    }
    let at_modes = at.child("volumeLifecycleModes");
    for mode in list(spec, "volumeLifecycleModes") {
        if !matches!(mode.as_str(), Some("Persistent" | "Ephemeral")) {
            errors.push(Error::not_supported(&at_modes.path(), mode.clone(), &["Persistent", "Ephemeral"]));
        }
    }
    if let Some(period) = spec.get("nodeAllocatableUpdatePeriodSeconds") {
        let at = at.child("nodeAllocatableUpdatePeriodSeconds");
        at_least(period, MIN_PERIOD, "must be greater than or equal to 10 seconds", &at, errors);
    }
}

fn csi_node(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("drivers");
    let mut seen = HashSet::new();
    for (index, driver) in list(spec, "drivers").iter().enumerate() {
        let Some(driver) = driver.as_object() else { continue };
        let at = at.index(index);
        let name = text(driver, "name");
        driver_name(name, &at.child("name"), errors);
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at.child("name").path(), name));
        }
        node_id(text(driver, "nodeID"), &at.child("nodeID"), errors);
        if let Some(count) = driver.get("allocatable").and_then(|allocatable| allocatable.get("count")) {
            let at = at.child("allocatable");
            at_least(count, 0, "must be greater than or equal to 0", &at.child("count"), errors);
        }
        topology_keys(list(driver, "topologyKeys"), &at, errors);
    }
}

fn node_id(id: &str, at: &At<'_>, errors: &mut ErrorList) {
    if id.is_empty() {
        required(errors, at, "");
    }
    if id.len() > MAX_NODE_ID {
        invalid(errors, at, &id.into(), &format!("must be {MAX_NODE_ID} characters or less"));
    }
}

/// Upstream names the driver, not the key.
fn topology_keys(keys: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for key in keys.iter().filter_map(Value::as_str) {
        if key.is_empty() {
            required(errors, at, "");
        }
        if !seen.insert(key) {
            errors.push(Error::duplicate(&at.path(), key));
        }
        for complaint in names::is_qualified_name(key) {
            invalid(errors, at, &keys.to_vec().into(), &complaint);
        }
    }
}

/// Entries of a CSINode's drivers are immutable until the driver is removed.
pub(super) fn csi_node_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    let drivers = |node: &'_ Value| node["spec"]["drivers"].as_array().cloned().unwrap_or_default();
    let after = drivers(new);
    for was in drivers(old).into_iter().filter(|was| !after.contains(was)) {
        for is in after.iter().filter(|is| is["name"] == was["name"] && **is != was) {
            errors.push(Error::invalid(
                &apimachinery::field::Path::new("CSINodeDriver"),
                is.clone(),
                "field is immutable",
            ));
        }
    }
}

fn storage_capacity(capacity: &Object, at: &At<'_>, errors: &mut ErrorList) {
    for field in ["capacity", "maximumVolumeSize"] {
        let Some(value) = capacity.get(field) else { continue };
        if value.as_str().and_then(|text| text.parse::<Quantity>().ok()).is_some_and(Quantity::is_negative) {
            invalid(errors, &at.child(field), value, "must be greater than or equal to 0");
        }
    }
}

fn attachment(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (attacher, at_attacher) = (text(spec, "attacher"), at.child("attacher"));
    if attacher.is_empty() {
        required(errors, &at_attacher, "");
    }
    driver_name(attacher, &at_attacher, errors);
    let at = at.child("source");
    let source = object(spec, "source");
    let volume = source.and_then(|source| source.get("persistentVolumeName")).and_then(Value::as_str);
    match (volume, source.is_some_and(|source| source.contains_key("inlineVolumeSpec"))) {
        (None, false) => required(errors, &at, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
        (Some(_), true) => {
            forbidden(errors, &at, "must specify exactly one of inlineVolumeSpec and persistentVolumeName");
        }
        (Some(""), false) => {
            required(errors, &at.child("persistentVolumeName"), "must specify non empty persistentVolumeName");
        }
        _ => {}
    }
    if let Some(name) = volume {
        shape(&name.into(), names::is_dns1123_subdomain, &at.child("persistentVolumeName"), errors);
    }
}
