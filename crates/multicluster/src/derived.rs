//! The Service derived from a ServiceImport: its clients reach the endpoints of the exporting clusters through it.

use apimachinery::ObjectKey;
use karmada_api::ApiType;
use karmada_api::multicluster::v1alpha1::{ServiceImport, ServiceImportSpec, ServiceImportType};
use karmada_api::names;
use serde_json::{Value, json};

/// Why the derived Service is not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another owner has the name.
    #[error(
        "Service {0} exists and does not belong to the ServiceImport: it has a selector, or another owner; rename or delete it"
    )]
    Unmanaged(ObjectKey),
}

/// The Service for an import; `None` for a headless one.
pub fn desired(import: &ServiceImport) -> Option<Value> {
    let spec = import.spec.as_ref().filter(|spec| spec.type_ == ServiceImportType::ClusterSetIP)?;
    let metadata = &import.metadata;
    Some(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": names::derived_service(&metadata.name), "namespace": metadata.namespace,
            "ownerReferences": [owner(import)],
        },
        "spec": {"type": "ClusterIP", "ports": ports(spec)},
    }))
}

fn owner(import: &ServiceImport) -> Value {
    json!({"apiVersion": ServiceImport::api_resource().api_version(), "kind": ServiceImport::KIND,
        "name": import.metadata.name, "uid": import.metadata.uid, "controller": true, "blockOwnerDeletion": true})
}

fn ports(spec: &ServiceImportSpec) -> Value {
    let ports = spec.ports.iter().map(|port| {
        let protocol = if port.protocol.is_empty() { "TCP" } else { port.protocol.as_str() };
        let mut shown = json!({"protocol": protocol, "port": port.port, "targetPort": port.port});
        if !port.name.is_empty() {
            shown["name"] = json!(port.name);
        }
        if let Some(protocol) = &port.app_protocol {
            shown["appProtocol"] = json!(protocol);
        }
        shown
    });
    ports.collect()
}

/// Whether a Service was derived from the import of this name.
pub fn is_derived_from(service: &Value, import: &str) -> bool {
    let owners = service["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let mut import_owners = owners.filter(|it| it["controller"] == true && it["kind"] == ServiceImport::KIND);
    import_owners.any(|owner| owner["name"] == import)
}

/// Updates an existing Service to the wanted one; `None` if it is unchanged. A Service without owner and selector, as
/// upstream derives them, is taken over. Values allocated by the server stay.
///
/// # Errors
/// If the Service belongs to another owner.
pub fn merged(existing: &Value, desired: &Value, import: &str) -> Result<Option<Value>, Error> {
    let has_owner = existing["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
    let has_selector = existing["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    if !is_derived_from(existing, import) && (has_owner || has_selector) {
        let text = |field: &str| existing["metadata"][field].as_str().unwrap_or_default().to_owned();
        return Err(Error::Unmanaged(ObjectKey::namespaced(text("namespace"), text("name"))));
    }
    let mut merged = existing.clone();
    merged["metadata"]["ownerReferences"] = desired["metadata"]["ownerReferences"].clone();
    merged["spec"]["type"] = desired["spec"]["type"].clone();
    let known: Vec<Value> = existing["spec"]["ports"].as_array().into_iter().flatten().map(without_node_port).collect();
    if Value::Array(known) != desired["spec"]["ports"] {
        merged["spec"]["ports"] = desired["spec"]["ports"].clone();
    }
    if let Some(spec) = merged.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("selector");
    }
    Ok((merged != *existing).then_some(merged))
}

fn without_node_port(port: &Value) -> Value {
    let mut port = port.clone();
    if let Some(port) = port.as_object_mut() {
        port.remove("nodePort");
    }
    port
}

/// The status with the addresses of the import; `None` when it has them.
pub fn status(existing: &Value, import: &ServiceImport) -> Option<Value> {
    let ips = import.spec.iter().flat_map(|spec| &spec.ips);
    let points: Vec<Value> = ips.map(|ip| json!({"ip": ip})).collect();
    let known = existing["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    let known: Vec<&Value> = known.map(|point| &point["ip"]).collect();
    let same = known.len() == points.len() && known.iter().zip(&points).all(|(known, point)| **known == point["ip"]);
    (!same).then(|| json!({"loadBalancer": {"ingress": points}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(spec: Value) -> ServiceImport {
        let value = json!({"metadata": {"name": "serve", "namespace": "shop", "uid": "u"}, "spec": spec});
        serde_json::from_value(value).expect("an import")
    }

    #[test]
    fn the_service_of_an_import() {
        let spec = json!({"type": "ClusterSetIP", "ports": [
            {"port": 80, "name": "http", "protocol": "TCP", "appProtocol": "h2c"}, {"port": 53, "protocol": "UDP"}, {"port": 9}]});
        let service = desired(&import(spec)).expect("a Service");
        assert_eq!(
            (&service["metadata"]["name"], &service["metadata"]["namespace"]),
            (&json!("derived-serve"), &json!("shop"))
        );
        assert_eq!(
            service["spec"],
            json!({"type": "ClusterIP", "ports": [
                {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 80, "appProtocol": "h2c"},
                {"protocol": "UDP", "port": 53, "targetPort": 53}, {"protocol": "TCP", "port": 9, "targetPort": 9}]})
        );
        assert!(is_derived_from(&service, "serve") && !is_derived_from(&service, "other"));
        assert_eq!(desired(&import(json!({"type": "Headless", "ports": [{"port": 80}]}))), None);
    }

    #[test]
    fn existing_services() {
        let spec = json!({"type": "ClusterSetIP", "ports": [{"port": 80}]});
        let desired = desired(&import(spec)).expect("a Service");
        let mut stored = desired.clone();
        stored["spec"]["clusterIP"] = json!("10.1.2.3");
        stored["spec"]["ports"][0]["nodePort"] = json!(30_000);
        assert_eq!(merged(&stored, &desired, "serve"), Ok(None));
        let mut older = stored.clone();
        older["spec"]["ports"] = json!([{"port": 8080, "protocol": "TCP", "targetPort": 8080}]);
        let updated = merged(&older, &desired, "serve").expect("ours").expect("a change");
        assert_eq!(
            (&updated["spec"]["clusterIP"], &updated["spec"]["ports"]),
            (&json!("10.1.2.3"), &desired["spec"]["ports"])
        );
        let mut upstreams = stored.clone();
        upstreams["metadata"]["ownerReferences"] = Value::Null;
        assert!(merged(&upstreams, &desired, "serve").expect("taken over").is_some());
        let mut users = upstreams.clone();
        users["spec"]["selector"] = json!({"app": "x"});
        assert!(merged(&users, &desired, "serve").is_err());
        let mut anothers = stored;
        anothers["metadata"]["ownerReferences"][0]["kind"] = json!("Other");
        assert!(merged(&anothers, &desired, "serve").is_err());
    }

    #[test]
    fn addresses() {
        let with = |ips: Value| import(json!({"type": "ClusterSetIP", "ports": [], "ips": ips}));
        let stored = json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "VIP"}]}}});
        assert_eq!(status(&stored, &with(json!(["1.2.3.4"]))), None);
        assert_eq!(status(&json!({}), &with(json!([]))), None);
        let changed = json!({"loadBalancer": {"ingress": [{"ip": "5.6.7.8"}]}});
        assert_eq!(status(&stored, &with(json!(["5.6.7.8"]))), Some(changed));
        assert_eq!(status(&stored, &with(json!([]))), Some(json!({"loadBalancer": {"ingress": []}})));
    }
}
