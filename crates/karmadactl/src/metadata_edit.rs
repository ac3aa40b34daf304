//! `label` and `annotate`: sets and removes labels or annotations of objects.

use apimachinery::names;
use clap::Args;
use client::Client;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::Context;
use crate::error::Error;
use crate::objects::flags::{DryRun, Files, Printing};
use crate::objects::{self, Item, ObjectSelection};
use crate::printing::Printer;
use crate::requests::{self, Patch, WriteOptions};

/// The map of the metadata that a command changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Labels,
    Annotations,
}

impl Subject {
    fn field(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }

    /// As messages name one of them.
    fn word(self) -> &'static str {
        match self {
            Self::Labels => "label",
            Self::Annotations => "annotation",
        }
    }

    fn default_manager(self) -> &'static str {
        match self {
            Self::Labels => "kubectl-label",
            Self::Annotations => "kubectl-annotate",
        }
    }
}

#[derive(Args)]
pub struct MetadataArgs {
    /// TYPE NAME, or TYPE/NAME, then KEY=VALUE to set and KEY- to remove
    args: Vec<String>,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    printing: Printing,
    /// Select all resources of the specified types in the namespace.
    #[arg(long)]
    all: bool,
    /// Select objects of all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Must be "none", "server", or "client". With client no request is sent, with server no object is stored.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    dry_run: String,
    /// Filter by fields, with '=', '==' and '!=' (e.g. --field-selector metadata.name=nginx).
    #[arg(long, default_value = "")]
    field_selector: String,
    /// Print the current values.
    #[arg(long)]
    list: bool,
    /// Change the manifest of the file and print it, without a server.
    #[arg(long)]
    local: bool,
    /// Namespace of the objects; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// Replace values that exist.
    #[arg(long)]
    overwrite: bool,
    /// Change the object only if this is its current version; for a single object.
    #[arg(long, default_value = "")]
    resource_version: String,
    /// Filter by labels, with '=', '==', '!=', 'in' and 'notin' (e.g. -l key1=value1,key2=value2).
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
}

#[derive(Args)]
pub struct LabelArgs {
    #[command(flatten)]
    metadata: MetadataArgs,
    /// Name of the manager that owns the fields.
    #[arg(long, default_value = "kubectl-label")]
    field_manager: String,
}

#[derive(Args)]
pub struct AnnotateArgs {
    #[command(flatten)]
    metadata: MetadataArgs,
    /// Name of the manager that owns the fields.
    #[arg(long, default_value = "kubectl-annotate")]
    field_manager: String,
}

/// The changes of the KEY=VALUE and KEY- arguments.
#[derive(Clone, Debug, Default, PartialEq)]
struct Changes {
    set: Vec<(String, String)>,
    removed: Vec<String>,
}

pub async fn label(context: &Context, args: &LabelArgs) -> Result<(), Error> {
    run(context, Subject::Labels, &args.metadata, &args.field_manager).await
}

pub async fn annotate(context: &Context, args: &AnnotateArgs) -> Result<(), Error> {
    run(context, Subject::Annotations, &args.metadata, &args.field_manager).await
}

fn run<'a>(
    context: &'a Context,
    subject: Subject,
    args: &'a MetadataArgs,
    manager: &'a str,
) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let dry_run = DryRun::parse(context, &args.dry_run)?;
        let (resources, changes) = split(subject, &args.args)?;
        check(subject, args, &resources, &changes)?;
        let mut printer = Printer::new(&args.printing, dry_run)?;
        if args.local {
            return local(context, subject, args, &changes, &mut printer).await;
        }
        let client = context.control_plane().await?;
        let selection = ObjectSelection {
            files: &args.files,
            args: &resources,
            namespace: args.namespace.as_deref(),
            all: args.all,
            all_namespaces: args.all_namespaces,
            selector: Some(&args.selector),
            field_selector: Some(&args.field_selector),
            validates: false,
        };
        let found = objects::find(context, &client, selection).await?;
        let is_selection = args.all || !args.selector.is_empty() || !args.field_selector.is_empty();
        if (found.items.len() > 1 || is_selection) && !args.resource_version.is_empty() {
            return Err(Error::message("--resource-version may only be used with a single resource"));
        }
        let mut errors = found.errors;
        let several = is_selection || found.items.len() > 1;
        let options = WriteOptions {
            field_manager: if manager.is_empty() { subject.default_manager().into() } else { manager.to_owned() },
            dry_run: dry_run == DryRun::Server,
            validation: None,
        };
        let command = Command { context, client: &client, subject, args, dry_run, options: &options };
        for item in found.items {
            match command.one(&item, &changes, several).await {
                Ok(Some((object, operation))) => printer.done(context, &item.shown(), operation, &object)?,
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        errors.extend(Error::of_all(found.unread).err());
        Error::of_all(errors)
    })
}

