//! Reads of the metrics APIs of one member.

use std::fmt;

use bytes::Bytes;
use client::Client;
use fleet_metrics::custom::Described;
use fleet_metrics::groups::{CUSTOM, EXTERNAL, RESOURCE};
use serde_json::Value;

use crate::paths;

pub(crate) const JSON: &str = "application/json";

/// Why a member has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It does not serve the API group.
    NotServed(&'static str),
    /// It cannot be reached, refuses the request, or does not answer as the API requires.
    Failed(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed(group) => write!(f, "{group} is not served"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// Whether a 404 concerns the API, not an object or a metric of it.
fn is_unserved(error: &client::Error) -> bool {
    let of_api = |message: &str| {
        message.contains("could not find the requested resource") || message.contains("404 page not found")
    };
    error.is_not_found() && error.status().is_some_and(|status| of_api(&status.message))
}

fn failure(group: &'static str, error: &client::Error) -> Failure {
    if is_unserved(error) { Failure::NotServed(group) } else { Failure::Failed(error.to_string()) }
}

/// A list of `metrics.k8s.io`, encoded. An empty namespace is all of them.
///
/// # Errors
/// See [`Failure`].
pub async fn resource_list(client: &Client, plural: &str, namespace: &str, selector: &str) -> Result<Bytes, Failure> {
    let path = paths::of_resource(plural, namespace, "", selector);
    match client.document(&path, JSON).await {
        Ok(list) => Ok(list),
        // A list has no other 404.
        Err(error) if error.is_not_found() => Err(Failure::NotServed(RESOURCE)),
        Err(error) => Err(failure(RESOURCE, &error)),
    }
}

/// An object of `metrics.k8s.io`; `None` if the member does not have it.
///
/// # Errors
/// See [`Failure`].
pub async fn resource_object(
    client: &Client,
    plural: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Bytes>, Failure> {
    match client.document(&paths::of_resource(plural, namespace, name, ""), JSON).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() && !is_unserved(&error) => Ok(None),
        Err(error) => Err(failure(RESOURCE, &error)),
    }
}

/// The values of a custom metric, in the first version that the member serves; `None` if it does not have the metric.
/// `labels` select objects, `series` series of the metric.
///
/// # Errors
/// See [`Failure`].
pub async fn custom(
    client: &Client,
    described: &Described,
    labels: &str,
    series: Option<&str>,
) -> Result<Option<Value>, Failure> {
    let mut is_served = false;
    for version in paths::VERSIONS {
        match client.document(&paths::of_custom(version, described, labels, series), JSON).await {
            Ok(list) => return decoded(&list, "MetricValueList").map(Some),
            Err(error) if is_unserved(&error) => {}
            Err(error) if error.is_not_found() => is_served = true,
            Err(error) => return Err(failure(CUSTOM, &error)),
        }
    }
    if is_served { Ok(None) } else { Err(Failure::NotServed(CUSTOM)) }
}

/// The values of an external metric; `None` if the member does not have it.
///
/// # Errors
/// See [`Failure`].
pub async fn external(
    client: &Client,
    namespace: &str,
    metric: &str,
    series: Option<&str>,
) -> Result<Option<Value>, Failure> {
    match client.document(&paths::of_external(namespace, metric, series), JSON).await {
        Ok(list) => decoded(&list, "ExternalMetricValueList").map(Some),
        Err(error) if error.is_not_found() && !is_unserved(&error) => Ok(None),
        Err(error) => Err(failure(EXTERNAL, &error)),
    }
}

/// The metrics that a member lists in discovery, in the first of these versions that it serves.
///
/// # Errors
/// See [`Failure`].
pub async fn listed(client: &Client, group: &'static str) -> Result<Value, Failure> {
    for version in paths::VERSIONS {
        match client.document(&format!("/apis/{group}/{version}"), JSON).await {
            Ok(list) => return decoded(&list, "APIResourceList"),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(failure(group, &error)),
        }
    }
    Err(Failure::NotServed(group))
}

fn decoded(document: &[u8], kind: &str) -> Result<Value, Failure> {
    let value: Value = serde_json::from_slice(document)
        .map_err(|error| Failure::Failed(format!("its answer cannot be read: {error}")))?;
    match value["kind"] == *kind {
        true => Ok(value),
        false => Err(Failure::Failed(format!("it returned the kind {} instead of {kind}", value["kind"]))),
    }
}
