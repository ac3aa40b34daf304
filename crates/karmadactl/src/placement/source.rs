//! Where clusters, policies and bindings are taken from.

use std::sync::Arc;

use apimachinery::{GroupVersionKind, Object};
use client::{Client, ListOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::templates;
use karmada_api::scope::{Binding, Policy, Scope};
use karmada_api::work::v1alpha1::Work;
use propagation::template::Template;
use scheduling::Snapshot;
use serde_json::Value;

use crate::error::Error;
use crate::objects::files;
use crate::reading::{each, list};

/// The objects of a file, by their role in scheduling.
#[derive(Default)]
pub struct Manifests {
    pub clusters: Vec<Arc<Cluster>>,
    pub policies: Vec<Policy>,
    pub bindings: Vec<Binding>,
    pub works: Vec<Work>,
    pub templates: Vec<Value>,
}

impl Manifests {
    /// The documents of a file, a directory, a URL or the standard input.
    pub async fn read(name: &str) -> Result<Self, Error> {
        let mut manifests = Self::default();
        for document in files::documents(name).await? {
            manifests.add(document).map_err(|error| Error::message(format!("reading {name}: {error}")))?;
        }
        Ok(manifests)
    }

    fn add(&mut self, document: Value) -> Result<(), serde_json::Error> {
        let version = document["apiVersion"].as_str().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let of = |expected: &str| group == expected || version.is_empty();
        match document["kind"].as_str().unwrap_or_default() {
            "" if document.is_null() => {}
            // Lists hold objects, not lists of lists: the depth of the recursion is one in practice and that of the
            // parsed document at most.
            "List" | "ClusterList" | "ResourceBindingList" => {
                if let Value::Object(mut list) = document
                    && let Some(Value::Array(items)) = list.remove("items")
                {
                    items.into_iter().try_for_each(|item| self.add(item))?;
                }
            }
            "Cluster" if of("cluster.karmada.io") => self.clusters.push(Arc::new(serde_json::from_value(document)?)),
            "PropagationPolicy" if of("policy.karmada.io") => {
                self.policies.push(Policy::from_value(Scope::Namespaced, &document)?);
            }
            "ClusterPropagationPolicy" if of("policy.karmada.io") => {
                self.policies.push(Policy::from_value(Scope::Cluster, &document)?);
            }
            "ResourceBinding" if of("work.karmada.io") => {
                self.bindings.push(Binding::from_value(Scope::Namespaced, &document)?);
            }
            "ClusterResourceBinding" if of("work.karmada.io") => {
                self.bindings.push(Binding::from_value(Scope::Cluster, &document)?);
            }
            "Work" if of("work.karmada.io") => self.works.push(serde_json::from_value(document)?),
            // Overrides, for example, which no policy propagates.
            kind if is_never_propagated(version, kind) => {}
            _ => self.templates.push(document),
        }
        Ok(())
    }

    /// Sets the namespace of namespaced policies and templates that have none.
    pub fn set_namespaces(&mut self, default: &str) {
        let policies = self.policies.iter_mut().filter(|it| it.scope == Scope::Namespaced);
        for policy in policies.filter(|it| it.metadata.namespace.is_empty()) {
            default.clone_into(&mut policy.metadata.namespace);
        }
        for tree in &mut self.templates {
            let template = Template(tree);
            // Only the server knows the scope of a kind.
            let is_missing = template.namespace().is_empty() && !is_cluster_scoped(template.kind());
            if is_missing && tree["metadata"].is_object() {
                tree["metadata"]["namespace"] = default.into();
            }
        }
    }

    pub fn extend(&mut self, more: Self) {
        self.clusters.extend(more.clusters);
        self.policies.extend(more.policies);
        self.bindings.extend(more.bindings);
        self.works.extend(more.works);
        self.templates.extend(more.templates);
    }
}

pub async fn clusters(client: &Client) -> Result<Vec<Arc<Cluster>>, Error> {
    let decode = |object: &Arc<Object>| Cluster::from_object(object).map(Arc::new);
    list(client, &Cluster::api_resource(), None, decode).await
}

pub async fn policies(client: &Client) -> Result<Vec<Policy>, Error> {
    let mut found = Vec::new();
    for scope in Scope::ALL {
        found.extend(list(client, &Policy::api_resource(scope), None, |object| Policy::decode(object)).await?);
    }
    Ok(found)
}

pub async fn bindings(client: &Client, scope: Scope, namespace: Option<&str>) -> Result<Vec<Binding>, Error> {
    list(client, &Binding::api_resource(scope), namespace, |object| Binding::decode(object)).await
}

/// Passes each binding of both scopes, of all namespaces, to `take`.
pub async fn each_binding(client: &Client, mut take: impl FnMut(Binding)) -> Result<(), Error> {
    for scope in Scope::ALL {
        let decode = |object: &Arc<Object>| Binding::decode(object);
        each(client, &Binding::api_resource(scope), None, ListOptions::default(), decode, &mut take).await?;
    }
    Ok(())
}

/// Without the clusters that are thought away.
pub fn snapshot(clusters: &[Arc<Cluster>], without: &[String]) -> Result<Snapshot, Error> {
    if let Some(unknown) = without.iter().find(|name| !clusters.iter().any(|it| it.metadata.name == **name)) {
        return Err(Error::message(format!("--without-cluster: there is no cluster {unknown}")));
    }
    let left = clusters.iter().filter(|cluster| !without.contains(&cluster.metadata.name));
    Ok(Snapshot::of_clusters(left.cloned()))
}

fn is_never_propagated(api_version: &str, kind: &str) -> bool {
    let gvk = GroupVersionKind::from_api_version(api_version, kind);
    gvk.is_ok_and(|it| templates::is_skipped(&it.group, &it.version, &it.kind))
}

/// The built-in kinds without a namespace that policies are written for; a custom one is recognized by its
/// missing namespace, in a file together with a cluster policy.
fn is_cluster_scoped(kind: &str) -> bool {
    matches!(
        kind,
        "Namespace"
            | "ClusterRole"
            | "ClusterRoleBinding"
            | "CustomResourceDefinition"
            | "PersistentVolume"
            | "StorageClass"
            | "PriorityClass"
            | "IngressClass"
            | "ValidatingWebhookConfiguration"
            | "MutatingWebhookConfiguration"
            | "APIService"
    )
}
