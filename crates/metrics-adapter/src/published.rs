//! The group versions that the API server with this route publishes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apiserver::documents::discovery::{Apis, ExternalVersion, Priority};
use apiserver::documents::openapi::ExternalSpec;
use fleet_metrics::discovery::{self, Listed};
use fleet_metrics::groups::{self, GroupVersion};
use fleet_metrics::openapi;

fn version(version: GroupVersion) -> ExternalVersion {
    let spec = openapi::document(&[version], openapi::Form::V2);
    ExternalVersion {
        resources: Arc::new(discovery::aggregated(version, &BTreeSet::new())),
        is_current: true,
        v3_url: Some(format!("/openapi/v3/apis/{}/{}", version.group, version.version)),
        // An encoded document is JSON.
        v2: ExternalSpec::new(spec.to_string().into_bytes()).ok().map(Arc::new),
    }
}

/// The group versions with their priorities and documents.
pub fn group_versions() -> Vec<(GroupVersion, Priority, ExternalVersion)> {
    let entry = |it: GroupVersion| (it, Priority { group: it.priorities.0, version: it.priorities.1 }, version(it));
    groups::ALL.into_iter().map(entry).collect()
}

/// The documents of a group version with the metrics of members.
pub fn with_metrics(version: GroupVersion, documents: &ExternalVersion, metrics: &BTreeSet<Listed>) -> ExternalVersion {
    ExternalVersion { resources: Arc::new(discovery::aggregated(version, metrics)), ..documents.clone() }
}

/// The documents of a server that serves no other APIs, with these metrics of members by group. All group versions are
/// listed, because APIServices of another server refer to this one.
pub fn published(generation: u64, metrics: &BTreeMap<&str, BTreeSet<Listed>>) -> Apis {
    let mut apis = Apis { generation, ..Apis::default() };
    for (it, priority, documents) in group_versions() {
        let key = (it.group.to_owned(), it.version.to_owned());
        apis.priorities.insert(key.clone(), priority);
        let external = metrics.get(it.group).map(|names| with_metrics(it, &documents, names));
        apis.external.insert(key, external.unwrap_or(documents));
    }
    apis
}
