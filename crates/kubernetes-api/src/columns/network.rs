//! Services, their endpoints, ingresses and network policies.

use std::collections::BTreeSet;

use apimachinery::meta::Time;
use serde_json::Value;

use super::{Function, entries, function, int, joined, list, selector_text};

pub(super) const FUNCTIONS: &[Function] = &[
    function("cidrs", &[".spec.cidrs"], |object, _| {
        joined(list(&object["spec"]["cidrs"]).filter_map(Value::as_str), "").into()
    }),
    function("class_parameters", &[".spec.parameters"], |object, _| {
        class_parameters(&object["spec"]["parameters"]).into()
    }),
    function("endpoints", &[".subsets"], endpoints),
    function("ingress_address", &[".status.loadBalancer"], |object, _| {
        addresses(&object["status"]["loadBalancer"], "").into()
    }),
    function("ingress_hosts", &[".spec.rules"], |object, _| hosts(&object["spec"]["rules"]).into()),
    function("ingress_ports", &[".spec.tls"], |object, _| {
        if entries(&object["spec"]["tls"]) > 0 { "80, 443" } else { "80" }.into()
    }),
    function("parent", &[".spec.parentRef"], |object, _| parent(&object["spec"]["parentRef"]).into()),
    function("policy_selector", &[".spec.podSelector"], |object, _| {
        selector_text(&object["spec"]["podSelector"]).into()
    }),
    function(
        "service_external",
        &[".spec.type", ".spec.externalIPs", ".spec.externalName", ".status.loadBalancer"],
        |object, _| service_external(object).into(),
    ),
    function("service_ports", &[".spec.ports"], |object, _| service_ports(object).into()),
    function("slice_endpoints", &[".endpoints"], |object, _| slice_endpoints(object).into()),
    function("slice_ports", &[".ports"], |object, _| slice_ports(object).into()),
];

/// The number of listed entries; further ones are only counted.
const SHOWN: usize = 3;

/// The first texts, and the number of the others.
fn shortened(texts: &[String]) -> String {
    let shown = texts.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(",");
    let more = texts.len().saturating_sub(SHOWN);
    if more > 0 { format!("{shown} + {more} more...") } else { shown }
}

fn addresses(balancer: &Value, otherwise: &str) -> String {
    let non_empty = |value: &'_ Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let ingress = list(&balancer["ingress"]);
    let all: BTreeSet<String> =
        ingress.filter_map(|at| non_empty(&at["ip"]).or_else(|| non_empty(&at["hostname"]))).collect();
    joined(all.into_iter(), otherwise)
}

fn service_external(service: &Value) -> String {
    let spec = &service["spec"];
    let external = || list(&spec["externalIPs"]).filter_map(Value::as_str);
    match spec["type"].as_str().unwrap_or_default() {
        "ExternalName" => spec["externalName"].as_str().unwrap_or_default().to_owned(),
        "LoadBalancer" => {
            let assigned = addresses(&service["status"]["loadBalancer"], "");
            let all = [assigned].into_iter().filter(|text| !text.is_empty()).chain(external().map(str::to_owned));
            joined(all, "<pending>")
        }
        _ => joined(external(), "<none>"),
    }
}

fn service_ports(service: &Value) -> String {
    let ports = list(&service["spec"]["ports"]).map(|port| {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        match int(&port["nodePort"]) {
            0 => format!("{}/{protocol}", int(&port["port"])),
            node => format!("{}:{node}/{protocol}", int(&port["port"])),
        }
    });
    joined(ports, "<none>")
}

fn hosts(rules: &Value) -> String {
    let mut hosts = Vec::new();
    for rule in list(rules) {
        if hosts.len() == SHOWN {
            // Upstream counts rules without a host, too.
            return format!("{} + {} more...", hosts.join(","), entries(rules) - SHOWN);
        }
        hosts.extend(rule["host"].as_str().filter(|host| !host.is_empty()));
    }
    if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") }
}

fn class_parameters(parameters: &Value) -> String {
    let Some(kind) = parameters["kind"].as_str() else { return "<none>".to_owned() };
    let group = parameters["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
    format!("{kind}{group}/{}", parameters["name"].as_str().unwrap_or_default())
}

fn parent(parent: &Value) -> String {
    let parts = ["resource", "group", "namespace", "name"].map(|field| parent[field].as_str().unwrap_or_default());
    let [resource, group, namespace, name] = parts;
    let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    [&resource, namespace, name].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

fn endpoints(object: &Value, _now: Time) -> Value {
    let mut texts = Vec::new();
    for subset in list(&object["subsets"]) {
        let addresses = || list(&subset["addresses"]).filter_map(|address| address["ip"].as_str());
        if entries(&subset["ports"]) == 0 {
            texts.extend(addresses().map(str::to_owned));
        }
        for port in list(&subset["ports"]).map(|port| int(&port["port"])) {
            texts.extend(addresses().map(|address| match address.contains(':') {
                true => format!("[{address}]:{port}"),
                false => format!("{address}:{port}"),
            }));
        }
    }
    if entries(&object["subsets"]) == 0 { "<none>".into() } else { shortened(&texts).into() }
}

fn slice_ports(slice: &Value) -> String {
    let ports: Vec<String> = list(&slice["ports"])
        .map(|port| match port["port"].as_i64() {
            Some(number) => number.to_string(),
            None => port["name"].as_str().unwrap_or("*").to_owned(),
        })
        .collect();
    if ports.concat().is_empty() { "<unset>".to_owned() } else { shortened(&ports) }
}

fn slice_endpoints(slice: &Value) -> String {
    let addresses: Vec<String> = list(&slice["endpoints"])
        .flat_map(|endpoint| list(&endpoint["addresses"]))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    if addresses.is_empty() { "<unset>".to_owned() } else { shortened(&addresses) }
}
