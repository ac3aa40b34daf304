//! What follows the metadata in an encoded object, read once: most readers of a part of an object require its status, which
//! is behind everything else.

use std::ops::Range;

use super::head::{Head, Span};
use crate::raw_json::{self, Reader};

/// The status of an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    /// Without a status: the position at which its member would be.
    status: Span,
    has_status: bool,
    /// The members are in the order and the spelling in which this program writes them.
    is_in_order: bool,
}

/// The parts of an object in the form for clients that a write of its status replaces. The members of the object and of its
/// metadata are sorted, but for those that are always first, and without white space between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seams {
    /// The member with the revision, with the comma behind it; empty without one.
    pub version: Range<usize>,
    /// The encoded list of field owners.
    pub owners: Range<usize>,
    /// The encoded status; without one, the empty range where the member would be.
    pub status: Range<usize>,
    /// Whether there is a status.
    pub has_status: bool,
}

impl Rest {
    pub fn of(json: &[u8], head: &Head) -> Self {
        let metadata = head.metadata.range();
        if !metadata.is_empty()
            && let Some(rest) = Self::behind(json, metadata.end)
        {
            return Self { is_in_order: rest.is_in_order && head.is_in_order && head.is_plain(), ..rest };
        }
        let found = raw_json::member(json, "status").and_then(Span::at);
        Self { status: found.unwrap_or_default(), has_status: found.is_some(), is_in_order: false }
    }

    /// Reads the members behind a position.
    fn behind(json: &[u8], from: usize) -> Option<Self> {
        let mut reader = Reader::from(json, from);
        let (mut found, mut place, mut is_sorted) = (None, None, true);
        let mut last = String::new();
        loop {
            let end = reader.at();
            if reader.take(b'}') {
                let status = match found {
                    Some(status) => status,
                    None => Span::at(place.unwrap_or(end)..place.unwrap_or(end))?,
                };
                let is_in_order = is_sorted && !reader.is_spaced();
                return Some(Self { status, has_status: found.is_some(), is_in_order });
            }
            reader.take(b',').then_some(())?;
            let name = reader.text()?;
            reader.take(b':').then_some(())?;
            let value = reader.skip()?;
            if name == "status" && found.is_none() {
                found = Some(Span::at(value)?);
            } else if *name > *"status" && place.is_none() {
                place = Some(end);
            }
            is_sorted &= *last < *name;
            last.clear();
            last.push_str(&name);
        }
    }

    pub fn status(&self) -> Option<Range<usize>> {
        self.has_status.then(|| self.status.range())
    }

    pub fn seams(&self, json: &[u8], head: &Head) -> Option<Seams> {
        let owners = head.managed_fields.range();
        if !self.is_in_order || owners.is_empty() {
            return None;
        }
        let start = head.metadata.range().start + 1;
        const NAME: &[u8] = b"\"resourceVersion\":";
        let version = match json.get(start..)?.starts_with(NAME) {
            // Every object has a name, so that there is a comma.
            true => start..raw_json::text(json, start + NAME.len())?.0 + 1,
            false => start..start,
        };
        Some(Seams { version, owners, status: self.status.range(), has_status: self.has_status })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Object;

    #[test]
    fn the_status_is_found_wherever_it_is() {
        let metadata = r#"{"resourceVersion":"7","managedFields":[1],"name":"n"}"#;
        for (rest, status, is_in_order) in [
            (r#","spec":{"status":1},"status":{"a":1}}"#, Some(r#"{"a":1}"#), true),
            (r#","status":{"a":1},"zz":1}"#, Some(r#"{"a":1}"#), true),
            (r#","spec":1,"zz":1}"#, None, true),
            ("}", None, true),
            (r#","status":1,"spec":1}"#, Some("1"), false),
            (r#","spec":1 ,"status":2}"#, Some("2"), false),
            (r#","spec":1,"spec":1,"status":2}"#, Some("2"), false),
            (r#","status":1,"status":2}"#, Some("1"), false),
        ] {
            let json = format!(r#"{{"apiVersion":"v1","kind":"X","metadata":{metadata}{rest}"#);
            let object = Object::parse_valid(json.clone()).expect("valid");
            assert_eq!(object.member("status").as_deref(), status.map(str::as_bytes), "{json}");
            assert_eq!(object.member("metadata").as_deref(), Some(metadata.as_bytes()));
            for name in ["spec", "zz", "kind", "absent"] {
                let found = crate::raw_json::member(json.as_bytes(), name).map(|span| json[span].as_bytes());
                assert_eq!(object.member(name).as_deref(), found, "{json} {name}");
            }
            let seams = object.seams();
            assert_eq!(seams.is_some(), is_in_order, "{json}");
            let Some(seams) = seams else { continue };
            assert_eq!((&json[seams.version], &json[seams.owners]), (r#""resourceVersion":"7","#, "[1]"));
            if !seams.has_status {
                assert_eq!(&json[seams.status.end..], if rest == "}" { "}" } else { r#","zz":1}"# });
            }
        }
        for metadata in [
            r#"{"name":"n","managedFields":[1]}"#,
            r#"{"managedFields":[1],"resourceVersion":"7","name":"n"}"#,
            r#"{"managedFields":[1], "name":"n"}"#,
            r#"{"name":"n"}"#,
        ] {
            let json = format!(r#"{{"apiVersion":"v1","kind":"X","metadata":{metadata},"status":1}}"#);
            let object = Object::parse_valid(json).expect("valid");
            assert_eq!((object.member("status").as_deref(), object.seams()), (Some(&b"1"[..]), None), "{metadata}");
        }
        let object = Object::parse(r#"{"status":{"b":2},"metadata":{"name":"n"},"kind":"X"}"#).expect("valid");
        assert_eq!((object.member("status").as_deref(), object.seams()), (Some(&br#"{"b":2}"#[..]), None));
    }
}
