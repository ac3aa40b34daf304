//! Pods and pod templates: consistency among their fields. Containers are validated in `containers`, volumes in
//! `volumes`, scheduling constraints in `placement`.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use serde_json::Value;

use super::at::At;
use super::checks::{descending_path, labels};
use super::containers::Mounts;
use super::table::Function;
use super::{Object, containers, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("apparmor_profile", apparmor_profile),
    ("pod", pod),
    ("pod_security", pod_security),
    ("pod_spec", pod_spec),
    ("seccomp_profile", seccomp_profile),
    ("template_metadata", template_metadata),
    ("template_spec", template_spec),
];

fn pod_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let sound = super::volumes::in_pod(spec, at, errors);
    let mounts = Mounts { volumes: &sound };
    let names = |field: &str| list(spec, field).iter().filter_map(|item| item["name"].as_str());
    let mut seen = HashSet::new();
    for (field, others) in [
        ("containers", &[][..]),
        ("initContainers", &["containers"]),
        ("ephemeralContainers", &["containers", "initContainers"]),
    ] {
        seen.clear();
        seen.extend(others.iter().flat_map(|other| names(other)).filter(|name| !name.is_empty()));
        let list_at = at.child(field);
        for (index, container) in list(spec, field).iter().enumerate() {
            let at = list_at.index(index);
            let name = container["name"].as_str().unwrap_or_default();
            if !name.is_empty() && !seen.insert(name) {
                errors.push(Error::duplicate(&at.child("name").path(), name));
            }
            let Some(container) = container.as_object() else { continue };
            mounts.check(container, &at, errors);
            containers::of_kind(field, container, &list_at, &at, errors);
            containers::in_its_pod(container, spec, &at, errors);
        }
    }
    containers::host_ports(list(spec, "containers"), &at.child("containers"), errors);
    super::claims::of_pod(list(spec, "resourceClaims"), &at.child("resourceClaims"), errors);
    super::pod_resources::whole(spec, &at.child("resources"), errors);
    debugging(spec, at, errors);
    namespaces_of_host(spec, at, errors);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        host_network(spec, at, errors);
    }
    user_namespace(spec, at, errors);
    names_resolved(spec, at, errors);
    gates(spec, at, errors);
    host_aliases(spec, at, errors);
    super::operating_system::check(spec, at, errors);
    super::resources::overhead(spec, at, errors);
    super::placement::spread(list(spec, "topologySpreadConstraints"), &at.child("topologySpreadConstraints"), errors);
}

/// Checks of pods that do not apply to pod templates.
fn pod(pod: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(spec) = object(pod, "spec") else { return };
    let at = at.child("spec");
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        let list_at = at.child(field);
        for (index, container) in list(spec, field).iter().enumerate() {
            let image = container["image"].as_str().unwrap_or_default();
            if image.trim() != image {
                let at = list_at.index(index);
                invalid(errors, &at.child("image"), &image.into(), "must not have leading or trailing whitespace");
            }
        }
    }
    if text(spec, "serviceAccountName").is_empty() {
        let list_at = at.child("volumes");
        for (index, volume) in list(spec, "volumes").iter().enumerate() {
            let (at, projected) = (list_at.index(index), "projected");
            let at = at.child(projected);
            let at_sources = at.child("sources");
            let sources = volume[projected]["sources"].as_array().into_iter().flatten();
            for (index, _) in sources.enumerate().filter(|(_, source)| source["serviceAccountToken"].is_object()) {
                let detail = "must not be specified when serviceAccountName is not set";
                forbidden(errors, &at_sources.index(index).child("serviceAccountToken"), detail);
            }
        }
    }
}

/// The target container of an ephemeral container must exist.
fn debugging(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_list = at.child("ephemeralContainers");
    let others = || list(spec, "containers").iter().chain(list(spec, "initContainers"));
    for (index, container) in list(spec, "ephemeralContainers").iter().enumerate() {
        let target = container["targetContainerName"].as_str().unwrap_or_default();
        if !target.is_empty() && !others().any(|other| other["name"] == target) {
            errors.push(Error::not_found(&at_list.index(index).child("targetContainerName").path(), target));
        }
    }
}

