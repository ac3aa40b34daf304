//! The records of a history.

/// A request to the API about one of a few objects.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Create {
        key: String,
        value: String,
    },
    /// Guarded by the revision `base`.
    Update {
        key: String,
        value: String,
        base: u64,
    },
    /// Guarded by the revision `base`.
    Delete {
        key: String,
        base: u64,
    },
    Get {
        key: String,
    },
    List,
}

impl Request {
    pub fn key(&self) -> &str {
        match self {
            Self::Create { key, .. } | Self::Update { key, .. } | Self::Delete { key, .. } | Self::Get { key } => key,
            Self::List => "",
        }
    }

    pub fn base(&self) -> Option<u64> {
        match self {
            Self::Update { base, .. } | Self::Delete { base, .. } => Some(*base),
            _ => None,
        }
    }

    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Get { .. } | Self::List)
    }
}

/// The answer.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// With the revision of the write; a delete is found by the revision that it deleted.
    Written(u64),
    Exists,
    Absent,
    Conflict,
    Read(u64),
    /// The revision of the list, and the objects with theirs.
    Listed(u64, Vec<(String, u64)>),
    /// The request was executed or not.
    Unknown,
}

/// A request and its answer, with the moments of both on one clock.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub called: u64,
    pub answered: u64,
    pub request: Request,
    pub outcome: Outcome,
}

/// A change in the store.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub revision: u64,
    pub key: String,
    /// `None` for a deletion.
    pub value: Option<String>,
    /// The revision of the state before.
    pub previous: Option<u64>,
}
