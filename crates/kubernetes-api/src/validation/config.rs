//! ConfigMaps, Secrets, and other kinds with a fixed content.

use apimachinery::field::{Error, ErrorList};
use base64::Engine as _;
use serde_json::Value;

use super::at::At;
use super::checks::is_config_key;
use super::table::Function;
use super::{Object, forbidden, invalid, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[("config_map", config_map), ("secret", secret)];

/// The maximum total size of the values of a ConfigMap or Secret, in bytes.
const MAX_SIZE: usize = 1024 * 1024;

fn keys(map: Option<&Object>, at: &At<'_>, errors: &mut ErrorList) {
    for key in map.into_iter().flat_map(Object::keys) {
        for complaint in is_config_key(key) {
            invalid(errors, &at.key(key), &key.as_str().into(), &complaint);
        }
    }
}

/// The decoded length of base64 text, in bytes, without decoding it.
fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.trim_end_matches('=').len() * 3 / 4
}

fn config_map(map: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (data, binary) = (object(map, "data"), object(map, "binaryData"));
    keys(data, &at.child("data"), errors);
    keys(binary, &at.child("binaryData"), errors);
    if let (Some(data), Some(binary)) = (data, binary) {
        for key in data.keys().filter(|key| binary.contains_key(*key)) {
            let detail = "duplicate of key present in binaryData";
            invalid(errors, &at.child("data").key(key), &key.as_str().into(), detail);
        }
    }
    let texts = data.into_iter().flat_map(Object::values).map(|value| value.as_str().unwrap_or_default().len());
    let size: usize = texts.chain(binary.into_iter().flat_map(Object::values).map(decoded_length)).sum();
    if size > MAX_SIZE {
        // Upstream names no field here, and prints the empty name.
        let at = At::root();
        errors.push(Error::too_long(&at.key("").path(), MAX_SIZE));
    }
}

fn secret(secret: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let nothing = Object::new();
    let data = object(secret, "data").unwrap_or(&nothing);
    let at_data = at.child("data");
    keys(Some(data), &at_data, errors);
    if data.values().map(decoded_length).sum::<usize>() > MAX_SIZE {
        errors.push(Error::too_long(&at_data.path(), MAX_SIZE));
    }
    let mut need = |names: &[&str]| {
        for name in names.iter().filter(|name| !data.contains_key(**name)) {
            required(errors, &at_data.key(name), "");
        }
    };
    match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let annotations = secret.get("metadata").map_or(&Value::Null, |metadata| &metadata["annotations"]);
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if annotations[ACCOUNT].as_str().unwrap_or_default().is_empty() {
                let at = at.child("metadata");
                let at = at.child("annotations");
                required(errors, &at.key(ACCOUNT), "");
            }
        }
        "kubernetes.io/dockercfg" => docker(data, ".dockercfg", &at_data, errors),
        "kubernetes.io/dockerconfigjson" => docker(data, ".dockerconfigjson", &at_data, errors),
        "kubernetes.io/basic-auth" if !data.contains_key("username") && !data.contains_key("password") => {
            need(&["username", "password"]);
        }
        "kubernetes.io/ssh-auth" if data.get("ssh-privatekey").is_none_or(|key| key == "") => {
            errors.push(Error::required(&at_data.key("ssh-privatekey").path(), ""));
        }
        "kubernetes.io/tls" => need(&["tls.crt", "tls.key"]),
        _ => {}
    }
}

fn docker(data: &Object, key: &str, at: &At<'_>, errors: &mut ErrorList) {
    let Some(value) = data.get(key) else { return required(errors, &at.key(key), "") };
    let bytes = base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap_or_default());
    if let Some(detail) = bytes.ok().and_then(|bytes| apimachinery::go_json::syntax_error(&bytes)) {
        invalid(errors, &at.key(key), &"<secret contents redacted>".into(), &detail);
    }
}

fn same_data(one: Option<&Value>, other: Option<&Value>) -> bool {
    let empty = |data: Option<&Value>| data.and_then(Value::as_object).is_none_or(Object::is_empty);
    one == other || empty(one) && empty(other)
}

/// An immutable object's content, and the field `immutable` itself, must not change.
pub(super) fn update(old: &Value, new: &Value, errors: &mut ErrorList) {
    if old["immutable"] != true {
        return;
    }
    let root = At::root();
    for field in ["immutable", "data", "binaryData"] {
        let (was, is) = (old.get(field), new.get(field));
        let changed = if field == "immutable" { is != was } else { !same_data(was, is) };
        if changed {
            forbidden(errors, &root.child(field), "field is immutable when `immutable` is set");
        }
    }
}
