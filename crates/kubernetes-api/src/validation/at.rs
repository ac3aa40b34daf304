//! The position of a check in an object. Paths are on the stack; their text is built only for an error.

use apimachinery::field::Path;

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

pub(super) struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
}

impl<'a> At<'a> {
    pub(super) fn root() -> Self {
        Self { parent: None, step: Step::Root }
    }

    pub(super) fn child(&'a self, name: &'a str) -> At<'a> {
        At { parent: Some(self), step: Step::Field(name) }
    }

    pub(super) fn index(&'a self, index: usize) -> At<'a> {
        At { parent: Some(self), step: Step::Index(index) }
    }

    pub(super) fn key(&'a self, key: &'a str) -> At<'a> {
        At { parent: Some(self), step: Step::Key(key) }
    }

    /// Whether the last two steps are these fields.
    pub(super) fn ends_with(&self, fields: [&str; 2]) -> bool {
        let is = |step: &Step<'_>, name: &str| matches!(step, Step::Field(field) if *field == name);
        is(&self.step, fields[1]) && self.parent.is_some_and(|parent| is(&parent.step, fields[0]))
    }

    /// Whether some step is this field.
    pub(super) fn is_below(&self, field: &str) -> bool {
        matches!(self.step, Step::Field(name) if name == field)
            || self.parent.is_some_and(|parent| parent.is_below(field))
    }

    pub(super) fn path(&self) -> Path {
        let parent = self.parent.map_or_else(Path::root, At::path);
        match self.step {
            Step::Root => parent,
            Step::Field(name) => parent.child(name),
            Step::Index(index) => parent.index(index),
            Step::Key(key) => parent.key(key),
        }
    }
}
