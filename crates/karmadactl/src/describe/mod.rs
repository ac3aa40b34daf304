//! `describe`: an object and its events, in kubectl's layouts: special pages for the built-in kinds that users describe
//! most, all fields for other kinds.

mod kinds;
mod lines;
mod page;
mod related;

use clap::Args;
use client::{Client, Discovery, ListOptions};
use futures::future::BoxFuture;
use http::Method;
use serde_json::Value;
use world::World;

use crate::error::Error;
use crate::get::targets;
use crate::objects::flags::Files;
use crate::objects::{self, Item, ObjectSelection};
use crate::{Context, answers, requests, servers};

#[derive(Args)]
pub struct DescribeArgs {
    /// TYPE NAME_PREFIX, TYPE/NAME, or TYPE with -l
    args: Vec<String>,
    #[command(flatten)]
    files: Files,
    /// Describe objects of all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Read large lists in chunks of this many objects. Pass 0 to read them at once.
    #[arg(long, default_value_t = 500)]
    chunk_size: usize,
    /// Name of the member cluster, with the scope members.
    #[arg(short = 'C', long, default_value = "")]
    cluster: String,
    /// Namespace of the objects; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    namespace: Option<String>,
    /// Operate on the control plane (karmada) or on a member cluster (members).
    #[arg(short = 's', long, env = "KARMADACTL_OPERATION_SCOPE", default_value = "karmada")]
    operation_scope: String,
    /// Filter by labels, with '=', '==', '!=', 'in' and 'notin' (e.g. -l key1=value1,key2=value2).
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// Print the events about each object. By default those of a single object, but not of several or of a prefix.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    show_events: Option<bool>,
}

pub fn run<'a>(context: &'a Context, args: &'a DescribeArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        if args.args.is_empty() && args.files.is_empty() {
            return Err(Error::message(
                "You must specify the type of resource to describe. Use \"karmadactl api-resources\" for a complete list of \
                 supported resources.",
            ));
        }
        let scope = crate::scope::parse(&args.operation_scope)?;
        let control = context.control_plane().await?;
        let client = servers::chosen(context, &control, scope, &args.cluster).await?;
        let (items, mut errors) = items(context, &client, args).await?;
        let is_one = matches!(items.as_slice(), [(_, Match::Exact)]) && errors.is_empty();
        let shows_events = args.show_events.unwrap_or(is_one);
        if items.is_empty() && errors.is_empty() {
            context.log(&match args.all_namespaces {
                true => "No resources found\n".to_owned(),
                false => {
                    let namespace = args.namespace.clone().unwrap_or_else(|| context.namespace());
                    format!("No resources found in {namespace} namespace.\n")
                }
            });
        }
        let mut separator = "";
        for (item, _) in items {
            match one(context, &client, shows_events, &item).await {
                Ok(text) => {
                    context.print(&format!("{separator}{text}"));
                    separator = "\n\n";
                }
                Err(error) => errors.push(error),
            }
        }
        Error::of_all(errors)
    })
}

/// How an object was found.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Match {
    Exact,
    Prefix,
}

type Items = Vec<(Item, Match)>;

async fn items(context: &Context, client: &Client, args: &DescribeArgs) -> Result<(Items, Vec<Error>), Error> {
    let exact = |items: Vec<Item>| items.into_iter().map(|item| (item, Match::Exact)).collect::<Items>();
    let mut selection = ObjectSelection {
        args: &args.args,
        all: args.selector.is_empty(),
        all_namespaces: args.all_namespaces,
        ..ObjectSelection::files(&args.files, args.namespace.as_deref(), Some(&args.selector))
    };
    if !args.files.is_empty() {
        let mut found = objects::find(context, client, selection).await?;
        let errors = found.take_errors();
        return Ok((exact(found.items), errors));
    }
    let discovery = objects::discovery(client).await?;
    let (mut items, mut errors) = (Vec::new(), Vec::new());
    for target in targets::split(&args.args)? {
        selection.all = target.names.is_empty() && args.selector.is_empty();
        let found = objects::of_targets(context, client, &discovery, std::slice::from_ref(&target), selection).await?;
        errors.extend(found.errors);
        for item in found.items {
            items.extend(expanded(context, client, &discovery, item, selection).await?);
        }
    }
    Ok((items, errors))
}

/// The object of that name, or else those with that name as prefix.
async fn expanded(
    context: &Context,
    client: &Client,
    discovery: &Discovery,
    item: Item,
    selection: ObjectSelection<'_>,
) -> Result<Items, Error> {
    if item.object.is_some() {
        return Ok(vec![(item, Match::Exact)]);
    }
    match requests::get(context, client, &item.resource, &item.key, None).await {
        Ok(object) => return Ok(vec![(Item { object: Some(object), ..item }, Match::Exact)]),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(Error::client(format!("get {}", item.shown()))(error)),
    }
    let type_ = match item.resource.group.as_str() {
        "" => item.resource.plural.clone(),
        group => format!("{}.{}.{group}", item.resource.plural, item.resource.version),
    };
    let target = targets::Target { type_, names: Vec::new() };
    let all = ObjectSelection { all: true, selector: None, ..selection };
    let found = objects::of_targets(context, client, discovery, &[target], all).await?;
    let prefixed = found.items.into_iter().filter(|it| it.key.name().starts_with(item.key.name()));
    let named: Items = prefixed.map(|item| (item, Match::Prefix)).collect();
    if named.is_empty() {
        // The item stays, so that its absence is reported.
        return Ok(vec![(item, Match::Exact)]);
    }
    Ok(named)
}

async fn one(context: &Context, client: &Client, shows_events: bool, item: &Item) -> Result<String, Error> {
    let live = item.live(context, client).await.map_err(Error::client(format!("get {}", item.shown())))?;
    let events = match shows_events {
        true => Some(events(context, client, item, &live).await),
        false => None,
    };
    let related = related::of(context, client, item, &live).await?;
    Ok(page::page(&live, related.as_ref(), events.as_deref(), World::system().now()))
}

/// The events of an object, oldest first; empty if they cannot be read, as in kubectl.
async fn events(context: &Context, client: &Client, item: &Item, live: &Value) -> Vec<Value> {
    let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
    let mut selector = format!("involvedObject.name={},involvedObject.uid={uid}", item.key.name());
    if let Some(namespace) = item.key.namespace() {
        selector.push_str(&format!(",involvedObject.namespace={namespace}"));
    }
    let options = ListOptions { field_selector: Some(selector), limit: 500, ..ListOptions::default() };
    let resource = apimachinery::ApiResource::namespaced("", "v1", "Event", "events");
    let path = options.path(&resource, item.key.namespace());
    let Ok(mut list) = requests::send(context, client, Method::GET, &path, None).await else { return Vec::new() };
    let mut events = answers::take_items(&mut list).unwrap_or_default();
    events.sort_by_key(|event| event["lastTimestamp"].as_str().unwrap_or_default().to_owned());
    events
}
