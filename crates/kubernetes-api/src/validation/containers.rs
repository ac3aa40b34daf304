//! Containers: environment, mounts, probes, and the fields that each type of container forbids.

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
    ("http_headers", http_headers),
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
        let specified = ["configMapRef", "secretRef"].iter().filter(|name| source[**name].is_object()).count();
        match specified {
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

/// Fields that only one of the three lists of containers permits.
pub(super) fn of_kind(field: &str, container: &Object, list_at: &At<'_>, at: &At<'_>, errors: &mut ErrorList) {
    const PROBES: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
    let policy = text(container, "restartPolicy");
    match field {
        "containers" => {
            restart_policy(container, at, errors);
        }
        "initContainers" => {
            // Init containers run one after another, so upstream checks each one's ports alone.
            host_ports(std::slice::from_ref(&Value::Object(container.clone())), list_at, errors);
            restart_policy(container, at, errors);
            for probe in PROBES.iter().filter(|probe| policy != "Always" && container.contains_key(**probe)) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                forbidden(errors, &at.child(probe), detail);
            }
        }
        _ => {
            const DETAIL: &str = "cannot be set for an Ephemeral Container";
            for other in ["ports", "resizePolicy", "restartPolicy", "restartPolicyRules"].iter().chain(&PROBES) {
                if container.contains_key(*other) {
                    forbidden(errors, &at.child(other), DETAIL);
                }
            }
            let at_mounts = at.child("volumeMounts");
            for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
                for part in ["subPath", "subPathExpr"] {
                    if mount[part].as_str().is_some_and(|path| !path.is_empty()) {
                        forbidden(errors, &at_mounts.index(index).child(part), DETAIL);
                    }
                }
            }
            if object(container, "resources").is_some_and(|resources| !resources.is_empty()) {
                forbidden(errors, &at.child("resources"), DETAIL);
            }
        }
    }
}

/// The maximum number of rules of a container, and of exit codes of a rule.
const MAX_RULES: usize = 20;
const MAX_CODES: usize = 255;

/// The restart policy of a container, which overrides its pod's.
fn restart_policy(container: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let rules = list(container, "restartPolicyRules");
    let (at_policy, at_rules) = (at.child("restartPolicy"), at.child("restartPolicyRules"));
    match container.get("restartPolicy") {
        Some(policy) => supported(policy, &["Always", "Never", "OnFailure"], &at_policy, errors),
        None if !rules.is_empty() => {
            required(errors, &at_policy, "must specify restartPolicy when restart rules are used");
        }
        None => {}
    }
    if rules.len() > MAX_RULES {
        errors.push(Error::too_many(&at_rules.path(), rules.len(), MAX_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = at_rules.index(index);
        let action = rule["action"].as_str().unwrap_or_default();
        supported(&action.into(), &["Restart", "RestartAllContainers"], &at.child("action"), errors);
        let at = at.child("exitCodes");
        let Some(codes) = rule["exitCodes"].as_object() else {
            required(errors, &at, "must be specified");
            continue;
        };
        supported(&text(codes, "operator").into(), &["In", "NotIn"], &at.child("operator"), errors);
        let values = list(codes, "values").len();
        if values > MAX_CODES {
            errors.push(Error::too_many(&at.child("values").path(), values, MAX_CODES));
        }
    }
}

/// Checks of a container that depend on its pod: grace periods of hooks, claims, and security settings of the pod.
pub(super) fn in_its_pod(container: &Object, pod: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if text(pod, "restartPolicy") == "Never" {
        let at = at.child("resizePolicy");
        for policy in list(container, "resizePolicy").iter().map(|policy| &policy["restartPolicy"]) {
            if *policy != "NotRequired" {
                invalid(errors, &at, policy, "must be 'NotRequired' when `restartPolicy` is 'Never'");
            }
        }
    }
    let unmasked = object(container, "securityContext").is_some_and(|context| text(context, "procMount") == "Unmasked");
    if unmasked && pod.get("hostUsers") != Some(&Value::Bool(false)) {
        let at = at.child("securityContext");
        let detail = "`hostUsers` must be false to use `Unmasked`";
        invalid(errors, &at.child("procMount"), &"Unmasked".into(), detail);
    }
    let grace = pod.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    if let (Some(hooks), Some(grace)) = (object(container, "lifecycle"), grace) {
        let at = at.child("lifecycle");
        for name in ["postStart", "preStop"] {
            let Some(sleep) = object(hooks, name).and_then(|hook| object(hook, "sleep")) else { continue };
            let seconds = sleep.get("seconds").and_then(Value::as_i64).unwrap_or(0);
            if !(0..=grace).contains(&seconds) {
                let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                let at = at.child(name);
                invalid(errors, &at.child("sleep"), &seconds.into(), &detail);
            }
        }
    }
    let Some(resources) = object(container, "resources") else { return };
    let at = at.child("resources");
    super::claims::used(list(resources, "claims"), list(pod, "resourceClaims"), &at.child("claims"), errors);
}

/// A host port may be used only once.
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
            let expression = &mount["subPathExpr"];
            let is_image = self.volumes.get(name).is_some_and(|volume| volume.contains_key("image"));
            if is_image && expression.as_str().is_some_and(|text| !text.is_empty()) {
                invalid(errors, &at.child("subPathExpr"), expression, "not allowed in image volume sources");
            }
            descending_path(expression, &list_at.child("subPathExpr"), errors);
            propagation(mount, container, &list_at, errors);
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
            let at_path = at.child("devicePath");
            if paths.contains(path) {
                invalid(errors, &at_path, &path.into(), "must be unique");
            }
            if path.split('/').any(|part| part == "..") {
                invalid(errors, &at_path, &path.into(), "can not contain backsteps ('..')");
            } else if !path.is_empty() {
                paths.insert(path);
            }
            let mounts = list(container, "volumeMounts");
            if mounts.iter().any(|mount| mount["name"] == name) {
                invalid(errors, &at_name, &name.into(), "must not already exist in volumeMounts");
            }
            if mounts.iter().any(|mount| mount["mountPath"] == path) {
                invalid(errors, &at_path, &path.into(), "must not already exist as a path in volumeMounts");
            }
        }
    }
}

