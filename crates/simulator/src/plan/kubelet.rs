//! The life cycle of a pod: the next step, and the status after it. No process runs; only time passes.

use std::net::Ipv4Addr;
use std::time::Duration;

use apimachinery::meta::Time;
use serde_json::{Map, Value, json};

use super::pod::{Container, Pod};
use super::resources::qos_class;

/// The delays of simulated pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The time between a pod's scheduling and its readiness.
    pub start: Duration,
    /// How long a Job's pod runs.
    pub job_run: Duration,
}

/// The next step of a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    Nothing,
    Wait(Duration),
    /// The pod needs a node.
    Place,
    /// The pod's containers are ready.
    Run,
    /// The pod's containers have succeeded.
    Succeed,
    /// The pod is being deleted, and its containers have ended.
    Remove,
}

pub(crate) fn step(pod: &Pod, pace: Pace, now: jiff::Timestamp) -> Step {
    if pod.metadata.is_deleting() {
        return Step::Remove;
    }
    if pod.is_terminal() {
        return Step::Nothing;
    }
    if pod.spec.node_name.is_empty() {
        let is_default_scheduler = matches!(pod.spec.scheduler_name.as_str(), "" | "default-scheduler");
        return if is_default_scheduler && pod.spec.scheduling_gates.is_empty() { Step::Place } else { Step::Nothing };
    }
    if pod.status.phase != "Running" {
        let bound = pod.condition("PodScheduled").and_then(|condition| condition.last_transition_time);
        return after(bound.or(pod.metadata.creation_timestamp), pace.start, now, Step::Run);
    }
    if is_of_job(pod) {
        return after(pod.status.start_time, pace.job_run, now, Step::Succeed);
    }
    Step::Nothing
}

fn after(start: Option<Time>, time: Duration, now: jiff::Timestamp, then: Step) -> Step {
    let Some(start) = start else { return then };
    let passed = Duration::try_from(now.duration_since(start.timestamp())).unwrap_or_default();
    match time.checked_sub(passed) {
        Some(left) if !left.is_zero() => Step::Wait(left),
        _ => then,
    }
}

fn is_of_job(pod: &Pod) -> bool {
    pod.metadata.controller().is_some_and(|owner| owner.kind == "Job" && owner.api_version == "batch/v1")
}

/// The status of a scheduled pod whose containers are not ready. The member's API server binds the pod to
/// `nominatedNodeName` in the same write.
pub(crate) fn scheduled(pod: &Pod, node: &str, now: Time) -> Value {
    json!({"phase": "Pending", "nominatedNodeName": node, "qosClass": qos_class(&pod.spec),
        "conditions": [condition(pod, now, "PodScheduled", "True", "", "")]})
}

/// The status of a pod that fits no node; `None` if it is unchanged.
pub(crate) fn unschedulable(pod: &Pod, message: &str, now: Time) -> Option<Value> {
    let written =
        pod.condition("PodScheduled").is_some_and(|written| written.status == "False" && written.message == message);
    let scheduled = condition(pod, now, "PodScheduled", "False", "Unschedulable", message);
    (!written).then(|| json!({"phase": "Pending", "qosClass": qos_class(&pod.spec), "conditions": [scheduled]}))
}

/// The node of a pod, and its addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home<'a> {
    pub node: &'a str,
    pub host: Option<Ipv4Addr>,
    pub ip: Ipv4Addr,
}

/// The status of a pod whose containers are ready.
pub(crate) fn running(pod: &Pod, home: Home<'_>, now: Time) -> Value {
    let conditions: Vec<Value> =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
            .map(|type_| condition(pod, now, type_, "True", "", ""))
            .into();
    let state = json!({"running": {"startedAt": now}});
    let start = pod.status.start_time.unwrap_or(now);
    let mut status = json!({
        "phase": "Running",
        "conditions": conditions,
        "containerStatuses": containers(pod, &pod.spec.containers, &state, true),
        "podIP": home.ip, "podIPs": [{"ip": home.ip}],
        "qosClass": qos_class(&pod.spec),
        "startTime": start,
    });
    if let Some(host) = home.host {
        status["hostIP"] = json!(host);
        status["hostIPs"] = json!([{"ip": host}]);
    }
    if pod.spec.node_name.is_empty() {
        status["nominatedNodeName"] = home.node.into();
    }
    if !pod.spec.init_containers.is_empty() {
        let ended = terminated(start, start);
        status["initContainerStatuses"] = containers(pod, &pod.spec.init_containers, &ended, true);
    }
    status
}

/// The status of a pod whose containers have succeeded, from its current one.
pub(crate) fn succeeded(pod: &Pod, status: &Value, now: Time) -> Value {
    let mut status = status.clone();
    let ended = terminated(pod.status.start_time.unwrap_or(now), now);
    let conditions: Vec<Value> = [
        ("PodReadyToStartContainers", "False", ""),
        ("Initialized", "True", "PodCompleted"),
        ("Ready", "False", "PodCompleted"),
        ("ContainersReady", "False", "PodCompleted"),
        ("PodScheduled", "True", ""),
    ]
    .map(|(type_, holds, reason)| condition(pod, now, type_, holds, reason, ""))
    .into();
    status["phase"] = "Succeeded".into();
    status["conditions"] = conditions.into();
    status["containerStatuses"] = containers(pod, &pod.spec.containers, &ended, false);
    status
}

