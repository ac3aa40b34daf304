//! The discovery and OpenAPI of other servers, merged into this server's.

use std::sync::Arc;

use apiserver::documents::discovery::{Apis, ExternalVersion, Priority};
use apiserver::documents::openapi::ExternalSpec;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::registered::Remote;
use crate::{Aggregation, Stored};

/// The documents of another server about one group version, as they were last read.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    pub resources: Arc<Value>,
    /// Whether the last attempt to read the resources succeeded.
    pub is_current: bool,
    pub v3_url: Option<String>,
    pub v2: Option<Arc<ExternalSpec>>,
    /// The entity tag of the OpenAPI v2 document.
    pub v2_tag: Option<String>,
}

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    paths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(rename = "serverRelativeURL", default)]
    url: String,
}

/// The URL of the group version's document in an index of OpenAPI v3. A URL elsewhere is replaced: it would be
/// requested from this server with the rights of clients.
pub fn v3_url(index: &[u8], remote: &Remote) -> Option<String> {
    openapi_url(index, &remote.group, &remote.version)
}

/// The URL of the OpenAPI v3 document of a group version in the index of another server, as a path of this server.
pub fn openapi_url(index: &[u8], group: &str, version: &str) -> Option<String> {
    let index: Index = serde_json::from_slice(index).ok()?;
    let path = format!("apis/{group}/{version}");
    let own = format!("/openapi/v3/{path}");
    let listed_url = &index.paths.get(&path)?.url;
    let query = listed_url.strip_prefix(&own).filter(|rest| rest.is_empty() || rest.starts_with('?'));
    Some(query.map_or_else(|| own.clone(), |query| format!("{own}{query}")))
}

impl Aggregation {
    /// Publishes changed lists of other servers in this server's documents.
    pub(crate) fn publish(&self, stored: &mut Stored) {
        let Some(server) = self.server.get().and_then(std::sync::Weak::upgrade) else { return };
        let uids: Vec<&str> = stored.services.values().map(|service| service.uid.as_str()).collect();
        stored.documents.retain(|uid, _| uids.contains(&uid.as_str()));
        let mut apis = Apis::default();
        for service in stored.services.values() {
            let spec = &service.spec;
            let priority = Priority { group: spec.group_priority_minimum, version: spec.version_priority };
            apis.priorities.insert((spec.group.clone(), spec.version.clone()), priority);
        }
        for target in self.table.load().iter() {
            let known = stored.documents.get(&target.remote.uid).cloned().unwrap_or_default();
            let external = ExternalVersion {
                resources: known.resources,
                is_current: target.is_available && known.is_current,
                v3_url: known.v3_url,
                v2: known.v2,
            };
            apis.external.insert((target.remote.group.clone(), target.remote.version.clone()), external);
        }
        for routed in self.routed.load().iter() {
            let Some(documents) = routed.listing.documents() else { continue };
            let key = (routed.group.clone(), routed.version.clone());
            apis.priorities.entry(key.clone()).or_insert(routed.priority);
            apis.external.entry(key).or_insert_with(|| documents.clone());
        }
        let present = server.apis.load();
        apis.generation = present.generation;
        if **present != apis {
            apis.generation += 1;
            server.apis.store(Arc::new(apis));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_stay_within_the_group_version() {
        let remote = Remote {
            name: "v1.g".into(),
            uid: "u".into(),
            group: "g".into(),
            version: "v1".into(),
            service: Default::default(),
            insecure: false,
            ca_bundle: None,
        };
        let own = Some("/openapi/v3/apis/g/v1");
        for (index, expected) in [
            (
                r#"{"paths":{"apis/g/v1":{"serverRelativeURL":"/openapi/v3/apis/g/v1?hash=A"}}}"#,
                Some("/openapi/v3/apis/g/v1?hash=A"),
            ),
            (r#"{"paths":{"apis/g/v1":{"serverRelativeURL":"/openapi/v3/apis/g/v10"}}}"#, own),
            (r#"{"paths":{"apis/g/v1":{"serverRelativeURL":"/api/v1/secrets"}}}"#, own),
            (r#"{"paths":{"apis/g/v1":{}}}"#, own),
            (r#"{"paths":{"apis/g/v2":{}}}"#, None),
            ("{}", None),
            ("<html>", None),
        ] {
            assert_eq!(v3_url(index.as_bytes(), &remote).as_deref(), expected, "{index}");
        }
    }
}
