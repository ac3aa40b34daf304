//! Requests that a kubelet, a pod or a service answers: logs, `exec`, `attach`, port forwarding and the proxies. They
//! are checked as kube-apiserver checks them before it connects; what follows is a refusal, because the API server
//! connects to no node and no pod.

use apimachinery::field::{Error as FieldError, Path};
use apimachinery::{Status, StatusReason};
use serde_json::Value;

/// The target of a proxied request: `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The name of the node, pod or service.
    pub name: &'a str,
    /// The number or name of a port; may be empty.
    pub port: &'a str,
}

impl<'a> Target<'a> {
    /// Parses the name in a URL; `None` if it is malformed.
    #[must_use]
    pub fn parse(id: &'a str) -> Option<Self> {
        let parts: Vec<&str> = id.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return None,
        };
        (!name.is_empty() && matches!(scheme, "" | "http" | "https")).then_some(Self { name, port })
    }
}

/// The numeric and time options of `pods/log`, as in the query.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogOptions {
    /// `tailLines`
    pub tail_lines: Option<i64>,
    /// `limitBytes`
    pub limit_bytes: Option<i64>,
    /// `sinceSeconds`
    pub since_seconds: Option<i64>,
    /// Whether `sinceTime` is given.
    pub since_time: bool,
}

impl LogOptions {
    /// Validates the options of a request for the log of the pod `name`.
    ///
    /// # Errors
    /// 422 with every invalid option.
    pub fn check(&self, name: &str) -> Result<(), Status> {
        let mut wrong = Vec::new();
        let mut at_least = |field: &str, value: Option<i64>, min: i64, detail: &str| {
            if let Some(value) = value.filter(|value| *value < min) {
                wrong.push(FieldError::invalid(&Path::new(field), value, detail));
            }
        };
        at_least("tailLines", self.tail_lines, 0, "must be greater than or equal to 0");
        at_least("limitBytes", self.limit_bytes, 1, "must be greater than 0");
        if self.since_seconds.is_some() && self.since_time {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            wrong.push(FieldError::forbidden(&Path::root(), why));
        } else {
            at_least("sinceSeconds", self.since_seconds, 1, "must be greater than 0");
        }
        if wrong.is_empty() { Ok(()) } else { Err(Status::invalid("", "PodLogOptions", name, &wrong)) }
    }
}

/// A request for the log of a container; succeeds if the log is empty because the pod has no node.
///
/// # Errors
/// 400 for a container that the pod does not have, 503 if a kubelet has the log.
pub fn log(pod: &Value, container: &str) -> Result<(), Status> {
    check_container(pod, container)?;
    node(pod).map_or(Ok(()), |node| Err(kubelet(pod, "log", node)))
}

/// The refusal of `exec`, `attach` or `portforward`; the last one names no container.
#[must_use]
pub fn stream(pod: &Value, subresource: &str, container: &str) -> Status {
    if subresource != "portforward"
        && let Err(refused) = check_container(pod, container)
    {
        return refused;
    }
    match node(pod) {
        Some(node) => kubelet(pod, subresource, node),
        None => Status::bad_request(format!("pod {} does not have a host assigned", name(pod))),
    }
}

/// The refusal of a request to a pod's address.
#[must_use]
pub fn to_pod(pod: &Value, _: Target<'_>) -> Status {
    match pod["status"]["podIPs"][0]["ip"].as_str().or(pod["status"]["podIP"].as_str()) {
        Some(_) => unreachable("pod", name(pod)),
        None => Status::bad_request("address not allowed"),
    }
}

/// The refusal of a request to a node's kubelet.
#[must_use]
pub fn to_node(object: &Value, _: Target<'_>) -> Status {
    unreachable("node", name(object))
}

/// The refusal of a request to a service: a control plane has no pods behind it.
#[must_use]
pub fn to_service(service: &Value, target: Target<'_>) -> Status {
    let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let text = match target.port.parse::<i64>() {
        Ok(port) if !ports.any(|known| known["port"] == port) => {
            format!("no service port {port} found for service {:?}", target.name)
        }
        _ => format!("no endpoints available for service {:?}", target.name),
    };
    Status::failure(StatusReason::ServiceUnavailable, text)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn node(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())
}

