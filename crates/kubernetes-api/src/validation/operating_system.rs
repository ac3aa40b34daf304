//! Pods with `spec.os`: fields of the other operating system are forbidden.

use apimachinery::field::{Error, ErrorList};

use super::at::At;
use super::{Object, forbidden, list, object, required, text};

pub(super) fn check(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(system) = object(spec, "os") else { return };
    let at_system = at.child("os");
    match text(system, "name") {
        "" => required(errors, &at_system.child("name"), "cannot be empty"),
        "linux" => linux(spec, at, errors),
        "windows" => windows(spec, at, errors),
        other => errors.push(Error::not_supported(&at_system.path(), other, &["linux", "windows"])),
    }
}

fn each_context(spec: &Object, at: &At<'_>, mut check: impl FnMut(&Object, &At<'_>)) {
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        let list_at = at.child(field);
        for (index, container) in list(spec, field).iter().enumerate() {
            let at = list_at.index(index);
            if let Some(context) = container["securityContext"].as_object() {
                check(context, &at.child("securityContext"));
            }
        }
    }
}

fn linux(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    const DETAIL: &str = "windows options cannot be set for a linux pod";
    let mut check = |context: &Object, at: &At<'_>| {
        if context.contains_key("windowsOptions") {
            forbidden(errors, &at.child("windowsOptions"), DETAIL);
        }
    };
    if let Some(context) = object(spec, "securityContext") {
        check(context, &at.child("securityContext"));
    }
    each_context(spec, at, check);
}

const OF_POD: [&str; 11] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];

const OF_CONTAINER: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

fn windows(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    const DETAIL: &str = "cannot be set for a windows pod";
    for field in ["hostUsers", "shareProcessNamespace"] {
        if spec.contains_key(field) {
            forbidden(errors, &at.child(field), DETAIL);
        }
    }
    for field in ["hostPID", "hostIPC"] {
        if spec.get(field).is_some_and(|value| value == true) {
            forbidden(errors, &at.child(field), DETAIL);
        }
    }
    let mut check = |fields: &[&str], context: &Object, at: &At<'_>| {
        for field in fields.iter().filter(|field| context.contains_key(**field)) {
            forbidden(errors, &at.child(field), DETAIL);
        }
    };
    if let Some(context) = object(spec, "securityContext") {
        check(&OF_POD, context, &at.child("securityContext"));
    }
    each_context(spec, at, |context, at| check(&OF_CONTAINER, context, at));
}
