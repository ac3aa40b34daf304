//! Duplicate keys in a YAML document, with their lines.

use std::collections::HashSet;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

use super::options;
use crate::strict::MAX_FINDINGS;

/// The repeated keys of a document that is otherwise fine: `line 7: key "k" already set in map`.
pub(super) fn keys(text: &str) -> Vec<String> {
    let read = serde_saphyr::from_str_with_options::<Repeated>(text, options(DuplicateKeyPolicy::LastWins));
    read.map(|Repeated(found)| found).unwrap_or_default()
}

/// The duplicate keys of a node and those below it.
struct Repeated(Vec<String>);

impl Repeated {
    fn nothing<E>() -> Result<Self, E> {
        Ok(Self(Vec::new()))
    }

    fn add(&mut self, more: impl IntoIterator<Item = String>) {
        let most = MAX_FINDINGS.saturating_sub(self.0.len());
        self.0.extend(more.into_iter().take(most));
    }
}

impl<'de> serde::Deserialize<'de> for Repeated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes)
    }
}

struct Nodes;

impl<'de> Visitor<'de> for Nodes {
    type Value = Repeated;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any YAML")
    }

    fn visit_unit<E>(self) -> Result<Repeated, E> {
        Repeated::nothing()
    }

    fn visit_none<E>(self) -> Result<Repeated, E> {
        Repeated::nothing()
    }

    fn visit_bool<E>(self, _: bool) -> Result<Repeated, E> {
        Repeated::nothing()
    }

    fn visit_i64<E>(self, _: i64) -> Result<Repeated, E> {
        Repeated::nothing()
    }

    fn visit_u64<E>(self, _: u64) -> Result<Repeated, E> {
        Repeated::nothing()
    }

    fn visit_f64<E>(self, _: f64) -> Result<Repeated, E> {
        Repeated::nothing()
    }

    fn visit_str<E>(self, _: &str) -> Result<Repeated, E> {
        Repeated::nothing()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Repeated, A::Error> {
        let mut found = Repeated(Vec::new());
        while let Some(Repeated(below)) = items.next_element()? {
            found.add(below);
        }
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Repeated, A::Error> {
        let (mut found, mut seen) = (Repeated(Vec::new()), HashSet::new());
        while let Some(key) = members.next_key::<Spanned<String>>()? {
            let line = key.defined.line();
            if seen.contains(&key.value) {
                found.add([format!("line {line}: key {:?} already set in map", key.value)]);
            }
            seen.insert(key.value);
            let Repeated(below) = members.next_value()?;
            found.add(below);
        }
        Ok(found)
    }
}
