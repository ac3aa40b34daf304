//! Members of an encoded JSON object, found without decoding it. For documents that were decoded once and are therefore
//! known to be valid; for an invalid one the result is `None` or some part of it, never a panic.

mod paths;
mod reader;
mod write;

use std::ops::Range;

pub use paths::{Paths, Places};
pub use reader::tree;
pub(crate) use reader::{LEVELS, Reader};
pub use write::{is_plain, write, write_text};

/// The position of the first member of this name in an encoded object. The name must be one that JSON does not escape.
pub fn member(json: &[u8], name: &str) -> Option<Range<usize>> {
    place(members(json), &[name])
}

/// The position of the value at a path of members. Of the values that contain it, only what precedes it is read.
pub fn place(mut members: Members<'_>, path: &[&str]) -> Option<Range<usize>> {
    let (json, mut start) = (members.json, None);
    for name in path {
        let value = members.start_of(name)?;
        (start, members) = (Some(value), Members::at(json, value));
    }
    let start = start?;
    Some(start..end_of_value(json, start)?)
}

/// The members of an encoded object in order: the encoded name, and the position of the value.
pub fn members(json: &[u8]) -> Members<'_> {
    Members::at(json, skip_space(json, 0))
}

/// The members behind the value that ends at `from`, in the object that contains it.
pub fn members_behind(json: &[u8], from: usize) -> Members<'_> {
    let mut members = Members { json, at: None };
    members.pass(from);
    members
}

/// The positions of the items of an encoded list, in order; none of another value.
pub fn items(json: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let start = skip_space(json, 0);
    let mut next = (json.get(start) == Some(&b'[')).then_some(start + 1);
    std::iter::from_fn(move || {
        let start = skip_space(json, next.take()?);
        // Behind an empty list there is no value.
        let end = end_of_value(json, start)?;
        let comma = skip_space(json, end);
        next = (json.get(comma) == Some(&b',')).then_some(comma + 1);
        Some(start..end)
    })
}

/// The number of members of an encoded object, or of items of a list; otherwise zero.
pub fn entries(json: &[u8]) -> usize {
    members(json).count() + items(json).count()
}

/// See [`members`].
pub struct Members<'j> {
    json: &'j [u8],
    /// Behind the brace or the comma before the next member.
    at: Option<usize>,
}

impl<'j> Members<'j> {
    /// Of the object at `start`; none of another value.
    fn at(json: &'j [u8], start: usize) -> Self {
        Self { json, at: (json.get(start) == Some(&b'{')).then_some(start + 1) }
    }

    /// The name of the next member, and where its value begins.
    fn name(&mut self) -> Option<(&'j [u8], usize)> {
        let (json, at) = (self.json, skip_space(self.json, self.at.take()?));
        let key = at..end_of_text(json, at)?;
        let colon = skip_space(json, key.end);
        if json.get(colon) != Some(&b':') {
            return None;
        }
        Some((json.get(key.start + 1..key.end - 1)?, skip_space(json, colon + 1)))
    }

    /// Continues behind the value that ends at `end`.
    fn pass(&mut self, end: usize) {
        let comma = skip_space(self.json, end);
        self.at = (self.json.get(comma) == Some(&b',')).then_some(comma + 1);
    }

    /// Where the value of the first member of this name begins.
    fn start_of(&mut self, name: &str) -> Option<usize> {
        loop {
            let (own, start) = self.name()?;
            if own == name.as_bytes() {
                return Some(start);
            }
            self.pass(end_of_value(self.json, start)?);
        }
    }
}

impl<'j> Iterator for Members<'j> {
    type Item = (&'j [u8], Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, start) = self.name()?;
        let end = end_of_value(self.json, start)?;
        self.pass(end);
        Some((name, start..end))
    }
}

/// Whether two encoded objects are the same, byte for byte, in all members but those named in `apart`; of the member
/// `within` names those in its list do not count either. True is certain; false may be a matter of spelling.
pub fn same_but(left: &[u8], right: &[u8], apart: &[&str], within: Option<(&str, &[&str])>) -> bool {
    fn counted<'a>(json: &'a [u8], apart: &'a [&str]) -> impl Iterator<Item = (&'a [u8], Range<usize>)> {
        members(json).filter(move |(name, _)| !apart.iter().any(|other| other.as_bytes() == *name))
    }
    let (mut left_members, mut right_members) = (counted(left, apart), counted(right, apart));
    loop {
        let ((name, span), (other_name, other_span)) = match (left_members.next(), right_members.next()) {
            (Some(left_member), Some(right_member)) => (left_member, right_member),
            (None, None) => return true,
            _ => return false,
        };
        let (value, other) = (&left[span], &right[other_span]);
        let inner = within.filter(|(inside, _)| inside.as_bytes() == name);
        if name != other_name
            || (value != other && !inner.is_some_and(|(_, apart)| same_but(value, other, apart, None)))
        {
            return false;
        }
    }
}

