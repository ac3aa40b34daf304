//! Pods, and templates of pods.

use std::collections::{HashMap, HashSet};

use apimachinery::field::{Path, go_quoted};
use serde_json::Value;

use super::{Texts, addresses, fractions, list, nodes, text, volumes};
use crate::validation::APPARMOR;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const BYTES: [&str; 2] = ["memory", "ephemeral-storage"];

const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];

const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const OLD_SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const OLD_APPARMOR: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";

pub(super) fn pod(pod: &Value, texts: &mut Texts) {
    of(pod, &Path::root(), false, texts);
}

pub(super) fn template(template: &Value, at: &Path, texts: &mut Texts) {
    of(template, at, true, texts);
}

/// Comparisons of ports with each other, some milliseconds.
const MAX_COMPARISONS: usize = 1 << 20;

/// All containers, with their paths.
fn containers<'p>(spec: &'p Value, at: &Path) -> impl Iterator<Item = (&'p Value, Path)> {
    let lists = ["initContainers", "containers", "ephemeralContainers"].map(|field| (&spec[field], at.child(field)));
    lists.into_iter().flat_map(|(items, at)| {
        list(items).enumerate().map(move |(index, item)| (item, at.index(index))).collect::<Vec<_>>()
    })
}

fn of(pod: &Value, at: &Path, is_template: bool, texts: &mut Texts) {
    let (spec, annotations) = (&pod["spec"], &pod["metadata"]["annotations"]);
    let (spec_at, annotations_at) = (at.child("spec"), at.child("metadata").child("annotations"));
    placement(spec, &spec_at, texts);
    for (annotation, why) in OLD_ANNOTATIONS {
        if annotations.get(annotation).is_some() {
            texts.at(&annotations_at.key(annotation), why);
        }
    }
    volumes::of_pod(&spec["volumes"], &spec_at.child("volumes"), texts);
    repeated(&spec["hostAliases"], "ip", &spec_at.child("hostAliases"), texts);
    let secrets_at = spec_at.child("imagePullSecrets");
    repeated(&spec["imagePullSecrets"], "name", &secrets_at, texts);
    for (index, secret) in list(&spec["imagePullSecrets"]).enumerate() {
        if text(secret, "name").is_empty() {
            texts.at(&secrets_at.index(index).child("name"), "invalid empty name \"\"");
        }
    }
    fractions(&spec["overhead"], &BYTES, &spec_at.child("overhead"), texts);
    profiles(spec, annotations, &annotations_at, is_template, texts);
    for (item, at) in containers(spec, &spec_at) {
        container(item, &at, texts);
    }
    ports(spec, &spec_at, texts);
    port_names(spec, &spec_at, texts);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        texts.at(&spec_at.child("terminationGracePeriodSeconds"), why);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        affinity(&spec["affinity"][kind], &spec_at.child("affinity").child(kind), texts);
    }
    for (index, server) in list(&spec["dnsConfig"]["nameservers"]).enumerate() {
        let at = spec_at.child("dnsConfig").child("nameservers").index(index);
        addresses::address(server.as_str().unwrap_or_default(), &at, texts);
    }
    for (index, alias) in list(&spec["hostAliases"]).enumerate() {
        addresses::address(text(alias, "ip"), &spec_at.child("hostAliases").index(index).child("ip"), texts);
    }
}

/// Terms without a selector match no pod; an empty selector matches all.
fn absent_selector(term: &Value, at: &Path, texts: &mut Texts) {
    if term["labelSelector"].is_null() {
        texts.at(&at.child("labelSelector"), "a null labelSelector results in matching no pod");
    }
}

fn placement(spec: &Value, at: &Path, texts: &mut Texts) {
    for (label, why) in nodes::old_keys(&spec["nodeSelector"]) {
        texts.at(&at.child("nodeSelector").key(label), why);
    }
    let (affinity, affinity_at) = (&spec["affinity"]["nodeAffinity"], at.child("affinity").child("nodeAffinity"));
    for (index, term) in list(&affinity[REQUIRED]["nodeSelectorTerms"]).enumerate() {
        nodes::term(term, &affinity_at.child(REQUIRED).child("nodeSelectorTerms").index(index), texts);
    }
    for (index, term) in list(&affinity[PREFERRED]).enumerate() {
        let at = affinity_at.child(PREFERRED).index(index).child("preference");
        nodes::preference(&term["preference"], &at, texts);
    }
    for (index, constraint) in list(&spec["topologySpreadConstraints"]).enumerate() {
        let at = at.child("topologySpreadConstraints").index(index);
        nodes::key(text(constraint, "topologyKey"), &at.child("topologyKey"), texts);
        absent_selector(constraint, &at, texts);
    }
}

fn affinity(affinity: &Value, at: &Path, texts: &mut Texts) {
    for (index, term) in list(&affinity[REQUIRED]).enumerate() {
        absent_selector(term, &at.child(REQUIRED).index(index), texts);
    }
    for (index, weighted) in list(&affinity[PREFERRED]).enumerate() {
        let at = at.child(PREFERRED).index(index).child("podAffinityTerm");
        absent_selector(&weighted["podAffinityTerm"], &at, texts);
    }
}

