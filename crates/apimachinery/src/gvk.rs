//! Names of groups, versions, kinds and resources.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::url;

/// An API group and version. The core group is the empty string.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
}

impl GroupVersion {
    /// A group and a version.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// A kind of this group and version.
    pub fn with_kind(&self, kind: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    /// The URL prefix under which the group version is served: `/api/v1` or `/apis/GROUP/VERSION`.
    pub fn url_prefix(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.version) } else { write!(f, "{}/{}", self.group, self.version) }
    }
}

/// The text is not `VERSION` or `GROUP/VERSION`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected GroupVersion string: {0}")]
pub struct ParseGroupVersionError(pub String);

impl FromStr for GroupVersion {
    type Err = ParseGroupVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            None => Ok(Self::new("", text)),
            Some((group, version)) if !version.contains('/') => Ok(Self::new(group, version)),
            Some(_) => Err(ParseGroupVersionError(text.to_owned())),
        }
    }
}

/// A kind in one version of its group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
}

impl GroupVersionKind {
    /// A kind of a group and a version.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// From an object's `apiVersion` and `kind`.
    ///
    /// # Errors
    /// When the apiVersion has more than one slash.
    pub fn from_api_version(api_version: &str, kind: &str) -> Result<Self, ParseGroupVersionError> {
        Ok(api_version.parse::<GroupVersion>()?.with_kind(kind))
    }

    /// The group and the version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    /// The value of an object's `apiVersion`.
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }
}

/// Upstream's form, `apps/v1, Kind=Deployment`; some names are hashes of it.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A resource in one version of its group, as URLs name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The plural, such as `deployments`.
    pub resource: String,
}

impl GroupVersionResource {
    /// A resource of a group and a version.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// The group and the version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    /// `deployments.apps`, or `pods` for the core group: how errors name a resource.
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { [&*self.resource, ".", &self.group].concat() }
    }
}

/// A resource as clients address it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The lower-case plural of the URL, e.g. `deployments`.
    pub plural: String,
    /// Whether objects have a namespace.
    pub namespaced: bool,
}

impl ApiResource {
    /// A resource whose objects have a namespace.
    pub fn namespaced(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            namespaced: true,
        }
    }

    /// A resource whose objects have no namespace.
    pub fn cluster(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self { namespaced: false, ..Self::namespaced(group, version, kind, plural) }
    }

    /// The group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(&self.group, &self.version, &self.kind)
    }

    /// The group, version and plural.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(&self.group, &self.version, &self.plural)
    }

    /// The group and the version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// The apiVersion of its objects: `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { [&*self.group, "/", &self.version].concat() }
    }

    /// The URL path of the collection; `namespace` is ignored for cluster-scoped resources, and `None` means all
    /// namespaces.
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        self.path(namespace, ["", ""])
    }

    /// The URL path of one object. Names of roles may contain any character except `/` and `%`, and references in objects
    /// and flags may have any text: without escapes, a `?` in a name would request another object.
    ///
    /// ```
    /// use apimachinery::{ApiResource, ObjectKey};
    ///
    /// let roles = ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
    /// let path = roles.object_path(&ObjectKey::cluster("system:my role?"));
    /// assert_eq!(path, "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:my%20role%3F");
    /// ```
    pub fn object_path(&self, key: &crate::ObjectKey) -> String {
        self.path(key.namespace(), ["/", &Cow::from(url::segment(key.name()))])
    }

    fn path(&self, namespace: Option<&str>, end: [&str; 2]) -> String {
        let root = if self.group.is_empty() { ["/api", "", ""] } else { ["/apis", "/", &self.group] };
        let (between, namespace) = match namespace.filter(|_| self.namespaced) {
            Some(namespace) => ("/namespaces/", Cow::from(url::segment(namespace))),
            None => ("", "".into()),
        };
        let parts = [root[0], root[1], root[2], "/", &self.version, between, &namespace, "/", &self.plural];
        [&parts[..], &end[..]].concat().concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_version_round_trips_through_text() {
        for text in ["v1", "apps/v1", "policy.karmada.io/v1alpha1"] {
            assert_eq!(text.parse::<GroupVersion>().map(|gv| gv.to_string()).as_deref(), Ok(text));
        }
        assert!("a/b/c".parse::<GroupVersion>().is_err());
    }

    #[test]
    fn names_cannot_leave_their_segment() {
        let pods = ApiResource::namespaced("", "v1", "Pod", "pods");
        for (name, expected) in [
            ("web-1.a", "web-1.a"),
            ("system:a@b", "system:a@b"),
            ("a?dryRun=All", "a%3FdryRun=All"),
            ("a/../b#c", "a%2F..%2Fb%23c"),
            ("50%", "50%25"),
            ("r\u{f4}le\n", "r%C3%B4le%0A"),
        ] {
            let path = pods.object_path(&crate::ObjectKey::namespaced("n", name));
            assert_eq!(path, format!("/api/v1/namespaces/n/pods/{expected}"));
        }
        let path = pods.object_path(&crate::ObjectKey::namespaced("n/secrets?", "a"));
        assert_eq!(path, "/api/v1/namespaces/n%2Fsecrets%3F/pods/a");
    }
}
