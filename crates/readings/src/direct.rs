//! Readings from the members' API servers.

use std::collections::BTreeMap;

use apimachinery::{ApiResource, GroupVersionKind, ObjectKey};
use autoscaling::reading::{Answer, List, Member, Pod, Series, Usage, described_values, sum_of_values};
use autoscaling::spec::{Identifier, Source, Spec};
use client::Client;
use futures::future::{BoxFuture, join_all, join3};
use http::Method;
use serde_json::Value;

use crate::bounds::Bounds;
use crate::served::Failure;
use crate::{Readings, Request, paths, served};

/// Connections to members.
pub trait Connect: Send + Sync {
    /// A client of a member.
    ///
    /// # Errors
    /// Why the member has no client.
    fn client<'a>(&'a self, cluster: &'a str) -> BoxFuture<'a, Result<Client, String>>;
}

/// The resources of kinds that metrics describe.
pub trait Kinds: Send + Sync {
    /// The resource of a kind; `None` if it is unknown.
    fn resource<'a>(&'a self, kind: &'a GroupVersionKind) -> BoxFuture<'a, Option<ApiResource>>;
}

/// Reads members directly.
pub struct Direct<C> {
    connect: C,
    bounds: Bounds,
}

impl<C: Connect + Kinds> Direct<C> {
    /// Reads over these connections.
    pub fn new(connect: C) -> Self {
        Self { connect, bounds: Bounds::default() }
    }

    async fn member(&self, request: Request<'_>, described: &BTreeMap<usize, ApiResource>, cluster: &str) -> Member {
        let read = async {
            let client = self.connect.client(cluster).await?;
            answer(&client, request, described, cluster).await
        };
        let answer = self.bounds.run(read).await;
        Member { cluster: cluster.to_owned(), answer }
    }

    /// The resources of the objects that metrics describe.
    async fn described(&self, spec: &Spec) -> BTreeMap<usize, ApiResource> {
        let mut resources = BTreeMap::new();
        for (index, metric) in spec.metrics.iter().enumerate() {
            let Source::Object(object, _) = &metric.source else { continue };
            let Ok(kind) = GroupVersionKind::from_api_version(&object.api_version, &object.kind) else { continue };
            if let Some(resource) = self.connect.resource(&kind).await {
                resources.insert(index, resource);
            }
        }
        resources
    }
}

impl<C: Connect + Kinds> Readings for Direct<C> {
    fn read<'a>(&'a self, request: Request<'a>) -> BoxFuture<'a, Vec<Member>> {
        Box::pin(async move {
            let described = self.described(request.spec).await;
            join_all(request.clusters.iter().map(|cluster| self.member(request, &described, cluster))).await
        })
    }
}

/// A document of a server.
async fn document(client: &Client, path: &str) -> client::Result<Value> {
    let bytes = client.request(Method::GET, path, None).await?;
    // A response that is not JSON counts as empty.
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

/// The scale of a workload.
///
/// # Errors
/// Those of the client.
pub fn scale<'a>(
    client: &'a Client,
    resource: &'a ApiResource,
    key: &'a ObjectKey,
) -> BoxFuture<'a, client::Result<Value>> {
    Box::pin(async move { document(client, &format!("{}/scale", resource.object_path(key))).await })
}

fn replicas(value: &Value) -> i32 {
    value.as_i64().and_then(|count| i32::try_from(count).ok()).unwrap_or(0)
}

async fn answer(
    client: &Client,
    request: Request<'_>,
    described: &BTreeMap<usize, ApiResource>,
    cluster: &str,
) -> Result<Answer, String> {
    let scale = scale(client, request.resource, request.key).await.map_err(|error| error.to_string())?;
    let mut answer = Answer {
        desired: replicas(&scale["spec"]["replicas"]),
        observed: replicas(&scale["status"]["replicas"]),
        selector: scale["status"]["selector"].as_str().unwrap_or_default().to_owned(),
        ..Answer::default()
    };
    if answer.selector.is_empty() {
        return Ok(answer);
    }
    let namespace = request.key.namespace().unwrap_or_default();
    let usage = async {
        match request.spec.needs_usage() {
            true => Some(usage(client, namespace, &answer.selector).await),
            false => None,
        }
    };
    let series = join_all(request.spec.metrics.iter().enumerate().map(|(index, metric)| {
        let resource = described.get(&index);
        let place = Place { client, cluster, namespace, selector: &answer.selector };
        async move { (index, series(place, &metric.source, resource).await) }
    }));
    let (pods, usage, series) = join3(pods(client, namespace, &answer.selector), usage, series).await;
    answer.pods = pods?;
    answer.usage = usage;
    answer.series = series.into_iter().filter_map(|(index, series)| Some((index, series?))).collect();
    Ok(answer)
}

