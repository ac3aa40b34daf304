//! The order of groups, and of the versions of a group.

pub use apimachinery::versions::compare_versions;

/// `groupPriorityMinimum` of the built-in groups; all other groups are of custom resources, with a lower priority.
const GROUPS: [(&str, u32); 21] = [
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("admissionregistration.k8s.io", 16_700),
    ("apiextensions.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("resource.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    ("apiregistration.k8s.io", 20_000),
];

pub const CUSTOM: u32 = 1_000;
/// All versions of a custom resource have the same, so that the order of version names decides.
pub const CUSTOM_VERSION: u32 = 100;

pub fn group_priority(group: &str) -> u32 {
    GROUPS.iter().find(|(name, _)| *name == group).map_or(CUSTOM, |(_, priority)| *priority)
}

/// Whether it is a group of Kubernetes.
pub fn is_known(group: &str) -> bool {
    GROUPS.iter().any(|(name, _)| *name == group)
}

/// `versionPriority` of a version: of a built-in one, or of a custom resource's.
pub fn version_priority(group: &str, version: &str) -> u32 {
    match (group, version) {
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("flowcontrol.apiserver.k8s.io", "v1") => 21,
        (group, _) if group_priority(group) == CUSTOM => CUSTOM_VERSION,
        (_, version) if version.contains("alpha") => 1,
        (_, version) if version.contains("beta") => 9,
        _ => 15,
    }
}
