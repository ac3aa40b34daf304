//! `edit`: objects in the user's editor, until the server takes the change or the user gives up.

use apimachinery::object::ObjectTree as _;
use apimachinery::yaml;
use clap::Args;
use client::Client;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::apply::{LAST_APPLIED, annotated, three_way_patch};
use crate::error::Error;
use crate::get::hide_managed_fields;
use crate::objects::flags::{self, DryRun, Files, Printing};
use crate::objects::{self, Item, ObjectSelection};
use crate::printing::Printer;
use crate::requests::{self, Patch, WriteOptions};
use crate::{Context, answers, editor};

const HEADER: &str = "# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
";

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

/// The text of the file: an object, or a List of several.
#[derive(Clone, Copy, Debug)]
struct Layout {
    json: bool,
    windows: bool,
}

impl Layout {
    fn extension(self) -> &'static str {
        if self.json { "json" } else { "yaml" }
    }

    fn text(self, objects: &[Value], problem: &str) -> String {
        let document = match objects {
            [only] => only.clone(),
            several => json!({"apiVersion": "v1", "kind": "List", "items": several}),
        };
        let body = match self.json {
            true => crate::get::output::indented(&document),
            false => yaml::to_string(&document),
        };
        // JSON has no comments.
        let text = if self.json { body } else { format!("{}{body}", header(problem)) };
        if self.windows { text.replace('\n', "\r\n") } else { text }
    }
}

/// The comments at the head of a file, with the problem of the last attempt.
fn header(problem: &str) -> String {
    let comments: String = problem.lines().map(|line| format!("# {line}\n")).collect();
    let separator = if comments.is_empty() { "" } else { "#\n" };
    format!("{HEADER}{comments}{separator}")
}

/// A file without its comments.
fn bare(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect()
}

/// The objects of an edited file; `None` when it is empty.
fn parsed(text: &str) -> Result<Option<Vec<Value>>, String> {
    let bare = bare(text);
    if bare.trim().is_empty() {
        return Ok(None);
    }
    let mut document = yaml::to_json_value(bare.as_bytes()).map_err(|error| error.to_string())?;
    answers::check(&document).map_err(|why| format!("the edited document: {why}"))?;
    let items = if document["kind"] == "List" { answers::take_items(&mut document) } else { None };
    Ok(Some(items.unwrap_or_else(|| vec![document])))
}

/// Manifests of `create --edit`; `None` without changes.
///
/// # Errors
/// When the editor fails or the file is malformed.
pub async fn manifests(items: Vec<Item>, output: &str, windows: bool) -> Result<Option<Vec<Item>>, Error> {
    let objects: Vec<Value> = items.iter().filter_map(|item| item.object.clone()).collect();
    let layout = Layout { json: output == "json", windows };
    let file = editor::temporary("create", layout.extension(), &layout.text(&objects, ""))?;
    editor::open(&file).await?;
    let failed = |error: std::io::Error| Error::message(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(failed)?;
    let kept = |why: String| Error::message(format!("{why}; the edited file is {}", file.display()));
    let edited = parsed(&text).map_err(kept)?;
    let Some(edited) = edited.filter(|edited| *edited != objects) else {
        std::fs::remove_file(&file).map_err(failed)?;
        return Ok(None);
    };
    if edited.len() != items.len() {
        return Err(kept("objects must not be added or removed in the editor".into()));
    }
    std::fs::remove_file(&file).map_err(failed)?;
    Ok(Some(items.into_iter().zip(edited).map(|(item, object)| Item { object: Some(object), ..item }).collect()))
}

pub fn run<'a>(context: &'a Context, args: &'a EditArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        if args.args.is_empty() && args.files.is_empty() {
            return Err(Error::arguments("must specify a resource to edit, such as deployment/nginx, or -f"));
        }
        let options = WriteOptions {
            field_manager: args.field_manager.clone(),
            dry_run: false,
            validation: flags::validation(&args.validate)?,
        };
        // While editing, -o chooses the form of the file.
        let layout = Layout { json: args.printing.output == "json", windows: args.windows_line_endings };
        let printing = match args.printing.output.as_str() {
            "json" | "yaml" => Printing { output: String::new(), ..args.printing.clone() },
            _ => args.printing.clone(),
        };
        let mut printer = Printer::new(&printing, DryRun::None)?;
        let client = context.control_plane().await?;
        let selection = ObjectSelection {
            args: &args.args,
            ..ObjectSelection::files(&args.files, args.namespace.as_deref(), None)
        };
        let found = objects::find(context, &client, selection).await?;
        let items = found.all()?;
        if items.is_empty() {
            context.log("edit cancelled, no objects found\n");
            return Ok(());
        }
        let subresource = Some(args.subresource.as_str()).filter(|name| !name.is_empty());
        let mut objects = Vec::new();
        for item in &items {
            let live = requests::get_named(context, &client, &item.resource, &item.key, subresource).await;
            objects.push(live.map_err(Error::client(format!("get {}", item.shown())))?);
        }
        let session = Session { context, client: &client, args, items: &items, live: objects, options, layout };
        session.run(&mut printer).await
    })
}

struct Session<'a> {
    context: &'a Context,
    client: &'a Client,
    args: &'a EditArgs,
    items: &'a [Item],
    live: Vec<Value>,
    options: WriteOptions,
    layout: Layout,
}

