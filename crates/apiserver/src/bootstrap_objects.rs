//! The objects besides roles and namespaces that every API server has from its first start. They are made when they are
//! missing and then are their owner's.

use std::collections::BTreeMap;
use std::net::IpAddr;

use apimachinery::resource::Resource;
use kubernetes_api::services::Ranges;
use serde_json::{Value, json};

use crate::discovery::order;

/// Where a server is found, as its own service says it.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    /// The first address of the service range, which belongs to the service `kubernetes`.
    pub cluster_ip: IpAddr,
    /// The server's own address, where it is one that others can call.
    pub address: Option<IpAddr>,
    pub port: u16,
}

impl Front {
    /// kube-apiserver's port, where the server's own is not known yet.
    const USUAL_PORT: u16 = 6443;

    /// `bound` is the address the server listens on; others cannot call a loopback or unspecified one.
    pub fn new(cluster_ip: IpAddr, bound: IpAddr, port: u16) -> Self {
        let address = Some(bound).filter(|ip| !ip.is_loopback() && !ip.is_unspecified());
        Self { cluster_ip, address, port: if port == 0 { Self::USUAL_PORT } else { port } }
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

/// What tells aggregated servers and controllers which client certificates the server trusts.
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

    #[test]
    fn the_front_names_endpoints_only_where_others_can_call() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        for (bound, count) in [("127.0.0.1", 1), ("0.0.0.0", 1), ("192.0.2.7", 3)] {
            assert_eq!(front(Front::new(ip("10.96.0.1"), ip(bound), 0)).len(), count, "{bound}");
        }
        let service = &front(Front::new(ip("10.96.0.1"), ip("127.0.0.1"), 5443))[0];
        assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
        assert_eq!(service["spec"]["ports"][0]["targetPort"], 5443);
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
