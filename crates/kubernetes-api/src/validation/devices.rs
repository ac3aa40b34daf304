//! Devices: the slices that drivers publish, device classes, and claims. Selectors are not compiled.

use std::collections::{HashMap, HashSet};

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use serde_json::Value;

use super::at::At;
use super::checks::{shape, supported};
use super::storage::driver_name;
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("device", device),
    ("device_class", device_class),
    ("device_claim", device_claim),
    ("device_configuration", device_configuration),
    ("device_selectors", device_selectors),
    ("device_taint", device_taint),
    ("device_toleration", device_toleration),
    ("resource_pool", resource_pool),
    ("resource_slice", resource_slice),
];

/// The maximum number of requests, constraints, configurations and selectors.
const MANY: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MAX_DEVICES: usize = 128;
/// The maximum number of devices in a slice if some have taints or consume counters.
const MAX_COMPLEX_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
const MAX_TRAITS: usize = 32;
const MAX_TAINTS: usize = 16;
/// In bytes.
const MAX_IDENTIFIER: usize = 32;
const MAX_TEXT: usize = 64;
const MAX_PARAMETERS: usize = 10 * 1024;
const MAX_POOL: usize = 253;

/// Checks the maximum number of items.
fn few(items: &[Value], most: usize, at: &At<'_>, errors: &mut ErrorList) -> bool {
    if items.len() > most {
        errors.push(Error::too_many(&at.path(), items.len(), most));
    }
    items.len() <= most
}

/// Upstream's path names the item, not the field that must be unique.
fn unique<'v>(names: impl Iterator<Item = &'v str>, at: &At<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (index, name) in names.enumerate() {
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at.index(index).path(), name));
        }
    }
}

fn named(item: &Value) -> &str {
    item["name"].as_str().unwrap_or_default()
}

/// The requests of a claim and the alternatives of each.
type Requests = HashMap<String, HashSet<String>>;

fn requests_of(claim: &Object) -> Requests {
    let names = |request: &Value| -> HashSet<String> {
        let alternatives = request["firstAvailable"].as_array().into_iter().flatten();
        alternatives.map(|alternative| named(alternative).to_owned()).collect()
    };
    list(claim, "requests").iter().map(|request| (named(request).to_owned(), names(request))).collect()
}

fn device_claim(claim: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (requests, known) = (list(claim, "requests"), requests_of(claim));
    let at_requests = at.child("requests");
    if few(requests, MANY, &at_requests, errors) {
        for (index, request) in requests.iter().filter_map(Value::as_object).enumerate() {
            device_request(request, &at_requests.index(index), errors);
        }
        unique(requests.iter().map(named), &at_requests, errors);
    }
    let at_constraints = at.child("constraints");
    let constraints = list(claim, "constraints");
    if few(constraints, MANY, &at_constraints, errors) {
        for (index, constraint) in constraints.iter().filter_map(Value::as_object).enumerate() {
            device_constraint(constraint, &known, &at_constraints.index(index), errors);
        }
    }
    let at_config = at.child("config");
    let config = list(claim, "config");
    if few(config, MANY, &at_config, errors) {
        for (index, configuration) in config.iter().filter_map(Value::as_object).enumerate() {
            references(configuration, &known, &at_config.index(index), errors);
        }
    }
}

fn device_request(request: &Object, at: &At<'_>, errors: &mut ErrorList) {
    shape(&text(request, "name").into(), names::is_dns1123_label, &at.child("name"), errors);
    let alternatives = list(request, "firstAvailable");
    match (object(request, "exactly"), alternatives.is_empty()) {
        (None, true) => required(errors, at, "exactly one of `exactly` or `firstAvailable` is required"),
        (Some(_), false) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            invalid(errors, at, &Value::Null, detail);
        }
        (Some(exactly), true) => exact_request(exactly, &at.child("exactly"), errors),
        (None, false) => {
            let at = at.child("firstAvailable");
            if !few(alternatives, MAX_ALTERNATIVES, &at, errors) {
                return;
            }
            for (index, alternative) in alternatives.iter().filter_map(Value::as_object).enumerate() {
                let at = at.index(index);
                shape(&text(alternative, "name").into(), names::is_dns1123_label, &at.child("name"), errors);
                exact_request(alternative, &at, errors);
            }
            unique(alternatives.iter().map(named), &at, errors);
        }
    }
}

