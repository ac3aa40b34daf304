//! Aggregates the statuses of the members into the status of the template.

use apimachinery::meta::Time;
use karmada_api::work::v1alpha2::AggregatedStatusItem;
use serde_json::{Map, Value, json};

use super::{job_status, load_balancer, unsupported};
use crate::tree::{at, int, list, object, text};
use crate::{Error, Kind, Operation};

/// A member's status; `Null` if unknown.
pub(super) struct Item<'a> {
    pub cluster: &'a str,
    pub status: Value,
}

pub fn aggregate(template: &mut Value, items: &[AggregatedStatusItem], now: Time) -> Result<(), Error> {
    let kind = Kind::of(template).ok_or_else(|| unsupported(Operation::AggregateStatus, template))?;
    let mut decoded = Vec::with_capacity(items.len());
    for item in items {
        let status = match &item.status {
            Some(raw) => raw.to_value().map_err(|error| {
                let detail = format!("the status in cluster {}: {error}", item.cluster_name);
                Error::malformed(Operation::AggregateStatus, template, detail)
            })?,
            None => Value::Null,
        };
        if !status.is_object() && !status.is_null() {
            let detail = format!("the status in cluster {} is not an object", item.cluster_name);
            return Err(Error::malformed(Operation::AggregateStatus, template, detail));
        }
        decoded.push(Item { cluster: &item.cluster_name, status });
    }
    match kind {
        Kind::Deployment | Kind::ReplicaSet | Kind::DaemonSet | Kind::StatefulSet => {
            workload(kind, template, &decoded);
        }
        Kind::Service => {
            if text(template, &["spec", "type"]) == "LoadBalancer" {
                template["status"] = load_balancer::union(&decoded, true);
            }
        }
        Kind::Ingress => template["status"] = load_balancer::union(&decoded, false),
        Kind::Job => job_status::aggregate(template, &decoded, now),
        Kind::CronJob => cron_job(template, &decoded),
        Kind::Pod => pod(template, &decoded),
        Kind::PersistentVolume => {
            const ORDER: &[&str] = &["Failed", "Pending", "Available", "Bound", "Released"];
            let phases: Vec<&str> = decoded.iter().map(|item| phase_or_pending(&item.status)).collect();
            if let Some(phase) = ORDER.iter().find(|phase| phases.contains(phase)) {
                template["status"] = json!({ "phase": phase });
            }
        }
        Kind::PersistentVolumeClaim => claim(template, &decoded),
        Kind::PodDisruptionBudget => disruption_budget(template, &decoded),
        Kind::HorizontalPodAutoscaler => {
            template["status"] = json!({
                "currentReplicas": sum(&decoded, "currentReplicas"),
                "desiredReplicas": sum(&decoded, "desiredReplicas"),
                "currentMetrics": null,
            });
        }
        _ => return Err(unsupported(Operation::AggregateStatus, template)),
    }
    Ok(())
}