/// Separates the resources from the changes that follow them.
fn split(subject: Subject, args: &[String]) -> Result<(Vec<String>, Changes), Error> {
    let is_change = |arg: &str| (arg.contains('=') && !arg.starts_with('=')) || (arg.ends_with('-') && arg.len() > 1);
    let first = args.iter().position(|arg| is_change(arg)).unwrap_or(args.len());
    let (resources, rest) = args.split_at(first);
    let mut changes = Changes::default();
    for arg in rest {
        if !is_change(arg) {
            return Err(Error::message(format!(
                "all resources must be specified before {} changes: {arg}",
                subject.word()
            )));
        }
        match arg.split_once('=') {
            Some((key, value)) => {
                // The last value of a key counts.
                changes.set.retain(|(known, _)| known != key);
                changes.set.push((key.to_owned(), value.to_owned()));
            }
            None => changes.removed.push(arg.trim_end_matches('-').to_owned()),
        }
    }
    Ok((resources.to_vec(), changes))
}

fn check(subject: Subject, args: &MetadataArgs, resources: &[String], changes: &Changes) -> Result<(), Error> {
    let refused = |text: String| Err(Error::message(text));
    let word = subject.word();
    for (selector, flag) in [(&args.selector, "--selector"), (&args.field_selector, "--field-selector")] {
        if args.all && !selector.is_empty() {
            return refused(format!("cannot set --all and {flag} at the same time"));
        }
    }
    if resources.is_empty() && args.files.is_empty() {
        return refused("one or more resources must be specified as <resource> <name> or <resource>/<name>".into());
    }
    let nothing = changes.set.is_empty() && changes.removed.is_empty();
    if nothing && !args.list {
        return refused(format!("at least one {word} update is required"));
    }
    if args.list && !args.printing.output.is_empty() {
        return refused("--list and --output may not be specified together".into());
    }
    for (key, value) in &changes.set {
        // Keys are checked by the server, which names the object.
        if subject == Subject::Labels && value.contains('=') {
            return refused(format!("invalid {word} spec: {key}={value}"));
        }
        let wrong = if subject == Subject::Labels { names::is_label_value(value) } else { Vec::new() };
        if let Some(why) = wrong.first() {
            return refused(format!("invalid {word} value: \"{key}={value}\": {why}"));
        }
        if changes.removed.contains(key) {
            return refused(match subject {
                Subject::Labels => "can not both modify and remove a label in the same command".to_owned(),
                Subject::Annotations => {
                    format!("can not both modify and remove the following annotation(s) in the same command: {key}")
                }
            });
        }
    }
    Ok(())
}

struct Command<'a> {
    context: &'a Context,
    client: &'a Client,
    subject: Subject,
    args: &'a MetadataArgs,
    dry_run: DryRun,
    options: &'a WriteOptions,
}

impl Command<'_> {
    /// Changes an item; returns the resulting object and the verb for the output, `None` if only a list was requested.
    async fn one(&self, item: &Item, changes: &Changes, several: bool) -> Result<Option<(Value, &'static str)>, Error> {
        let failed = || Error::client(format!("get {}", item.shown()));
        let live = item.live(self.context, self.client).await.map_err(failed())?;
        let before = current(self.subject, &live);
        let mut after = before.clone();
        let missing = changed(self.subject, &mut after, changes, self.args.overwrite)?;
        for key in missing.into_iter().filter(|_| self.subject == Subject::Labels) {
            self.context.print(&format!("{} {key:?} not found.\n", self.subject.word()));
        }
        if self.args.list {
            // As kubectl: changes are shown in the list, and not stored.
            self.context.print(&listed(self.subject, item, &after, several));
            return Ok(None);
        }
        let operation = operation(self.subject, &before, &after, self.args.overwrite);
        if self.dry_run == DryRun::Client || before == after {
            let mut object = live;
            object["metadata"][self.subject.field()] = Value::Object(after);
            return Ok(Some((object, operation)));
        }
        let patch = merge(self.subject, &before, &after, &self.args.resource_version);
        let sent = Patch { content_type: requests::MERGE_PATCH, value: &patch, subresource: None, force: false };
        let answer = requests::patch(self.context, self.client, &item.resource, &item.key, sent, self.options).await;
        let object = answer.map_err(Error::client(format!("patch {}", item.shown())))?;
        Ok(Some((object, operation)))
    }
}

fn current(subject: Subject, object: &Value) -> Map<String, Value> {
    object["metadata"][subject.field()].as_object().cloned().unwrap_or_default()
}