/// The number and the class of the requested devices.
fn exact_request(request: &Object, at: &At<'_>, errors: &mut ErrorList) {
    match text(request, "deviceClassName") {
        "" => required(errors, &at.child("deviceClassName"), ""),
        class => shape(&class.into(), names::is_dns1123_subdomain, &at.child("deviceClassName"), errors),
    }
    let count = request.get("count").and_then(Value::as_i64).unwrap_or(0);
    let at_count = at.child("count");
    match text(request, "allocationMode") {
        "All" if count != 0 => {
            invalid(errors, &at_count, &count.into(), "must not be specified when allocationMode is 'All'");
        }
        "ExactCount" if count <= 0 => invalid(errors, &at_count, &count.into(), "must be greater than zero"),
        "All" | "ExactCount" => {}
        other => supported(&other.into(), &["All", "ExactCount"], &at.child("allocationMode"), errors),
    }
}

fn device_constraint(constraint: &Object, known: &Requests, at: &At<'_>, errors: &mut ErrorList) {
    references(constraint, known, at, errors);
    let specified = ["matchAttribute", "distinctAttribute"].into_iter().find(|field| constraint.contains_key(*field));
    match specified {
        Some(field) => full_name(text(constraint, field), &at.child(field), errors),
        None => {
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are \
                          set";
            required(errors, at, detail);
        }
    }
}

/// References to requests of the claim.
fn references(parent: &Object, known: &Requests, at: &At<'_>, errors: &mut ErrorList) {
    const WHAT: &str =
        "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let (specified, at) = (list(parent, "requests"), at.child("requests"));
    if !few(specified, MANY, &at, errors) {
        return;
    }
    for (index, name) in specified.iter().enumerate() {
        let (text, at) = (name.as_str().unwrap_or_default(), at.index(index));
        let (request, below) = text.split_once('/').map_or((text, None), |(request, below)| (request, Some(below)));
        let far = below.is_some_and(|below| below.contains('/'));
        if !far {
            for part in [Some(request), below].into_iter().flatten() {
                shape(&part.into(), names::is_dns1123_label, &at, errors);
            }
        }
        let found = known.get(request).is_some_and(|names| below.is_none_or(|below| names.contains(below)));
        if far || !found {
            invalid(errors, &at, name, WHAT);
        }
    }
    unique(specified.iter().filter_map(Value::as_str), &at, errors);
}

/// The name of an attribute: with a driver's domain, or an identifier alone.
fn attribute_name(name: &str, at: &At<'_>, errors: &mut ErrorList) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [identifier] => c_identifier(identifier, at, errors),
        [domain, identifier] => {
            if domain.is_empty() {
                invalid(errors, at, &"".into(), "the domain must not be empty");
            } else {
                driver_name(domain, at, errors);
            }
            if identifier.is_empty() {
                invalid(errors, at, &"".into(), "the name must not be empty");
            } else {
                c_identifier(identifier, at, errors);
            }
        }
        _ => invalid(errors, at, &name.into(), "must not contain more than one slash"),
    }
}

fn full_name(name: &str, at: &At<'_>, errors: &mut ErrorList) {
    attribute_name(name, at, errors);
    if !name.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        invalid(errors, at, &name.into(), detail);
    }
}

fn c_identifier(text: &str, at: &At<'_>, errors: &mut ErrorList) {
    if text.len() > MAX_IDENTIFIER {
        errors.push(Error::too_long(&at.path(), MAX_IDENTIFIER));
    }
    let letters = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !letters || text.bytes().next().is_none_or(|byte| byte.is_ascii_digit()) {
        let detail = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                      alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for \
                      validation is '[A-Za-z_][A-Za-z0-9_]*')";
        invalid(errors, at, &text.into(), detail);
    }
}

/// Opaque parameters of a driver.
fn device_configuration(configuration: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("opaque");
    let Some(opaque) = object(configuration, "opaque") else { return required(errors, &at, "") };
    driver_name(text(opaque, "driver"), &at.child("driver"), errors);
    let at = at.child("parameters");
    match opaque.get("parameters") {
        None | Some(Value::Null) => required(errors, &at, ""),
        Some(parameters) if parameters.to_string().len() > MAX_PARAMETERS => {
            errors.push(Error::too_long(&at.path(), MAX_PARAMETERS));
        }
        Some(Value::Object(_)) => {}
        Some(_) => invalid(errors, &at, &"<value omitted>".into(), "must be a valid JSON object"),
    }
}

fn device_selectors(parent: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (selectors, at) = (list(parent, "selectors"), at.child("selectors"));
    if !few(selectors, MANY, &at, errors) {
        return;
    }
    for (index, _) in selectors.iter().enumerate().filter(|(_, selector)| selector["cel"].is_null()) {
        required(errors, &at.index(index).child("cel"), "");
    }
}

fn device_class(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    few(list(spec, "config"), MANY, &at.child("config"), errors);
    if let Some(name) = spec.get("extendedResourceName").and_then(Value::as_str)
        && !super::resources::is_extended(name)
    {
        invalid(errors, &at.child("extendedResourceName"), &name.into(), "must be a valid extended resource name");
    }
}

