//! `apply --server-side`: the server merges and tracks field owners.

use client::Client;
use serde_json::Value;

use super::migration;
use crate::Context;
use crate::error::Error;
use crate::objects::Item;
use crate::requests::{self, Patch, WriteOptions};

/// kubectl's advice below the conflicts.
const ADVICE: &str = "Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'll become the manager if the other manager(s)
  stop managing the field (remove it from its configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts";

/// Attempts to move fields from client-side apply while others write the object.
const ATTEMPTS: u32 = 5;
const LATER: &str = "This is non-fatal and will be retried next time you apply. Error:";

/// One object that is applied.
pub struct ServerSide<'a> {
    pub context: &'a Context,
    pub client: &'a Client,
    pub item: &'a Item,
    pub subresource: &'a str,
    pub force: bool,
    pub options: &'a WriteOptions,
}

impl ServerSide<'_> {
    /// Applies the object; returns the result and the verb for the output.
    ///
    /// # Errors
    /// Conflicts with the ways to resolve them, or the server's error.
    pub async fn apply(&self) -> Result<(Value, &'static str), Error> {
        let manifest = self.item.object.as_ref().unwrap_or(&Value::Null);
        if !manifest["metadata"]["managedFields"].is_null() {
            return Err(Error::message("metadata.managedFields must be nil"));
        }
        let applied = self.patch(requests::APPLY_PATCH, manifest, self.force, self.options).await;
        let applied = applied.map_err(|error| match error.status() {
            Some(status) if error.is_conflict() => Error::message(format!("{}\n{ADVICE}", status.message)),
            _ => self.item.failed("applying")(error),
        })?;
        Ok((self.migrate(manifest, applied).await, "serverside-applied"))
    }

    /// Takes over the fields that client-side apply owns. A failure is retried by the next apply.
    async fn migrate(&self, manifest: &Value, applied: Value) -> Value {
        let warn = |text: &str, error: client::Error| {
            self.context.log(&format!("Warning: {text}. {LATER} {}\n", crate::servers::reason(&error)));
        };
        let mut object = applied;
        let kept = migration::kept_annotation(&object).filter(|_| self.options.field_manager == migration::SERVER_SIDE);
        if let Some(kept) = kept {
            let options = WriteOptions { field_manager: migration::KEEPER.to_owned(), ..self.options.clone() };
            match self.patch(requests::APPLY_PATCH, &kept, false, &options).await {
                Ok(written) => object = written,
                Err(error) => {
                    warn(
                        "failed to migrate kubectl.kubernetes.io/last-applied-configuration for Server-Side Apply",
                        error,
                    );
                    return object;
                }
            }
        }
        match self.move_fields(&object).await {
            Ok(false) => return object,
            Ok(true) => {}
            Err(error) => {
                warn("server rejected managed fields migration to Server-Side Apply", error);
                return object;
            }
        }
        // Fields that are not in the manifest go now.
        match self.patch(requests::APPLY_PATCH, manifest, self.force, self.options).await {
            Ok(object) => object,
            Err(error) => {
                warn("failed to re-apply configuration after performing Server-Side Apply migration", error);
                object
            }
        }
    }

    /// Whether there were any.
    async fn move_fields(&self, object: &Value) -> client::Result<bool> {
        let mut live = object.clone();
        for attempt in 1.. {
            let Some(patch) = migration::patch(&live, &self.options.field_manager) else { return Ok(false) };
            match self.patch(requests::JSON_PATCH, &patch, false, self.options).await {
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
                other => return other.map(|_| true),
            }
            live = requests::get(self.context, self.client, &self.item.resource, &self.item.key, None).await?;
        }
        Ok(false)
    }

    async fn patch(
        &self,
        content_type: &'static str,
        value: &Value,
        force: bool,
        options: &WriteOptions,
    ) -> client::Result<Value> {
        let subresource = Some(self.subresource).filter(|name| !name.is_empty());
        let patch = Patch { content_type, value, subresource, force };
        requests::patch(self.context, self.client, &self.item.resource, &self.item.key, patch, options).await
    }
}
