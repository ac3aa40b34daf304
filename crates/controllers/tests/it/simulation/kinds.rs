//! The kinds of templates in histories: one with replicas, one that is a dependency, one without a namespace, and one
//! whose definition is created and deleted.

use apimachinery::{ApiResource, ObjectKey};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Deployment,
    ConfigMap,
    ClusterRole,
    Widget,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Deployment, Self::ConfigMap, Self::ClusterRole, Self::Widget];

    /// The kind of an object or a reference.
    pub fn of(named: &Value) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| named["kind"] == *kind.resource().kind)
    }

    pub fn resource(self) -> ApiResource {
        match self {
            Self::Deployment => ApiResource::namespaced("apps", "v1", "Deployment", "deployments"),
            Self::ConfigMap => ApiResource::namespaced("", "v1", "ConfigMap", "configmaps"),
            Self::ClusterRole => ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles"),
            Self::Widget => ApiResource::namespaced("example.io", "v1", "Widget", "widgets"),
        }
    }

    pub fn is_namespaced(self) -> bool {
        self != Self::ClusterRole
    }

    /// The namespace of the users' objects of this kind.
    pub fn namespace(self) -> Option<&'static str> {
        self.is_namespaced().then_some("demo")
    }

    pub fn key(self, name: &str) -> ObjectKey {
        match self.namespace() {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster(name),
        }
    }

    /// The path of the value that histories change.
    pub fn pointer(self) -> &'static str {
        match self {
            Self::Deployment => "/spec/template/spec/containers/0/image",
            Self::ConfigMap => "/data/v",
            Self::ClusterRole => "/rules/0/verbs/0",
            Self::Widget => "/spec/v",
        }
    }

    /// A patch of that value only.
    pub fn patch(self, value: &str) -> Value {
        match self {
            Self::Deployment => {
                json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": value}]}}}})
            }
            Self::ConfigMap => json!({"data": {"v": value}}),
            Self::ClusterRole => rules(value),
            Self::Widget => json!({"spec": {"v": value}}),
        }
    }

    pub fn object(self, name: &str, made: &Made) -> Value {
        let mut metadata = json!({"name": name, "labels": {"colour": made.colour}});
        if let Some(namespace) = self.namespace() {
            metadata["namespace"] = json!(namespace);
        }
        let resource = self.resource();
        let mut object = match self {
            Self::Deployment => {
                let mut pod = json!({"containers": [{"name": "c", "image": made.value}]});
                if let Some(needed) = made.needs {
                    pod["volumes"] = json!([{"name": "v", "configMap": {"name": template(needed)}}]);
                }
                json!({"spec": {"replicas": made.replicas, "selector": {"matchLabels": {"app": name}},
                    "template": {"metadata": {"labels": {"app": name}}, "spec": pod}}})
            }
            Self::ConfigMap => json!({"data": {"v": made.value}}),
            Self::ClusterRole => rules(&made.value),
            Self::Widget => json!({"spec": {"v": made.value}}),
        };
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        object["metadata"] = metadata;
        object
    }
}

/// The resource of kinds' definitions.
pub fn definitions() -> ApiResource {
    ApiResource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
}

pub const DEFINITION: &str = "widgets.example.io";

/// The definition with which a server serves Widgets.
pub fn definition() -> Value {
    let spec = json!({"type": "object", "properties": {"v": {"type": "string"}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": DEFINITION},
        "spec": {"group": "example.io", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": spec}}}}]}})
}

fn rules(verb: &str) -> Value {
    json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]})
}

/// The user's settings of a template.
#[derive(Clone, Debug)]
pub struct Made {
    pub value: String,
    pub replicas: i64,
    pub colour: &'static str,
    /// The ConfigMap that a Deployment mounts.
    pub needs: Option<u8>,
}

/// The name of a template.
pub fn template(n: u8) -> String {
    format!("t{n}")
}
