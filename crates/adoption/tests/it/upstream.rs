//! Values as a kube-apiserver and Karmada's aggregated API server store them, at the places that the engine translates
//! them to.

use bytes::Bytes;
use kubernetes_api::protobuf::encode;
use serde_json::{Value, json};
use storage::{Op, Store, Txn};

/// Protobuf's wire format of a length-delimited field.
pub fn field(number: u8, content: &[u8]) -> Vec<u8> {
    assert!(content.len() < 128);
    [&[number << 3 | 2, content.len() as u8][..], content].concat()
}

/// The bytes of a Namespace, encoded by hand from the definitions of `runtime.Unknown`, `ObjectMeta` and `Namespace`.
pub fn namespace(name: &str) -> Bytes {
    let kind = [field(1, b"v1"), field(2, b"Namespace")].concat();
    let labels = field(11, &[field(1, b"kubernetes.io/metadata.name"), field(2, name.as_bytes())].concat());
    let metadata = [field(1, name.as_bytes()), field(4, b""), field(5, b"uid-1"), field(6, b""), labels].concat();
    let status = field(3, &field(1, b"Active"));
    let message = [field(1, &metadata), field(2, &field(1, b"kubernetes")), status].concat();
    [&b"k8s\0"[..], &field(1, &kind), &field(2, &message), &field(3, b""), &field(4, b"")].concat().into()
}

pub fn protobuf(object: &Value) -> Bytes {
    encode(object.to_string().as_bytes()).expect("an object of the tests").into()
}

/// Go's maps are sorted by their names, and a line feed ends the document.
pub fn json(object: &Value) -> Bytes {
    format!("{object}\n").into()
}

/// The store of a control plane, without special cases: each key with its value.
pub fn plain() -> Vec<(&'static str, Bytes)> {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "default", "uid": "d", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "p"},
            "annotations": {"propagationpolicy.karmada.io/name": "web"},
        },
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "strategy": {},
            "template": {
                "metadata": {"labels": {"app": "web"}, "creationTimestamp": null},
                "spec": {"containers": [{"name": "web", "image": "nginx", "resources": {"limits": {"cpu": "1"}}}]},
            },
        },
        "status": {},
    });
    let work = json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {
            "name": "web-1", "namespace": "karmada-es-m1", "uid": "w", "generation": 1,
            "finalizers": ["karmada.io/execution-controller"],
        },
        "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}]}},
    });
    vec![
        ("/registry/core/namespaces/default", namespace("default")),
        ("/registry/apps/deployments/default/web", protobuf(&deployment)),
        ("/registry/work.karmada.io/works/karmada-es-m1/web-1", json(&work)),
        // The aggregated API server encodes types of Go, whose first field is the kind.
        (
            "/registry/cluster.karmada.io/clusters/m1",
            Bytes::from_static(
                b"{\"kind\":\"Cluster\",\"apiVersion\":\"cluster.karmada.io/v1alpha1\",\"metadata\":{\"name\":\"m1\",\"uid\":\"c\"},\"spec\":{\"syncMode\":\"Push\"}}\n",
            ),
        ),
        // A map's `data` precedes `kind`, and contains a nested `metadata`.
        (
            "/registry/example.io/boxes/default/b",
            json(&json!({
                "apiVersion": "example.io/v1", "kind": "Box", "metadata": {"name": "b", "namespace": "default"},
                "data": {"metadata": {"name": "inner"}},
            })),
        ),
        (
            "/registry/apiextensions.k8s.io/customresourcedefinitions/boxes.example.io",
            json(&json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "boxes.example.io"},
                "spec": {
                    "group": "example.io", "scope": "Namespaced",
                    "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    }}],
                },
            })),
        ),
    ]
}

/// Objects of an old installation.
pub fn leftovers() -> Vec<(&'static str, Bytes)> {
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "mutating-config", "uid": "m"},
        "webhooks": [{
            "name": "propagationpolicy.karmada.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://karmada-webhook.karmada-system.svc:443/mutate-propagationpolicy"},
        }],
    });
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1alpha1.cluster.karmada.io"},
        "spec": {"service": {"name": "karmada-aggregated-apiserver", "namespace": "karmada-system"},
            "group": "cluster.karmada.io", "version": "v1alpha1"},
    });
    vec![
        (
            "/registry/admissionregistration.k8s.io/mutatingwebhookconfigurations/mutating-config",
            protobuf(&configuration),
        ),
        ("/registry/apiregistration.k8s.io/apiservices/v1alpha1.cluster.karmada.io", json(&service)),
        ("/registry/ranges/serviceips", Bytes::from_static(b"k8s\0\n\x15\n\x02v1\x12\x0fRangeAllocation")),
    ]
}

pub async fn fill(store: &dyn Store, items: Vec<(&'static str, Bytes)>) {
    for (key, value) in items {
        let ops = vec![Op::Put { key: key.into(), value, lease: None }];
        store.txn(Txn { guards: Vec::new(), ops }).await.expect("the store");
    }
}
