//! The objects besides roles and namespaces that every API server has from its first start. They are created when they
//! are missing; later only the ports and addresses of `default/kubernetes` are brought up to date.

use std::collections::BTreeMap;
use std::net::IpAddr;

use apimachinery::resource::Resource;
use kubernetes_api::services::Ranges;
use serde_json::{Value, json};

use crate::discovery::order;

/// Where a server is reached, as its own service `default/kubernetes` has it.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    /// The first address of the service range, which belongs to the service `kubernetes`.
    pub cluster_ip: IpAddr,
    /// The address at which other machines reach the server, if there is one; never a loopback address.
    pub address: Option<IpAddr>,
    /// The port of the service `kubernetes`' endpoint.
    pub port: u16,
}

impl Front {
    /// kube-apiserver's port, for a server without a socket.
    pub const USUAL_PORT: u16 = 6443;
}

/// The merge patch that brings a live object of [`front`] to what is wanted; `None` when nothing differs. Other fields
/// stay as they are.
pub fn front_change(live: &Value, wanted: &Value) -> Option<Value> {
    let owned: &[&str] = match wanted["kind"].as_str() {
        Some("Service") => &["/spec/ports"],
        Some("Endpoints") => &["/subsets"],
        _ => &["/endpoints", "/ports"],
    };
    let differs = |pointer: &&str| match (live.pointer(pointer), wanted.pointer(pointer)) {
        (Some(live), Some(wanted)) => !holds(live, wanted),
        (live, wanted) => live.is_some() || wanted.is_some(),
    };
    if !owned.iter().any(differs) {
        return None;
    }
    Some(match wanted["kind"].as_str() {
        Some("Service") => json!({"spec": {"ports": wanted["spec"]["ports"]}}),
        Some("Endpoints") => json!({"subsets": wanted["subsets"]}),
        _ => json!({"endpoints": wanted["endpoints"], "ports": wanted["ports"]}),
    })
}

/// Whether `live` has everything of `wanted`; fields that the server fills in do not count.
fn holds(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| live.get(key).is_some_and(|live| holds(live, wanted)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| holds(live, wanted))
        }
        _ => live == wanted,
    }
}

/// The classes of pods a cluster cannot do without.
pub fn priority_classes() -> Vec<Value> {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": description,
        })
    };
    let cluster =
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.";
    let node = "Used for system critical pods that must not be moved from their current node.";
    vec![class("system-cluster-critical", 2_000_000_000, cluster), class("system-node-critical", 2_000_001_000, node)]
}

/// The service `kubernetes`, and its endpoints where there is an address to name.
pub fn front(front: Front) -> Vec<Value> {
    let metadata = |labels: Value| json!({"name": "kubernetes", "namespace": "default", "labels": labels});
    let family = if front.cluster_ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": metadata(json!({"component": "apiserver", "provider": "kubernetes"})),
        "spec": {
            "type": "ClusterIP", "sessionAffinity": "None",
            "clusterIP": front.cluster_ip.to_string(), "clusterIPs": [front.cluster_ip.to_string()],
            "ipFamilies": [family], "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": front.port}],
        },
    })];
    if let Some(address) = front.address {
        let port = json!({"name": "https", "port": front.port, "protocol": "TCP"});
        objects.push(json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": metadata(json!({"endpointslice.kubernetes.io/skip-mirror": "true"})),
            "subsets": [{"addresses": [{"ip": address.to_string()}], "ports": [port]}],
        }));
        objects.push(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": metadata(json!({"kubernetes.io/service-name": "kubernetes"})),
            "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
            "endpoints": [{"addresses": [address.to_string()], "conditions": {"ready": true}}],
            "ports": [port],
        }));
    }
    objects
}

/// The addresses of services as an object: those of the server's flag, which are in use from its start.
pub fn service_cidr(ranges: &Ranges) -> Value {
    let cidrs: Vec<String> =
        std::iter::once(&ranges.primary).chain(&ranges.secondary).map(ToString::to_string).collect();
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": cidrs},
    })
}

/// The status the addresses of the flag have.
pub fn in_use(now: apimachinery::meta::Time) -> Value {
    json!({"conditions": [{
        "type": "Ready", "status": "True", "lastTransitionTime": now, "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
    }]})
}

/// The client CA and front proxy settings for aggregated servers and controllers.
pub fn authentication(client_ca: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {"client-ca-file": client_ca},
    })
}

