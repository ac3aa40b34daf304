//! ConversionReviews: the request to a conversion webhook, and the accepted parts of its response. The texts are
//! upstream's.

use std::collections::BTreeMap;

use apimachinery::field::Path;
use apimachinery::go_json::go_type;
use apimachinery::{names, yaml};
use serde_json::{Map, Value, json};

use crate::definition::CustomResourceDefinition;

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "ConversionReview";
/// The versions of reviews that exist.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The conversion webhook of a definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// `clientConfig`.
    pub config: Value,
    /// The version of reviews.
    version: Option<&'static str>,
    kind: String,
    list_kind: String,
}

/// A review in flight.
#[derive(Clone, Debug)]
pub struct Review<'h> {
    hook: &'h Hook,
    version: &'static str,
    uid: String,
    /// `group/version` of the results.
    desired: String,
    is_list: bool,
}

impl Hook {
    /// `None` if the definition has another strategy.
    pub fn of(crd: &CustomResourceDefinition) -> Option<Self> {
        let conversion = crd.spec.conversion.as_ref().filter(|conversion| conversion.strategy == "Webhook")?;
        let webhook = conversion.webhook.as_ref()?;
        let accepted = webhook["conversionReviewVersions"].as_array().map_or(&[][..], Vec::as_slice);
        let accepted = accepted.iter().filter_map(Value::as_str);
        let version = accepted.into_iter().find_map(|name| VERSIONS.into_iter().find(|known| *known == name));
        let names = &crd.spec.names;
        let (kind, list_kind) = (names.kind.clone(), names.list_kind.clone());
        Some(Self { config: webhook["clientConfig"].clone(), version, kind, list_kind })
    }

    /// A review of objects that are converted to `desired` (`group/version`).
    ///
    /// # Errors
    /// The webhook accepts no known version of reviews.
    pub fn review(&self, uid: &str, desired: &str, is_list: bool) -> Result<Review<'_>, String> {
        let version = self.version.ok_or("no supported conversion review versions")?;
        Ok(Review { hook: self, version, uid: uid.to_owned(), desired: desired.to_owned(), is_list })
    }
}

impl Review<'_> {
    fn api_version(&self) -> String {
        format!("{GROUP}/{}", self.version)
    }

    /// The body of the request.
    pub fn request(&self, objects: &[Value]) -> Value {
        json!({
            "kind": KIND, "apiVersion": self.api_version(),
            "request": {"uid": self.uid, "desiredAPIVersion": self.desired, "objects": objects},
        })
    }

    /// The kind that messages name: that of the objects in the version in which they were.
    fn subject(&self, originals: &[Value]) -> String {
        let group_version = originals.first().and_then(|object| object["apiVersion"].as_str()).unwrap_or_default();
        let kind = if self.is_list { &self.hook.list_kind } else { &self.hook.kind };
        format!("{group_version}, Kind={kind}")
    }

    /// The message of a failure.
    pub fn failed(&self, originals: &[Value], why: &str) -> String {
        format!("conversion webhook for {} failed: {why}", self.subject(originals))
    }

    /// The converted objects, with the metadata of the originals except labels and annotations.
    ///
    /// # Errors
    /// The error in the response.
    pub fn accept(&self, originals: &[Value], body: &[u8]) -> Result<Vec<Value>, String> {
        let found = self.converted(body).map_err(|why| self.failed(originals, &why))?;
        let subject = self.subject(originals);
        if found.len() != originals.len() {
            let (count, expected) = (found.len(), originals.len());
            return Err(format!("conversion webhook for {subject} returned {count} objects, expected {expected}"));
        }
        let pairs = originals.iter().zip(found).enumerate();
        pairs.map(|(index, (original, converted))| self.one(&subject, index, original, converted)).collect()
    }

    fn converted(&self, body: &[u8]) -> Result<Vec<Value>, String> {
        let mut review: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if self.version == "v1" {
            let (api_version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
            let expected = self.api_version();
            if api_version != expected || kind != KIND {
                let found = format!("{api_version}, Kind={kind}");
                return Err(format!("expected webhook response of {expected}, Kind={KIND}, got {found}"));
            }
        }
        // The response may be anything, and only objects have members.
        let Some(response) = review.get_mut("response").filter(|response| response.is_object()) else {
            return Err("no response provided".to_owned());
        };
        let uid = text(&response["uid"]);
        if self.version == "v1" && uid != self.uid {
            return Err(format!("expected response.uid={:?}, got {uid:?}", self.uid));
        }
        let status = text(&response["result"]["status"]);
        if status != "Success" {
            let message = text(&response["result"]["message"]);
            let status = format!("response.result.status was '{status}', not 'Success'");
            return Err(if message.is_empty() { status } else { message });
        }
        match response["convertedObjects"].take() {
            Value::Array(mut objects) => {
                objects.iter_mut().for_each(yaml::whole_floats);
                Ok(objects)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn one(&self, subject: &str, index: usize, original: &Value, mut converted: Value) -> Result<Value, String> {
        let what = if self.is_list { "invalid converted object" } else { "invalid object" };
        let wrong = |why: String| format!("conversion webhook for {subject} returned {what} at index {index}: {why}");
        let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let found = text(&converted, "apiVersion");
        if found != self.desired {
            return Err(wrong(format!("invalid groupVersion (expected {}, received {found})", self.desired)));
        }
        let (expected, found) = (text(original, "kind"), text(&converted, "kind"));
        if expected != found {
            return Err(wrong(format!("invalid kind (expected {expected}, received {found})")));
        }
        let at = if self.is_list { format!(" at index {index}") } else { String::new() };
        same_identity(original, &converted)
            .map_err(|why| format!("conversion webhook for {subject} returned {what}{at}: {why}"))?;
        restore_metadata(original, &mut converted).map_err(|why| match self.is_list {
            true => format!("conversion webhook for {subject} returned invalid metadata in object{at}: {why}"),
            false => format!("conversion webhook for {subject} returned invalid metadata: {why}"),
        })?;
        Ok(converted)
    }
}

fn same_identity(original: &Value, converted: &Value) -> Result<(), String> {
    for (field, label) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let text = |object: &Value| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (expected, found) = (text(original), text(converted));
        if expected != found {
            return Err(format!("must have the same {label}: {expected} != {found}"));
        }
    }
    Ok(())
}

/// Puts the metadata of the original back, with the labels and annotations of the converted object.
fn restore_metadata(original: &Value, converted: &mut Value) -> Result<(), String> {
    let mut converted_metadata = match converted.get_mut("metadata").map(Value::take) {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(converted_metadata)) => converted_metadata,
        Some(other) => return Err(format!("invalid metadata of type {} in converted object", go_type(&other))),
    };
    let mut metadata = original["metadata"].as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match converted_metadata.remove(field).filter(|value| !value.is_null()) {
            None => drop(metadata.remove(field)),
            Some(Value::Object(map)) => {
                check_texts(field, &map, metadata.get(field))?;
                metadata.insert(field.to_owned(), map.into());
            }
            Some(other) => {
                return Err(format!("invalid metadata.{field} of type {} in converted object", go_type(&other)));
            }
        }
    }
    converted["metadata"] = metadata.into();
    Ok(())
}

