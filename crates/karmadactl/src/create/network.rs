//! `create service TYPE` and `create ingress`

use std::collections::HashSet;
use std::sync::LazyLock;

use apimachinery::{ApiResource, names};
use clap::Args;
use kubernetes_api::is_port_name;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::kinds::{Common, Draft, ServiceKind, required};
use crate::error::Error;

#[derive(Args)]
pub struct PortsArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Port pairs PORT:TARGETPORT; the target is the port itself when it is missing.
    #[arg(long, value_delimiter = ',')]
    tcp: Vec<String>,
}

#[derive(Args)]
pub struct ServiceArgs {
    #[command(flatten)]
    pub(super) ports: PortsArgs,
    /// Address of the service, or None for a headless service; assigned when empty.
    #[arg(long, default_value = "")]
    clusterip: String,
}

#[derive(Args)]
pub struct ExternalNameArgs {
    #[command(flatten)]
    pub(super) ports: PortsArgs,
    /// External name of the service.
    #[arg(long, default_value = "")]
    external_name: String,
}

#[derive(Args)]
pub struct NodePortArgs {
    #[command(flatten)]
    pub(super) ports: PortsArgs,
    /// Port that each node opens for the service; assigned when 0.
    #[arg(long, default_value_t = 0)]
    node_port: i32,
}

#[derive(Args)]
pub struct IngressArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Annotation NAME=VALUE of the ingress.
    #[arg(long)]
    annotation: Vec<String>,
    /// Ingress class.
    #[arg(long, default_value = "")]
    class: String,
    /// Service SERVICE:PORT for requests that no rule matches.
    #[arg(long, default_value = "")]
    default_backend: String,
    /// Rule HOST/PATH=SERVICE:PORT[,tls[=SECRET]]; a path that ends with * is a prefix.
    #[arg(long)]
    rule: Vec<String>,
}

pub fn service(kind: &ServiceKind, name: &str) -> Result<Draft, Error> {
    let (type_, failed, args) = match kind {
        ServiceKind::Clusterip { service } => ("ClusterIP", "failed to create ClusterIP service: ", &service.ports),
        ServiceKind::Externalname { service } => {
            ("ExternalName", "failed to create ExternalName service: ", &service.ports)
        }
        ServiceKind::Loadbalancer { service } => {
            ("LoadBalancer", "failed to create LoadBalancer service: ", &**service)
        }
        ServiceKind::Nodeport { service } => ("NodePort", "failed to create NodePort service: ", &service.ports),
    };
    let mut spec = Map::new();
    let mut needs_port = true;
    let mut node_port = 0;
    match kind {
        ServiceKind::Clusterip { service } => {
            needs_port = service.clusterip != "None";
            if !service.clusterip.is_empty() {
                spec.insert("clusterIP".to_owned(), service.clusterip.as_str().into());
            }
        }
        ServiceKind::Externalname { service } => {
            required(&[("external-name", !service.external_name.is_empty())])?;
            needs_port = false;
            if !names::is_dns1123_subdomain(&service.external_name).is_empty() {
                return Err(Error::message(format!("invalid service external name {}", service.external_name)));
            }
            spec.insert("externalName".to_owned(), service.external_name.as_str().into());
        }
        ServiceKind::Loadbalancer { .. } => {}
        ServiceKind::Nodeport { service } => node_port = service.node_port,
    }
    if needs_port && args.tcp.is_empty() {
        return Err(Error::message("at least one tcp port specifier must be provided"));
    }
    let ports = args.tcp.iter().map(|text| port(text, node_port)).collect::<Result<Vec<_>, _>>()?;
    if !ports.is_empty() {
        spec.insert("ports".to_owned(), ports.into());
    }
    spec.insert("selector".to_owned(), json!({"app": name}));
    spec.insert("type".to_owned(), type_.into());
    let object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"labels": {"app": name}, "name": name},
        "spec": spec, "status": {"loadBalancer": {}},
    });
    Ok(Draft::new(ApiResource::namespaced("", "v1", "Service", "services"), failed, object))
}

/// `80`, `80:8080` or `80:http`
fn port(text: &str, node_port: i32) -> Result<Value, Error> {
    let (number, target) = text.split_once(':').map_or((text, None), |(number, target)| (number, Some(target)));
    let number = number.parse::<u16>().map_err(|error| {
        let why = match error.kind() {
            std::num::IntErrorKind::PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Error::message(format!("strconv.ParseUint: parsing {number:?}: {why}"))
    })?;
    let target = match target.map(|target| target.parse::<i32>().map_err(|_| target)) {
        None => Value::from(number),
        Some(Ok(target @ 1..=65535)) => target.into(),
        Some(Ok(_)) => return Err(Error::message("must be between 1 and 65535, inclusive")),
        Some(Err(target)) => match is_port_name(target) {
            complaints if complaints.is_empty() => target.into(),
            complaints => return Err(Error::message(complaints.join(","))),
        },
    };
    let mut port = json!({"name": text.replace(':', "-"), "port": number, "protocol": "TCP", "targetPort": target});
    if node_port != 0 {
        port["nodePort"] = node_port.into();
    }
    Ok(port)
}

static RULE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^([0-9A-Za-z_*.-]*)(/[^,=\n]*)=([0-9A-Za-z_-]+:[0-9A-Za-z_-]+)(,(tls)=?([0-9A-Za-z_-]+)?)?$").ok()
});

