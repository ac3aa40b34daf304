//! The columns of server-side tables (`kubectl get`), and the cells of a row.

use apimachinery::age::human_duration;
use apimachinery::meta::Time;
use apimachinery::resource::Column;
use serde_json::Value;

/// Header, OpenAPI type, whether only `-o wide` shows it.
type Header = (&'static str, &'static str, bool);

const NAME: Header = ("Name", "string", false);
const AGE: Header = ("Age", "string", false);
const PLAIN: &[Header] = &[NAME, AGE];

fn text(name: &'static str) -> Header {
    (name, "string", false)
}

fn number(name: &'static str) -> Header {
    (name, "integer", false)
}

fn wide(name: &'static str) -> Header {
    (name, "string", true)
}

fn headers(group: &str, kind: &str) -> Vec<Header> {
    let workload = [wide("Containers"), wide("Images"), wide("Selector")];
    match (group, kind) {
        ("apps", "Deployment") => {
            [&[NAME, text("Ready"), number("Up-to-date"), number("Available"), AGE][..], &workload].concat()
        }
        ("apps", "ReplicaSet") | ("", "ReplicationController") => {
            [&[NAME, number("Desired"), number("Current"), number("Ready"), AGE][..], &workload].concat()
        }
        ("apps", "StatefulSet") => [&[NAME, text("Ready"), AGE][..], &workload[..2]].concat(),
        ("apps", "DaemonSet") => [
            &[
                NAME,
                number("Desired"),
                number("Current"),
                number("Ready"),
                number("Up-to-date"),
                number("Available"),
                text("Node Selector"),
                AGE,
            ][..],
            &workload,
        ]
        .concat(),
        ("batch", "Job") => {
            [&[NAME, text("Status"), text("Completions"), text("Duration"), AGE][..], &workload].concat()
        }
        ("", "Pod") => vec![
            NAME,
            text("Ready"),
            text("Status"),
            text("Restarts"),
            AGE,
            wide("IP"),
            wide("Node"),
            wide("Nominated Node"),
            wide("Readiness Gates"),
        ],
        ("", "Service") => {
            vec![NAME, text("Type"), text("Cluster-IP"), text("External-IP"), text("Port(s)"), AGE, wide("Selector")]
        }
        ("", "Namespace") => vec![NAME, text("Status"), AGE],
        ("", "Node") => vec![NAME, text("Status"), text("Roles"), AGE, text("Version"), wide("Internal-IP")],
        ("", "ConfigMap") => vec![NAME, number("Data"), AGE],
        ("", "Secret") => vec![NAME, text("Type"), number("Data"), AGE],
        _ => PLAIN.to_vec(),
    }
}

pub(crate) fn columns(group: &str, kind: &str) -> Vec<Column> {
    let mut columns: Vec<Column> = headers(group, kind)
        .into_iter()
        .map(|(name, type_, wide)| {
            let column = Column::new(name, type_);
            if wide { column.wide() } else { column }
        })
        .collect();
    if let Some(first) = columns.first_mut() {
        first.format = "name".into();
    }
    columns
}

/// One cell for each of [`columns`].
pub(crate) fn cells(group: &str, kind: &str, object: &Value, now: Time) -> Vec<Value> {
    headers(group, kind).into_iter().map(|(name, ..)| cell(group, kind, name, object, now)).collect()
}

