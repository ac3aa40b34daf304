//! The address of a service, from the Service and its endpoints.

use serde_json::Value;

/// How services are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// By the address of the Service.
    #[default]
    ClusterAddress,
    /// By the address of one of its endpoints (`--enable-aggregator-routing`).
    Endpoints,
}

/// A Service and its endpoints. Objects that are missing are `None` or empty.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub service: Option<Value>,
    pub endpoints: Option<Value>,
    pub slices: Vec<Value>,
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The type of a Service.
pub fn type_of(service: &Value) -> &str {
    match text(&service["spec"]["type"]) {
        "" => "ClusterIP",
        other => other,
    }
}

/// The Service's port of this number.
pub fn port_of(service: &Value, port: u16) -> Option<&Value> {
    list(&service["spec"]["ports"]).iter().find(|it| it["port"] == port)
}

/// The host and port to connect to. `chance` selects one of several endpoints.
///
/// # Errors
/// Why the service cannot be reached, as kube-apiserver words it.
pub fn address(found: &Found, name: &str, port: u16, routing: Routing, chance: u64) -> Result<(String, u16), String> {
    let service = found.service.as_ref().ok_or_else(|| format!("service {name:?} not found"))?;
    let number = || format!("no service port {port} found for service {name:?}");
    match (type_of(service), routing) {
        ("ExternalName", _) => Ok((text(&service["spec"]["externalName"]).to_owned(), port)),
        ("ClusterIP" | "NodePort" | "LoadBalancer", Routing::ClusterAddress) => {
            match text(&service["spec"]["clusterIP"]) {
                "" | "None" => Err("cannot route to service with ClusterIP \"None\"".to_owned()),
                address => port_of(service, port).map(|_| (address.to_owned(), port)).ok_or_else(number),
            }
        }
        ("ClusterIP" | "NodePort" | "LoadBalancer", Routing::Endpoints) => {
            let port_name = text(&port_of(service, port).ok_or_else(number)?["name"]);
            let ready = ready(found, port_name);
            let count = u64::try_from(ready.len()).unwrap_or(u64::MAX);
            let place = chance.checked_rem(count).and_then(|place| usize::try_from(place).ok());
            let chosen = place.and_then(|place| ready.into_iter().nth(place));
            chosen.ok_or_else(|| format!("no endpoints available for service {name:?}"))
        }
        (other, _) => Err(format!("unsupported service type {other:?}")),
    }
}

/// Addresses and ports of endpoints that are ready, for the port of this name.
pub fn ready(found: &Found, port_name: &str) -> Vec<(String, u16)> {
    let numbers = |ports: &Value| -> Vec<u16> {
        let named = list(ports).iter().filter(|port| text(&port["name"]) == port_name);
        named.filter_map(|port| port["port"].as_u64()).filter_map(|port| u16::try_from(port).ok()).collect()
    };
    let mut ready = Vec::new();
    for slice in &found.slices {
        let is_ready = |endpoint: &&Value| endpoint["conditions"]["ready"] != false;
        let addresses = list(&slice["endpoints"]).iter().filter(is_ready).flat_map(|it| list(&it["addresses"]).first());
        for address in addresses {
            ready.extend(numbers(&slice["ports"]).into_iter().map(|port| (text(address).to_owned(), port)));
        }
    }
    for subset in found.endpoints.iter().flat_map(|endpoints| list(&endpoints["subsets"])) {
        for address in list(&subset["addresses"]) {
            let ports = numbers(&subset["ports"]).into_iter();
            ready.extend(ports.map(|port| (text(&address["ip"]).to_owned(), port)));
        }
    }
    // Endpoints and their slices name the same addresses.
    ready.sort();
    ready.dedup();
    ready
}

/// The URL of a server at a host and port.
pub fn url(host: &str, port: u16) -> String {
    if host.contains(':') { format!("https://[{host}]:{port}") } else { format!("https://{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_have_addresses() {
        let cluster = json!({"clusterIP": "10.0.0.1", "ports": [{"port": 443, "name": "https"}]});
        let ready = json!([{"ip": "10.1.0.1"}, {"ip": "10.1.0.2"}]);
        let endpoints = json!({"subsets": [{"addresses": ready, "ports": [{"name": "https", "port": 8443}]}]});
        let slice = json!({"ports": [{"name": "https", "port": 8443}], "endpoints": [
            {"addresses": ["10.1.0.3"], "conditions": {"ready": false}}, {"addresses": ["10.1.0.4"]}]});
        let by_address = Routing::ClusterAddress;
        let no_port = "no service port 443 found for service \"s\"";
        let none = "cannot route to service with ClusterIP \"None\"";
        for (spec, routing, endpoints, slices, expected) in [
            (cluster.clone(), by_address, None, vec![], Ok("https://10.0.0.1:443")),
            (
                json!({"clusterIP": "fd00::1", "ports": [{"port": 443}]}),
                by_address,
                None,
                vec![],
                Ok("https://[fd00::1]:443"),
            ),
            (
                json!({"type": "ExternalName", "externalName": "a.example"}),
                by_address,
                None,
                vec![],
                Ok("https://a.example:443"),
            ),
            (
                json!({"type": "ExternalName", "externalName": "a.example"}),
                Routing::Endpoints,
                None,
                vec![],
                Ok("https://a.example:443"),
            ),
            (json!({"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}), by_address, None, vec![], Err(no_port)),
            (json!({"clusterIP": "None", "ports": [{"port": 443}]}), by_address, None, vec![], Err(none)),
            (json!({"type": "Other"}), by_address, None, vec![], Err("unsupported service type \"Other\"")),
            (cluster.clone(), Routing::Endpoints, Some(endpoints.clone()), vec![], Ok("https://10.1.0.2:8443")),
            (cluster.clone(), Routing::Endpoints, None, vec![slice], Ok("https://10.1.0.4:8443")),
            (cluster, Routing::Endpoints, None, vec![], Err("no endpoints available for service \"s\"")),
        ] {
            let found = Found { service: Some(json!({ "spec": spec })), endpoints, slices };
            let address = address(&found, "s", 443, routing, 7).map(|(host, port)| url(&host, port));
            assert_eq!(address.as_deref().map_err(String::as_str), expected, "{found:?}");
        }
        let missing = address(&Found::default(), "s", 443, by_address, 0);
        assert_eq!(missing, Err("service \"s\" not found".to_owned()));
    }
}
