//! Containers: what they are told, what is mounted into them, how they are probed, and what each kind of them may not have.

use std::collections::{HashMap, HashSet};

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use serde_json::Value;

use super::at::At;
use super::checks::{descending_path, supported};
use super::table::Function;
use super::{Object, forbidden, internal, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("container", container),
    ("container_security", container_security),
    ("env_var", env_var),
    ("handler", handler),
    ("probe", handler),
];

fn container(container: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let success = |name: &str| container.get(name).and_then(|probe| probe["successThreshold"].as_i64());
    for name in ["livenessProbe", "startupProbe"] {
        if success(name).is_some_and(|count| count != 1) {
            let at = at.child(name);
            invalid(errors, &at.child("successThreshold"), &container[name]["successThreshold"], "must be 1");
        }
    }
    let grace = container.get("readinessProbe").and_then(|probe| probe.get("terminationGracePeriodSeconds"));
    if let Some(grace) = grace {
        let at = at.child("readinessProbe");
        let detail = "must not be set for readinessProbes";
        invalid(errors, &at.child("terminationGracePeriodSeconds"), grace, detail);
    }
    // Upstream names the list, not the item.
    let at_from = at.child("envFrom");
    for source in list(container, "envFrom") {
        let given = ["configMapRef", "secretRef"].iter().filter(|name| source[**name].is_object()).count();
        match given {
            0 => invalid(errors, &at_from, &"".into(), "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => invalid(errors, &at_from, &"".into(), "may not have more than one field specified at a time"),
        }
    }
    resize_policies(container, at, errors);
}

fn resize_policies(container: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("resizePolicy");
    let mut seen = HashSet::new();
    for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
        if !seen.insert(&policy["resourceName"]) {
            errors.push(Error::duplicate(&at.index(index).path(), policy["resourceName"].clone()));
        }
        for (field, allowed) in
            [("resourceName", ["cpu", "memory"]), ("restartPolicy", ["NotRequired", "RestartContainer"])]
        {
            match policy[field].as_str().unwrap_or_default() {
                "" => required(errors, &at, ""),
                other => supported(&other.into(), &allowed, &at, errors),
            }
        }
    }
}

/// What is allowed in one of the three lists of containers only.
pub(super) fn of_kind(field: &str, container: &Object, list_at: &At<'_>, at: &At<'_>, errors: &mut ErrorList) {
    const PROBES: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
    let policy = text(container, "restartPolicy");
    match field {
        "containers" => {
            if !policy.is_empty() {
                supported(&policy.into(), &["Always", "Never", "OnFailure"], &at.child("restartPolicy"), errors);
            }
        }
        "initContainers" => {
            // They run one by one, so upstream looks at each as if it were the first.
            host_ports(std::slice::from_ref(&Value::Object(container.clone())), list_at, errors);
            if !policy.is_empty() {
                supported(&policy.into(), &["Always", "Never", "OnFailure"], &at.child("restartPolicy"), errors);
            }
            for probe in PROBES.iter().filter(|probe| policy != "Always" && container.contains_key(**probe)) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                forbidden(errors, &at.child(probe), detail);
            }
        }
        _ => {
            for other in ["ports", "resizePolicy", "restartPolicy"].iter().chain(&PROBES) {
                if container.contains_key(*other) {
                    forbidden(errors, &at.child(other), "cannot be set for an Ephemeral Container");
                }
            }
            if object(container, "resources").is_some_and(|resources| !resources.is_empty()) {
                forbidden(errors, &at.child("resources"), "cannot be set for an Ephemeral Container");
            }
        }
    }
}

/// What a container says of its pod: how long its hooks may sleep, and the claims it uses.
pub(super) fn in_its_pod(container: &Object, pod: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let grace = pod.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    if let (Some(hooks), Some(grace)) = (object(container, "lifecycle"), grace) {
        let at = at.child("lifecycle");
        for name in ["postStart", "preStop"] {
            let Some(seconds) = object(hooks, name).and_then(|hook| object(hook, "sleep")).map(|s| &s["seconds"])
            else {
                continue;
            };
            if !(0..=grace).contains(&seconds.as_i64().unwrap_or(0)) {
                let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                let at = at.child(name);
                invalid(errors, &at.child("sleep"), seconds, &detail);
            }
        }
    }
    let Some(resources) = object(container, "resources") else { return };
    let at_resources = at.child("resources");
    let at_claims = at_resources.child("claims");
    let mut seen = HashSet::new();
    for (index, claim) in list(resources, "claims").iter().enumerate() {
        let at = at_claims.index(index);
        let part = |field: &str| claim[field].as_str().unwrap_or_default();
        let (name, request) = (part("name"), part("request"));
        if name.is_empty() {
            required(errors, &at.child("name"), "");
            continue;
        }
        let shown = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        if !seen.insert(shown.clone()) {
            errors.push(Error::duplicate(&at.path(), shown));
        }
        if !list(pod, "resourceClaims").iter().any(|known| known["name"] == name) {
            errors.push(Error::not_found(&at_claims.index(index).path(), name));
        }
    }
}

