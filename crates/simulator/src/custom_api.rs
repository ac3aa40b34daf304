//! `custom.metrics.k8s.io/v1beta2` and `external.metrics.k8s.io/v1beta1` of a member: values in annotations, as an
//! adapter such as prometheus-adapter reports them.

use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::meta::Time;
use apimachinery::quantity::Quantity;
use apimachinery::selector::Selector;
use apimachinery::{Object, ObjectKey, Status, StatusReason};
use apiserver::{RequestInfo, Route, Shared, method_not_allowed, respond};
use fleet_metrics::custom::Described;
use fleet_metrics::discovery;
use fleet_metrics::groups::{self, CUSTOM, EXTERNAL};
use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use transport::{Identity, Request, Response};

use crate::metrics_api::{Owner, decoded, owner};
use crate::plan::load::chain;
use crate::plan::meta::Meta;
use crate::plan::pod::Pod;
use crate::plan::series;

/// The resources whose objects may have custom metrics.
pub(crate) const PLACES: [&str; 4] = ["core/pods", "apps/deployments", "apps/statefulsets", "core/services"];
/// The resource whose objects may have external metrics.
pub(crate) const EXTERNAL_PLACE: &str = "core/configmaps";

/// The route of both groups.
pub(crate) struct Annotated;

/// `apps/deployments` of `deployments.apps`, as the cache names resources; `None` for one that is not served.
fn place(server: &Shared, resource: &str) -> Option<String> {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let served = server.registry.snapshot();
    let is_served = served.iter().any(|it| (&*it.info.resource.group, &*it.info.resource.plural) == (group, plural));
    is_served.then(|| format!("{}/{plural}", if group.is_empty() { "core" } else { group }))
}

fn selector(info: &RequestInfo) -> Result<Selector, Status> {
    let text = info.query.text("labelSelector").unwrap_or_default();
    Selector::parse(text).map_err(|error| Status::bad_request(error.to_string()))
}

fn absent(metric: &str, of: &str) -> Status {
    let message = format!("the server could not find the metric {metric} for {of}");
    Status::failure(StatusReason::NotFound, message)
}

impl Annotated {
    /// The pods of a selector that have the metric, with their values.
    fn pods(server: &Shared, requested: &Described, selector: &Selector) -> Result<Vec<(Meta, Quantity)>, Status> {
        let pods: Vec<Pod> = decoded(server, "core/pods", Some(&requested.namespace), |_| true)?;
        let value = |pod: Pod| {
            let controller = pod.metadata.controller().cloned();
            let owners = controller.map(|it| chain(&requested.namespace, &it, |ns, it| owner(server, ns, it)));
            let owners = owners.unwrap_or_default();
            let own = [&pod.metadata].into_iter().chain(&owners).map(|meta| &meta.annotations);
            let value = series::value(own, &requested.metric)?;
            Some((pod.metadata, value))
        };
        let is_requested = |pod: &Pod| pod.status.phase == "Running" && selector.matches(&pod.metadata.labels);
        Ok(pods.into_iter().filter(is_requested).filter_map(value).collect())
    }

