//! Request options as query strings and bodies.

use apimachinery::ApiResource;
use apimachinery::url::Query;
use serde::Serialize;
use serde_json::Value;

/// Options of lists.
///
/// ```
/// use apimachinery::gvk::ApiResource;
/// use client::ListOptions;
///
/// let pods = ApiResource::namespaced("", "v1", "Pod", "pods");
/// let options = ListOptions { limit: 500, ..ListOptions::labels("app=nginx") };
/// let path = options.path(&pods, Some("default"));
/// assert_eq!(path, "/api/v1/namespaces/default/pods?labelSelector=app%3Dnginx&limit=500");
/// ```
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// A label selector in the query's syntax.
    pub label_selector: Option<String>,
    /// A field selector in the query's syntax.
    pub field_selector: Option<String>,
    /// 0 means no limit.
    pub limit: usize,
    /// The token of the previous page.
    pub continue_token: Option<String>,
    /// `None` reads the most recent state; `Some("0")` accepts any state the server has.
    pub resource_version: Option<String>,
    /// Requests the metadata of objects only. A server in this process returns whole objects, at no cost.
    pub metadata_only: bool,
}

/// Options of watches.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// A label selector in the query's syntax.
    pub label_selector: Option<String>,
    /// A field selector in the query's syntax.
    pub field_selector: Option<String>,
    /// Watches changes after this resource version.
    pub resource_version: Option<String>,
    /// The watch starts with all objects and a bookmark with `initial_end` (WatchList).
    pub send_initial_events: bool,
    /// Seconds after which the server ends the watch.
    pub timeout_seconds: Option<u32>,
    /// As in [`ListOptions`].
    pub metadata_only: bool,
}

/// Options of creates and updates.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The manager in `metadata.managedFields`.
    pub field_manager: Option<String>,
    /// The server validates the write and does not store it.
    pub dry_run: bool,
}

/// A patch and its type.
#[derive(Clone, Debug)]
pub enum Patch {
    /// RFC 6902.
    Json(Value),
    /// RFC 7386.
    Merge(Value),
    /// A strategic merge patch, for built-in kinds.
    Strategic(Value),
    /// Server-side apply: `manager` owns the fields of the value; `force` takes over fields of other managers.
    Apply {
        /// The field manager.
        manager: String,
        /// Whether to take over fields of other managers.
        force: bool,
        /// The applied configuration.
        value: Value,
    },
}

/// Options of patches.
#[derive(Clone, Debug, Default)]
pub struct PatchOptions {
    /// For example `status`.
    pub subresource: Option<&'static str>,
    /// The manager in `metadata.managedFields`, except for server-side apply.
    pub field_manager: Option<String>,
    /// The server validates the write and does not store it.
    pub dry_run: bool,
    /// A server in this process writes the patch's status without the subresource; other servers ignore it.
    pub with_status: bool,
}

/// DeleteOptions of the API.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Seconds until the object is removed; `None` uses the kind's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// `Background`, `Foreground` or `Orphan`; `None` uses the kind's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<&'static str>,
    /// Conditions of the deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// `All` for a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<&'static str>,
}

/// The server rejects a delete with a conflict unless these hold.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// The UID of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The resource version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// Background deletion: dependents are deleted after the object.
    pub fn background() -> Self {
        Self { propagation_policy: Some("Background"), ..Self::default() }
    }

    /// Deletes only the object that was read, not one with the same name created later.
    #[must_use]
    pub fn only_uid(mut self, uid: &str) -> Self {
        self.preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        self
    }

    /// Deletes only if the object is unchanged since it was read.
    #[must_use]
    pub fn only_version(mut self, uid: &str, version: &str) -> Self {
        self.preconditions =
            Some(Preconditions { uid: Some(uid.to_owned()), resource_version: Some(version.to_owned()) });
        self
    }
}