fn terminated(start: Time, end: Time) -> Value {
    json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": start, "finishedAt": end}})
}

fn containers(pod: &Pod, containers: &[Container], state: &Value, ready: bool) -> Value {
    let status = |container: &Container| {
        json!({
            "name": container.name, "image": container.image, "imageID": container.image, "lastState": {},
            "containerID": format!("simulated://{}/{}", pod.metadata.uid, container.name),
            "ready": ready, "started": ready, "restartCount": 0, "state": state,
        })
    };
    containers.iter().map(status).collect()
}

/// The time of the last transition is kept while the status is unchanged.
fn condition(pod: &Pod, now: Time, type_: &str, status: &str, reason: &str, message: &str) -> Value {
    let before = pod.condition(type_).filter(|before| before.status == status);
    let since = before.and_then(|before| before.last_transition_time).unwrap_or(now);
    let mut condition = Map::from_iter([
        ("type".to_owned(), type_.into()),
        ("status".to_owned(), status.into()),
        ("lastProbeTime".to_owned(), Value::Null),
        ("lastTransitionTime".to_owned(), json!(since)),
    ]);
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition.insert(field.to_owned(), text.into());
        }
    }
    condition.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> jiff::Timestamp {
        format!("2026-11-21T{text}Z").parse().expect("a time")
    }

    fn pod(spec: Value, status: Value) -> Pod {
        let metadata = json!({"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-11-21T00:00:00Z"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).expect("a pod")
    }

    #[test]
    fn a_pod_gets_a_node_then_runs() {
        let pace = Pace { start: Duration::from_secs(3), job_run: Duration::from_secs(5) };
        let check = |pod: &Pod, at: &str, expected: Step| assert_eq!(step(pod, pace, time(at)), expected);
        check(&pod(json!({}), json!({})), "00:00:01", Step::Place);
        check(&pod(json!({"schedulerName": "other"}), json!({})), "00:00:01", Step::Nothing);
        check(&pod(json!({"schedulingGates": [{"name": "g"}]}), json!({})), "00:00:01", Step::Nothing);
        let bound = pod(
            json!({"nodeName": "n"}),
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T00:00:10Z"}]}),
        );
        check(&bound, "00:00:11", Step::Wait(Duration::from_secs(2)));
        check(&bound, "00:00:13", Step::Run);
        check(&pod(json!({"nodeName": "n"}), json!({"phase": "Running"})), "00:00:13", Step::Nothing);
        check(&pod(json!({"nodeName": "n"}), json!({"phase": "Failed"})), "00:00:13", Step::Nothing);
        let mut deleted = bound;
        deleted.metadata.deletion_timestamp = Some(Time::new(time("00:00:30")));
        check(&deleted, "00:00:11", Step::Remove);
        let mut job = pod(json!({"nodeName": "n"}), json!({"phase": "Running", "startTime": "2026-11-21T00:00:10Z"}));
        job.metadata.owner_references = serde_json::from_value(
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true}]),
        )
        .expect("owners");
        check(&job, "00:00:12", Step::Wait(Duration::from_secs(3)));
        check(&job, "00:00:15", Step::Succeed);
    }

    #[test]
    fn an_unchanged_status_is_not_written_again() {
        let now = Time::new(time("00:00:05"));
        let waiting = pod(json!({"containers": [{"name": "c"}]}), json!({}));
        let status = unschedulable(&waiting, "0/1 nodes are available: 1 Too many pods.", now).expect("news");
        let written = pod(json!({}), status);
        assert_eq!(unschedulable(&written, "0/1 nodes are available: 1 Too many pods.", now), None);
        let news = unschedulable(&written, "0/2 nodes are available: 2 Too many pods.", Time::new(time("00:00:09")));
        let news = news.expect("news");
        assert_eq!(news["conditions"][0]["lastTransitionTime"], "2026-11-21T00:00:05Z");
        assert_eq!(news["conditions"][0]["reason"], "Unschedulable");
    }

    #[test]
    fn a_running_pod_shows_its_containers() {
        let now = Time::new(time("00:00:05"));
        let pod =
            pod(json!({"containers": [{"name": "c", "image": "nginx"}], "initContainers": [{"name": "i"}]}), json!({}));
        let home = Home { node: "n", host: Some(Ipv4Addr::new(172, 18, 0, 2)), ip: Ipv4Addr::new(10, 0, 0, 1) };
        let status = running(&pod, home, now);
        assert_eq!(status["containerStatuses"][0]["state"]["running"]["startedAt"], "2026-11-21T00:00:05Z");
        assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
        assert_eq!((&status["podIP"], &status["hostIP"]), (&json!("10.0.0.1"), &json!("172.18.0.2")));
        assert_eq!(status["nominatedNodeName"], "n", "a pod without a node is bound by the same write");
        let ended = succeeded(&pod, &status, now);
        assert_eq!((&ended["phase"], &ended["podIP"]), (&json!("Succeeded"), &json!("10.0.0.1")));
        assert_eq!(ended["conditions"][2]["reason"], "PodCompleted");
    }
}
