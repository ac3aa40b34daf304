//! Values of an encoded object at fixed paths, found in one walk that skips all others.

use std::ops::Range;

use serde_json::{Map, Value};

use super::members;

/// Paths of member names.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    all: Vec<Box<[Box<str>]>>,
    root: Node,
}

/// The paths to find in an object.
#[derive(Clone, Debug, Default)]
struct Node {
    /// The path that ends here, by its place.
    place: Option<usize>,
    members: Vec<(Box<str>, Node)>,
}

/// The positions of the values of [`Paths`] in a document, by the index of their path.
pub type Places = Vec<Option<Range<usize>>>;

impl Paths {
    /// Adds a path; the same one twice is one. Names must be ones that JSON does not escape.
    pub fn add<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) -> usize {
        let names: Box<[Box<str>]> = names.into_iter().map(Box::from).collect();
        let mut node = &mut self.root;
        for name in &names {
            let at = node.members.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
                node.members.push((name.clone(), Node::default()));
                node.members.len() - 1
            });
            node = &mut node.members[at].1;
        }
        let all = &mut self.all;
        *node.place.get_or_insert_with(|| {
            all.push(names);
            all.len() - 1
        })
    }

    /// Those of the paths, each once, that are not within others of them: a tree of these holds the values of all.
    pub fn outermost(&self, places: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut places: Vec<usize> = places.into_iter().collect();
        places.sort_unstable();
        places.dedup();
        let within = |place: usize, other: usize| place != other && self.all[place].starts_with(&self.all[other]);
        let is_outermost = |place: &usize| !places.iter().any(|other| within(*place, *other));
        places.iter().copied().filter(is_outermost).collect()
    }

    /// The positions of the values; the allocation of `places` is reused.
    pub fn find(&self, json: &[u8], places: &mut Places) {
        places.clear();
        places.resize(self.all.len(), None);
        self.root.find(json, 0..json.len(), places);
    }

    /// A tree of only the values at the `requested` paths. None may be within another.
    ///
    /// # Errors
    /// When one of the values is not JSON.
    pub fn tree(&self, json: &[u8], places: &Places, requested: &[usize]) -> Result<Value, serde_json::Error> {
        let mut tree = Value::Object(Map::new());
        for place in requested {
            if let (Some(names), Some(Some(span))) = (self.all.get(*place), places.get(*place)) {
                put(&mut tree, names, serde_json::from_slice(&json[span.clone()])?);
            }
        }
        Ok(tree)
    }
}

impl Node {
    fn find(&self, json: &[u8], span: Range<usize>, places: &mut Places) {
        if !self.members.is_empty() {
            for (name, value) in members(&json[span.clone()]) {
                let value = span.start + value.start..span.start + value.end;
                if let Some((_, node)) = self.members.iter().find(|(requested, _)| requested.as_bytes() == name) {
                    node.find(json, value, places);
                }
            }
        }
        if let Some(place) = self.place {
            places[place] = Some(span);
        }
    }
}

fn put(tree: &mut Value, names: &[Box<str>], value: Value) {
    match (names, tree) {
        ([], tree) => *tree = value,
        ([first, rest @ ..], Value::Object(map)) => {
            put(map.entry(&**first).or_insert_with(|| Value::Object(Map::new())), rest, value);
        }
        // Other values have no members.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::value;
    use super::*;

    /// The values at the paths as decoding finds them.
    fn decoded<'v>(tree: &'v Value, paths: &[&[&str]]) -> Vec<Option<&'v Value>> {
        paths.iter().map(|path| path.iter().try_fold(tree, |at, name| at.get(name))).collect()
    }

    proptest! {
        #[test]
        fn values_at_paths_equal_those_of_the_decoder(tree in value(), pretty in any::<bool>()) {
            let paths: [&[&str]; 6] = [&["a"], &["a", "b"], &["b", "a", "c"], &["c"], &["c", "aa"], &["bb"]];
            let mut all = Paths::default();
            let own: Vec<usize> = paths.iter().map(|path| all.add(path.iter().copied())).collect();
            prop_assert_eq!(all.add(["a", "b"]), own[1]);
            let text = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
            let (json, mut places) = (text.unwrap().into_bytes(), Places::new());
            all.find(&json, &mut places);
            let at = |place: usize| {
                let span = places[place].clone()?;
                Some(serde_json::from_slice::<Value>(&json[span]).unwrap())
            };
            let found: Vec<_> = own.iter().map(|place| at(*place)).collect();
            prop_assert_eq!(found.iter().map(Option::as_ref).collect::<Vec<_>>(), decoded(&tree, &paths));
            let outermost = all.outermost(own.iter().copied());
            prop_assert_eq!(&outermost, &[own[0], own[2], own[3], own[5]]);
            let part = all.tree(&json, &places, &outermost).unwrap();
            prop_assert_eq!(decoded(&part, &paths), decoded(&tree, &paths));
        }
    }
}
