//! `edit`: objects in the user's editor, until the server takes the change or the user gives up.

mod file;

use std::path::{Path, PathBuf};

use apimachinery::object::ObjectTree as _;
use clap::Args;
use client::Client;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::apply::{LAST_APPLIED, annotated, three_way_patch};
use crate::error::{self, Error};
use crate::get::hide_managed_fields;
use crate::objects::flags::{self, DryRun, Files, Printing};
use crate::objects::{self, Item, ObjectSelection};
use crate::printing::Printer;
use crate::requests::{self, Patch, WriteOptions};
use crate::{Context, editor};
use file::{Content, Form, Reason};

/// How messages name the text of the editor.
const SOURCE: &str = "edited-file";

#[derive(Args)]
pub struct EditArgs {
    /// TYPE/NAME, or TYPE NAME
    args: Vec<String>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    printing: Printing,
    /// Name of the manager that owns the fields.
    #[arg(long, default_value = "kubectl-edit")]
    field_manager: String,
    /// Namespace of the object; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// Print the patch when the object has changed.
    #[arg(long)]
    output_patch: bool,
    /// Record the manifest in the object's annotation, for a later apply.
    #[arg(long)]
    save_config: bool,
    /// Subresource to edit, such as status.
    #[arg(long, default_value = "")]
    subresource: String,
    /// Validate fields. One of: (strict, warn, ignore).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    validate: String,
    /// Edit with the line endings of Windows.
    #[arg(long)]
    windows_line_endings: bool,
}

pub fn run<'a>(context: &'a Context, args: &'a EditArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        if args.args.is_empty() && args.files.is_empty() {
            return Err(Error::message(objects::MISSING));
        }
        let options = WriteOptions {
            field_manager: args.field_manager.clone(),
            dry_run: false,
            validation: flags::validation(&args.validate)?,
        };
        let client = context.control_plane().await?;
        let items = selected(context, &client, args).await?;
        if items.is_empty() {
            return Err(Error::message("edit cancelled, no objects found"));
        }
        let form = Form::new(&args.printing.output, args.windows_line_endings)?;
        let mut printer = Printer::new(&args.printing, DryRun::None)?;
        let purpose = Purpose::Change { prints_patch: args.output_patch, subresource: args.subresource() };
        let session =
            Session { context, client: &client, items, form, options, save_config: args.save_config, purpose };
        session.run(&mut printer).await
    })
}

impl EditArgs {
    fn subresource(&self) -> Option<&str> {
        Some(self.subresource.as_str()).filter(|name| !name.is_empty())
    }
}

/// The live objects.
async fn selected(context: &Context, client: &Client, args: &EditArgs) -> Result<Vec<Item>, Error> {
    let selection = ObjectSelection {
        args: &args.args,
        // A type alone is all of its objects.
        all: args.args.len() == 1 && !args.args[0].contains('/'),
        ..ObjectSelection::files(&args.files, args.namespace.as_deref(), None)
    };
    let mut found = objects::find(context, client, selection).await?;
    let mut errors = found.take_errors();
    let mut items = Vec::new();
    for item in found.items {
        let live = match args.subresource() {
            None => item.live(context, client).await,
            named => requests::get_named(context, client, &item.resource, &item.key, named).await,
        };
        match live {
            Ok(object) => items.push(Item { object: Some(object), ..item }),
            Err(error) => errors.push(Error::client(format!("get {}", item.shown()))(error)),
        }
    }
    Error::of_all(errors).map(|()| items)
}

/// Creates the object of a manifest as the user has edited it.
///
/// # Errors
/// When the editor fails, or the server refuses the object.
pub async fn create(
    context: &Context,
    client: &Client,
    item: Item,
    file: (&str, bool),
    options: (&WriteOptions, bool, DryRun),
    printer: &mut Printer,
) -> Result<(), Error> {
    let (output, windows) = file;
    let (options, save_config, dry_run) = options;
    // Other formats choose the output alone.
    let form = Form::new(if matches!(output, "json" | "kyaml") { output } else { "" }, windows)?;
    let (items, options, purpose) = (vec![item], options.clone(), Purpose::Create(dry_run));
    Session { context, client, items, form, options, save_config, purpose }.run(printer).await
}

/// What happens to the edited objects.
#[derive(Clone, Copy, Debug)]
enum Purpose<'a> {
    Change { prints_patch: bool, subresource: Option<&'a str> },
    Create(DryRun),
}

struct Session<'a> {
    context: &'a Context,
    client: &'a Client,
    /// With the objects as they were.
    items: Vec<Item>,
    form: Form,
    options: WriteOptions,
    save_config: bool,
    purpose: Purpose<'a>,
}