/// One `APIService` for each group and version that the server itself serves: name, spec, and the status they always have.
pub fn api_services<'r>(resources: impl Iterator<Item = &'r Resource>) -> Vec<Value> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for resource in resources {
        let known = versions.entry(&resource.info.resource.group).or_default();
        if !known.contains(&resource.info.resource.version.as_str()) {
            known.push(&resource.info.resource.version);
        }
    }
    let mut services = Vec::new();
    for (group, mut versions) in versions {
        versions.sort_by(|a, b| order::compare_versions(a, b));
        for (place, version) in versions.iter().enumerate() {
            services.push(json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {
                    "name": format!("{version}.{group}"),
                    "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
                },
                "spec": {
                    "group": group, "version": version, "groupPriorityMinimum": order::group_priority(group),
                    "versionPriority": order::version_priority(group, place),
                },
            }));
        }
    }
    services
}

/// Local groups are always there.
pub fn available(now: apimachinery::meta::Time) -> Value {
    json!({"conditions": [{
        "type": "Available", "status": "True", "lastTransitionTime": now, "reason": "Local",
        "message": "Local APIServices are always available",
    }]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_of_addresses_are_named() {
        let range = |text: &str| text.parse().expect("a range");
        let (primary, secondary) = (range("10.0.0.0/16"), Some(range("fd00::/112")));
        let ranges = Ranges { primary, secondary, ..Ranges::default() };
        assert_eq!(service_cidr(&ranges)["spec"], json!({"cidrs": ["10.0.0.0/16", "fd00::/112"]}));
        assert_eq!(service_cidr(&Ranges::default())["spec"], json!({"cidrs": ["10.96.0.0/12"]}));
    }

    fn front_of(address: Option<&str>, port: u16) -> Vec<Value> {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        front(Front { cluster_ip: ip("10.96.0.1"), address: address.map(ip), port })
    }

    #[test]
    fn the_front_names_endpoints_only_where_others_can_call() {
        for (address, count) in [(None, 1), (Some("192.0.2.7"), 3)] {
            assert_eq!(front_of(address, 6443).len(), count, "{address:?}");
        }
        let service = &front_of(None, 5443)[0];
        assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
        assert_eq!(service["spec"]["ports"][0]["targetPort"], 5443);
    }

    #[test]
    fn another_address_or_port_changes_the_live_objects() {
        let live = front_of(Some("192.0.2.7"), 6443).into_iter().map(|mut object| {
            // Server-populated fields.
            object["metadata"]["uid"] = json!("u");
            if let Some(endpoint) = object.pointer_mut("/endpoints/0/conditions") {
                endpoint["serving"] = json!(true);
            }
            object
        });
        let live: Vec<Value> = live.collect();
        let changed = |address: &str, port: u16| -> Vec<Option<Value>> {
            let wanted = front_of(Some(address), port);
            live.iter().zip(&wanted).map(|(live, wanted)| front_change(live, wanted)).collect()
        };
        assert_eq!(changed("192.0.2.7", 6443), [None, None, None]);
        let moved = changed("203.0.113.10", 6443);
        assert_eq!(moved[0], None);
        assert_eq!(moved[1].as_ref().expect("a patch")["subsets"][0]["addresses"], json!([{"ip": "203.0.113.10"}]));
        assert_eq!(moved[2].as_ref().expect("a patch")["endpoints"][0]["addresses"], json!(["203.0.113.10"]));
        let port = changed("192.0.2.7", 443);
        assert_eq!(port[0].as_ref().expect("a patch")["spec"]["ports"][0]["targetPort"], 443);
        assert_eq!(port[1].as_ref().expect("a patch")["subsets"][0]["ports"][0]["port"], 443);
        assert_eq!(port[2].as_ref().expect("a patch")["ports"][0]["port"], 443);
    }

    #[test]
    fn every_group_and_version_is_a_service_of_its_own() {
        let services = api_services(kubernetes_api::resources().iter());
        let find = |name: &str| services.iter().find(|service| service["metadata"]["name"] == name).expect("a service");
        assert_eq!(find("v1.")["spec"]["groupPriorityMinimum"], 18_000);
        assert_eq!(find("v1.apps")["spec"]["versionPriority"], 15);
        let priority = |name: &str| find(name)["spec"]["versionPriority"].as_i64().expect("a number");
        assert!(priority("v2.autoscaling") > priority("v1.autoscaling"));
    }
}