/// Changed labels and annotations are validated.
fn check_texts(field: &str, map: &Map<String, Value>, before: Option<&Value>) -> Result<(), String> {
    let mut texts: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, value) in map {
        let text = value.as_str().ok_or_else(|| {
            format!("metadata.{field}[{key}] must be a string, but is {} in converted object", go_type(value))
        })?;
        texts.insert(key, text);
    }
    if before.and_then(Value::as_object) == Some(map) {
        return Ok(());
    }
    let metadata = Path::new("metadata");
    let errors = match field {
        "labels" => names::validate_labels(&texts, &metadata.child("labels")),
        // Upstream's name of the field in this place.
        _ => names::validate_annotations(&texts, &metadata.child("annotation")),
    };
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(versions: &[&str]) -> Hook {
        let crd = json!({"metadata": {"name": "xs.g"}, "spec": {"group": "g", "scope": "Namespaced",
            "names": {"plural": "xs", "kind": "X", "listKind": "XList"}, "versions": [],
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://h"},
                "conversionReviewVersions": versions}}}});
        Hook::of(&CustomResourceDefinition::from_value(&crd).expect("a definition")).expect("a webhook")
    }

    fn original(name: &str) -> Value {
        json!({"apiVersion": "g/v1", "kind": "X", "spec": 1, "metadata": {
            "name": name, "namespace": "n", "uid": "u", "labels": {"a": "b"}, "resourceVersion": "7"}})
    }

    fn answer(change: impl Fn(&mut Value)) -> Value {
        let mut object = original("a");
        object["apiVersion"] = json!("g/v2");
        let mut review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": "1", "result": {"status": "Success"}, "convertedObjects": [object]}});
        change(&mut review);
        review
    }

    #[test]
    fn only_labels_and_annotations_of_the_metadata_change() {
        let hook = hook(&["v2", "v1"]);
        let review = hook.review("1", "g/v2", false).expect("a known version");
        let request = review.request(&[original("a")]);
        assert_eq!(request["apiVersion"], "apiextensions.k8s.io/v1");
        assert_eq!(request["request"]["desiredAPIVersion"], "g/v2");
        let body = answer(|review| {
            let object = &mut review["response"]["convertedObjects"][0];
            object["spec"] = json!(2.0);
            object["metadata"] = json!({"name": "a", "namespace": "n", "uid": "u", "annotations": {"x": "y"},
                "resourceVersion": "9", "finalizers": ["f"]});
        });
        let found = review.accept(&[original("a")], body.to_string().as_bytes()).expect("accepted");
        let mut expected = original("a");
        expected["apiVersion"] = json!("g/v2");
        expected["spec"] = json!(2);
        expected["metadata"]["annotations"] = json!({"x": "y"});
        expected["metadata"].as_object_mut().expect("a map").remove("labels");
        assert_eq!(found, [expected]);
    }

    #[test]
    fn invalid_responses_are_rejected_with_upstreams_messages() {
        let object = |path: &'static str, value: Value| {
            move |review: &mut Value| {
                let object = &mut review["response"]["convertedObjects"][0];
                *object.pointer_mut(path).expect("a place") = value.clone();
            }
        };
        let set = |path: &'static str, value: Value| {
            move |review: &mut Value| *review.pointer_mut(path).expect("a place") = value.clone()
        };
        let gvk = "conversion webhook for g/v1, Kind=X";
        let rows: Vec<(Value, String)> = vec![
            (answer(set("/response/uid", json!("2"))), format!("{gvk} failed: expected response.uid=\"1\", got \"2\"")),
            (answer(set("/response", Value::Null)), format!("{gvk} failed: no response provided")),
            (
                answer(set("/apiVersion", json!("apiextensions.k8s.io/v1beta1"))),
                format!(
                    "{gvk} failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1beta1, Kind=ConversionReview"
                ),
            ),
            (
                answer(set("/response/result", json!({"status": "Failure", "message": "no"}))),
                format!("{gvk} failed: no"),
            ),
            (
                answer(set("/response/result", json!({}))),
                format!("{gvk} failed: response.result.status was '', not 'Success'"),
            ),
            (answer(set("/response/convertedObjects", json!([]))), format!("{gvk} returned 0 objects, expected 1")),
            (
                answer(object("/apiVersion", json!("g/v1"))),
                format!(
                    "{gvk} returned invalid object at index 0: invalid groupVersion (expected g/v2, received g/v1)"
                ),
            ),
            (
                answer(object("/kind", json!("Y"))),
                format!("{gvk} returned invalid object at index 0: invalid kind (expected X, received Y)"),
            ),
            (
                answer(object("/metadata/name", json!("b"))),
                format!("{gvk} returned invalid object: must have the same name: a != b"),
            ),
            (
                answer(object("/metadata/uid", json!("v"))),
                format!("{gvk} returned invalid object: must have the same UID: u != v"),
            ),
            (
                answer(object("/metadata/labels", json!(3))),
                format!("{gvk} returned invalid metadata: invalid metadata.labels of type int64 in converted object"),
            ),
            (
                answer(object("/metadata/labels", json!({"a": 3}))),
                format!(
                    "{gvk} returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object"
                ),
            ),
        ];
        let hook = hook(&["v1"]);
        let review = hook.review("1", "g/v2", false).expect("a known version");
        for (body, expected) in rows {
            let found = review.accept(&[original("a")], body.to_string().as_bytes());
            assert_eq!(found, Err(expected), "{body}");
        }
        assert!(review.accept(&[original("a")], b"<html>").is_err());
        let label = answer(object("/metadata/labels", json!({"a b": "c"})));
        let found = review.accept(&[original("a")], label.to_string().as_bytes()).expect_err("a wrong label");
        assert!(found.contains("metadata.labels: Invalid value: \"a b\""), "{found}");
    }

    #[test]
    fn lists_and_old_reviews_have_their_own_rules() {
        let hook = hook(&["v1beta1"]);
        let review = hook.review("1", "g/v2", true).expect("a known version");
        let both = [original("a"), original("b")];
        let body = json!({"response": {"result": {"status": "Success"}, "convertedObjects": [
            {"apiVersion": "g/v2", "kind": "X", "metadata": {"name": "a", "namespace": "n", "uid": "u"}},
            {"apiVersion": "g/v2", "kind": "X", "metadata": {"name": "c", "namespace": "n", "uid": "u"}}]}});
        let expected = "conversion webhook for g/v1, Kind=XList returned invalid converted object at index 1: must have the same name: b != c";
        assert_eq!(review.accept(&both, body.to_string().as_bytes()), Err(expected.to_owned()));
        assert!(
            review
                .accept(&both[..1], body.to_string().as_bytes())
                .is_err_and(|why| why.ends_with("returned 2 objects, expected 1"))
        );
        for body in ["\"text\"", "[]", "7", "null", "{\"response\": []}"] {
            let expected = "conversion webhook for g/v1, Kind=XList failed: no response provided";
            assert_eq!(review.accept(&both, body.as_bytes()), Err(expected.to_owned()), "{body}");
        }
        let unknown = super::tests::hook(&["v3"]);
        assert!(unknown.review("1", "g/v2", true).is_err());
    }
}