/// A text that was refused, and the file that has it.
struct Refused {
    file: PathBuf,
    text: String,
    reasons: Vec<Reason>,
}

/// What the server has refused.
#[derive(Default)]
struct Refusals {
    reasons: Vec<Reason>,
    absent: usize,
    others: usize,
}

impl Session<'_> {
    async fn run(&self, printer: &mut Printer) -> Result<(), Error> {
        let shown: Vec<Value> = self.items.iter().map(shown).collect();
        let first = self.form.first(&shown)?;
        let original = Content::of(&first);
        let mut refused: Option<Refused> = None;
        loop {
            let text = match &refused {
                None => first.clone(),
                Some(refused) => self.form.again(&refused.text, &refused.reasons),
            };
            let opened = match editor::edited(self.form.extension(), &text).await {
                Ok(opened) => opened,
                Err(error) => {
                    refused.iter().for_each(|it| self.preserve(&it.file));
                    return Err(error);
                }
            };
            let (text, file) = opened;
            if let Some(refused) = refused.take() {
                if Content::of(&refused.text) == Content::of(&text) {
                    self.preserve(&file);
                    return Err(Error::message("Edit cancelled, no valid changes were saved."));
                }
                remove(&refused.file)?;
            }
            match self.round(&shown, &original, &text, &file, printer).await? {
                reasons if reasons.is_empty() => return Ok(()),
                reasons => refused = Some(Refused { file, text, reasons }),
            }
        }
    }

    /// Sends the edited objects; returns why the file must be edited again.
    async fn round(
        &self,
        shown: &[Value],
        original: &Content,
        text: &str,
        file: &Path,
        printer: &mut Printer,
    ) -> Result<Vec<Reason>, Error> {
        let content = Content::of(text);
        if let Err(why) = self.validated(&content) {
            let named = named(&self.items[0]);
            self.context.log(&format!("error: {named} is invalid\n"));
            let cause = format!("<nil>: Invalid value: \"The edited file failed validation\": {why}");
            return Ok(vec![Reason { head: format!("{named} was not valid"), causes: vec![cause] }]);
        }
        if content == *original {
            self.context.log("Edit cancelled, no changes made.\n");
            return remove(file).map(|()| Vec::new());
        }
        if file::is_empty(text) {
            self.context.log("Edit cancelled, saved file was empty.\n");
            return remove(file).map(|()| Vec::new());
        }
        let discovery = objects::discovery(self.client).await.inspect_err(|_| self.preserve(file))?;
        let edited = match objects::of_text(&discovery, SOURCE, text) {
            Ok(edited) => edited,
            Err(error) => {
                let head = format!("The edited file had a syntax error: {error}");
                return Ok(vec![Reason { head, causes: Vec::new() }]);
            }
        };
        let mut refusals = Refusals::default();
        for edited in edited {
            if let Err(error) = self.save(shown, edited, printer, &mut refusals).await {
                self.preserve(file);
                return Err(error);
            }
        }
        // Only kubectl has `replace`.
        if refusals.others > 0 {
            let again = format!("kubectl replace -f {}", file.display());
            self.context.log(&format!("You can run `{again}` to try this update again.\n"));
            return Err(Error::Silent);
        }
        if refusals.absent > 0 {
            let saved = format!("The edits you made on deleted resources have been saved to \"{}\"\n", file.display());
            self.context.log(&saved);
            return Err(Error::Silent);
        }
        if refusals.reasons.is_empty() {
            remove(file)?;
        }
        Ok(refusals.reasons)
    }

    fn validated(&self, content: &Content) -> Result<(), String> {
        match self.options.validation {
            Some("Ignore") => Ok(()),
            _ => content.document().and_then(objects::typed),
        }
    }

    /// Changes or creates one of the edited objects.
    async fn save(
        &self,
        shown: &[Value],
        mut edited: Item,
        printer: &mut Printer,
        refusals: &mut Refusals,
    ) -> Result<(), Error> {
        let Some(mut object) = edited.object.take() else { return Ok(()) };
        let of_uid = |(_, before): &(&Item, &Value)| before["metadata"]["uid"] == object["metadata"]["uid"];
        let original = self.items.iter().zip(shown).find(of_uid);
        let namespace = original.map_or(&self.items[0], |(item, _)| item).key.namespace();
        located(&mut object, &edited, namespace)?;
        match (self.purpose, original) {
            (Purpose::Create(dry_run), _) => {
                if self.save_config {
                    object = annotated(&object);
                }
                if dry_run != DryRun::Client {
                    let key = objects::key_of(&edited.resource, &object);
                    let sent =
                        requests::create(self.context, self.client, &edited.resource, &key, &object, &self.options);
                    object = sent.await.map_err(Error::client(format!("create {}", edited.shown())))?;
                }
                printer.done(self.context, &edited.shown(), "created", &object)
            }
            (Purpose::Change { .. }, None) => {
                Err(Error::message(format!("no original object found for {}", edited.shown())))
            }
            (Purpose::Change { prints_patch, subresource }, Some((item, before))) => {
                let sent = Change { item, before, object, prints_patch, subresource };
                self.change(sent, printer, refusals).await
            }
        }
    }

    async fn change(&self, change: Change<'_>, printer: &mut Printer, refusals: &mut Refusals) -> Result<(), Error> {
        let Change { item, before, object, prints_patch, subresource } = change;
        if object == *before && !self.save_config {
            return printer.done(self.context, &item.shown(), "skipped", &object);
        }
        let changed = |field: &str| object[field] != before[field];
        if changed("apiVersion") || changed("kind") || object["metadata"]["name"] != before["metadata"]["name"] {
            return Err(Error::message("At least one of apiVersion, kind and name was changed"));
        }
        let object = if self.save_config { recorded(&object) } else { object };
        let type_ = kubernetes_api::schema_for(&item.gvk());
        let patch = three_way_patch(Some(before), &object, before, type_.as_ref());
        if prints_patch {
            self.context.print(&format!("Patch: {patch}\n"));
        }
        let content_type = if type_.is_some() { requests::STRATEGIC_PATCH } else { requests::MERGE_PATCH };
        let sent = Patch { content_type, value: &patch, subresource, force: false };
        let answer = requests::patch(self.context, self.client, &item.resource, &item.key, sent, &self.options).await;
        match answer {
            Ok(object) => printer.done(self.context, &item.shown(), "edited", &object),
            Err(error) => {
                self.context.log(&format!("error: {}\n", refusals.add(item, error)));
                Ok(())
            }
        }
    }

    /// Prints where the user's text is.
    fn preserve(&self, file: &Path) {
        if file.exists() {
            self.context.log(&format!("A copy of your changes has been stored to \"{}\"\n", file.display()));
        }
    }
}

