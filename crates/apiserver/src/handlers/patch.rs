//! patch: JSON, merge and strategic merge patches, and server-side apply. The server works on the newest object and
//! writes if nobody wrote in between.

use apimachinery::go_print::GoPrint;
use apimachinery::json_patch::{self, JsonPatch};
use apimachinery::{Status, StatusReason, field, managed_fields, merge_patch, strategic, strict};
use http::StatusCode;
use serde_json::Value;
use transport::{Body, Response};

use super::Call;
use super::ownership::Owners;
use super::types::Mismatch;
use crate::request::options::{FieldValidation, Write, WriteOptions};
use crate::respond;

enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

impl Patch {
    /// What errors show of it: the result as JSON, but strategic patches themselves, as Go prints maps.
    fn invalid(&self, patched: &Value, why: impl Into<String>) -> Status {
        match self {
            Self::Strategic(patch) => patch_invalid(&GoPrint(patch), why),
            Self::Json(_) | Self::Merge(_) => patch_invalid(patched, why),
        }
    }

    fn names_version(&self) -> bool {
        match self {
            Self::Json(patch) => patch.touches(&["metadata", "resourceVersion"]),
            Self::Merge(patch) | Self::Strategic(patch) => patch["metadata"].get("resourceVersion").is_some(),
        }
    }
}

