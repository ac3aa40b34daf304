//! Decides about an object whose owners were read. Pure.

use apimachinery::Object;

use super::graph::{FOREGROUND, ORPHAN};

/// The state of an owner on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It exists, or its absence is not certain.
    Solid,
    /// It exists and is deleted together with its dependents.
    Waiting,
    /// The server returned NotFound, or an object with another UID.
    Absent,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    /// Remove the references at these indices.
    Forget(Vec<usize>),
    /// Delete with this propagation policy.
    Delete(&'static str),
}

/// `owners` is in the order of the object's references.
pub(super) fn verdict(object: &Object, owners: &[Owner], has_dependents: bool) -> Verdict {
    let gone: Vec<usize> = (0..owners.len()).filter(|at| owners[*at] != Owner::Solid).collect();
    if gone.is_empty() {
        return Verdict::Keep;
    }
    if gone.len() < owners.len() {
        return Verdict::Forget(gone);
    }
    if has_dependents && owners.contains(&Owner::Waiting) {
        return Verdict::Delete("Foreground");
    }
    let has = |finalizer_name: &str| object.finalizers().iter().any(|name| &**name == finalizer_name);
    Verdict::Delete(match (has(ORPHAN), has(FOREGROUND)) {
        (true, _) => "Orphan",
        (false, true) => "Foreground",
        (false, false) => "Background",
    })
}

#[cfg(test)]
mod tests {
    use super::Owner::{Absent, Solid, Waiting};
    use super::*;

    #[test]
    fn verdicts() {
        let check = |finalizer: Option<&str>, owners: &[Owner], has_dependents: bool, expected: Verdict| {
            let tree = serde_json::json!({"metadata": {"name": "x", "finalizers": finalizer.as_slice()}});
            let object = Object::from_value(&tree).expect("an object");
            assert_eq!(verdict(&object, owners, has_dependents), expected, "{finalizer:?} {owners:?}");
        };
        check(None, &[], false, Verdict::Keep);
        check(None, &[Solid], true, Verdict::Keep);
        check(None, &[Absent], false, Verdict::Delete("Background"));
        check(None, &[Absent, Solid, Waiting], false, Verdict::Forget(vec![0, 2]));
        check(None, &[Absent, Waiting], false, Verdict::Delete("Background"));
        check(None, &[Absent, Waiting], true, Verdict::Delete("Foreground"));
        check(Some(ORPHAN), &[Absent], true, Verdict::Delete("Orphan"));
        check(Some(FOREGROUND), &[Absent], true, Verdict::Delete("Foreground"));
    }
}
