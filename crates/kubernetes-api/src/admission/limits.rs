//! LimitRange: default requests and limits of containers, and the checks against minimum and maximum.

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use super::{amounts, containers, list, made, text};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

type Amounts = BTreeMap<String, Quantity>;

fn owned(value: &Value) -> Amounts {
    amounts(value).map(|(name, amount)| (name.to_owned(), amount)).collect()
}

fn items<'r>(ranges: &[&'r Value], type_: &str) -> Vec<&'r Value> {
    let all = ranges.iter().flat_map(|range| list(&range["spec"]["limits"]));
    all.filter(|item| item["type"] == type_).collect()
}

/// Fills in the requests and limits of a pod's containers, and records this in an annotation. `ranges` are the limit
/// ranges of the pod's namespace.
pub fn set_defaults(pod: &mut Value, ranges: &[&Value]) {
    for range in ranges {
        set_defaults_of(pod, range);
    }
}

fn set_defaults_of(pod: &mut Value, range: &Value) {
    let mut default_amounts = [BTreeMap::new(), BTreeMap::new()];
    for item in items(&[range], "Container") {
        for (amounts, field) in default_amounts.iter_mut().zip(["defaultRequest", "default"]) {
            amounts.extend(item[field].as_object().cloned().unwrap_or_default());
        }
    }
    let mut notes = Vec::new();
    for (field, what) in [("containers", "container"), ("initContainers", "init container")] {
        let Some(spec) = made(pod, "spec") else { return };
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = text(container, "name").to_owned();
            for (amounts, (part, noun)) in default_amounts.iter().zip([("requests", "request"), ("limits", "limit")]) {
                let set = fill(container, part, amounts);
                if !set.is_empty() {
                    notes.push(format!("{} {noun} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if notes.is_empty() {
        return;
    }
    let Some(metadata) = made(pod, "metadata") else { return };
    if let Some(annotations) = metadata.entry("annotations").or_insert_with(|| json!({})).as_object_mut() {
        annotations.insert(ANNOTATION.into(), format!("LimitRanger plugin set: {}", notes.join("; ")).into());
    }
}

/// Fills in missing quantities, and returns their names.
fn fill(container: &mut Value, part: &str, default_amounts: &BTreeMap<String, Value>) -> Vec<String> {
    if default_amounts.is_empty() || made(container, "resources").is_none() {
        return Vec::new();
    }
    let Some(amounts) = made(&mut container["resources"], part) else { return Vec::new() };
    let missing: Vec<String> = default_amounts.keys().filter(|name| !amounts.contains_key(*name)).cloned().collect();
    for name in &missing {
        amounts.insert(name.clone(), default_amounts[name].clone());
    }
    missing
}

/// The violations of a new object, with upstream's messages.
pub fn violations(plural: &str, object: &Value, ranges: &[&Value]) -> Vec<String> {
    match plural {
        "pods" => pod(object, ranges),
        "persistentvolumeclaims" => claim(object, ranges),
        _ => Vec::new(),
    }
}

fn claim(claim: &Value, ranges: &[&Value]) -> Vec<String> {
    let requests = owned(&claim["spec"]["resources"]["requests"]);
    let mut wrong = Vec::new();
    for item in items(ranges, "PersistentVolumeClaim") {
        for (name, least) in amounts(&item["min"]) {
            wrong.extend(too_little("PersistentVolumeClaim", name, least, &requests, &Amounts::new()));
        }
        for (name, most) in amounts(&item["max"]) {
            let head = format!("maximum {name} usage per PersistentVolumeClaim is {most}");
            match requests.get(name) {
                None => wrong.push(format!("{head}.  No request is specified")),
                Some(request) if *request > most => wrong.push(format!("{head}, but request is {request}")),
                Some(_) => {}
            }
        }
    }
    wrong
}

fn pod(pod: &Value, ranges: &[&Value]) -> Vec<String> {
    let spec = &pod["spec"];
    let mut wrong = Vec::new();
    for item in items(ranges, "Container") {
        for (_, container) in containers(spec) {
            let part = |name: &str| owned(&container["resources"][name]);
            wrong.extend(outside("Container", item, &part("requests"), &part("limits")));
        }
    }
    for item in items(ranges, "Pod") {
        wrong.extend(outside("Pod", item, &total(spec, "requests"), &total(spec, "limits")));
    }
    wrong
}

/// The resources that the pod itself requests or is limited to. They replace those of its containers.
pub(super) fn of_pod(spec: &Value, part: &str) -> Amounts {
    owned(&spec["resources"][part]).into_iter().filter(|(name, _)| crate::pods::has_pod_level(name)).collect()
}

/// Resources of the whole pod: its own, the sum of its containers, or its largest init container. Sidecars count with the
/// containers.
pub(super) fn total(spec: &Value, part: &str) -> Amounts {
    let mut sum = Amounts::new();
    let mut most = Amounts::new();
    let add = |sum: &mut Amounts, amounts: Amounts| {
        for (name, amount) in amounts {
            let whole = sum.get(&name).map_or(amount, |before| *before + amount);
            sum.insert(name, whole);
        }
    };
    let mut sidecars = Amounts::new();
    for container in list(&spec["initContainers"]) {
        let own = owned(&container["resources"][part]);
        let mut needed = sidecars.clone();
        add(&mut needed, own.clone());
        if container["restartPolicy"] == "Always" {
            add(&mut sidecars, own);
            needed = sidecars.clone();
        }
        for (name, amount) in needed {
            let greatest = most.get(&name).map_or(amount, |before| amount.max(*before));
            most.insert(name, greatest);
        }
    }
    for container in list(&spec["containers"]) {
        add(&mut sum, owned(&container["resources"][part]));
    }
    add(&mut sum, sidecars);
    for (name, amount) in most {
        let greatest = sum.get(&name).map_or(amount, |before| amount.max(*before));
        sum.insert(name, greatest);
    }
    sum.extend(of_pod(spec, part));
    if part == "requests" || !sum.is_empty() {
        add(&mut sum, owned(&spec["overhead"]));
    }
    sum
}

fn outside(type_: &str, item: &Value, requests: &Amounts, limits: &Amounts) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, least) in amounts(&item["min"]) {
        wrong.extend(too_little(type_, name, least, requests, limits));
    }
    for (name, most) in amounts(&item["max"]) {
        let head = format!("maximum {name} usage per {type_} is {most}");
        match (limits.get(name), requests.get(name)) {
            (None, _) => wrong.push(format!("{head}.  No limit is specified")),
            (Some(limit), _) if *limit > most => wrong.push(format!("{head}, but limit is {limit}")),
            (_, Some(request)) if *request > most => wrong.push(format!("{head}, but request is {request}")),
            _ => {}
        }
    }
    for (name, most) in amounts(&item["maxLimitRequestRatio"]) {
        let head = format!("{name} max limit to request ratio per {type_} is {most}");
        let real = |amounts: &Amounts| amounts.get(name).copied().filter(|amount| !amount.is_zero());
        match (real(requests), real(limits)) {
            (None, _) => wrong.push(format!("{head}, but no request is specified or request is 0")),
            (_, None) => wrong.push(format!("{head}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let ratio = limit.as_f64() / request.as_f64();
                if ratio > most.as_f64() {
                    wrong.push(format!("{head}, but provided ratio is {ratio:.6}"));
                }
            }
        }
    }
    wrong
}

fn too_little(type_: &str, name: &str, least: Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let head = format!("minimum {name} usage per {type_} is {least}");
    match (requests.get(name), limits.get(name)) {
        (None, _) => Some(format!("{head}.  No request is specified")),
        (Some(request), _) if *request < least => Some(format!("{head}, but request is {request}")),
        (_, Some(limit)) if *limit < least => Some(format!("{head}, but limit is {limit}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(item: Value) -> Value {
        json!({"spec": {"limits": [item]}})
    }

    #[test]
    fn containers_get_default_requests() {
        let range = range(
            json!({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}),
        );
        let mut pod = json!({"metadata": {}, "spec": {"containers": [
            {"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}},
        ]}});
        set_defaults(&mut pod, &[&range]);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}})
        );
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a"
        );
    }

    #[test]
    fn violated_limits_get_upstreams_messages() {
        let pod = |resources: Value| json!({"spec": {"containers": [{"name": "a", "resources": resources}]}});
        let claim = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
        for (plural, object, item, expected) in [
            (
                "pods",
                pod(json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "3"}})),
                json!({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "2"}}),
                &[
                    "minimum cpu usage per Container is 100m, but request is 50m",
                    "maximum cpu usage per Container is 2, but limit is 3",
                ][..],
            ),
            (
                "pods",
                pod(json!({})),
                json!({"type": "Pod", "min": {"memory": "1Mi"}, "max": {"memory": "1Gi"}}),
                &[
                    "minimum memory usage per Pod is 1Mi.  No request is specified",
                    "maximum memory usage per Pod is 1Gi.  No limit is specified",
                ],
            ),
            (
                "pods",
                pod(json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}})),
                json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "4"}}),
                &["cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000"],
            ),
            (
                "pods",
                pod(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})),
                json!({"type": "Container", "max": {"cpu": "1"}}),
                &[],
            ),
            (
                "persistentvolumeclaims",
                claim("2Gi"),
                json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}),
                &["maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"],
            ),
        ] {
            assert_eq!(violations(plural, &object, &[&range(item)]), expected, "{object}");
        }
    }

    #[test]
    fn init_containers_count_when_they_request_more() {
        let cpu = |amount: &str| json!({"resources": {"requests": {"cpu": amount}}});
        let mut sidecar = cpu("1");
        sidecar["restartPolicy"] = "Always".into();
        let spec = json!({"containers": [cpu("1"), cpu("500m")], "initContainers": [sidecar, cpu("4")]});
        assert_eq!(total(&spec, "requests")["cpu"].to_string(), "5");
        let spec = json!({"containers": [cpu("1"), cpu("500m")], "initContainers": [cpu("1")]});
        assert_eq!(total(&spec, "requests")["cpu"].to_string(), "1500m");
    }
}
