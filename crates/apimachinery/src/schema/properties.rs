//! The properties of a node, by name: sorted, and found by a hash, because every walk over a document looks up every
//! field.

use std::ops::Index;
use std::sync::OnceLock;

use super::Property;

/// Few names are compared one after the other sooner than hashed.
const FEW: usize = 3;
/// A name is at most this many slots from the one of its hash; other names are found by bisection. So chosen names
/// cannot make lookups slow.
const LONGEST: usize = 16;
const FREE: u16 = u16::MAX;

/// The properties of an object, sorted by name.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    /// Sorted by name.
    entries: Vec<(Box<str>, Property)>,
    /// Positions in `entries`, by hash; computed on first use, empty if names are found by binary search.
    places: OnceLock<Box<[u16]>>,
}

impl PartialEq for Properties {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Properties {
    /// The property of a name.
    pub fn get(&self, name: &str) -> Option<&Property> {
        if self.entries.len() <= FEW {
            return self.entries.iter().find(|(other, _)| **other == *name).map(|(_, property)| property);
        }
        let places = self.places.get_or_init(|| self.arranged());
        if places.is_empty() {
            let at = self.entries.binary_search_by(|(other, _)| (**other).cmp(name)).ok()?;
            return Some(&self.entries[at].1);
        }
        let mask = places.len() - 1;
        let mut at = hash(name) & mask;
        loop {
            // A position refers to an entry, or to none.
            let (other, property) = self.entries.get(usize::from(places[at]))?;
            if **other == *name {
                return Some(property);
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether there is a property of this name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Adds a property, or replaces the one of that name.
    pub fn insert(&mut self, name: Box<str>, property: Property) {
        self.places.take();
        match self.entries.binary_search_by(|(other, _)| other.cmp(&name)) {
            Ok(at) => self.entries[at].1 = property,
            Err(at) => self.entries.insert(at, (name, property)),
        }
    }

    /// The number of properties.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no properties.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// In the order of their names.
    pub fn iter(&self) -> Iter<'_> {
        self.entries.iter().map(|(name, property)| (name, property))
    }

    /// The names.
    pub fn keys(&self) -> impl Iterator<Item = &Box<str>> {
        self.entries.iter().map(|(name, _)| name)
    }

    /// The properties.
    pub fn values(&self) -> impl Iterator<Item = &Property> {
        self.entries.iter().map(|(_, property)| property)
    }

    /// The properties, for changes.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Property> {
        self.entries.iter_mut().map(|(_, property)| property)
    }

    /// Half of the places stay free at least, so that a search ends.
    fn arranged(&self) -> Box<[u16]> {
        let size = (self.entries.len() * 2).next_power_of_two();
        if size > usize::from(FREE) {
            return Box::default();
        }
        let mut places = vec![FREE; size].into_boxed_slice();
        for (index, (name, _)) in (0u16..).zip(&self.entries) {
            let first = hash(name);
            let Some(at) = (0..LONGEST).map(|n| (first + n) & (size - 1)).find(|at| places[*at] == FREE) else {
                return Box::default();
            };
            places[at] = index;
        }
        places
    }
}

/// Names are short; this is faster than a hash that resists attackers.
fn hash(name: &str) -> usize {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let (words, rest) = name.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let hash = words.iter().fold(name.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    (mix(hash, u64::from_le_bytes(last)) >> 40) as usize
}

type Entry = (Box<str>, Property);
type Iter<'p> = std::iter::Map<std::slice::Iter<'p, Entry>, fn(&'p Entry) -> (&'p Box<str>, &'p Property)>;

impl<'p> IntoIterator for &'p Properties {
    type Item = (&'p Box<str>, &'p Property);
    type IntoIter = Iter<'p>;

    fn into_iter(self) -> Iter<'p> {
        self.iter()
    }
}

impl FromIterator<(Box<str>, Property)> for Properties {
    fn from_iter<I: IntoIterator<Item = (Box<str>, Property)>>(properties: I) -> Self {
        let mut all = Self::default();
        properties.into_iter().for_each(|(name, property)| all.insert(name, property));
        all
    }
}

impl Index<&str> for Properties {
    type Output = Property;

    fn index(&self, name: &str) -> &Property {
        self.get(name).expect("the caller knows that there is such a property")
    }
}

#[cfg(test)]
mod tests {
    use super::super::SchemaId;
    use super::*;

    #[test]
    fn names_are_found_and_stay_in_order() {
        for count in [0, 1, FEW, FEW + 1, 40, 5000] {
            let names = (0..count).rev().map(|n| (format!("name{n}").into(), Property::new(SchemaId(n as u32))));
            let mut all: Properties = names.collect();
            for n in 0..count {
                let name = format!("name{n}");
                assert_eq!(
                    all.get(&name).map(|property| property.schema),
                    Some(SchemaId(n as u32)),
                    "{name} of {count}"
                );
            }
            assert!(!all.contains_key("") && !all.contains_key("name") && !all.contains_key("name00000000000000000"));
            assert!(all.keys().is_sorted());
            all.insert("name0".into(), Property::new(SchemaId(7)));
            assert_eq!((all.len(), all["name0"].schema), (count.max(1), SchemaId(7)));
        }
    }

    #[test]
    fn names_with_equal_hashes_are_found() {
        // The hash omits names that do not fit.
        let mut by_hash = std::collections::HashMap::<usize, Vec<String>>::new();
        for n in 0..200_000 {
            let name = format!("n{n}");
            by_hash.entry(hash(&name) & 127).or_default().push(name);
        }
        let same = by_hash.into_values().next().expect("there are names");
        let same: Vec<_> = same.into_iter().take(60).collect();
        let all: Properties = same.iter().map(|name| (name.as_str().into(), Property::new(SchemaId(1)))).collect();
        assert!(same.len() > LONGEST && same.iter().all(|name| all.contains_key(name)));
        assert!(!all.contains_key("other"));
    }
}
