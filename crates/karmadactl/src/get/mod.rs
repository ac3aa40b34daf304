//! `get`: objects of the control plane, of members, or of both in one table.
//!
//! Members are read at the same time, through the control plane's proxy. One that fails is named on stderr and does
//! not hide the others.

mod args;
mod fetch;
pub(crate) mod kyaml;
mod order;
pub mod output;
mod rows;
pub mod targets;
mod watch;

use std::collections::BTreeMap;

use apimachinery::jsonpath::JsonPath;
use apimachinery::object::ObjectTree as _;
use futures::{FutureExt, StreamExt};
use serde_json::Value;

pub use args::GetArgs;
pub use output::Output;
pub use watch::Watch;

use crate::error::Error;
use crate::progress::Progress;
use crate::scope::OperationScope;
use crate::servers::{self, Server};
use crate::table::Layout;
use crate::{Context, answers};
use fetch::{Answer, Found};
use output::Objects;
use rows::{Block, View};
use targets::Target;

#[derive(Clone, Debug)]
pub struct Options {
    pub scope: OperationScope,
    /// Members to read from; empty means all.
    pub clusters: Vec<String>,
    pub namespace: String,
    pub all_namespaces: bool,
    pub labels: Option<String>,
    pub field_selector: Option<String>,
    pub output: Output,
    /// Objects of a page; 0 means all at once.
    pub chunk_size: usize,
    pub ignore_not_found: bool,
    pub no_headers: bool,
    pub show_kind: bool,
    pub show_labels: bool,
    pub show_managed_fields: bool,
    pub label_columns: Vec<String>,
    pub sort_by: Option<JsonPath>,
    /// Its text, for messages.
    pub sort_field: String,
    pub watch: Option<Watch>,
}

impl Options {
    /// The width that tables are fitted to; `-o wide` prints whole cells.
    fn columns(&self, context: &Context) -> Option<usize> {
        context.columns().filter(|_| self.output == Output::Table { wide: false })
    }

    fn view(&self) -> View {
        View {
            wide: matches!(self.output, Output::Table { wide: true }),
            with_namespace: self.all_namespaces,
            show_labels: self.show_labels,
            label_columns: self.label_columns.clone(),
            sort_by: self.sort_by.clone(),
            watching: self.watch.is_some(),
            with_event: self.watch.is_some_and(|watch| watch.events),
        }
    }
}

pub async fn run(context: &Context, args: &[String], options: &Options) -> Result<(), Error> {
    let targets = targets::parse(args)?;
    if options.all_namespaces && targets.iter().any(|target| !target.names.is_empty()) {
        return Err(Error::message("a resource cannot be retrieved by name across all namespaces"));
    }
    let control = context.control_plane().await?;
    if !options.clusters.is_empty() && !options.scope.includes_members() {
        context.warn("-C/--clusters has no effect without --operation-scope=members or --operation-scope=all");
    }
    let servers = servers::select(&control, options.scope, &options.clusters).await?;
    if servers.is_empty() {
        context.log("No member Clusters found in Karmada control plane\n");
        return Ok(());
    }
    if let Some(watch) = options.watch {
        return watch::run(context, &servers, &targets, watch, options).await;
    }
    let progress = Progress::new("Reading clusters", servers.len());
    let read = |server| fetch::fetch(server, &targets, options).inspect(|_| progress.step());
    let reads: Vec<_> = servers.iter().map(read).collect();
    let answers: Vec<Answer> = futures::stream::iter(reads).buffered(servers::CONCURRENT).collect().await;
    drop(progress);
    let mut failures = Vec::new();
    let mut found = Vec::new();
    let mut unknown_type = false;
    for (server, answer) in servers.iter().zip(answers) {
        if let Some(error) = answer.unanswered {
            return Err(error);
        }
        failures.extend(answer.failures);
        unknown_type |= answer.unknown_type;
        found.push((server, answer.found));
    }
    if options.output.is_table() {
        let text = tables(found, &targets, options, options.columns(context));
        if text.is_empty() && failures.is_empty() && !options.ignore_not_found {
            context.log(&nothing(options));
        }
        context.print(&text);
    } else {
        documents(context, found, &targets, options)?;
    }
    match failures.as_slice() {
        [] => Ok(()),
        [only] if unknown_type => Err(Error::UnknownType(only.clone())),
        _ => Err(Error::Several(failures)),
    }
}