/// Checks the container of a request; an empty one is the pod's only container.
fn check_container(pod: &Value, container: &str) -> Result<(), Status> {
    let of = |field: &str| pod["spec"][field].as_array().map_or(&[][..], Vec::as_slice);
    let all = [of("initContainers"), of("containers"), of("ephemeralContainers")];
    let names: Vec<&str> = all.into_iter().flatten().filter_map(|one| one["name"].as_str()).collect();
    let pod_name = name(pod);
    match (container, of("containers").len()) {
        ("", 1) => Ok(()),
        ("", 0) => Err(Status::bad_request(format!("a container name must be specified for pod {pod_name}"))),
        ("", _) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {pod_name}, choose one of: [{}]",
            names.join(" ")
        ))),
        (container, _) if names.contains(&container) => Ok(()),
        (container, _) => Err(Status::bad_request(format!("container {container} is not valid for pod {pod_name}"))),
    }
}

fn kubelet(pod: &Value, subresource: &str, node: &str) -> Status {
    let text = format!(
        "pods/{subresource} of {} is answered by the kubelet of node {node}, and this API server reaches none: its pods \
         are kept as objects and run nowhere",
        name(pod)
    );
    Status::failure(StatusReason::ServiceUnavailable, text)
}

fn unreachable(what: &str, name: &str) -> Status {
    let text = format!("{what} {name} cannot be reached: this API server keeps it as an object and connects to none");
    Status::failure(StatusReason::ServiceUnavailable, text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_name_schemes_and_ports() {
        for (id, expected) in [
            ("web", Some(("web", ""))),
            ("web:80", Some(("web", "80"))),
            ("https:web:", Some(("web", ""))),
            (":web:http", Some(("web", "http"))),
            ("ftp:web:80", None),
            ("", None),
            (":80", None),
            ("a:b:c:d", None),
        ] {
            assert_eq!(Target::parse(id).map(|it| (it.name, it.port)), expected, "{id}");
        }
    }

    #[test]
    fn containers_are_checked_before_nodes() {
        let check = |pod: &Value, container: &str, logged: &str, executed: &str| {
            let found = log(pod, container).map_or_else(|status| status.message, |()| "empty".to_owned());
            assert!(found.contains(logged), "{found}");
            let found = stream(pod, "exec", container).message;
            assert!(found.contains(executed), "{found}");
        };
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}});
        check(&pod, "", "empty", "pod p does not have a host assigned");
        check(&pod, "x", "container x is not valid for pod p", "container x is not valid for pod p");
        pod["spec"]["initContainers"] = json!([{"name": "i"}]);
        pod["spec"]["containers"] = json!([{"name": "a"}, {"name": "b"}]);
        let which = "a container name must be specified for pod p, choose one of: [i a b]";
        check(&pod, "", which, which);
        pod["spec"]["nodeName"] = "n".into();
        check(&pod, "i", "pods/log of p is answered by the kubelet of node n", "pods/exec of p is answered");
        assert!(stream(&pod, "portforward", "").message.contains("kubelet of node n"));
    }

    #[test]
    fn log_options_have_limits() {
        let all = LogOptions { tail_lines: Some(-1), limit_bytes: Some(0), since_seconds: Some(0), since_time: false };
        let refused = all.check("p").expect_err("three are wrong");
        assert_eq!(
            refused.message,
            "PodLogOptions \"p\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, \
             limitBytes: Invalid value: 0: must be greater than 0, sinceSeconds: Invalid value: 0: must be greater than 0]"
        );
        let both = LogOptions { since_seconds: Some(5), since_time: true, ..LogOptions::default() };
        let refused = both.check("p").expect_err("only one may be given").message;
        assert!(refused.contains("at most one of `sinceTime` or `sinceSeconds` may be specified"), "{refused}");
        LogOptions { tail_lines: Some(0), ..LogOptions::default() }.check("p").expect("no lines");
    }

    #[test]
    fn services_have_no_endpoints_here() {
        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
        let check = |port, expected: &str| {
            let refused = to_service(&service, Target { name: "s", port });
            assert_eq!((refused.code, refused.message.as_str()), (503, expected));
        };
        check("", "no endpoints available for service \"s\"");
        check("80", "no endpoints available for service \"s\"");
        check("81", "no service port 81 found for service \"s\"");
    }
}
