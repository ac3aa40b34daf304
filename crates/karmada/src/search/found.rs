//! Objects of several members as one answer: their marks, lists of them.

use std::sync::Arc;

use apimachinery::Object;
use karmada_api::constants::annotations::CACHED_FROM_CLUSTER;
use serde_json::{Value, json};

use super::versions::{Since, Versions, encode};

/// An object and the member it is from.
#[derive(Clone, Debug)]
pub struct Found {
    pub cluster: String,
    pub object: Arc<Object>,
}

impl Found {
    /// With the mark of its cluster.
    pub fn marked(&self) -> Result<Value, serde_json::Error> {
        let mut tree = self.object.to_value()?;
        if !tree["metadata"]["annotations"].is_object() {
            tree["metadata"]["annotations"] = json!({});
        }
        tree["metadata"]["annotations"][CACHED_FROM_CLUSTER] = json!(self.cluster);
        Ok(tree)
    }

    /// Marked, and with a version that names its cluster.
    pub fn single(&self) -> Result<Value, serde_json::Error> {
        let mut tree = self.marked()?;
        let versions = Versions::from([(self.cluster.clone(), self.object.resource_version().to_owned())]);
        tree["metadata"]["resourceVersion"] = json!(encode(&versions));
        Ok(tree)
    }
}

/// A changed object as its member should get it: without our mark, with the member's own version.
pub fn restore(object: &mut Value, cluster: &str) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(CACHED_FROM_CLUSTER);
        if annotations.is_empty()
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("annotations");
        }
    }
    let version = object["metadata"]["resourceVersion"].as_str().and_then(|text| Since::parse(text).of(cluster));
    if let Some(version) = version {
        object["metadata"]["resourceVersion"] = json!(version);
    }
}

/// A list of what was found.
pub fn list(api_version: &str, kind: &str, found: &[Found]) -> Result<Value, serde_json::Error> {
    let items: Vec<Value> = found.iter().map(Found::marked).collect::<Result<_, _>>()?;
    Ok(json!({"kind": format!("{kind}List"), "apiVersion": api_version, "metadata": {}, "items": items}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_back_has_no_mark() {
        let object = json!({"kind": "Node", "metadata": {"name": "n", "resourceVersion": "1291"}});
        let found = Found { cluster: "member1".to_owned(), object: Object::from_value(&object).unwrap().shared() };
        let mut single = found.single().unwrap();
        assert_eq!(single["metadata"]["annotations"][CACHED_FROM_CLUSTER], "member1");
        assert_eq!(single["metadata"]["resourceVersion"], "eyJtZW1iZXIxIjoiMTI5MSJ9");
        restore(&mut single, "member1");
        assert_eq!(single, object);
        assert_eq!(list("v1", "Node", &[found]).unwrap()["items"][0]["metadata"]["resourceVersion"], "1291");
    }
}
