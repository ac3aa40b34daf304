//! Sets of paths, stored as a tree, and their `fieldsV1` form.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::path::{ParseElementError, PathElement};
use crate::raw_json::Reader;

/// Deeper parts are owned as one. The JSON decoder reads 128 levels, of which the path to a set takes four
/// (`metadata.managedFields[].fieldsV1`); an object whose sets are deeper could be stored and never be read again.
pub(super) const MAX_DEPTH: usize = 100;

/// A set of paths. Children are sorted and none is empty, so equal sets are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    entries: Vec<(PathElement, Node)>,
}

/// For contexts whose endpoint resets no fields.
pub static NO_FIELDS: FieldSet = FieldSet::EMPTY;

/// The part of a set for one path and the paths below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Whether the path itself is in the set.
    pub member: bool,
    /// The members below the path.
    pub children: FieldSet,
}

/// The document is not `fieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSetError {
    /// A path element is malformed.
    #[error(transparent)]
    Element(#[from] ParseElementError),
    /// A set is not a JSON object.
    #[error("a node of FieldsV1 is not an object")]
    NotAnObject,
    /// The set is nested too deeply.
    #[error("FieldsV1 is deeper than {MAX_DEPTH}")]
    TooDeep,
}

impl Node {
    pub(super) fn member() -> Self {
        Self { member: true, children: FieldSet::EMPTY }
    }

    pub(super) fn is_void(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// The set without members.
    pub const EMPTY: Self = Self { entries: Vec::new() };

    /// Whether the set has no members.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// From paths of field names, e.g. `[&["status"], &["metadata", "labels"]]`.
    pub fn from_paths(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert_fields(path);
        }
        set
    }

    fn insert_fields(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.entry(PathElement::field(first));
        if rest.is_empty() {
            node.member = true;
        } else {
            node.children.insert_fields(rest);
        }
    }

    /// The node of an element, created if it is missing. The caller must make it non-empty.
    pub(super) fn entry(&mut self, element: PathElement) -> &mut Node {
        let at = match self.entries.binary_search_by(|(e, _)| e.cmp(&element)) {
            Ok(at) => at,
            Err(at) => {
                self.entries.insert(at, (element, Node::default()));
                at
            }
        };
        &mut self.entries[at].1
    }

    /// Adds a node unless it is empty. Cheap if elements are added in order.
    pub(super) fn push(&mut self, element: PathElement, node: Node) {
        if node.is_void() {
            return;
        }
        match self.entries.last() {
            Some((last, _)) if *last >= element => {
                let present = self.entry(element);
                present.member |= node.member;
                present.children = std::mem::take(&mut present.children).union(node.children);
            }
            _ => self.entries.push((element, node)),
        }
    }