/// Mount propagation, and recursive read-only mounts. Upstream's path names the list, not the item.
fn propagation(mount: &Value, container: &Object, list_at: &At<'_>, errors: &mut ErrorList) {
    const MODES: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
    let mode = mount["mountPropagation"].as_str();
    let at = list_at.child("mountPropagation");
    if let Some(mode) = mode {
        supported(&mode.into(), &MODES, &at, errors);
    }
    let privileged = object(container, "securityContext").and_then(|context| context.get("privileged"));
    if mode == Some("Bidirectional") && privileged != Some(&Value::Bool(true)) {
        forbidden(errors, &at, "Bidirectional mount propagation is available only to privileged containers");
    }
    let at = list_at.child("recursiveReadOnly");
    match mount["recursiveReadOnly"].as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount["readOnly"] != true {
                forbidden(errors, &at, "may only be specified when readOnly is true");
            }
            if mode.is_some_and(|mode| mode != "None") {
                forbidden(errors, &at, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(other) => supported(&other.into(), &["Disabled", "Enabled", "IfPossible"], &at, errors),
    }
}

/// Downward API fields of the pod that environment variables support.
const VARIABLES: [&str; 9] = [
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

/// Known fields that are not supported everywhere.
const KNOWN: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"];

/// A reference to a pod field by its path; only `supported_fields` are permitted.
pub(super) fn field_reference(reference: &Object, supported_fields: &[&str], at: &At<'_>, errors: &mut ErrorList) {
    let path = text(reference, "fieldPath");
    let at_path = at.child("fieldPath");
    if path.is_empty() {
        return;
    }
    let mut refuse = |why: &str| {
        invalid(errors, &at_path, &path.into(), &format!("error converting fieldPath: {why}"));
    };
    // The default applies if it is absent.
    let version = reference.get("apiVersion").and_then(Value::as_str).unwrap_or("v1");
    if version != "v1" {
        return refuse(&format!("unsupported pod version: {version}"));
    }
    // An old name.
    let path = if path == "spec.host" { "spec.nodeName" } else { path };
    let subscripted = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    let Some((map, key)) = subscripted else {
        if supported_fields.contains(&path) {
            return;
        }
        if !KNOWN.contains(&path) && !VARIABLES.contains(&path) {
            return refuse(&format!("field label not supported: {path}"));
        }
        return errors.push(Error::not_supported(&at_path.path(), path, supported_fields));
    };
    let key = match map {
        "metadata.annotations" => key.to_lowercase(),
        "metadata.labels" => key.to_owned(),
        _ => return refuse(&format!("field label does not support subscript: {path}")),
    };
    for complaint in names::is_qualified_name(&key) {
        invalid(errors, at, &key.as_str().into(), &complaint);
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

/// The resource of a container that the downward API exposes, and its divisor.
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
    if let Some(reference) = object(source, "fieldRef") {
        field_reference(reference, &VARIABLES, &at.child("fieldRef"), errors);
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

/// Upstream names the list, not the item.
fn http_headers(request: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("httpHeaders");
    for header in list(request, "httpHeaders") {
        let name = header["name"].as_str().unwrap_or_default();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex \
                          used for validation is '[-A-Za-z0-9]+')";
            invalid(errors, &at, &name.into(), detail);
        }
    }
}

const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

fn handler(handler: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let mut specified = HANDLERS.iter().filter(|name| handler.contains_key(**name));
    if specified.next().is_none() {
        required(errors, at, "must specify a handler type");
    }
    for name in specified {
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
