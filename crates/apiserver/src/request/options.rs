//! The query options of writes and lists: decoded with Go's texts, validated with kube-apiserver's.

use apimachinery::Status;
use apimachinery::field::{Error as FieldError, Path};
use serde_json::{Value, json};

use super::Query;

/// Bytes in a field manager's name.
const MAX_MANAGER: usize = 128;

/// The operation of a write, as distinguished by admission plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The object is new.
    Create,
    /// The object exists; this includes patches.
    Update,
    /// The object is to be deleted.
    Delete,
}

/// The options of a write, for admission: built from the request only if a user's program needs them.
#[derive(Clone, Copy)]
pub(crate) enum Options<'a> {
    /// Those of the query.
    Query(&'a Query),
    /// Those of a DELETE, from its body or its query.
    Deletion(&'a (dyn Fn() -> Value + Sync)),
}

impl Options<'_> {
    pub(crate) fn document(&self, operation: Operation) -> Value {
        let query = match self {
            Self::Deletion(document) => return document(),
            Self::Query(query) => query,
        };
        // Patches and applies are updates, or creates, to admission.
        let kind = if operation == Operation::Create { "CreateOptions" } else { "UpdateOptions" };
        let mut document = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        if !dry_run.is_empty() {
            document["dryRun"] = json!(dry_run);
        }
        for name in ["fieldManager", "fieldValidation"] {
            if let Some(value) = query.text(name) {
                document[name] = value.into();
            }
        }
        document
    }
}

/// The type of a write; each has a kind of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// POST
    Create,
    /// PUT
    Update,
    /// PATCH with a patch.
    Patch,
    /// PATCH with a configuration to apply.
    Apply,
}

impl Write {
    fn kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// The treatment of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped with a warning.
    Warn,
    /// They are errors.
    Strict,
}

/// The options of a create, update or patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// Whether an apply takes over fields of other managers.
    pub force: bool,
    /// How unknown and duplicate fields are treated.
    pub field_validation: FieldValidation,
    /// Empty if the request sets none.
    pub field_manager: String,
}

impl WriteOptions {
    /// # Errors
    /// 422 on the options' kind with every wrong one.
    pub fn parse(query: &Query, write: Write) -> Result<Self, Status> {
        let mut wrong = Vec::new();
        let field_manager = query.get("fieldManager").unwrap_or_default();
        if write == Write::Apply && field_manager.is_empty() {
            wrong.push(FieldError::required(&Path::new("fieldManager"), "is required for apply patch"));
        }
        if write == Write::Patch && query.get("force").is_some() {
            wrong.push(FieldError::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
        }
        wrong.extend(manager_errors(field_manager));
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        wrong.extend(dry_run_errors(&dry_run));
        let field_validation = match query.get("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let known = ["", "Ignore", "Strict", "Warn"];
                wrong.push(FieldError::not_supported(&Path::new("fieldValidation"), other, &known));
                FieldValidation::Warn
            }
        };
        if !wrong.is_empty() {
            return Err(Status::invalid("meta.k8s.io", write.kind(), "", &wrong));
        }
        Ok(Self {
            dry_run: !dry_run.is_empty(),
            force: query.flag("force"),
            field_validation,
            field_manager: field_manager.to_owned(),
        })
    }
}

fn manager_errors(name: &str) -> Vec<FieldError> {
    let path = Path::new("fieldManager");
    let mut wrong = Vec::new();
    if name.len() > MAX_MANAGER {
        wrong.push(FieldError::too_long(&path, MAX_MANAGER));
    }
    if let Some((at, c)) = name.char_indices().find(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' ')) {
        let why = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        wrong.push(FieldError::invalid(&path, name, why));
    }
    wrong
}

pub(crate) fn dry_run_errors<S: AsRef<str>>(values: &[S]) -> Option<FieldError> {
    let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
    let wrong = values.iter().any(|value| *value != "All");
    wrong.then(|| FieldError::not_supported(&Path::new("dryRun"), values, &["All"]))
}

/// The states that a read accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// The state at the given version.
    Exact,
    /// Any state from the given version on.
    NotOlderThan,
}

/// The options of a list or watch, apart from its selectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// 0 means all.
    pub limit: usize,
    /// 0 means the server's choice, in seconds.
    pub timeout_seconds: u64,
    /// Absent if the request sets none; zero differs from absent.
    pub resource_version: Option<u64>,
    /// `resourceVersionMatch`
    pub version_match: Option<VersionMatch>,
    /// `continue`; empty on the first page.
    pub continue_token: String,
    /// `allowWatchBookmarks`
    pub allow_bookmarks: bool,
    /// `sendInitialEvents`
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// # Errors
    /// 400 for invalid values, 422 for contradictory options.
    pub fn parse(query: &Query, watch: bool) -> Result<Self, Status> {
        let limit = integer(query, "limit")?.unwrap_or(0);
        let timeout = integer(query, "timeoutSeconds")?.unwrap_or(0);
        let how = query.get("resourceVersionMatch").unwrap_or_default();
        let version = query.get("resourceVersion").unwrap_or_default();
        let token = query.get("continue").unwrap_or_default();
        let initial = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
        // By default such a watch begins with all objects, which these two parameters request.
        let is_initial = initial.is_none() && how.is_empty() && matches!(version, "" | "0");
        let wrong = match watch {
            true if is_initial => watch_errors("NotOlderThan", token, Some(true)),
            true => watch_errors(how, token, initial),
            false => list_errors(how, version, token, initial),
        };
        if !wrong.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "ListOptions", "", &wrong));
        }
        Ok(Self {
            limit: usize::try_from(limit).unwrap_or(0),
            timeout_seconds: u64::try_from(timeout).unwrap_or(0),
            resource_version: revision(version).map_err(|text| {
                // Upstream's watch does not classify the error.
                if watch {
                    Status::unclassified(text)
                } else {
                    Status::bad_request(format!("invalid resource version: {text}"))
                }
            })?,
            version_match: match how {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            continue_token: token.to_owned(),
            allow_bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: initial,
        })
    }
}

