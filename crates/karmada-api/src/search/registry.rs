//! ResourceRegistry: its type and its strategy.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::meta::{Condition, ObjectMeta, null_as_default};
use apimachinery::names::{is_dns1123_label, is_dns1123_subdomain};
use apimachinery::resource::{RequestContext, Strategy};
use apimachinery::url;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cluster::v1alpha1::LocalSecretReference;
use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;
use crate::is_default;
use crate::policy::v1alpha1::ClusterAffinity;

crate::api_type!(ResourceRegistry, "search.karmada.io", "v1alpha1", "resourceregistries", false);

/// Selects kinds of objects in member clusters to cache in the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRegistry {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// The kinds and clusters to cache, and an additional store.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub spec: RegistrySpec,
    /// The state of the cache.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: RegistryStatus,
}

/// The kinds and clusters to cache, and an additional store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistrySpec {
    /// Clusters whose objects are cached; an empty object selects all.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub target_cluster: ClusterAffinity,
    /// Kinds to cache.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub resource_selectors: Vec<RegistrySelector>,
    /// An additional store for the objects. Absent: memory only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_store: Option<BackendStore>,
}

/// A kind, in one namespace or in all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistrySelector {
    /// Group and version of the objects.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub api_version: String,
    /// Kind of the objects.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
    /// Namespace of the objects. Empty: every namespace.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
}

/// A store in addition to memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendStore {
    /// An OpenSearch service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_search: Option<OpenSearch>,
}

/// An OpenSearch service and its credentials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenSearch {
    /// URLs of the service, http or https.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub addresses: Vec<String>,
    /// The Secret with the keys `username` and `password`, and `ca.crt` to verify the service's certificate.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub secret_ref: LocalSecretReference,
}

/// The state of the cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryStatus {
    /// Conditions of the cache; the control plane sets none.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(with = "Vec<schema::Condition>")]
    pub conditions: Vec<Condition>,
}

/// As upstream: objects have no generation, and status is writable.
#[derive(Clone, Copy, Debug)]
pub struct RegistryStrategy;

impl Strategy for RegistryStrategy {
    fn validate_create(&self, object: &Value) -> ErrorList {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = Path::new("metadata").child("name");
        let mut errors: ErrorList = if name.is_empty() {
            // The server itself requires a name.
            ErrorList::new()
        } else {
            is_dns1123_subdomain(name).into_iter().map(|detail| Error::invalid(&path, name, detail)).collect()
        };
        errors.extend(spec(&object["spec"]));
        errors
    }

    fn validate_update(&self, context: &RequestContext, _old: &Value, object: &Value) -> ErrorList {
        if context.subresource == "status" { ErrorList::new() } else { spec(&object["spec"]) }
    }

    fn has_generation(&self) -> bool {
        false
    }
}

fn spec(spec: &Value) -> ErrorList {
    let path = Path::new("spec");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut errors = ErrorList::new();
    if let Ok(affinity) = ClusterAffinity::deserialize(&spec["targetCluster"]) {
        let selector = affinity.field_selector.as_ref();
        errors.extend(crate::admission::field_selector(selector, &path.child("targetCluster")));
    }
    for (index, selector) in list(&spec["resourceSelectors"]).iter().enumerate() {
        let path = path.child("resourceSelectors").index(index);
        let text = |key: &str| selector[key].as_str().unwrap_or_default();
        let version = text("apiVersion");
        if version.matches('/').count() > 1 {
            let detail = format!("unexpected GroupVersion string: {version}");
            errors.push(Error::invalid(&path.child("apiVersion"), version, detail));
        }
        let namespace = text("namespace");
        let complaints = if namespace.is_empty() { Vec::new() } else { is_dns1123_label(namespace) };
        let path = path.child("namespace");
        errors.extend(complaints.into_iter().map(|detail| Error::invalid(&path, namespace, detail)));
    }
    let addresses = path.child("backendStore").child("openSearch").child("addresses");
    for (index, address) in list(&spec["backendStore"]["openSearch"]["addresses"]).iter().enumerate() {
        errors.extend(self::address(address.as_str().unwrap_or_default(), &addresses.index(index)));
    }
    errors
}

fn address(text: &str, path: &Path) -> Option<Error> {
    match url::parse(text) {
        Err(why) => Some(Error::invalid(path, text, why)),
        Ok(url) if matches!(url.scheme, "http" | "https") && !url.host.is_empty() => None,
        Ok(_) => {
            let detail = "must be a valid http or https URL with non-empty scheme and host";
            Some(Error::invalid(path, text, detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules() {
        let selector = |selector: Value| json!({"resourceSelectors": [selector]});
        let store = |address: &str| json!({"backendStore": {"openSearch": {"addresses": [address]}}});
        for (spec, expected) in [
            (json!({}), ""),
            (selector(json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop"})), ""),
            (
                selector(json!({"apiVersion": "a/b/c"})),
                "spec.resourceSelectors[0].apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            ),
            (selector(json!({"namespace": "A"})), "spec.resourceSelectors[0].namespace: Invalid value: \"A\": "),
            (store("https://s:9200"), ""),
            (
                store("ftp://s"),
                "spec.backendStore.openSearch.addresses[0]: Invalid value: \"ftp://s\": must be a valid http or https URL",
            ),
            (store("https://"), "must be a valid http or https URL with non-empty scheme and host"),
            (
                json!({"targetCluster": {"fieldSelector": {"matchExpressions": [{"key": "city", "operator": "In"}]}}}),
                "spec.targetCluster.fieldSelector: Invalid value: ",
            ),
        ] {
            let object = json!({"metadata": {"name": "a"}, "spec": spec});
            let errors: Vec<String> =
                RegistryStrategy.validate_create(&object).iter().map(ToString::to_string).collect();
            assert!(
                errors.len() == usize::from(!expected.is_empty()) && errors.concat().contains(expected),
                "{errors:?}"
            );
        }
    }
}
