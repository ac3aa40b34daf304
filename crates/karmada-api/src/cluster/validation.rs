//! Validates Clusters. It reads the tree, so that errors can quote the client's values.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names::{is_dns1123_label, is_label_value, is_qualified_name};
use apimachinery::url::parse;
use serde::Deserialize;
use serde_json::Value;

use super::models;
use super::shown;
use super::types::ResourceModel;
use crate::constants::taints::{NO_EXECUTE, NO_SCHEDULE};

/// 63, minus the length of prefixes such as that of execution namespaces.
const NAME_MAX: usize = 48;

pub(super) fn name(object: &Value) -> ErrorList {
    let path = Path::new("metadata").child("name");
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        // The server itself requires a name.
        return ErrorList::new();
    }
    name_complaints(name).into_iter().map(|detail| Error::invalid(&path, name, detail)).collect()
}

/// The errors in the name of a cluster.
pub fn name_complaints(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["must be not empty".to_owned()];
    }
    if name.len() > NAME_MAX {
        return vec![format!("must be no more than {NAME_MAX} characters")];
    }
    is_dns1123_label(name)
}

pub(super) fn spec(object: &Value) -> ErrorList {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let text = |field: &str| spec[field].as_str().unwrap_or_default();
    let mut errors = ErrorList::new();
    let mode = text("syncMode");
    if mode.is_empty() {
        errors.push(Error::required(&path.child("syncMode"), ""));
    }
    if !matches!(mode, "Pull" | "Push") {
        errors.push(Error::not_supported(&path.child("syncMode"), mode, &["Pull", "Push"]));
    }
    if !text("apiEndpoint").is_empty() {
        errors.extend(endpoint(text("apiEndpoint"), &path.child("apiEndpoint")));
    }
    for field in ["secretRef", "impersonatorSecretRef"] {
        for part in ["namespace", "name"] {
            if spec[field].is_object() && spec[field][part].as_str().is_none_or(str::is_empty) {
                errors.push(Error::required(&path.child(field).child(part), ""));
            }
        }
    }
    errors.extend(proxy(text("proxyURL"), &path.child("proxyURL")));
    for field in ["provider", "region"] {
        errors.extend(label_value(text(field), &path.child(field)));
    }
    errors.extend(zones(spec, &path));
    errors.extend(taints(spec, &path.child("taints")));
    errors.extend(resource_models(spec, &path.child("resourceModels")));
    errors
}

fn label_value(value: &str, path: &Path) -> ErrorList {
    is_label_value(value).into_iter().map(|detail| Error::invalid(path, value, detail)).collect()
}

fn endpoint(text: &str, path: &Path) -> ErrorList {
    const FORMAT: &str = "; desired format: hostname, hostname:port, IP or IP:port";
    let url = match parse(text) {
        Ok(url) => url,
        Err(why) => {
            return vec![Error::invalid(path, text, format!("apiEndpoint must be a valid URL: {why}{FORMAT}"))];
        }
    };
    let mut errors = ErrorList::new();
    if url.host.is_empty() {
        errors.push(Error::invalid(path, "", format!("host must be provided{FORMAT}")));
    }
    errors.extend(url.beyond_server().map(|(part, message)| Error::invalid(path, part, message)));
    errors
}

fn proxy(text: &str, path: &Path) -> Option<Error> {
    if text.is_empty() {
        return None;
    }
    match parse(text) {
        Err(why) => Some(Error::invalid(path, text, format!("apiEndpoint must be a valid URL: {why}"))),
        Ok(url) if !matches!(url.scheme, "http" | "https" | "socks5") => {
            let detail = format!("unsupported scheme \"{}\", must be http, https, or socks5", url.scheme);
            Some(Error::invalid(path, text, detail))
        }
        Ok(_) => None,
    }
}

/// The paths are spelled as in upstream's errors.
fn zones(spec: &Value, path: &Path) -> ErrorList {
    let zone = spec["zone"].as_str().unwrap_or_default();
    let zones = spec["zones"].as_array().map_or(&[][..], Vec::as_slice);
    if !zone.is_empty() && !zones.is_empty() {
        let error = Error::type_invalid(&path.child("spec"), spec.clone(), "Zone and Zones cannot co-exist");
        return vec![error.shown_as(shown::spec(spec))];
    }
    let mut errors = label_value(zone, &path.child("Zone"));
    for zone in zones {
        errors.extend(label_value(zone.as_str().unwrap_or_default(), &path.child("Zones")));
    }
    errors
}

