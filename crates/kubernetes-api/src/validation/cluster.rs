//! Storage, priorities, leases, webhooks, certificates and events.

use apimachinery::field::{Error, ErrorList};
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::at::At;
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("claim_spec", claim_spec),
    ("client_config", client_config),
    ("event", event),
    ("priority_class", priority_class),
    ("webhook", webhook),
];

/// Higher values are the system's own.
const MAX_USER_PRIORITY: i64 = 1_000_000_000;

fn claim_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let modes = list(spec, "accessModes");
    access_modes(modes, at, errors);
    if modes.iter().any(|mode| mode == "ReadWriteOncePod") && modes.len() > 1 {
        forbidden(errors, &at.child("accessModes"), "may not use ReadWriteOncePod with other access modes");
    }
    let requests = object(spec, "resources").and_then(|resources| object(resources, "requests"));
    let storage = requests.and_then(|requests| requests.get("storage"));
    let at_requests = at.child("resources");
    let at_storage = at_requests.key("storage");
    match storage.and_then(Value::as_str).map(str::parse::<Quantity>) {
        None if storage.is_none() => required(errors, &at_storage, ""),
        Some(Ok(amount)) if amount.is_zero() || amount.is_negative() => {
            invalid(errors, &at_storage, &Value::from(amount.to_string()), "must be greater than zero");
        }
        _ => {}
    }
}

pub(super) fn access_modes(modes: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes {
        super::checks::supported(mode, &known, &at.child("accessModes"), errors);
    }
}

fn priority_class(class: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let name = class.get("metadata").map_or("", |metadata| metadata["name"].as_str().unwrap_or_default());
    let own = ["system-cluster-critical", "system-node-critical"].contains(&name);
    if own {
        return;
    }
    if name.starts_with("system-") {
        let at = at.child("metadata");
        let detail = "priority class names with 'system-' prefix are reserved for system use only";
        forbidden(errors, &at.child("name"), detail);
    }
    if class.get("value").and_then(Value::as_i64).is_some_and(|value| value > MAX_USER_PRIORITY) {
        let detail = format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
        forbidden(errors, &at.child("value"), &detail);
    }
}

fn webhook(webhook: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let name = text(webhook, "name");
    let at_name = at.child("name");
    if name.is_empty() {
        required(errors, &at_name, "");
    } else if name.split('.').count() < 3 {
        invalid(errors, &at_name, &name.into(), "should be a domain with at least three segments separated by dots");
    }
    let versions = list(webhook, "admissionReviewVersions");
    let at_versions = at.child("admissionReviewVersions");
    if versions.is_empty() {
        required(errors, &at_versions, "must specify one of v1, v1beta1");
    } else if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        invalid(errors, &at_versions, &Value::from(versions.to_vec()), detail);
    }
    if let Some(seconds) = webhook.get("timeoutSeconds")
        && !seconds.as_i64().is_some_and(|seconds| (1..=30).contains(&seconds))
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        invalid(errors, &at.child("timeoutSeconds"), seconds, detail);
    }
    let at_effects = at.child("sideEffects");
    match webhook.get("sideEffects") {
        None => required(errors, &at_effects, "must specify one of None, NoneOnDryRun"),
        Some(effects) if effects != "None" && effects != "NoneOnDryRun" => {
            errors.push(Error::not_supported(&at_effects.path(), effects.clone(), &["None", "NoneOnDryRun"]));
        }
        Some(_) => {}
    }
}

fn client_config(config: &Object, at: &At<'_>, errors: &mut ErrorList) {
    match (config.get("url"), config.contains_key("service")) {
        (None, false) | (Some(_), true) => required(errors, at, "exactly one of url or service is required"),
        (Some(url), false) if !url.as_str().is_some_and(|url| url.starts_with("https://")) => {
            let text = url.as_str().unwrap_or_default();
            let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
            let detail =
                format!("'https' is the only allowed URL scheme; desired format: https://host[/path], not {scheme}");
            invalid(errors, &at.child("url"), url, &detail);
        }
        _ => {}
    }
}

/// Events lie in the namespace of what they are about; cluster-scoped objects' in `default` or `kube-system`.
fn event(event: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let namespace = event.get("metadata").map_or("", |metadata| metadata["namespace"].as_str().unwrap_or_default());
    let Some(about) = object(event, "involvedObject") else { return };
    let given = text(about, "namespace");
    let at = at.child("involvedObject");
    let fits = if given.is_empty() { matches!(namespace, "default" | "kube-system") } else { given == namespace };
    if !fits {
        invalid(errors, &at.child("namespace"), &given.into(), "does not match event.namespace");
    }
}
