//! `custom.metrics.k8s.io`: requests, and the values of members, added up by the objects that they describe.
//!
//! Members may serve either version of the API; the response has the requested one.

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity;
use apimachinery::{Status, StatusReason};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::groups::{CLUSTER, CUSTOM};
use crate::narrowed::Narrowed;

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `metricName` and `window` in addition to the value.
    V1beta1,
    /// `metric` with a name and a selector, and `windowSeconds`.
    V1beta2,
}

impl Version {
    /// By its name.
    pub fn of(version: &str) -> Option<Self> {
        match version {
            "v1beta1" => Some(Self::V1beta1),
            "v1beta2" => Some(Self::V1beta2),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::V1beta1 => "v1beta1",
            Self::V1beta2 => "v1beta2",
        }
    }
}

/// The objects that a metric describes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Empty for cluster-scoped resources.
    pub namespace: String,
    /// Plural and group: `ingresses.networking.k8s.io`.
    pub resource: String,
    /// `*` for all objects of a selector.
    pub name: String,
    /// The metric.
    pub metric: String,
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomRequest {
    /// The version of the response.
    pub version: Version,
    /// The objects and the metric.
    pub described: Described,
    /// Selects objects, where the name is `*`.
    pub labels: String,
    /// Selects series of the metric, and members.
    pub series: Narrowed,
}

impl Described {
    /// From the parts of a path below the group version, as Kubernetes parses them: namespace, resource, name,
    /// subresource. `None` for a path that names no metric.
    pub fn of_path(namespace: &str, resource: &str, name: &str, metric: &str) -> Option<Self> {
        let own = |namespace: &str, resource: &str, name: &str, metric: &str| Self {
            namespace: namespace.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            metric: metric.to_owned(),
        };
        match (namespace, resource, name, metric) {
            (_, "", ..) | (_, _, "", _) => None,
            // `namespaces/NAMESPACE/metrics/METRIC` describes the namespace.
            ("", "metrics", _, "") => None,
            (namespace, "metrics", metric, "") => Some(own("", "namespaces", namespace, metric)),
            (_, _, _, "") => None,
            _ => Some(own(namespace, resource, name, metric)),
        }
    }

    fn absent(&self) -> Status {
        let message = format!("the server could not find the metric {} for {}", self.metric, self.resource);
        Status::failure(StatusReason::NotFound, message)
    }

    fn is_all(&self) -> bool {
        self.name == "*"
    }
}

/// A value of a member, or the sum of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    described: Map<String, Value>,
    metric: String,
    selector: Option<Value>,
    timestamp: Value,
    window: Option<i64>,
    value: Quantity,
    clusters: Vec<String>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    items: Option<Vec<Raw>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    described_object: Map<String, Value>,
    #[serde(default)]
    metric_name: String,
    #[serde(default)]
    metric: Option<Identifier>,
    #[serde(default)]
    selector: Option<Value>,
    #[serde(default)]
    timestamp: Value,
    #[serde(default)]
    window: Option<i64>,
    #[serde(default)]
    window_seconds: Option<i64>,
    value: Quantity,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Identifier {
    name: String,
    selector: Option<Value>,
}

fn text<'v>(map: &'v Map<String, Value>, field: &str) -> &'v str {
    map.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The values of a member's list that were requested.
///
/// # Errors
/// In words: the document is not a list of values.
pub fn entries(requested: &Described, cluster: &str, list: Value) -> Result<Vec<Entry>, String> {
    let list: List = serde_json::from_value(list).map_err(|error| format!("its values cannot be read: {error}"))?;
    if list.kind != "MetricValueList" {
        return Err(format!("it returned the kind {:?} instead of MetricValueList", list.kind));
    }
    let is_requested = |raw: &Raw| {
        let (name, namespace) = (text(&raw.described_object, "name"), text(&raw.described_object, "namespace"));
        (requested.is_all() || name.is_empty() || name == requested.name)
            && (requested.namespace.is_empty() || namespace.is_empty() || namespace == requested.namespace)
    };
    let entry = |raw: Raw| {
        let (name, selector) = raw.metric.map(|it| (it.name, it.selector)).unwrap_or_default();
        Entry {
            metric: if name.is_empty() { raw.metric_name } else { name },
            selector: selector.or(raw.selector).filter(|it| !it.is_null()),
            described: raw.described_object,
            timestamp: raw.timestamp,
            window: raw.window_seconds.or(raw.window),
            value: raw.value,
            clusters: vec![cluster.to_owned()],
        }
    };
    Ok(list.items.unwrap_or_default().into_iter().filter(is_requested).map(entry).collect())
}

