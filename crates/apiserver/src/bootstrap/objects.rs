//! The objects besides roles and namespaces that every API server has from its first start. They are created when they
//! are missing; later only the ports and addresses of `default/kubernetes` are brought up to date.

use std::collections::BTreeMap;
use std::net::IpAddr;

use apimachinery::resource::Resource;
use kubernetes_api::services::Ranges;
use serde_json::{Value, json};

use crate::documents::discovery::order;

/// The address of a server in its service `default/kubernetes`.
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

/// The merge patch from a live object of [`front`] to the wanted one; `None` without differences. Other fields are not
/// changed.
pub fn front_change(live: &Value, desired: &Value) -> Option<Value> {
    let owned: &[&str] = match desired["kind"].as_str() {
        Some("Service") => &["/spec/ports"],
        Some("Endpoints") => &["/subsets"],
        _ => &["/endpoints", "/ports"],
    };
    let differs = |pointer: &&str| match (live.pointer(pointer), desired.pointer(pointer)) {
        (Some(live), Some(desired)) => !holds(live, desired),
        (live, desired) => live.is_some() || desired.is_some(),
    };
    if !owned.iter().any(differs) {
        return None;
    }
    Some(match desired["kind"].as_str() {
        Some("Service") => json!({"spec": {"ports": desired["spec"]["ports"]}}),
        Some("Endpoints") => json!({"subsets": desired["subsets"]}),
        _ => json!({"endpoints": desired["endpoints"], "ports": desired["ports"]}),
    })
}

/// Whether `live` has everything of `desired`; fields that the server fills in do not count.
fn holds(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            desired.iter().all(|(key, desired)| live.get(key).is_some_and(|live| holds(live, desired)))
        }
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len() && live.iter().zip(desired).all(|(live, desired)| holds(live, desired))
        }
        _ => live == desired,
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

/// The service `kubernetes`, and its endpoints where there is an address to name: the server's, and those of `others`
/// that serve the same objects. A slice has addresses of one family.
pub fn front(front: Front, others: &[IpAddr]) -> Vec<Value> {
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
    let mut addresses: Vec<IpAddr> = front.address.iter().chain(others).copied().collect();
    if let Some(is_ipv4) = addresses.first().map(IpAddr::is_ipv4) {
        addresses.retain(|address| address.is_ipv4() == is_ipv4);
        addresses.sort();
        addresses.dedup();
        let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let port = json!({"name": "https", "port": front.port, "protocol": "TCP"});
        objects.push(json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": metadata(json!({"endpointslice.kubernetes.io/skip-mirror": "true"})),
            "subsets": [{"addresses": texts.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>(), "ports": [port]}],
        }));
        objects.push(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": metadata(json!({"kubernetes.io/service-name": "kubernetes"})),
            "addressType": if is_ipv4 { "IPv4" } else { "IPv6" },
            "endpoints": texts.iter().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect::<Vec<_>>(),
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

/// The status of local groups: they are always available.
pub fn available(now: apimachinery::meta::Time) -> Value {
    json!({"conditions": [{
        "type": "Available", "status": "True", "lastTransitionTime": now, "reason": "Local",
        "message": "Local APIServices are always available",
    }]})
}

/// The ConfigMap with which aggregated servers authenticate this server and clients.
pub fn authentication(data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": data,
    })
}

/// The published data of front proxies: the authority of their certificates in PEM, their names (any if empty), and the
/// headers that name users.
#[derive(Clone, Debug)]
pub struct PublishedProxies {
    /// The authorities of their client certificates in PEM.
    pub authority: String,
    /// Common names; empty are all.
    pub names: Vec<String>,
    /// The headers with the user's name.
    pub user_headers: Vec<String>,
    /// The headers with the user's UID.
    pub uid_headers: Vec<String>,
    /// The headers with the user's groups.
    pub group_headers: Vec<String>,
    /// The beginnings of headers with extra fields.
    pub extra_prefixes: Vec<String>,
}

impl PublishedProxies {
    /// With kube-apiserver's usual headers.
    pub fn new(authority: &str, names: &[&str]) -> Self {
        let one = |name: &str| vec![name.to_owned()];
        Self {
            authority: authority.to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            user_headers: one("X-Remote-User"),
            uid_headers: one("X-Remote-Uid"),
            group_headers: one("X-Remote-Group"),
            extra_prefixes: one("X-Remote-Extra-"),
        }
    }
}

