//! `metrics.k8s.io`: items of members with the annotation that names their cluster, as lists and as single objects.
//!
//! Items stay encoded: of a list, only the metadata of each item are read, and the annotation is spliced in.

use std::borrow::Cow;

use apimachinery::selector::{FieldSelector, Selector};
use apimachinery::{Status, raw_json};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::groups::{CLUSTER, RESOURCE};

/// The fields that a field selector may name.
const FIELDS: [&str; 2] = ["metadata.name", "metadata.namespace"];

/// A resource of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// `PodMetrics`
    Pods,
    /// `NodeMetrics`
    Nodes,
}

impl Resource {
    /// The resource of a plural name.
    pub fn of(plural: &str) -> Option<Self> {
        match plural {
            "pods" => Some(Self::Pods),
            "nodes" => Some(Self::Nodes),
            _ => None,
        }
    }

    /// The plural.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Nodes => "nodes",
        }
    }

    /// The kind of an object.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Pods => "PodMetrics",
            Self::Nodes => "NodeMetrics",
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceRequest {
    /// The resource.
    pub resource: Resource,
    /// Empty for all namespaces, and for nodes.
    pub namespace: String,
    /// Empty for a list.
    pub name: String,
    /// Sent to the members.
    pub labels: Selector,
    /// Evaluated on the merged items.
    fields: FieldSelector,
}

impl ResourceRequest {
    /// From the parts of a path and its query parameters.
    ///
    /// # Errors
    /// 400 for a malformed selector, and for a field that is not supported.
    pub fn parse(
        resource: Resource,
        (namespace, name): (&str, &str),
        labels: &str,
        fields: &str,
    ) -> Result<Self, Status> {
        let labels = Selector::parse(labels).map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(fields).map_err(|error| Status::bad_request(error.to_string()))?;
        if let Some((field, ..)) = fields.requirements().iter().find(|(field, ..)| !FIELDS.contains(&field.as_str())) {
            let known = FIELDS.map(|field| format!("{field:?}")).join(", ");
            return Err(Status::bad_request(format!("{field:?} is not a known field selector: only {known}")));
        }
        Ok(Self { resource, namespace: namespace.to_owned(), name: name.to_owned(), labels, fields })
    }

    fn selects(&self, namespace: &str, name: &str) -> bool {
        (self.namespace.is_empty() || self.namespace == namespace)
            && self.fields.matches_with(|field| match field {
                "metadata.name" => Some(Cow::Borrowed(name)),
                _ => Some(Cow::Borrowed(namespace)),
            })
    }
}

/// An object of a member, encoded, with the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    namespace: String,
    name: String,
    cluster: String,
    /// The encoded object.
    pub json: Vec<u8>,
}

#[derive(Deserialize)]
struct Document<'j> {
    #[serde(borrow, default)]
    kind: Cow<'j, str>,
    #[serde(borrow, default)]
    items: Option<Vec<&'j RawValue>>,
}

#[derive(Deserialize)]
struct Head<'j> {
    #[serde(borrow)]
    metadata: Metadata<'j>,
}

#[derive(Deserialize)]
struct Metadata<'j> {
    #[serde(borrow)]
    name: Cow<'j, str>,
    #[serde(borrow, default)]
    namespace: Cow<'j, str>,
    /// Whether there are annotations, be they null. A second map of them is an error.
    #[serde(default, rename = "annotations", deserialize_with = "present")]
    has_annotations: bool,
}

fn present<'j, D: serde::Deserializer<'j>>(value: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(value).map(|_| true)
}

/// The items of a member's list.
///
/// # Errors
/// In words: the document is not a list of the resource.
pub fn items(requested: &ResourceRequest, cluster: &str, document: &[u8]) -> Result<Vec<Item>, String> {
    let list: Document<'_> =
        serde_json::from_slice(document).map_err(|error| format!("its list cannot be read: {error}"))?;
    let expected = format!("{}List", requested.resource.kind());
    if list.kind != expected {
        return Err(format!("it returned the kind {:?} instead of {expected}", list.kind));
    }
    let mut found = Vec::new();
    for raw in list.items.unwrap_or_default() {
        let head: Head<'_> =
            serde_json::from_str(raw.get()).map_err(|error| format!("an item of its list cannot be read: {error}"))?;
        let Metadata { name, namespace, has_annotations } = head.metadata;
        if requested.selects(&namespace, &name) {
            let json = marked(raw.get(), has_annotations, cluster).map_err(|error| error.to_string())?;
            let (namespace, name) = (namespace.into_owned(), name.into_owned());
            found.push(Item { namespace, name, cluster: cluster.to_owned(), json });
        }
    }
    Ok(found)
}

