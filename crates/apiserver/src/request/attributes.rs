//! The attributes of a request for authorizers.

/// The attributes of a request, derived from its URL and method alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// A request for a resource.
    Resource(ResourceAttributes),
    /// A path outside the resource space, with the lower-case HTTP method as verb.
    Path {
        /// The lower-case HTTP method.
        verb: String,
        /// The path.
        path: String,
    },
}

/// The attributes of a request for a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or one of the special verbs
    /// (`impersonate`, `bind`, `escalate`, `approve`, `sign`).
    pub verb: String,
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural.
    pub resource: String,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped requests and for requests across all namespaces.
    pub namespace: String,
    /// Empty when the request names no object.
    pub name: String,
    /// The selectors of a list, watch or deletecollection. Only webhooks decide by them.
    pub selectors: Option<Box<Selectors>>,
}

/// The selectors of a request, as in its URL; empty without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    /// `fieldSelector`.
    pub field: String,
    /// `labelSelector`.
    pub label: String,
}

impl Selectors {
    /// `None` if both are empty.
    pub fn of(field: &str, label: &str) -> Option<Box<Self>> {
        let is_set = !field.is_empty() || !label.is_empty();
        is_set.then(|| Box::new(Self { field: field.to_owned(), label: label.to_owned() }))
    }
}

impl ResourceAttributes {
    /// `pods` or `pods/log`.
    pub fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}