impl ListOptions {
    /// Path and query of the list; without a `namespace`, of all namespaces.
    pub fn path(&self, resource: &ApiResource, namespace: Option<&str>) -> String {
        self.query().after(&resource.collection_path(namespace))
    }

    /// Options that select by labels.
    pub fn labels(selector: impl Into<String>) -> Self {
        Self { label_selector: Some(selector.into()), ..Self::default() }
    }

    pub(crate) fn query(&self) -> Query {
        let limit = (self.limit > 0).then(|| self.limit.to_string());
        Query::default()
            .with_some("labelSelector", self.label_selector.as_deref())
            .with_some("fieldSelector", self.field_selector.as_deref())
            .with_some("continue", self.continue_token.as_deref())
            .with_some("resourceVersion", self.resource_version.as_deref())
            .with_some("limit", limit.as_deref())
    }
}

impl WatchOptions {
    /// Path and query of the watch; without a `namespace`, of all namespaces.
    pub fn path(&self, resource: &ApiResource, namespace: Option<&str>) -> String {
        self.query().after(&resource.collection_path(namespace))
    }

    pub(crate) fn query(&self) -> Query {
        let timeout = self.timeout_seconds.map(|seconds| seconds.to_string());
        Query::default()
            .with("watch", "true")
            .with("allowWatchBookmarks", "true")
            .with_some("labelSelector", self.label_selector.as_deref())
            .with_some("fieldSelector", self.field_selector.as_deref())
            .with_some("resourceVersion", self.resource_version.as_deref())
            .with_some("sendInitialEvents", self.send_initial_events.then_some("true"))
            .with_some("resourceVersionMatch", self.send_initial_events.then_some("NotOlderThan"))
            .with_some("timeoutSeconds", timeout.as_deref())
    }
}

impl WriteOptions {
    pub(crate) fn query(&self) -> Query {
        Query::default()
            .with_some("fieldManager", self.field_manager.as_deref())
            .with_some("dryRun", self.dry_run.then_some("All"))
    }
}

impl PatchOptions {
    /// Options of a patch of the subresource `status`.
    pub fn status() -> Self {
        Self { subresource: Some("status"), ..Self::default() }
    }

    pub(crate) fn query(&self, patch: &Patch) -> Query {
        let (manager, force) = match patch {
            Patch::Apply { manager, force, .. } => (Some(manager.as_str()), *force),
            _ => (self.field_manager.as_deref(), false),
        };
        Query::default()
            .with_some("fieldManager", manager)
            .with_some("force", force.then_some("true"))
            .with_some("dryRun", self.dry_run.then_some("All"))
    }
}

impl Patch {
    pub(crate) fn content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json-patch+json",
            Self::Merge(_) => "application/merge-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
            // The media type of server-side apply is YAML, of which JSON is a subset.
            Self::Apply { .. } => "application/apply-patch+yaml",
        }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Json(value) | Self::Merge(value) | Self::Strategic(value) | Self::Apply { value, .. } => value,
        }
    }

    pub(crate) fn value(&self) -> &Value {
        match self {
            Self::Json(value) | Self::Merge(value) | Self::Strategic(value) | Self::Apply { value, .. } => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_strings() {
        let check = |query: Query, expected: &str| assert_eq!(query.after("/p"), expected);
        check(ListOptions::default().query(), "/p");
        check(ListOptions::labels("a=b,c in (d)").query(), "/p?labelSelector=a%3Db%2Cc%20in%20%28d%29");
        check(
            WatchOptions { resource_version: Some("7".into()), send_initial_events: true, ..Default::default() }
                .query(),
            "/p?watch=true&allowWatchBookmarks=true&resourceVersion=7&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        );
        let apply = Patch::Apply { manager: "me".into(), force: true, value: Value::Null };
        check(
            PatchOptions { dry_run: true, ..Default::default() }.query(&apply),
            "/p?fieldManager=me&force=true&dryRun=All",
        );
    }
}
