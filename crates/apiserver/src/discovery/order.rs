//! Which group comes first, and which version of it clients should prefer.

use std::cmp::{Ordering, Reverse};

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

/// Preferred versions first: general availability before beta before alpha, higher numbers before lower, and names of
/// another form last, in alphabetical order.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
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

/// `v2` is (2, 2, 0), `v1beta3` is (1, 1, 3), `v1alpha1` is (0, 1, 1): stage, major, minor.
fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    for (stage, word) in [(1, "beta"), (0, "alpha")] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stage, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_are_ordered_as_clients_prefer_them() {
        let mut versions =
            ["foo1", "v1alpha1", "v10beta3", "v2", "v11alpha2", "v1", "v1beta1", "v10", "bar", "v3beta1"];
        versions.sort_by(|a, b| super::compare_versions(a, b));
        let expected = ["v10", "v2", "v1", "v10beta3", "v3beta1", "v1beta1", "v11alpha2", "v1alpha1", "bar", "foo1"];
        assert_eq!(versions, expected);
    }
}
