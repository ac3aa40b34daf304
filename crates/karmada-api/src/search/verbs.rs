//! The kinds of `search` and `proxying`, which are paths and not objects.

use apimachinery::meta::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;

macro_rules! verb {
    ($(#[$doc:meta])* $name:ident, $plural:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            /// Group and version of the object.
            pub api_version: String,
            /// Kind of the object.
            pub kind: String,
            /// Standard metadata.
            #[schemars(with = "schema::ObjectMeta")]
            pub metadata: ObjectMeta,
        }

        crate::api_type!($name, "search.karmada.io", "v1alpha1", $plural, false);
    };
}

verb! {
    /// Reads members' objects from a store: `search/CATEGORY/PATH`.
    Search, "search"
}
verb! {
    /// Accesses members as if they were one cluster: `proxying/NAME/proxy/PATH`.
    Proxying, "proxying"
}
