//! patch: JSON, merge and strategic merge patches, and server-side apply. The server patches the newest object, and
//! retries after concurrent writes.

use std::sync::Arc;

use apimachinery::go_print::GoPrint;
use apimachinery::json_patch::{self, JsonPatch};
use apimachinery::object::ObjectTree as _;
use apimachinery::schema::TypeOf;
use apimachinery::{Object, Status, StatusReason, field, go_json, managed_fields, merge_patch, strategic, strict};
use http::StatusCode;
use serde_json::{Value, json};
use transport::{Body, Draft, Response};

use super::Call;
use super::ownership::Proposal;
use super::type_meta::{ObjectMismatch, kindless};
use super::types::Mismatch;
use crate::request::options::{FieldValidation, Write, WriteOptions};
use crate::wire::body;
use crate::wire::warnings;

/// The media type of server-side apply.
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// How a patch is written, other than as an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Merge,
    Strategic,
}

enum Document {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

/// A patch as it was sent, and the keys it has twice.
pub(super) struct Patch {
    document: Document,
    duplicates: Vec<String>,
}

impl Patch {
    fn apply(&self, object: &mut Value, schema: &TypeOf) -> Result<(), Status> {
        match &self.document {
            Document::Json(patch) => patch.apply(object).map_err(|e| e.to_status()),
            Document::Merge(patch) => {
                merge_patch::apply(object, patch);
                Ok(())
            }
            Document::Strategic(patch) => strategic::apply(object, patch, schema).map_err(|e| e.to_status()),
        }
    }

    /// A refusal that shows the result as JSON, but strategic patches themselves, as Go prints maps.
    fn invalid(&self, old: &Value, schema: &TypeOf, why: impl Into<String>) -> Status {
        if let Document::Strategic(patch) = &self.document {
            return patch_invalid(&GoPrint(patch), why);
        }
        // Patched again, with the fields that validation removed.
        let mut patched = old.clone();
        match self.apply(&mut patched, schema) {
            Ok(()) => patch_invalid(&patched, why),
            Err(status) => status,
        }
    }

    fn names_version(&self) -> bool {
        match &self.document {
            Document::Json(patch) => patch.touches(&["metadata", "resourceVersion"]),
            Document::Merge(patch) | Document::Strategic(patch) => patch["metadata"].get("resourceVersion").is_some(),
        }
    }

    /// Whether it may read or change the list of owners, so that it needs an object with the list.
    fn concerns_owners(&self) -> bool {
        match &self.document {
            Document::Json(patch) => patch.concerns(&["metadata", "managedFields"]),
            Document::Merge(patch) | Document::Strategic(patch) => patch["metadata"].get("managedFields").is_some(),
        }
    }
}

impl Call<'_> {
    pub(crate) async fn patch(&self, body: Body) -> Result<Response, Status> {
        if body::media_type(self.headers) == APPLY {
            return self.apply(body).await;
        }
        // First: clients that are refused an apply in CBOR for its media type send YAML next, whatever the options.
        let form = self.patch_form()?;
        let options = self.write_options(Write::Patch)?;
        let patch = self.read_patch(body, form, options.field_validation).await?;
        if let Document::Merge(document) = &patch.document
            && patch.duplicates.is_empty()
            && !options.dry_run
            && let Some(changed) = self.patch_part(document).await?
        {
            return self.reply(StatusCode::OK, &changed);
        }
        let findings = parking_lot::Mutex::new(Vec::new());
        let changed = self
            .modify(&self.key(), options.dry_run, |live| {
                let whole = || self.outcome(&patch, &live.with_owners(), options.field_validation);
                let outcome = if patch.concerns_owners() {
                    whole()
                } else {
                    // A refusal shows all of the object.
                    self.outcome(&patch, &live.tree, options.field_validation).or_else(|_| whole())
                };
                let (new, found) = outcome?;
                *findings.lock() = found;
                Ok(new.into())
            })
            .await?;
        let mut findings = findings.into_inner();
        findings.extend(changed.warnings);
        let mut response = self.reply(StatusCode::OK, &changed.object)?;
        warnings::warn(&mut response, &findings);
        Ok(response)
    }

