//! The rules of the standards, with the releases that changed them, in the order in which upstream reports violations:
//! those of the baseline level, then those of the restricted one, each by their names.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Level, Policy, Version};
use crate::admission::{list, text};
use crate::validation::APPARMOR;

mod containers;
mod fields;

pub(super) use fields::seccomp_annotation;

use containers::{Offenders, all_containers, context, demand, names, plural, quoted};
use fields::{app_armor, se_linux, seccomp, seccomp_annotations, sysctls, unconfined, volume_types};

/// A rule that a pod violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub reason: &'static str,
    /// The offending fields; may be empty.
    pub detail: String,
}

pub(super) struct Pod<'p> {
    metadata: &'p Value,
    spec: &'p Value,
}

type Found = Option<Violation>;
type Run = fn(&Pod<'_>) -> Found;

struct Check {
    level: Level,
    /// The forms of the rule, each with the minor release since which it applies, in ascending order.
    since: &'static [(u32, Run)],
    /// The stricter rule of the restricted level that replaces it, and the release since which it does.
    replaced: Option<u32>,
}

const fn baseline(since: &'static [(u32, Run)]) -> Check {
    Check { level: Level::Baseline, since, replaced: None }
}

const fn replaced(release: u32, since: &'static [(u32, Run)]) -> Check {
    Check { level: Level::Baseline, since, replaced: Some(release) }
}

const fn restricted(since: &'static [(u32, Run)]) -> Check {
    Check { level: Level::Restricted, since, replaced: None }
}

const ALL: &[Check] = &[
    baseline(&[(0, app_armor)]),
    replaced(22, &[(0, added_capabilities)]),
    baseline(&[(0, host_namespaces)]),
    replaced(0, &[(0, host_paths)]),
    baseline(&[(0, host_ports)]),
    baseline(&[(34, probe_hosts)]),
    baseline(&[(0, privileged)]),
    replaced(35, &[(0, proc_mount), (35, |pod| unless_user_namespace(pod, proc_mount))]),
    baseline(&[(0, |pod| se_linux(pod, 0)), (31, |pod| se_linux(pod, 31))]),
    replaced(19, &[(0, seccomp_annotations), (19, unconfined)]),
    baseline(&[
        (0, |pod| sysctls(pod, 0)),
        (27, |pod| sysctls(pod, 27)),
        (29, |pod| sysctls(pod, 29)),
        (32, |pod| sysctls(pod, 32)),
    ]),
    baseline(&[(0, host_process)]),
    restricted(&[(8, privilege_escalation), (25, |pod| unless_windows(pod, privilege_escalation))]),
    restricted(&[(22, capabilities), (25, |pod| unless_windows(pod, capabilities))]),
    restricted(&[(35, proc_mount)]),
    restricted(&[(0, volume_types)]),
    restricted(&[(0, non_root), (35, |pod| unless_user_namespace(pod, non_root))]),
    restricted(&[(23, root_user), (35, |pod| unless_user_namespace(pod, root_user))]),
    restricted(&[(19, seccomp), (25, |pod| unless_windows(pod, seccomp))]),
];

impl Check {
    fn form(&self, policy: &Policy) -> Option<Run> {
        let is_at_least = |release: u32| policy.version >= Version::Minor(release);
        let is_replaced = policy.level == Level::Restricted && self.replaced.is_some_and(is_at_least);
        let applies = self.level <= policy.level && !is_replaced;
        let forms = self.since.iter().rev().filter(|_| applies);
        forms.into_iter().find(|(release, _)| is_at_least(*release)).map(|(_, run)| *run)
    }
}

pub(super) fn run(policy: &Policy, metadata: &Value, spec: &Value) -> Vec<Violation> {
    let pod = Pod { metadata, spec };
    ALL.iter().filter_map(|check| check.form(policy)?(&pod)).collect()
}

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

fn found(reason: &'static str, detail: Option<String>) -> Found {
    detail.map(|detail| Violation { reason, detail })
}

fn unless_windows(pod: &Pod<'_>, run: Run) -> Found {
    if pod.spec["os"]["name"] == "windows" { None } else { run(pod) }
}

/// A pod in a user namespace has no rights of the host's users.
fn unless_user_namespace(pod: &Pod<'_>, run: Run) -> Found {
    if pod.spec["hostUsers"] == false { None } else { run(pod) }
}

fn privilege_escalation(pod: &Pod<'_>) -> Found {
    let wrong = names(pod, |container| context(container)["allowPrivilegeEscalation"] != false);
    let detail = demand(&wrong, "must set securityContext.allowPrivilegeEscalation=false");
    found("allowPrivilegeEscalation != false", detail)
}

/// The capabilities beyond `allowed` that containers add, and the containers.
fn added(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    let mut capabilities = BTreeSet::new();
    let wrong = names(pod, |container| {
        let added = list(&context(container)["capabilities"]["add"]).filter_map(Value::as_str);
        let beyond: Vec<&str> = added.filter(|name| !allowed.contains(name)).collect();
        capabilities.extend(beyond.iter().copied());
        !beyond.is_empty()
    });
    demand(&wrong, &format!("must not include {} in securityContext.capabilities.add", quoted(capabilities)))
}

fn added_capabilities(pod: &Pod<'_>) -> Found {
    found("non-default capabilities", added(pod, &USUAL))
}

fn capabilities(pod: &Pod<'_>) -> Found {
    let keeping = names(pod, |container| !list(&context(container)["capabilities"]["drop"]).any(|name| name == "ALL"));
    let wrong: Vec<String> =
        [demand(&keeping, "must set securityContext.capabilities.drop=[\"ALL\"]"), added(pod, &["NET_BIND_SERVICE"])]
            .into_iter()
            .flatten()
            .collect();
    found("unrestricted capabilities", (!wrong.is_empty()).then(|| wrong.join("; ")))
}

fn host_namespaces(pod: &Pod<'_>) -> Found {
    let fields = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let shared: Vec<String> =
        fields.filter(|field| pod.spec[field] == true).map(|field| format!("{field}=true")).collect();
    found("host namespaces", (!shared.is_empty()).then(|| shared.join(", ")))
}

fn host_paths(pod: &Pod<'_>) -> Found {
    let volumes = list(&pod.spec["volumes"]).filter(|volume| volume["hostPath"].is_object());
    let wrong: Vec<&str> = volumes.map(|volume| text(volume, "name")).collect();
    let detail = || format!("{} {}", plural("volume", wrong.len()), quoted(wrong.iter().copied()));
    found("hostPath volumes", (!wrong.is_empty()).then(detail))
}

fn host_ports(pod: &Pod<'_>) -> Found {
    let mut ports = BTreeSet::new();
    let wrong = names(pod, |container| {
        let used = list(&container["ports"]).filter_map(|port| port["hostPort"].as_i64());
        let used: Vec<String> = used.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        let is_any = !used.is_empty();
        ports.extend(used);
        is_any
    });
    let (verb, noun) = (if wrong.len() == 1 { "uses" } else { "use" }, plural("hostPort", ports.len()));
    let ports: Vec<String> = ports.into_iter().collect();
    found("hostPort", demand(&wrong, &format!("{verb} {noun} {}", ports.join(", "))))
}

fn probe_hosts(pod: &Pod<'_>) -> Found {
    let (mut wrong, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for container in all_containers(pod.spec) {
        let lifecycle = &container["lifecycle"];
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|field| &container[field]);
        let handlers = probes.into_iter().chain([&lifecycle["postStart"], &lifecycle["preStop"]]);
        let used = handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|action| text(&handler[action], "host")));
        for host in used.filter(|host| !host.is_empty()) {
            wrong.insert(text(container, "name"));
            hosts.insert(host);
        }
    }
    let noun = plural("probe or lifecycle host", hosts.len());
    let verb = if wrong.len() == 1 { "uses" } else { "use" };
    let wrong: Vec<&str> = wrong.into_iter().collect();
    found("probe or lifecycle host", demand(&wrong, &format!("{verb} {noun} {}", quoted(hosts))))
}

