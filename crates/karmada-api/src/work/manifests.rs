//! Work: the manifests of one member cluster.

use apimachinery::meta::{Condition, ObjectMeta, null_as_default};
use apimachinery::{Object, raw_json};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;
use crate::is_default;
use crate::raw::RawJson;
use crate::work::v1alpha2::ResourceHealth;

crate::api_type!(Work, "work.karmada.io", "v1alpha1", "works", true);

/// Manifests for one member cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Work {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// The manifests to apply.
    #[schemars(extend("x-required" = true))]
    pub spec: WorkSpec,
    /// The state of the manifests in the cluster.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: WorkStatus,
}

impl Work {
    /// Decodes a Work that is read and not written: its manifests are parts of its document, which are neither decoded nor
    /// copied.
    ///
    /// # Errors
    /// When the document is no Work.
    pub fn read(object: &Object) -> Result<Self, serde_json::Error> {
        let json = object.json();
        let place = object.place_of(&json, &["spec", "workload", "manifests"]);
        let Some(place) = place.filter(|place| json[place.start] == b'[') else { return object.decode() };
        let list = json.slice(place.clone());
        let manifests: Option<Vec<RawJson>> =
            raw_json::items(&list).map(|item| RawJson::of_part(list.slice(item))).collect();
        let Some(manifests) = manifests else { return object.decode() };
        let mut work: Self = object.decode_but(&json, place)?;
        work.spec.workload.manifests = manifests;
        Ok(work)
    }
}

/// The manifests to apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkSpec {
    /// True: when the Work is deleted, the objects are kept in the member cluster, without the system's labels and
    /// annotations. Absent: they are deleted with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// True: dispatching to the member cluster is suspended; status collection continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend_dispatching: Option<bool>,
    /// The manifests.
    pub workload: WorkloadTemplate,
}

/// The manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadTemplate {
    /// Objects to apply in the member cluster.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub manifests: Vec<RawJson>,
}

/// The state of the manifests in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkStatus {
    /// Conditions: Applied and Dispatching.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(with = "Vec<schema::Condition>")]
    pub conditions: Vec<Condition>,
    /// The state of the objects in the member cluster.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub manifest_statuses: Vec<ManifestStatus>,
}

/// The state of one manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ManifestStatus {
    /// `Healthy`, `Unhealthy`, or `Unknown` if the interpreter failed. Kinds without a health interpretation are
    /// healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<ResourceHealth>,
    /// Identifies the manifest.
    #[schemars(extend("x-required" = true))]
    pub identifier: ResourceIdentifier,
    /// The object's status in the cluster, as the interpreter reflects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RawJson>,
}

/// Identifies the manifest that a status belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceIdentifier {
    /// API group of the object; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub group: String,
    /// Kind of the object.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
    /// Name of the object.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Namespace of the object; empty for cluster-scoped ones.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Index in spec.workload.manifests, from 0 on.
    #[schemars(extend("x-required" = true, "x-no-format" = true))]
    pub ordinal: i64,
    /// Always empty.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub resource: String,
    /// API version of the object, without the group.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub version: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_work_is_read_as_it_is_decoded() {
        let manifest =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "]}\"\u{e4}"}});
        for manifests in
            [json!([manifest, manifest]), json!([]), json!([null, 1]), Value::Null, json!([json!({"deep": [[[]]]})])]
        {
            let tree = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
                "metadata": {"name": "w", "namespace": "n", "managedFields": [{"manager": "m"}]},
                "spec": {"suspendDispatching": true, "workload": {"manifests": manifests}},
                "status": {"conditions": [{"type": "Applied", "status": "True", "reason": "r", "message": "m"}]}});
            let object = Object::from_value(&tree).expect("an object");
            let (read, decoded) = (Work::read(&object).expect("a work"), object.decode::<Work>().expect("a work"));
            assert_eq!(read, decoded, "{manifests}");
            assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&decoded).unwrap());
            for (part, own) in read.spec.workload.manifests.iter().zip(&decoded.spec.workload.manifests) {
                assert_eq!((part.get(), part.bytes()), (own.get(), own.bytes()));
            }
        }
        for other in [json!({"spec": {"workload": {"manifests": {}}}}), json!({"spec": {"workload": {"manifests": 1}}})]
        {
            assert!(Work::read(&Object::from_value(&other).expect("an object")).is_err());
        }
        assert_eq!(Work::read(&Object::parse("{}").expect("an object")).expect("empty"), Work::default());
    }
}