/// Saturates: members may report any number.
pub(super) fn sum(items: &[Item<'_>], field: &str) -> i64 {
    items.iter().map(|item| int(&item.status, &[field])).fold(0, i64::saturating_add)
}

/// The counters of a kind, and those that are written even if they are zero.
fn counters(kind: Kind) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        Kind::Deployment => {
            (&["replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "unavailableReplicas"], &[])
        }
        Kind::ReplicaSet => (&["replicas", "readyReplicas", "availableReplicas"], &["replicas"]),
        Kind::StatefulSet => (
            &["availableReplicas", "currentReplicas", "readyReplicas", "replicas", "updatedReplicas"],
            &["replicas", "availableReplicas"],
        ),
        _ => (
            &[
                "currentNumberScheduled",
                "desiredNumberScheduled",
                "numberAvailable",
                "numberMisscheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberUnavailable",
            ],
            &["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"],
        ),
    }
}

fn workload(kind: Kind, template: &mut Value, items: &[Item<'_>]) {
    let generation = int(template, &["metadata", "generation"]);
    let (fields, always) = counters(kind);
    let status = object(template, "status");
    for field in fields {
        let total = sum(items, field);
        if total != 0 || always.contains(field) {
            status.insert((*field).to_owned(), json!(total));
        } else {
            status.remove(*field);
        }
    }
    // Members that run an older template, or have not observed the current one, hold the template's observed generation
    // back.
    let caught_up = items.iter().all(|item| {
        int(&item.status, &["observedGeneration"]) >= int(&item.status, &["generation"])
            && int(&item.status, &["resourceTemplateGeneration"]) >= generation
    });
    if caught_up && generation != 0 {
        status.insert("observedGeneration".to_owned(), json!(generation));
    }
}

/// RFC 3339 in UTC with second precision: the latest is the greatest string.
fn latest(items: &[Item<'_>], field: &str) -> Option<String> {
    items.iter().filter_map(|item| item.status[field].as_str()).max().map(str::to_owned)
}

fn cron_job(template: &mut Value, items: &[Item<'_>]) {
    let active: Vec<Value> = items.iter().flat_map(|item| list(&item.status, &["active"])).cloned().collect();
    let times = ["lastScheduleTime", "lastSuccessfulTime"].map(|field| (field, latest(items, field)));
    let status = object(template, "status");
    if active.is_empty() {
        status.remove("active");
    } else {
        status.insert("active".to_owned(), Value::Array(active));
    }
    for (field, time) in times {
        match time {
            Some(time) => status.insert(field.to_owned(), json!(time)),
            None => status.remove(field),
        };
    }
}

fn phase_or_pending(status: &Value) -> &str {
    match text(status, &["phase"]) {
        "" => "Pending",
        phase => phase,
    }
}

fn pod(template: &mut Value, items: &[Item<'_>]) {
    if items.is_empty() {
        return;
    }
    const ORDER: &[&str] = &["Failed", "Pending", "Running", "Succeeded"];
    let phases: Vec<&str> = items.iter().map(|item| phase_or_pending(&item.status)).collect();
    let mut status = Map::new();
    // The API server sets it at creation and keeps it: without it, each aggregation would be a change.
    if let Some(class) = template["status"].get("qosClass") {
        status.insert("qosClass".to_owned(), class.clone());
    }
    if let Some(phase) = ORDER.iter().find(|phase| phases.contains(phase)) {
        status.insert("phase".to_owned(), json!(phase));
    }
    for field in ["containerStatuses", "initContainerStatuses"] {
        let all: Vec<Value> = items
            .iter()
            .flat_map(|item| list(&item.status, &[field]))
            .map(|container| {
                // The container's cluster is not recorded; required fields are set as the server defaults them.
                json!({
                    "name": "", "image": "", "imageID": "", "restartCount": 0, "lastState": {},
                    "ready": container["ready"].as_bool().unwrap_or_default(),
                    "state": if container["state"].is_object() { container["state"].clone() } else { json!({}) },
                })
            })
            .collect();
        if !all.is_empty() {
            status.insert(field.to_owned(), Value::Array(all));
        }
    }
    template["status"] = Value::Object(status);
}

fn claim(template: &mut Value, items: &[Item<'_>]) {
    let mut phase = "Bound";
    for item in items.iter().filter(|item| !item.status.is_null()) {
        match text(&item.status, &["phase"]) {
            "Lost" => {
                phase = "Lost";
                break;
            }
            "Bound" => {}
            other => phase = other,
        }
    }
    template["status"] = json!({ "phase": phase });
}

fn disruption_budget(template: &mut Value, items: &[Item<'_>]) {
    let mut status = Map::new();
    for field in ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"] {
        status.insert(field.to_owned(), json!(sum(items, field)));
    }
    let mut disrupted = Map::new();
    for item in items {
        for (pod, time) in at(&item.status, &["disruptedPods"]).as_object().into_iter().flatten() {
            disrupted.insert(format!("{}/{pod}", item.cluster), time.clone());
        }
    }
    if !disrupted.is_empty() {
        status.insert("disruptedPods".to_owned(), Value::Object(disrupted));
    }
    template["status"] = Value::Object(status);
}

#[cfg(test)]
mod tests {
    use karmada_api::raw::RawJson;

    use super::*;

    fn now() -> Time {
        Time::new("2026-01-02T03:04:05Z".parse().unwrap())
    }

    fn check(api: &str, kind: &str, spec: Value, before: Value, statuses: &[Value], after: Value) {
        let mut template =
            json!({"apiVersion": api, "kind": kind, "metadata": {"generation": 2}, "spec": spec, "status": before});
        let items: Vec<AggregatedStatusItem> = statuses
            .iter()
            .enumerate()
            .map(|(index, status)| AggregatedStatusItem {
                cluster_name: format!("m{}", index + 1),
                status: (!status.is_null()).then(|| RawJson::from_value(status)),
                ..Default::default()
            })
            .collect();
        aggregate(&mut template, &items, now()).unwrap();
        assert_eq!(template["status"], after, "{kind} {statuses:?}");
    }

    #[test]
    fn workloads_are_summed() {
        let member = |generation: i64, observed: i64, template: i64| json!({"replicas": 1, "readyReplicas": 1, "generation": generation, "observedGeneration": observed, "resourceTemplateGeneration": template});
        let (api, kind) = ("apps/v1", "Deployment");
        check(
            api,
            kind,
            json!({}),
            json!({"conditions": [1], "unavailableReplicas": 3}),
            &[member(5, 5, 2), member(1, 1, 2)],
            json!({"conditions": [1], "replicas": 2, "readyReplicas": 2, "observedGeneration": 2}),
        );
        check(
            api,
            kind,
            json!({}),
            json!({"observedGeneration": 1}),
            &[member(5, 4, 2), member(1, 1, 2)],
            json!({"replicas": 2, "readyReplicas": 2, "observedGeneration": 1}),
        );
        check(
            api,
            kind,
            json!({}),
            json!({}),
            &[member(5, 5, 2), Value::Null],
            json!({"replicas": 1, "readyReplicas": 1}),
        );
        let mut uncounted = json!({"apiVersion": api, "kind": kind, "metadata": {}});
        aggregate(&mut uncounted, &[], now()).unwrap();
        assert_eq!(uncounted["status"], json!({}));
        let many = json!({"replicas": i64::MAX});
        check(api, kind, json!({}), json!({}), &[many.clone(), many], json!({"replicas": i64::MAX}));
        check(
            "apps/v1",
            "StatefulSet",
            json!({}),
            json!({}),
            &[member(1, 1, 2)],
            json!({"replicas": 1, "readyReplicas": 1, "availableReplicas": 0, "observedGeneration": 2}),
        );
    }

    #[test]
    fn counters_are_summed_for_each_kind() {
        let daemons = json!({"currentNumberScheduled": 1, "desiredNumberScheduled": 2, "numberAvailable": 3, "numberMisscheduled": 4,
            "numberReady": 5, "updatedNumberScheduled": 6, "numberUnavailable": 7, "generation": 1, "observedGeneration": 1,
            "resourceTemplateGeneration": 2});
        check(
            "apps/v1",
            "DaemonSet",
            json!({}),
            json!({"collisionCount": 1}),
            &[daemons.clone(), daemons],
            json!({"collisionCount": 1, "currentNumberScheduled": 2, "desiredNumberScheduled": 4, "numberAvailable": 6,
                "numberMisscheduled": 8, "numberReady": 10, "updatedNumberScheduled": 12, "numberUnavailable": 14,
                "observedGeneration": 2}),
        );
        // Without statuses nothing is behind.
        check("apps/v1", "ReplicaSet", json!({}), json!({}), &[], json!({"replicas": 0, "observedGeneration": 2}));
        check(
            "apps/v1",
            "ReplicaSet",
            json!({}),
            json!({"observedGeneration": 1}),
            &[json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "resourceTemplateGeneration": 1})],
            json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1}),
        );
        check(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            json!({}),
            json!({"conditions": [1]}),
            &[json!({"currentReplicas": 1, "desiredReplicas": 2}), json!({"currentReplicas": 3, "desiredReplicas": 4})],
            json!({"currentReplicas": 4, "desiredReplicas": 6, "currentMetrics": null}),
        );
        let budget = |healthy: i64, disrupted: Value| json!({"currentHealthy": healthy, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": 1, "disruptedPods": disrupted});
        check(
            "policy/v1",
            "PodDisruptionBudget",
            json!({}),
            json!({"observedGeneration": 1}),
            &[budget(2, json!({"p": "t"})), budget(1, json!({"p": "u"}))],
            json!({"currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 4, "disruptionsAllowed": 2,
                "disruptedPods": {"m1/p": "t", "m2/p": "u"}}),
        );
        let cron = |name: &str, at: &str| json!({"active": [{"name": name}], "lastScheduleTime": at, "lastSuccessfulTime": at});
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        check(
            "batch/v1",
            "CronJob",
            json!({}),
            json!({"x": 1}),
            &[cron("a", late), cron("b", early), Value::Null],
            json!({"x": 1, "active": [{"name": "a"}, {"name": "b"}], "lastScheduleTime": late, "lastSuccessfulTime": late}),
        );
        check("batch/v1", "CronJob", json!({}), cron("a", late), &[json!({})], json!({}));
    }

    #[test]
    fn containers_of_pods_stand_side_by_side() {
        let container = |ready: bool| json!({"name": "c", "image": "x", "ready": ready, "state": {"running": {}}});
        let of = |ready: bool| {
            json!({"phase": "Running", "podIP": "1.1.1.1", "containerStatuses": [container(ready)],
                "initContainerStatuses": [container(true)]})
        };
        let kept = |ready: bool| json!({"name": "", "image": "", "imageID": "", "restartCount": 0, "lastState": {}, "ready": ready, "state": {"running": {}}});
        check(
            "v1",
            "Pod",
            json!({}),
            json!({"podIP": "2.2.2.2"}),
            &[of(true), of(false)],
            json!({"phase": "Running", "containerStatuses": [kept(true), kept(false)], "initContainerStatuses": [kept(true), kept(true)]}),
        );
        check("v1", "Pod", json!({}), json!({"phase": "Pending"}), &[], json!({"phase": "Pending"}));
        let phase = |phase: &str| json!({ "phase": phase });
        check("v1", "Pod", json!({}), json!({}), &[phase("Failed"), phase("Pending")], phase("Failed"));
    }

    #[test]
    fn addresses_are_distinguished_and_sorted() {
        let of = |ingress: Value| json!({"loadBalancer": {"ingress": ingress}});
        let port = |port: i64, error: Value| json!({"port": port, "protocol": "TCP", "error": error});
        check(
            "v1",
            "Service",
            json!({"type": "LoadBalancer"}),
            json!({"conditions": [1]}),
            &[
                of(json!([{"ip": "2.2.2.2"}, {"ip": "2.2.2.2", "ipMode": "VIP"}, {"hostname": "b"}])),
                of(json!([{"hostname": "a", "ports": [port(2, json!("E")), port(1, Value::Null)]}])),
                of(json!([{"hostname": "a", "ports": [port(2, Value::Null), port(1, Value::Null)]}])),
            ],
            of(json!([
                {"hostname": "a", "ports": [port(1, Value::Null), port(2, Value::Null), port(2, json!("E"))]},
                {"hostname": "b"}, {"ip": "2.2.2.2", "ipMode": "VIP"}, {"ip": "2.2.2.2"},
            ])),
        );
        check(
            "networking.k8s.io/v1",
            "Ingress",
            json!({}),
            json!({"x": 1}),
            &[of(json!([{"ip": "2.2.2.2"}])), of(json!([{"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}])), Value::Null],
            of(json!([{"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}])),
        );
        // Only Services have modes.
        check(
            "networking.k8s.io/v1",
            "Ingress",
            json!({}),
            json!({}),
            &[of(json!([{"ip": "2.2.2.2"}])), of(json!([{"ip": "2.2.2.2", "ipMode": "VIP"}]))],
            of(json!([{"ip": "2.2.2.2"}])),
        );
        check("networking.k8s.io/v1", "Ingress", json!({}), json!({"x": 1}), &[], json!({"loadBalancer": {}}));
    }

    #[test]
    fn addresses_are_united() {
        let of = |ip: &str| json!({"loadBalancer": {"ingress": [{"ip": ip}]}});
        check(
            "v1",
            "Service",
            json!({"type": "LoadBalancer"}),
            json!({}),
            &[of("2.2.2.2"), of("1.1.1.1"), of("2.2.2.2"), Value::Null],
            json!({"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}]}}),
        );
        check("v1", "Service", json!({}), json!({"x": 1}), &[of("1.1.1.1")], json!({"x": 1}));
    }

    #[test]
    fn phases_have_an_order() {
        let phase = |phase: &str| json!({ "phase": phase });
        check("v1", "Pod", json!({}), json!({}), &[phase("Running"), Value::Null], phase("Pending"));
        check("v1", "Pod", json!({}), json!({}), &[phase("Succeeded"), phase("Running")], phase("Running"));
        let (old, new) = (json!({"qosClass": "Burstable"}), json!({"phase": "Running", "qosClass": "Burstable"}));
        check("v1", "Pod", json!({}), old, &[phase("Running")], new);
        check("v1", "PersistentVolume", json!({}), json!({}), &[phase("Bound"), phase("Released")], phase("Bound"));
        let (api, kind) = ("v1", "PersistentVolumeClaim");
        check(api, kind, json!({}), json!({}), &[phase("Lost"), phase("Pending")], phase("Lost"));
        check(api, kind, json!({}), json!({}), &[phase("Bound"), phase("Pending")], phase("Pending"));
        check(api, kind, json!({}), json!({}), &[phase("Bound"), Value::Null], phase("Bound"));
    }
}
