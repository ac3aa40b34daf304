//! `patch`: changes fields of an object with a strategic merge, merge or JSON patch.

use apimachinery::object::ObjectTree as _;
use apimachinery::{json_patch, yaml};
use clap::Args;
use client::Client;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::Context;
use crate::apply::locally;
use crate::error::{self, Error};
use crate::objects::flags::{DryRun, Files, Printing};
use crate::objects::{self, Item, ObjectSelection};
use crate::printing::Printer;
use crate::requests::{self, Patch, WriteOptions};

#[derive(Args)]
pub struct PatchArgs {
    /// TYPE NAME, or TYPE/NAME
    args: Vec<String>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    printing: Printing,
    /// Must be "none", "server", or "client". With client no request is sent, with server no object is stored.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    dry_run: String,
    /// Name of the manager that owns the fields.
    #[arg(long, default_value = "kubectl-patch")]
    field_manager: String,
    /// Patch the manifest of the file and print it, without a server.
    #[arg(long)]
    local: bool,
    /// Namespace of the object; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// The patch, in JSON or YAML.
    #[arg(short = 'p', long, default_value = "")]
    patch: String,
    /// File that holds the patch.
    #[arg(long, default_value = "")]
    patch_file: String,
    /// Subresource to patch, such as status or scale.
    #[arg(long, default_value = "")]
    subresource: String,
    /// Type of the patch. One of: (json, merge, strategic).
    #[arg(long = "type", default_value = "strategic")]
    type_: String,
}

pub fn run<'a>(context: &'a Context, args: &'a PatchArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let dry_run = DryRun::parse(context, &args.dry_run)?;
        let content_type = match args.type_.to_lowercase().as_str() {
            "json" => requests::JSON_PATCH,
            "merge" => requests::MERGE_PATCH,
            "strategic" => requests::STRATEGIC_PATCH,
            _ => {
                return Err(Error::message(format!(
                    "--type must be one of [json merge strategic], not {:?}",
                    args.type_
                )));
            }
        };
        if args.local && !args.args.is_empty() {
            return Err(Error::message("cannot specify --local and server resources"));
        }
        let patch = document(args)?;
        let mut printer = Printer::new(&args.printing, dry_run)?;
        if args.local {
            return local(context, args, content_type, &patch, &mut printer).await;
        }
        let client = context.control_plane().await?;
        let selection = ObjectSelection {
            args: &args.args,
            ..ObjectSelection::files(&args.files, args.namespace.as_deref(), None)
        };
        let found = objects::find(context, &client, selection).await?;
        if found.is_empty() {
            return Err(Error::message(NO_OBJECTS));
        }
        let mut errors = found.errors;
        for item in found.items {
            match one(context, &client, args, &item, (content_type, &patch), dry_run).await {
                Ok((object, operation)) => printer.done(context, &shown(&item, &object), operation, &object)?,
                Err(error) => errors.push(error),
            }
        }
        errors.extend(Error::of_all(found.unread).err());
        Error::of_all(errors)
    })
}

const NO_OBJECTS: &str = "no objects passed to patch";

/// The name of the returned object, which a subresource may show in another kind, such as a Scale.
fn shown(item: &Item, object: &Value) -> String {
    let (kind, version) = (object["kind"].as_str().unwrap_or_default(), object["apiVersion"].as_str());
    if kind.is_empty() || kind == item.resource.kind {
        return item.shown();
    }
    let group = version.and_then(|it| it.split_once('/')).map_or_else(String::new, |(group, _)| format!(".{group}"));
    format!("{}{group}/{}", kind.to_lowercase(), item.key.name())
}

/// The patch of the flags.
fn document(args: &PatchArgs) -> Result<Value, Error> {
    let text = match (args.patch.as_str(), args.patch_file.as_str()) {
        ("", "") => {
            return Err(Error::message("must specify --patch or --patch-file containing the contents of the patch"));
        }
        ("", file) => std::fs::read_to_string(file).map_err(|error| {
            Error::message(format!("unable to read patch file: open {file}: {}", error::of_file(&error)))
        })?,
        (text, "") => text.to_owned(),
        _ => return Err(Error::message("cannot specify --patch and --patch-file together")),
    };
    yaml::to_json_value(text.as_bytes()).map_err(|error| Error::message(format!("unable to parse {text:?}: {error}")))
}

async fn one(
    context: &Context,
    client: &Client,
    args: &PatchArgs,
    item: &Item,
    (content_type, patch): (&'static str, &Value),
    dry_run: DryRun,
) -> Result<(Value, &'static str), Error> {
    let subresource = Some(args.subresource.as_str()).filter(|name| !name.is_empty());
    let before = requests::get_named(context, client, &item.resource, &item.key, subresource).await;
    let before = before.map_err(Error::client(format!("get {}", item.shown())))?;
    let after = match dry_run {
        DryRun::Client => patched(item, content_type, patch, &before)?,
        _ => {
            let options = WriteOptions {
                field_manager: args.field_manager.clone(),
                dry_run: dry_run == DryRun::Server,
                validation: None,
            };
            let sent = Patch { content_type, value: patch, subresource, force: false };
            let answer = requests::patch(context, client, &item.resource, &item.key, sent, &options).await;
            answer.map_err(Error::client(format!("patch {}", item.shown())))?
        }
    };
    let operation = if unchanged(&before, &after) { "patched (no change)" } else { "patched" };
    Ok((after, operation))
}

/// Whether only the managed fields differ.
fn unchanged(before: &Value, after: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.metadata_mut() {
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
        }
        object
    };
    bare(before) == bare(after)
}

/// The patch applied here.
fn patched(item: &Item, content_type: &str, patch: &Value, object: &Value) -> Result<Value, Error> {
    let refused = |error: &dyn std::fmt::Display| Error::message(error.to_string());
    if content_type == requests::JSON_PATCH {
        let patch = json_patch::from_value(patch).map_err(|error| refused(&error))?;
        let mut object = object.clone();
        patch.apply(&mut object).map_err(|error| refused(&error))?;
        return Ok(object);
    }
    match patch {
        Value::Object(_) => {}
        Value::Null => return Err(Error::message("Invalid JSON Patch")),
        other => {
            let type_ = apimachinery::go_json::type_name(other);
            return Err(Error::message(format!(
                "json: cannot unmarshal {type_} into Go value of type unstructured.detector"
            )));
        }
    }
    let type_ = kubernetes_api::schema_for(&item.gvk());
    match (content_type, type_) {
        (requests::STRATEGIC_PATCH, None) => Err(Error::message(format!(
            "strategic merge patch is not supported for {} locally, try --type merge",
            item.gvk()
        ))),
        (requests::STRATEGIC_PATCH, type_) => locally(object, patch, type_.as_ref()),
        _ => locally(object, patch, None),
    }
}

/// `--local`: the manifests of files, patched and printed.
async fn local(
    context: &Context,
    args: &PatchArgs,
    content_type: &str,
    patch: &Value,
    printer: &mut Printer,
) -> Result<(), Error> {
    let found = objects::locals(&args.files).await?;
    if found.is_empty() {
        return Err(Error::message(NO_OBJECTS));
    }
    let mut errors = Vec::new();
    for item in found.items {
        let object = item.object.clone().unwrap_or_default();
        match patched(&item, content_type, patch, &object) {
            Ok(after) => printer.done(context, &item.shown(), "patched", &after)?,
            Err(error) => errors.push(error),
        }
    }
    errors.extend(Error::of_all(found.unread).err());
    Error::of_all(errors)
}
