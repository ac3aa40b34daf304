//! The annotation in which client-side apply stores the last manifest, with kubectl's encoding.

use apimachinery::field::json_of_go;
use serde_json::{Map, Value};

pub const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manifest with the annotation that holds it.
pub fn annotated(manifest: &Value) -> Value {
    let mut object = without(manifest);
    let text = format!("{}\n", json_of_go(&object));
    object["metadata"]["annotations"][ANNOTATION] = text.into();
    object
}

/// The manifest without the annotation; its annotations become a map even if it has none, as in kubectl.
fn without(manifest: &Value) -> Value {
    let mut object = manifest.clone();
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Map::new());
    }
    match object["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
        Some(annotations) => drop(annotations.remove(ANNOTATION)),
        None => object["metadata"]["annotations"] = Value::Object(Map::new()),
    }
    object
}

/// The last manifest of a live object; `None` if no apply has recorded one.
pub fn of(live: &Value) -> Option<Value> {
    let text = live["metadata"]["annotations"][ANNOTATION].as_str().filter(|text| !text.is_empty())?;
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_annotation_is_kubectls() {
        let manifest =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "<&>"}});
        let object = annotated(&manifest);
        let text = object["metadata"]["annotations"][ANNOTATION].as_str().expect("annotated");
        let expected = "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"\\u003c\\u0026\\u003e\"},\"kind\":\"ConfigMap\",\
                        \"metadata\":{\"annotations\":{},\"name\":\"a\"}}\n";
        assert_eq!(text, expected);
        assert_eq!(annotated(&object), object, "the annotation does not hold itself");
        assert_eq!(of(&object).expect("recorded")["data"], json!({"k": "<&>"}));
        assert_eq!(of(&manifest), None);
    }
}