/// Host namespaces exclude settings that depend on separate ones.
fn namespaces_of_host(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let is = |field: &str| spec.get(field) == Some(&Value::Bool(true));
    let at = at.child("securityContext");
    if is("hostPID") && is("shareProcessNamespace") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        invalid(errors, &at.child("shareProcessNamespace"), &true.into(), detail);
    }
    let Some(context) = object(spec, "securityContext") else { return };
    let at_list = at.child("sysctls");
    for (index, sysctl) in list(context, "sysctls").iter().enumerate() {
        let name = sysctl["name"].as_str().unwrap_or_default();
        let shared = match namespace_of(name) {
            Some(field) if is(field) => field,
            _ => continue,
        };
        let detail = format!("may not be specified when '{shared}' is true");
        invalid(errors, &at_list.index(index).child("name"), &name.into(), &detail);
    }
}

/// The pod field that shares a kernel parameter's namespace with the node.
fn namespace_of(sysctl: &str) -> Option<&'static str> {
    const IPC: [&str; 4] = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];
    // A name may be written with slashes for dots; the first separator decides.
    let dotted = match sysctl.find(['.', '/']) {
        Some(at) if sysctl[at..].starts_with('/') => sysctl
            .chars()
            .map(|c| {
                if c == '/' {
                    '.'
                } else if c == '.' {
                    '/'
                } else {
                    c
                }
            })
            .collect(),
        _ => sysctl.to_owned(),
    };
    if dotted.starts_with("net.") {
        return Some("hostNetwork");
    }
    IPC.iter().any(|start| dotted.starts_with(start)).then_some("hostIPC")
}

/// Upstream omits `metadata` from these paths.
pub(super) fn template_metadata(template: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(metadata) = template.get("metadata") else { return };
    labels(&metadata["labels"], &at.child("labels"), errors);
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    let pairs = annotations.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    errors.extend(names::validate_annotation_pairs(pairs, || at.child("annotations").path()));
}

fn template_spec(template: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let debugs = object(template, "spec").is_some_and(|spec| !list(spec, "ephemeralContainers").is_empty());
    if debugs {
        let at = at.child("spec");
        forbidden(errors, &at.child("ephemeralContainers"), "ephemeral containers not allowed in pod template");
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
                let detail = "must match `containerPort` when `hostNetwork` is true";
                invalid(errors, &at.child("hostPort"), host_port, detail);
            }
        }
    }
}

/// User namespaces exclude host namespaces.
fn user_namespace(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if spec.get("hostUsers") != Some(&Value::Bool(false)) {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.get(field) == Some(&Value::Bool(true)) {
            forbidden(errors, &at.child(shown), "when `hostUsers` is false");
        }
    }
}

/// The maximum number of name servers, of search paths, and of their characters including separators.
const MAX_NAME_SERVERS: usize = 3;
const MAX_SEARCH_PATHS: usize = 32;
const MAX_SEARCH_LETTERS: usize = 2048;

fn names_resolved(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let config = object(spec, "dnsConfig");
    let at = at.child("dnsConfig");
    let at_servers = at.child("nameservers");
    let nothing = Object::new();
    if text(spec, "dnsPolicy") == "None" {
        let Some(config) = config else {
            return required(errors, &at, "must provide `dnsConfig` when `dnsPolicy` is None");
        };
        if list(config, "nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return required(errors, &at_servers, detail);
        }
    }
    let config = config.unwrap_or(&nothing);
    let servers = list(config, "nameservers");
    if servers.len() > MAX_NAME_SERVERS {
        let detail = format!("must not have more than {MAX_NAME_SERVERS} nameservers");
        invalid(errors, &at_servers, &Value::from(servers.to_vec()), &detail);
    }
    for (index, server) in servers.iter().enumerate() {
        super::network::address(server, &at_servers.index(index), errors);
    }
    let searches = list(config, "searches");
    let at_searches = at.child("searches");
    let whole = Value::from(searches.to_vec());
    if searches.len() > MAX_SEARCH_PATHS {
        let detail = format!("must not have more than {MAX_SEARCH_PATHS} search paths");
        invalid(errors, &at_searches, &whole, &detail);
    }
    let letters: usize = searches.iter().filter_map(Value::as_str).map(|path| path.len() + 1).sum();
    if letters.saturating_sub(1) > MAX_SEARCH_LETTERS {
        let detail =
            format!("must not have more than {MAX_SEARCH_LETTERS} characters (including spaces) in the search list");
        invalid(errors, &at_searches, &whole, &detail);
    }
    for (index, search) in searches.iter().enumerate() {
        let search = search.as_str().unwrap_or_default();
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            for complaint in apimachinery::names::is_dns1123_subdomain_with_underscore(search) {
                invalid(errors, &at_searches.index(index), &search.into(), &complaint);
            }
        }
    }
    let at_options = at.child("options");
    for (index, option) in list(config, "options").iter().enumerate() {
        if option["name"].as_str().unwrap_or_default().is_empty() {
            required(errors, &at_options.index(index), "must not be empty");
        }
    }
}