/// A port of the node can be given away once.
pub(super) fn host_ports(containers: &[Value], at: &At<'_>, errors: &mut ErrorList) {
    let mut taken = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = at.index(index);
        let list_at = at.child("ports");
        for (index, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
            let Some(number) = port["hostPort"].as_i64().filter(|number| *number != 0) else { continue };
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            let place = format!("{protocol}/{}/{number}", port["hostIP"].as_str().unwrap_or_default());
            if let Some(duplicate) = taken.replace(place) {
                errors.push(Error::duplicate(&list_at.index(index).child("hostPort").path(), duplicate));
            }
        }
    }
}

/// The volumes of a pod that a container can mount, by name, with their sources.
pub(super) struct Mounts<'a> {
    pub volumes: &'a HashMap<&'a str, &'a Object>,
}

impl Mounts<'_> {
    pub(super) fn check(&self, container: &Object, at: &At<'_>, errors: &mut ErrorList) {
        self.mounts(container, at, errors);
        self.devices(container, at, errors);
    }

    fn mounts(&self, container: &Object, at: &At<'_>, errors: &mut ErrorList) {
        let list_at = at.child("volumeMounts");
        let devices = list(container, "volumeDevices");
        let mut paths = HashSet::new();
        for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
            let at = list_at.index(index);
            let name = mount["name"].as_str().unwrap_or_default();
            let at_name = at.child("name");
            if name.is_empty() {
                required(errors, &at_name, "");
            }
            if !self.volumes.contains_key(name) {
                errors.push(Error::not_found(&at_name.path(), name));
            }
            let path = mount["mountPath"].as_str().unwrap_or_default();
            let at_path = at.child("mountPath");
            if !paths.insert(path) {
                invalid(errors, &at_path, &path.into(), "must be unique");
            }
            if devices.iter().any(|device| device["name"] == name) {
                invalid(errors, &at_name, &name.into(), "must not already exist in volumeDevices");
            }
            if devices.iter().any(|device| device["devicePath"] == path) {
                invalid(errors, &at_path, &path.into(), "must not already exist as a path in volumeDevices");
            }
            // Upstream names the list, not the item.
            descending_path(&mount["subPath"], &list_at.child("subPath"), errors);
            if mount["subPathExpr"].is_string() && mount["subPath"].is_string() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                invalid(errors, &at.child("subPathExpr"), &mount["subPathExpr"], detail);
            }
            descending_path(&mount["subPathExpr"], &list_at.child("subPathExpr"), errors);
        }
    }

    fn devices(&self, container: &Object, at: &At<'_>, errors: &mut ErrorList) {
        let list_at = at.child("volumeDevices");
        let (mut names, mut paths) = (HashSet::new(), HashSet::new());
        for (index, device) in list(container, "volumeDevices").iter().enumerate() {
            let at = list_at.index(index);
            let name = device["name"].as_str().unwrap_or_default();
            let at_name = at.child("name");
            if !name.is_empty() && !names.insert(name) {
                invalid(errors, &at_name, &name.into(), "must be unique");
            }
            match self.volumes.get(name) {
                None => errors.push(Error::not_found(&at_name.path(), name)),
                Some(volume)
                    if !["persistentVolumeClaim", "ephemeral"].iter().any(|kind| volume.contains_key(*kind)) =>
                {
                    let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    invalid(errors, &at_name, &name.into(), detail);
                }
                Some(_) => {}
            }
            let path = device["devicePath"].as_str().unwrap_or_default();
            if !path.is_empty() && !paths.insert(path) {
                invalid(errors, &at.child("devicePath"), &path.into(), "must be unique");
            }
        }
    }
}