fn repeated(items: &Value, field: &str, at: &Path, texts: &mut Texts) {
    let mut seen = HashSet::new();
    for (index, item) in list(items).enumerate() {
        let value = text(item, field);
        if !seen.insert(value) {
            texts.at(&at.index(index).child(field), format!("duplicate {field} {}", go_quoted(value)));
        }
    }
}

/// Profiles in annotations, without the fields that replace them.
fn profiles(spec: &Value, annotations: &Value, at: &Path, is_template: bool, texts: &mut Texts) {
    let has = |object: &Value, field: &str| object["securityContext"].get(field).is_some();
    if !has(spec, "seccompProfile") && annotations.get(SECCOMP_OF_POD).is_some() {
        texts.at(&at.key(SECCOMP_OF_POD), OLD_SECCOMP);
    }
    for (container, _) in containers(spec, &Path::root()) {
        let name = text(container, "name");
        let seccomp = format!("{SECCOMP_OF_CONTAINER}{name}");
        if !has(container, "seccompProfile") && annotations.get(&seccomp).is_some() {
            texts.at(&at.key(&seccomp), OLD_SECCOMP);
        }
        // Profiles of pods are copied to the fields before.
        let apparmor = format!("{APPARMOR}{name}");
        let has_field = has(spec, "appArmorProfile") || has(container, "appArmorProfile");
        if is_template && !has_field && annotations.get(&apparmor).is_some() {
            texts.at(&at.key(&apparmor), OLD_APPARMOR);
        }
    }
}

fn container(container: &Value, at: &Path, texts: &mut Texts) {
    for resource in BYTES {
        for part in ["limits", "requests"] {
            fractions(&container["resources"][part], &[resource], &at.child("resources").child(part), texts);
        }
    }
    let mut seen = HashSet::new();
    for (index, variable) in list(&container["env"]).enumerate() {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        let reference = format!("$({name})");
        // A variable that refers to its previous value is meant to replace it.
        let builds_on = value != reference && value.contains(&reference) && variable["valueFrom"].is_null();
        if !seen.insert(name) && !builds_on {
            let why = "which may be dropped when using apply";
            texts.at(&at.child("env").index(index), format!("hides previous definition of {}, {why}", go_quoted(name)));
        }
    }
}

/// A port, with its path.
struct Port<'p> {
    at: Path,
    host_port: i64,
    host_ip: &'p str,
}

impl Port<'_> {
    /// How a later port relates to this one, if both use the same port of the pod.
    fn relation(&self, later: &Self) -> Option<&'static str> {
        let is_ambiguous = self.host_ip.is_empty() != later.host_ip.is_empty();
        match (self.host_port, later.host_port) {
            (one, other) if one == other && self.host_ip == later.host_ip => Some("duplicate"),
            (0, _) | (_, 0) => Some("overlapping"),
            (one, other) if one == other && is_ambiguous => Some("dangerously ambiguous"),
            _ => None,
        }
    }
}

fn each_port<'p>(spec: &'p Value, at: &Path) -> impl Iterator<Item = (&'p Value, Path)> {
    containers(spec, at).flat_map(|(container, at)| {
        let at = at.child("ports");
        list(&container["ports"]).enumerate().map(move |(index, port)| (port, at.index(index)))
    })
}

fn ports(spec: &Value, at: &Path, texts: &mut Texts) {
    let mut known: HashMap<(i64, &str), Vec<Port<'_>>> = HashMap::new();
    let mut left = MAX_COMPARISONS;
    for (port, at) in each_port(spec, at) {
        let number = |field: &str| port[field].as_i64().unwrap_or_default();
        let (name, container_port, protocol) = (text(port, "name"), number("containerPort"), text(port, "protocol"));
        let port = Port { at, host_port: number("hostPort"), host_ip: text(port, "hostIP") };
        let others = known.entry((container_port, protocol)).or_default();
        if !port.host_ip.is_empty() && port.host_port == 0 {
            let shown = format!(
                "{{Name:{name} HostPort:0 ContainerPort:{container_port} Protocol:{protocol} HostIP:{}}}",
                port.host_ip
            );
            texts.at(&port.at, format!("hostIP set without hostPort: {shown}"));
        }
        left = left.saturating_sub(others.len());
        if texts.is_full() || left == 0 {
            return;
        }
        for other in others.iter() {
            if let Some(relation) = other.relation(&port).filter(|_| !texts.is_full()) {
                texts.at(&port.at, format!("{relation} port definition with {}", other.at));
            }
        }
        others.push(port);
    }
}

fn port_names(spec: &Value, at: &Path, texts: &mut Texts) {
    let mut known: HashMap<&str, Path> = HashMap::new();
    for (port, at) in each_port(spec, at) {
        let name = text(port, "name");
        if name.is_empty() {
            continue;
        }
        match known.get(name) {
            Some(other) => {
                let why = format!("services and probes that select ports by name will use {other}");
                texts.at(&at, format!("duplicate port name {} with {other}, {why}", go_quoted(name)));
            }
            None => drop(known.insert(name, at)),
        }
    }
}