    /// The path elements of this level, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&PathElement, &Node)> {
        self.entries.iter().map(|(element, node)| (element, node))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&PathElement, &mut Node)> {
        self.entries.iter_mut().map(|(element, node)| (&*element, node))
    }

    pub(super) fn get(&self, element: &PathElement) -> Option<&Node> {
        self.entries.binary_search_by(|(e, _)| e.cmp(element)).ok().map(|at| &self.entries[at].1)
    }

    /// The members of either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut result = Vec::with_capacity(self.entries.len().max(other.entries.len()));
        let (mut left, mut right) = (self.entries.into_iter().peekable(), other.entries.into_iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => return Self { entries: result },
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((a, _)), Some((b, _))) => a.cmp(b),
            };
            match order {
                Ordering::Less => result.extend(left.next()),
                Ordering::Greater => result.extend(right.next()),
                Ordering::Equal => {
                    if let (Some((element, a)), Some((_, b))) = (left.next(), right.next()) {
                        let node = Node { member: a.member || b.member, children: a.children.union(b.children) };
                        result.push((element, node));
                    }
                }
            }
        }
    }

    /// Removes the paths that are in `other`; paths below them stay.
    pub fn subtract(&mut self, other: &Self) {
        self.retain_with(other, |own, others| {
            own.member &= !others.member;
            own.children.subtract(&others.children);
        });
    }

    /// Removes the paths that are in `other` and everything below them.
    pub fn subtract_recursively(&mut self, other: &Self) {
        self.retain_with(other, |own, others| {
            if others.member {
                *own = Node::default();
            } else {
                own.children.subtract_recursively(&others.children);
            }
        });
    }

    fn retain_with(&mut self, other: &Self, change: impl Fn(&mut Node, &Node)) {
        if other.is_empty() {
            return;
        }
        self.entries.retain_mut(|(element, own)| {
            if let Some(others) = other.get(element) {
                change(own, others);
            }
            !own.is_void()
        });
    }

    /// Whether some path is in both sets.
    pub fn intersects(&self, other: &Self) -> bool {
        let both =
            |others: &Node, own: &Node| (others.member && own.member) || own.children.intersects(&others.children);
        !self.is_empty() && other.iter().any(|(element, others)| self.get(element).is_some_and(|own| both(others, own)))
    }

    /// Whether every path of `other` is in this set.
    pub fn contains_all(&self, other: &Self) -> bool {
        let all =
            |others: &Node, own: &Node| (own.member || !others.member) && own.children.contains_all(&others.children);
        other.iter().all(|(element, others)| self.get(element).is_some_and(|own| all(others, own)))
    }

    /// The paths in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut result = Self::default();
        for (element, own) in self.iter() {
            if let Some(others) = other.get(element) {
                let member = own.member && others.member;
                let node = Node { member, children: own.children.intersection(&others.children) };
                result.push(element.clone(), node);
            }
        }
        result
    }

    /// Every path in the set as messages print it: at each level the members, then what is below them.
    ///
    /// ```
    /// use apimachinery::managed_fields::FieldSet;
    ///
    /// let set = FieldSet::from_paths(&[&["spec", "replicas"], &["metadata"]]);
    /// assert_eq!(set.paths(), [".metadata", ".spec.replicas"]);
    /// ```
    pub fn paths(&self) -> Vec<String> {
        let mut result = Vec::new();
        self.collect_paths(&mut String::new(), &mut result);
        result
    }

    fn collect_paths(&self, prefix: &mut String, result: &mut Vec<String>) {
        use std::fmt::Write;
        let members = self.iter().filter(|(_, node)| node.member);
        result.extend(members.map(|(element, _)| format!("{prefix}{element}")));
        for (element, node) in self.iter() {
            let length = prefix.len();
            let _ = write!(prefix, "{element}");
            node.children.collect_paths(prefix, result);
            prefix.truncate(length);
        }
    }

    /// Reads `fieldsV1`.
    ///
    /// # Errors
    /// When the document is not a field set, or is nested too deeply.
    pub fn parse(document: &Value) -> Result<Self, ParseSetError> {
        Ok(parse_node(document, 0)?.children)
    }

    /// Prints `fieldsV1`.
    pub fn to_value(&self) -> Value {
        Value::Object(self.to_map())
    }

    fn to_map(&self) -> Map<String, Value> {
        let mut map = Map::new();
        for (element, node) in self.iter() {
            let mut child = node.children.to_map();
            if node.member && !child.is_empty() {
                child.insert(".".to_owned(), Value::Object(Map::new()));
            }
            map.insert(element.encode(), Value::Object(child));
        }
        map
    }
}

/// Encoded `fieldsV1`, read and written without an intermediate tree.
impl<'de> Deserialize<'de> for FieldSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NodeAt { depth: 0 }.deserialize(deserializer).map(|node| node.children)
    }
}

impl FieldSet {
    /// Reads encoded `fieldsV1`; `None` if the decoder has to.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        read_node(reader, 0).map(|node| node.children)
    }
}

fn read_node(reader: &mut Reader<'_>, depth: usize) -> Option<Node> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut node = Node { member: true, children: FieldSet::default() };
    let (mut empty, mut dot) = (true, false);
    reader.members(|reader, key| {
        empty = false;
        let below = read_node(reader, depth + 1)?;
        if key == "." {
            dot = true;
        } else {
            node.children.push(PathElement::parse(&key).ok()?, below);
        }
        Some(())
    })?;
    node.member = empty || dot;
    Some(node)
}

struct NodeAt {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for NodeAt {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NodeAt {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node of FieldsV1")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        if self.depth > MAX_DEPTH {
            return Err(A::Error::custom(ParseSetError::TooDeep));
        }
        let mut node = Node { member: true, children: FieldSet::default() };
        let (mut empty, mut dot) = (true, false);
        while let Some(Key(key)) = members.next_key()? {
            empty = false;
            let below = members.next_value_seed(NodeAt { depth: self.depth + 1 });
            if key == "." {
                below?;
                dot = true;
            } else {
                node.children.push(PathElement::parse(&key).map_err(A::Error::custom)?, below?);
            }
        }
        node.member = empty || dot;
        Ok(node)
    }
}

