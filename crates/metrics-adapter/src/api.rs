//! The route: metrics of pods and nodes, of objects, and from outside, over all members.

use std::sync::Arc;

use apimachinery::{Status, StatusReason};
use apiserver::{RequestInfo, Route, Shared, method_not_allowed, respond, warnings};
use client::Client;
use fleet_metrics::custom::{self, Described, Version};
use fleet_metrics::discovery;
use fleet_metrics::groups::{self, CUSTOM, EXTERNAL, GroupVersion, RESOURCE};
use fleet_metrics::missing::{self, Missing};
use fleet_metrics::narrowed::Narrowed;
use fleet_metrics::resource::{self, Resource};
use fleet_metrics::{external, openapi, table};
use futures::future::BoxFuture;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use readings::served;
use serde_json::Value;
use transport::{Identity, Request, Response};

use crate::fleet::{Fleet, Target};
use crate::listing::{Listing, Names};
use crate::reads::{Answers, Limits, read};

/// Serves the group versions of [`groups::ALL`].
pub struct MetricsApi {
    fleet: Arc<dyn Fleet>,
    limits: Limits,
    custom: Listing,
    external: Listing,
}

impl MetricsApi {
    /// Over these members.
    pub fn new(fleet: Arc<dyn Fleet>) -> Self {
        Self { fleet, limits: Limits::default(), custom: Listing::default(), external: Listing::default() }
    }

    async fn resource(&self, info: &RequestInfo, headers: &HeaderMap) -> Result<Response, Status> {
        let resource = Resource::of(&info.resource).filter(|_| info.subresource.is_empty()).ok_or_else(no_such)?;
        if !matches!(info.verb, "get" | "list") {
            return Err(method_not_allowed());
        }
        let labels = info.query.get("labelSelector").unwrap_or_default();
        let fields = info.query.get("fieldSelector").unwrap_or_default();
        let requested = resource::ResourceRequest::parse(resource, (&info.namespace, &info.name), labels, fields)?;
        let form = form(headers)?;
        let mut targets = self.fleet.clusters()?;
        targets.retain(|target| target.excluded.is_some() || self.fleet.may_have(&target.name, &requested));
        match requested.name.is_empty() {
            true => self.list(&requested, &targets, form).await,
            false => self.object(&requested, &targets, form).await,
        }
    }

    async fn list(
        &self,
        requested: &resource::ResourceRequest,
        targets: &[Target],
        form: Form,
    ) -> Result<Response, Status> {
        let labels = requested.labels.to_string();
        let (plural, namespace) = (requested.resource.plural(), requested.namespace.as_str());
        let request = |client: Client, cluster| {
            let labels = &labels;
            async move {
                let list = served::resource_list(&client, plural, namespace, labels).await?;
                Ok(resource::items(requested, cluster, &list)?)
            }
        };
        let answers = read(&*self.fleet, &self.limits.requests, targets, request).await.strict();
        if answers.is_unknown() {
            return Err(missing::nothing(&answers.missing));
        }
        let items = resource::sorted(answers.found.into_iter().flat_map(|(_, items)| items).collect());
        let response = match form {
            Form::Whole => json(resource::list(requested.resource, &items)),
            Form::Table => {
                let objects: Result<Vec<Value>, _> = items.iter().map(|it| serde_json::from_slice(&it.json)).collect();
                respond::value(StatusCode::OK, &table::table(&objects.map_err(Status::internal)?))
            }
        };
        Ok(warned(response, &answers.missing))
    }

    async fn object(
        &self,
        requested: &resource::ResourceRequest,
        targets: &[Target],
        form: Form,
    ) -> Result<Response, Status> {
        let (plural, namespace, name) =
            (requested.resource.plural(), requested.namespace.as_str(), requested.name.as_str());
        let request = |client: Client, cluster| async move {
            match served::resource_object(&client, plural, namespace, name).await? {
                Some(object) => Ok(Some(resource::object(requested, cluster, &object)?)),
                None => Ok(None),
            }
        };
        let answers = read(&*self.fleet, &self.limits.requests, targets, request).await.strict();
        let found = answers.found.into_iter().filter_map(|(_, object)| object).collect();
        let object = resource::single(requested, found).map_err(|error| unknown(error, &answers.missing))?;
        let object = match form {
            Form::Whole => object,
            Form::Table => table::table(&[object]),
        };
        Ok(warned(respond::value(StatusCode::OK, &object), &answers.missing))
    }

