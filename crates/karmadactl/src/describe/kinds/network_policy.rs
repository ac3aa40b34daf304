//! NetworkPolicies.

use jiff::Timestamp;
use serde_json::Value;

use super::super::lines::Lines;
use super::{items, selector, text, values};

/// The words of one direction.
struct Direction {
    type_: &'static str,
    peers: &'static str,
    word: &'static str,
    peer_label: &'static str,
    end: &'static str,
}

const DIRECTIONS: [Direction; 2] = [
    Direction { type_: "Ingress", peers: "from", word: "ingress", peer_label: "From", end: "source" },
    Direction { type_: "Egress", peers: "to", word: "egress", peer_label: "To", end: "destination" },
];

pub fn network_policy(lines: &mut Lines, object: &Value) {
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    lines.text(0, &format!("Created on:\t{}", created(&text(&metadata["creationTimestamp"]))));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    lines.text(0, "Spec:");
    let selected = match selector(&spec["podSelector"]) {
        all if all == "<none>" => format!("{all} (Allowing the specific traffic to all pods in this namespace)"),
        selected => selected,
    };
    lines.text(1, &format!("PodSelector:     {selected}"));
    let types: Vec<String> = items(&spec["policyTypes"]).map(text).collect();
    for direction in &DIRECTIONS {
        let word = direction.word;
        if !types.iter().any(|type_| type_ == direction.type_) {
            lines.text(1, &format!("Not affecting {word} traffic"));
            continue;
        }
        lines.text(1, &format!("Allowing {word} traffic:"));
        if items(&spec[word]).next().is_none() {
            lines.text(2, &format!("<none> (Selected pods are isolated for {word} connectivity)"));
        }
        for (position, rule) in items(&spec[word]).enumerate() {
            if position > 0 {
                lines.text(2, "----------");
            }
            self::rule(lines, direction, rule);
        }
    }
    lines.text(1, &format!("Policy Types: {}", types.join(", ")));
}

fn rule(lines: &mut Lines, direction: &Direction, rule: &Value) {
    if items(&rule["ports"]).next().is_none() {
        lines.text(2, "To Port: <any> (traffic allowed to all ports)");
    }
    for port in items(&rule["ports"]) {
        let number = if port["port"].is_null() { "<nil>".to_owned() } else { values(&port["port"]) };
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        match port["endPort"].as_i64() {
            Some(end) => lines.text(2, &format!("To Port Range: {number}-{end}/{protocol}")),
            None => lines.text(2, &format!("To Port: {number}/{protocol}")),
        }
    }
    let Direction { peers, peer_label, end, .. } = direction;
    if items(&rule[*peers]).next().is_none() {
        lines.text(2, &format!("{peer_label}: <any> (traffic not restricted by {end})"));
    }
    for peer in items(&rule[*peers]) {
        lines.text(2, &format!("{peer_label}:"));
        if peer["ipBlock"].is_object() {
            lines.text(3, "IPBlock:");
            lines.text(4, &format!("CIDR: {}", text(&peer["ipBlock"]["cidr"])));
            let except: Vec<String> = items(&peer["ipBlock"]["except"]).map(text).collect();
            lines.text(4, &format!("Except: {}", except.join(", ")));
        }
        for (label, field) in [("NamespaceSelector", "namespaceSelector"), ("PodSelector", "podSelector")] {
            if peer[field].is_object() {
                lines.text(3, &format!("{label}: {}", selector(&peer[field])));
            }
        }
    }
}

/// `2006-01-02 15:04:05 +0000 UTC`
fn created(time: &str) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string(),
        Err(_) => time.to_owned(),
    }
}
