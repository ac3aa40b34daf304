//! `apply --server-side`: the server merges and tracks who owns which field.

use client::Client;
use serde_json::Value;

use crate::Context;
use crate::error::Error;
use crate::objects::Item;
use crate::requests::{self, Patch, WriteOptions};

/// What kubectl prints below the conflicts.
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

/// The object afterwards, and what was done.
///
/// # Errors
/// Conflicts with the way to resolve them, or the server's refusal.
pub async fn apply(
    context: &Context,
    client: &Client,
    item: &Item,
    subresource: &str,
    force: bool,
    options: &WriteOptions,
) -> Result<(Value, &'static str), Error> {
    let manifest = item.object.as_ref().unwrap_or(&Value::Null);
    if !manifest["metadata"]["managedFields"].is_null() {
        return Err(Error::message("metadata.managedFields must be nil"));
    }
    let subresource = Some(subresource).filter(|name| !name.is_empty());
    let patch = Patch { content_type: requests::APPLY_PATCH, value: manifest, subresource, force };
    let applied = requests::patch(context, client, &item.resource, &item.key, patch, options).await;
    applied.map(|object| (object, "serverside-applied")).map_err(|error| match error.status() {
        Some(status) if error.is_conflict() => Error::message(format!("{}\n{ADVICE}", status.message)),
        _ => item.failed("applying")(error),
    })
}
