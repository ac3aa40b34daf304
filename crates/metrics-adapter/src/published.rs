//! What the API server that has the route publishes about its group versions.

use std::sync::Arc;

use apiserver::documents::discovery::{Apis, ForeignVersion, Priority};
use apiserver::documents::openapi::ForeignSpec;
use fleet_metrics::groups::{self, GroupVersion};
use fleet_metrics::{discovery, openapi};

fn version(version: GroupVersion) -> ForeignVersion {
    let spec = openapi::document(&[version], openapi::Form::V2);
    ForeignVersion {
        resources: Arc::new(discovery::aggregated(version)),
        is_current: true,
        v3_url: Some(format!("/openapi/v3/apis/{}/{}", version.group, version.version)),
        // An encoded document is JSON.
        v2: ForeignSpec::new(spec.to_string().into_bytes()).ok().map(Arc::new),
    }
}

/// The group versions with their priorities and documents.
pub fn group_versions() -> Vec<(GroupVersion, Priority, ForeignVersion)> {
    let entry = |it: GroupVersion| (it, Priority { group: it.priorities.0, version: it.priorities.1 }, version(it));
    groups::ALL.into_iter().map(entry).collect()
}

/// The documents of a server that serves nothing else.
pub fn published() -> Apis {
    let mut apis = Apis { generation: 1, ..Apis::default() };
    for (it, priority, foreign) in group_versions() {
        let key = (it.group.to_owned(), it.version.to_owned());
        apis.priorities.insert(key.clone(), priority);
        apis.foreign.insert(key, foreign);
    }
    apis
}
