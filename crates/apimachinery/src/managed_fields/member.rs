//! Ownership after a change of one member of an object (its status), computed without the other members: entries that
//! do not mention the member keep their encoding.

use serde_json::Value;

use super::compare::Comparison;
use super::entries::{self, Entry, MAX_UPDATERS, Operation};
use super::owners::Parts;
use super::place::Place;
use super::update::claim;
use super::{FieldSet, ManagerContext};
use crate::raw_json::Reader;
use crate::schema::TypeOf;

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
    let mut reader = Reader::of(std::str::from_utf8(list).ok()?);
    let mention = ["\"f:", member, "\""].concat();
    let (mut read, mut kept) = (Vec::new(), Vec::new());
    reader.items(|reader| {
        let text = reader.skipped()?;
        let mut set = None;
        let heading = Parts::read(&mut Reader::of(text), |reader| {
            set = Some(reader.skipped()?);
            Some(())
        })?;
        // Owners in another version require the whole object, which is converted.
        (heading.api_version.as_deref() == Some(context.api_version)).then_some(())?;
        let own = heading.operation == Some(Operation::Update)
            && heading.manager.as_deref() == Some(context.manager)
            && heading.subresource.as_deref().unwrap_or_default() == context.subresource;
        if own || set?.contains(&mention) {
            read.push(heading.into_entry(FieldSet::read(&mut Reader::of(set?))?)?);
        } else {
            kept.push((heading.into_entry(FieldSet::default())?, text));
        }
        Some(())
    })?;
    if read.is_empty() && kept.is_empty() {
        return Some(Vec::new());
    }
    let mut changes = Comparison::of(old, new, Place::root(type_));
    changes.subtract_recursively(context.reset_fields);
    claim(&mut read, changes, context);
    read.retain(|entry| !entry.set.is_empty());
    let updates = |operation: Operation| usize::from(operation == Operation::Update);
    let updaters = read.iter().map(|entry| updates(entry.operation)).sum::<usize>()
        + kept.iter().map(|(entry, _)| updates(entry.operation)).sum::<usize>();
    if updaters > MAX_UPDATERS {
        return None;
    }
    let kept = kept.into_iter().map(|(entry, text)| (entry, Some(text)));
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