fn nothing(options: &Options) -> String {
    match options.all_namespaces {
        true => "No resources found\n".to_owned(),
        false => format!("No resources found in {} namespace.\n", options.namespace),
    }
}

/// One block of rows for each resource, in the order of their groups and names.
fn tables(found: Vec<(&Server, Vec<Found>)>, targets: &[Target], options: &Options, columns: Option<usize>) -> String {
    let view = options.view();
    let resources = || found.iter().flat_map(|(_, found)| found).map(place);
    let several = targets.len() > 1 || resources().any(|one| resources().any(|other| one != other));
    let prefixed = several || options.show_kind;
    let mut blocks: BTreeMap<(String, String), Block> = BTreeMap::new();
    for (server, found) in found {
        for found in found {
            let prefix = prefixed.then(|| prefix(&found));
            let kind = &found.resource.resource.kind;
            let block = blocks.entry(place(&found)).or_insert_with(|| Block::new(kind, prefix, &view));
            for table in found.documents {
                block.add(&table, &server.name, "", &view);
            }
        }
    }
    let shown = blocks.into_values().filter(|block| !block.is_empty()).map(|mut block| {
        let mut lines = Vec::new();
        let headings = block.headings(&view);
        let mut layout = Layout::fitting(columns, &headings);
        lines.extend((!options.no_headers).then_some(headings));
        lines.extend(block.take_lines(&view));
        layout.render(&lines)
    });
    shown.collect::<Vec<_>>().join("\n")
}

fn place(found: &Found) -> (String, String) {
    (found.resource.resource.group.clone(), found.resource.resource.plural.clone())
}

/// `deployment.apps/`
fn prefix(found: &Found) -> String {
    let resource = &found.resource.resource;
    let kind = resource.kind.to_lowercase();
    if resource.group.is_empty() { format!("{kind}/") } else { format!("{kind}.{}/", resource.group) }
}

/// The objects of all servers as separate documents.
fn documents(
    context: &Context,
    found: Vec<(&Server, Vec<Found>)>,
    targets: &[Target],
    options: &Options,
) -> Result<(), Error> {
    let single = matches!(targets, [target] if target.names.len() == 1);
    let mut separator = "";
    for (_, found) in found {
        // By name, a server without any of the objects prints nothing; a list may be empty.
        let by_name = !found.is_empty() && found.iter().all(|found| found.named);
        let mut objects: Vec<Value> = found.into_iter().flat_map(objects).collect();
        if options.output.hides_managed_fields() && !options.show_managed_fields {
            objects.iter_mut().for_each(hide_managed_fields);
        }
        if let Some(path) = &options.sort_by {
            if !objects.is_empty() && objects.iter().all(|object| order::key(path, object).is_none()) {
                return Err(Error::message(format!(
                    "couldn't find any field with path {:?} in the list of objects",
                    options.sort_field
                )));
            }
            objects.sort_by(|a, b| order::compare(order::key(path, a), order::key(path, b)));
        }
        let objects = match objects.pop() {
            None if by_name => continue,
            Some(object) if single && objects.is_empty() => Objects::One(object),
            last => {
                objects.extend(last);
                Objects::Many(objects)
            }
        };
        context.print(separator);
        context.print(&options.output.render(objects)?);
        separator = options.output.separator();
    }
    Ok(())
}

/// The objects of one answer. Items of a list lack `apiVersion` and `kind`, which the list has.
fn objects(found: Found) -> Vec<Value> {
    if found.named {
        return found.documents;
    }
    let resource = &found.resource.resource;
    let (api_version, kind) = (resource.api_version(), resource.kind.clone());
    let mut objects = Vec::new();
    for mut page in found.documents {
        for mut item in answers::take_items(&mut page).into_iter().flatten() {
            if let Value::Object(map) = &mut item {
                map.entry("apiVersion").or_insert_with(|| api_version.clone().into());
                map.entry("kind").or_insert_with(|| kind.clone().into());
            }
            objects.push(item);
        }
    }
    objects
}

/// Removes the managed fields.
pub fn hide_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.metadata_mut() {
        metadata.remove("managedFields");
    }
}
