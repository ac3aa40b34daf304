//! The position of a value in its document, as a chain of steps: the path's text is built only for an error.

use apimachinery::field::Path;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Trail<'t> {
    Root,
    /// A default, which is validated as a document of its own: messages name places in it.
    Default,
    Child(&'t Self, &'t str),
    /// A value of a map.
    Value(&'t Self, &'t str),
    Index(&'t Self, usize),
}

impl<'t> Trail<'t> {
    pub fn child(&'t self, name: &'t str) -> Self {
        Self::Child(self, name)
    }

    pub fn value(&'t self, key: &'t str) -> Self {
        Self::Value(self, key)
    }

    pub fn index(&'t self, index: usize) -> Self {
        Self::Index(self, index)
    }

    pub fn path(&self) -> Path {
        match self {
            Self::Root => Path::root(),
            Self::Default => Path::new("default"),
            Self::Child(parent, name) | Self::Value(parent, name) => parent.path().child(name),
            // As upstream, which appends the place in the default as if it were a field.
            Self::Index(Self::Default, index) => Self::Default.path().child(&format!("[{index}]")),
            Self::Index(parent, index) => parent.path().index(*index),
        }
    }

    pub fn is_of_default(&self) -> bool {
        match self {
            Self::Root => false,
            Self::Default => true,
            Self::Child(parent, _) | Self::Value(parent, _) | Self::Index(parent, _) => parent.is_of_default(),
        }
    }

    /// The place as messages name it; the validated document itself has no name.
    pub fn shown(&self) -> String {
        match self {
            Self::Root | Self::Default => String::new(),
            Self::Child(parent, name) => match parent.shown() {
                of_parent if of_parent.is_empty() => (*name).to_owned(),
                of_parent => format!("{of_parent}.{name}"),
            },
            // As upstream, with a dot even in the document itself.
            Self::Value(parent, key) => format!("{}.{key}", parent.shown()),
            Self::Index(parent, index) => format!("{}[{index}]", parent.shown()),
        }
    }
}