/// A resourceVersion; `None` when empty. The error is Go's.
///
/// # Errors
/// The message for text that is not a number.
pub fn revision(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
    })
}

/// A whole number; 400 with Go's message for other text.
pub(crate) fn integer(query: &Query, key: &str) -> Result<Option<i64>, Status> {
    let Some(text) = query.get(key) else { return Ok(None) };
    text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why =
            if matches!(error.kind(), PosOverflow | NegOverflow) { "value out of range" } else { "invalid syntax" };
        Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
    })
}

const MATCH: &str = "resourceVersionMatch";
const WITH_CONTINUE: &str = "resourceVersionMatch is forbidden when continue is provided";

fn list_errors(how: &str, version: &str, token: &str, initial: Option<bool>) -> Vec<FieldError> {
    let path = Path::new(MATCH);
    let mut wrong = Vec::new();
    if !how.is_empty() {
        if version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            wrong.push(FieldError::forbidden(&path, why));
        }
        if !token.is_empty() {
            wrong.push(FieldError::forbidden(&path, WITH_CONTINUE));
        }
        if !matches!(how, "Exact" | "NotOlderThan") {
            wrong.push(FieldError::not_supported(&path, how, &["Exact", "NotOlderThan", ""]));
        }
        if how == "Exact" && version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            wrong.push(FieldError::forbidden(&path, why));
        }
    }
    if initial.is_some() {
        wrong.push(FieldError::forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list"));
    }
    wrong
}

fn watch_errors(how: &str, token: &str, initial: Option<bool>) -> Vec<FieldError> {
    let path = Path::new(MATCH);
    let mut wrong = Vec::new();
    if initial.is_some() && how != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        wrong.push(FieldError::forbidden(&path, why));
    }
    if !how.is_empty() {
        if initial.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            wrong.push(FieldError::forbidden(&path, why));
        }
        if how != "NotOlderThan" {
            wrong.push(FieldError::not_supported(&path, how, &["NotOlderThan"]));
        }
        if !token.is_empty() {
            wrong.push(FieldError::forbidden(&path, WITH_CONTINUE));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown<T>(result: Result<T, Status>) -> String {
        result.err().map_or_else(String::new, |status| format!("{} {}", status.code, status.message))
    }

    #[test]
    fn write_options_are_validated_with_upstreams_messages() {
        let long = format!("fieldManager={}", "a".repeat(129));
        let create = "422 CreateOptions.meta.k8s.io \"\" is invalid: ";
        let table: &[(Write, &str, String)] = &[
            (Write::Create, "dryRun=All&fieldManager=m&fieldValidation=Strict", String::new()),
            (Write::Create, &long, format!("{create}fieldManager: Too long: may not be more than 128 bytes")),
            (
                Write::Create,
                "dryRun=Some",
                format!("{create}dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""),
            ),
            (
                Write::Create,
                "fieldManager=a%07b",
                format!("{create}fieldManager: Invalid value: \"a\\ab\": invalid character U+0007 (at position 1)"),
            ),
            (
                Write::Update,
                "fieldValidation=Nope",
                "422 UpdateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Nope\": supported \
                 values: \"\", \"Ignore\", \"Strict\", \"Warn\""
                    .into(),
            ),
            (
                Write::Patch,
                "force=true",
                "422 PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
                    .into(),
            ),
            (
                Write::Apply,
                "force=true",
                "422 PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
                    .into(),
            ),
            (Write::Apply, "force=true&fieldManager=m", String::new()),
        ];
        for (write, query, expected) in table {
            assert_eq!(&shown(WriteOptions::parse(&Query::parse(query), *write)), expected, "{query}");
        }
    }

    #[test]
    fn list_options_are_validated_with_upstreams_messages() {
        let invalid = "422 ListOptions.meta.k8s.io \"\" is invalid: ";
        let table: &[(bool, &str, &str)] = &[
            (false, "limit=5&continue=x&timeoutSeconds=3", ""),
            (false, "resourceVersion=5&resourceVersionMatch=Exact", ""),
            (true, "resourceVersion=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", ""),
            (false, "limit=abc", "400 strconv.ParseInt: parsing \"abc\": invalid syntax"),
            (
                false,
                "timeoutSeconds=99999999999999999999",
                "400 strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
            ),
            (
                false,
                "resourceVersion=abc",
                "400 invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": \
                 invalid syntax",
            ),
            (
                false,
                "resourceVersionMatch=Exact",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                false,
                "resourceVersionMatch=Exact&resourceVersion=5&continue=x",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ),
            (
                false,
                "resourceVersionMatch=Nope&resourceVersion=5",
                "resourceVersionMatch: Unsupported value: \"Nope\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            ),
            (
                false,
                "resourceVersionMatch=Exact&resourceVersion=0",
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            (false, "sendInitialEvents=true", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
            (
                true,
                "sendInitialEvents=true",
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (
                true,
                "continue=x",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ),
            (true, "continue=x&resourceVersion=5", ""),
            (false, "limit=", "400 strconv.ParseInt: parsing \"\": invalid syntax"),
            (
                true,
                "resourceVersionMatch=NotOlderThan",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
        ];
        for (watch, query, expected) in table {
            let found = shown(ListOptions::parse(&Query::parse(query), *watch));
            let expected = if expected.is_empty() || expected.starts_with('4') {
                (*expected).to_owned()
            } else {
                format!("{invalid}{expected}")
            };
            assert_eq!(found, expected, "{query}");
        }
    }
}
