//! The position of a value in its document, as a chain of steps: the path's text is built only for an error.

use apimachinery::field::Path;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Trail<'t> {
    Root,
    Child(&'t Self, &'t str),
    Index(&'t Self, usize),
}

impl<'t> Trail<'t> {
    pub fn child(&'t self, name: &'t str) -> Self {
        Self::Child(self, name)
    }

    pub fn index(&'t self, index: usize) -> Self {
        Self::Index(self, index)
    }

    pub fn path(&self) -> Path {
        match self {
            Self::Root => Path::root(),
            Self::Child(parent, name) => parent.path().child(name),
            Self::Index(parent, index) => parent.path().index(*index),
        }
    }
}
