//! The order of API versions by preference.

use std::cmp::{Ordering, Reverse};

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