impl Call<'_> {
    pub(super) async fn patch(&self, body: Body) -> Result<Response, Status> {
        if super::body::media_type(self.headers) == "application/apply-patch+yaml" {
            return self.apply(body).await;
        }
        let options = self.write_options(Write::Patch)?;
        let patch = self.read_patch(body).await?;
        let findings = parking_lot::Mutex::new(Vec::new());
        let changed = self
            .modify(&self.key(), Owners::Track, options.dry_run, |old| {
                let mut new = old.clone();
                self.apply_patch(&patch, &mut new)?;
                if !patch.names_version()
                    && let Some(metadata) = new["metadata"].as_object_mut()
                {
                    // Based on whatever is newest: a race is tried again, not reported.
                    metadata.remove("resourceVersion");
                }
                // Judged after the patch: directives of strategic patches are no fields, and what was stored has none.
                let unknown = strict::prune(&mut new, &self.resource.info.schema);
                *findings.lock() =
                    self.patch_findings(unknown, options.field_validation, |why| patch.invalid(&new, why))?;
                self.patched(new, |new, wrong| match patch {
                    Patch::Strategic(_) => patch.invalid(new, wrong.converter),
                    Patch::Json(_) | Patch::Merge(_) => patch.invalid(new, wrong.decoder),
                })
            })
            .await?;
        let mut findings = findings.into_inner();
        findings.extend(changed.warnings);
        let mut response = self.reply(StatusCode::OK, &changed.object)?;
        respond::warn(&mut response, &findings);
        Ok(response)
    }

    /// Unknown fields are told as on other writes, except that strict validation blames the patch (422).
    fn patch_findings(
        &self,
        unknown: Vec<String>,
        validation: FieldValidation,
        invalid: impl FnOnce(String) -> Status,
    ) -> Result<Vec<String>, Status> {
        if unknown.is_empty() || validation != FieldValidation::Strict {
            return self.field_findings(unknown, validation);
        }
        Err(invalid(strict::error_text(&unknown)))
    }

    fn apply_patch(&self, patch: &Patch, object: &mut Value) -> Result<(), Status> {
        match patch {
            Patch::Json(patch) => patch.apply(object).map_err(|e| e.to_status()),
            Patch::Merge(patch) => {
                merge_patch::apply(object, patch);
                Ok(())
            }
            Patch::Strategic(patch) => {
                strategic::apply(object, patch, &self.resource.info.schema).map_err(|e| e.to_status())
            }
        }
    }

    /// Checks that a patched object still is the one of the URL. `mistyped` tells what a value of a wrong type means.
    fn patched(&self, mut new: Value, mistyped: impl FnOnce(&Value, Mismatch) -> Status) -> Result<Value, Status> {
        if let Err(wrong) = self.stamp(&mut new) {
            return Err(patch_invalid(&new, wrong.message));
        }
        self.check_name(&mut new)?;
        self.check_namespace(&mut new)?;
        if let Some(wrong) = self.mistyped(&new) {
            return Err(mistyped(&new, wrong));
        }
        Ok(new)
    }

    async fn read_patch(&self, body: Body) -> Result<Patch, Status> {
        let bytes = super::body::read(body).await?;
        let object = || -> Result<Value, Status> {
            let patch: Value = serde_json::from_slice(&bytes).map_err(|e| {
                Status::bad_request(format!("error decoding patch: {}", super::body::json_error(&bytes, &e)))
            })?;
            match super::types::name_of(&patch) {
                "object" => Ok(patch),
                other => Err(Status::bad_request(format!(
                    "error decoding patch: json: cannot unmarshal {other} into Go value of type map[string]interface {{}}"
                ))),
            }
        };
        // Custom resources have no strategies; Karmada's own natively served kinds take strategic patches.
        match super::body::media_type(self.headers) {
            "application/json-patch+json" => json_patch::parse(&bytes).map(Patch::Json).map_err(|e| e.to_status()),
            "application/merge-patch+json" => object().map(Patch::Merge),
            "application/strategic-merge-patch+json" if !self.resource.info.custom => object().map(Patch::Strategic),
            _ if self.resource.info.custom => Err(Status::failure(
                StatusReason::UnsupportedMediaType,
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(Status::failure(StatusReason::UnsupportedMediaType, "415: Unsupported Media Type")
                .with_details(apimachinery::status::StatusDetails::default())),
        }
    }

    /// Server-side apply; creates what is missing.
    async fn apply(&self, body: Body) -> Result<Response, Status> {
        let WriteOptions { dry_run, force, field_validation, .. } = self.write_options(Write::Apply)?;
        let (mut patch, findings) = self.read_configuration(body, field_validation).await?;
        self.check_name(&mut patch)?;
        // Judged, not filled in: what the client did not say is not in its configuration.
        self.check_namespace(&mut patch.clone())?;
        let merge = |live: Option<&Value>| {
            self.as_manager(|context| managed_fields::apply(live, &patch, context, force, &self.resource.info.schema))
                .map_err(|e| e.to_status())
        };
        self.server.cache.catch_up().await?;
        if self.cache().get(&self.key()).is_none() {
            if !self.info.subresource.is_empty() {
                return Err(self.not_found(&self.info.name));
            }
            self.refuse_foreign_uid(&patch)?;
            let mut object = merge(None)?;
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
            }
            let (created, warnings) = self.create_object(object, Owners::Settled, dry_run).await?;
            let mut response = self.reply(StatusCode::CREATED, &created)?;
            respond::warn(&mut response, &[findings, warnings].concat());
            return Ok(response);
        }
        let names_version = patch["metadata"].get("resourceVersion").cloned();
        let changed = self
            .modify(&self.key(), Owners::Settled, dry_run, |old| {
                let mut new = merge(Some(old))?;
                new["metadata"]["resourceVersion"] = names_version.clone().unwrap_or_default();
                self.patched(new, |new, wrong| patch_invalid(new, wrong.decoder))
            })
            .await?;
        let mut response = self.reply(StatusCode::OK, &changed.object)?;
        respond::warn(&mut response, &[findings, changed.warnings].concat());
        Ok(response)
    }

    /// The applied configuration, and the duplicate keys found in it.
    async fn read_configuration(
        &self,
        body: Body,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Status> {
        let bytes = super::body::read(body).await?;
        let undecodable = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
        let (mut patch, findings) =
            apimachinery::yaml::to_json_value_warned(&bytes).map_err(|e| undecodable(e.to_string()))?;
        if !matches!(patch, Value::Object(_) | Value::Null) {
            return Err(undecodable(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
                 map[string]interface {{}}",
                super::types::name_of(&patch)
            )));
        }
        let findings = match validation {
            FieldValidation::Ignore => Vec::new(),
            FieldValidation::Strict if !findings.is_empty() => {
                return Err(undecodable(format!(
                    "error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
                    findings.join("\n  ")
                )));
            }
            FieldValidation::Warn | FieldValidation::Strict => findings,
        };
        let text = |key: &str| patch[key].as_str().unwrap_or_default();
        let (kind, version) = (text("kind"), text("apiVersion"));
        if kind != self.resource.info.resource.kind || version != self.api_version {
            let slash = if version.contains('/') { "" } else { "/" };
            return Err(Status::bad_request(format!("invalid object type: {slash}{version}, Kind={kind}")));
        }
        self.stamp(&mut patch)?;
        Ok((patch, findings))
    }
}

/// A patch whose result is no such object.
fn patch_invalid(shown: &impl ToString, why: impl Into<String>) -> Status {
    let error = field::Error::invalid(&field::Path::new("patch"), shown.to_string(), why);
    Status::invalid("", "", "", &[error])
}
