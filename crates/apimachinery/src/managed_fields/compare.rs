//! The difference between two documents, as sets of paths.

use serde_json::{Map, Value};

use super::path::PathElement;
use super::place::{Form, Place};
use super::set::{FieldSet, MAX_DEPTH, Node};

/// The paths by which two documents differ. A path is in at most one of the sets.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

/// The differences at one path and below it.
#[derive(Default)]
struct Difference {
    added: bool,
    modified: bool,
    removed: bool,
    below: Comparison,
}

impl Comparison {
    pub fn of(old: &Value, new: &Value, place: Place<'_>) -> Self {
        compare(Some(old), Some(new), place, 0).below
    }

    /// Everything that got a new value, and what is gone.
    pub fn into_changed(self) -> (FieldSet, FieldSet) {
        (self.modified.union(self.added), self.removed)
    }

    pub fn subtract_recursively(&mut self, ignored: &FieldSet) {
        self.added.subtract_recursively(ignored);
        self.modified.subtract_recursively(ignored);
        self.removed.subtract_recursively(ignored);
    }

    fn push(&mut self, element: PathElement, difference: Difference) {
        let Difference { added, modified, removed, below } = difference;
        // Most children differ in one way only, so the element is rarely cloned.
        let nodes = [
            (&mut self.added, Node { member: added, children: below.added }),
            (&mut self.modified, Node { member: modified, children: below.modified }),
            (&mut self.removed, Node { member: removed, children: below.removed }),
        ];
        let mut sets = nodes.into_iter().filter(|(_, node)| !node.is_void()).peekable();
        let mut element = Some(element);
        while let Some((set, node)) = sets.next() {
            let own = if sets.peek().is_some() { element.clone() } else { element.take() };
            if let Some(own) = own {
                set.push(own, node);
            }
        }
    }
}

fn compare(old: Option<&Value>, new: Option<&Value>, place: Place<'_>, depth: usize) -> Difference {
    let mut result = Difference::default();
    if old == new {
        return result;
    }
    if depth >= MAX_DEPTH {
        return leaf(old, new);
    }
    let empty = Map::new();
    match (place.form(old), place.form(new)) {
        // Null takes the form of the other side and is present: what replaces it is not added, only its content is.
        (Form::Map(was), Form::Map(is)) => maps(was, is, place, depth, &mut result.below),
        (Form::Map(was), Form::Null) => maps(was, &empty, place, depth, &mut result.below),
        (Form::Null, Form::Map(is)) => maps(&empty, is, place, depth, &mut result.below),
        (Form::Map(was), Form::Absent) => {
            result.removed = true;
            one_sided(was, place, depth, &mut result.below, false);
        }
        (Form::Absent, Form::Map(is)) => {
            result.added = true;
            one_sided(is, place, depth, &mut result.below, true);
        }
        (Form::List(was), Form::List(is)) => lists(was, is, place, depth, &mut result.below),
        (Form::List(was), other @ (Form::Null | Form::Absent)) => {
            result.removed = matches!(other, Form::Absent);
            lists(was, &[], place, depth, &mut result.below);
        }
        (other @ (Form::Null | Form::Absent), Form::List(is)) => {
            result.added = matches!(other, Form::Absent);
            lists(&[], is, place, depth, &mut result.below);
        }
        (Form::Map(_) | Form::List(_), _) | (_, Form::Map(_) | Form::List(_)) => {
            // The value changed its kind: all of the old goes, all of the new comes.
            let gone = compare(old, None, place, depth).below.removed;
            let come = compare(None, new, place, depth).below.added;
            result.modified = true;
            result.below = Comparison { added: come, modified: FieldSet::default(), removed: gone };
        }
        _ => return leaf(old, new),
    }
    result
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Difference {
    Difference {
        added: old.is_none(),
        removed: new.is_none(),
        modified: old.is_some() && new.is_some(),
        below: Comparison::default(),
    }
}

fn maps(was: &Map<String, Value>, is: &Map<String, Value>, place: Place<'_>, depth: usize, out: &mut Comparison) {
    let (mut left, mut right) = (was.iter().peekable(), is.iter().peekable());
    loop {
        let (key, old, new) = match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some((key, value)), None) => (*key, Some(*value), None),
            (None, Some((key, value))) => (*key, None, Some(*value)),
            (Some((a, x)), Some((b, y))) => match a.cmp(b) {
                std::cmp::Ordering::Less => (*a, Some(*x), None),
                std::cmp::Ordering::Greater => (*b, None, Some(*y)),
                std::cmp::Ordering::Equal => (*a, Some(*x), Some(*y)),
            },
        };
        if old.is_some() {
            left.next();
        }
        if new.is_some() {
            right.next();
        }
        if old == new {
            continue;
        }
        let implied = if old.is_none() || new.is_none() { place.implied(key) } else { None };
        // A null printed for an unset member of a Go struct is printed on the other side too.
        if implied.is_none() && place.is_struct() && (old.or(new) == Some(&Value::Null)) {
            continue;
        }
        let difference = compare(old.or(implied), new.or(implied), place.child(key).0, depth + 1);
        out.push(PathElement::field(key), difference);
    }
}

/// A map that is only on one side, with the members that its Go struct always prints.
fn one_sided(map: &Map<String, Value>, place: Place<'_>, depth: usize, out: &mut Comparison, added: bool) {
    let mut descend = |key: &str, value: &Value| {
        let (old, new) = if added { (None, Some(value)) } else { (Some(value), None) };
        out.push(PathElement::field(key), compare(old, new, place.child(key).0, depth + 1));
    };
    for (key, value) in map {
        descend(key, value);
    }
    for key in place.implied_structs().filter(|key| !map.contains_key(*key)) {
        if let Some(value) = place.implied(key) {
            descend(key, value);
        }
    }
}

fn lists(was: &[Value], is: &[Value], place: Place<'_>, depth: usize, out: &mut Comparison) {
    let (left, right) = (sorted(was, place), sorted(is, place));
    let (mut i, mut j) = (0, 0);
    while i < left.len() || j < right.len() {
        let element = match (left.get(i), right.get(j)) {
            (Some((a, _)), Some((b, _))) => a.min(b),
            (Some((a, _)), None) => a,
            (None, Some((b, _))) => b,
            (None, None) => return,
        };
        let same = |side: &[(PathElement, &Value)]| side.iter().take_while(|(e, _)| e == element).count();
        let (m, n) = (same(&left[i..]), same(&right[j..]));
        let (olds, news) = (&left[i..i + m], &right[j..j + n]);
        let difference = if m > 1 || n > 1 {
            // Items with the same key are owned as one, because they cannot be distinguished.
            let equal = m == n && olds.iter().zip(news).all(|(a, b)| a.1 == b.1);
            Difference {
                added: m == 0,
                removed: n == 0,
                modified: m > 0 && n > 0 && !equal,
                below: Comparison::default(),
            }
        } else {
            let (old, new) = (olds.first().map(|(_, v)| *v), news.first().map(|(_, v)| *v));
            compare(old, new, place.items(), depth + 1)
        };
        out.push(element.clone(), difference);
        (i, j) = (i + m, j + n);
    }
}

/// Items by element; a stable sort, so that items of one element keep their order.
fn sorted<'v>(items: &'v [Value], place: Place<'_>) -> Vec<(PathElement, &'v Value)> {
    let mut keyed: Vec<_> = items.iter().map(|item| (place.item_element(item), item)).collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    keyed
}
