//! patch: JSON patch and merge patch; the server applies it to the newest object and writes if nobody wrote in between.

use apimachinery::json_patch::{self, JsonPatch};
use apimachinery::{Status, StatusReason, merge_patch};
use http::StatusCode;
use serde_json::Value;
use transport::{Body, Response};

use super::Call;
use crate::respond;

enum Patch {
    Json(JsonPatch),
    Merge(Value),
}

impl Patch {
    fn names_version(&self) -> bool {
        match self {
            Self::Json(patch) => patch.touches(&["metadata", "resourceVersion"]),
            Self::Merge(patch) => patch["metadata"].get("resourceVersion").is_some(),
        }
    }

    fn apply(&self, object: &mut Value) -> Result<(), Status> {
        match self {
            Self::Json(patch) => patch.apply(object).map_err(|e| e.to_status()),
            Self::Merge(patch) => {
                merge_patch::apply(object, patch);
                Ok(())
            }
        }
    }
}

impl Call<'_> {
    pub(super) async fn patch(&self, body: Body) -> Result<Response, Status> {
        let patch = self.read_patch(body).await?;
        let dry_run = self.dry_run()?;
        let changed = self
            .modify(&self.key(), dry_run, |old| {
                let mut new = old.clone();
                patch.apply(&mut new)?;
                if !patch.names_version()
                    && let Some(metadata) = new["metadata"].as_object_mut()
                {
                    // Based on whatever is newest: a race is tried again, not reported.
                    metadata.remove("resourceVersion");
                }
                self.stamp(&mut new)?;
                self.check_name(&mut new)?;
                self.check_namespace(&mut new)?;
                Ok(new)
            })
            .await?;
        let mut response = self.reply(StatusCode::OK, &changed.object)?;
        respond::warn(&mut response, &changed.warnings);
        Ok(response)
    }

    async fn read_patch(&self, body: Body) -> Result<Patch, Status> {
        let bytes = super::body::read(body).await?;
        match super::body::media_type(self.headers) {
            "application/json-patch+json" => json_patch::parse(&bytes).map(Patch::Json).map_err(|e| e.to_status()),
            "application/merge-patch+json" => {
                let patch: Value = serde_json::from_slice(&bytes)
                    .map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))?;
                if patch.is_object() {
                    Ok(Patch::Merge(patch))
                } else {
                    Err(Status::bad_request("error decoding patch: a merge patch is an object"))
                }
            }
            other => Err(Status::failure(
                StatusReason::UnsupportedMediaType,
                format!(
                    "the body of the request was in an unknown format ({other}) - accepted media types include: \
                     application/json-patch+json, application/merge-patch+json"
                ),
            )),
        }
    }
}
