//! Paths of the metrics APIs.

use apimachinery::ApiResource;
use apimachinery::meta::LabelSelector;
use apimachinery::selector::Selector;
use apimachinery::url::{Query, segment};
use autoscaling::spec::Identifier;
use fleet_metrics::custom::Described;
use fleet_metrics::narrowed::Narrowed;
use serde_json::Value;

/// The versions of the API, in the order in which they are tried.
pub(crate) const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// Metrics of pods or nodes: of one if it has a name, otherwise of those that a selector matches.
pub(crate) fn of_resource(plural: &str, namespace: &str, name: &str, selector: &str) -> String {
    let mut path = "/apis/metrics.k8s.io/v1beta1".to_owned();
    if !namespace.is_empty() {
        path.push_str(&format!("/namespaces/{}", segment(namespace)));
    }
    path.push_str(&format!("/{plural}"));
    if !name.is_empty() {
        path.push_str(&format!("/{}", segment(name)));
    }
    Query::default().with_some("labelSelector", Some(selector)).after(&path)
}

/// The pods that a selector matches.
pub(crate) fn of_pods(namespace: &str, selector: &str) -> String {
    let query = Query::default().with_some("labelSelector", Some(selector));
    query.after(&format!("/api/v1/namespaces/{}/pods", segment(namespace)))
}

/// The values of a custom metric.
pub(crate) fn of_custom(version: &str, described: &Described, labels: &str, series: Option<&str>) -> String {
    let Described { namespace, resource, name, metric } = described;
    let place = if namespace.is_empty() { String::new() } else { format!("namespaces/{}/", segment(namespace)) };
    let object = match (resource.as_str(), name.as_str()) {
        ("namespaces", name) => format!("namespaces/{}/metrics", segment(name)),
        (_, "*") => format!("{place}{}/*", segment(resource)),
        _ => format!("{place}{}/{}", segment(resource), segment(name)),
    };
    let query = Query::default().with_some("labelSelector", Some(labels)).with_some("metricLabelSelector", series);
    query.after(&format!("/apis/custom.metrics.k8s.io/{version}/{object}/{}", segment(metric)))
}

/// The values of an external metric.
pub(crate) fn of_external(namespace: &str, metric: &str, series: Option<&str>) -> String {
    let query = Query::default().with_some("labelSelector", series);
    let (namespace, metric) = (segment(namespace), segment(metric));
    query.after(&format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}"))
}

/// The objects of a metric that describes a resource, as [`of_custom`] requests them.
pub(crate) fn described(resource: &ApiResource, namespace: &str, name: &str, metric: &str) -> Described {
    Described {
        namespace: if resource.namespaced { namespace.to_owned() } else { String::new() },
        resource: resource.gvr().group_resource(),
        name: name.to_owned(),
        metric: metric.to_owned(),
    }
}

/// The selector of a metric's series.
///
/// # Errors
/// When it is invalid.
pub(crate) fn series(metric: &Identifier) -> Result<Narrowed, String> {
    let Some(selector) = metric.selector.as_ref().filter(|it| !it.is_null()) else { return Ok(Narrowed::default()) };
    let invalid = |error: &dyn std::fmt::Display| format!("the selector of metric {} is invalid: {error}", metric.name);
    let selector: LabelSelector = serde_json::from_value(Value::clone(selector)).map_err(|error| invalid(&error))?;
    let selector = Selector::from_label_selector(&selector).map_err(|error| invalid(&error))?;
    Narrowed::parse(&selector.to_string()).map_err(|error| invalid(&error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn custom(resource: &ApiResource, name: &str, labels: &str, selector: Option<Value>) -> String {
        let metric = Identifier { name: "http_requests".to_owned(), selector };
        let series = series(&metric).expect("a selector");
        let described = described(resource, "default", name, &metric.name);
        of_custom("v1beta2", &described, labels, series.rest.as_deref())
    }

    #[test]
    fn paths_of_custom_metrics() {
        let prefix = "/apis/custom.metrics.k8s.io/v1beta2";
        let pods = ApiResource::namespaced("", "v1", "Pod", "pods");
        assert_eq!(
            custom(&pods, "*", "app=sample-app", None),
            format!("{prefix}/namespaces/default/pods/*/http_requests?labelSelector=app%3Dsample-app")
        );
        let verb = json!({"matchLabels": {"verb": "GET", "resource.karmada.io/query-from-cluster": "m1"}});
        let ingress = ApiResource::namespaced("networking.k8s.io", "v1", "Ingress", "ingresses");
        assert_eq!(
            custom(&ingress, "web", "", Some(verb)),
            format!(
                "{prefix}/namespaces/default/ingresses.networking.k8s.io/web/http_requests?metricLabelSelector=verb%3DGET"
            )
        );
        let namespace = ApiResource::cluster("", "v1", "Namespace", "namespaces");
        assert_eq!(custom(&namespace, "shop", "", None), format!("{prefix}/namespaces/shop/metrics/http_requests"));
        let node = ApiResource::cluster("", "v1", "Node", "nodes");
        assert_eq!(custom(&node, "n/1", "", None), format!("{prefix}/nodes/n%2F1/http_requests"));
        let wrong = json!({"matchExpressions": [{"key": "a", "operator": "Is"}]});
        assert!(series(&Identifier { name: "m".to_owned(), selector: Some(wrong) }).is_err());
    }

    #[test]
    fn paths_of_resource_and_external_metrics() {
        let prefix = "/apis/metrics.k8s.io/v1beta1";
        for (path, expected) in [
            (of_resource("pods", "", "", ""), format!("{prefix}/pods")),
            (
                of_resource("pods", "d", "", "a in (b)"),
                format!("{prefix}/namespaces/d/pods?labelSelector=a%20in%20%28b%29"),
            ),
            (of_resource("nodes", "", "n", ""), format!("{prefix}/nodes/n")),
            (
                of_external("d", "jobs", Some("queue=a")),
                "/apis/external.metrics.k8s.io/v1beta1/namespaces/d/jobs?labelSelector=queue%3Da".to_owned(),
            ),
        ] {
            assert_eq!(path, expected);
        }
    }
}