/// The object with the annotation.
fn marked(json: &str, has_annotations: bool, cluster: &str) -> Result<Vec<u8>, serde_json::Error> {
    let bytes = json.as_bytes();
    let metadata = raw_json::member(bytes, "metadata").filter(|_| !has_annotations);
    let Some(metadata) = metadata.filter(|span| bytes.get(span.start) == Some(&b'{')) else {
        let mut tree: Value = serde_json::from_str(json)?;
        annotate(&mut tree, cluster);
        return serde_json::to_vec(&tree);
    };
    // The metadata have a name, so that a comma follows.
    let entry = format!("\"annotations\":{{\"{CLUSTER}\":{}}},", json!(cluster));
    let at = metadata.start + 1;
    Ok([&bytes[..at], entry.as_bytes(), &bytes[at..]].concat())
}

fn annotate(tree: &mut Value, cluster: &str) {
    if !tree["metadata"]["annotations"].is_object() {
        tree["metadata"]["annotations"] = json!({});
    }
    tree["metadata"]["annotations"][CLUSTER] = json!(cluster);
}

/// The items in the order of namespaces, names and clusters.
pub fn sorted(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by(|a, b| (&a.namespace, &a.name, &a.cluster).cmp(&(&b.namespace, &b.name, &b.cluster)));
    items
}

/// The list of sorted items, encoded.
pub fn list(resource: Resource, items: &[Item]) -> Vec<u8> {
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{RESOURCE}/v1beta1\",\"metadata\":{{}},\"items\":[",
        resource.kind()
    );
    let size = items.iter().fold(head.len() + 4, |size, item| size + item.json.len() + 1);
    let mut text = Vec::with_capacity(size);
    text.extend_from_slice(head.as_bytes());
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(&item.json);
    }
    text.extend_from_slice(b"]}\n");
    text
}

/// An object that one member has, with the annotation.
///
/// # Errors
/// In words: the document is not an object of the resource with the requested name.
pub fn object(requested: &ResourceRequest, cluster: &str, document: &[u8]) -> Result<Value, String> {
    let mut tree: Value =
        serde_json::from_slice(document).map_err(|error| format!("its answer cannot be read: {error}"))?;
    if tree["metadata"]["name"] != *requested.name {
        return Err(format!("it returned {} instead of {:?}", tree["metadata"]["name"], requested.name));
    }
    tree["kind"] = json!(requested.resource.kind());
    tree["apiVersion"] = json!(format!("{RESOURCE}/v1beta1"));
    annotate(&mut tree, cluster);
    Ok(tree)
}

