//! Ingresses, with the endpoints of their backends.

use serde_json::Value;

use super::super::lines::Lines;
use super::core::endpoints;
use super::{Related, items, text, values};

pub fn ingress(lines: &mut Lines, object: &Value, related: &Related) {
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    let addresses = items(&object["status"]["loadBalancer"]["ingress"]).map(|it| match text(&it["ip"]) {
        address if address.is_empty() => text(&it["hostname"]),
        address => address,
    });
    lines.text(0, &format!("Address:\t{}", addresses.collect::<Vec<_>>().join(",")));
    lines.text(0, &format!("Ingress Class:\t{}", spec["ingressClassName"].as_str().unwrap_or("<none>")));
    let default = match spec["defaultBackend"].is_object() {
        true => backend(&spec["defaultBackend"], related),
        false => "<default>".to_owned(),
    };
    lines.text(0, &format!("Default backend:\t{default}"));
    if items(&spec["tls"]).next().is_some() {
        lines.text(0, "TLS:");
    }
    for tls in items(&spec["tls"]) {
        let hosts: Vec<String> = items(&tls["hosts"]).map(text).collect();
        match tls["secretName"].as_str().filter(|it| !it.is_empty()) {
            Some(secret) => lines.text(1, &format!("{secret} terminates {}", hosts.join(","))),
            None => lines.text(1, &format!("SNI routes {}", hosts.join(","))),
        }
    }
    lines.text(0, "Rules:");
    lines.text(1, "Host\tPath\tBackends");
    lines.text(1, "----\t----\t--------");
    let mut has_paths = false;
    for rule in items(&spec["rules"]).filter(|rule| rule["http"].is_object()) {
        has_paths = true;
        let host = rule["host"].as_str().filter(|it| !it.is_empty()).unwrap_or("*");
        lines.text(1, &format!("{host}\t"));
        for path in items(&rule["http"]["paths"]) {
            lines.text(2, &format!("\t{} \t{}", text(&path["path"]), backend(&path["backend"], related)));
        }
    }
    if !has_paths {
        lines.text(1, &format!("*\t*\t{default}"));
    }
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
}

/// `web:http (10.0.0.1:80)`, or the object that is not a Service.
fn backend(backend: &Value, related: &Related) -> String {
    if let Some(resource) = backend.get("resource").filter(|it| it.is_object()) {
        let [group, kind, name] = ["apiGroup", "kind", "name"].map(|field| text(&resource[field]));
        return format!("APIGroup: {group}, Kind: {kind}, Name: {name}");
    }
    let (name, port) = (&backend["service"]["name"], &backend["service"]["port"]);
    let wanted = if port["name"].is_string() { &port["name"] } else { &port["number"] };
    let shown = format!("{}:{}", text(name), values(wanted));
    let Some(service) = related.services.iter().find(|it| it["metadata"]["name"] == *name) else {
        return format!("{shown} (<error: services \"{}\" not found>)", text(name));
    };
    let is_wanted = |it: &&Value| it["name"] == *wanted || it["port"] == *wanted;
    let port = items(&service["spec"]["ports"]).find(is_wanted).map_or(&Value::Null, |it| &it["name"]);
    let is_own = |it: &&Value| it["metadata"]["labels"]["kubernetes.io/service-name"] == *name;
    format!("{shown} ({})", endpoints(port, related.slices.iter().filter(is_own)))
}