async fn pods(client: &Client, namespace: &str, selector: &str) -> Result<Vec<Pod>, String> {
    let list = client.document(&paths::of_pods(namespace, selector), served::JSON).await;
    let list = list.map_err(|error| error.to_string())?;
    let list: List<Pod> = serde_json::from_slice(&list).map_err(|error| format!("pods cannot be read: {error}"))?;
    match list.kind.as_str() {
        "PodList" => Ok(list.items.unwrap_or_default()),
        kind => Err(format!("pods cannot be read: their kind is {kind:?}")),
    }
}

async fn usage(client: &Client, namespace: &str, selector: &str) -> Result<Vec<Usage>, String> {
    let list = served::resource_list(client, "pods", namespace, selector).await.map_err(|error| error.to_string())?;
    let list: List<Usage> =
        serde_json::from_slice(&list).map_err(|error| format!("pod metrics cannot be read: {error}"))?;
    match list.kind.as_str() {
        "PodMetricsList" => Ok(list.items.unwrap_or_default()),
        kind => Err(format!("pod metrics cannot be read: their kind is {kind:?}")),
    }
}

/// Where a metric is read.
#[derive(Clone, Copy)]
struct Place<'a> {
    client: &'a Client,
    cluster: &'a str,
    namespace: &'a str,
    /// Selects the workload's pods.
    selector: &'a str,
}

/// The values of a custom or external metric; `None` for other metrics.
async fn series(place: Place<'_>, source: &Source, described: Option<&ApiResource>) -> Option<Result<Series, String>> {
    match source {
        Source::Pods(metric) => {
            let pods = ApiResource::namespaced("", "v1", "Pod", "pods");
            let values = values(place, metric, (&pods, "*"), place.selector).await;
            Some(values.map(|list| Series::Pods(list.as_ref().map(described_values).unwrap_or_default())))
        }
        Source::Object(object, metric) => {
            let Some(resource) = described else {
                return Some(Err(format!("the kind {} of {} is not served", object.kind, object.api_version)));
            };
            let values = values(place, metric, (resource, &object.name), "").await;
            Some(values.map(|list| Series::Total(list.as_ref().and_then(sum_of_values))))
        }
        Source::External(metric) => Some(external(place, metric).await),
        Source::Resource { .. } | Source::ContainerResource { .. } | Source::Unknown(_) => None,
    }
}

/// A member that does not serve custom metrics, or is not selected, has no values.
async fn values(
    place: Place<'_>,
    metric: &Identifier,
    (resource, name): (&ApiResource, &str),
    labels: &str,
) -> Result<Option<Value>, String> {
    let series = paths::series(metric)?;
    if !series.selects(place.cluster) {
        return Ok(None);
    }
    let described = paths::described(resource, place.namespace, name, &metric.name);
    match served::custom(place.client, &described, labels, series.rest.as_deref()).await {
        Ok(list) => Ok(list),
        Err(Failure::NotServed(_)) => Ok(None),
        Err(Failure::Failed(why)) => Err(why),
    }
}

/// The sum of the series of a member; `None` as for [`values`].
async fn external(place: Place<'_>, metric: &Identifier) -> Result<Series, String> {
    let series = paths::series(metric)?;
    if !series.selects(place.cluster) {
        return Ok(Series::Total(None));
    }
    match served::external(place.client, place.namespace, &metric.name, series.rest.as_deref()).await {
        Ok(list) => Ok(Series::Total(list.as_ref().and_then(sum_of_values))),
        Err(Failure::NotServed(_)) => Ok(Series::Total(None)),
        Err(Failure::Failed(why)) => Err(why),
    }
}