fn gates(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_gates = at.child("readinessGates");
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let type_ = gate["conditionType"].as_str().unwrap_or_default();
        let at = at_gates.index(index);
        for complaint in apimachinery::names::is_qualified_name(type_) {
            invalid(errors, &at.child("conditionType"), &type_.into(), &complaint);
        }
    }
    let at_gates = at.child("schedulingGates");
    let mut seen = HashSet::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let name = gate["name"].as_str().unwrap_or_default();
        let at = at_gates.index(index);
        for complaint in apimachinery::names::is_qualified_name(name) {
            invalid(errors, &at, &name.into(), &complaint);
        }
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at.path(), name));
        }
    }
}

fn host_aliases(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_list = at.child("hostAliases");
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let at = at_list.index(index);
        super::network::address(&alias["ip"], &at.child("ip"), errors);
        let at_names = at.child("hostnames");
        for (index, name) in alias["hostnames"].as_array().into_iter().flatten().enumerate() {
            for complaint in name.as_str().map(apimachinery::names::is_dns1123_subdomain).unwrap_or_default() {
                invalid(errors, &at_names.index(index), name, &complaint);
            }
        }
    }
}

fn pod_security(context: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_groups = at.child("supplementalGroups");
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        if group.as_i64().is_some_and(|group| !(0..=i64::from(i32::MAX)).contains(&group)) {
            let detail = format!("must be between 0 and {}, inclusive", i32::MAX);
            invalid(errors, &at_groups.index(index), group, &detail);
        }
    }
    let at_sysctls = at.child("sysctls");
    let mut seen = HashSet::new();
    for (index, sysctl) in list(context, "sysctls").iter().enumerate() {
        let name = sysctl["name"].as_str().unwrap_or_default();
        let at = at_sysctls.index(index);
        let at = at.child("name");
        if name.is_empty() {
            required(errors, &at, "");
        } else if !is_sysctl(name) {
            let detail = "must have at most 253 characters and match regex \
                          ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            invalid(errors, &at, &name.into(), detail);
        } else if !seen.insert(name) {
            errors.push(Error::duplicate(&at.path(), name));
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() <= 253
        && name.split(['.', '/']).all(|part| {
            let bytes = part.as_bytes();
            let inner = bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'));
            edge(bytes.first()) && edge(bytes.last()) && inner
        })
}

fn seccomp_profile(profile: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_file = at.child("localhostProfile");
    let type_ = text(profile, "type");
    match (type_, profile.get("localhostProfile")) {
        ("Localhost", None) => required(errors, &at_file, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(file)) => descending_path(file, &at_file, errors),
        (_, Some(file)) => {
            let shown = format!(r#"{{"Type":{},"LocalhostProfile":{file}}}"#, Value::from(type_));
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(Error::invalid(&at_file.path(), Value::Object(profile.clone()), detail).shown_as(shown));
        }
        _ => {}
    }
}

fn apparmor_profile(profile: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_file = at.child("localhostProfile");
    match (text(profile, "type"), profile.get("localhostProfile").map(|file| file.as_str().unwrap_or_default())) {
        ("Localhost", None | Some("")) => required(errors, &at_file, "must be set when AppArmor type is Localhost"),
        ("Localhost", Some(file)) if file.trim() != file => {
            invalid(errors, &at_file, &file.into(), "must not be padded with whitespace");
        }
        ("RuntimeDefault" | "Unconfined", Some(file)) => {
            invalid(errors, &at_file, &file.into(), "can only be set when AppArmor type is Localhost");
        }
        _ => {}
    }
}
