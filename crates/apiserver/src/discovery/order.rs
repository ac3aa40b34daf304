//! The order of groups, and of the versions of a group.

pub use apimachinery::versions::compare_versions;

/// `groupPriorityMinimum` of the built-in groups; everything else is a custom resource's group, below them all.
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

const CUSTOM: u32 = 1_000;

pub fn group_priority(group: &str) -> u32 {
    GROUPS.iter().find(|(name, _)| *name == group).map_or(CUSTOM, |(_, priority)| *priority)
}

/// `versionPriority` of a built-in version: `place` counts the versions of the group from the preferred one.
pub fn version_priority(group: &str, place: usize) -> u32 {
    match (group, place) {
        ("", _) => 1,
        ("autoscaling", 0) => 30,
        ("events.k8s.io", 0) => 15,
        _ => 15u32.saturating_sub(u32::try_from(place).unwrap_or(u32::MAX)).max(1),
    }
}
