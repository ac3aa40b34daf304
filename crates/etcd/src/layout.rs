//! The keys of the store in etcd: the layout of kube-apiserver. The store has `/registry/GROUP/PLURAL/[NAMESPACE/]NAME`
//! for every resource; kube-apiserver omits the group of built-in resources and has historic names for some. The caller
//! passes the table of those resources; other resources keep their path under the prefix.
//!
//! Keys of the store outside `/registry/` are at `PREFIX/karmada-rs/keys/`, so every key has a location, and
//! kube-apiserver reads none of them.

use bytes::Bytes;
use storage::KeyRange;

const STORE_ROOT: &[u8] = b"/registry/";
/// The part of the layout that belongs to this program.
const OWN: &str = "karmada-rs/";

/// A bijection between keys of the store and keys of etcd under a prefix.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Ends with a slash.
    root: Bytes,
    /// By their place in the store.
    rows: Vec<Row>,
    /// Indices of `rows` by their place in etcd.
    by_etcd: Vec<usize>,
    /// In the order of the store's keys, without gaps.
    regions: Vec<Region>,
}

#[derive(Clone, Debug)]
struct Row {
    store: Bytes,
    etcd: Bytes,
}

/// Adjacent keys of the store that have a common prefix replaced.
#[derive(Clone, Debug)]
struct Region {
    /// A range of the store; an empty end is the end of all keys.
    keys: KeyRange,
    /// The prefix that `to` replaces.
    from: Bytes,
    to: Bytes,
    /// Parts of etcd between the region's keys that belong to other regions.
    holes: Vec<KeyRange>,
}

impl Layout {
    /// `places` has `GROUP/PLURAL` in the store and the path in etcd: `("core/services", "services/specs")`.
    pub fn new<'a>(prefix: &str, places: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let root = Bytes::from(match prefix.trim_matches('/') {
            "" => "/".to_owned(),
            prefix => format!("/{prefix}/"),
        });
        let joined = |root: &[u8], path: &str| Bytes::from([root, path.as_bytes(), b"/"].concat());
        let row = |(store, etcd)| Row { store: joined(STORE_ROOT, store), etcd: joined(&root, etcd) };
        let mut rows: Vec<_> = places.into_iter().map(row).collect();
        rows.sort_by(|a, b| a.store.cmp(&b.store));
        rows.dedup_by(|a, b| a.store == b.store);
        let mut by_etcd: Vec<_> = (0..rows.len()).collect();
        by_etcd.sort_by(|a, b| rows[*a].etcd.cmp(&rows[*b].etcd));
        let mut layout = Self { root, rows, by_etcd, regions: Vec::new() };
        layout.regions = layout.divided();
        layout
    }

    fn divided(&self) -> Vec<Region> {
        let own = [&self.root[..], OWN.as_bytes()].concat();
        let keys: Bytes = [&own[..], b"keys/"].concat().into();
        let mut holes: Vec<_> = self.rows.iter().map(|row| KeyRange::prefix(row.etcd.clone())).collect();
        holes.push(KeyRange::prefix(own));
        holes.sort_by(|a, b| a.start.cmp(&b.start));
        let root = KeyRange::prefix(STORE_ROOT);
        let outside = |start: Bytes, end: Bytes| Region {
            keys: KeyRange { start, end },
            from: Bytes::new(),
            to: keys.clone(),
            holes: Vec::new(),
        };
        let gap = |start: Bytes, end: Bytes| Region {
            keys: KeyRange { start, end },
            from: Bytes::from_static(STORE_ROOT),
            to: self.root.clone(),
            holes: holes.clone(),
        };
        let mut regions = vec![outside(Bytes::new(), root.start.clone())];
        let mut at = root.start.clone();
        for row in &self.rows {
            let keys = KeyRange::prefix(row.store.clone());
            regions.push(gap(at, keys.start.clone()));
            at = keys.end.clone();
            regions.push(Region { keys, from: row.store.clone(), to: row.etcd.clone(), holes: Vec::new() });
        }
        regions.push(gap(at, root.end.clone()));
        regions.push(outside(root.end, Bytes::new()));
        regions
    }

    /// All keys in etcd.
    pub fn everything(&self) -> KeyRange {
        KeyRange::prefix(self.root.clone())
    }

    /// A key within [`Layout::everything`] that is no key of the store: writing it makes every watch of everything
    /// report the revision.
    pub fn marker(&self) -> Bytes {
        [&self.root[..], OWN.as_bytes(), b"progress"].concat().into()
    }

    /// The record of the last compaction.
    pub(crate) fn compaction(&self) -> Bytes {
        [&self.root[..], OWN.as_bytes(), b"compaction"].concat().into()
    }

    /// The place of a store's key in etcd.
    pub fn to_etcd(&self, key: &[u8]) -> Bytes {
        let at = self.regions.partition_point(|region| region.keys.start <= key);
        // The first region begins with the first key there is.
        let Some(region) = self.regions.get(at.saturating_sub(1)) else { return Bytes::copy_from_slice(key) };
        region.translated(key)
    }

    /// The store's key of a key in etcd; `None` if it is no key of the store.
    pub fn to_store(&self, key: &[u8]) -> Option<Bytes> {
        let rest = key.strip_prefix(&self.root[..])?;
        if let Some(own) = rest.strip_prefix(OWN.as_bytes()) {
            return own.strip_prefix(b"keys/").map(Bytes::copy_from_slice);
        }
        let at = self.by_etcd.partition_point(|row| self.rows[*row].etcd <= key);
        let row = at.checked_sub(1).map(|at| &self.rows[self.by_etcd[at]]);
        Some(match row.and_then(|row| Some((row, key.strip_prefix(&row.etcd[..])?))) {
            Some((row, rest)) => [&row.store[..], rest].concat().into(),
            None => [STORE_ROOT, rest].concat().into(),
        })
    }

    /// The parts of etcd that hold the keys of a range, and no others, in the order of the store's keys.
    pub fn ranges(&self, range: &KeyRange) -> Vec<KeyRange> {
        let mut parts = Vec::new();
        for region in &self.regions {
            let start = range.start.clone().max(region.keys.start.clone());
            let end = earlier(&range.end, &region.keys.end);
            if !end.is_empty() && start >= end {
                continue;
            }
            let end = if end == region.keys.end && !end.starts_with(&region.from) || end.is_empty() {
                KeyRange::prefix(region.to.clone()).end
            } else {
                region.translated(&end)
            };
            parts.extend(without(KeyRange { start: region.translated(&start), end }, &region.holes));
        }
        parts
    }
}