    /// Executes a patch of a part of the object; `None` when it requires the whole object.
    async fn patch_part(&self, patch: &Value) -> Result<Option<Arc<Object>>, Status> {
        match self.patch_status(patch).await? {
            Some(changed) => Ok(Some(changed)),
            None => self.patch_metadata(patch).await,
        }
    }

    /// The patched object, and the warnings about unknown and duplicate fields. With strict validation these are errors
    /// of the patch (422).
    pub(super) fn outcome(
        &self,
        patch: &Patch,
        old: &Value,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Status> {
        let schema = &self.resource.info.schema;
        let mut new = old.clone();
        patch.apply(&mut new, schema)?;
        if matches!(patch.document, Document::Strategic(_)) {
            // The resource determines the kind, which a patch cannot change.
            self.stamp(&mut new);
        }
        if !patch.names_version()
            && let Some(metadata) = new.metadata_mut()
        {
            // Based on the newest version: a conflict is retried, not reported.
            metadata.remove("resourceVersion");
        }
        // Validated after the patch: directives of strategic patches are not fields, and stored objects have no unknown
        // ones.
        let mut findings = patch.duplicates.clone();
        findings.extend(self.pruned(&mut new));
        let new = self.patched(new, |_, wrong| match wrong {
            PatchedMismatch::Kind(why) => patch.invalid(old, schema, why),
            PatchedMismatch::Type(wrong) if matches!(patch.document, Document::Strategic(_)) => {
                patch.invalid(old, schema, wrong.converter)
            }
            PatchedMismatch::Type(wrong) => patch.invalid(old, schema, wrong.decoder),
        })?;
        match validation {
            FieldValidation::Ignore => Ok((new, Vec::new())),
            FieldValidation::Strict if !findings.is_empty() => {
                Err(patch.invalid(old, schema, strict::error_text(&findings)))
            }
            FieldValidation::Warn | FieldValidation::Strict => {
                self.notes.set_findings(&findings);
                Ok((new, findings))
            }
        }
    }

    /// Checks that a patched object is still the one of the URL. `refuse` returns the error for another kind, or for a
    /// value of a wrong type.
    pub(super) fn patched(
        &self,
        mut new: Value,
        refuse: impl FnOnce(&Value, PatchedMismatch) -> Status,
    ) -> Result<Value, Status> {
        match self.mismatch(&new) {
            None => {}
            Some(ObjectMismatch::OtherVersion(sent)) if self.takes_only_status() && !sent.is_empty() => {}
            // It is decoded in any version, and validated after that.
            Some(ObjectMismatch::OtherVersion(_)) if self.resource.info.custom => return Err(self.other_type(&new)),
            Some(ObjectMismatch::OtherVersion(sent)) => return Err(self.other_version(&sent)),
            Some(ObjectMismatch::OtherKind(status)) => return Err(status),
            Some(ObjectMismatch::Unreadable(why) | ObjectMismatch::Unusable { why, .. }) => {
                return Err(refuse(&new, PatchedMismatch::Kind(why)));
            }
            Some(ObjectMismatch::Kindless) => {
                let why = kindless(new.to_string().as_bytes());
                return Err(refuse(&new, PatchedMismatch::Kind(why)));
            }
        }
        self.stamp(&mut new);
        if let Some(wrong) = self.mistyped(&mut new) {
            return Err(refuse(&new, PatchedMismatch::Type(wrong)));
        }
        self.require_name(&new)?;
        self.check_name(&mut new)?;
        self.check_namespace(&mut new)?;
        Ok(new)
    }

    pub(super) async fn read_patch(
        &self,
        body: Body,
        form: Form,
        validation: FieldValidation,
    ) -> Result<Patch, Status> {
        if let Some(draft) = self.draft.and_then(Draft::take) {
            return drafted_patch(form, draft);
        }
        let bytes = body::read(body).await?;
        let (tree, mut duplicates) = strict::decode_reporting_duplicates(&bytes).map_or_else(
            |error| (Err(body::json_error(&bytes, &error)), Vec::new()),
            |(tree, duplicates)| (Ok(tree), duplicates),
        );
        if validation == FieldValidation::Ignore {
            duplicates.clear();
        }
        if form == Form::Json {
            if validation != FieldValidation::Ignore {
                duplicates = duplicate_and_unknown_members(duplicates, &bytes);
            }
            let document = Document::Json(json_patch::parse(&bytes).map_err(|e| e.to_status())?);
            return Ok(Patch { document, duplicates });
        }
        Ok(Patch { document: object_patch(form, tree)?, duplicates })
    }

    /// The form of the patch, or the refusal of its media type.
    pub(super) fn patch_form(&self) -> Result<Form, Status> {
        let is_custom = self.resource.info.custom;
        match body::media_type(self.headers) {
            "application/json-patch+json" => Ok(Form::Json),
            "application/merge-patch+json" => Ok(Form::Merge),
            // Custom resources have no strategies; Karmada's own natively served kinds take strategic patches.
            "application/strategic-merge-patch+json" if !is_custom => Ok(Form::Strategic),
            _ if is_custom => Err(Status::failure(
                StatusReason::UnsupportedMediaType,
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(Status::failure(StatusReason::UnsupportedMediaType, "415: Unsupported Media Type")
                .with_details(apimachinery::status::StatusDetails::default())),
        }
    }

    /// Server-side apply; creates a missing object.
    async fn apply(&self, body: Body) -> Result<Response, Status> {
        let WriteOptions { dry_run, force, field_validation, .. } = self.write_options(Write::Apply)?;
        let (mut patch, findings) = self.read_configuration(body, field_validation).await?;
        self.check_name(&mut patch)?;
        // Checked, not filled in: omitted fields are not part of the applied configuration.
        self.check_namespace(&mut json!({"metadata": {"namespace": patch["metadata"]["namespace"]}}))?;
        let merge = |live: Option<(&Value, managed_fields::Owners)>| {
            self.as_manager(|context| {
                managed_fields::merge_apart(live, &patch, context, force, &self.resource.info.schema)
            })
            .map_err(|e| e.to_status())
        };
        let is_current = self.stored().catch_up_own().await?;
        if !is_current && self.cache().get(&self.key())?.is_none() {
            self.stored().catch_up().await?;
        }
        if self.cache().get(&self.key())?.is_none() {
            if !self.info.subresource.is_empty() {
                return Err(self.not_found(&self.info.name));
            }
            self.check_may_create().await?;
            self.reject_other_uid(&patch)?;
            let (mut object, owners) = merge(None)?;
            if let Some(wrong) = self.mistyped(&mut object) {
                return Err(PatchedMismatch::Type(wrong).invalid(&object));
            }
            if let Some(metadata) = object.metadata_mut() {
                metadata.remove("resourceVersion");
            }
            let (created, warnings) = self.create_object(Proposal { object, owners: Some(owners) }, dry_run).await?;
            let mut response = self.reply(StatusCode::CREATED, &created)?;
            warnings::warn(&mut response, &[findings, warnings].concat());
            return Ok(response);
        }
        let names_version = patch["metadata"].get("resourceVersion").cloned();
        let changed = self
            .modify(&self.key(), dry_run, |live| {
                let known = live.owners().map_err(|error| managed_fields::ApplyError::from(error).to_status())?;
                let (mut new, owners) = merge(Some((&live.tree, known)))?;
                new["metadata"]["resourceVersion"] = names_version.clone().unwrap_or_default();
                let object = self.patched(new, |new, wrong| {
                    let mut shown = new.clone();
                    owners.put(&mut shown);
                    wrong.invalid(&shown)
                })?;
                Ok(Proposal { object, owners: Some(owners) })
            })
            .await?;
        let mut response = self.reply(StatusCode::OK, &changed.object)?;
        warnings::warn(&mut response, &[findings, changed.warnings].concat());
        Ok(response)
    }

    /// The applied configuration, and the duplicate keys found in it.
    pub(super) async fn read_configuration(
        &self,
        body: Body,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Status> {
        let undecodable = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
        let (mut patch, findings) = match self.draft.and_then(Draft::take) {
            Some(mut draft) => {
                strict::adopt_untyped(&mut draft).map_err(|why| undecodable(why.to_string()))?;
                (draft, Vec::new())
            }
            None => {
                let bytes = body::read(body).await?;
                apimachinery::yaml::to_json_value_warned(body::first_document(&bytes))
                    .map_err(|e| undecodable(e.to_string()))?
            }
        };
        if !matches!(patch, Value::Object(_) | Value::Null) {
            return Err(undecodable(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
                 map[string]interface {{}}",
                go_json::type_name(&patch)
            )));
        }
        let findings = match validation {
            FieldValidation::Ignore => Vec::new(),
            FieldValidation::Strict if !findings.is_empty() => {
                return Err(Status::bad_request(format!(
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
                    findings.join("\n  ")
                )));
            }
            FieldValidation::Warn | FieldValidation::Strict => findings,
        };
        self.notes.set_findings(&findings);
        let text = |key: &str| patch[key].as_str().unwrap_or_default();
        let (kind, version) = (text("kind").to_owned(), text("apiVersion"));
        if kind != self.resource.info.resource.kind || version != self.api_version {
            let slash = if version.contains('/') { "" } else { "/" };
            return Err(Status::bad_request(format!("invalid object type: {slash}{version}, Kind={kind}")));
        }
        self.stamp(&mut patch);
        if !patch["metadata"].is_object() {
            let version = &self.resource.info.resource.version;
            return Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: metadata is no object",
            )));
        }
        Ok((patch, findings))
    }
}

