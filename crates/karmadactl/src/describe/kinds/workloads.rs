//! Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets and Jobs.

use serde_json::Value;

use super::super::lines::Lines;
use super::{Related, items, number, pairs, pods, rfc1123, seconds, selector, text};

pub fn deployment(lines: &mut Lines, object: &Value, related: &Related) {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    lines.text(0, &format!("CreationTimestamp:\t{}", rfc1123(&text(&metadata["creationTimestamp"]))));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    lines.text(0, &format!("Selector:\t{}", selector(&spec["selector"])));
    let [updated, all, available, unavailable] =
        ["updatedReplicas", "replicas", "availableReplicas", "unavailableReplicas"].map(|it| number(&status[it]));
    let desired = spec["replicas"].as_i64().unwrap_or(1);
    lines.text(
        0,
        &format!(
            "Replicas:\t{desired} desired | {updated} updated | {all} total | {available} available | {unavailable} unavailable"
        ),
    );
    lines.text(0, &format!("StrategyType:\t{}", text(&spec["strategy"]["type"])));
    lines.text(0, &format!("MinReadySeconds:\t{}", number(&spec["minReadySeconds"])));
    let rolling = &spec["strategy"]["rollingUpdate"];
    if rolling.is_object() {
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let (unavailable, surge) = (shown(&rolling["maxUnavailable"]), shown(&rolling["maxSurge"]));
        lines.text(0, &format!("RollingUpdateStrategy:\t{unavailable} max unavailable, {surge} max surge"));
    }
    pods::template(lines, &spec["template"]);
    conditions(lines, status);
    let (old, new) = replica_sets(object, &related.replica_sets);
    let shown = |sets: Vec<&Value>| {
        let one = |set: &&Value| {
            let [has, specified] = [&set["status"]["replicas"], &set["spec"]["replicas"]].map(number);
            format!("{} ({has}/{specified} replicas created)", text(&set["metadata"]["name"]))
        };
        let sets: Vec<String> = sets.iter().map(one).collect();
        if sets.is_empty() { "<none>".to_owned() } else { sets.join(", ") }
    };
    // A template in the control plane has none.
    if !old.is_empty() || !new.is_empty() {
        lines.text(0, &format!("OldReplicaSets:\t{}", shown(old)));
        lines.text(0, &format!("NewReplicaSet:\t{}", shown(new)));
    }
}

/// The ReplicaSets of earlier revisions, and that of the newest.
fn replica_sets<'a>(object: &Value, sets: &'a [Value]) -> (Vec<&'a Value>, Vec<&'a Value>) {
    const REVISION: &str = "deployment.kubernetes.io/revision";
    let revision = &object["metadata"]["annotations"][REVISION];
    let mut owned: Vec<&Value> = sets.iter().filter(|set| is_owned(set, object)).collect();
    owned.sort_by_key(|set| text(&set["metadata"]["creationTimestamp"]));
    owned.into_iter().partition(|set| set["metadata"]["annotations"][REVISION] != *revision)
}

pub fn is_owned(object: &Value, owner: &Value) -> bool {
    let uid = &owner["metadata"]["uid"];
    items(&object["metadata"]["ownerReferences"]).any(|it| it["uid"] == *uid && it["controller"] == true)
}

/// `Pods Status:`, from the pods themselves.
fn pods_status(lines: &mut Lines, object: &Value, related: &Related) {
    let mut counts = [0; 4];
    for pod in related.pods.iter().filter(|pod| is_owned(pod, object)) {
        match pod["status"]["phase"].as_str() {
            Some("Running") => counts[0] += 1,
            Some("Pending") => counts[1] += 1,
            Some("Succeeded") => counts[2] += 1,
            Some("Failed") => counts[3] += 1,
            _ => {}
        }
    }
    let [running, waiting, succeeded, failed] = counts;
    lines.text(
        0,
        &format!("Pods Status:\t{running} Running / {waiting} Waiting / {succeeded} Succeeded / {failed} Failed"),
    );
}

/// The controller of an object, if it has one.
pub fn controller(lines: &mut Lines, metadata: &Value) {
    if let Some(owner) = items(&metadata["ownerReferences"]).find(|it| it["controller"] == true) {
        lines.text(0, &format!("Controlled By:\t{}/{}", text(&owner["kind"]), text(&owner["name"])));
    }
}

/// What a ReplicaSet, a ReplicationController and a Job begin with.
fn selecting(lines: &mut Lines, metadata: &Value, selector: &str) {
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    lines.text(0, &format!("Selector:\t{selector}"));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    controller(lines, metadata);
}

