//! Pod templates and pods: volumes, node selectors, tolerations, as kubectl lays them out.

use jiff::Timestamp;
use serde_json::Value;

use super::super::lines::Lines;
use super::containers::{containers, resources, seccomp};
use super::core::claimed;
use super::workloads::controller;
use super::{entries, items, number, rfc1123, selector, terminating, text, volumes};

/// The part of a workload's page about its pods.
pub fn template(lines: &mut Lines, template: &Value) {
    let (metadata, spec) = (&template["metadata"], &template["spec"]);
    lines.text(0, "Pod Template:");
    lines.map(1, "Labels:", &metadata["labels"], "=");
    if metadata["annotations"].as_object().is_some_and(|it| !it.is_empty()) {
        lines.map(1, "Annotations:", &metadata["annotations"], ": ");
    }
    if let Some(account) = spec["serviceAccountName"].as_str().filter(|it| !it.is_empty()) {
        lines.text(1, &format!("Service Account:\t{account}"));
    }
    if items(&spec["initContainers"]).next().is_some() {
        containers(lines, 1, "Init Containers:", &spec["initContainers"], None);
    }
    containers(lines, 1, "Containers:", &spec["containers"], None);
    volume_list(lines, 1, &spec["volumes"]);
    spread(lines, 1, spec);
    if let Some(class) = spec["priorityClassName"].as_str().filter(|it| !it.is_empty()) {
        lines.text(1, &format!("Priority Class Name:\t{class}"));
    }
    placement(lines, 1, spec);
}

fn spread(lines: &mut Lines, level: usize, spec: &Value) {
    let mut constraints: Vec<&Value> = items(&spec["topologySpreadConstraints"]).collect();
    constraints.sort_by_key(|it| text(&it["topologyKey"]));
    for (position, it) in constraints.into_iter().enumerate() {
        let label = if position == 0 { "Topology Spread Constraints:" } else { "" };
        let (key, policy, skew) = (text(&it["topologyKey"]), text(&it["whenUnsatisfiable"]), number(&it["maxSkew"]));
        let selected = match it["labelSelector"].is_object() {
            true => format!(" for selector {}", selector(&it["labelSelector"])),
            false => String::new(),
        };
        lines.text(level, &format!("{label}\t{key}:{policy} when max skew {skew} is exceeded{selected}"));
    }
}

/// Node selectors and tolerations.
fn placement(lines: &mut Lines, level: usize, spec: &Value) {
    lines.map(level, "Node-Selectors:", &spec["nodeSelector"], "=");
    let mut tolerations: Vec<&Value> = items(&spec["tolerations"]).collect();
    tolerations.sort_by_key(|it| text(&it["key"]));
    if tolerations.is_empty() {
        lines.text(level, "Tolerations:\t<none>");
    }
    for (position, toleration) in tolerations.into_iter().enumerate() {
        let label = if position == 0 { "Tolerations:" } else { "" };
        lines.text(level, &format!("{label}\t{}", shown_toleration(toleration)));
    }
}

fn shown_toleration(toleration: &Value) -> String {
    let mut shown = text(&toleration["key"]);
    let field = |name: &str| text(&toleration[name]);
    if !field("value").is_empty() {
        shown.push_str(&format!("={}", field("value")));
    }
    if !field("effect").is_empty() {
        shown.push_str(&format!(":{}", field("effect")));
    }
    if field("operator") == "Exists" && field("value").is_empty() {
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str("op=Exists");
    }
    if let Some(seconds) = toleration["tolerationSeconds"].as_i64() {
        shown.push_str(&format!(" for {seconds}s"));
    }
    shown
}

/// A pod's page.
pub fn pod(lines: &mut Lines, pod: &Value, now: Timestamp) {
    let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    if let Some(priority) = spec["priority"].as_i64() {
        lines.text(0, &format!("Priority:\t{priority}"));
    }
    for (label, field) in [
        ("Priority Class Name:", "priorityClassName"),
        ("Runtime Class Name:", "runtimeClassName"),
        ("Service Account:", "serviceAccountName"),
    ] {
        if let Some(value) = spec[field].as_str().filter(|it| !it.is_empty()) {
            lines.text(0, &format!("{label}\t{value}"));
        }
    }
    match spec["nodeName"].as_str().filter(|it| !it.is_empty()) {
        Some(node) => lines.text(0, &format!("Node:\t{node}/{}", text(&status["hostIP"]))),
        None => lines.text(0, "Node:\t<none>"),
    }
    if let Some(start) = status["startTime"].as_str() {
        lines.text(0, &format!("Start Time:\t{}", rfc1123(start)));
    }
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    let has_ended = matches!(status["phase"].as_str(), Some("Failed" | "Succeeded"));
    match terminating(metadata, now).filter(|_| !has_ended) {
        Some(shown) => {
            lines.text(0, &format!("Status:\t{shown}"));
            let grace = number(&metadata["deletionGracePeriodSeconds"]);
            lines.text(0, &format!("Termination Grace Period:\t{grace}s"));
        }
        None => lines.text(0, &format!("Status:\t{}", text(&status["phase"]))),
    }
    for (label, field) in [("Reason:", "reason"), ("Message:", "message")] {
        if let Some(value) = status[field].as_str().filter(|it| !it.is_empty()) {
            lines.text(0, &format!("{label}\t{value}"));
        }
    }
    seccomp(lines, [0, 0], spec);
    addresses_and_owner(lines, pod);
    if spec["resources"].is_object() {
        lines.text(0, "Resources:");
        resources(lines, 1, &spec["resources"]);
    }
    if items(&spec["initContainers"]).next().is_some() {
        containers(lines, 0, "Init Containers:", &spec["initContainers"], Some((pod, "initContainerStatuses")));
    }
    containers(lines, 0, "Containers:", &spec["containers"], Some((pod, "containerStatuses")));
    if items(&spec["ephemeralContainers"]).next().is_some() {
        let of = Some((pod, "ephemeralContainerStatuses"));
        containers(lines, 0, "Ephemeral Containers:", &spec["ephemeralContainers"], of);
    }
    conditions(lines, pod);
    volume_list(lines, 0, &spec["volumes"]);
    if let Some(class) = status["qosClass"].as_str() {
        lines.text(0, &format!("QoS Class:\t{class}"));
    }
    placement(lines, 0, spec);
    spread(lines, 0, spec);
}

