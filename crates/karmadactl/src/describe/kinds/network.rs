//! Endpoints, EndpointSlices, IngressClasses and ServiceCIDRs.

use serde_json::Value;

use super::super::lines::Lines;
use super::{items, rfc1123, text};

fn head(lines: &mut Lines, metadata: &Value) {
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    if !metadata["namespace"].is_null() {
        lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    }
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
}

/// The text, or `missing` if it is absent or empty.
fn or(value: &Value, missing: &str) -> String {
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if value.is_null() || shown.is_empty() { missing.to_owned() } else { shown }
}

fn joined<'v>(values: impl Iterator<Item = &'v Value>, separator: &str) -> String {
    let values: Vec<String> = values.map(text).collect();
    if values.is_empty() { "<none>".to_owned() } else { values.join(separator) }
}

fn ports(lines: &mut Lines, level: usize, ports: &Value) {
    lines.text(level, "Name\tPort\tProtocol");
    lines.text(level, "----\t----\t--------");
    for port in items(ports) {
        let [name, number] = ["name", "port"].map(|field| or(&port[field], "<unset>"));
        lines.text(level, &format!("{name}\t{number}\t{}", text(&port["protocol"])));
    }
}

pub fn endpoints(lines: &mut Lines, object: &Value) {
    head(lines, &object["metadata"]);
    lines.text(0, "Subsets:");
    for subset in items(&object["subsets"]) {
        for (label, field) in [("Addresses", "addresses"), ("NotReadyAddresses", "notReadyAddresses")] {
            let addresses = joined(items(&subset[field]).map(|it| &it["ip"]), ",");
            lines.text(1, &format!("{label}:\t{addresses}"));
        }
        if items(&subset["ports"]).next().is_some() {
            lines.text(1, "Ports:");
            ports(lines, 2, &subset["ports"]);
        }
        lines.text(0, "");
    }
}

pub fn slice(lines: &mut Lines, object: &Value) {
    head(lines, &object["metadata"]);
    lines.text(0, &format!("AddressType:\t{}", text(&object["addressType"])));
    if items(&object["ports"]).next().is_none() {
        lines.text(0, "Ports: <unset>");
    } else {
        lines.text(0, "Ports:");
        ports(lines, 1, &object["ports"]);
    }
    if items(&object["endpoints"]).next().is_none() {
        return lines.text(0, "Endpoints: <none>");
    }
    lines.text(0, "Endpoints:");
    for endpoint in items(&object["endpoints"]) {
        lines.text(1, &format!("- Addresses:\t{}", joined(items(&endpoint["addresses"]), ", ")));
        lines.text(2, "Conditions:");
        lines.text(3, &format!("Ready:\t{}", or(&endpoint["conditions"]["ready"], "<unset>")));
        lines.text(2, &format!("Hostname:\t{}", or(&endpoint["hostname"], "<unset>")));
        let target = &endpoint["targetRef"];
        if target.is_object() {
            lines.text(2, &format!("TargetRef:\t{}/{}", text(&target["kind"]), text(&target["name"])));
        }
        lines.text(2, &format!("NodeName:\t{}", or(&endpoint["nodeName"], "<unset>")));
        lines.text(2, &format!("Zone:\t{}", or(&endpoint["zone"], "<unset>")));
    }
}

pub fn ingress_class(lines: &mut Lines, object: &Value) {
    head(lines, &object["metadata"]);
    lines.text(0, &format!("Controller:\t{}", text(&object["spec"]["controller"])));
    let parameters = &object["spec"]["parameters"];
    if parameters.is_object() {
        lines.text(0, "Parameters:");
        if !parameters["apiGroup"].is_null() {
            lines.text(1, &format!("APIGroup:\t{}", text(&parameters["apiGroup"])));
        }
        lines.text(1, &format!("Kind:\t{}", text(&parameters["kind"])));
        lines.text(1, &format!("Name:\t{}", text(&parameters["name"])));
    }
}

pub fn service_cidr(lines: &mut Lines, object: &Value) {
    head(lines, &object["metadata"]);
    lines.text(0, &format!("CIDRs:\t{}", joined(items(&object["spec"]["cidrs"]), ", ")));
    let conditions = &object["status"]["conditions"];
    if items(conditions).next().is_none() {
        return;
    }
    lines.text(0, "Status:");
    lines.text(0, "Conditions:");
    lines.text(1, "Type\tStatus\tLastTransitionTime\tReason\tMessage");
    lines.text(1, "----\t------\t------------------\t------\t-------");
    for condition in items(conditions) {
        let [kind, status, reason, message] = ["type", "status", "reason", "message"].map(|it| text(&condition[it]));
        let changed = rfc1123(&text(&condition["lastTransitionTime"]));
        lines.text(1, &format!("{kind}\t{status}\t{changed}\t{reason}\t{message}"));
    }
}
