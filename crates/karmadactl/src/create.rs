//! `create`: objects of manifests that do not exist yet, and objects of built-in kinds from flags.

mod access;
mod data;
mod kinds;
mod limits;
mod network;
mod token;
mod workloads;

use clap::Args;
use futures::future::BoxFuture;
use http::Method;

use crate::apply::annotated;
use crate::error::Error;
use crate::objects::flags::{Creation, DryRun, Files};
use crate::objects::{self, ObjectSelection};
use crate::printing::Printer;
use crate::requests;
use crate::{Context, edit};

#[derive(Args)]
pub struct CreateArgs {
    #[command(subcommand)]
    kind: Option<kinds::Kind>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    creation: Creation,
    /// Edit the manifests before the objects are created.
    #[arg(long)]
    edit: bool,
    /// Send the POST to this path of the server.
    #[arg(long, default_value = "")]
    raw: String,
    /// Filter by labels, with '=', '==', '!=', 'in' and 'notin' (e.g. -l key1=value1,key2=value2).
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// Edit with the line endings of Windows.
    #[arg(long)]
    windows_line_endings: bool,
}

pub fn run<'a>(context: &'a Context, args: &'a CreateArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        if let Some(kind) = &args.kind {
            return kinds::run(context, kind).await;
        }
        let dry_run = args.creation.dry_run(context)?;
        args.files.required()?;
        if !args.raw.is_empty() {
            return raw(context, args).await;
        }
        let mut printer = Printer::new(&args.creation.printing, dry_run)?;
        let options = args.creation.options(dry_run)?;
        let client = context.control_plane().await?;
        let validates = options.validation != Some("Ignore");
        let files = ObjectSelection::files(&args.files, args.creation.namespace.as_deref(), Some(&args.selector));
        let selection = ObjectSelection { validates, ..files };
        let found = objects::find(context, &client, selection).await?;
        if found.is_empty() {
            return Err(Error::message("no objects passed to create"));
        }
        let mut errors = found.errors;
        for mut item in found.items {
            if args.edit {
                let file = (args.creation.printing.output.as_str(), args.windows_line_endings);
                let write = (&options, args.creation.save_config, dry_run);
                errors.extend(edit::create(context, &client, item, file, write, &mut printer).await.err());
                continue;
            }
            let mut manifest = item.object.take().unwrap_or_default();
            if args.creation.save_config {
                manifest = annotated(&manifest);
            }
            let created = match dry_run {
                DryRun::Client => Ok(manifest),
                _ => requests::create(context, &client, &item.resource, &item.key, &manifest, &options).await,
            };
            match created {
                Ok(object) => {
                    // The server completes `generateName`.
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    let shown = format!("{}/{name}", item.kind_shown());
                    printer.done(context, &shown, "created", &object)?;
                }
                Err(error) => errors.push(item.failed("creating")(error)),
            }
        }
        errors.extend(Error::of_all(found.unread).err());
        Error::of_all(errors)
    })
}

/// Sends the unchanged file to a path of the server.
async fn raw(context: &Context, args: &CreateArgs) -> Result<(), Error> {
    let [only] = args.files.filename.as_slice() else {
        return Err(Error::message("--raw can only use a single local file or stdin"));
    };
    let excluded = [
        (args.edit, "--raw and --edit are mutually exclusive"),
        (only.starts_with("http://") || only.starts_with("https://"), "--raw cannot read from a url"),
        (args.files.recursive, "--raw and --recursive are mutually exclusive"),
        (!args.selector.is_empty(), "--raw and --selector (-l) are mutually exclusive"),
        (!args.creation.printing.output.is_empty(), "--raw and --output are mutually exclusive"),
    ];
    if let Some((_, why)) = excluded.iter().find(|(excludes, _)| *excludes) {
        return Err(Error::message(*why));
    }
    let body = objects::files::content(only).await?;
    let client = context.control_plane().await?;
    let sent = Some((requests::JSON, body));
    let answer = requests::raw(context, &client, Method::POST, &args.raw, sent).await;
    context.print(&String::from_utf8_lossy(&answer.map_err(Error::client(format!("create {}", args.raw)))?));
    Ok(())
}