fn cell(group: &str, kind: &str, column: &str, object: &Value, now: Time) -> Value {
    let (spec, status) = (&object["spec"], &object["status"]);
    match (column, kind) {
        ("Name", _) => object["metadata"]["name"].clone(),
        ("Age", _) => age(&object["metadata"]["creationTimestamp"], now).into(),
        ("Ready", "Deployment" | "StatefulSet") => {
            format!("{}/{}", int(&status["readyReplicas"]), int(&spec["replicas"])).into()
        }
        ("Up-to-date", "Deployment") => int(&status["updatedReplicas"]).into(),
        ("Available", "Deployment") => int(&status["availableReplicas"]).into(),
        ("Desired", "DaemonSet") => int(&status["desiredNumberScheduled"]).into(),
        ("Current", "DaemonSet") => int(&status["currentNumberScheduled"]).into(),
        ("Ready", "DaemonSet") => int(&status["numberReady"]).into(),
        ("Up-to-date", "DaemonSet") => int(&status["updatedNumberScheduled"]).into(),
        ("Available", "DaemonSet") => int(&status["numberAvailable"]).into(),
        ("Node Selector", _) => pairs(&spec["template"]["spec"]["nodeSelector"]).into(),
        ("Desired", _) => int(&spec["replicas"]).into(),
        ("Current", _) => int(&status["replicas"]).into(),
        ("Ready", "ReplicaSet" | "ReplicationController") => int(&status["readyReplicas"]).into(),
        ("Containers", _) => of_containers(spec, "name").into(),
        ("Images", _) => of_containers(spec, "image").into(),
        ("Selector", _) if group.is_empty() => pairs(&spec["selector"]).into(),
        ("Selector", _) => pairs(&spec["selector"]["matchLabels"]).into(),
        ("Status", "Job") => job_status(status).into(),
        ("Completions", _) => format!("{}/{}", int(&status["succeeded"]), int(&spec["completions"])).into(),
        ("Duration", _) => job_duration(status, now).into(),
        (_, "Pod") => pod_cell(column, object),
        (_, "Service") => service_cell(column, spec, status).into(),
        ("Status", "Namespace") => status["phase"].as_str().unwrap_or("Active").into(),
        (_, "Node") => node_cell(column, object).into(),
        ("Data", _) => (entries(&object["data"]) + entries(&object["binaryData"])).into(),
        ("Type", "Secret") => object["type"].as_str().unwrap_or("Opaque").into(),
        _ => Value::Null,
    }
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn entries(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn joined<'a>(texts: impl Iterator<Item = &'a str>, otherwise: &str) -> String {
    let texts: Vec<&str> = texts.collect();
    if texts.is_empty() { otherwise.to_owned() } else { texts.join(",") }
}

fn pairs(map: &Value) -> String {
    let pairs: Vec<String> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    joined(pairs.iter().map(String::as_str), "<none>")
}

fn of_containers(spec: &Value, field: &str) -> String {
    joined(list(&spec["template"]["spec"]["containers"]).filter_map(|container| container[field].as_str()), "")
}

fn seconds_between(from: &Value, to: Time) -> Option<i64> {
    let from: jiff::Timestamp = from.as_str()?.parse().ok()?;
    Some(to.timestamp().as_second() - from.as_second())
}

fn age(created: &Value, now: Time) -> String {
    seconds_between(created, now).map_or_else(|| "<unknown>".to_owned(), human_duration)
}

fn condition<'a>(status: &'a Value, type_: &str) -> Option<&'a Value> {
    list(&status["conditions"]).find(|condition| condition["type"] == type_)
}

fn holds(status: &Value, type_: &str) -> bool {
    condition(status, type_).is_some_and(|condition| condition["status"] == "True")
}

fn job_status(status: &Value) -> &'static str {
    let states = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"];
    states.into_iter().find(|state| holds(status, state)).unwrap_or("Running")
}

fn job_duration(status: &Value, now: Time) -> String {
    let end = status["completionTime"].as_str().and_then(|text| text.parse().ok()).map_or(now, Time::new);
    seconds_between(&status["startTime"], end).map(human_duration).unwrap_or_default()
}

fn pod_cell(column: &str, pod: &Value) -> Value {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let none = |value: &Value| Value::from(value.as_str().filter(|text| !text.is_empty()).unwrap_or("<none>"));
    match column {
        "Ready" => {
            let ready = list(&status["containerStatuses"]).filter(|container| container["ready"] == true).count();
            format!("{ready}/{}", list(&spec["containers"]).count()).into()
        }
        "Status" => pod_status(pod).into(),
        "Restarts" => {
            let restarts = list(&status["containerStatuses"]).map(|container| int(&container["restartCount"]));
            restarts.sum::<i64>().to_string().into()
        }
        "IP" => none(&status["podIP"]),
        "Node" => none(&spec["nodeName"]),
        "Nominated Node" => none(&status["nominatedNodeName"]),
        _ => "<none>".into(),
    }
}