/// `HOST/PATH=SERVICE:PORT[,tls[=SECRET]]`
struct Rule<'r> {
    host: &'r str,
    path: &'r str,
    backend: &'r str,
    /// With the name of the secret, which may be empty.
    tls: Option<&'r str>,
}

impl<'r> Rule<'r> {
    fn parse(text: &'r str) -> Result<Self, Error> {
        let found = RULE.as_ref().and_then(|rule| rule.captures(text)).ok_or_else(|| {
            Error::message(format!(
                "rule {text} is invalid and should be in format host/path=svcname:svcport[,tls[=secret]]"
            ))
        })?;
        let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
        let tls = found.get(5).map(|_| part(6));
        Ok(Self { host: part(1), path: part(2), backend: part(3), tls })
    }

    fn path(&self) -> Value {
        let (path, path_type) = self.path.strip_suffix('*').map_or((self.path, "Exact"), |path| (path, "Prefix"));
        json!({"backend": backend(self.backend), "path": path, "pathType": path_type})
    }
}

/// `SERVICE:PORT`
fn backend(text: &str) -> Value {
    let (name, port) = text.split_once(':').unwrap_or((text, ""));
    let port = port.parse::<i32>().map_or_else(|_| json!({"name": port}), |number| json!({"number": number}));
    json!({"service": {"name": name, "port": port}})
}

impl IngressArgs {
    pub(super) fn draft(&self, name: &str) -> Result<Draft, Error> {
        if self.default_backend.is_empty() && self.rule.is_empty() {
            return Err(Error::message(
                "not enough information provided: every ingress has to either specify a default-backend (which catches \
                 all traffic) or a list of rules (which catch specific paths)",
            ));
        }
        let rules = self.rule.iter().map(|rule| Rule::parse(rule)).collect::<Result<Vec<_>, _>>()?;
        let mut metadata = json!({"name": name});
        for annotation in &self.annotation {
            let (key, value) = annotation.split_once('=').ok_or_else(|| {
                Error::message(format!("annotation {annotation} is invalid and should be in format key=[value]"))
            })?;
            metadata["annotations"][key] = value.into();
        }
        if !self.default_backend.is_empty() && self.default_backend.matches(':').count() != 1 {
            return Err(Error::message("default-backend should be in format servicename:serviceport"));
        }
        let mut spec = Map::new();
        if !self.class.is_empty() {
            spec.insert("ingressClassName".to_owned(), self.class.as_str().into());
        }
        if !self.default_backend.is_empty() {
            spec.insert("defaultBackend".to_owned(), backend(&self.default_backend));
        }
        for (field, list) in [("rules", paths(&rules)), ("tls", certificates(&rules))] {
            if !list.is_empty() {
                spec.insert(field.to_owned(), list.into());
            }
        }
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata,
            "spec": spec, "status": {"loadBalancer": {}},
        });
        let resource = ApiResource::namespaced("networking.k8s.io", "v1", "Ingress", "ingresses");
        Ok(Draft::new(resource, "failed to create ingress: ", object))
    }
}

/// One rule for each host.
fn paths(rules: &[Rule<'_>]) -> Vec<Value> {
    let mut hosts: Vec<(&str, Vec<Value>)> = Vec::new();
    for rule in rules {
        match hosts.iter_mut().find(|(host, _)| *host == rule.host) {
            Some((_, paths)) => paths.push(rule.path()),
            None => hosts.push((rule.host, vec![rule.path()])),
        }
    }
    let rule = |(host, paths): (&str, Vec<Value>)| match host {
        "" => json!({"http": {"paths": paths}}),
        host => json!({"host": host, "http": {"paths": paths}}),
    };
    hosts.into_iter().map(rule).collect()
}

/// One entry for each secret; a host is in the first one that it is named with.
fn certificates(rules: &[Rule<'_>]) -> Vec<Value> {
    let mut seen = HashSet::new();
    let mut secrets: Vec<(&str, Vec<&str>)> = Vec::new();
    for rule in rules {
        let Some(secret) = rule.tls.filter(|_| seen.insert(rule.host)) else { continue };
        match secrets.iter_mut().find(|(known, _)| *known == secret) {
            Some((_, hosts)) => hosts.push(rule.host),
            None if rule.host.is_empty() && secret.is_empty() => {}
            None => secrets.push((secret, if rule.host.is_empty() { Vec::new() } else { vec![rule.host] })),
        }
    }
    let entry = |(secret, hosts): (&str, Vec<&str>)| {
        let mut entry = Map::new();
        if !hosts.is_empty() {
            entry.insert("hosts".to_owned(), json!(hosts));
        }
        if !secret.is_empty() {
            entry.insert("secretName".to_owned(), secret.into());
        }
        Value::Object(entry)
    };
    secrets.into_iter().map(entry).collect()
}
