//! Annotations of pods and pod templates that were replaced by fields.

use apimachinery::field::{Error, ErrorList};
use serde_json::Value;

use super::at::At;
use super::checks::descending_path;
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[("pod_annotations", of_pod), ("template_annotations", of_template)];

pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(crate) const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

fn of_pod(pod: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (at_metadata, at_spec) = (at.child("metadata"), at.child("spec"));
    check(pod, &at_metadata.child("annotations"), &at_spec, errors);
}

/// Upstream omits `metadata` from these paths.
pub(super) fn of_template(template: &Object, at: &At<'_>, errors: &mut ErrorList) {
    check(template, &at.child("annotations"), &at.child("spec"), errors);
}

fn check(pod: &Object, at: &At<'_>, at_spec: &At<'_>, errors: &mut ErrorList) {
    let nothing = Object::new();
    let annotations = object(pod, "metadata").and_then(|metadata| object(metadata, "annotations"));
    let Some(annotations) = annotations.filter(|annotations| !annotations.is_empty()) else { return };
    let spec = object(pod, "spec").unwrap_or(&nothing);
    if annotations.contains_key(MIRROR) && text(spec, "nodeName").is_empty() {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        invalid(errors, &at.key(MIRROR), &annotations[MIRROR], detail);
    }
    let written = text(annotations, TOLERATIONS);
    if let Some(why) = Some(written)
        .filter(|text| !text.is_empty())
        .and_then(|text| apimachinery::go_json::syntax_error(text.as_bytes()))
    {
        invalid(errors, at, &TOLERATIONS.into(), &why);
    }
    if let Some(cost) = annotations.get(DELETION_COST)
        && !cost.as_str().is_some_and(is_cost)
    {
        invalid(errors, &at.key(DELETION_COST), cost, "must be a 32bit integer");
    }
    seccomp(annotations, at, errors);
    apparmor(annotations, spec, at, errors);
    fields_agree(annotations, spec, at_spec, errors);
}

/// A cost has a single spelling, without plus sign or leading zeros.
fn is_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.starts_with('+') && (digits == "0" || !digits.starts_with('0'));
    plain && text.parse::<i32>().is_ok()
}

fn seccomp(annotations: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let is_seccomp = |key: &&String| *key == SECCOMP_OF_POD || key.starts_with(SECCOMP_OF_CONTAINER);
    for key in annotations.keys().filter(is_seccomp) {
        let at = at.child(key);
        match text(annotations, key) {
            "runtime/default" | "docker/default" | "unconfined" => {}
            profile => match profile.strip_prefix("localhost/") {
                Some(path) => descending_path(&path.into(), &at, errors),
                None => invalid(errors, &at, &profile.into(), "must be a valid seccomp profile"),
            },
        }
    }
}

fn apparmor(annotations: &Object, spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    for (key, profile) in annotations {
        let Some(name) = key.strip_prefix(APPARMOR) else { continue };
        let at = at.key(key);
        if !containers(spec).any(|(.., container)| container["name"] == name) {
            invalid(errors, &at, &name.into(), "container not found");
        }
        let profile = profile.as_str().unwrap_or_default();
        if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
            let detail = format!("invalid AppArmor profile name: {}", Value::from(profile));
            invalid(errors, &at, &profile.into(), &detail);
        }
    }
}

fn containers(spec: &Object) -> impl Iterator<Item = (&'static str, usize, &Value)> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|field| list(spec, field).iter().enumerate().map(move |(index, container)| (field, index, container)))
}

/// An annotation and the field that replaces it must have the same value if both are set.
fn fields_agree(annotations: &Object, spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let profile = |context: Option<&Value>, field: &str| context.and_then(|context| context.get(field)).cloned();
    let of_pod = spec.get("securityContext");
    let at_context = at.child("securityContext");
    if let (Some(annotation), Some(field)) = (annotations.get(SECCOMP_OF_POD), profile(of_pod, "seccompProfile")) {
        agree("seccomp", annotation, &field, &at_context.child("seccompProfile"), errors);
    }
    let windows = spec.get("os").is_some_and(|os| os["name"] == "windows");
    for (list_name, index, container) in containers(spec) {
        let name = container["name"].as_str().unwrap_or_default();
        let own = container.get("securityContext");
        let list_at = at.child(list_name);
        let at = list_at.index(index);
        let at = at.child("securityContext");
        let seccomp = annotations.get(&format!("{SECCOMP_OF_CONTAINER}{name}"));
        if let (Some(annotation), Some(field)) = (seccomp, profile(own, "seccompProfile")) {
            agree("seccomp", annotation, &field, &at.child("seccompProfile"), errors);
        }
        let field = profile(own, "appArmorProfile").or_else(|| profile(of_pod, "appArmorProfile"));
        let annotation = annotations.get(&format!("{APPARMOR}{name}")).filter(|_| !windows);
        if let (Some(annotation), Some(field)) = (annotation, field) {
            agree("apparmor", annotation, &field, &at.child("appArmorProfile"), errors);
        }
    }
}

fn agree(what: &str, annotation: &Value, field: &Value, at: &At<'_>, errors: &mut ErrorList) {
    let annotation = annotation.as_str().unwrap_or_default();
    let is_default = annotation == "runtime/default" || what == "seccomp" && annotation == "docker/default";
    let same_type = match field["type"].as_str().unwrap_or_default() {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => is_default,
        "Localhost" => match annotation.strip_prefix("localhost/") {
            Some(path) if field["localhostProfile"] != path => {
                let detail = format!("{what} profile in annotation and field must match");
                return forbidden(errors, &at.child("localhostProfile"), &detail);
            }
            found => found.is_some(),
        },
        _ => true,
    };
    if !same_type {
        let detail = format!("{what} type in annotation and field must match");
        errors.push(Error::forbidden(&at.child("type").path(), detail));
    }
}