impl Region {
    fn translated(&self, key: &[u8]) -> Bytes {
        [&self.to[..], key.strip_prefix(&self.from[..]).unwrap_or_default()].concat().into()
    }
}

/// The smaller of two ends; an empty one is the end of all keys.
fn earlier(a: &Bytes, b: &Bytes) -> Bytes {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b.clone(),
        (_, true) => a.clone(),
        _ => a.min(b).clone(),
    }
}

/// The remaining ranges of a range with an end; the holes are ordered and do not overlap.
fn without(range: KeyRange, holes: &[KeyRange]) -> Vec<KeyRange> {
    let mut parts = Vec::new();
    let mut start = range.start;
    for hole in holes.iter().filter(|hole| hole.end > start && hole.start < range.end).cloned().collect::<Vec<_>>() {
        if start < hole.start {
            parts.push(KeyRange { start: start.clone(), end: hole.start });
        }
        start = start.max(hole.end);
    }
    if start < range.end {
        parts.push(KeyRange { start, end: range.end });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: [(&str, &str); 6] = [
        ("core/services", "services/specs"),
        ("core/endpoints", "services/endpoints"),
        ("core/nodes", "minions"),
        ("core/configmaps", "configmaps"),
        ("apps/deployments", "deployments"),
        ("rbac.authorization.k8s.io/roles", "roles"),
    ];

    #[test]
    fn keys_are_where_kube_apiserver_has_them() {
        let layout = Layout::new("/registry", PLACES);
        let rows = [
            ("/registry/core/services/ns/a", "/registry/services/specs/ns/a"),
            ("/registry/core/endpoints/ns/a", "/registry/services/endpoints/ns/a"),
            ("/registry/core/nodes/a", "/registry/minions/a"),
            ("/registry/core/configmaps/ns/a", "/registry/configmaps/ns/a"),
            ("/registry/apps/deployments/ns/a", "/registry/deployments/ns/a"),
            ("/registry/rbac.authorization.k8s.io/roles/ns/a", "/registry/roles/ns/a"),
            ("/registry/work.karmada.io/works/ns/a", "/registry/work.karmada.io/works/ns/a"),
            ("/registry/apps/others/ns/a", "/registry/apps/others/ns/a"),
            ("/registry/", "/registry/"),
            ("/a", "/registry/karmada-rs/keys//a"),
            ("/s", "/registry/karmada-rs/keys//s"),
            ("", "/registry/karmada-rs/keys/"),
            ("\u{fe}", "/registry/karmada-rs/keys/\u{fe}"),
        ];
        for (store, etcd) in rows {
            assert_eq!(layout.to_etcd(store.as_bytes()), etcd, "{store}");
            assert_eq!(layout.to_store(etcd.as_bytes()).as_deref(), Some(store.as_bytes()), "{etcd}");
        }
        for other in [
            "/registry",
            "/other/a",
            "compact_rev_key",
            "/registry/karmada-rs/progress",
            "/registry/karmada-rs/compaction",
        ] {
            assert_eq!(layout.to_store(other.as_bytes()), None, "{other}");
        }
        assert!(layout.everything().contains(&layout.marker()));
        assert_eq!(Layout::new("fleet/a/", []).to_etcd(b"/registry/g.x/ys/z"), "/fleet/a/g.x/ys/z");
        assert_eq!(Layout::new("", []).to_etcd(b"/registry/g.x/ys/z"), "/g.x/ys/z");
    }

    fn shown(ranges: &[KeyRange]) -> Vec<String> {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        ranges.iter().map(|range| format!("{} {}", text(&range.start), text(&range.end))).collect()
    }

    #[test]
    fn a_resource_is_one_range() {
        let layout = Layout::new("/registry", PLACES);
        for (prefix, expected) in [
            ("/registry/core/services/", "/registry/services/specs/ /registry/services/specs0"),
            ("/registry/core/services/ns/", "/registry/services/specs/ns/ /registry/services/specs/ns0"),
            ("/registry/work.karmada.io/works/", "/registry/work.karmada.io/works/ /registry/work.karmada.io/works0"),
            ("/k", "/registry/karmada-rs/keys//k /registry/karmada-rs/keys//l"),
        ] {
            assert_eq!(shown(&layout.ranges(&KeyRange::prefix(prefix))), [expected], "{prefix}");
        }
        let none = KeyRange { start: "/c".into(), end: "/a".into() };
        assert_eq!(layout.ranges(&none), []);
    }

    /// Every key is in exactly the ranges that it belongs to, and reading them in order yields the keys in order.
    #[test]
    fn ranges_hold_their_keys_once_and_in_order() {
        let layout = Layout::new("/registry", PLACES);
        let mut keys: Vec<String> = ["", "/", "/a", "/registry", "/registry0", "/z", "~"].map(str::to_owned).into();
        for place in
            ["core/services", "core/endpoints", "core/nodes", "apps/deployments", "apps/x", "a.io/as", "s.io/b"]
        {
            keys.extend(["a", "ns/a", "ns/b", "z/z"].map(|name| format!("/registry/{place}/{name}")));
        }
        keys.sort();
        let mut ends: Vec<Bytes> = keys.iter().map(|key| Bytes::from(key.clone())).collect();
        ends.extend(["/registry/", "/registry/core/", "/registry/core0"].map(Bytes::from));
        for start in &ends {
            for end in ends.iter().chain([&Bytes::new()]) {
                let range = KeyRange { start: start.clone(), end: end.clone() };
                let mut found = Vec::new();
                for part in layout.ranges(&range) {
                    let mut inside: Vec<_> = keys
                        .iter()
                        .map(|key| layout.to_etcd(key.as_bytes()))
                        .filter(|key| part.contains(key))
                        .collect();
                    inside.sort();
                    found.extend(inside.iter().filter_map(|key| layout.to_store(key)));
                    assert!(!part.contains(&layout.marker()), "{part:?}");
                }
                let expected: Vec<_> = keys.iter().filter(|key| range.contains(key.as_bytes())).cloned().collect();
                assert_eq!(found, expected, "{range:?}");
            }
        }
    }
}