    async fn custom(&self, info: &RequestInfo, version: Version) -> Result<Response, Status> {
        let described = Described::of_path(&info.namespace, &info.resource, &info.name, &info.subresource);
        let described = described.filter(|_| info.subpath.is_empty()).ok_or_else(no_such)?;
        if info.verb != "get" {
            return Err(method_not_allowed());
        }
        let labels = selector(info, "labelSelector")?;
        let series = narrowed(info, "metricLabelSelector")?;
        let requested = custom::CustomRequest { version, described, labels, series };
        let targets = self.selected(&requested.series)?;
        let request = |client: Client, cluster| {
            let custom::CustomRequest { described, labels, series, .. } = &requested;
            async move {
                match served::custom(&client, described, labels, series.rest.as_deref()).await? {
                    Some(list) => Ok(custom::entries(described, cluster, list)?),
                    None => Ok(Vec::new()),
                }
            }
        };
        let answers = read(&*self.fleet, &self.limits.requests, &targets, request).await;
        let parts = answers.found.into_iter().map(|(_, entries)| entries).collect();
        let list = custom::merged(&requested, parts).map_err(|error| unknown(error, &answers.missing))?;
        Ok(warned(respond::value(StatusCode::OK, &list), &answers.missing))
    }

    async fn external(&self, info: &RequestInfo) -> Result<Response, Status> {
        if info.namespace.is_empty() || info.resource.is_empty() || !info.name.is_empty() {
            return Err(no_such());
        }
        if info.verb != "list" {
            return Err(method_not_allowed());
        }
        let series = narrowed(info, "labelSelector")?;
        let requested =
            external::ExternalRequest { namespace: info.namespace.clone(), metric: info.resource.clone(), series };
        let targets = self.selected(&requested.series)?;
        let request = |client: Client, cluster| {
            let external::ExternalRequest { namespace, metric, series } = &requested;
            let requested = &requested;
            async move {
                match served::external(&client, namespace, metric, series.rest.as_deref()).await? {
                    Some(list) => Ok(external::series(requested, cluster, list)?),
                    None => Ok(Vec::new()),
                }
            }
        };
        let answers = read(&*self.fleet, &self.limits.requests, &targets, request).await;
        if answers.is_unknown() {
            return Err(missing::nothing(&answers.missing));
        }
        if answers.found.is_empty() {
            let message = format!(
                "the server could not find the metric {}: no member cluster serves {EXTERNAL}",
                requested.metric
            );
            return Err(Status::failure(StatusReason::NotFound, message));
        }
        let list = external::merged(answers.found.into_iter().map(|(_, series)| series).collect());
        Ok(warned(respond::value(StatusCode::OK, &list), &answers.missing))
    }

    /// The clusters that a selector of metrics selects.
    fn selected(&self, series: &Narrowed) -> Result<Vec<Target>, Status> {
        let mut targets = self.fleet.clusters()?;
        targets.retain(|target| series.selects(&target.name));
        Ok(targets)
    }

    /// The metrics of `custom.metrics.k8s.io` or `external.metrics.k8s.io` that members list, read now. Those that are
    /// known not to serve the group are not read. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The clusters are not known yet.
    pub async fn listed(&self, group: &'static str, now: i64) -> Result<Names, Status> {
        let (reading, without): (Vec<_>, Vec<_>) = self
            .fleet
            .clusters()?
            .into_iter()
            .partition(|it| it.excluded.is_some() || self.fleet.may_serve(&it.name, group));
        let request = |client: Client, _| async move {
            let list = served::listed(&client, group).await?;
            Ok(discovery::listed(&list)?)
        };
        let Answers { found, missing, unserved } = read(&*self.fleet, &self.limits.discovery, &reading, request).await;
        let found = found.into_iter().map(|(cluster, names)| (cluster, Some(names)));
        let without = without.into_iter().map(|it| it.name).chain(unserved.into_iter().map(|it| it.cluster));
        let none = without.map(|cluster| (cluster, Some(Default::default())));
        let unknown = missing.into_iter().map(|it| (it.cluster, None));
        Ok(self.listing(group).read(now, found.chain(none).chain(unknown).collect()))
    }

