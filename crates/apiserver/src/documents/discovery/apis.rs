//! The group versions that other servers serve behind this one, and the priorities of APIServices.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::order;
use crate::documents::openapi::ExternalSpec;

/// `groupPriorityMinimum` and `versionPriority` of an APIService.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priority {
    /// The priority of the group: the highest one of its versions.
    pub group: u32,
    /// The priority of the version within its group.
    pub version: u32,
}

/// A group version that another server serves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExternalVersion {
    /// The `resources` of an `APIVersionDiscovery`: the last ones that the other server listed.
    pub resources: Arc<Value>,
    /// Whether the other server answered the last time.
    pub is_current: bool,
    /// The URL of its OpenAPI v3 document, if it has one.
    pub v3_url: Option<String>,
    /// Its OpenAPI v2 document, if it has one.
    pub v2: Option<Arc<ExternalSpec>>,
}

/// Additions of APIServices to the served resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Apis {
    /// Grows with every change.
    pub generation: u64,
    /// By group and version.
    pub priorities: BTreeMap<(String, String), Priority>,
    /// By group and version.
    pub external: BTreeMap<(String, String), ExternalVersion>,
}

impl Apis {
    /// Whether another server serves the group version.
    pub fn is_external(&self, group: &str, version: &str) -> bool {
        !self.external.is_empty() && self.external.contains_key(&(group.to_owned(), version.to_owned()))
    }

    pub(super) fn group_priority(&self, group: &str) -> u32 {
        let start = (group.to_owned(), String::new());
        let versions = self.priorities.range(start..).take_while(|((name, _), _)| name == group);
        versions.map(|(_, priority)| priority.group).max().unwrap_or_else(|| order::group_priority(group))
    }

    pub(super) fn version_priority(&self, group: &str, version: &str) -> u32 {
        let found = self.priorities.get(&(group.to_owned(), version.to_owned()));
        found.map_or_else(|| order::version_priority(group, version), |priority| priority.version)
    }
}
