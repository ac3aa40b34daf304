//! The load balancer addresses of all members.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::aggregate::Item;
use crate::tree::{int, list, text};

/// Sorted by host name (absent last), address, mode (absent last).
type Key = (bool, String, String, bool, String);

/// A status with the union of the members' addresses. Addresses of Services are also distinguished by their mode.
pub(super) fn union(items: &[Item<'_>], by_mode: bool) -> Value {
    let mut addresses: BTreeMap<Key, (Value, Vec<Value>)> = BTreeMap::new();
    for ingress in items.iter().flat_map(|item| list(&item.status, &["loadBalancer", "ingress"])) {
        let hostname = text(ingress, &["hostname"]).to_owned();
        let mode = if by_mode { text(ingress, &["ipMode"]).to_owned() } else { String::new() };
        let key = (hostname.is_empty(), hostname, text(ingress, &["ip"]).to_owned(), mode.is_empty(), mode);
        let (_, ports) = addresses.entry(key).or_insert_with(|| (ingress.clone(), Vec::new()));
        for port in list(ingress, &["ports"]) {
            if !ports.contains(port) {
                ports.push(port.clone());
            }
        }
    }
    let ingress: Vec<Value> = addresses
        .into_values()
        .map(|(mut ingress, mut ports)| {
            if !ports.is_empty() {
                ports.sort_by_key(|port| {
                    let error = port["error"].as_str().map(str::to_owned);
                    (int(port, &["port"]), text(port, &["protocol"]).to_owned(), error)
                });
                ingress["ports"] = Value::Array(ports);
            }
            ingress
        })
        .collect();
    if ingress.is_empty() { json!({ "loadBalancer": {} }) } else { json!({ "loadBalancer": { "ingress": ingress } }) }
}
