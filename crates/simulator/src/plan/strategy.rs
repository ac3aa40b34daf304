//! How a workload replaces its pods, as Deployments, StatefulSets and DaemonSets all say it: the name of a way, and what
//! the rolling one is told, which differs by kind.

use apimachinery::meta::null_as_default;
use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "R: Default + Deserialize<'de>"))]
pub(crate) struct Strategy<R> {
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub type_: String,
    #[serde(deserialize_with = "null_as_default")]
    pub rolling_update: R,
}
