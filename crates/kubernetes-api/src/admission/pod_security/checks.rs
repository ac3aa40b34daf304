//! The checks of the standards, in the order in which upstream reports violations.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::validation::APPARMOR;

use super::{Level, all_containers, list, named, names, text};

pub(super) struct Check {
    pub reason: &'static str,
    pub levels: &'static [Level],
    /// Returns the details of a violation; `None` without one.
    pub run: fn(&Value, &Value) -> Option<String>,
}

const BOTH: &[Level] = &[Level::Baseline, Level::Restricted];
/// For checks that the restricted level replaces by a stricter one.
const BASELINE: &[Level] = &[Level::Baseline];
const RESTRICTED: &[Level] = &[Level::Restricted];

pub(super) const ALL: &[Check] = &[
    Check { reason: "allowPrivilegeEscalation != false", levels: RESTRICTED, run: privilege_escalation },
    Check { reason: "forbidden AppArmor profile", levels: BOTH, run: app_armor },
    Check { reason: "non-default capabilities", levels: BASELINE, run: added_capabilities },
    Check { reason: "unrestricted capabilities", levels: RESTRICTED, run: capabilities },
    Check { reason: "host namespaces", levels: BOTH, run: host_namespaces },
    Check { reason: "hostPath volumes", levels: BASELINE, run: host_paths },
    Check { reason: "hostPort", levels: BOTH, run: host_ports },
    Check { reason: "privileged", levels: BOTH, run: privileged },
    Check { reason: "procMount", levels: BOTH, run: proc_mount },
    Check { reason: "restricted volume types", levels: RESTRICTED, run: volume_types },
    Check { reason: "runAsNonRoot != true", levels: RESTRICTED, run: non_root },
    Check { reason: "runAsUser=0", levels: RESTRICTED, run: root_user },
    Check { reason: "seLinuxOptions", levels: BOTH, run: se_linux },
    Check { reason: "seccompProfile", levels: BASELINE, run: unconfined },
    Check { reason: "seccompProfile", levels: RESTRICTED, run: seccomp },
    Check { reason: "forbidden sysctls", levels: BOTH, run: sysctls },
    Check { reason: "hostProcess", levels: BOTH, run: host_process },
];

/// Capabilities that container runtimes grant by default.
const USUAL: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

const SAFE_SYSCTLS: [&str; 10] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
];

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

fn is_windows(spec: &Value) -> bool {
    spec["os"]["name"] == "windows"
}

fn context(container: &Value) -> &Value {
    &container["securityContext"]
}

/// `container "a" DEMAND`, if there are such containers.
fn demand(names: &[&str], demand: &str) -> Option<String> {
    (!names.is_empty()).then(|| format!("{} {demand}", named("container", names)))
}

fn privilege_escalation(_: &Value, spec: &Value) -> Option<String> {
    if is_windows(spec) {
        return None;
    }
    let wrong = names(spec, |container| context(container)["allowPrivilegeEscalation"] != false);
    demand(&wrong, "must set securityContext.allowPrivilegeEscalation=false")
}

fn app_armor(metadata: &Value, spec: &Value) -> Option<String> {
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    let mut wrong: Vec<String> = annotations
        .filter(|(key, _)| key.starts_with(APPARMOR))
        .filter(|(_, value)| {
            let value = value.as_str().unwrap_or_default();
            !(value.is_empty() || value == "runtime/default" || value.starts_with("localhost/"))
        })
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let unconfined = |context: &Value| context["appArmorProfile"]["type"] == "Unconfined";
    if unconfined(&spec["securityContext"]) {
        wrong.push("pod must not set AppArmor profile type to \"Unconfined\"".to_owned());
    }
    let containers = names(spec, |container| unconfined(context(container)));
    wrong.extend(demand(&containers, "must not set AppArmor profile type to \"Unconfined\""));
    (!wrong.is_empty()).then(|| wrong.join(", "))
}

