//! Nodes: their conditions, their room, and the pods that take it.

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity;
use jiff::Timestamp;
use serde_json::Value;

use super::super::lines::Lines;
use super::{Related, entries, items, rfc1123, seconds, text};

/// Amounts by resource.
type Amounts = BTreeMap<String, Quantity>;

/// The resources whose allocation is shown.
const SHOWN: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

pub fn node(lines: &mut Lines, object: &Value, related: &Related, now: Timestamp) {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Roles:\t{}", roles(&metadata["labels"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    lines.text(0, &format!("CreationTimestamp:\t{}", rfc1123(&text(&metadata["creationTimestamp"]))));
    taints(lines, spec);
    lines.text(0, &format!("Unschedulable:\t{}", spec["unschedulable"] == true));
    lease(lines, related);
    conditions(lines, status);
    lines.text(0, "Addresses:");
    for address in items(&status["addresses"]) {
        lines.text(1, &format!("{}:\t{}", text(&address["type"]), text(&address["address"])));
    }
    for (label, field) in [("Capacity:", "capacity"), ("Allocatable:", "allocatable")] {
        let amounts = entries(&status[field]);
        if !amounts.is_empty() {
            lines.text(0, label);
            amounts.iter().for_each(|(name, amount)| lines.text(1, &format!("{name}:\t{amount}")));
        }
    }
    system(lines, &status["nodeInfo"]);
    for (label, field) in [("PodCIDR:", "podCIDR"), ("ProviderID:", "providerID")] {
        if let Some(value) = spec[field].as_str().filter(|it| !it.is_empty()) {
            lines.text(0, &format!("{label}\t{value}"));
            let ranges: Vec<String> = items(&spec["podCIDRs"]).map(text).collect();
            if field == "podCIDR" && !ranges.is_empty() {
                lines.text(0, &format!("PodCIDRs:\t{}", ranges.join(",")));
            }
        }
    }
    capacity(lines, status, related, now);
}

fn roles(labels: &Value) -> String {
    const PREFIX: &str = "node-role.kubernetes.io/";
    let of = |(key, value): (String, String)| match key.strip_prefix(PREFIX) {
        Some(role) if !role.is_empty() => Some(role.to_owned()),
        _ => (key == "kubernetes.io/role" && !value.is_empty()).then_some(value),
    };
    let mut roles: Vec<String> = entries(labels).into_iter().filter_map(of).collect();
    roles.sort();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn taints(lines: &mut Lines, spec: &Value) {
    let shown = |taint: &Value| match text(&taint["value"]) {
        value if value.is_empty() => format!("{}:{}", text(&taint["key"]), text(&taint["effect"])),
        value => format!("{}={value}:{}", text(&taint["key"]), text(&taint["effect"])),
    };
    let mut taints: Vec<String> = items(&spec["taints"]).map(shown).collect();
    taints.sort();
    if taints.is_empty() {
        lines.text(0, "Taints:\t<none>");
    }
    for (position, taint) in taints.iter().enumerate() {
        let label = if position == 0 { "Taints:" } else { "" };
        lines.text(0, &format!("{label}\t{taint}"));
    }
}

fn lease(lines: &mut Lines, related: &Related) {
    let lease = match &related.lease {
        Some(Ok(lease)) => &lease["spec"],
        Some(Err(why)) => return lines.text(0, &format!("Lease:\tFailed to get lease: {why}")),
        None => return,
    };
    lines.text(0, "Lease:");
    lines.text(1, &format!("HolderIdentity:\t{}", lease["holderIdentity"].as_str().unwrap_or("<unset>")));
    for (label, field) in [("AcquireTime:", "acquireTime"), ("RenewTime:", "renewTime")] {
        let time = lease[field].as_str().map_or_else(|| "<unset>".to_owned(), rfc1123);
        lines.text(1, &format!("{label}\t{time}"));
    }
}

fn conditions(lines: &mut Lines, status: &Value) {
    if items(&status["conditions"]).next().is_none() {
        return;
    }
    lines.text(0, "Conditions:");
    lines.text(1, "Type\tStatus\tLastHeartbeatTime\tLastTransitionTime\tReason\tMessage");
    lines.text(1, "----\t------\t-----------------\t------------------\t------\t-------");
    for condition in items(&status["conditions"]) {
        let [type_, state, reason, message] = ["type", "status", "reason", "message"].map(|it| text(&condition[it]));
        let [beat, turn] = ["lastHeartbeatTime", "lastTransitionTime"].map(|it| rfc1123(&text(&condition[it])));
        lines.text(1, &format!("{type_} \t{state} \t{beat} \t{turn} \t{reason} \t{message}"));
    }
}

fn system(lines: &mut Lines, info: &Value) {
    lines.text(0, "System Info:");
    for (label, field) in [
        ("Machine ID:", "machineID"),
        ("System UUID:", "systemUUID"),
        ("Boot ID:", "bootID"),
        ("Kernel Version:", "kernelVersion"),
        ("OS Image:", "osImage"),
        ("Operating System:", "operatingSystem"),
        ("Architecture:", "architecture"),
        ("Container Runtime Version:", "containerRuntimeVersion"),
        ("Kubelet Version:", "kubeletVersion"),
        ("Kube-Proxy Version:", "kubeProxyVersion"),
    ] {
        lines.text(1, &format!("{label}\t{}", text(&info[field])));
    }
}

/// The unfinished pods, and the sum of their requests.
fn capacity(lines: &mut Lines, status: &Value, related: &Related, now: Timestamp) {
    let allocatable = match status["allocatable"].is_object() {
        true => amounts(&status["allocatable"]),
        false => amounts(&status["capacity"]),
    };
    lines.text(0, &format!("Non-terminated Pods:\t({} in total)", related.pods.len()));
    lines.text(1, "Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge");
    lines.text(1, "---------\t----\t\t------------\t----------\t---------------\t-------------\t---");
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    for pod in &related.pods {
        let [requested, limited] = ["requests", "limits"].map(|kind| of_pod(pod, kind));
        let shown = |of: &Amounts, name: &str| shown(of, &allocatable, name);
        let age = seconds(&pod["metadata"]["creationTimestamp"]);
        let age = age
            .map_or_else(|| "<unknown>".to_owned(), |since| apimachinery::age::human_duration(now.as_second() - since));
        let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
        lines.text(
            1,
            &format!(
                "{namespace}\t{name}\t\t{}\t{}\t{}\t{}\t{age}",
                shown(&requested, "cpu"),
                shown(&limited, "cpu"),
                shown(&requested, "memory"),
                shown(&limited, "memory")
            ),
        );
        add(&mut requests, &requested);
        add(&mut limits, &limited);
    }
    lines.text(0, "Allocated resources:");
    lines.text(1, "(Total limits may be over 100 percent, i.e., overcommitted.)");
    lines.text(1, "Resource\tRequests\tLimits");
    lines.text(1, "--------\t--------\t------");
    for name in SHOWN {
        let [requested, limited] = [&requests, &limits].map(|of| shown(of, &allocatable, name));
        lines.text(1, &format!("{name}\t{requested}\t{limited}"));
    }
    // Huge pages and devices, which are not overcommitted.
    let is_counted = |name: &&String| name.starts_with("hugepages-") || name.contains('/');
    for name in allocatable.keys().filter(is_counted) {
        let amount = |of: &Amounts| of.get(name).map_or_else(|| "0".to_owned(), ToString::to_string);
        match name.starts_with("hugepages-") {
            true => {
                let [requested, limited] = [&requests, &limits].map(|of| shown(of, &allocatable, name));
                lines.text(1, &format!("{name}\t{requested}\t{limited}"));
            }
            false => lines.text(1, &format!("{name}\t{}\t{}", amount(&requests), amount(&limits))),
        }
    }
}

fn amounts(map: &Value) -> Amounts {
    let parsed = entries(map).into_iter().filter_map(|(name, amount)| Some((name, amount.parse().ok()?)));
    parsed.collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let before = sum.get(name).copied();
        sum.insert(name.clone(), before.map_or(*amount, |before| before + *amount));
    }
}