pub fn replica_set(lines: &mut Lines, object: &Value, related: &Related) {
    selecting(lines, &object["metadata"], &selector(&object["spec"]["selector"]));
    replicas(lines, object, related);
}

pub fn replication_controller(lines: &mut Lines, object: &Value, related: &Related) {
    selecting(lines, &object["metadata"], &pairs(&object["spec"]["selector"]));
    replicas(lines, object, related);
}

fn replicas(lines: &mut Lines, object: &Value, related: &Related) {
    let spec = &object["spec"];
    let (now, desired) = (number(&object["status"]["replicas"]), spec["replicas"].as_i64().unwrap_or(1));
    lines.text(0, &format!("Replicas:\t{now} current / {desired} desired"));
    pods_status(lines, object, related);
    pods::template(lines, &spec["template"]);
    conditions(lines, &object["status"]);
}

fn conditions(lines: &mut Lines, status: &Value) {
    if items(&status["conditions"]).next().is_some() {
        lines.text(0, "Conditions:");
        lines.text(1, "Type\tStatus\tReason");
        lines.text(1, "----\t------\t------");
        for condition in items(&status["conditions"]) {
            let [type_, state, reason] = ["type", "status", "reason"].map(|it| text(&condition[it]));
            lines.text(1, &format!("{type_} \t{state}\t{reason}"));
        }
    }
}

pub fn cron_job(lines: &mut Lines, object: &Value) {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    let job = &spec["jobTemplate"]["spec"];
    let set = |value: &Value| value.as_i64().map_or_else(|| "<unset>".to_owned(), |it| it.to_string());
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    lines.text(0, &format!("Schedule:\t{}", text(&spec["schedule"])));
    lines.text(0, &format!("Concurrency Policy:\t{}", text(&spec["concurrencyPolicy"])));
    let suspended = spec["suspend"].as_bool();
    let suspended = suspended.map_or("<unset>", |it| if it { "True" } else { "False" });
    lines.text(0, &format!("Suspend:\t{suspended}"));
    lines.text(0, &format!("Time Zone:\t{}", spec["timeZone"].as_str().unwrap_or("<unset>")));
    lines.text(0, &format!("Successful Job History Limit:\t{}", set(&spec["successfulJobsHistoryLimit"])));
    lines.text(0, &format!("Failed Job History Limit:\t{}", set(&spec["failedJobsHistoryLimit"])));
    let deadline = spec["startingDeadlineSeconds"].as_i64();
    let deadline = deadline.map_or_else(|| "<unset>".to_owned(), |it| format!("{it}s"));
    lines.text(0, &format!("Starting Deadline Seconds:\t{deadline}"));
    let selected = if job["selector"].is_null() { "<unset>".to_owned() } else { selector(&job["selector"]) };
    lines.text(0, &format!("Selector:\t{selected}"));
    lines.text(0, &format!("Parallelism:\t{}", set(&job["parallelism"])));
    lines.text(0, &format!("Completions:\t{}", set(&job["completions"])));
    if let Some(deadline) = job["activeDeadlineSeconds"].as_i64() {
        lines.text(0, &format!("Active Deadline Seconds:\t{deadline}s"));
    }
    pods::template(lines, &job["template"]);
    let last = status["lastScheduleTime"].as_str().map_or_else(|| "<unset>".to_owned(), rfc1123);
    lines.text(0, &format!("Last Schedule Time:\t{last}"));
    let active: Vec<String> = items(&status["active"]).map(|it| text(&it["name"])).collect();
    let active = if active.is_empty() { "<none>".to_owned() } else { active.join(", ") };
    lines.text(0, &format!("Active Jobs:\t{active}"));
}

