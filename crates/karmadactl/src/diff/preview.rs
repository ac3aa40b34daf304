//! A manifest as the control plane would have it, by a dry run.

use client::Client;
use serde_json::Value;

use super::DiffArgs;
use crate::error::Error;
use crate::objects::Item;
use crate::requests::{self, Patch, WriteOptions};
use crate::{Context, apply};

/// # Errors
/// The server's refusal.
pub async fn preview(context: &Context, client: &Client, item: &Item, args: &DiffArgs) -> Result<Value, Error> {
    let field_manager = match (args.server_side, args.field_manager.as_str()) {
        (true, "kubectl-client-side-apply") => "kubectl".to_owned(),
        (_, name) => name.to_owned(),
    };
    let options = &WriteOptions { field_manager, dry_run: true, validation: None };
    let manifest = item.object.as_ref().unwrap_or(&Value::Null);
    if args.server_side {
        let force = args.force_conflicts;
        let applied = apply::ServerSide { context, client, item, subresource: "", force, options }.apply().await;
        return applied.map(|(object, _)| object);
    }
    let modified = apply::annotated(manifest);
    let live = match requests::get(context, client, &item.resource, &item.key, None).await {
        Ok(live) => live,
        Err(error) if error.is_not_found() => {
            let created = requests::create(context, client, &item.resource, &item.key, &modified, options).await;
            return match created {
                // Its namespace may be in the same file. Defaults are missing then.
                Err(error) if error.is_not_found() => Ok(modified),
                other => other.map_err(item.failed("creating")),
            };
        }
        Err(error) => return Err(item.failed("retrieving current configuration of")(error)),
    };
    let type_ = kubernetes_api::schema_for(&item.gvk());
    let patch = apply::three_way_patch(apply::last_applied(&live).as_ref(), &modified, &live, type_.as_ref());
    if patch.as_object().is_some_and(serde_json::Map::is_empty) {
        return Ok(live);
    }
    let content_type = if type_.is_some() { requests::STRATEGIC_PATCH } else { requests::MERGE_PATCH };
    let sent = Patch { content_type, value: &patch, subresource: None, force: false };
    let patched = requests::patch(context, client, &item.resource, &item.key, sent, options).await;
    patched.map_err(item.failed("applying patch to"))
}
