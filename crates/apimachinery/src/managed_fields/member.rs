//! Ownership after a change of one member of an object (its status), computed without the rest of the object: entries
//! that do not mention the member keep their encoding.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::ManagerContext;
use super::compare::Comparison;
use super::entries::{self, Entry, MAX_UPDATERS, Operation};
use super::owners::Encoded;
use super::place::Place;
use super::update::claim;
use crate::schema::TypeOf;

/// The fields that identify the owner of an entry.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Heading<'l> {
    #[serde(borrow)]
    manager: Cow<'l, str>,
    operation: Operation,
    #[serde(borrow)]
    api_version: Cow<'l, str>,
    #[serde(borrow, default)]
    time: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    subresource: Cow<'l, str>,
}

/// The encoded list of owners after `member` changed to `new`, as [`super::track`] would write it; empty if no field
/// has an owner. `old` and `new` are objects that hold the member alone. `None` if that requires the whole list.
pub fn track_member(
    list: Option<&[u8]>,
    member: &str,
    (old, new): (&Value, &Value),
    context: &ManagerContext<'_>,
    type_: &TypeOf,
) -> Option<Vec<u8>> {
    let Some(list) = list else { return Some(Vec::new()) };
    let texts: Vec<&RawValue> = serde_json::from_slice(list).ok()?;
    if texts.is_empty() {
        return Some(Vec::new());
    }
    let mention = format!("\"f:{member}\"");
    let (mut read, mut kept) = (Vec::new(), Vec::new());
    for text in texts {
        let heading: Heading<'_> = serde_json::from_str(text.get()).ok()?;
        if heading.api_version.is_empty() {
            return None;
        }
        let own = heading.operation == Operation::Update
            && heading.manager == context.manager
            && heading.api_version == context.api_version
            && heading.subresource == context.subresource;
        if own || text.get().contains(&mention) {
            read.push(Entry::from(serde_json::from_str::<Encoded>(text.get()).ok()?));
        } else {
            kept.push((heading, text.get()));
        }
    }
    let mut changes = Comparison::of(old, new, Place::root(type_));
    changes.subtract_recursively(context.reset_fields);
    claim(&mut read, changes, context);
    read.retain(|entry| !entry.set.is_empty());
    let updates = |operation: Operation| usize::from(operation == Operation::Update);
    let updaters = read.iter().map(|entry| updates(entry.operation)).sum::<usize>()
        + kept.iter().map(|(heading, _)| updates(heading.operation)).sum::<usize>();
    if updaters > MAX_UPDATERS {
        return None;
    }
    let kept = kept.into_iter().map(|(heading, text)| {
        let entry = Entry {
            manager: heading.manager.into_owned(),
            operation: heading.operation,
            api_version: heading.api_version.into_owned(),
            subresource: heading.subresource.into_owned(),
            time: heading.time.map(Cow::into_owned),
            set: Default::default(),
        };
        (entry, Some(text))
    });
    let mut all: Vec<(Entry, Option<&str>)> = kept.chain(read.into_iter().map(|entry| (entry, None))).collect();
    all.sort_by(|(a, _), (b, _)| entries::order(a, b));
    let mut out = Vec::with_capacity(list.len() + 256);
    for (entry, text) in &all {
        out.push(if out.is_empty() { b'[' } else { b',' });
        match text {
            Some(text) => out.extend_from_slice(text.as_bytes()),
            None => entry.write(&mut out),
        }
    }
    if !out.is_empty() {
        out.push(b']');
    }
    Some(out)
}
