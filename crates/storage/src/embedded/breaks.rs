//! The points where the revision was raised because history was lost: a backup was restored, or a loss was accepted.
//!
//! Each is stored as figures of the store (`schema`), so that older versions also open the store.

use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use super::database::Fault;
use super::schema;
use crate::Revision;

/// The number of revisions to skip after a loss of history, so that no revision that a client may have seen is reused.
/// A power failure loses at most the marks of a second, and a backup is restored within 11 days at a write a second.
pub(super) const SKIPPED: Revision = 1_000_000;

const COUNT: &str = "breaks";

/// A point where history was lost. The store may lack changes after `before` that clients and members have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// The newest remaining revision of the history before.
    pub before: Revision,
    /// The revision at which the store went on.
    pub after: Revision,
    /// Unknown if the store was opened without a clock ([`super::Options::now`]).
    pub when: Option<SystemTime>,
    /// Why history was lost.
    pub kind: BreakKind,
}

/// Why history was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakKind {
    /// The store was written from a backup.
    Restored,
    /// Acknowledged writes were missing, and a person accepted it.
    AcceptedLoss,
}

impl BreakKind {
    /// The name that commands print.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::AcceptedLoss => "accepted-loss",
        }
    }

    fn number(self) -> i64 {
        match self {
            Self::Restored => 1,
            Self::AcceptedLoss => 2,
        }
    }
}

/// The figures of the `n`th break.
fn names(n: i64) -> [String; 4] {
    ["before", "after", "when", "kind"].map(|figure| format!("break {n} {figure}"))
}

/// Adds a break. The caller's transaction makes it durable together with the raised revision.
pub(super) fn add(db: &Connection, added: &Break) -> Result<(), Fault> {
    let n = schema::figure(db, COUNT)?.unwrap_or(0) + 1;
    let seconds = added.when.and_then(|when| when.duration_since(SystemTime::UNIX_EPOCH).ok());
    let values = [
        added.before.cast_signed(),
        added.after.cast_signed(),
        seconds.map_or(0, |seconds| seconds.as_secs().cast_signed()),
        added.kind.number(),
    ];
    for (name, value) in names(n).iter().zip(values) {
        schema::set_figure(db, name, value)?;
    }
    Ok(schema::set_figure(db, COUNT, n)?)
}

/// All breaks, oldest first, and the number of their figures. Empty for a store without breaks.
pub(super) fn read(db: &Connection) -> Result<(Vec<Break>, i64), Fault> {
    let Some(count) = schema::figure(db, COUNT)? else { return Ok((Vec::new(), 0)) };
    let mut breaks = Vec::new();
    for n in 1..=count {
        let mut values = [0; 4];
        for (name, value) in names(n).iter().zip(&mut values) {
            *value = schema::figure(db, name)?.ok_or_else(|| schema::damaged_figure(name))?;
        }
        let [before, after, seconds, kind] = values;
        breaks.push(Break {
            before: before.cast_unsigned(),
            after: after.cast_unsigned(),
            when: (seconds > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.cast_unsigned())),
            kind: if kind == BreakKind::Restored.number() { BreakKind::Restored } else { BreakKind::AcceptedLoss },
        });
    }
    Ok((breaks, 1 + 4 * count))
}