fn resource_pool(pool: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (name, at_name) = (text(pool, "name"), at.child("name"));
    if name.is_empty() {
        required(errors, &at_name, "");
    } else {
        if name.len() > MAX_POOL {
            errors.push(Error::too_long(&at_name.path(), MAX_POOL));
        }
        for complaint in name.split('/').flat_map(names::is_dns1123_subdomain) {
            invalid(errors, &at_name, &name.into(), &complaint);
        }
    }
    let of = |field: &str| pool.get(field).and_then(Value::as_i64).unwrap_or(0);
    if of("resourceSliceCount") <= 0 {
        let at = at.child("resourceSliceCount");
        invalid(errors, &at, &of("resourceSliceCount").into(), "must be greater than zero");
    }
    if of("generation") < 0 {
        let at = at.child("generation");
        invalid(errors, &at, &of("generation").into(), "must be greater than or equal to zero");
    }
}

fn resource_slice(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    driver_name(text(spec, "driver"), &at.child("driver"), errors);
    let places = placed(spec, "must be either unset or set to a non-empty string", at, errors);
    let all = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match &places[..] {
        [] => required(errors, at, all),
        [_] => {}
        several => {
            let shown = format!("{{{}}}", several.join(", "));
            invalid(errors, at, &shown.into(), &format!("{all}, but multiple fields are set"));
        }
    }
    if spec.contains_key("sharedCounters") && spec.contains_key("devices") {
        invalid(errors, at, &"".into(), "only one of `sharedCounters` or `devices` is allowed");
    }
    let devices = list(spec, "devices");
    let is_complex = |device: &Value| {
        ["taints", "consumesCounters"].iter().any(|field| device[*field].as_array().is_some_and(|l| !l.is_empty()))
    };
    let most = if devices.iter().any(is_complex) { MAX_COMPLEX_DEVICES } else { MAX_DEVICES };
    let at_devices = at.child("devices");
    if few(devices, most, &at_devices, errors) {
        unique(devices.iter().map(named), &at_devices, errors);
    }
    let each = spec.get("perDeviceNodeSelection") == Some(&Value::Bool(true));
    for (index, device) in devices.iter().filter_map(Value::as_object).enumerate() {
        device_place(device, each, &at_devices.index(index), errors);
    }
    let (sets, at_sets) = (list(spec, "sharedCounters"), at.child("sharedCounters"));
    if few(sets, MAX_COUNTER_SETS, &at_sets, errors) {
        unique(sets.iter().map(named), &at_sets, errors);
    }
}

