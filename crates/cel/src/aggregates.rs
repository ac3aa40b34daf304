//! Kubernetes requires that the items of a list literal have one type, as do the keys and the values of a map literal.
//! Arguments of `format` are exempt.

use crate::ast::Id;
use crate::eval::node::{Node, NodeKind};
use crate::types::Type;
use crate::unify::same;

/// The functions whose arguments may have any types; those of the last two become one list.
const EXEMPT: [&str; 3] = ["format", "math.greatest", "math.least"];

/// The entries whose type differs from the first one's, each with the reason. `types` are the final types of nodes.
pub fn mixed(root: &mut Node, types: &[Type]) -> Vec<(Id, String)> {
    let mut found = Vec::new();
    visit(root, types, &mut found);
    found
}

fn visit(node: &mut Node, types: &[Type], found: &mut Vec<(Id, String)>) {
    match &node.kind {
        NodeKind::Call(call) if EXEMPT.contains(&&*call.name) => return,
        NodeKind::List(items) => {
            found.extend(differing(items.iter().map(|(item, optional)| (item.id, *optional)), types).next());
        }
        NodeKind::Map(entries) if matches!(type_of(node.id, types), Type::Map(_)) => {
            found.extend(differing(entries.iter().map(|(key, ..)| (key.id, false)), types));
            found.extend(differing(entries.iter().map(|(_, value, optional)| (value.id, *optional)), types));
        }
        _ => {}
    }
    node.children(&mut |child| visit(child, types, found));
}

fn type_of(id: Id, types: &[Type]) -> &Type {
    types.get(id as usize).unwrap_or(&Type::Error)
}

fn differing(mut entries: impl Iterator<Item = (Id, bool)>, types: &[Type]) -> impl Iterator<Item = (Id, String)> {
    let own = |(id, optional)| match type_of(id, types) {
        Type::Optional(inner) if optional => &**inner,
        other => other,
    };
    let first = entries.next().map(own);
    entries.filter_map(move |entry| {
        let (expected, actual) = (first?, own(entry));
        (!same(expected, actual)).then(|| (entry.0, format!("expected type '{expected}' but found '{actual}'")))
    })
}