/// The only object found, with upstream's errors for none and several.
///
/// # Errors
/// NotFound, or Conflict for several.
pub fn single(requested: &ResourceRequest, mut found: Vec<Value>) -> Result<Value, Status> {
    let plural = requested.resource.plural();
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(Status::not_found(RESOURCE, plural, &requested.name)),
        (Some(object), true) => Ok(object),
        (Some(_), false) => {
            let what = plural.trim_end_matches('s');
            let why = format!("the {what}({}) found in more than one clusters", requested.name);
            Err(Status::conflict(RESOURCE, plural, &requested.name, &why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(namespace: &str, name: &str, fields: &str) -> ResourceRequest {
        ResourceRequest::parse(Resource::Pods, (namespace, name), "", fields).expect("a request")
    }

    fn merged(requested: &ResourceRequest, parts: &[(&str, &str)]) -> Value {
        let found =
            parts.iter().flat_map(|(cluster, list)| items(requested, cluster, list.as_bytes()).expect("a list"));
        let items = sorted(found.collect());
        serde_json::from_slice(&list(Resource::Pods, &items)).expect("JSON")
    }

    fn names(list: &Value) -> Vec<String> {
        let place = |item: &Value| {
            let meta = &item["metadata"];
            format!("{}/{}@{}", text(&meta["namespace"]), text(&meta["name"]), text(&meta["annotations"][CLUSTER]))
        };
        list["items"].as_array().expect("items").iter().map(place).collect()
    }

    fn text(value: &Value) -> &str {
        value.as_str().unwrap_or("-")
    }

    const M1: &str = r#"{"kind":"PodMetricsList","items":[{"metadata":{"name":"b","namespace":"x","labels":{"a":"b"}},"containers":[]},
        {"metadata":{"name":"a","namespace":"y"}}]}"#;
    const M2: &str = r#"{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[
        {"metadata": {"annotations":{"k":"v","resource.karmada.io/query-from-cluster":"other"},"name":"b","namespace":"x"}},
        {"met\u0061data":{"name":"c","namespace":"x","annotations":null}}]}"#;

    #[test]
    fn lists_are_merged_in_order() {
        let all = merged(&requested("", "", ""), &[("m2", M2), ("m1", M1)]);
        assert_eq!(names(&all), ["x/b@m1", "x/b@m2", "x/c@m2", "y/a@m1"]);
        assert_eq!(all["items"][1]["metadata"]["annotations"]["k"], "v");
        assert_eq!(all["items"][0]["metadata"]["labels"]["a"], "b");
        assert_eq!((&all["kind"], &all["metadata"]), (&json!("PodMetricsList"), &json!({})));
        assert_eq!(merged(&requested("", "", ""), &[])["items"], json!([]));
        assert_eq!(
            merged(&requested("", "", ""), &[("m", r#"{"kind":"PodMetricsList","items":null}"#)])["items"],
            json!([])
        );
    }

    #[test]
    fn items_that_were_not_requested_are_dropped() {
        for (namespace, fields, expected) in [
            ("y", "", vec!["y/a@m1"]),
            ("", "metadata.name=b", vec!["x/b@m1"]),
            ("", "metadata.name!=b", vec!["y/a@m1"]),
            ("x", "metadata.namespace=y", vec![]),
        ] {
            assert_eq!(
                names(&merged(&requested(namespace, "", fields), &[("m1", M1)])),
                expected,
                "{namespace} {fields}"
            );
        }
        let refused =
            ResourceRequest::parse(Resource::Pods, ("", ""), "", "status.phase=Running").expect_err("a field");
        assert_eq!(refused.code, 400);
        assert_eq!(ResourceRequest::parse(Resource::Pods, ("", ""), "a in", "").expect_err("a selector").code, 400);
    }

    #[test]
    fn other_documents_are_errors_of_their_member() {
        for (document, expected) in [
            ("<html>", "its list cannot be read"),
            (r#"{"kind":"Status","message":"x"}"#, "it returned the kind \"Status\" instead of PodMetricsList"),
            (
                r#"{"kind":"PodMetricsList","items":[{}]}"#,
                "an item of its list cannot be read: missing field `metadata`",
            ),
            (
                r#"{"kind":"PodMetricsList","items":[{"metadata":{"name":"a"},"metadata":{"name":"b"}}]}"#,
                "duplicate field",
            ),
            (r#"{"kind":"PodMetricsList","items":[3]}"#, "an item of its list cannot be read"),
        ] {
            let error = items(&requested("", "", ""), "m", document.as_bytes()).expect_err("no list");
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn single_objects() {
        let requested = requested("x", "b", "");
        let object = |cluster: &str| object(&requested, cluster, br#"{"metadata":{"name":"b"},"window":"15s"}"#);
        let one = object("m1").expect("an object");
        assert_eq!((&one["kind"], &one["metadata"]["annotations"][CLUSTER]), (&json!("PodMetrics"), &json!("m1")));
        assert_eq!(single(&requested, vec![one.clone()]), Ok(one.clone()));
        let none = single(&requested, Vec::new()).expect_err("none");
        assert_eq!((none.code, none.message.as_str()), (404, "pods.metrics.k8s.io \"b\" not found"));
        let two = single(&requested, vec![one.clone(), one]).expect_err("two");
        let text =
            "Operation cannot be fulfilled on pods.metrics.k8s.io \"b\": the pod(b) found in more than one clusters";
        assert_eq!((two.code, two.message.as_str()), (409, text));
        assert!(super::object(&requested, "m", br#"{"metadata":{"name":"c"}}"#).is_err());
        assert!(super::object(&requested, "m", b"[").is_err());
    }
}