fn taints(spec: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut seen = BTreeSet::new();
    for (index, taint) in spec["taints"].as_array().into_iter().flatten().enumerate() {
        let path = path.index(index);
        let text = |field: &str| taint[field].as_str().unwrap_or_default();
        let (key, effect) = (text("key"), text("effect"));
        errors.extend(is_qualified_name(key).into_iter().map(|detail| Error::invalid(&path.child("key"), key, detail)));
        let complaints = is_label_value(text("value"));
        if !complaints.is_empty() {
            errors.push(Error::invalid(&path.child("value"), text("value"), complaints.join(";")));
        }
        match effect {
            NO_SCHEDULE | NO_EXECUTE => {}
            "" => errors.push(Error::required(&path.child("effect"), "")),
            other => errors.push(Error::not_supported(&path.child("effect"), other, &[NO_SCHEDULE, NO_EXECUTE])),
        }
        if !seen.insert((key, effect)) {
            let mut error = Error::duplicate(&path, taint.clone()).shown_as(crate::shown::text(taint));
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
    }
    errors
}

fn resource_models(spec: &Value, path: &Path) -> Option<Error> {
    let value = &spec["resourceModels"];
    if value.is_null() {
        return None;
    }
    let detail = match Vec::<ResourceModel>::deserialize(value) {
        Ok(parsed) => models::validate(&parsed).err().map(str::to_owned),
        Err(error) => Some(error.to_string()),
    };
    detail.map(|detail| Error::invalid(path, value.clone(), detail).shown_as(shown::models(value)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn first(mut spec: Value) -> String {
        if spec.get("syncMode").is_none() {
            spec["syncMode"] = json!("Push");
        }
        self::spec(&json!({ "spec": spec })).first().map_or("ok".to_owned(), ToString::to_string)
    }

    #[test]
    fn specs() {
        for (spec, expected) in [
            (json!({}), "ok"),
            (json!({"syncMode": ""}), "spec.syncMode: Required value"),
            (
                json!({"syncMode": "Both"}),
                "spec.syncMode: Unsupported value: \"Both\": supported values: \"Pull\", \"Push\"",
            ),
            (json!({"apiEndpoint": "https://1.2.3.4:6443"}), "ok"),
            (json!({"apiEndpoint": "http://a"}), "ok"),
            (json!({"apiEndpoint": "http://"}), "spec.apiEndpoint: Invalid value: \"\": host must be provided"),
            (json!({"apiEndpoint": "example.com"}), "host must be provided"),
            (json!({"apiEndpoint": "example.com:6443"}), "host must be provided"),
            (json!({"apiEndpoint": "1.2.3.4:6443"}), "first path segment in URL cannot contain colon"),
            (json!({"apiEndpoint": "https://u:p@h"}), "user information is not permitted in the URL"),
            (json!({"apiEndpoint": "https://u:p@h"}), "spec.apiEndpoint: Invalid value: \"u:p\": user"),
            (json!({"apiEndpoint": "https://h:a"}), "invalid port \":a\" after host"),
            (json!({"apiEndpoint": "https://h?a=b"}), "query parameters are not permitted in the URL"),
            (json!({"apiEndpoint": "https://h#f"}), "fragments are not permitted in the URL"),
            (json!({"secretRef": {"namespace": "a"}}), "spec.secretRef.name: Required value"),
            (json!({"proxyURL": "ftp://h"}), "unsupported scheme \"ftp\", must be http, https, or socks5"),
            (json!({"zone": "a", "zones": ["b"]}), "Zone and Zones cannot co-exist"),
            (json!({"zones": ["a b"]}), "spec.Zones: Invalid value: \"a b\""),
            (
                json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}),
                "spec.taints[0].effect: Unsupported value",
            ),
            (
                json!({"taints": [{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoExecute"}]}),
                "taints must be unique by key and effect pair",
            ),
            (
                json!({"resourceModels": [{"grade": 0, "ranges": [{"name": "cpu", "min": "1", "max": "2"}]}]}),
                "The min value of each resource in the first model should be 0",
            ),
        ] {
            let error = first(spec.clone());
            assert!(error.contains(expected), "{spec}\n{error}");
        }
    }

    #[test]
    fn names() {
        let of = |name: &str| name_errors(name);
        assert_eq!(of("m1"), 0);
        assert_eq!(of("M1"), 1);
        assert_eq!(of(&"a".repeat(49)), 1);
    }

    fn name_errors(name: &str) -> usize {
        super::name(&json!({"metadata": {"name": name}})).len()
    }
}
