//! The condition `Available` of an APIService, from the state of its service and the result of the last request.

use serde_json::{Value, json};

use crate::registered::{Condition, ServiceReference};
use crate::resolve::{Found, port_of, ready, type_of};

/// Status, reason and message of the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

impl Verdict {
    fn failed(reason: &'static str, message: String) -> Self {
        Self { status: "False", reason, message }
    }

    pub fn passed() -> Self {
        Self { status: "True", reason: "Passed", message: "all checks passed".to_owned() }
    }

    /// The service or its endpoints cannot be read.
    pub fn unknown(reference: &ServiceReference, why: &str) -> Self {
        let ServiceReference { name, namespace, .. } = reference;
        let message = format!("service/{name} in {namespace:?} cannot be checked due to: {why}");
        Self { status: "Unknown", reason: "ServiceAccessError", message }
    }

    /// The server did not answer its discovery.
    pub fn no_discovery(why: String) -> Self {
        Self::failed("FailedDiscoveryCheck", why)
    }

    /// The group version is built into this server.
    pub fn built_in() -> Self {
        let message = "this server serves the group version itself; spec.service has no effect".to_owned();
        Self { status: "True", reason: "Local", message }
    }

    pub fn is_available(&self) -> bool {
        self.status == "True"
    }

    /// Whether a condition already has this verdict.
    pub fn is_in(&self, condition: Option<&Condition>) -> bool {
        condition.is_some_and(|it| it.status == self.status && it.reason == self.reason && it.message == self.message)
    }

    /// The condition. The time of the last transition changes with the status only.
    pub fn condition(&self, previous: Option<&Condition>, now: &str) -> Value {
        let since = previous.filter(|it| it.status == self.status).map_or(now, |it| &it.last_transition_time);
        json!({
            "type": "Available", "status": self.status, "lastTransitionTime": since, "reason": self.reason,
            "message": self.message,
        })
    }
}

/// The verdict before any request is sent; `None` if a request decides. Only Services with cluster IPs have endpoints.
pub fn of_service(reference: &ServiceReference, found: &Found) -> Option<Verdict> {
    let ServiceReference { name, namespace, .. } = reference;
    let Some(service) = &found.service else {
        let message = format!("service/{name} in {namespace:?} is not present");
        return Some(Verdict::failed("ServiceNotFound", message));
    };
    if type_of(service) != "ClusterIP" {
        return None;
    }
    let number = reference.port();
    let Some(port) = port_of(service, number) else {
        let message = format!("service/{name} in {namespace:?} is not listening on port {number}");
        return Some(Verdict::failed("ServicePortError", message));
    };
    if found.endpoints.is_none() && found.slices.is_empty() {
        let message = format!("cannot find endpoints for service/{name} in {namespace:?}");
        return Some(Verdict::failed("EndpointsNotFound", message));
    }
    let port = port["name"].as_str().unwrap_or_default();
    if ready(found, port).is_empty() {
        let message =
            format!("endpoints for service/{name} in {namespace:?} have no addresses with port name {port:?}");
        return Some(Verdict::failed("MissingEndpoints", message));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_checked_before_requests_are_sent() {
        let reference = ServiceReference { namespace: "ns".into(), name: "s".into(), port: None };
        let service = |spec: Value| Some(json!({ "spec": spec }));
        let cluster = service(json!({"ports": [{"port": 443, "name": "https"}]}));
        let subset = |ports: Value| Some(json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": ports}]}));
        for (service, endpoints, reason, message) in [
            (None, None, "ServiceNotFound", "service/s in \"ns\" is not present"),
            (service(json!({})), None, "ServicePortError", "service/s in \"ns\" is not listening on port 443"),
            (cluster.clone(), None, "EndpointsNotFound", "cannot find endpoints for service/s in \"ns\""),
            (
                cluster.clone(),
                subset(json!([{"name": "other", "port": 1}])),
                "MissingEndpoints",
                "endpoints for service/s in \"ns\" have no addresses with port name \"https\"",
            ),
            (cluster, subset(json!([{"name": "https", "port": 1}])), "", ""),
            (service(json!({"type": "ExternalName"})), None, "", ""),
        ] {
            let found = Found { service, endpoints, slices: Vec::new() };
            let verdict = of_service(&reference, &found).map(|it| (it.status, it.reason, it.message));
            let expected = (!reason.is_empty()).then(|| ("False", reason, message.to_owned()));
            assert_eq!(verdict, expected, "{found:?}");
        }
    }

    #[test]
    fn transitions_are_changes_of_the_status() {
        let condition = |status: &str, reason: &str| Condition {
            status: status.into(),
            reason: reason.into(),
            message: "all checks passed".into(),
            last_transition_time: "before".into(),
            ..Condition::default()
        };
        for (previous, is_in, since) in [
            (None, false, "now"),
            (Some(condition("False", "ServiceNotFound")), false, "now"),
            (Some(condition("True", "Local")), false, "before"),
            (Some(condition("True", "Passed")), true, "before"),
        ] {
            let verdict = Verdict::passed();
            assert_eq!(verdict.is_in(previous.as_ref()), is_in);
            assert_eq!(verdict.condition(previous.as_ref(), "now")["lastTransitionTime"], since);
        }
    }
}
