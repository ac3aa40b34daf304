//! The objects of the load, encoded without serde so that the client's cost is low.

use bytes::Bytes;
use serde_json::{Value, json};

/// Bytes of data in a ConfigMap.
const DATA: usize = 1024;

pub fn name(n: usize) -> String {
    format!("object-{n:06}")
}

/// `group` is the value of a label.
pub fn config_map(n: usize, group: &str) -> Bytes {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{}","labels":{{"app":"bench","group":"{group}"}}}},"data":{{"k":"{}"}}}}"#,
        name(n),
        "x".repeat(DATA)
    )
    .into()
}

pub fn deployment(n: usize, replicas: usize) -> Bytes {
    let name = name(n);
    format!(
        concat!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"{name}","labels":{{"app":"{name}","group":"bench"}}}},"#,
            r#""spec":{{"replicas":{replicas},"selector":{{"matchLabels":{{"app":"{name}"}}}},"template":{{"metadata":{{"labels":{{"app":"{name}"}}}},"#,
            r#""spec":{{"containers":[{{"name":"main","image":"nginx:1.29","ports":[{{"containerPort":80,"name":"http"}}],"#,
            r#""env":[{{"name":"MODE","value":"production"}},{{"name":"LEVEL","value":"info"}}],"#,
            r#""resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}},"limits":{{"cpu":"500m","memory":"256Mi"}}}},"#,
            r#""readinessProbe":{{"httpGet":{{"path":"/healthz","port":80}},"periodSeconds":5}}}}]}}}}}}}}"#
        ),
        name = name,
        replicas = replicas,
    )
    .into()
}

/// The status that a controller reports for a Deployment.
pub fn status(replicas: usize) -> Bytes {
    format!(
        concat!(
            r#"{{"status":{{"observedGeneration":1,"replicas":{replicas},"readyReplicas":{replicas},"conditions":["#,
            r#"{{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"Deployment has minimum availability."}}]}}}}"#
        ),
        replicas = replicas,
    )
    .into()
}

/// The copy of a Deployment for one cluster.
pub fn work(n: usize, replicas: usize) -> Value {
    let manifest: Value = serde_json::from_slice(&deployment(n, replicas)).unwrap_or_default();
    json!({
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": {
            "name": name(n),
            "namespace": "bench",
            "finalizers": ["karmada.io/execution-controller"],
            "labels": {"resourcebinding.karmada.io/permanent-id": "11111111-2222-3333-4444-555555555555"},
            "annotations": {"resourcebinding.karmada.io/name": name(n), "resourcebinding.karmada.io/namespace": "bench"},
        },
        "spec": {"workload": {"manifests": [manifest]}},
    })
}

/// The binding of a Deployment to two clusters.
pub fn binding(n: usize, replicas: usize) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {
            "name": name(n),
            "namespace": "bench",
            "finalizers": ["karmada.io/binding-controller"],
            "labels": {"resourcebinding.karmada.io/permanent-id": "11111111-2222-3333-4444-555555555555"},
            "annotations": {"policy.karmada.io/applied-placement": "{\"clusterAffinity\":{}}"},
        },
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name(n), "namespace": "bench", "uid": "u"},
            "replicas": replicas,
            "replicaRequirements": {"resourceRequest": {"cpu": "100m", "memory": "64Mi"}},
            "placement": {"clusterAffinity": {"clusterNames": ["member1", "member2"]}},
            "clusters": [{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 2}],
            "schedulerName": "default-scheduler",
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn generated_objects_are_json() {
        for text in [super::config_map(1, "g"), super::deployment(1, 2), super::status(3)] {
            let tree: Value = serde_json::from_slice(&text).expect("valid JSON");
            assert!(tree.is_object());
        }
    }
}