/// One object of the user's text, and what it was before.
struct Change<'a> {
    item: &'a Item,
    before: &'a Value,
    object: Value,
    prints_patch: bool,
    subresource: Option<&'a str>,
}

impl Refusals {
    /// Counts a refusal; returns its message.
    fn add(&mut self, item: &Item, error: client::Error) -> String {
        let named = named(item);
        match error {
            client::Error::Status(status) if status.is(apimachinery::StatusReason::Invalid) => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                let causes = causes.map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
                self.reasons.push(Reason { head: format!("{named} was not valid"), causes });
                format!("{named} is invalid")
            }
            error if error.is_not_found() => {
                self.absent += 1;
                format!("{named} could not be found on the server")
            }
            error => {
                self.others += 1;
                let why = match error {
                    client::Error::Status(status) => status.message,
                    error => error.to_string(),
                };
                format!("{named} could not be patched: {why}")
            }
        }
    }
}

/// `deployments.apps "web"`
fn named(item: &Item) -> String {
    format!("{} {:?}", item.resource.gvr().group_resource(), item.key.name())
}

/// The object as the editor shows it.
fn shown(item: &Item) -> Value {
    let mut object = item.object.clone().unwrap_or_default();
    hide_managed_fields(&mut object);
    object
}

/// Checks that an edited object stays in its namespace, and fills that in where it is missing.
fn located(object: &mut Value, item: &Item, namespace: Option<&str>) -> Result<(), Error> {
    let Some(namespace) = namespace.filter(|_| item.resource.namespaced) else { return Ok(()) };
    match object["metadata"]["namespace"].as_str().unwrap_or_default() {
        own if own == namespace => Ok(()),
        "" => {
            object["metadata"]["namespace"] = namespace.into();
            Ok(())
        }
        own => Err(Error::message(format!(
            "the namespace from the provided object {own:?} does not match the namespace {namespace:?}. You must pass \
             '--namespace={own}' to perform this operation."
        ))),
    }
}

fn remove(file: &Path) -> Result<(), Error> {
    std::fs::remove_file(file)
        .map_err(|error| Error::message(format!("remove {}: {}", file.display(), error::of_file(&error))))
}

/// The object with its manifest recorded for a later apply, without server-populated fields.
fn recorded(edited: &Value) -> Value {
    let mut manifest = edited.clone();
    if let Some(map) = manifest.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = manifest.metadata_mut() {
        for field in ["creationTimestamp", "generation", "resourceVersion", "uid", "managedFields", "selfLink"] {
            metadata.remove(field);
        }
    }
    let text = annotated(&manifest)["metadata"]["annotations"][LAST_APPLIED].clone();
    let mut object = edited.clone();
    object["metadata"]["annotations"][LAST_APPLIED] = text;
    object
}