fn addresses_and_owner(lines: &mut Lines, pod: &Value) {
    let (metadata, status) = (&pod["metadata"], &pod["status"]);
    lines.text(0, &format!("IP:\t{}", text(&status["podIP"])));
    let addresses: Vec<String> = items(&status["podIPs"]).map(|it| text(&it["ip"])).collect();
    if addresses.is_empty() {
        lines.text(0, "IPs:\t<none>");
    } else {
        lines.text(0, "IPs:");
        addresses.iter().for_each(|address| lines.text(1, &format!("IP:\t{address}")));
    }
    controller(lines, metadata);
    if let Some(node) = status["nominatedNodeName"].as_str().filter(|it| !it.is_empty()) {
        lines.text(0, &format!("NominatedNodeName:\t{node}"));
    }
}

/// The conditions that a pod's readiness requires, and those that it has.
fn conditions(lines: &mut Lines, pod: &Value) {
    let all = &pod["status"]["conditions"];
    let status_of = |type_: &Value| items(all).find(|it| it["type"] == *type_).map(|it| text(&it["status"]));
    let gates = items(&pod["spec"]["readinessGates"]).map(|it| &it["conditionType"]);
    let gates = gates.map(|it| (text(it), status_of(it).unwrap_or_else(|| "<none>".to_owned())));
    let found = items(all).map(|it| (text(&it["type"]), text(&it["status"])));
    for (label, rows) in [("Readiness Gates:", gates.collect::<Vec<_>>()), ("Conditions:", found.collect())] {
        if !rows.is_empty() {
            lines.text(0, label);
            lines.text(1, "Type\tStatus");
            rows.iter().for_each(|(type_, status)| lines.text(1, &format!("{type_} \t{status} ")));
        }
    }
}

fn volume_list(lines: &mut Lines, level: usize, volumes: &Value) {
    if items(volumes).next().is_none() {
        return lines.text(level, "Volumes:\t<none>");
    }
    lines.text(level, "Volumes:");
    let indent = if level == 0 { "  " } else { " " };
    for volume in items(volumes) {
        lines.text(level, &format!("{indent}{}:", text(&volume["name"])));
        if volumes::source(lines, volume, false) {
            continue;
        }
        if volume["projected"].is_object() {
            lines.text(2, "Type:\tProjected (a volume that contains injected data from multiple sources)");
            items(&volume["projected"]["sources"]).for_each(|source| projected(lines, source));
        } else if volume["downwardAPI"].is_object() {
            lines.text(2, "Type:\tDownwardAPI (a volume populated by information about the pod)");
            lines.text(2, "Items:");
            for item in items(&volume["downwardAPI"]["items"]) {
                let from = [&item["fieldRef"]["fieldPath"], &item["resourceFieldRef"]["resource"]];
                let from = from.into_iter().find_map(Value::as_str).unwrap_or_default();
                lines.text(3, &format!("{from} -> {}", text(&item["path"])));
            }
        } else if volume["ephemeral"].is_object() {
            ephemeral(lines, &volume["ephemeral"]["volumeClaimTemplate"]);
        } else {
            lines.text(1, "<unknown>");
        }
    }
}

/// As of a claim, although no volume is bound to a template.
fn ephemeral(lines: &mut Lines, claim: &Value) {
    let (metadata, spec) = (&claim["metadata"], &claim["spec"]);
    lines.text(
        2,
        "Type:\tEphemeralVolume (an inline specification for a volume that gets created and deleted with the pod)",
    );
    lines.text(2, &format!("StorageClass:\t{}", text(&spec["storageClassName"])));
    lines.text(2, &format!("Volume:\t{}", text(&spec["volumeName"])));
    for (label, map) in [("Labels:", &metadata["labels"]), ("Annotations:", &metadata["annotations"])] {
        match entries(map).is_empty() {
            true => lines.text(2, &format!("{label}\t    <none>")),
            false => volumes::attributes(lines, label, map),
        }
    }
    claimed(lines, 2, spec, &Value::Null);
}

fn projected(lines: &mut Lines, source: &Value) {
    if source["secret"].is_object() {
        lines.text(2, &format!("SecretName:\t{}", text(&source["secret"]["name"])));
        lines.text(2, &format!("Optional:\t{}", source["secret"]["optional"] == true));
    } else if source["downwardAPI"].is_object() {
        lines.text(2, "DownwardAPI:\ttrue");
    } else if source["configMap"].is_object() {
        lines.text(2, &format!("ConfigMapName:\t{}", text(&source["configMap"]["name"])));
        lines.text(2, &format!("Optional:\t{}", source["configMap"]["optional"] == true));
    } else if source["serviceAccountToken"].is_object() {
        let seconds = source["serviceAccountToken"]["expirationSeconds"].as_i64().unwrap_or(3600);
        lines.text(2, &format!("TokenExpirationSeconds:\t{seconds}"));
    }
}