    /// The named object or, for the name `*`, the objects of a selector, with their values of the metric.
    fn objects(
        server: &Shared,
        requested: &Described,
        selector: &Selector,
    ) -> Result<Vec<(Arc<Object>, Quantity)>, Status> {
        let namespace = Some(requested.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let Some(place) = place(server, &requested.resource) else { return Ok(Vec::new()) };
        let resource = server.cache.resource(&place);
        let objects: Vec<Arc<Object>> = if requested.name == "*" {
            let (objects, _, _) =
                resource.list(namespace, None, 0, |object| selector.matches_with(|key| object.label(key)))?;
            objects
        } else {
            let key = match namespace {
                None => ObjectKey::cluster(requested.name.as_str()),
                Some(namespace) => ObjectKey::namespaced(namespace, requested.name.as_str()),
            };
            resource.get(&key)?.into_iter().collect()
        };
        let value = |object: Arc<Object>| {
            let value = series::value([&object.annotations()], &requested.metric)?;
            Some((object, value))
        };
        Ok(objects.into_iter().filter_map(value).collect())
    }

    fn custom(server: &Shared, info: &RequestInfo, now: Time) -> Result<Value, Status> {
        let requested = Described::of_path(&info.namespace, &info.resource, &info.name, &info.subresource);
        let requested = requested.ok_or_else(|| absent("", &info.resource))?;
        let item = |kind: &str, api_version: &str, name: &str, value: Quantity| {
            json!({"describedObject": {"kind": kind, "namespace": requested.namespace, "name": name, "apiVersion": api_version},
                "metric": {"name": requested.metric, "selector": null}, "timestamp": now, "windowSeconds": 15, "value": value})
        };
        let selector = selector(info)?;
        let items: Vec<Value> = match (requested.resource.as_str(), requested.name.as_str()) {
            ("pods", "*") => {
                let found = Self::pods(server, &requested, &selector)?;
                found.iter().map(|(meta, value)| item("Pod", "/v1", &meta.name, *value)).collect()
            }
            _ => {
                let found = Self::objects(server, &requested, &selector)?;
                found.iter().map(|(it, value)| item(it.kind(), it.api_version(), it.name(), *value)).collect()
            }
        };
        if items.is_empty() {
            return Err(absent(&requested.metric, &requested.resource));
        }
        Ok(
            json!({"kind": "MetricValueList", "apiVersion": format!("{CUSTOM}/v1beta2"), "metadata": {}, "items": items}),
        )
    }

    fn external(server: &Shared, info: &RequestInfo, now: Time) -> Result<Value, Status> {
        let selector = selector(info)?;
        let maps: Vec<Owner> = decoded(server, EXTERNAL_PLACE, Some(&info.namespace), |_| true)?;
        let item = |map: &Owner| {
            let mut values = series::parse(map.metadata.annotations.get(series::EXTERNAL)?);
            let value = values.remove(&info.resource)?;
            Some(
                json!({"metricName": info.resource, "metricLabels": map.metadata.labels, "timestamp": now, "value": value}),
            )
        };
        let items: Vec<Value> =
            maps.iter().filter(|map| selector.matches(&map.metadata.labels)).filter_map(item).collect();
        Ok(
            json!({"kind": "ExternalMetricValueList", "apiVersion": format!("{EXTERNAL}/v1beta1"), "metadata": {}, "items": items}),
        )
    }

    /// The metrics of all pods and their workloads.
    pub fn listed(server: &Shared, group: &str) -> Result<BTreeSet<discovery::Listed>, Status> {
        let mut names = BTreeSet::new();
        if group == EXTERNAL {
            let maps: Vec<Owner> =
                decoded(server, EXTERNAL_PLACE, None, |it| it.annotation(series::EXTERNAL).is_some())?;
            for text in maps.iter().filter_map(|map| map.metadata.annotations.get(series::EXTERNAL)) {
                names.extend(series::parse(text).into_keys().map(|name| (name, true)));
            }
            return Ok(names);
        }
        for place in PLACES {
            let plural = place.split('/').next_back().unwrap_or_default();
            let objects: Vec<Owner> = decoded(server, place, None, |it| it.annotation(series::METRICS).is_some())?;
            let texts = objects.iter().filter_map(|it| it.metadata.annotations.get(series::METRICS));
            for metric in texts.flat_map(|text| series::parse(text).into_keys()) {
                names.insert((format!("pods/{metric}"), true));
                if plural != "pods" {
                    names.insert((
                        format!("{plural}{}/{metric}", if place.starts_with("apps") { ".apps" } else { "" }),
                        true,
                    ));
                }
            }
        }
        Ok(names)
    }
}

impl Route for Annotated {
    fn takes(&self, info: &RequestInfo) -> bool {
        groups::of_path(&info.path)
            .is_some_and(|it| (it.group, it.version) == (CUSTOM, "v1beta2") || it.group == EXTERNAL)
    }

    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        _user: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        Box::pin(async move {
            if request.method() != http::Method::GET {
                return Err(method_not_allowed());
            }
            server.cache.catch_up().await?;
            let now = Time::new(server.world.now());
            let version = groups::of_path(&info.path).ok_or_else(|| absent("", ""))?;
            let document = match (info.is_resource, version.group) {
                (false, group) => discovery::resource_list(version, &Self::listed(server, group)?),
                (true, CUSTOM) => Self::custom(server, info, now)?,
                (true, _) => Self::external(server, info, now)?,
            };
            Ok(respond::value(StatusCode::OK, &document))
        })
    }
}
