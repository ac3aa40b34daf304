//! ConfigMaps, Secrets, Services, Namespaces and PersistentVolumeClaims.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::super::lines::Lines;
use super::volumes::access_modes;
use super::{Related, entries, items, limits, pairs, rfc1123, terminating, text, values};

fn head(lines: &mut Lines, metadata: &Value) {
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
}

fn length(encoded: &str) -> usize {
    STANDARD.decode(encoded).map_or(0, |bytes| bytes.len())
}

pub fn config_map(lines: &mut Lines, object: &Value) {
    head(lines, &object["metadata"]);
    ["", "Data", "===="].into_iter().for_each(|line| lines.text(0, line));
    for (key, value) in entries(&object["data"]) {
        lines.text(0, &format!("{key}:"));
        lines.text(0, "----");
        value.split('\n').for_each(|line| lines.text(0, &line.replace('\t', " ")));
        lines.text(0, "");
    }
    ["", "BinaryData", "===="].into_iter().for_each(|line| lines.text(0, line));
    for (key, value) in entries(&object["binaryData"]) {
        lines.text(0, &format!("{key}: {} bytes", length(&value)));
    }
    lines.text(0, "");
}

/// Secrets have no events, and their values are not printed.
pub fn secret(lines: &mut Lines, object: &Value) {
    head(lines, &object["metadata"]);
    lines.text(0, "");
    lines.text(0, &format!("Type:\t{}", text(&object["type"])));
    ["", "Data", "===="].into_iter().for_each(|line| lines.text(0, line));
    let is_token = object["type"] == "kubernetes.io/service-account-token";
    for (key, value) in entries(&object["data"]) {
        match is_token && key == "token" {
            true => {
                let token = STANDARD.decode(&value).unwrap_or_default();
                lines.text(0, &format!("{key}:\t{}", String::from_utf8_lossy(&token)));
            }
            false => lines.text(0, &format!("{key}:\t{} bytes", length(&value))),
        }
    }
}

pub fn service(lines: &mut Lines, object: &Value, related: &Related) {
    let (spec, status) = (&object["spec"], &object["status"]);
    head(lines, &object["metadata"]);
    lines.text(0, &format!("Selector:\t{}", pairs(&spec["selector"])));
    lines.text(0, &format!("Type:\t{}", text(&spec["type"])));
    if let Some(policy) = spec["ipFamilyPolicy"].as_str() {
        lines.text(0, &format!("IP Family Policy:\t{policy}"));
    }
    let joined = |value: &Value| {
        let all: Vec<String> = items(value).map(text).collect();
        if all.is_empty() { "<none>".to_owned() } else { all.join(",") }
    };
    lines.text(0, &format!("IP Families:\t{}", joined(&spec["ipFamilies"])));
    lines.text(0, &format!("IP:\t{}", text(&spec["clusterIP"])));
    lines.text(0, &format!("IPs:\t{}", joined(&spec["clusterIPs"])));
    for (label, value) in [("External IPs:", &spec["externalIPs"])] {
        if items(value).next().is_some() {
            lines.text(0, &format!("{label}\t{}", joined(value)));
        }
    }
    for (label, field) in [("Desired LoadBalancer IP:", "loadBalancerIP"), ("External Name:", "externalName")] {
        if let Some(value) = spec[field].as_str().filter(|it| !it.is_empty()) {
            lines.text(0, &format!("{label}\t{value}"));
        }
    }
    let ingress = items(&status["loadBalancer"]["ingress"]).map(|it| match (text(&it["ip"]), it["ipMode"].as_str()) {
        (address, _) if address.is_empty() => text(&it["hostname"]),
        (address, Some(mode)) => format!("{address} ({mode})"),
        (address, None) => address,
    });
    let ingress: Vec<String> = ingress.collect();
    if !ingress.is_empty() {
        lines.text(0, &format!("LoadBalancer Ingress:\t{}", ingress.join(", ")));
    }
    ports(lines, spec, related);
    lines.text(0, &format!("Session Affinity:\t{}", text(&spec["sessionAffinity"])));
    for (label, field) in
        [("External Traffic Policy:", "externalTrafficPolicy"), ("Internal Traffic Policy:", "internalTrafficPolicy")]
    {
        if let Some(value) = spec[field].as_str().filter(|it| !it.is_empty()) {
            lines.text(0, &format!("{label}\t{value}"));
        }
    }
    if let Some(port) = spec["healthCheckNodePort"].as_i64().filter(|port| *port > 0) {
        lines.text(0, &format!("HealthCheck NodePort:\t{port}"));
    }
    if items(&spec["loadBalancerSourceRanges"]).next().is_some() {
        lines.text(0, &format!("LoadBalancer Source Ranges:\t{}", joined(&spec["loadBalancerSourceRanges"])));
    }
}

fn ports(lines: &mut Lines, spec: &Value, related: &Related) {
    for port in items(&spec["ports"]) {
        let name = port["name"].as_str().unwrap_or("<unset>");
        let (number, protocol) = (values(&port["port"]), text(&port["protocol"]));
        lines.text(0, &format!("Port:\t{name}\t{number}/{protocol}"));
        lines.text(0, &format!("TargetPort:\t{}/{protocol}", values(&port["targetPort"])));
        if let Some(application) = port["appProtocol"].as_str() {
            lines.text(0, &format!("AppProtocol:\t{application}"));
        }
        if let Some(node) = port["nodePort"].as_i64().filter(|it| *it > 0) {
            lines.text(0, &format!("NodePort:\t{name}\t{node}/{protocol}"));
        }
        lines.text(0, &format!("Endpoints:\t{}", endpoints(&port["name"], &related.slices)));
    }
}

