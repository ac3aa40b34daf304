//! `metrics.k8s.io/v1beta1` of a member: the load of its pods and nodes, as metrics-server reports it.

use std::sync::Arc;

use apimachinery::meta::{OwnerReference, Time};
use apimachinery::resource::{Resource, ResourceInfo, Strategy};
use apimachinery::schema::TypeOf;
use apimachinery::selector::Selector;
use apimachinery::{ApiResource, Object, ObjectKey, Status, StatusReason};
use apiserver::{RequestInfo, Route, Shared, method_not_allowed, respond};
use futures::future::BoxFuture;
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use transport::{Identity, Request, Response};

use crate::plan::load::{self, Load};
use crate::plan::meta::Meta;
use crate::plan::pod::Pod;

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";

/// Serves the usage of pods and nodes. Pods without an annotation have the default load.
pub(crate) struct Metrics {
    pub default: Load,
}

/// The resources of the group in discovery; their objects are computed.
pub(crate) fn resources(strategy: &Arc<dyn Strategy>) -> [Resource; 2] {
    let pods = ApiResource::namespaced(GROUP, VERSION, "PodMetrics", "pods");
    let nodes = ApiResource::cluster(GROUP, VERSION, "NodeMetrics", "nodes");
    [pods, nodes].map(|resource| {
        let info = ResourceInfo {
            singular: String::new(),
            list_kind: format!("{}List", resource.kind),
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: ["get", "list"].map(str::to_owned).to_vec(),
            subresources: Vec::new(),
            selectable_fields: Vec::new(),
            custom: false,
            schema: TypeOf::deduced(),
            resource,
        };
        Resource { info: Arc::new(info), strategy: Arc::clone(strategy) }
    })
}

/// The metadata of a controller.
pub(crate) fn owner(server: &Shared, namespace: &str, reference: &OwnerReference) -> Option<Meta> {
    let place = match (reference.api_version.as_str(), reference.kind.as_str()) {
        ("apps/v1", "ReplicaSet") => "apps/replicasets",
        ("apps/v1", "Deployment") => "apps/deployments",
        ("apps/v1", "StatefulSet") => "apps/statefulsets",
        ("apps/v1", "DaemonSet") => "apps/daemonsets",
        ("batch/v1", "Job") => "batch/jobs",
        _ => return None,
    };
    let key = ObjectKey::namespaced(namespace, reference.name.as_str());
    let object = server.cache.resource(place).get(&key).ok().flatten()?;
    object.decode::<Owner>().ok().map(|owner| owner.metadata)
}

/// Objects of a built-in resource, decoded; undecodable ones are skipped.
pub(crate) fn decoded<T: DeserializeOwned>(
    server: &Shared,
    place: &str,
    namespace: Option<&str>,
    keep: impl Fn(&Object) -> bool,
) -> Result<Vec<T>, Status> {
    let (objects, _, _) = server.cache.resource(place).list(namespace, None, 0, keep)?;
    Ok(objects.iter().filter_map(|object| object.decode().ok()).collect())
}

impl Metrics {
    /// The measured pods of a namespace with their loads.
    fn measured(&self, server: &Shared, namespace: Option<&str>) -> Result<Vec<(Pod, Load)>, Status> {
        let mut pods: Vec<Pod> = decoded(server, "core/pods", namespace, |_| true)?;
        pods.retain(load::is_measured);
        let loads = load::usages(&pods, self.default, |namespace, reference| owner(server, namespace, reference));
        Ok(pods.into_iter().zip(loads).collect())
    }

    fn pods(&self, server: &Shared, info: &RequestInfo, now: Time) -> Result<Vec<Value>, Status> {
        let namespace = Some(info.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let selector = selector(info)?;
        let measured = self.measured(server, namespace)?;
        let selected = measured.iter().filter(|(pod, _)| is_requested(&pod.metadata, info, &selector));
        Ok(selected.map(|(pod, load)| load::pod_metrics(pod, *load, now)).collect())
    }

    fn nodes(&self, server: &Shared, info: &RequestInfo, now: Time) -> Result<Vec<Value>, Status> {
        let selector = selector(info)?;
        let nodes: Vec<Owner> = decoded(server, "core/nodes", None, |_| true)?;
        let measured = self.measured(server, None)?;
        let placed: Vec<(&Pod, Load)> = measured.iter().map(|(pod, load)| (pod, *load)).collect();
        let selected = nodes.iter().filter(|node| is_requested(&node.metadata, info, &selector));
        Ok(selected.map(|node| load::node_metrics(&node.metadata, &placed, now)).collect())
    }
}

/// Any object, of which the metadata is read.
#[derive(serde::Deserialize)]
pub(crate) struct Owner {
    pub metadata: Meta,
}

fn is_requested(meta: &Meta, info: &RequestInfo, selector: &Selector) -> bool {
    (info.name.is_empty() || info.name == meta.name) && selector.matches(&meta.labels)
}

fn selector(info: &RequestInfo) -> Result<Selector, Status> {
    let text = info.query.text("labelSelector").unwrap_or_default();
    Selector::parse(text).map_err(|error| Status::failure(StatusReason::BadRequest, error.to_string()))
}

impl Route for Metrics {
    fn takes(&self, info: &RequestInfo) -> bool {
        info.is_resource && info.group == GROUP && info.version == VERSION
    }

    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        _user: &'a Identity,
        _request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        Box::pin(async move {
            if !matches!(info.verb, "get" | "list") || !info.subresource.is_empty() {
                return Err(method_not_allowed());
            }
            server.cache.catch_up().await?;
            let now = Time::new(server.world.now());
            let (kind, mut items) = match info.resource.as_str() {
                "pods" => ("PodMetricsList", self.pods(server, info, now)?),
                "nodes" => ("NodeMetricsList", self.nodes(server, info, now)?),
                _ => return Err(Status::not_found(GROUP, &info.resource, &info.name)),
            };
            if info.name.is_empty() {
                let list =
                    json!({"kind": kind, "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": {}, "items": items});
                return Ok(respond::value(StatusCode::OK, &list));
            }
            // metrics-server reads the pod or node itself, and returns that error.
            let item = items.pop().ok_or_else(|| Status::not_found("", &info.resource, &info.name))?;
            Ok(respond::value(StatusCode::OK, &item))
        })
    }
}