/// The mutually exclusive location fields that are set.
fn placed(parent: &Object, unnamed: &str, at: &At<'_>, errors: &mut ErrorList) -> Vec<&'static str> {
    let mut taken = Vec::new();
    if let Some(name) = parent.get("nodeName") {
        let at = at.child("nodeName");
        if name == "" {
            invalid(errors, &at, name, unnamed);
        } else {
            taken.push("`nodeName`");
            shape(name, names::is_dns1123_subdomain, &at, errors);
        }
    }
    if let Some(selector) = parent.get("nodeSelector") {
        taken.push("`nodeSelector`");
        let terms = selector["nodeSelectorTerms"].as_array().map_or(0, Vec::len);
        if parent.contains_key("pool") && terms != 1 {
            let at = at.child("nodeSelector");
            let at = at.child("nodeSelectorTerms");
            invalid(errors, &at, &selector["nodeSelectorTerms"], "must have exactly one node selector term");
        }
    }
    for (field, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        match parent.get(field) {
            Some(Value::Bool(true)) => taken.push(shown),
            Some(other) => invalid(errors, &at.child(field), other, "must be either unset or set to true"),
            None => {}
        }
    }
    taken
}

fn device_place(device: &Object, each: bool, at: &At<'_>, errors: &mut ErrorList) {
    if !each {
        if ["nodeName", "nodeSelector", "allNodes"].iter().any(|field| device.contains_key(*field)) {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to \
                          true in the ResourceSlice spec";
            invalid(errors, at, &Value::Null, detail);
        }
        return;
    }
    let detail = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is \
                  set to true in the ResourceSlice spec";
    let places = placed(device, "must not be empty", at, errors);
    match places.len() {
        0 => required(errors, at, detail),
        1 => {}
        _ => invalid(errors, at, &format!("{{{}}}", places.join(", ")).into(), detail),
    }
}

fn device(device: &Object, at: &At<'_>, errors: &mut ErrorList) {
    shape(&text(device, "name").into(), names::is_dns1123_label, &at.child("name"), errors);
    let nothing = Object::new();
    let [attributes, capacity] = ["attributes", "capacity"].map(|field| object(device, field).unwrap_or(&nothing));
    let traits = attributes.len() + capacity.len();
    if traits > MAX_TRAITS {
        let detail = format!("the total number of attributes and capacities must not exceed {MAX_TRAITS}");
        invalid(errors, at, &traits.into(), &detail);
    }
    let at_attributes = at.child("attributes");
    for (name, attribute) in attributes {
        attribute_name(name, &at_attributes, errors);
        device_attribute(attribute, &at_attributes.key(name), errors);
    }
    let at_capacity = at.child("capacity");
    let shared = device.get("allowMultipleAllocations") == Some(&Value::Bool(true));
    for (name, amount) in capacity {
        attribute_name(name, &at_capacity, errors);
        if !shared && !amount["requestPolicy"].is_null() {
            let at = at_capacity.key(name);
            forbidden(errors, &at.child("requestPolicy"), "allowMultipleAllocations must be true");
        }
    }
    few(list(device, "taints"), MAX_TAINTS, &at.child("taints"), errors);
}

fn device_attribute(attribute: &Value, at: &At<'_>, errors: &mut ErrorList) {
    let nothing = Object::new();
    let specified = attribute.as_object().unwrap_or(&nothing);
    for (field, is_version) in [("string", false), ("version", true)] {
        let Some(value) = specified.get(field) else { continue };
        let (text, at) = (value.as_str().unwrap_or_default(), at.child(field));
        if is_version && !is_semver(text) {
            invalid(errors, &at, value, "must be a string compatible with semver.org spec 2.0.0");
        }
        if text.len() > MAX_TEXT {
            errors.push(Error::too_long(&at.path(), MAX_TEXT));
        }
    }
    match specified.len() {
        0 => invalid(errors, at, &"".into(), "exactly one value must be specified"),
        1 => {}
        _ => invalid(errors, at, attribute, "exactly one value must be specified"),
    }
}

/// A version by semver.org, which permits no leading `v`.
fn is_semver(text: &str) -> bool {
    let identifier =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let number = |part: &str| digits(part) && (part == "0" || !part.starts_with('0'));
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, release) = rest.split_once('-').map_or((rest, None), |(core, release)| (core, Some(release)));
    let parts: Vec<&str> = core.split('.').collect();
    parts.len() == 3
        && parts.into_iter().all(number)
        && build.is_none_or(|build| build.split('.').all(identifier))
        && release
            .is_none_or(|release| release.split('.').all(|part| identifier(part) && (!digits(part) || number(part))))
}

const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

fn device_taint(taint: &Object, at: &At<'_>, errors: &mut ErrorList) {
    shape(&text(taint, "key").into(), names::is_qualified_name, &at.child("key"), errors);
    shape(&text(taint, "value").into(), names::is_label_value, &at.child("value"), errors);
    match text(taint, "effect") {
        "" => required(errors, &at.child("effect"), ""),
        effect => supported(&effect.into(), &EFFECTS, &at.child("effect"), errors),
    }
}

fn device_toleration(toleration: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (key, value) = (text(toleration, "key"), Value::from(text(toleration, "value")));
    if !key.is_empty() {
        shape(&key.into(), names::is_qualified_name, &at.child("key"), errors);
    }
    match text(toleration, "operator") {
        "Exists" if value != "" => invalid(errors, &at.child("value"), &value, "must be empty for operator `Exists`"),
        "Exists" => {}
        "Equal" => shape(&value, names::is_label_value, &at.child("value"), errors),
        other => supported(&other.into(), &["Equal", "Exists"], &at.child("operator"), errors),
    }
    match text(toleration, "effect") {
        "" => {}
        effect => supported(&effect.into(), &EFFECTS, &at.child("effect"), errors),
    }
}

/// The spec of a claim is immutable.
pub(super) fn spec_stays(old: &Value, new: &Value, errors: &mut ErrorList) {
    if old["spec"] != new["spec"] {
        errors.push(Error::invalid(&Path::new("spec"), new["spec"].clone(), "field is immutable"));
    }
}

/// The driver and the node of a slice are immutable.
pub(super) fn slice_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    for path in [&["pool", "name"][..], &["driver"], &["nodeName"]] {
        let find = |slice: &Value| path.iter().fold(slice["spec"].clone(), |at, name| at[*name].clone());
        let (was, is) = (find(old), find(new));
        if was != is {
            let at = path.iter().fold(Path::new("spec"), |at, name| at.child(name));
            errors.push(Error::invalid(&at, is, "field is immutable"));
        }
    }
}