    fn listing(&self, group: &str) -> &Listing {
        if group == EXTERNAL { &self.external } else { &self.custom }
    }

    /// The list of resources, or the OpenAPI document.
    async fn document(&self, version: GroupVersion, info: &RequestInfo, now: i64) -> Result<Response, Status> {
        let document = match info.path.starts_with("/openapi/") {
            true => openapi::document(&[version], openapi::Form::V3),
            false if version.group == RESOURCE => discovery::resource_list(version, &Default::default()),
            false => {
                let names = match self.listing(version.group).current(now) {
                    Some(names) => names,
                    None => self.listed(version.group, now).await?,
                };
                discovery::resource_list(version, &names.listed)
            }
        };
        Ok(respond::value(StatusCode::OK, &document))
    }
}

/// The representation that the client accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Whole,
    Table,
}

/// The first known form in the order of the `Accept` header.
fn form(headers: &HeaderMap) -> Result<Form, Status> {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = accepted.flat_map(|value| value.split(',')).map(str::trim).filter(|it| !it.is_empty()).peekable();
    if ranges.peek().is_none() {
        return Ok(Form::Whole);
    }
    let of = |range: &str| {
        let type_ = range.split(';').next().unwrap_or_default().trim();
        let is_json = matches!(type_, "application/json" | "application/*" | "*/*");
        match range.split(';').find_map(|part| part.trim().strip_prefix("as=")) {
            Some("Table") if is_json => Some(Form::Table),
            None if is_json => Some(Form::Whole),
            _ => None,
        }
    };
    ranges.find_map(of).ok_or_else(|| {
        Status::failure(StatusReason::NotAcceptable, "only the following media types are accepted: application/json")
    })
}

fn no_such() -> Status {
    Status::failure(StatusReason::NotFound, "the server could not find the requested resource")
}

/// An error that a complete answer might have prevented.
fn unknown(error: Status, missing: &[Missing]) -> Status {
    if error.is(StatusReason::NotFound) { missing::absent_or_unknown(error, missing) } else { error }
}

fn selector(info: &RequestInfo, parameter: &str) -> Result<String, Status> {
    let text = info.query.get(parameter).unwrap_or_default();
    let parsed = apimachinery::selector::Selector::parse(text);
    parsed.map(|it| it.to_string()).map_err(|error| Status::bad_request(error.to_string()))
}

fn narrowed(info: &RequestInfo, parameter: &str) -> Result<Narrowed, Status> {
    let text = info.query.get(parameter).unwrap_or_default();
    Narrowed::parse(text).map_err(|error| Status::bad_request(error.to_string()))
}

fn warned(mut response: Response, missing: &[Missing]) -> Response {
    warnings::warn(&mut response, &missing::warnings(missing));
    response
}

/// An encoded document.
fn json(document: Vec<u8>) -> Response {
    let mut response = Response::new(transport::full(document));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

impl Route for MetricsApi {
    fn takes(&self, info: &RequestInfo) -> bool {
        if info.is_resource {
            return groups::find(&info.group, &info.version).is_some();
        }
        groups::of_path(&info.path).is_some()
    }

    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        _user: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        Box::pin(async move {
            if request.method() != Method::GET {
                return Err(method_not_allowed());
            }
            let version = groups::of_path(&info.path).ok_or_else(no_such)?;
            if !info.is_resource {
                return self.document(version, info, server.world.now().as_second()).await;
            }
            match (version.group, Version::of(version.version)) {
                (RESOURCE, _) => self.resource(info, request.headers()).await,
                (CUSTOM, Some(version)) => self.custom(info, version).await,
                _ => self.external(info).await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (accept, expected) in [
            (None, Some(Form::Whole)),
            (Some("application/vnd.kubernetes.protobuf, */*"), Some(Form::Whole)),
            (Some("application/vnd.kubernetes.protobuf,application/json"), Some(Form::Whole)),
            (
                Some(
                    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                ),
                Some(Form::Table),
            ),
            (
                Some("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"),
                Some(Form::Whole),
            ),
            (Some("application/vnd.kubernetes.protobuf"), None),
        ] {
            let headers: HeaderMap = accept.map(|it| (ACCEPT, HeaderValue::from_static(it))).into_iter().collect();
            assert!(form(&headers).ok() == expected, "{accept:?}");
        }
    }
}