/// What a container can be told of its pod: what is known only to volumes, and what nobody knows.
fn field_path(path: &str, at: &At<'_>, errors: &mut ErrorList) {
    const FIELDS: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let at_path = at.child("fieldPath");
    let subscript = ["metadata.annotations", "metadata.labels"]
        .iter()
        .find_map(|start| path.strip_prefix(start)?.strip_prefix("['")?.strip_suffix("']"));
    if let Some(key) = subscript {
        for complaint in names::is_qualified_name(&key.to_lowercase()) {
            invalid(errors, at, &key.into(), &complaint);
        }
        return;
    }
    if FIELDS.contains(&path) {
        return;
    }
    let known = ["metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"];
    if known.contains(&path) {
        errors.push(Error::not_supported(&at_path.path(), path, &FIELDS));
    } else {
        let detail = format!("error converting fieldPath: field label not supported: {path}");
        invalid(errors, &at_path, &path.into(), &detail);
    }
}

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Which amount a container can be told, and in which unit.
pub(super) fn resource_field(reference: &Object, named: bool, at: &At<'_>, errors: &mut ErrorList) {
    let resource = text(reference, "resource");
    let huge = ["limits.hugepages-", "requests.hugepages-"].iter().any(|start| resource.starts_with(start));
    let at_resource = at.child("resource");
    if named && text(reference, "containerName").is_empty() {
        required(errors, &at.child("containerName"), "");
    } else if resource.is_empty() {
        required(errors, &at_resource, "");
    } else if !RESOURCES.contains(&resource) && !huge {
        supported(&resource.into(), &RESOURCES, &at_resource, errors);
    }
    let divisor = text(reference, "divisor");
    if divisor.is_empty() || divisor == "0" {
        return;
    }
    const BYTES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let bytes = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    let (fits, units, what) = match resource.split_once('.').map(|(_, kind)| kind) {
        Some("cpu") => (["1m", "1"].contains(&divisor), "1m and 1", "cpu resource"),
        Some("memory") => (BYTES.contains(&divisor), bytes, "memory resource"),
        Some("ephemeral-storage") => (BYTES.contains(&divisor), bytes, "local ephemeral storage resource"),
        _ if huge => (BYTES.contains(&divisor), bytes, "hugepages resource"),
        _ => return,
    };
    if !fits {
        let detail = format!("only divisor's values {units} are supported with the {what}");
        invalid(errors, &at.child("divisor"), &resource.into(), &detail);
    }
}

fn env_var(variable: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(source) = object(variable, "valueFrom") else { return };
    let at = at.child("valueFrom");
    if let Some(path) =
        source.get("fieldRef").and_then(|field| field["fieldPath"].as_str()).filter(|path| !path.is_empty())
    {
        field_path(path, &at.child("fieldRef"), errors);
    }
    if let Some(reference) = object(source, "resourceFieldRef") {
        resource_field(reference, false, &at.child("resourceFieldRef"), errors);
    }
    match source.len() {
        0 => {
            let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                          `fileKeyRef`";
            invalid(errors, &at, &"".into(), detail);
        }
        _ if !text(variable, "value").is_empty() => {
            invalid(errors, &at, &"".into(), "may not be specified when `value` is not empty");
        }
        1 => {}
        _ => invalid(errors, &at, &"".into(), "may not have more than one field specified at a time"),
    }
}

const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

fn handler(handler: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let mut given = HANDLERS.iter().filter(|name| handler.contains_key(**name));
    if given.next().is_none() {
        required(errors, at, "must specify a handler type");
    }
    for name in given {
        forbidden(errors, &at.child(name), "may not specify more than 1 handler type");
    }
}

fn container_security(context: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if context.get("allowPrivilegeEscalation") != Some(&Value::Bool(false)) {
        return;
    }
    let shown = internal::shown("SecurityContext", &Value::Object(context.clone()));
    let mut refuse = |detail: &str| {
        errors.push(Error::invalid(&at.path(), Value::Null, detail).shown_as(shown.clone()));
    };
    if context.get("privileged") == Some(&Value::Bool(true)) {
        refuse("cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
    let added = object(context, "capabilities").map(|capabilities| list(capabilities, "add")).unwrap_or_default();
    if added.iter().any(|capability| capability == "CAP_SYS_ADMIN") {
        refuse("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
    }
}