fn privileged(pod: &Pod<'_>) -> Found {
    let wrong = names(pod, |container| context(container)["privileged"] == true);
    found("privileged", demand(&wrong, "must not set securityContext.privileged=true"))
}

fn proc_mount(pod: &Pod<'_>) -> Found {
    let mut types = BTreeSet::new();
    let wrong = names(pod, |container| match context(container)["procMount"].as_str() {
        None | Some("Default") => false,
        Some(other) => {
            types.insert(other);
            true
        }
    });
    found("procMount", demand(&wrong, &format!("must not set securityContext.procMount to {}", quoted(types))))
}

fn non_root(pod: &Pod<'_>) -> Found {
    const REASON: &str = "runAsNonRoot != true";
    let of_pod = &pod.spec["securityContext"]["runAsNonRoot"];
    let refusing = Offenders::of(pod, |context| context["runAsNonRoot"] == false);
    if let Some(offenders) = refusing.text() {
        return found(REASON, Some(format!("{offenders} must not set securityContext.runAsNonRoot=false")));
    }
    let silent = names(pod, |container| context(container)["runAsNonRoot"] != true && *of_pod != true);
    let detail = demand(&silent, "must set securityContext.runAsNonRoot=true");
    found(REASON, detail.map(|detail| format!("pod or {detail}")))
}

fn root_user(pod: &Pod<'_>) -> Found {
    let wrong = Offenders::of(pod, |context| context["runAsUser"] == 0).text();
    found("runAsUser=0", wrong.map(|offenders| format!("{offenders} must not set runAsUser=0")))
}

fn host_process(pod: &Pod<'_>) -> Found {
    let wrong = Offenders::of(pod, |context| context["windowsOptions"]["hostProcess"] == true).text();
    let detail = |offenders| format!("{offenders} must not set securityContext.windowsOptions.hostProcess=true");
    found("hostProcess", wrong.map(detail))
}

#[cfg(test)]
mod tests;