pub fn stateful_set(lines: &mut Lines, object: &Value, related: &Related) {
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    lines.text(0, &format!("CreationTimestamp:\t{}", rfc1123(&text(&metadata["creationTimestamp"]))));
    lines.text(0, &format!("Selector:\t{}", selector(&spec["selector"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    let desired = spec["replicas"].as_i64().unwrap_or(1);
    lines.text(0, &format!("Replicas:\t{desired} desired | {} total", number(&object["status"]["replicas"])));
    lines.text(0, &format!("Update Strategy:\t{}", text(&spec["updateStrategy"]["type"])));
    if let Some(partition) = spec["updateStrategy"]["rollingUpdate"]["partition"].as_i64() {
        lines.text(1, &format!("Partition:\t{partition}"));
    }
    pods_status(lines, object, related);
    pods::template(lines, &spec["template"]);
    if items(&spec["volumeClaimTemplates"]).next().is_none() {
        return lines.text(0, "Volume Claims:\t<none>");
    }
    lines.text(0, "Volume Claims:");
    for claim in items(&spec["volumeClaimTemplates"]) {
        lines.text(1, &format!("Name:\t{}", text(&claim["metadata"]["name"])));
        lines.text(1, &format!("StorageClass:\t{}", text(&claim["spec"]["storageClassName"])));
        lines.map(1, "Labels:", &claim["metadata"]["labels"], "=");
        lines.map(1, "Annotations:", &claim["metadata"]["annotations"], "=");
        let storage = &claim["spec"]["resources"]["requests"]["storage"];
        lines.text(1, &format!("Capacity:\t{}", storage.as_str().unwrap_or("<default>")));
        let modes: Vec<String> = items(&claim["spec"]["accessModes"]).map(text).collect();
        lines.text(1, &format!("Access Modes:\t[{}]", modes.join(" ")));
    }
}

pub fn daemon_set(lines: &mut Lines, object: &Value, related: &Related) {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    lines.text(0, &format!("Selector:\t{}", selector(&spec["selector"])));
    lines.text(0, &format!("Node-Selector:\t{}", pairs(&spec["template"]["spec"]["nodeSelector"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    for (label, field) in [
        ("Desired Number of Nodes Scheduled", "desiredNumberScheduled"),
        ("Current Number of Nodes Scheduled", "currentNumberScheduled"),
        ("Number of Nodes Scheduled with Up-to-date Pods", "updatedNumberScheduled"),
        ("Number of Nodes Scheduled with Available Pods", "numberAvailable"),
        ("Number of Nodes Misscheduled", "numberMisscheduled"),
    ] {
        lines.text(0, &format!("{label}: {}", number(&status[field])));
    }
    pods_status(lines, object, related);
    pods::template(lines, &spec["template"]);
}

pub fn job(lines: &mut Lines, object: &Value) {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    selecting(lines, metadata, &selector(&spec["selector"]));
    lines.text(0, &format!("Parallelism:\t{}", number(&spec["parallelism"])));
    let completions = spec["completions"].as_i64().map_or_else(|| "<unset>".to_owned(), |it| it.to_string());
    lines.text(0, &format!("Completions:\t{completions}"));
    if let Some(mode) = spec["completionMode"].as_str() {
        lines.text(0, &format!("Completion Mode:\t{mode}"));
    }
    lines.text(0, &format!("Suspend:\t{}", spec["suspend"] == true));
    lines.text(0, &format!("Backoff Limit:\t{}", number(&spec["backoffLimit"])));
    if let Some(ttl) = spec["ttlSecondsAfterFinished"].as_i64() {
        lines.text(0, &format!("TTL Seconds After Finished:\t{ttl}"));
    }
    let (start, end) = (&status["startTime"], &status["completionTime"]);
    if start.is_string() {
        lines.text(0, &format!("Start Time:\t{}", rfc1123(&text(start))));
    }
    if end.is_string() {
        lines.text(0, &format!("Completed At:\t{}", rfc1123(&text(end))));
    }
    if let (Some(start), Some(end)) = (seconds(start), seconds(end)) {
        lines.text(0, &format!("Duration:\t{}", apimachinery::age::human_duration(end - start)));
    }
    if let Some(deadline) = spec["activeDeadlineSeconds"].as_i64() {
        lines.text(0, &format!("Active Deadline Seconds:\t{deadline}s"));
    }
    let [active, succeeded, failed] = ["active", "succeeded", "failed"].map(|it| number(&status[it]));
    let ready = status["ready"].as_i64().map(|ready| format!(" ({ready} Ready)")).unwrap_or_default();
    lines.text(0, &format!("Pods Statuses:\t{active} Active{ready} / {succeeded} Succeeded / {failed} Failed"));
    if spec["completionMode"] == "Indexed" {
        lines.text(0, &format!("Completed Indexes:\t{}", indexes(&text(&status["completedIndexes"]))));
    }
    pods::template(lines, &spec["template"]);
}

/// As many of the ranges as kubectl shows.
fn indexes(all: &str) -> String {
    const SHOWN: usize = 50;
    match all.get(SHOWN..).and_then(|rest| rest.find(',')) {
        Some(end) => format!("{},...", &all[..SHOWN + end]),
        None if all.is_empty() => "<none>".to_owned(),
        None => all.to_owned(),
    }
}
