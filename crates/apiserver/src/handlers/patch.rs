//! patch: JSON, merge and strategic merge patches, and server-side apply. The server works on the newest object and
//! writes if nobody wrote in between.

use apimachinery::json_patch::{self, JsonPatch};
use apimachinery::{Status, StatusReason, field, managed_fields, merge_patch, strategic, strict};
use http::StatusCode;
use serde_json::Value;
use transport::{Body, Response};

use super::Call;
use super::ownership::Owners;
use crate::respond;

enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

impl Patch {
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
        let patch = self.read_patch(body).await?;
        let dry_run = self.dry_run()?;
        let findings = parking_lot::Mutex::new(Vec::new());
        let changed = self
            .modify(&self.key(), Owners::Track, dry_run, |old| {
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
                *findings.lock() = self.patch_findings(unknown, &new)?;
                self.patched(new)
            })
            .await?;
        let mut findings = findings.into_inner();
        findings.extend(changed.warnings);
        let mut response = self.reply(StatusCode::OK, &changed.object)?;
        respond::warn(&mut response, &findings);
        Ok(response)
    }

    /// Unknown fields are told as on other writes, except that strict validation blames the patch (422).
    fn patch_findings(&self, unknown: Vec<String>, patched: &Value) -> Result<Vec<String>, Status> {
        let named = &self.resource.info.resource;
        if unknown.is_empty() || self.info.query.text("fieldValidation") != Some("Strict") {
            return self.field_findings(unknown);
        }
        let path = apimachinery::field::Path::new("patch");
        let error = apimachinery::field::Error::invalid(&path, patched.to_string(), strict::error_text(&unknown));
        Err(Status::invalid(&named.group, &named.kind, &self.info.name, &[error]))
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

    /// Checks that a patched object still is the one of the URL.
    fn patched(&self, mut new: Value) -> Result<Value, Status> {
        self.stamp(&mut new)?;
        self.check_name(&mut new)?;
        self.check_namespace(&mut new)?;
        if let Some(wrong) = self.mistyped(&new) {
            let error = field::Error::invalid(&field::Path::new("patch"), new, wrong);
            return Err(Status::invalid("", "", "", &[error]));
        }
        Ok(new)
    }

    async fn read_patch(&self, body: Body) -> Result<Patch, Status> {
        let bytes = super::body::read(body).await?;
        let object = || -> Result<Value, Status> {
            let patch: Value = serde_json::from_slice(&bytes)
                .map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))?;
            if patch.is_object() {
                Ok(patch)
            } else {
                Err(Status::bad_request("error decoding patch: a merge patch is an object"))
            }
        };
        // Custom resources have no strategies; Karmada's own natively served kinds take strategic patches.
        match super::body::media_type(self.headers) {
            "application/json-patch+json" => json_patch::parse(&bytes).map(Patch::Json).map_err(|e| e.to_status()),
            "application/merge-patch+json" => object().map(Patch::Merge),
            "application/strategic-merge-patch+json" if !self.resource.info.custom => object().map(Patch::Strategic),
            other => Err(Status::failure(
                StatusReason::UnsupportedMediaType,
                format!(
                    "the body of the request was in an unknown format ({other}) - accepted media types include: \
                     application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
                ),
            )),
        }
    }

    /// Server-side apply; creates what is missing.
    async fn apply(&self, body: Body) -> Result<Response, Status> {
        if self.info.query.text("fieldManager").is_none() {
            let path = apimachinery::field::Path::new("fieldManager");
            let error = apimachinery::field::Error::required(&path, "is required for apply patch");
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
        }
        let mut patch = super::body::yaml(&super::body::read(body).await?)?;
        let named = &self.resource.info.resource;
        if patch["kind"] != named.kind.as_str() || patch["apiVersion"] != self.api_version.as_str() {
            return Err(Status::bad_request(format!(
                "invalid object type: {}, Kind={}",
                patch["apiVersion"].as_str().unwrap_or_default(),
                patch["kind"].as_str().unwrap_or_default()
            )));
        }
        self.stamp(&mut patch)?;
        self.check_name(&mut patch)?;
        self.check_namespace(&mut patch)?;
        let dry_run = self.dry_run()?;
        let force = self.info.query.flag("force");
        let merge = |live: Option<&Value>| {
            self.as_manager(|context| managed_fields::apply(live, &patch, context, force, &self.resource.info.schema))
                .map_err(|e| e.to_status())
        };
        self.server.cache.catch_up().await?;
        if self.cache().get(&self.key()).is_none() {
            if !self.info.subresource.is_empty() {
                return Err(self.not_found(&self.info.name));
            }
            let mut object = merge(None)?;
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
            }
            let (created, warnings) = self.create_object(object, Owners::Settled, dry_run).await?;
            let mut response = self.reply(StatusCode::CREATED, &created)?;
            respond::warn(&mut response, &warnings);
            return Ok(response);
        }
        let names_version = patch["metadata"].get("resourceVersion").cloned();
        let changed = self
            .modify(&self.key(), Owners::Settled, dry_run, |old| {
                let mut new = merge(Some(old))?;
                new["metadata"]["resourceVersion"] = names_version.clone().unwrap_or_default();
                self.patched(new)
            })
            .await?;
        let mut response = self.reply(StatusCode::OK, &changed.object)?;
        respond::warn(&mut response, &changed.warnings);
        Ok(response)
    }
}