/// The capabilities beyond `allowed` that containers add, and the containers.
fn added<'s>(spec: &'s Value, allowed: &[&str]) -> Option<String> {
    let mut capabilities = BTreeSet::new();
    let mut wrong: Vec<&'s str> = Vec::new();
    for container in all_containers(spec) {
        let beyond: Vec<&str> = list(&context(container)["capabilities"]["add"])
            .filter_map(Value::as_str)
            .filter(|name| !allowed.contains(name))
            .collect();
        if !beyond.is_empty() {
            wrong.push(text(container, "name"));
            capabilities.extend(beyond);
        }
    }
    let quoted: Vec<String> = capabilities.iter().map(|name| format!("{name:?}")).collect();
    demand(&wrong, &format!("must not include {} in securityContext.capabilities.add", quoted.join(", ")))
}

fn added_capabilities(_: &Value, spec: &Value) -> Option<String> {
    added(spec, &USUAL)
}

fn capabilities(_: &Value, spec: &Value) -> Option<String> {
    if is_windows(spec) {
        return None;
    }
    let keeping = names(spec, |container| !list(&context(container)["capabilities"]["drop"]).any(|name| name == "ALL"));
    let wrong: Vec<String> =
        [demand(&keeping, "must set securityContext.capabilities.drop=[\"ALL\"]"), added(spec, &["NET_BIND_SERVICE"])]
            .into_iter()
            .flatten()
            .collect();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

fn host_namespaces(_: &Value, spec: &Value) -> Option<String> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|field| spec[field] == true)
        .map(|field| format!("{field}=true"))
        .collect();
    (!shared.is_empty()).then(|| shared.join(", "))
}

fn host_paths(_: &Value, spec: &Value) -> Option<String> {
    let wrong: Vec<&str> = list(&spec["volumes"])
        .filter(|volume| volume["hostPath"].is_object())
        .map(|volume| text(volume, "name"))
        .collect();
    (!wrong.is_empty()).then(|| named("volume", &wrong))
}

fn host_ports(_: &Value, spec: &Value) -> Option<String> {
    let used = |container: &Value| -> Vec<i64> {
        list(&container["ports"]).filter_map(|port| port["hostPort"].as_i64()).filter(|port| *port != 0).collect()
    };
    let wrong = names(spec, |container| !used(container).is_empty());
    let ports: BTreeSet<i64> = all_containers(spec).flat_map(used).collect();
    let verb = if wrong.len() == 1 { "uses" } else { "use" };
    let noun = if ports.len() == 1 { "hostPort" } else { "hostPorts" };
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    demand(&wrong, &format!("{verb} {noun} {}", ports.join(", ")))
}

fn privileged(_: &Value, spec: &Value) -> Option<String> {
    let wrong = names(spec, |container| context(container)["privileged"] == true);
    demand(&wrong, "must not set securityContext.privileged=true")
}

fn proc_mount(_: &Value, spec: &Value) -> Option<String> {
    let wrong = names(spec, |container| !matches!(context(container)["procMount"].as_str(), None | Some("Default")));
    demand(&wrong, "must not set securityContext.procMount to \"Unmasked\"")
}

fn volume_types(_: &Value, spec: &Value) -> Option<String> {
    let (mut wrong, mut types) = (Vec::new(), BTreeSet::new());
    for volume in list(&spec["volumes"]) {
        let own = volume.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
        for type_ in own.filter(|field| *field != "name" && !SAFE_VOLUMES.contains(field)) {
            wrong.push(text(volume, "name"));
            types.insert(format!("{type_:?}"));
        }
    }
    let (verb, noun) = (if wrong.len() == 1 { "uses" } else { "use" }, if types.len() == 1 { "type" } else { "types" });
    let types: Vec<String> = types.into_iter().collect();
    (!wrong.is_empty())
        .then(|| format!("{} {verb} restricted volume {noun} {}", named("volume", &wrong), types.join(", ")))
}

fn non_root(_: &Value, spec: &Value) -> Option<String> {
    let pod = &spec["securityContext"]["runAsNonRoot"];
    let refusing = names(spec, |container| context(container)["runAsNonRoot"] == false);
    if *pod == false || !refusing.is_empty() {
        let mut wrong = Vec::new();
        if *pod == false {
            wrong.push("pod must not set securityContext.runAsNonRoot=false".to_owned());
        }
        wrong.extend(demand(&refusing, "must not set securityContext.runAsNonRoot=false"));
        return Some(wrong.join(", "));
    }
    let silent = names(spec, |container| context(container)["runAsNonRoot"] != true && *pod != true);
    let message = demand(&silent, "must set securityContext.runAsNonRoot=true")?;
    Some(format!("pod or {message}"))
}

