//! Where a value is in its document, as the steps that lead there: the text is made of them only where something is wrong.

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
