//! The update strategy of Deployments, StatefulSets and DaemonSets: a type, and the parameters of the rolling update,
//! which differ by kind.

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