/// The most telling of the pod's reasons.
fn pod_status(pod: &Value) -> &str {
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating";
    }
    let status = &pod["status"];
    let reasons = list(&status["containerStatuses"]).filter_map(|container| {
        let state = &container["state"];
        state["waiting"]["reason"].as_str().or_else(|| state["terminated"]["reason"].as_str())
    });
    let reason = reasons.last().or_else(|| status["reason"].as_str());
    reason.filter(|text| !text.is_empty()).unwrap_or_else(|| status["phase"].as_str().unwrap_or("Unknown"))
}

fn service_cell(column: &str, spec: &Value, status: &Value) -> String {
    let type_ = spec["type"].as_str().unwrap_or("ClusterIP");
    let ingress = || {
        let addresses = list(&status["loadBalancer"]["ingress"]);
        joined(addresses.filter_map(|at| at["ip"].as_str().or_else(|| at["hostname"].as_str())), "<pending>")
    };
    match column {
        "Type" => type_.to_owned(),
        "Cluster-IP" => spec["clusterIP"].as_str().filter(|text| !text.is_empty()).unwrap_or("<none>").to_owned(),
        "External-IP" => match type_ {
            "LoadBalancer" => ingress(),
            "ExternalName" => spec["externalName"].as_str().unwrap_or_default().to_owned(),
            _ => joined(list(&spec["externalIPs"]).filter_map(Value::as_str), "<none>"),
        },
        _ => {
            let ports: Vec<String> = list(&spec["ports"]).map(port).collect();
            joined(ports.iter().map(String::as_str), "<none>")
        }
    }
}

fn port(port: &Value) -> String {
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    match int(&port["nodePort"]) {
        0 => format!("{}/{protocol}", int(&port["port"])),
        node => format!("{}:{node}/{protocol}", int(&port["port"])),
    }
}

fn node_cell(column: &str, node: &Value) -> String {
    const ROLE: &str = "node-role.kubernetes.io/";
    let status = &node["status"];
    match column {
        "Status" => {
            let mut text = match condition(status, "Ready").map(|ready| ready["status"] == "True") {
                Some(true) => "Ready",
                Some(false) => "NotReady",
                None => "Unknown",
            }
            .to_owned();
            if node["spec"]["unschedulable"] == true {
                text.push_str(",SchedulingDisabled");
            }
            text
        }
        "Roles" => {
            let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
            joined(labels.filter_map(|(key, _)| key.strip_prefix(ROLE)), "<none>")
        }
        "Version" => status["nodeInfo"]["kubeletVersion"].as_str().unwrap_or_default().to_owned(),
        _ => {
            let internal = list(&status["addresses"]).find(|address| address["type"] == "InternalIP");
            internal.and_then(|address| address["address"].as_str()).unwrap_or("<none>").to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(group: &str, kind: &str, mut object: Value) -> String {
        object["metadata"] = json!({"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"});
        let now = Time::new("2026-01-01T00:05:00Z".parse().expect("a time"));
        let shown = cells(group, kind, &object, now);
        assert_eq!(shown.len(), columns(group, kind).len());
        let texts: Vec<String> =
            shown.iter().map(|cell| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned)).collect();
        texts.join(" ")
    }

    #[test]
    fn rows_read_as_kubectl_shows_them() {
        let template = json!({"spec": {"containers": [{"name": "c", "image": "nginx"}]}});
        let deployment = json!({"spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template},
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2}});
        assert_eq!(row("apps", "Deployment", deployment), "x 2/3 3 2 5m c nginx a=b");
        let pod = json!({"spec": {"containers": [{}], "nodeName": "n"},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"ready": true, "restartCount": 2}]}});
        assert_eq!(row("", "Pod", pod), "x 1/1 Running 2 5m 10.0.0.1 n <none> <none>");
        let service =
            json!({"spec": {"clusterIP": "10.1.1.1", "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}});
        assert_eq!(row("", "Service", service), "x ClusterIP 10.1.1.1 <none> 80/TCP,53/UDP 5m <none>");
        assert_eq!(row("", "ConfigMap", json!({"data": {"a": "1"}, "binaryData": {"b": ""}})), "x 2 5m");
        assert_eq!(row("", "Node", json!({})), "x Unknown <none> 5m  <none>");
        assert_eq!(row("rbac.authorization.k8s.io", "Role", json!({})), "x 5m");
    }
}
