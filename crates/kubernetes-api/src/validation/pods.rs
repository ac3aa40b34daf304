//! Pods and everything that carries a pod's specification.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList};
use serde_json::Value;

use super::at::At;
use super::checks::labels;
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("container", container),
    ("env_source", env_source),
    ("env_var", env_var),
    ("pod_spec", pod_spec),
    ("template_metadata", template_metadata),
    ("probe", handler),
    ("handler", handler),
    ("toleration", toleration),
    ("volume", volume),
];

fn pod_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let volumes: HashSet<&str> = list(spec, "volumes").iter().filter_map(|volume| volume["name"].as_str()).collect();
    let mut names = HashSet::new();
    let mut host_ports = HashSet::new();
    for field in ["initContainers", "containers"] {
        let list_at = at.child(field);
        for (index, container) in list(spec, field).iter().enumerate() {
            let at = list_at.index(index);
            let name = container["name"].as_str().unwrap_or_default();
            if !name.is_empty() && !names.insert(name) {
                errors.push(Error::duplicate(&at.child("name").path(), name));
            }
            mounts(container, &volumes, &at, errors);
            if field == "containers" {
                ports(container, &mut host_ports, &at, errors);
            }
        }
    }
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        host_network(spec, at, errors);
    }
}

fn template_metadata(template: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(metadata) = template.get("metadata") else { return };
    let at = at.child("metadata");
    labels(&metadata["labels"], &at.child("labels"), errors);
}

/// Volumes that stateful sets make from claims are known by the set, not by its template.
pub(super) fn unknown_mounts(errors: &mut ErrorList, claims: &[Value]) {
    let names: HashSet<&Value> = claims.iter().map(|claim| &claim["metadata"]["name"]).collect();
    errors.retain(|error| match &error.kind {
        apimachinery::field::ErrorKind::NotFound(name) => !names.contains(name),
        _ => true,
    });
}

fn mounts(container: &Value, volumes: &HashSet<&str>, at: &At<'_>, errors: &mut ErrorList) {
    let list_at = at.child("volumeMounts");
    let mut paths = HashSet::new();
    for (index, mount) in container["volumeMounts"].as_array().into_iter().flatten().enumerate() {
        let at = list_at.index(index);
        let name = mount["name"].as_str().unwrap_or_default();
        if !name.is_empty() && !volumes.contains(name) {
            errors.push(Error::not_found(&at.child("name").path(), name));
        }
        let path = mount["mountPath"].as_str().unwrap_or_default();
        if !path.is_empty() && !paths.insert(path) {
            invalid(errors, &at.child("mountPath"), &mount["mountPath"], "must be unique");
        }
        let sub_path = mount["subPath"].as_str().unwrap_or_default();
        if sub_path.starts_with('/') {
            invalid(errors, &at.child("subPath"), &mount["subPath"], "must be a relative path");
        }
        if sub_path.split('/').any(|part| part == "..") {
            invalid(errors, &at.child("subPath"), &mount["subPath"], "must not contain '..'");
        }
    }
}

/// A port of the node can be given away once.
fn ports(container: &Value, taken: &mut HashSet<String>, at: &At<'_>, errors: &mut ErrorList) {
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

fn host_network(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let list_at = at.child("containers");
    for (index, container) in list(spec, "containers").iter().enumerate() {
        let container_at = list_at.index(index);
        let ports_at = container_at.child("ports");
        for (index, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
            let host_port = &port["hostPort"];
            if !host_port.is_null() && *host_port != port["containerPort"] {
                let at = ports_at.index(index);
                invalid(
                    errors,
                    &at.child("hostPort"),
                    host_port,
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
        }
    }
}

fn container(container: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let success = |name: &str| container.get(name).and_then(|probe| probe["successThreshold"].as_i64());
    for name in ["livenessProbe", "startupProbe"] {
        if success(name).is_some_and(|count| count != 1) {
            let at = at.child(name);
            invalid(errors, &at.child("successThreshold"), &container[name]["successThreshold"], "must be 1");
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
    let subscript = ["metadata.annotations['", "metadata.labels['"].iter().any(|start| path.starts_with(start));
    if FIELDS.contains(&path) || subscript {
        return;
    }
    let known = ["metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"];
    if known.contains(&path) {
        errors.push(Error::not_supported(&at.path(), path, &FIELDS));
    } else {
        let detail = format!("error converting fieldPath: field label not supported: {path}");
        invalid(errors, at, &path.into(), &detail);
    }
}

fn env_var(variable: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(source) = object(variable, "valueFrom") else { return };
    let at = at.child("valueFrom");
    if let Some(path) =
        source.get("fieldRef").and_then(|field| field["fieldPath"].as_str()).filter(|path| !path.is_empty())
    {
        let at = at.child("fieldRef");
        field_path(path, &at.child("fieldPath"), errors);
    }
    let value = Value::Object(source.clone());
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
        _ => invalid(errors, &at, &value, "may not have more than one field specified at a time"),
    }
}

fn env_source(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let given = ["configMapRef", "secretRef"].iter().filter(|name| source.contains_key(**name)).count();
    match given {
        0 => invalid(errors, at, &"".into(), "must specify one of: `configMapRef` or `secretRef`"),
        1 => {}
        _ => invalid(errors, at, &"".into(), "may not have more than one field specified at a time"),
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

fn toleration(toleration: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let operator = text(toleration, "operator");
    if text(toleration, "key").is_empty() && operator != "Exists" {
        let value = Value::from(operator);
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        invalid(errors, &at.child("operator"), &value, detail);
    }
    if operator == "Exists" && !text(toleration, "value").is_empty() {
        let value = Value::from(text(toleration, "value"));
        invalid(errors, &at.child("operator"), &value, "value must be empty when `operator` is 'Exists'");
    }
    if toleration.contains_key("tolerationSeconds") && text(toleration, "effect") != "NoExecute" {
        let value = Value::from(text(toleration, "effect"));
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        invalid(errors, &at.child("effect"), &value, detail);
    }
}

fn volume(volume: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let mut sources = volume.keys().filter(|key| *key != "name");
    if sources.next().is_none() {
        required(errors, at, "must specify a volume type");
    }
    for source in sources {
        forbidden(errors, &at.child(source), "may not specify more than 1 volume type");
    }
}
