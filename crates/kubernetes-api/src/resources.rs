//! The table of built-in resources: `data/resources.tsv` joined with the types and strategies.

use std::sync::Arc;

use apimachinery::resource::{Resource, ResourceInfo, Subresource};
use apimachinery::{ApiResource, GroupVersion, GroupVersionKind};
use serde_json::Value;

use crate::strategy::BuiltIn;
use crate::types::schema_for;

const RESOURCES: &str = include_str!("../data/resources.tsv");

/// Every built-in resource of Kubernetes 1.36 that a control plane or a simulated member serves. `componentstatuses` is
/// empty, since no component runs as a separate process. Kinds that are only reviewed (`subjectaccessreviews`, ...)
/// have `create` as their only verb.
pub fn resources() -> Vec<Resource> {
    RESOURCES.lines().skip(1).filter_map(resource).collect()
}

fn resource(line: &str) -> Option<Resource> {
    let [gv, plural, kind, scope, singular, short, categories, verbs, subresources] =
        <[&str; 9]>::try_from(line.split('\t').collect::<Vec<_>>()).ok()?;
    let gv: GroupVersion = gv.parse().ok()?;
    let schema = schema_for(&gv.with_kind(kind))?;
    let info = ResourceInfo {
        resource: ApiResource {
            group: gv.group.clone(),
            version: gv.version.clone(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced: scope == "Namespaced",
        },
        singular: singular.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: words(short),
        categories: words(categories),
        verbs: words(verbs),
        subresources: subresources.split(';').filter_map(|text| subresource(&gv, text)).collect(),
        selectable_fields: selectable_fields(&gv.group, plural).iter().map(|&path| path.to_owned()).collect(),
        custom: false,
        schema,
    };
    let strategy = Arc::new(BuiltIn::new(&info));
    Some(Resource { info: Arc::new(info), strategy })
}

/// The `Scale` subresource of objects with replicas: not a resource itself, but decoded, validated and displayed like
/// one.
pub fn scale(namespaced: bool) -> Option<Resource> {
    let kind = "Scale";
    let gv: GroupVersion = "autoscaling/v1".parse().ok()?;
    let info = ResourceInfo {
        resource: ApiResource {
            group: gv.group.clone(),
            version: gv.version.clone(),
            kind: kind.to_owned(),
            plural: "scales".to_owned(),
            namespaced,
        },
        singular: "scale".to_owned(),
        list_kind: format!("{kind}List"),
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: Vec::new(),
        subresources: Vec::new(),
        selectable_fields: Vec::new(),
        custom: false,
        schema: schema_for(&gv.with_kind(kind))?,
    };
    let strategy = Arc::new(BuiltIn::new(&info));
    Some(Resource { info: Arc::new(info), strategy })
}

fn words(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// From `name(Kind:verb,verb)`.
fn subresource(gv: &GroupVersion, text: &str) -> Option<Subresource> {
    let (name, rest) = text.split_once('(')?;
    let (kind, verbs) = rest.strip_suffix(')')?.split_once(':')?;
    Some(match name {
        "status" => Subresource::Status,
        "scale" => Subresource::Scale {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            // A path to a text only: built-in kinds hold an object here, which the Scale endpoint prints.
            label_selector: Some(".spec.selector".to_owned()),
        },
        _ => Subresource::Other { name: name.to_owned(), kind: subresource_kind(gv, kind), verbs: words(verbs) },
    })
}

/// Subresources whose kind belongs to another group.
fn subresource_kind(gv: &GroupVersion, kind: &str) -> GroupVersionKind {
    match kind {
        "TokenRequest" => GroupVersionKind::new("authentication.k8s.io", "v1", kind),
        "Eviction" => GroupVersionKind::new("policy", "v1", kind),
        _ => gv.with_kind(kind),
    }
}

/// The fields a field selector may name besides `metadata.name` and `metadata.namespace`.
fn selectable_fields(group: &str, plural: &str) -> &'static [&'static str] {
    match (group, plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec.signerName"],
        ("resource.k8s.io", "resourceslices") => &["spec.nodeName", "spec.driver"],
        _ => &[],
    }
}

/// The value that a field selector compares with: the text of a field of a stored object. Some labels of built-in kinds
/// differ from the fields' names, and their absent numbers and flags have a text too.
pub fn field_text(label: &str, object: &Value, custom: bool) -> String {
    let at = |path: &str| path.split('.').fold(object, |at, part| &at[part]);
    let text = |value: &Value, nothing: &str| match value {
        Value::Null => nothing.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match label {
        label if custom => text(at(label), ""),
        "spec.hostNetwork" | "spec.unschedulable" => text(at(label), "false"),
        "status.replicas" => text(at(label), "0"),
        "status.successful" => text(at("status.succeeded"), "0"),
        "status.podIPs" => String::new(),
        "source" if object["kind"] == "Event" => {
            let component = text(at("source.component"), "");
            if component.is_empty() { text(at("reportingComponent"), "") } else { component }
        }
        "reportingController" => text(at("reportingComponent"), ""),
        label => match label.strip_prefix("regarding.") {
            Some(field) => text(at(&format!("involvedObject.{field}")), ""),
            None => text(at(label), ""),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_with_columns_is_served() {
        let mut resources = resources();
        resources.extend(scale(true));
        for (group, kind) in crate::columns::kinds() {
            let known = resources.iter().any(|resource| {
                let named = &resource.info.resource;
                named.group == *group && named.kind == *kind
            });
            assert!(known, "{group} {kind}");
        }
    }

    #[test]
    fn fields_are_compared_as_upstream_reads_them() {
        let event = json!({"kind": "Event", "involvedObject": {"name": "p"}, "reportingComponent": "c", "source": {}});
        for (label, object, expected) in [
            ("spec.hostNetwork", json!({}), "false"),
            ("spec.hostNetwork", json!({"spec": {"hostNetwork": true}}), "true"),
            ("status.successful", json!({"status": {"succeeded": 3}}), "3"),
            ("status.replicas", json!({}), "0"),
            ("spec.nodeName", json!({}), ""),
            ("spec.nodeName", json!({"spec": {"nodeName": "n"}}), "n"),
            ("source", event.clone(), "c"),
            ("regarding.name", event.clone(), "p"),
            ("reportingController", event, "c"),
        ] {
            assert_eq!(field_text(label, &object, false), expected, "{label} of {object}");
        }
        assert_eq!(field_text("status.replicas", &json!({}), true), "");
    }
}