/// The resources of a pod: of its containers together, or of its largest init container; and its overhead.
fn of_pod(pod: &Value, kind: &str) -> Amounts {
    let spec = &pod["spec"];
    let mut sum = Amounts::new();
    let of = |container: &Value| amounts(&container["resources"][kind]);
    items(&spec["containers"]).for_each(|container| add(&mut sum, &of(container)));
    let (mut beside, mut largest) = (Amounts::new(), Amounts::new());
    for container in items(&spec["initContainers"]) {
        let mut own = of(container);
        if container["restartPolicy"] == "Always" {
            add(&mut sum, &own);
            add(&mut beside, &own);
            own.clone_from(&beside);
        } else {
            add(&mut own, &beside);
        }
        larger(&mut largest, own);
    }
    larger(&mut sum, largest);
    let overhead = amounts(&spec["overhead"]);
    let overhead = overhead.into_iter().filter(|(name, _)| kind == "requests" || sum.contains_key(name));
    let overhead: Amounts = overhead.collect();
    add(&mut sum, &overhead);
    sum
}

fn larger(amounts: &mut Amounts, others: Amounts) {
    for (name, amount) in others {
        let known = amounts.entry(name).or_insert(amount);
        if *known < amount {
            *known = amount;
        }
    }
}

/// `100m (2%)`
fn shown(of: &Amounts, allocatable: &Amounts, name: &str) -> String {
    let Some(amount) = of.get(name) else { return "0 (0%)".to_owned() };
    let whole = allocatable.get(name).map_or(0.0, |it| it.as_f64());
    // In percent, cut off as by kubectl.
    let share = if whole == 0.0 { 0 } else { (amount.as_f64() / whole * 100.0) as i64 };
    format!("{amount} ({share}%)")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_requests_include_init_containers() {
        let of = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let always = json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}});
        let check = |containers: Value, starting: Value, expected: &str| {
            let pod = json!({"spec": {"containers": containers, "initContainers": starting}});
            let found = of_pod(&pod, "requests").get("cpu").map(ToString::to_string);
            assert_eq!(found.unwrap_or_default(), expected, "{pod}");
        };
        check(json!([of("100m"), of("200m")]), json!([]), "300m");
        check(json!([of("100m")]), json!([of("1"), of("500m")]), "1");
        check(json!([of("100m")]), json!([always.clone(), of("500m")]), "550m");
        check(json!([of("100m")]), json!([of("20m"), always]), "150m");
        check(json!([{}]), json!([]), "");
    }
}