fn root_user(_: &Value, spec: &Value) -> Option<String> {
    let mut wrong = Vec::new();
    if spec["securityContext"]["runAsUser"] == 0 {
        wrong.push("pod must not set runAsUser=0".to_owned());
    }
    let containers = names(spec, |container| context(container)["runAsUser"] == 0);
    wrong.extend(demand(&containers, "must not set runAsUser=0"));
    (!wrong.is_empty()).then(|| wrong.join(", "))
}

fn se_linux(_: &Value, spec: &Value) -> Option<String> {
    const TYPES: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
    let mut details = BTreeSet::new();
    let mut wrong = |context: &Value| {
        let options = &context["seLinuxOptions"];
        let before = details.len();
        let type_ = text(options, "type");
        if !TYPES.contains(&type_) {
            details.insert(format!("type {type_:?}"));
        }
        for field in ["user", "role"] {
            if !text(options, field).is_empty() {
                details.insert(format!("{field} may not be set"));
            }
        }
        details.len() > before
    };
    let pod = wrong(&spec["securityContext"]);
    let containers: Vec<&str> = all_containers(spec)
        .filter(|container| wrong(context(container)))
        .map(|container| text(container, "name"))
        .collect();
    let mut offenders = Vec::new();
    if pod {
        offenders.push("pod".to_owned());
    }
    if !containers.is_empty() {
        offenders.push(named("container", &containers));
    }
    let details: Vec<String> = details.into_iter().collect();
    (!offenders.is_empty()).then(|| {
        format!("{} set forbidden securityContext.seLinuxOptions: {}", offenders.join(" and "), details.join("; "))
    })
}

fn unconfined(_: &Value, spec: &Value) -> Option<String> {
    let is = |context: &Value| context["seccompProfile"]["type"] == "Unconfined";
    let mut offenders = Vec::new();
    if is(&spec["securityContext"]) {
        offenders.push("pod".to_owned());
    }
    let containers = names(spec, |container| is(context(container)));
    if !containers.is_empty() {
        offenders.push(named("container", &containers));
    }
    (!offenders.is_empty()).then(|| {
        format!("{} must not set securityContext.seccompProfile.type to \"Unconfined\"", offenders.join(" and "))
    })
}

fn seccomp(metadata: &Value, spec: &Value) -> Option<String> {
    if is_windows(spec) {
        return None;
    }
    if let Some(wrong) = unconfined(metadata, spec) {
        return Some(wrong);
    }
    let sets =
        |context: &Value| matches!(context["seccompProfile"]["type"].as_str(), Some("RuntimeDefault" | "Localhost"));
    if sets(&spec["securityContext"]) {
        return None;
    }
    let silent = names(spec, |container| !sets(context(container)));
    let message =
        demand(&silent, "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"")?;
    Some(format!("pod or {message}"))
}

fn sysctls(_: &Value, spec: &Value) -> Option<String> {
    let wrong: Vec<&str> = list(&spec["securityContext"]["sysctls"])
        .map(|sysctl| text(sysctl, "name"))
        .filter(|name| !SAFE_SYSCTLS.contains(name))
        .collect();
    (!wrong.is_empty()).then(|| wrong.join(", "))
}

fn host_process(_: &Value, spec: &Value) -> Option<String> {
    let is = |context: &Value| context["windowsOptions"]["hostProcess"] == true;
    let mut offenders = Vec::new();
    if is(&spec["securityContext"]) {
        offenders.push("pod".to_owned());
    }
    let containers = names(spec, |container| is(context(container)));
    if !containers.is_empty() {
        offenders.push(named("container", &containers));
    }
    (!offenders.is_empty())
        .then(|| format!("{} must not set securityContext.windowsOptions.hostProcess=true", offenders.join(" and ")))
}