/// The ready addresses of a port in the Service's slices; three at most are printed.
pub fn endpoints<'s>(port: &Value, slices: impl IntoIterator<Item = &'s Value>) -> String {
    const SHOWN: usize = 3;
    let (mut found, mut has_slices) = (Vec::new(), false);
    for slice in slices {
        has_slices = true;
        let name = |value: &Value| text(value);
        for known in items(&slice["ports"]).filter(|it| name(&it["name"]) == name(port)) {
            let ready = items(&slice["endpoints"]).filter(|it| it["conditions"]["ready"] != false);
            let addresses = ready.flat_map(|it| items(&it["addresses"])).map(text);
            found.extend(addresses.map(|address| match address.contains(':') {
                true => format!("[{address}]:{}", values(&known["port"])),
                false => format!("{address}:{}", values(&known["port"])),
            }));
        }
    }
    if !has_slices {
        return "<none>".to_owned();
    }
    let more = found.len().saturating_sub(SHOWN);
    found.truncate(SHOWN);
    let shown = found.join(",");
    if more > 0 { format!("{shown} + {more} more...") } else { shown }
}

pub fn namespace(lines: &mut Lines, object: &Value, related: &Related) {
    let metadata = &object["metadata"];
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    lines.text(0, &format!("Status:\t{}", text(&object["status"]["phase"])));
    lines.text(0, "");
    if related.quotas.is_empty() {
        lines.text(0, "No resource quota.");
    } else {
        lines.text(0, "Resource Quotas");
    }
    for quota in &related.quotas {
        lines.text(1, &format!("Name:\t{}", text(&quota["metadata"]["name"])));
        limits::scopes(lines, quota, 1, "");
        lines.text(1, "Resource\tUsed\tHard");
        lines.text(1, "--------\t---\t---");
        for (name, hard) in entries(&quota["status"]["hard"]) {
            let used = &quota["status"]["used"][&name];
            lines.text(1, &format!("{name}\t{}\t{hard}", used.as_str().unwrap_or("0")));
        }
    }
    lines.text(0, "");
    if related.limits.is_empty() {
        return lines.text(0, "No LimitRange resource.");
    }
    lines.text(0, "Resource Limits");
    limits::table(lines, " ", &related.limits);
}

pub fn claim(lines: &mut Lines, object: &Value, related: &Related, now: Timestamp) {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    lines.text(0, &format!("StorageClass:\t{}", text(&spec["storageClassName"])));
    let shown = terminating(metadata, now).unwrap_or_else(|| text(&status["phase"]));
    lines.text(0, &format!("Status:\t{shown}"));
    lines.text(0, &format!("Volume:\t{}", text(&spec["volumeName"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    let finalizers: Vec<String> = items(&metadata["finalizers"]).map(text).collect();
    lines.text(0, &format!("Finalizers:\t[{}]", finalizers.join(" ")));
    claimed(lines, 0, spec, status);
    let uses = |pod: &&Value| {
        let name = &metadata["name"];
        items(&pod["spec"]["volumes"]).any(|it| it["persistentVolumeClaim"]["claimName"] == *name)
    };
    let users: Vec<String> = related.pods.iter().filter(uses).map(|it| text(&it["metadata"]["name"])).collect();
    if users.is_empty() {
        lines.text(0, "Used By:\t<none>");
    }
    for (position, user) in users.iter().enumerate() {
        let label = if position == 0 { "Used By:" } else { "" };
        lines.text(0, &format!("{label}\t{user}"));
    }
    if items(&status["conditions"]).next().is_some() {
        lines.text(0, "Conditions:");
        lines.text(1, "Type\tStatus\tLastProbeTime\tLastTransitionTime\tReason\tMessage");
        lines.text(1, "----\t------\t-----------------\t------------------\t------\t-------");
        for it in items(&status["conditions"]) {
            let [type_, state, reason, message] = ["type", "status", "reason", "message"].map(|field| text(&it[field]));
            // A time that is absent is Go's zero.
            let time = |field: &str| rfc1123(it[field].as_str().unwrap_or("0001-01-01T00:00:00Z"));
            let (probed, changed) = (time("lastProbeTime"), time("lastTransitionTime"));
            lines.text(1, &format!("{type_} \t{state} \t{probed} \t{changed} \t{reason} \t{message}"));
        }
    }
}

/// What a claim requests, also in the template of one. Capacity and access modes are those of its volume.
pub fn claimed(lines: &mut Lines, level: usize, spec: &Value, status: &Value) {
    let (capacity, modes) = match text(&spec["volumeName"]).is_empty() {
        true => (String::new(), String::new()),
        false => {
            (status["capacity"]["storage"].as_str().unwrap_or("0").to_owned(), access_modes(&status["accessModes"]))
        }
    };
    lines.text(level, &format!("Capacity:\t{capacity}"));
    lines.text(level, &format!("Access Modes:\t{modes}"));
    if spec["volumeMode"].is_string() {
        lines.text(level, &format!("VolumeMode:\t{}", text(&spec["volumeMode"])));
    }
    let source = &spec["dataSource"];
    if source.is_object() {
        lines.text(level, "DataSource:");
        for (label, field) in [("APIGroup:", "apiGroup"), ("Kind:", "kind"), ("Name:", "name")] {
            if field != "apiGroup" || source[field].is_string() {
                lines.text(level + 1, &format!("{label}\t{}", text(&source[field])));
            }
        }
    }
}
