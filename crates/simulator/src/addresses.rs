//! The addresses and node ports that services get when they are created.

use std::net::Ipv4Addr;

use apimachinery::Status;
use apiserver::{Admission, AdmissionRequest, Operation};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// 10.96.0.0/12, as kubeadm has it.
const FIRST_ADDRESS: u32 = 0x0a60_0001;
const LAST_ADDRESS: u32 = 0x0a6f_fffe;

/// kube-apiserver's default of `--service-node-port-range`.
const FIRST_PORT: u16 = 30000;
const LAST_PORT: u16 = 32767;

/// Hands out one after the other. A million addresses go by before one comes again.
pub(crate) struct ServiceAddresses(Mutex<Next>);

struct Next {
    address: u32,
    port: u16,
}

impl Default for ServiceAddresses {
    fn default() -> Self {
        Self(Mutex::new(Next { address: FIRST_ADDRESS, port: FIRST_PORT }))
    }
}

impl ServiceAddresses {
    /// Goes on after what a service has from before.
    pub fn skip(&self, service: &Value) {
        let mut next = self.0.lock();
        let address: Option<Ipv4Addr> = service["spec"]["clusterIP"].as_str().and_then(|text| text.parse().ok());
        if let Some(address) =
            address.map(Ipv4Addr::to_bits).filter(|bits| (FIRST_ADDRESS..LAST_ADDRESS).contains(bits))
        {
            next.address = next.address.max(address + 1);
        }
        for port in service["spec"]["ports"].as_array().into_iter().flatten() {
            let port = port["nodePort"].as_u64().and_then(|port| u16::try_from(port).ok());
            if let Some(port) = port.filter(|port| (FIRST_PORT..LAST_PORT).contains(port)) {
                next.port = next.port.max(port + 1);
            }
        }
    }

    fn address(&self) -> String {
        let mut next = self.0.lock();
        let address = Ipv4Addr::from_bits(next.address);
        next.address = if next.address == LAST_ADDRESS { FIRST_ADDRESS } else { next.address + 1 };
        address.to_string()
    }

    fn port(&self) -> u16 {
        let mut next = self.0.lock();
        let port = next.port;
        next.port = if port == LAST_PORT { FIRST_PORT } else { port + 1 };
        port
    }

    fn complete(&self, old: Option<&Value>, service: &mut Value) {
        let spec = &mut service["spec"];
        let type_ = spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
        if type_ == "ExternalName" || !spec.is_object() {
            return;
        }
        if spec["clusterIP"].as_str().unwrap_or_default().is_empty() {
            let had = old.and_then(|old| old["spec"]["clusterIP"].as_str()).filter(|had| !had.is_empty());
            spec["clusterIP"] = had.map_or_else(|| self.address(), str::to_owned).into();
        }
        if spec["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
            spec["clusterIPs"] = json!([spec["clusterIP"]]);
        }
        if spec["ipFamilies"].is_null() {
            spec["ipFamilies"] = json!(["IPv4"]);
        }
        if spec["ipFamilyPolicy"].is_null() {
            spec["ipFamilyPolicy"] = "SingleStack".into();
        }
        if matches!(type_.as_str(), "NodePort" | "LoadBalancer") && spec["allocateLoadBalancerNodePorts"] != false {
            for port in spec["ports"].as_array_mut().into_iter().flatten() {
                if port["nodePort"].as_u64().unwrap_or(0) == 0 {
                    port["nodePort"] = self.port().into();
                }
            }
        }
    }
}

impl Admission for ServiceAddresses {
    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let named = &request.info.resource;
        let concerns = named.group.is_empty() && named.kind == "Service" && request.subresource.is_empty();
        if concerns && matches!(request.operation, Operation::Create | Operation::Update) {
            let old = request.old;
            if let Some(service) = request.object.as_deref_mut() {
                self.complete(old, service);
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_get_an_address_once() {
        let addresses = ServiceAddresses::default();
        addresses.skip(&json!({"spec": {"clusterIP": "10.96.0.9", "ports": [{"nodePort": 30100}]}}));
        let check = |old: Option<Value>, mut service: Value, expected: [&str; 2]| {
            addresses.complete(old.as_ref(), &mut service);
            let shown =
                [&service["spec"]["clusterIPs"], &service["spec"]["ports"][0]["nodePort"]].map(Value::to_string);
            assert_eq!(shown, expected);
        };
        let ports = json!([{"port": 80}]);
        check(None, json!({"spec": {"ports": ports}}), [r#"["10.96.0.10"]"#, "null"]);
        check(None, json!({"spec": {"type": "NodePort", "ports": ports}}), [r#"["10.96.0.11"]"#, "30101"]);
        check(None, json!({"spec": {"clusterIP": "None", "ports": ports}}), [r#"["None"]"#, "null"]);
        check(None, json!({"spec": {"type": "ExternalName"}}), ["null", "null"]);
        let old = json!({"spec": {"clusterIP": "10.96.0.10"}});
        check(Some(old), json!({"spec": {"ports": ports}}), [r#"["10.96.0.10"]"#, "null"]);
    }
}
