//! Printer columns of pods: readiness, status, restarts.

use apimachinery::age::human_duration;
use apimachinery::meta::Time;
use serde_json::Value;

use super::{Function, condition, entries, function, holds, int, list, seconds_between};

pub(super) const FUNCTIONS: &[Function] = &[
    function("pod_gates", &[".spec.readinessGates", ".status.conditions"], |pod, _| gates(pod).into()),
    function(
        "pod_ready",
        &[
            ".spec.initContainers",
            ".spec.containers",
            ".status.initContainerStatuses",
            ".status.containerStatuses",
            ".status.conditions",
        ],
        |pod, _| ready(pod).into(),
    ),
    function(
        "pod_restarts",
        &[".spec.initContainers", ".status.initContainerStatuses", ".status.containerStatuses", ".status.conditions"],
        |pod, now| restarts(pod, now).into(),
    ),
    function("pod_status", &[".metadata.deletionTimestamp", ".spec.initContainers", ".status"], |pod, _| {
        status(pod).into()
    }),
];

/// Sidecars: init containers that keep running beside the main containers, and are counted with them.
fn is_sidecar(pod: &Value, name: &Value) -> bool {
    list(&pod["spec"]["initContainers"])
        .any(|container| container["name"] == *name && container["restartPolicy"] == "Always")
}

fn is_done(pod: &Value, init: &Value) -> bool {
    init["state"]["terminated"]["exitCode"] == 0 || is_sidecar(pod, &init["name"]) && init["started"] == true
}

/// The init containers up to and including the first incomplete one.
fn begun(pod: &Value) -> impl Iterator<Item = &Value> {
    let inits = || list(&pod["status"]["initContainerStatuses"]);
    let done = inits().take_while(|init| is_done(pod, init)).count();
    inits().take(done + 1)
}

/// Whether the statuses of the pod's main containers count.
fn is_initialized(pod: &Value) -> bool {
    init_reason(pod).is_none() || holds(&pod["status"], "Initialized")
}

fn ready(pod: &Value) -> String {
    let sidecars = list(&pod["spec"]["initContainers"]).filter(|container| container["restartPolicy"] == "Always");
    let total = sidecars.count() + entries(&pod["spec"]["containers"]);
    let ready = begun(pod).filter(|init| {
        is_sidecar(pod, &init["name"])
            && init["state"]["terminated"]["exitCode"] != 0
            && init["started"] == true
            && init["ready"] == true
    });
    let runs = |container: &&Value| {
        let state = &container["state"];
        let waits = !state["waiting"]["reason"].as_str().unwrap_or_default().is_empty();
        container["ready"] == true && state["running"].is_object() && !waits && !state["terminated"].is_object()
    };
    let containers = list(&pod["status"]["containerStatuses"]).filter(runs);
    let ready = ready.count() + if is_initialized(pod) { containers.count() } else { 0 };
    format!("{ready}/{total}")
}

fn restarts(pod: &Value, now: Time) -> String {
    // While init containers run, the restarts of init containers are shown.
    let running = is_initialized(pod);
    let inits = begun(pod).filter(|init| !running || is_sidecar(pod, &init["name"]));
    let others = list(&pod["status"]["containerStatuses"]).filter(|_| running);
    let (mut count, mut last) = (0, None::<i64>);
    for container in inits.chain(others) {
        count += int(&container["restartCount"]);
        let ended = seconds_between(&container["lastState"]["terminated"]["finishedAt"], now);
        last = match (last, ended) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    match last.filter(|_| count > 0) {
        Some(seconds) => format!("{count} ({} ago)", human_duration(seconds)),
        None => count.to_string(),
    }
}

/// The reason shown for an init container that has not completed.
fn init_reason(pod: &Value) -> Option<String> {
    let total = entries(&pod["spec"]["initContainers"]);
    for (index, container) in list(&pod["status"]["initContainerStatuses"]).enumerate() {
        let state = &container["state"];
        if is_done(pod, container) {
            continue;
        }
        let terminated = &state["terminated"];
        let reason = |value: &Value| value["reason"].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let waiting = reason(&state["waiting"]).filter(|text| text != "PodInitializing");
        return Some(if terminated.is_object() {
            format!("Init:{}", reason(terminated).unwrap_or_else(|| exit(terminated)))
        } else if let Some(reason) = waiting {
            format!("Init:{reason}")
        } else {
            format!("Init:{index}/{total}")
        });
    }
    None
}

fn exit(terminated: &Value) -> String {
    match int(&terminated["signal"]) {
        0 => format!("ExitCode:{}", int(&terminated["exitCode"])),
        signal => format!("Signal:{signal}"),
    }
}

/// The most specific reason of the pod's state.
fn status(pod: &Value) -> String {
    let state = &pod["status"];
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let mut reason = text(&state["reason"]).or_else(|| text(&state["phase"])).unwrap_or_else(|| "Unknown".to_owned());
    if condition(state, "PodScheduled").is_some_and(|condition| condition["reason"] == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut reason);
    }
    if let Some(init) = init_reason(pod) {
        reason = init;
    }
    if is_initialized(pod) {
        let mut running = false;
        // The first container takes precedence, so it is evaluated last.
        for container in state["containerStatuses"].as_array().into_iter().flatten().rev() {
            let (waiting, terminated) = (&container["state"]["waiting"], &container["state"]["terminated"]);
            if let Some(why) = text(&waiting["reason"]) {
                reason = why;
            } else if terminated.is_object() {
                reason = text(&terminated["reason"]).unwrap_or_else(|| exit(terminated));
            } else if container["ready"] == true && container["state"]["running"].is_object() {
                running = true;
            }
        }
        if reason == "Completed" && running {
            reason = if holds(state, "Ready") { "Running" } else { "NotReady" }.to_owned();
        }
    }
    match (pod["metadata"]["deletionTimestamp"].is_string(), state["reason"].as_str()) {
        (true, Some("NodeLost")) => "Unknown".to_owned(),
        // A finished pod is not shown as terminating.
        (true, _) if !matches!(state["phase"].as_str(), Some("Succeeded" | "Failed")) => "Terminating".to_owned(),
        _ => reason,
    }
}

fn gates(pod: &Value) -> String {
    let gates = entries(&pod["spec"]["readinessGates"]);
    if gates == 0 {
        return "<none>".to_owned();
    }
    let met = list(&pod["spec"]["readinessGates"])
        .filter(|gate| gate["conditionType"].as_str().is_some_and(|type_| holds(&pod["status"], type_)));
    format!("{}/{gates}", met.count())
}
