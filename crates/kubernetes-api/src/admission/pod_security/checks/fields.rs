//! Rules about fields with lists of allowed values.

use std::collections::BTreeSet;

use apimachinery::field::go_quoted;
use serde_json::Value;

use super::{APPARMOR, Found, Offenders, Pod, context, demand, found, list, names, plural, quoted, text};

/// Types of volumes that the restricted level allows.
const SAFE_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Types of volumes that messages name.
const OTHER_VOLUMES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
    "unknown",
];

/// Sysctls that affect their pod only, and the release since which they are allowed.
const SAFE_SYSCTLS: [(u32, &str); 12] = [
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
];

/// SELinux types of unprivileged containers, and the release since which they are allowed.
const SE_LINUX_TYPES: [(u32, &str); 5] =
    [(0, ""), (0, "container_t"), (0, "container_init_t"), (0, "container_kvm_t"), (31, "container_engine_t")];

fn allows(known: &[(u32, &str)], value: &str, release: u32) -> bool {
    known.iter().any(|(since, text)| *text == value && *since <= release)
}

pub(super) fn volume_types(pod: &Pod<'_>) -> Found {
    let (mut wrong, mut types) = (Vec::new(), BTreeSet::new());
    let is_safe = |volume: &&Value| SAFE_VOLUMES.iter().any(|field| volume.get(field).is_some());
    for volume in list(&pod.spec["volumes"]).filter(|volume| !is_safe(volume)) {
        wrong.push(text(volume, "name"));
        let known = OTHER_VOLUMES.iter().find(|field| volume.get(field).is_some());
        types.insert(known.copied().unwrap_or("unknown"));
    }
    let (verb, noun) = (if wrong.len() == 1 { "uses" } else { "use" }, plural("restricted volume type", types.len()));
    let volumes = || format!("{} {}", plural("volume", wrong.len()), quoted(wrong.iter().copied()));
    let detail = (!wrong.is_empty()).then(|| format!("{} {verb} {noun} {}", volumes(), quoted(types)));
    found("restricted volume types", detail)
}

pub(super) fn app_armor(pod: &Pod<'_>) -> Found {
    let mut values: BTreeSet<&str> = BTreeSet::new();
    let offenders = Offenders::of(pod, |context| {
        let profile = &context["appArmorProfile"];
        let is_wrong = profile.is_object() && !matches!(text(profile, "type"), "RuntimeDefault" | "Localhost");
        values.extend(is_wrong.then(|| text(profile, "type")));
        is_wrong
    });
    let annotations = pod.metadata["annotations"].as_object().into_iter().flatten();
    let mut annotations: Vec<String> = annotations
        .filter(|(key, _)| key.starts_with(APPARMOR))
        .filter_map(|(key, value)| {
            let value = value.as_str().unwrap_or_default();
            let is_allowed = value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
            (!is_allowed).then(|| format!("{key}={}", go_quoted(value)))
        })
        .collect();
    annotations.sort();
    let mut offenders = offenders.list();
    offenders.extend((!annotations.is_empty()).then(|| plural("annotation", annotations.len())));
    if offenders.is_empty() {
        return None;
    }
    let values: Vec<&str> = values.into_iter().chain(annotations.iter().map(String::as_str)).collect();
    let reason = if values.len() == 1 { "forbidden AppArmor profile" } else { "forbidden AppArmor profiles" };
    let offenders = offenders.join(" and ");
    found(reason, Some(format!("{offenders} must not set AppArmor profile type to {}", quoted(values))))
}

pub(super) fn se_linux(pod: &Pod<'_>, release: u32) -> Found {
    let mut types = BTreeSet::new();
    let (mut sets_user, mut sets_role) = (false, false);
    let offenders = Offenders::of(pod, |context| {
        let options = &context["seLinuxOptions"];
        let type_ = text(options, "type");
        let is_type_allowed = allows(&SE_LINUX_TYPES, type_, release);
        types.extend((!is_type_allowed).then_some(type_));
        let [user, role] = ["user", "role"].map(|field| !text(options, field).is_empty());
        (sets_user, sets_role) = (sets_user || user, sets_role || role);
        !is_type_allowed || user || role
    });
    let offenders = offenders.text()?;
    let mut wrong = Vec::new();
    if !types.is_empty() {
        wrong.push(format!("{} {}", plural("type", types.len()), quoted(types)));
    }
    wrong.extend(sets_user.then(|| "user may not be set".to_owned()));
    wrong.extend(sets_role.then(|| "role may not be set".to_owned()));
    let wrong = wrong.join("; ");
    found("seLinuxOptions", Some(format!("{offenders} set forbidden securityContext.seLinuxOptions: {wrong}")))
}

const SECCOMP: &str = "seccompProfile";
const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// The annotation that had the seccomp profile of a container before the field existed.
pub(in crate::admission::pod_security) fn seccomp_annotation(container: &Value) -> String {
    format!("{SECCOMP_OF_CONTAINER}{}", text(container, "name"))
}

pub(super) fn seccomp_annotations(pod: &Pod<'_>) -> Found {
    let annotations = &pod.metadata["annotations"];
    let of_containers = super::all_containers(pod.spec).map(seccomp_annotation);
    let wrong: BTreeSet<String> = std::iter::once(SECCOMP_OF_POD.to_owned())
        .chain(of_containers)
        .filter_map(|key| {
            let value = annotations[&key].as_str()?;
            let is_allowed = matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
            (!is_allowed).then(|| format!("{key}={}", go_quoted(value)))
        })
        .collect();
    let noun = plural("annotation", wrong.len());
    let wrong: Vec<String> = wrong.into_iter().collect();
    found(SECCOMP, (!wrong.is_empty()).then(|| format!("forbidden {noun} {}", wrong.join(", "))))
}

fn has_seccomp(context: &Value) -> bool {
    matches!(context["seccompProfile"]["type"].as_str(), Some("RuntimeDefault" | "Localhost"))
}

pub(super) fn unconfined(pod: &Pod<'_>) -> Found {
    let mut types = BTreeSet::new();
    let offenders = Offenders::of(pod, |context| {
        let is_wrong = context["seccompProfile"].is_object() && !has_seccomp(context);
        types.extend(is_wrong.then(|| text(&context["seccompProfile"], "type")));
        is_wrong
    });
    let offenders = offenders.text()?;
    let types = quoted(types);
    found(SECCOMP, Some(format!("{offenders} must not set securityContext.seccompProfile.type to {types}")))
}

pub(super) fn seccomp(pod: &Pod<'_>) -> Found {
    if let Some(wrong) = unconfined(pod) {
        return Some(wrong);
    }
    if has_seccomp(context(pod.spec)) {
        return None;
    }
    let silent = names(pod, |container| !has_seccomp(context(container)));
    let detail = demand(&silent, "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"");
    found(SECCOMP, detail.map(|detail| format!("pod or {detail}")))
}

pub(super) fn sysctls(pod: &Pod<'_>, release: u32) -> Found {
    let set = list(&context(pod.spec)["sysctls"]).map(|sysctl| text(sysctl, "name"));
    let wrong: Vec<&str> = set.filter(|name| !allows(&SAFE_SYSCTLS, name, release)).collect();
    found("forbidden sysctls", (!wrong.is_empty()).then(|| wrong.join(", ")))
}