/// The data of [`authentication`]: the client CA, and the front proxies, if they are known. Lists are JSON in a string.
pub fn authentication_data(client_ca: &str, front_proxies: Option<&PublishedProxies>) -> Value {
    let mut data = json!({"client-ca-file": client_ca});
    if let (Some(proxies), Some(data)) = (front_proxies, data.as_object_mut()) {
        let list = |list: &Vec<String>| json!(list).to_string();
        for (key, value) in [
            ("requestheader-client-ca-file", proxies.authority.clone()),
            ("requestheader-allowed-names", list(&proxies.names)),
            ("requestheader-username-headers", list(&proxies.user_headers)),
            ("requestheader-uid-headers", list(&proxies.uid_headers)),
            ("requestheader-group-headers", list(&proxies.group_headers)),
            ("requestheader-extra-headers-prefix", list(&proxies.extra_prefixes)),
        ] {
            data.insert(key.to_owned(), value.into());
        }
    }
    data
}

/// The group that registers the others has no APIService.
const REGISTRATION: &str = "apiregistration.k8s.io";
/// The label of local APIServices that the server reconciles.
pub const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The local APIService of each group version, by name: created at start for built-in groups, reconciled with the
/// definitions for custom resources.
pub fn api_services<'r>(resources: impl Iterator<Item = &'r Resource>) -> BTreeMap<String, Value> {
    let mut services = BTreeMap::new();
    for resource in resources {
        let (group, version) = (&resource.info.resource.group, &resource.info.resource.version);
        let name = format!("{version}.{group}");
        let service = || {
            let (managed, priorities) = match resource.info.custom {
                true => ("true", (order::CUSTOM, order::CUSTOM_VERSION)),
                false => ("onstart", (order::group_priority(group), order::version_priority(group, version))),
            };
            json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": name, "labels": {AUTOMANAGED: managed}},
                "spec": {
                    "group": group, "version": version,
                    "groupPriorityMinimum": priorities.0, "versionPriority": priorities.1,
                },
            })
        };
        if group != REGISTRATION && (resource.info.custom || order::is_known(group)) {
            services.entry(name.clone()).or_insert_with(service);
        }
    }
    services
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
        front(Front { cluster_ip: ip("10.96.0.1"), address: address.map(ip), port }, &[])
    }

    #[test]
    fn all_servers_are_endpoints_in_one_order() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let of = |own: Option<&str>, others: &[&str]| {
            let others: Vec<IpAddr> = others.iter().map(|text| ip(text)).collect();
            let own = Front { cluster_ip: ip("10.96.0.1"), address: own.map(ip), port: 6443 };
            let objects = front(own, &others);
            objects.get(1).map_or_else(String::new, |endpoints| {
                let addresses = endpoints["subsets"][0]["addresses"].as_array().expect("a list").iter();
                addresses.map(|it| it["ip"].as_str().expect("text")).collect::<Vec<_>>().join(" ")
            })
        };
        for (own, others, expected) in [
            (Some("192.0.2.7"), &["192.0.2.3", "192.0.2.7"][..], "192.0.2.3 192.0.2.7"),
            (Some("192.0.2.3"), &["192.0.2.7"], "192.0.2.3 192.0.2.7"),
            (Some("192.0.2.3"), &["2001:db8::1"], "192.0.2.3"),
            (None, &["192.0.2.7"], "192.0.2.7"),
            (None, &[], ""),
        ] {
            assert_eq!(of(own, others), expected, "{own:?} {others:?}");
        }
    }

    #[test]
    fn endpoints_exist_only_with_an_advertised_address() {
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
            let desired = front_of(Some(address), port);
            live.iter().zip(&desired).map(|(live, desired)| front_change(live, desired)).collect()
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
        let find = |name: &str| &services[name];
        assert_eq!(find("v1.")["spec"]["groupPriorityMinimum"], 18_000);
        for (name, group, version) in [
            ("v1.", 18_000, 1),
            ("v1.apps", 17_800, 15),
            ("v2.autoscaling", 17_500, 30),
            ("v1.autoscaling", 17_500, 15),
            ("v1.flowcontrol.apiserver.k8s.io", 16_100, 21),
        ] {
            let spec = &find(name)["spec"];
            assert_eq!((&spec["groupPriorityMinimum"], &spec["versionPriority"]), (&json!(group), &json!(version)));
            assert_eq!(find(name)["metadata"]["labels"][AUTOMANAGED], "onstart");
        }
        assert!(!services.contains_key("v1.apiregistration.k8s.io"), "as upstream");
    }
}
