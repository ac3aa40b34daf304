//! Objects of several members in one response: the annotation with their cluster, and lists.

use std::sync::Arc;

use apimachinery::Object;
use karmada_api::constants::annotations::CACHED_FROM_CLUSTER;
use serde_json::{Value, json};

use super::versions::{Versions, encode};

/// An object and its member.
#[derive(Clone, Debug)]
pub struct Found {
    pub cluster: String,
    pub object: Arc<Object>,
}

impl Found {
    /// The object with the annotation that names its cluster.
    pub fn marked(&self) -> Result<Value, serde_json::Error> {
        let mut tree = self.object.to_value()?;
        if !tree["metadata"]["annotations"].is_object() {
            tree["metadata"]["annotations"] = json!({});
        }
        tree["metadata"]["annotations"][CACHED_FROM_CLUSTER] = json!(self.cluster);
        Ok(tree)
    }

    /// The annotated object with a resource version that names its cluster.
    pub fn single(&self) -> Result<Value, serde_json::Error> {
        let mut tree = self.marked()?;
        let versions = Versions::from([(self.cluster.clone(), self.object.resource_version().to_owned())]);
        tree["metadata"]["resourceVersion"] = json!(encode(&versions));
        Ok(tree)
    }
}

/// A list of objects.
pub fn list(api_version: &str, kind: &str, found: &[Found]) -> Result<Value, serde_json::Error> {
    let items: Vec<Value> = found.iter().map(Found::marked).collect::<Result<_, _>>()?;
    Ok(json!({"kind": format!("{kind}List"), "apiVersion": api_version, "metadata": {}, "items": items}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_marked_with_their_cluster() {
        let object = json!({"kind": "Node", "metadata": {"name": "n", "resourceVersion": "1291"}});
        let found = Found { cluster: "member1".to_owned(), object: Object::from_value(&object).unwrap().shared() };
        let single = found.single().unwrap();
        assert_eq!(single["metadata"]["annotations"][CACHED_FROM_CLUSTER], "member1");
        assert_eq!(single["metadata"]["resourceVersion"], "eyJtZW1iZXIxIjoiMTI5MSJ9");
        assert_eq!(list("v1", "Node", &[found]).unwrap()["items"][0]["metadata"]["resourceVersion"], "1291");
    }
}
