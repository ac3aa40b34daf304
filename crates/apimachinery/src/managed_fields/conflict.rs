//! Conflicts of an apply: the fields it would change, and their owners.

use std::fmt::{self, Write};

use super::entries::Entry;
use super::{FieldSet, Operation};
use crate::status::{StatusCause, StatusDetails};
use crate::{Status, StatusReason};

/// The fields of one manager that an apply would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The manager that owns the fields.
    pub manager: String,
    /// How it owns them.
    pub operation: Operation,
    /// The version in which it wrote them.
    pub api_version: String,
    /// The subresource through which it wrote them; empty for the object itself.
    pub subresource: String,
    /// The fields in conflict.
    pub fields: FieldSet,
}

impl Conflict {
    pub(super) fn new(entry: &Entry, fields: FieldSet) -> Self {
        Self {
            manager: entry.manager.clone(),
            operation: entry.operation,
            api_version: entry.api_version.clone(),
            subresource: entry.subresource.clone(),
            fields,
        }
    }

    /// The text by which upstream sorts managers: a JSON object.
    fn identifier(&self) -> String {
        let mut text = format!("{{\"manager\":{:?},\"operation\":\"{:?}\"", self.manager, self.operation);
        let version = if self.operation == Operation::Update { &*self.api_version } else { "" };
        for (key, value) in [("apiVersion", version), ("subresource", &*self.subresource)] {
            if !value.is_empty() {
                let _ = write!(text, ",\"{key}\":{value:?}");
            }
        }
        text + "}"
    }
}

/// `"m" with subresource "scale" using apps/v1`; appliers go without the version.
impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.manager)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

/// The 409 that clients parse: kubectl prints its causes, and `--force-conflicts` is the next step.
pub fn to_conflict_status(conflicts: &[Conflict]) -> Status {
    let mut ordered: Vec<&Conflict> = conflicts.iter().collect();
    ordered.sort_by_cached_key(|conflict| conflict.identifier());
    let ordered: Vec<(String, Vec<String>)> =
        ordered.iter().map(|conflict| (conflict.to_string(), conflict.fields.paths())).collect();
    let count: usize = ordered.iter().map(|(_, fields)| fields.len()).sum();
    let text = match ordered.as_slice() {
        [(manager, fields)] if fields.len() == 1 => format!("conflict with {manager}: {}", fields[0]),
        many => {
            let each = |(manager, fields): &(String, Vec<String>)| {
                format!("conflicts with {manager}:\n- {}", fields.join("\n- "))
            };
            many.iter().map(each).collect::<Vec<_>>().join("\n")
        }
    };
    let plural = if count == 1 { "" } else { "s" };
    let causes = ordered.iter().flat_map(|(manager, fields)| {
        fields.iter().map(move |field| StatusCause {
            reason: "FieldManagerConflict".into(),
            message: format!("conflict with {manager}"),
            field: field.clone(),
        })
    });
    Status::failure(StatusReason::Conflict, format!("Apply failed with {count} conflict{plural}: {text}"))
        .with_details(StatusDetails { causes: causes.collect(), ..StatusDetails::default() })
}