impl Entry {
    /// Everything but the value is that of the first.
    fn add(&mut self, other: Self) {
        self.value = self.value + other.value;
        for cluster in other.clusters {
            if self.clusters.last() != Some(&cluster) {
                self.clusters.push(cluster);
            }
        }
    }

    /// The selector of the series with the clusters, so that it selects these very values.
    fn full_selector(&self) -> Value {
        let mut selector = self.selector.clone().filter(Value::is_object).unwrap_or_else(|| json!({}));
        match self.clusters.as_slice() {
            [one] => {
                if !selector["matchLabels"].is_object() {
                    selector["matchLabels"] = json!({});
                }
                selector["matchLabels"][CLUSTER] = json!(one);
            }
            several => {
                let expression = json!({"key": CLUSTER, "operator": "In", "values": several});
                match &mut selector["matchExpressions"] {
                    Value::Array(expressions) => expressions.push(expression),
                    other => *other = json!([expression]),
                }
            }
        }
        selector
    }

    fn to_value(&self, version: Version) -> Value {
        let mut value = json!({"describedObject": self.described, "timestamp": self.timestamp, "value": self.value});
        let selector = self.full_selector();
        match version {
            Version::V1beta1 => {
                value["metricName"] = json!(self.metric);
                value["selector"] = selector;
                if let Some(window) = self.window {
                    value["window"] = json!(window);
                }
            }
            Version::V1beta2 => {
                value["metric"] = json!({"name": self.metric, "selector": selector});
                if let Some(window) = self.window {
                    value["windowSeconds"] = json!(window);
                }
            }
        }
        value
    }
}

