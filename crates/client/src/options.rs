//! Options of requests, as their query strings and bodies.

use apimachinery::ApiResource;
use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    /// 0 means no limit.
    pub limit: usize,
    pub continue_token: Option<String>,
    /// `None` reads the newest state; `Some("0")` takes any the server has at hand.
    pub resource_version: Option<String>,
    /// The objects have their metadata only. A server in this process gives whole objects, which cost nothing there.
    pub metadata_only: bool,
}

#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    /// Changes after this revision.
    pub resource_version: Option<String>,
    /// First everything there is, then a bookmark with `initial_end`, then the changes (WatchList).
    pub send_initial_events: bool,
    pub timeout_seconds: Option<u32>,
    /// As in [`ListOptions`].
    pub metadata_only: bool,
}

/// For creates and updates.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub field_manager: Option<String>,
    pub dry_run: bool,
}

#[derive(Clone, Debug)]
pub enum Patch {
    /// RFC 6902.
    Json(Value),
    /// RFC 7386.
    Merge(Value),
    Strategic(Value),
    /// Server-side apply: `manager` owns what the value sets; `force` takes fields from other owners.
    Apply {
        manager: String,
        force: bool,
        value: Value,
    },
}

#[derive(Clone, Debug, Default)]
pub struct PatchOptions {
    /// For example `status`.
    pub subresource: Option<&'static str>,
    pub field_manager: Option<String>,
    pub dry_run: bool,
    /// A server in this process writes the patch's status too, without the subresource; any other leaves it out.
    pub with_status: bool,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// `Background`, `Foreground` or `Orphan`; `None` takes the kind's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<&'static str>,
}

/// A delete is refused with a conflict unless these still hold.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    pub fn background() -> Self {
        Self { propagation_policy: Some("Background"), ..Self::default() }
    }

    /// Only the very object that was read, not one that took its name since.
    #[must_use]
    pub fn only_uid(mut self, uid: &str) -> Self {
        self.preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        self
    }

    /// Only while the object is as it was read, to the letter.
    #[must_use]
    pub fn only_version(mut self, uid: &str, version: &str) -> Self {
        self.preconditions =
            Some(Preconditions { uid: Some(uid.to_owned()), resource_version: Some(version.to_owned()) });
        self
    }
}

impl ListOptions {
    /// Path and query of the list; `namespace` `None` means all.
    pub fn path(&self, resource: &ApiResource, namespace: Option<&str>) -> String {
        self.query().after(&resource.collection_path(namespace))
    }

    pub fn labels(selector: impl Into<String>) -> Self {
        Self { label_selector: Some(selector.into()), ..Self::default() }
    }

    pub(crate) fn query(&self) -> Query {
        let mut query = Query::default();
        query.optional("labelSelector", self.label_selector.as_deref());
        query.optional("fieldSelector", self.field_selector.as_deref());
        query.optional("continue", self.continue_token.as_deref());
        query.optional("resourceVersion", self.resource_version.as_deref());
        if self.limit > 0 {
            query.add("limit", &self.limit.to_string());
        }
        query
    }
}

impl WatchOptions {
    /// Path and query of the watch; `namespace` `None` means all.
    pub fn path(&self, resource: &ApiResource, namespace: Option<&str>) -> String {
        self.query().after(&resource.collection_path(namespace))
    }

    pub(crate) fn query(&self) -> Query {
        let mut query = Query::default();
        query.add("watch", "true");
        query.add("allowWatchBookmarks", "true");
        query.optional("labelSelector", self.label_selector.as_deref());
        query.optional("fieldSelector", self.field_selector.as_deref());
        query.optional("resourceVersion", self.resource_version.as_deref());
        if self.send_initial_events {
            query.add("sendInitialEvents", "true");
            query.add("resourceVersionMatch", "NotOlderThan");
        }
        if let Some(seconds) = self.timeout_seconds {
            query.add("timeoutSeconds", &seconds.to_string());
        }
        query
    }
}

impl WriteOptions {
    pub(crate) fn query(&self) -> Query {
        let mut query = Query::default();
        query.optional("fieldManager", self.field_manager.as_deref());
        if self.dry_run {
            query.add("dryRun", "All");
        }
        query
    }
}

impl PatchOptions {
    pub fn status() -> Self {
        Self { subresource: Some("status"), ..Self::default() }
    }

    pub(crate) fn query(&self, patch: &Patch) -> Query {
        let mut query = Query::default();
        match patch {
            Patch::Apply { manager, force, .. } => {
                query.add("fieldManager", manager);
                if *force {
                    query.add("force", "true");
                }
            }
            _ => query.optional("fieldManager", self.field_manager.as_deref()),
        }
        if self.dry_run {
            query.add("dryRun", "All");
        }
        query
    }
}

impl Patch {
    pub(crate) fn content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json-patch+json",
            Self::Merge(_) => "application/merge-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
            // Server-side apply takes JSON under this name, as JSON is YAML.
            Self::Apply { .. } => "application/apply-patch+yaml",
        }
    }

    pub(crate) fn value(&self) -> &Value {
        match self {
            Self::Json(value) | Self::Merge(value) | Self::Strategic(value) | Self::Apply { value, .. } => value,
        }
    }
}

/// A query string under construction.
#[derive(Default)]
pub(crate) struct Query(String);

impl Query {
    fn add(&mut self, key: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(key);
        self.0.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.0.push(char::from(byte));
            } else {
                self.0.push_str(&format!("%{byte:02X}"));
            }
        }
    }

    fn optional(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(key, value);
        }
    }

    pub(crate) fn after(&self, path: &str) -> String {
        format!("{path}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_strings() {
        let check = |query: Query, want: &str| assert_eq!(query.after("/p"), want);
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
