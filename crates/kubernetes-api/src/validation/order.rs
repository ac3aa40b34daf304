//! The order of validation errors. Upstream checks the fields of each type in a fixed order, which the lines of
//! `data/validation.txt` with a leading `<` list. Errors are collected in one walk and sorted at the end.

use apimachinery::field::{Error, ErrorKind, ErrorList};
use apimachinery::schema::SchemaId;

use super::webhooks::{follows_items, is_duplicate_webhook};

/// The rank of an error: one number for each step of its path.
type Place = Vec<usize>;

/// After all others at its level.
const LAST: usize = usize::MAX;

/// Sorts the errors about an object of the type at `root` in upstream's order. The order of errors about one field is
/// kept.
pub(super) fn sort(root: SchemaId, errors: &mut ErrorList) {
    if errors.len() > 1 {
        errors.sort_by_cached_key(|error| place(root, error));
    }
}

fn place(root: SchemaId, error: &Error) -> Place {
    let mut place = Place::new();
    let (schemas, nodes) = (crate::schemas(), super::nodes());
    let mut at = Some(root);
    let late = is_late(error);
    let mut steps = steps(error.path.as_str()).peekable();
    while let Some(step) = steps.next() {
        match step {
            Step::Field(name) => {
                // Errors of a workload about its whole template follow the template's own errors.
                if late && name == "template" {
                    place.extend([rank(at, nodes, name), LAST]);
                    return place;
                }
                // Upstream compares names after all else in a webhook.
                place.push(if name == "name" && is_duplicate_webhook(error) { LAST } else { rank(at, nodes, name) });
                at = at.and_then(|id| {
                    let schema = schemas.get(id);
                    schema.properties.get(name).map(|property| property.schema).or(schema.additional_properties)
                });
            }
            Step::Entry(text) => {
                let schema = at.map(|id| schemas.get(id));
                let is_list = schema.is_some_and(|schema| schema.items.is_some());
                place.push(if is_list { text.parse().unwrap_or(0) } else { 0 });
                at = schema.and_then(|schema| schema.items.or(schema.additional_properties));
            }
        }
        if steps.peek().is_none()
            && let Some(own) = at.and_then(|id| nodes[id.0 as usize].order.iter().position(|name| *name == "."))
        {
            place.push(own);
        }
    }
    if follows_items(error) {
        place.push(LAST);
    }
    place
}

fn rank(at: Option<SchemaId>, nodes: &[super::table::Node], name: &str) -> usize {
    let order = at.map_or(&[][..], |id| nodes[id.0 as usize].order.as_slice());
    order.iter().position(|known| *known == name).unwrap_or(order.len())
}

/// Requirements of a workload for its pods: a restart policy, and no active deadline.
fn is_late(error: &Error) -> bool {
    let path = error.path.as_str();
    match &error.kind {
        // The pod's own error lists all three policies.
        ErrorKind::NotSupported { supported, .. } => {
            supported.len() < 3 && path.ends_with("template.spec.restartPolicy")
        }
        ErrorKind::Required | ErrorKind::Invalid(_) => path.ends_with("template.spec.restartPolicy"),
        ErrorKind::Forbidden => path.ends_with("template.spec.activeDeadlineSeconds"),
        _ => false,
    }
}

enum Step<'a> {
    Field(&'a str),
    /// An index, or the key of a map.
    Entry(&'a str),
}

/// `spec.ports[0].name` in its parts. Map keys may contain dots; they end at a bracket that a new part follows.
fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    let mut rest = path;
    std::iter::from_fn(move || {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if rest.is_empty() {
            return None;
        }
        if let Some(inner) = rest.strip_prefix('[') {
            let ends = inner.match_indices(']').map(|(at, _)| at);
            let end = ends.into_iter().find(|at| matches!(inner.as_bytes().get(at + 1), None | Some(b'.' | b'[')));
            let end = end.unwrap_or(inner.len());
            rest = inner.get(end + 1..).unwrap_or_default();
            return Some(Step::Entry(&inner[..end]));
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        rest = after;
        Some(Step::Field(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_into_segments() {
        for (path, expected) in [
            ("spec", "spec"),
            ("spec.ports[0].name", "spec ports [0] name"),
            ("data[.dockercfg]", "data [.dockercfg]"),
            ("metadata.annotations[a.io/b]", "metadata annotations [a.io/b]"),
            ("[]", "[]"),
            ("a[b", "a [b]"),
        ] {
            let parts = steps(path).map(|step| match step {
                Step::Field(name) => name.to_owned(),
                Step::Entry(text) => format!("[{text}]"),
            });
            assert_eq!(parts.collect::<Vec<_>>().join(" "), expected, "{path}");
        }
    }
}