/// An encoded object without the member `inner` of its member `outer`; `None` if that member is absent.
pub fn without(json: &[u8], outer: &str, inner: &str) -> Option<Vec<u8>> {
    let start = members(json).start_of(outer)?;
    let key_of = |name: &[u8]| (name.as_ptr() as usize).saturating_sub(json.as_ptr() as usize + 1);
    let (mut inside, mut before) = (Members::at(json, start), None);
    let (name, value) = loop {
        let (name, value) = inside.next()?;
        if name == inner.as_bytes() {
            break (name, value);
        }
        before = Some(value.end);
    };
    // With the comma before it, or the one after it.
    let cut = match (before, inside.next()) {
        (Some(end), _) => end..value.end,
        (None, Some((next, _))) => key_of(name)..key_of(next),
        (None, None) => key_of(name)..value.end,
    };
    let mut rest = Vec::with_capacity(json.len() - cut.len());
    rest.extend_from_slice(&json[..cut.start]);
    rest.extend_from_slice(&json[cut.end..]);
    Some(rest)
}

fn skip_space(json: &[u8], from: usize) -> usize {
    let rest = json.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count()
}

/// The end of the text that begins with a quotation mark at `from`, and whether something in it is escaped.
pub fn text(json: &[u8], from: usize) -> Option<(usize, bool)> {
    if json.get(from) != Some(&b'"') {
        return None;
    }
    let (mut at, mut escaped) = (from + 1, false);
    loop {
        at = quotation_or_escape(json, at)?;
        if json[at] == b'"' {
            return Some((at + 1, escaped));
        }
        // The first byte of an escape is skipped; the digits of a \u contain no quotation marks.
        at += 2;
        escaped = true;
    }
}

/// The position of the first quotation mark or backslash from `at` on. Strings are most of a document; eight bytes are
/// compared at once.
fn quotation_or_escape(json: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    // The lowest bit that is set is that of the lowest byte that is zero.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    let mut rest = json.get(at..)?;
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let found = zero(word ^ (ONES * u64::from(b'"'))) | zero(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
        rest = behind;
    }
    rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).map(|found| at + found)
}

fn end_of_text(json: &[u8], from: usize) -> Option<usize> {
    text(json, from).map(|(end, _)| end)
}

fn end_of_value(json: &[u8], from: usize) -> Option<usize> {
    match json.get(from)? {
        b'"' => end_of_text(json, from),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0usize, from);
            loop {
                match json.get(at)? {
                    b'"' => {
                        at = end_of_text(json, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth == 1 => return Some(at + 1),
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
            }
        }
        _ => {
            let rest = &json[from..];
            let length = rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'));
            Some(from + length.unwrap_or(rest.len())).filter(|end| *end > from)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::{entries, member, same_but, without};

    pub(super) fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[\"\\\\{}\\[\\]:,a\\n\u{e4}]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-c\"\\\\]{0,2}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn members_equal_those_of_the_decoder(tree in value(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
            let text = text.unwrap();
            for name in ["a", "b", "c", "metadata"] {
                let found = member(text.as_bytes(), name).map(|span| text[span].to_owned());
                let found = found.map(|text| serde_json::from_str::<Value>(&text).unwrap());
                prop_assert_eq!(found.as_ref(), tree.get(name));
            }
            let found: Vec<Value> =
                super::items(text.as_bytes()).map(|span| serde_json::from_str(&text[span]).unwrap()).collect();
            prop_assert_eq!(found.as_slice(), tree.as_array().map_or(&[][..], Vec::as_slice));
            let count = tree.as_object().map(Map::len).or(tree.as_array().map(Vec::len));
            prop_assert_eq!(entries(text.as_bytes()), count.unwrap_or(0));
        }

        #[test]
        fn only_the_named_member_is_removed(tree in value(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
            let text = text.unwrap();
            for inner in ["a", "b", "c"] {
                let mut rest = tree.clone();
                let had = rest.get_mut("a").and_then(Value::as_object_mut).and_then(|map| map.remove(inner)).is_some();
                let cut = without(text.as_bytes(), "a", inner).map(|cut| serde_json::from_slice::<Value>(&cut).unwrap());
                prop_assert_eq!(cut, had.then_some(rest));
            }
        }

        #[test]
        fn scanning_any_bytes_never_panics(bytes in prop::collection::vec(prop::sample::select(b"{}[]\"\\:,a1 ".to_vec()), 0..40)) {
            let _ = (member(&bytes, "a"), without(&bytes, "a", "a"), entries(&bytes));
        }
    }

    #[test]
    fn only_top_level_members_are_found() {
        let text = json!({"a": {"metadata": 1}, "metadata": {"x": "}\""}}).to_string();
        assert_eq!(member(text.as_bytes(), "metadata").map(|span| &text[span]), Some(r#"{"x":"}\""}"#));
        assert_eq!(member(b"[1]", "metadata"), None);
    }

    #[test]
    fn equality_ignores_some_members() {
        let object = |version: &str, label: &str, status: &str| {
            json!({"kind": "X", "metadata": {"labels": {"l": label}, "name": "a", "resourceVersion": version}, "status": status})
                .to_string()
        };
        let old = object("1", "x", "s");
        for (new, same) in [
            (object("1", "x", "s"), true),
            (object("2", "x", "s"), true),
            (object("2", "x", "t"), true),
            (object("2", "y", "t"), false),
            (r#"{"kind":"X"}"#.to_owned(), false),
        ] {
            let metadata = Some(("metadata", &["resourceVersion"][..]));
            assert_eq!(same_but(old.as_bytes(), new.as_bytes(), &["status"], metadata), same, "{new}");
        }
    }
}