/// The response: the values of all members, which are in the order of their names, added up by object.
///
/// # Errors
/// NotFound when no member has a value.
pub fn merged(requested: &CustomRequest, parts: Vec<Vec<Entry>>) -> Result<Value, Status> {
    let mut sums: BTreeMap<(String, String), Entry> = BTreeMap::new();
    for entry in parts.into_iter().flatten() {
        let key = match requested.described.is_all() {
            true => (text(&entry.described, "namespace").to_owned(), text(&entry.described, "name").to_owned()),
            false => Default::default(),
        };
        match sums.get_mut(&key) {
            Some(sum) => sum.add(entry),
            None => {
                sums.insert(key, entry);
            }
        }
    }
    if sums.is_empty() {
        return Err(requested.described.absent());
    }
    let items: Vec<Value> = sums.values().map(|it| it.to_value(requested.version)).collect();
    let api_version = format!("{CUSTOM}/{}", requested.version.name());
    Ok(json!({"kind": "MetricValueList", "apiVersion": api_version, "metadata": {}, "items": items}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (parts, expected) in [
            (("shop", "pods", "*", "http_requests"), Some("shop pods * http_requests")),
            (("shop", "ingresses.networking.k8s.io", "web", "hits"), Some("shop ingresses.networking.k8s.io web hits")),
            (("shop", "metrics", "hits", ""), Some(" namespaces shop hits")),
            (("", "nodes", "n1", "load"), Some(" nodes n1 load")),
            (("", "metrics", "hits", ""), None),
            (("shop", "pods", "web", ""), None),
            (("shop", "pods", "", ""), None),
            (("", "", "", ""), None),
        ] {
            let (namespace, resource, name, metric) = parts;
            let found = Described::of_path(namespace, resource, name, metric);
            let shown = found.map(|it| format!("{} {} {} {}", it.namespace, it.resource, it.name, it.metric));
            assert_eq!(shown.as_deref(), expected, "{parts:?}");
        }
    }

    fn requested(name: &str, version: Version) -> CustomRequest {
        let described = Described::of_path("shop", "pods", name, "hits").expect("a metric");
        CustomRequest { version, described, labels: String::new(), series: Narrowed::default() }
    }

    fn v1beta2(pods: &[(&str, &str)]) -> Value {
        let item = |(name, value): &(&str, &str)| {
            json!({"describedObject": {"kind": "Pod", "namespace": "shop", "name": name, "apiVersion": "/v1"},
                "metric": {"name": "hits", "selector": null}, "timestamp": "2026-11-23T00:00:00Z", "windowSeconds": 60, "value": value})
        };
        let items: Vec<Value> = pods.iter().map(item).collect();
        json!({"kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2", "items": items})
    }

    fn parts(requested: &CustomRequest, lists: Vec<(&str, Value)>) -> Vec<Vec<Entry>> {
        let parts = lists.into_iter().map(|(cluster, list)| entries(&requested.described, cluster, list));
        parts.collect::<Result<_, _>>().expect("lists")
    }

    #[test]
    fn values_of_a_selector_are_added_by_object() {
        let requested = requested("*", Version::V1beta2);
        let lists = vec![("m1", v1beta2(&[("b", "700m"), ("a", "1")])), ("m2", v1beta2(&[("a", "250m")]))];
        let merged = merged(&requested, parts(&requested, lists)).expect("values");
        let shown: Vec<String> = merged["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|it| format!("{} {} {}", it["describedObject"]["name"], it["value"], it["metric"]["selector"]))
            .collect();
        assert_eq!(
            shown,
            [
                r#""a" "1250m" {"matchExpressions":[{"key":"resource.karmada.io/query-from-cluster","operator":"In","values":["m1","m2"]}]}"#,
                r#""b" "700m" {"matchLabels":{"resource.karmada.io/query-from-cluster":"m1"}}"#,
            ]
        );
        assert_eq!(merged["items"][0]["windowSeconds"], 60);
    }

    #[test]
    fn values_of_a_name_are_one_value() {
        let v1beta1 = json!({"kind": "MetricValueList", "items": [
            {"describedObject": {"kind": "Pod", "namespace": "shop", "name": "a"}, "metricName": "hits", "window": 30,
                "timestamp": "2026-11-23T00:00:00Z", "value": "2", "selector": {"matchLabels": {"verb": "GET"}}},
            {"describedObject": {"kind": "Pod", "namespace": "other", "name": "a"}, "metricName": "hits", "value": "9"},
            {"describedObject": {"kind": "Pod", "namespace": "shop", "name": "x"}, "metricName": "hits", "value": "9"}]});
        let requested = requested("a", Version::V1beta1);
        let merged = merged(&requested, parts(&requested, vec![("m1", v1beta1), ("m2", v1beta2(&[("a", "3")]))]));
        let merged = merged.expect("a value");
        assert_eq!(merged["apiVersion"], "custom.metrics.k8s.io/v1beta1");
        let item = &merged["items"][0];
        assert_eq!((&item["value"], &item["window"], &item["metricName"]), (&json!("5"), &json!(30), &json!("hits")));
        assert_eq!(item["selector"]["matchLabels"]["verb"], "GET");
        assert_eq!(merged["items"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn missing_values_are_not_found() {
        let requested = requested("*", Version::V1beta2);
        let none = merged(&requested, parts(&requested, vec![("m1", v1beta2(&[]))])).expect_err("none");
        assert_eq!((none.code, none.message.as_str()), (404, "the server could not find the metric hits for pods"));
        for (document, expected) in [
            (json!({"kind": "Status"}), "it returned the kind \"Status\" instead of MetricValueList"),
            (json!({"kind": "MetricValueList", "items": [{"describedObject": {}, "value": "x"}]}), "cannot be read"),
            (json!(3), "cannot be read"),
        ] {
            let error = entries(&requested.described, "m", document).expect_err("no list");
            assert!(error.contains(expected), "{error}");
        }
    }
}