/// A key, borrowed if it contains no escapes.
#[derive(serde::Deserialize)]
struct Key<'j>(#[serde(borrow)] Cow<'j, str>);

impl FieldSet {
    /// Appends the encoded `fieldsV1`.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_node(false, out);
    }

    fn write_node(&self, member: bool, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut first = true;
        if member && !self.is_empty() {
            out.extend_from_slice(b"\".\":{}");
            first = false;
        }
        for (element, node) in self.iter() {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            element.write(out);
            out.push(b':');
            node.children.write_node(node.member, out);
        }
        out.push(b'}');
    }
}

/// A node without children is a member; a node with children is one only if it has the child `.`.
fn parse_node(document: &Value, depth: usize) -> Result<Node, ParseSetError> {
    if depth > MAX_DEPTH {
        return Err(ParseSetError::TooDeep);
    }
    let map = document.as_object().ok_or(ParseSetError::NotAnObject)?;
    let mut node = Node { member: map.is_empty(), children: FieldSet::default() };
    for (key, value) in map {
        if key == "." {
            node.member = true;
        } else {
            node.children.push(PathElement::parse(key)?, parse_node(value, depth + 1)?);
        }
    }
    Ok(node)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn fields_v1_round_trips() {
        let document = json!({"f:metadata": {"f:labels": {".": {}, "f:a/b": {}}, "f:finalizers": {"v:\"x\"": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}, "f:l": {"i:3": {}}}});
        let set = FieldSet::parse(&document).expect("valid");
        assert_eq!(set.to_value(), document);
        assert_eq!(
            set.paths(),
            [
                ".metadata.labels",
                ".metadata.finalizers[=\"x\"]",
                ".metadata.labels.a/b",
                ".spec.l[3]",
                ".spec.ports[port=80,protocol=\"TCP\"]",
                ".spec.ports[port=80,protocol=\"TCP\"].port"
            ]
        );
        for bad in
            [json!([]), json!({"x": {}}), json!({"z:1": {}}), json!({"k:1": {}}), json!({"f:a": 1}), json!({"i:x": {}})]
        {
            assert!(FieldSet::parse(&bad).is_err(), "{bad}");
        }
    }

    pub fn any_set() -> impl Strategy<Value = FieldSet> {
        let element = prop_oneof![
            "[a-c]".prop_map(|name| PathElement::field(&name)),
            (0i64..3).prop_map(|n| PathElement::Value(n.into())),
            "[ab\"\\\\é]".prop_map(|name| PathElement::Key(vec![("name".into(), name.into())])),
            (0i64..2, "[tu]")
                .prop_map(|(n, p)| PathElement::Key(vec![("port".into(), n.into()), ("protocol".into(), p.into())])),
            "[\"\\\\\u{1}]".prop_map(|name| PathElement::field(&name)),
        ];
        let path = prop::collection::vec(element, 1..4);
        prop::collection::vec(path, 0..8).prop_map(|paths| {
            let mut set = FieldSet::default();
            for path in paths {
                let mut node = Node::member();
                for element in path.into_iter().rev() {
                    let mut children = FieldSet::default();
                    children.push(element, node);
                    node = Node { member: false, children };
                }
                set = set.union(node.children);
            }
            set
        })
    }

    proptest! {
        #[test]
        fn sets_obey_set_algebra(a in any_set(), b in any_set()) {
            prop_assert_eq!(FieldSet::parse(&a.to_value()), Ok(a.clone()));
            let mut text = Vec::new();
            a.write(&mut text);
            prop_assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), a.to_value());
            prop_assert_eq!(serde_json::from_slice::<FieldSet>(&text).unwrap(), a.clone());
            let text = String::from_utf8(text).unwrap();
            prop_assert_eq!(FieldSet::read(&mut Reader::of(&text)).unwrap(), a.clone());
            let both = a.clone().union(b.clone());
            prop_assert_eq!(&both, &b.clone().union(a.clone()));
            let mut only_a = a.clone();
            only_a.subtract(&b);
            prop_assert!(only_a.intersection(&b).is_empty());
            prop_assert!(!only_a.intersects(&b));
            prop_assert_eq!(a.intersects(&b), !a.intersection(&b).is_empty());
            prop_assert_eq!(a.contains_all(&b), a.intersection(&b) == b);
            prop_assert!(both.contains_all(&a));
            prop_assert_eq!(only_a.union(a.intersection(&b)), a.clone());
            let mut none = both.clone();
            none.subtract_recursively(&both);
            prop_assert!(none.is_empty());
        }
    }
}
