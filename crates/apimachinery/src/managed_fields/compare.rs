//! The difference between two documents, as sets of paths.

use serde_json::{Map, Value};

use super::path::PathElement;
use super::place::{Form, Place};
use super::set::{FieldSet, MAX_DEPTH, Node};

/// The paths by which two documents differ. A path is in one of the sets, except an item of a list whose key was or
/// becomes that of several items: it is added and removed.
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

    /// Fields with a new value, and removed fields.
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
    if old == new { Difference::default() } else { differing(old, new, place, depth) }
}

/// [`compare`] of values that are known to differ.
fn differing(old: Option<&Value>, new: Option<&Value>, place: Place<'_>, depth: usize) -> Difference {
    let mut result = Difference::default();
    let (was, is) = match (old, new) {
        (None, Some(come)) => {
            result.added = true;
            result.below.added = whole(come, place, depth);
            return result;
        }
        (Some(gone), None) => {
            result.removed = true;
            result.below.removed = whole(gone, place, depth);
            return result;
        }
        (Some(was), Some(is)) if depth < MAX_DEPTH => (was, is),
        _ => return leaf(old, new),
    };
    let empty = Map::new();
    match (place.form(old), place.form(new)) {
        (Form::Map(was), Form::Map(is)) => maps(was, is, place, depth, &mut result.below),
        (Form::List(was), Form::List(is)) => lists(was, is, place, depth, &mut result.below),
        // Null takes the form of the other side and is present: its replacement is not added, only the replacement's
        // content is. Without any content, it is the value itself that changes.
        (Form::Map(was), Form::Null) if !was.is_empty() => maps(was, &empty, place, depth, &mut result.below),
        (Form::Null, Form::Map(is)) if !is.is_empty() => maps(&empty, is, place, depth, &mut result.below),
        (Form::List(was), Form::Null) if !was.is_empty() => lists(was, &[], place, depth, &mut result.below),
        (Form::Null, Form::List(is)) if !is.is_empty() => lists(&[], is, place, depth, &mut result.below),
        (Form::Null, _) | (_, Form::Null) => return leaf(old, new),
        (Form::Map(_) | Form::List(_), _) | (_, Form::Map(_) | Form::List(_)) => {
            // The value changed its kind: all of the old goes, all of the new comes.
            result.modified = true;
            result.below.removed = whole(was, place, depth);
            result.below.added = whole(is, place, depth);
        }
        _ => return leaf(old, new),
    }
    result
}

/// The paths below a value that is only on one side, with those of the members that its Go struct always prints.
fn whole(value: &Value, place: Place<'_>, depth: usize) -> FieldSet {
    let mut set = FieldSet::default();
    if depth >= MAX_DEPTH {
        return set;
    }
    let node = |value, place| Node { member: true, children: whole(value, place, depth + 1) };
    match place.form(Some(value)) {
        Form::Map(map) => {
            for (key, value) in map {
                set.push(PathElement::field(key), node(value, place.child(key).0));
            }
            for key in place.implied_structs().filter(|key| !map.contains_key(*key)) {
                if let Some(value) = place.implied(key) {
                    set.push(PathElement::field(key), node(value, place.child(key).0));
                }
            }
        }
        Form::List(items) => {
            let mut keyed = sorted(items, place).into_iter().peekable();
            while let Some((element, item)) = keyed.next() {
                let mut is_single = true;
                while keyed.next_if(|(other, _)| *other == element).is_some() {
                    is_single = false;
                }
                // Items with the same key are owned as one, because they cannot be distinguished.
                set.push(element, if is_single { node(item, place.items()) } else { Node::member() });
            }
        }
        _ => {}
    }
    set
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
        let below = place.child(key).0;
        let difference = match implied {
            Some(implied) => compare(old.or(Some(implied)), new.or(Some(implied)), below, depth + 1),
            None => differing(old, new, below, depth + 1),
        };
        out.push(PathElement::field(key), difference);
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
        let (old, new) = (olds.first().map(|(_, v)| *v), news.first().map(|(_, v)| *v));
        // Items with the same key are owned as one, because they cannot be distinguished.
        let difference = match (m, n) {
            (0 | 1, 0 | 1) => compare(old, new, place.items(), depth + 1),
            (0 | 1, _) => Difference { added: true, ..compare(old, None, place.items(), depth + 1) },
            (_, 0 | 1) => Difference { removed: true, ..compare(None, new, place.items(), depth + 1) },
            _ => {
                let equal = m == n && olds.iter().zip(news).all(|(a, b)| a.1 == b.1);
                Difference { modified: !equal, ..Difference::default() }
            }
        };
        out.push(element.clone(), difference);
        (i, j) = (i + m, j + n);
    }
}

/// Items by element; the sort is stable, so that items of one element keep their order.
fn sorted<'v>(items: &'v [Value], place: Place<'_>) -> Vec<(PathElement, &'v Value)> {
    let mut keyed: Vec<_> = items.iter().map(|item| (place.item_element(item), item)).collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    keyed
}
