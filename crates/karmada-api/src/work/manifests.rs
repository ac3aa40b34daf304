//! Work: the manifests of one member cluster.

use apimachinery::meta::{Condition, ObjectMeta, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Desired.
    #[schemars(extend("x-required" = true))]
    pub spec: WorkSpec,
    /// Observed.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: WorkStatus,
}

/// What the cluster gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkSpec {
    /// True: on Work deletion leave the object in the member cluster, only strip Karmada metadata (policy claim
    /// labels/annotations).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// True: do not apply to the member cluster (condition Dispatching=False). Status collection continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend_dispatching: Option<bool>,
    /// Manifest holder.
    pub workload: WorkloadTemplate,
}

/// The manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadTemplate {
    /// Complete objects, stored unpruned.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub manifests: Vec<RawJson>,
}

/// What is known of the manifests in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkStatus {
    /// Types `Applied`, `Dispatching`; `Progressing`, `Available`, `Degraded` are defined but never set.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(with = "Vec<schema::Condition>")]
    pub conditions: Vec<Condition>,
    /// Reflected state; overwritten as a one-element list.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub manifest_statuses: Vec<ManifestStatus>,
}

/// The state of one manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ManifestStatus {
    /// `Healthy`/`Unhealthy`/`Unknown`; Unknown if the interpreter failed; Healthy when no health interpretation exists
    /// for the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<ResourceHealth>,
    /// Which manifest.
    #[schemars(extend("x-required" = true))]
    pub identifier: ResourceIdentifier,
    /// Raw status from the interpreter's ReflectStatus (arbitrary JSON).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RawJson>,
}

/// Which manifest a status belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceIdentifier {
    /// API group.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub group: String,
    /// Kind.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Namespace.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Index in manifests.
    #[schemars(extend("x-required" = true, "x-no-format" = true))]
    pub ordinal: i64,
    /// Required by the schema but never filled: always the empty string.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub resource: String,
    /// API version.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub version: String,
}
