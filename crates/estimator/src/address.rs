//! The addresses of a cluster's estimator.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    #[error("unsupported service type {0:?}")]
    Type(String),
    #[error("no service port {port} found for service {name:?}")]
    Port { name: String, port: u16 },
    #[error("the target port of port {port} of service {name:?} is not a number")]
    TargetPort { name: String, port: u16 },
    #[error("service {0:?} has no externalName")]
    NoName(String),
}

/// `host:port` candidates in order of preference. `service` is the Service of that name in the control plane; without
/// it, the Service is in the host cluster, whose DNS must resolve here.
pub fn addresses(service: Option<&Value>, namespace: &str, name: &str, port: u16) -> Result<Vec<String>, ServiceError> {
    let Some(service) = service else {
        let of = |suffix: &str| format!("{name}.{namespace}.svc{suffix}:{port}");
        return Ok(vec![of(".cluster.local"), of("")]);
    };
    let spec = &service["spec"];
    let kind = spec["type"].as_str().unwrap_or("ClusterIP");
    if kind != "ExternalName" {
        return Err(ServiceError::Type(kind.to_owned()));
    }
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let missing = || ServiceError::Port { name: name.to_owned(), port };
    let entry = ports.iter().find(|entry| entry["port"] == port).ok_or_else(missing)?;
    let target = match &entry["targetPort"] {
        Value::Null => u64::from(port),
        target => target.as_u64().ok_or_else(|| ServiceError::TargetPort { name: name.to_owned(), port })?,
    };
    let host = spec["externalName"].as_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| ServiceError::NoName(name.to_owned()))?;
    Ok(vec![format!("{host}:{target}")])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_follow_the_service() {
        let at = |service: Option<Value>| {
            addresses(service.as_ref(), "karmada-system", "e-m1", 10352)
                .map_or_else(|error| error.to_string(), |list| list.join(" "))
        };
        let external =
            |ports: Value| Some(json!({"spec": {"type": "ExternalName", "externalName": "x.y", "ports": ports}}));
        for (service, expected) in [
            (None, "e-m1.karmada-system.svc.cluster.local:10352 e-m1.karmada-system.svc:10352"),
            (external(json!([{"port": 1, "targetPort": 2}, {"port": 10352, "targetPort": 7000}])), "x.y:7000"),
            (external(json!([{"port": 10352}])), "x.y:10352"),
            (external(json!([{"port": 1}])), "no service port 10352 found for service \"e-m1\""),
            (
                external(json!([{"port": 10352, "targetPort": "grpc"}])),
                "the target port of port 10352 of service \"e-m1\" is not a number",
            ),
            (Some(json!({"spec": {"type": "NodePort"}})), "unsupported service type \"NodePort\""),
            (Some(json!({"spec": {}})), "unsupported service type \"ClusterIP\""),
        ] {
            assert_eq!(at(service), expected);
        }
    }
}