/// Duplicate and unknown members of a JSON patch, in the order of its operations.
fn duplicate_and_unknown_members(duplicates: Vec<String>, document: &[u8]) -> Vec<String> {
    let place = |text: &str| text.split(['[', ']']).nth(1).and_then(|index| index.parse().ok()).unwrap_or(usize::MAX);
    let mut found = json_patch::unknown_members(document);
    found.extend(duplicates.into_iter().map(|text| (place(&text), text)));
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, text)| format!("json patch {text}")).collect()
}

/// Why a patched object is not an object of the resource.
pub(super) enum PatchedMismatch {
    Kind(String),
    Type(Mismatch),
}

impl PatchedMismatch {
    pub(super) fn invalid(self, shown: &Value) -> Status {
        match self {
            Self::Kind(why) => patch_invalid(shown, why),
            Self::Type(wrong) => patch_invalid(shown, wrong.decoder),
        }
    }
}

/// A patch that was never encoded.
fn drafted_patch(form: Form, mut draft: Value) -> Result<Patch, Status> {
    let document = if form == Form::Json {
        Document::Json(json_patch::from_value(&draft).map_err(|e| e.to_status())?)
    } else {
        let tree = strict::adopt_untyped(&mut draft).map(|()| draft);
        object_patch(form, tree.map_err(|why| why.to_string()))?
    };
    Ok(Patch { document, duplicates: Vec::new() })
}

/// A patch that is an object.
fn object_patch(form: Form, tree: Result<Value, String>) -> Result<Document, Status> {
    let patch = tree.map_err(|why| Status::bad_request(format!("error decoding patch: {why}")))?;
    match (go_json::type_name(&patch), form) {
        ("null", Form::Strategic) => Ok(Document::Strategic(json!({}))),
        ("null", _) => Err(Status::bad_request("Invalid JSON Patch")),
        ("object", Form::Strategic) => Ok(Document::Strategic(patch)),
        ("object", _) => Ok(Document::Merge(patch)),
        (other, _) => Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {other} into Go value of type map[string]interface {{}}"
        ))),
    }
}

/// A patch whose result is no such object.
fn patch_invalid(shown: &impl ToString, why: impl Into<String>) -> Status {
    let error = field::Error::invalid(&field::Path::new("patch"), shown.to_string(), why);
    Status::invalid("", "", "", &[error])
}