impl Session<'_> {
    async fn run(&self, printer: &mut Printer) -> Result<(), Error> {
        let mut shown: Vec<Value> = self.live.clone();
        if !self.args.printing.show_managed_fields {
            shown.iter_mut().for_each(hide_managed_fields);
        }
        let first = self.layout.text(&shown, "");
        let file = editor::temporary("edit", self.layout.extension(), &first)?;
        let failed = |error: std::io::Error| Error::message(format!("{}: {error}", file.display()));
        let cancelled = |why: &str| {
            self.context.log(&format!("A copy of your changes has been stored to \"{}\"\n", file.display()));
            Err(Error::message(why))
        };
        // The last text that was refused. Comments do not count: the header contains the last problem.
        let mut refused = None;
        loop {
            editor::open(&file).await?;
            let text = std::fs::read_to_string(&file).map_err(failed)?;
            if refused.as_ref() == Some(&bare(&text)) {
                return cancelled("Edit cancelled, no valid changes were saved.");
            }
            let problem = match parsed(&text).map(|edited| edited.filter(|edited| *edited != shown)) {
                Ok(None) => {
                    self.context.log("Edit cancelled, no changes made.\n");
                    return std::fs::remove_file(&file).map_err(failed);
                }
                Ok(Some(edited)) => {
                    if let Err(why) = identity(&shown, &edited) {
                        return cancelled(&why);
                    }
                    match self.save(&shown, edited, printer).await {
                        Ok(()) => return std::fs::remove_file(&file).map_err(failed),
                        Err(error) => error.render(),
                    }
                }
                Err(why) => format!("error: {why}\n"),
            };
            self.context.log(&problem);
            if !self.layout.json {
                std::fs::write(&file, reopened(&text, &problem)).map_err(failed)?;
            }
            refused = Some(bare(&text));
        }
    }

    /// Sends the difference of each object.
    async fn save(&self, shown: &[Value], edited: Vec<Value>, printer: &mut Printer) -> Result<(), Error> {
        if edited.len() != self.items.len() {
            return Err(Error::message("objects must not be added or removed in the editor"));
        }
        let subresource = Some(self.args.subresource.as_str()).filter(|name| !name.is_empty());
        for ((item, shown), edited) in self.items.iter().zip(shown).zip(edited) {
            let edited = if self.args.save_config { recorded(&edited) } else { edited };
            let type_ = kubernetes_api::schema_for(&item.gvk());
            let patch = three_way_patch(Some(shown), &edited, shown, type_.as_ref());
            if patch.as_object().is_some_and(serde_json::Map::is_empty) {
                self.context.log(&format!("{} skipped\n", item.shown()));
                continue;
            }
            if self.args.output_patch {
                self.context.print(&format!("Patch: {patch}\n"));
            }
            let content_type = if type_.is_some() { requests::STRATEGIC_PATCH } else { requests::MERGE_PATCH };
            let sent = Patch { content_type, value: &patch, subresource, force: false };
            let answer =
                requests::patch(self.context, self.client, &item.resource, &item.key, sent, &self.options).await;
            let object = answer.map_err(Error::client(format!("patch {}", item.shown())))?;
            printer.done(self.context, &item.shown(), "edited", &object)?;
        }
        Ok(())
    }
}

/// Checks that the edited objects are the shown ones.
fn identity(shown: &[Value], edited: &[Value]) -> Result<(), String> {
    for (shown, edited) in shown.iter().zip(edited) {
        if ["apiVersion", "kind"].iter().any(|field| edited[field] != shown[field])
            || edited["metadata"]["name"] != shown["metadata"]["name"]
        {
            return Err("At least one of apiVersion, kind and name was changed".into());
        }
        let namespace = |object: &Value| object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let (before, after) = (namespace(shown), namespace(edited));
        if before != after {
            return Err(format!(
                "the namespace from the provided object {after:?} does not match the namespace {before:?}. You must pass \
                 '--namespace={after}' to perform this operation."
            ));
        }
    }
    Ok(())
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

/// The user's text with the problem in its comments.
fn reopened(text: &str, problem: &str) -> String {
    format!("{}{}", header(problem), bare(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_back() {
        let objects = [json!({"kind": "A", "n": 1}), json!({"kind": "B"})];
        for layout in [Layout { json: false, windows: false }, Layout { json: true, windows: true }] {
            for objects in [&objects[..1], &objects[..]] {
                let text = layout.text(objects, "wrong\nvery");
                assert_eq!(text.contains("# wrong\n# very\n#\n"), !layout.json, "{text}");
                assert_eq!(parsed(&text).expect("valid").as_deref(), Some(objects));
            }
        }
        assert_eq!(parsed("# a\n\n"), Ok(None));
        assert!(parsed("a: [").is_err());
        assert_eq!(reopened("# old\na: 1\n", "wrong\n"), format!("{HEADER}# wrong\n#\na: 1\n"));
    }

    #[test]
    fn an_edited_object_remains_itself() {
        let object = |version: &str, kind: &str, name: &str, namespace: &str| {
            [json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}})]
        };
        let shown = object("v1", "ConfigMap", "a", "x");
        let check = |edited: &[Value], expected: &str| {
            let found = identity(&shown, edited).err().unwrap_or_default();
            assert!(found.starts_with(expected) && found.is_empty() == expected.is_empty(), "{found}");
        };
        check(&shown, "");
        let changed = "At least one of apiVersion, kind and name was changed";
        check(&object("v2", "ConfigMap", "a", "x"), changed);
        check(&object("v1", "Secret", "a", "x"), changed);
        check(&object("v1", "ConfigMap", "b", "x"), changed);
        let moved = r#"the namespace from the provided object "y" does not match the namespace "x"."#;
        check(&object("v1", "ConfigMap", "a", "y"), moved);
    }
}
