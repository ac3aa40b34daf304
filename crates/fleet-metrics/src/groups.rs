//! The group versions, with the priorities of upstream's APIServices.

/// The annotation and pseudo label that names the cluster of a value.
pub const CLUSTER: &str = "resource.karmada.io/query-from-cluster";

/// `metrics.k8s.io`
pub const RESOURCE: &str = "metrics.k8s.io";
/// `custom.metrics.k8s.io`
pub const CUSTOM: &str = "custom.metrics.k8s.io";
/// `external.metrics.k8s.io`
pub const EXTERNAL: &str = "external.metrics.k8s.io";

/// A group version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupVersion {
    /// The group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// `groupPriorityMinimum` and `versionPriority` of its APIService.
    pub priorities: (u32, u32),
}

/// Every group version.
pub const ALL: [GroupVersion; 4] = [
    GroupVersion { group: RESOURCE, version: "v1beta1", priorities: (2000, 10) },
    GroupVersion { group: CUSTOM, version: "v1beta1", priorities: (100, 200) },
    GroupVersion { group: CUSTOM, version: "v1beta2", priorities: (100, 200) },
    GroupVersion { group: EXTERNAL, version: "v1beta1", priorities: (100, 200) },
];

/// The group version of these names.
pub fn find(group: &str, version: &str) -> Option<GroupVersion> {
    ALL.into_iter().find(|it| it.group == group && it.version == version)
}

/// The group version of `/apis/GROUP/VERSION`, its OpenAPI document, and every path below.
pub fn of_path(path: &str) -> Option<GroupVersion> {
    let path = path.strip_prefix("/openapi/v3").unwrap_or(path);
    let mut segments = path.strip_prefix("/apis/")?.split('/');
    find(segments.next()?, segments.next()?)
}

impl GroupVersion {
    /// `GROUP/VERSION`.
    pub fn api_version(self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (path, expected) in [
            ("/apis/metrics.k8s.io/v1beta1", Some("metrics.k8s.io/v1beta1")),
            ("/apis/custom.metrics.k8s.io/v1beta2/namespaces/a/pods/x/m", Some("custom.metrics.k8s.io/v1beta2")),
            ("/openapi/v3/apis/external.metrics.k8s.io/v1beta1", Some("external.metrics.k8s.io/v1beta1")),
            ("/apis/metrics.k8s.io/v1", None),
            ("/apis/metrics.k8s.io", None),
            ("/api/v1/pods", None),
        ] {
            assert_eq!(of_path(path).map(GroupVersion::api_version).as_deref(), expected, "{path}");
        }
    }
}