/// Applies the changes; answers the keys to remove that are not there.
fn changed<'c>(
    subject: Subject,
    values: &mut Map<String, Value>,
    changes: &'c Changes,
    overwrite: bool,
) -> Result<Vec<&'c str>, Error> {
    for (key, value) in &changes.set {
        if let Some(existing) = values.get(key).and_then(Value::as_str)
            && existing != value
            && !overwrite
        {
            return Err(Error::message(match subject {
                Subject::Labels => {
                    format!("'{key}' already has a value ({existing}), and --overwrite is false")
                }
                Subject::Annotations => {
                    format!(
                        "--overwrite is false but found the following declared annotation(s): '{key}' already has a value ({existing})"
                    )
                }
            }));
        }
        values.insert(key.clone(), value.as_str().into());
    }
    let mut missing = Vec::new();
    for key in &changes.removed {
        if values.remove(key).is_none() {
            missing.push(key.as_str());
        }
    }
    Ok(missing)
}

fn operation(
    subject: Subject,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    overwrite: bool,
) -> &'static str {
    match subject {
        Subject::Annotations => "annotated",
        Subject::Labels if before == after => "not labeled",
        Subject::Labels if !overwrite && after.len() < before.len() => "unlabeled",
        Subject::Labels => "labeled",
    }
}

/// The merge patch between two maps.
fn merge(subject: Subject, before: &Map<String, Value>, after: &Map<String, Value>, version: &str) -> Value {
    let mut difference = Map::new();
    for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(value)) {
        difference.insert(key.clone(), value.clone());
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        difference.insert(key.clone(), Value::Null);
    }
    let mut patch = json!({"metadata": {subject.field(): difference}});
    if !version.is_empty() {
        patch["metadata"]["resourceVersion"] = version.into();
    }
    patch
}

/// `--list`: one line each, under a heading where there are several objects.
fn listed(subject: Subject, item: &Item, values: &Map<String, Value>, several: bool) -> String {
    let mut text = String::new();
    let indent = if several { " " } else { "" };
    if several {
        let (kind, group, name) = (&item.resource.kind, &item.resource.group, item.key.name());
        text.push_str(&format!("Listing {} for {kind}.{group}/{name}:\n", subject.field()));
    }
    for (key, value) in values {
        text.push_str(&format!("{indent}{key}={}\n", value.as_str().unwrap_or_default()));
    }
    text
}

async fn local(
    context: &Context,
    subject: Subject,
    args: &MetadataArgs,
    changes: &Changes,
    printer: &mut Printer,
) -> Result<(), Error> {
    if args.files.is_empty() && subject == Subject::Labels {
        return Err(Error::message(
            "can only use local files by -f pod.yaml or --filename=pod.json when --local=true is set",
        ));
    }
    let found = objects::locals(&args.files).await?;
    let mut errors = Vec::new();
    for item in found.items {
        let mut object = item.object.clone().unwrap_or_default();
        let before = current(subject, &object);
        let mut after = before.clone();
        if let Err(error) = changed(subject, &mut after, changes, args.overwrite) {
            errors.push(error);
            continue;
        }
        let operation = operation(subject, &before, &after, args.overwrite);
        object["metadata"][subject.field()] = Value::Object(after);
        printer.done(context, &item.shown(), operation, &object)?;
    }
    errors.extend(Error::of_all(found.unread).err());
    Error::of_all(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn changes_follow_the_resources() {
        let (resources, changes) =
            split(Subject::Labels, &words(&["deploy", "web", "a=1", "b-", "c="])).expect("valid");
        assert_eq!(resources, ["deploy", "web"]);
        assert_eq!(changes.set, [("a".to_owned(), "1".to_owned()), ("c".to_owned(), String::new())]);
        assert_eq!(changes.removed, ["b"]);
        let late =
            split(Subject::Annotations, &words(&["deploy", "a=1", "web"])).expect_err("a resource after a change");
        assert_eq!(late.to_string(), "all resources must be specified before annotation changes: web");
    }

    #[test]
    fn outcomes_match_kubectls() {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        let (none, one, two) = (map(json!({})), map(json!({"a": "1"})), map(json!({"a": "1", "b": "2"})));
        for (before, after, overwrite, expected) in [
            (&none, &one, false, "labeled"),
            (&one, &one, false, "not labeled"),
            (&two, &one, false, "unlabeled"),
            (&two, &one, true, "labeled"),
        ] {
            assert_eq!(operation(Subject::Labels, before, after, overwrite), expected);
        }
        assert_eq!(
            merge(Subject::Labels, &two, &one, "7"),
            json!({"metadata": {"labels": {"b": null}, "resourceVersion": "7"}})
        );
        let changes = Changes { set: vec![("a".into(), "2".into())], removed: vec!["z".into()] };
        assert!(changed(Subject::Labels, &mut one.clone(), &changes, false).is_err());
        assert_eq!(changed(Subject::Labels, &mut one.clone(), &changes, true).expect("overwrites"), ["z"]);
    }
}
