//! The objects of a command line: manifests of files, TYPE/NAME and TYPE NAME arguments, or selected by selectors.
//!
//! All commands that write share it; `get` has its own code, because it reads Tables from several servers.

mod decode;
pub mod files;
pub mod flags;

use apimachinery::selector::Selector;
use apimachinery::{ApiResource, GroupVersionKind, ObjectKey};
use client::{Client, Discovery, ListOptions};
use futures::future::BoxFuture;
use http::Method;
use serde_json::Value;

use crate::Context;
use crate::answers::text;
use crate::error::Error;
pub use crate::get::targets::MISSING;
use crate::get::targets::{self, Target};
use crate::{answers, requests};
use decode::Check;
pub use decode::typed;
use flags::Files;

/// kubectl lists this many objects at a time.
const CHUNK: usize = 500;

/// One object of a command line.
#[derive(Clone, Debug)]
pub struct Item {
    pub resource: ApiResource,
    pub key: ObjectKey,
    /// The manifest of a file, or the live object from a list.
    pub object: Option<Value>,
    /// The file; empty for arguments.
    pub source: String,
}

impl Item {
    /// `deployment.apps/web`
    pub fn shown(&self) -> String {
        let name = if self.key.name().is_empty() { "<unknown>" } else { self.key.name() };
        format!("{}/{name}", self.kind_shown())
    }

    /// `deployment.apps`
    pub fn kind_shown(&self) -> String {
        kind_shown(&self.resource)
    }

    /// The resource and the name on two lines, as in kubectl's messages.
    pub fn described(&self) -> String {
        let ApiResource { group, version, kind, plural, .. } = &self.resource;
        let (name, namespace) = (self.key.name(), self.key.namespace().unwrap_or_default());
        format!(
            "Resource: \"{group}/{version}, Resource={plural}\", GroupVersionKind: \"{group}/{version}, Kind={kind}\"\nName: \
             {name:?}, Namespace: {namespace:?}"
        )
    }

    pub fn gvk(&self) -> GroupVersionKind {
        self.resource.gvk()
    }

    /// An error of the server about this object: `error when VERB "FILE": WORDS` for one of a file.
    pub fn failed(&self, verb: &str) -> impl FnOnce(client::Error) -> Error {
        let (source, shown, verb) = (self.source.clone(), self.shown(), verb.to_owned());
        move |error| match error {
            client::Error::Status(mut status) if !source.is_empty() => {
                status.message = attempted(&verb, &source, &status.message);
                Error::Server(status)
            }
            error @ client::Error::Unnamed if !source.is_empty() => {
                Error::message(attempted(&verb, &source, &error.to_string()))
            }
            error => Error::client(format!("{verb} {shown}"))(error),
        }
    }

    /// [`Self::failed`] for an attempt that is a step of another one.
    pub fn failed_step(&self, step: &str, verb: &str) -> impl FnOnce(client::Error) -> Error {
        let (source, step, outer) = (self.source.clone(), step.to_owned(), self.failed(verb));
        move |error| match error {
            client::Error::Status(mut status) if !source.is_empty() => {
                status.message = attempted(&step, &source, &status.message);
                outer(client::Error::Status(status))
            }
            error => outer(error),
        }
    }

    /// The live object, read unless it is from a list.
    pub async fn live(&self, context: &Context, client: &Client) -> Result<Value, client::Error> {
        match (&self.object, self.source.is_empty()) {
            (Some(object), true) => Ok(object.clone()),
            _ => requests::get_named(context, client, &self.resource, &self.key, None).await,
        }
    }
}

/// `deployment.apps`
pub fn kind_shown(resource: &ApiResource) -> String {
    let kind = resource.kind.to_lowercase();
    if resource.group.is_empty() { kind } else { format!("{kind}.{}", resource.group) }
}

fn attempted(verb: &str, source: &str, words: &str) -> String {
    format!("error when {verb} {source:?}: {words}")
}

/// The objects of a command line.
#[derive(Clone, Copy, Debug)]
pub struct ObjectSelection<'a> {
    pub files: &'a Files,
    pub args: &'a [String],
    /// `-n`.
    pub namespace: Option<&'a str>,
    pub all: bool,
    pub all_namespaces: bool,
    pub selector: Option<&'a str>,
    pub field_selector: Option<&'a str>,
    /// Documents of files need a type, as `--validate` requires.
    pub validates: bool,
}

impl<'a> ObjectSelection<'a> {
    pub fn files(files: &'a Files, namespace: Option<&'a str>, selector: Option<&'a str>) -> Self {
        let (all, all_namespaces, field_selector, validates) = (false, false, None, false);
        Self { files, args: &[], namespace, all, all_namespaces, selector, field_selector, validates }
    }

    fn selects(&self) -> bool {
        self.all
            || self.selector.is_some_and(|it| !it.is_empty())
            || self.field_selector.is_some_and(|it| !it.is_empty())
    }
}

/// The objects found; errors about single objects do not hide the others.
#[derive(Debug, Default)]
pub struct Found {
    pub items: Vec<Item>,
    /// Errors about single objects.
    pub errors: Vec<Error>,
    /// Errors of files. kubectl reports them as one, after those of its requests.
    pub unread: Vec<Error>,
}

impl Found {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.errors.is_empty() && self.unread.is_empty()
    }

    /// All errors but those of requests, which follow them.
    pub fn take_errors(&mut self) -> Vec<Error> {
        let mut errors = std::mem::take(&mut self.errors);
        errors.extend(Error::of_all(std::mem::take(&mut self.unread)).err());
        errors
    }

    /// The items, if there is no error.
    ///
    /// # Errors
    /// All errors.
    pub fn all(mut self) -> Result<Vec<Item>, Error> {
        Error::of_all(self.take_errors()).map(|()| self.items)
    }
}

/// Finds the objects that are named.
///
/// # Errors
/// When files or discovery cannot be read, or the arguments make no sense together.
pub fn find<'a>(
    context: &'a Context,
    client: &'a Client,
    selection: ObjectSelection<'a>,
) -> BoxFuture<'a, Result<Found, Error>> {
    Box::pin(async move {
        if !selection.files.is_empty() {
            if !selection.args.is_empty() {
                return Err(Error::message(
                    "when paths, URLs, or stdin is provided as input, you may not specify resource arguments as well",
                ));
            }
            return of_files(context, client, selection).await;
        }
        let targets = targets::split(selection.args)?;
        let discovery = discovery(client).await?;
        of_targets(context, client, &discovery, &targets, selection).await
    })
}

/// # Errors
/// When the server does not answer.
pub async fn discovery(client: &Client) -> Result<Discovery, Error> {
    client.discovery().await.map_err(Error::client("read what the server serves"))
}

async fn of_files(context: &Context, client: &Client, selection: ObjectSelection<'_>) -> Result<Found, Error> {
    let check = if selection.validates { Check::Typed } else { Check::Readable };
    let outcomes = files::read(selection.files, check).await?;
    let selector = selection.selector.filter(|text| !text.is_empty()).map(selector).transpose()?;
    let mut found = Found::default();
    if outcomes.is_empty() {
        return Ok(found);
    }
    let discovery = discovery(client).await?;
    for outcome in outcomes {
        let manifest = match outcome {
            Ok(manifest) => manifest,
            Err(error) => {
                found.unread.push(error);
                continue;
            }
        };
        let of_label = |key: &str| manifest.object["metadata"]["labels"][key].as_str();
        if selector.as_ref().is_some_and(|selector| !selector.matches_with(of_label)) {
            continue;
        }
        match resource_of(&discovery, &manifest) {
            Ok(resource) => match of_manifest(context, resource, manifest, selection.namespace) {
                Ok(item) => found.items.push(item),
                Err(error) => found.errors.push(error),
            },
            Err(error) => found.unread.push(error),
        }
    }
    Ok(found)
}

/// The objects of an edited text, without a namespace that it does not name; `source` is its name in messages.
///
/// # Errors
/// All errors in the text.
pub fn of_text(discovery: &Discovery, source: &str, text: &str) -> Result<Vec<Item>, Error> {
    let (mut items, mut errors) = (Vec::new(), Vec::new());
    for outcome in files::of_bytes(source, text.as_bytes()) {
        match outcome.and_then(|manifest| resource_of(discovery, &manifest).map(|resource| (resource, manifest.object)))
        {
            Ok((resource, object)) => {
                let key = key_of(&resource, &object);
                items.push(Item { resource, key, object: Some(object), source: String::new() });
            }
            Err(error) => errors.push(error),
        }
    }
    Error::of_all(errors).map(|()| items)
}

/// The key that the metadata of an object have.
pub fn key_of(resource: &ApiResource, object: &Value) -> ObjectKey {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) if resource.namespaced => ObjectKey::namespaced(namespace, name),
        _ => ObjectKey::cluster(name),
    }
}

/// # Errors
/// The error in the selector.
pub fn selector(text: &str) -> Result<Selector, Error> {
    Selector::parse(text).map_err(|error| Error::message(error.to_string()))
}

/// The resource of a manifest's kind.
fn resource_of(discovery: &Discovery, manifest: &files::Manifest) -> Result<ApiResource, Error> {
    let files::Manifest { source, object, in_list } = manifest;
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let gvk = GroupVersionKind::from_api_version(&version, &kind)
        .map_err(|error| Error::message(format!("{source}: {error}")))?;
    if let Some(known) = discovery.by_kind(&gvk) {
        return Ok(known.resource.clone());
    }
    let unknown = format!("no matches for kind {kind:?} in version {version:?}");
    if *in_list {
        return Err(Error::message(format!("unable to recognize {unknown}")));
    }
    let (name, own) = (text(&object["metadata"]["name"]), text(&object["metadata"]["namespace"]));
    Err(Error::message(format!(
        "resource mapping not found for name: {name:?} namespace: {own:?} from {source:?}: {unknown}\nensure CRDs are \
         installed first"
    )))
}

/// The item of a manifest, whose namespace is filled in.
fn of_manifest(
    context: &Context,
    resource: ApiResource,
    manifest: files::Manifest,
    namespace: Option<&str>,
) -> Result<Item, Error> {
    let files::Manifest { source, mut object, .. } = manifest;
    let (name, own) = (text(&object["metadata"]["name"]), text(&object["metadata"]["namespace"]));
    let key = if resource.namespaced {
        let namespace = match namespace {
            Some(named) if !own.is_empty() && own != named => {
                return Err(Error::message(format!(
                    "the namespace from the provided object {own:?} does not match the namespace {named:?}. You must pass \
                     '--namespace={own}' to perform this operation."
                )));
            }
            _ if !own.is_empty() => own,
            Some(named) => named.to_owned(),
            None => context.namespace(),
        };
        object["metadata"]["namespace"] = namespace.clone().into();
        ObjectKey::namespaced(namespace, name)
    } else {
        ObjectKey::cluster(name)
    };
    Ok(Item { resource, key, object: Some(object), source })
}

/// The error for a type that the server does not serve.
pub fn unknown_type(type_: &str) -> Error {
    Error::UnknownType(format!("the server doesn't have a resource type {type_:?}"))
}

/// The objects of arguments: by their names, or all that the selectors match.
pub fn of_targets<'a>(
    context: &'a Context,
    client: &'a Client,
    discovery: &'a Discovery,
    targets: &'a [Target],
    selection: ObjectSelection<'a>,
) -> BoxFuture<'a, Result<Found, Error>> {
    Box::pin(async move {
        let mut found = Found::default();
        for target in targets {
            let resources = targets::resolve(&target.type_, &discovery.resources);
            if resources.is_empty() {
                found.errors.push(unknown_type(&target.type_));
                continue;
            }
            if !target.names.is_empty() && selection.selects() {
                return Err(Error::message("name cannot be provided when a selector is specified"));
            }
            if target.names.is_empty() && !selection.selects() {
                return Err(Error::message("resource(s) were provided, but no name was specified"));
            }
            if !target.names.is_empty() && selection.all_namespaces {
                return Err(Error::message("a resource cannot be retrieved by name across all namespaces"));
            }
            for known in resources {
                let resource = &known.resource;
                let namespace =
                    resource.namespaced.then(|| selection.namespace.map_or_else(|| context.namespace(), str::to_owned));
                for name in &target.names {
                    let key = match &namespace {
                        Some(namespace) => ObjectKey::namespaced(namespace.as_str(), name.as_str()),
                        None => ObjectKey::cluster(name.as_str()),
                    };
                    let resource = resource.clone();
                    found.items.push(Item { resource, key, object: None, source: String::new() });
                }
                if target.names.is_empty() {
                    let within = namespace.as_deref().filter(|_| !selection.all_namespaces);
                    match list(context, client, resource, within, &selection).await {
                        Ok(items) => found.items.extend(items),
                        Err(error) => found.errors.push(unlisted(resource, &selection, error)),
                    }
                }
            }
        }
        Ok(found)
    })
}

/// The error of a list; a malformed selector is named.
fn unlisted(resource: &ApiResource, selection: &ObjectSelection<'_>, error: client::Error) -> Error {
    match error {
        client::Error::Status(mut status) if status.is(apimachinery::StatusReason::BadRequest) => {
            let ApiResource { group, version, plural, .. } = resource;
            let (labels, fields) =
                (selection.selector.unwrap_or_default(), selection.field_selector.unwrap_or_default());
            status.message = format!(
                "Unable to find \"{group}/{version}, Resource={plural}\" that match label selector {labels:?}, field selector \
                 {fields:?}: {}",
                status.message
            );
            Error::Server(status)
        }
        error => Error::client(format!("list {}", resource.plural))(error),
    }
}

async fn list(
    context: &Context,
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    selection: &ObjectSelection<'_>,
) -> Result<Vec<Item>, client::Error> {
    let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    let mut options = ListOptions {
        label_selector: text(selection.selector),
        field_selector: text(selection.field_selector),
        limit: CHUNK,
        ..ListOptions::default()
    };
    let mut items = Vec::new();
    loop {
        let path = options.path(resource, namespace);
        let mut page = requests::send(context, client, Method::GET, &path, None).await?;
        let next = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        if let Some(objects) = answers::take_items(&mut page) {
            items.extend(objects.into_iter().map(|object| of_list(resource, object)));
        }
        if next.is_none() || next == options.continue_token {
            return Ok(items);
        }
        options.continue_token = next;
    }
}

/// Items of lists omit apiVersion and kind.
fn of_list(resource: &ApiResource, mut object: Value) -> Item {
    if let Value::Object(map) = &mut object {
        map.entry("apiVersion").or_insert_with(|| resource.api_version().into());
        map.entry("kind").or_insert_with(|| resource.kind.clone().into());
    }
    let key = key_of(resource, &object);
    Item { resource: resource.clone(), key, object: Some(object), source: String::new() }
}

/// The objects of files for commands with `--local`, which contact no server.
///
/// # Errors
/// Without files, and for a path that does not exist.
pub async fn locals(files: &Files) -> Result<Found, Error> {
    if files.is_empty() {
        return Err(Error::message(
            "can only use local files by -f rsrc.yaml or --filename=rsrc.json when --local=true is set",
        ));
    }
    let mut found = Found::default();
    for outcome in files::read(files, Check::Readable).await? {
        match outcome.and_then(local) {
            Ok(item) => found.items.push(item),
            Err(error) => found.unread.push(error),
        }
    }
    Ok(found)
}

/// The item of a manifest for commands that contact no server: its resource is derived from the kind alone.
fn local(manifest: files::Manifest) -> Result<Item, Error> {
    let files::Manifest { source, object, .. } = manifest;
    let gvk = GroupVersionKind::from_api_version(&text(&object["apiVersion"]), &text(&object["kind"]))
        .map_err(|error| Error::message(format!("{source}: {error}")))?;
    let name = text(&object["metadata"]["name"]);
    let key = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(name),
    };
    let plural = format!("{}s", gvk.kind.to_lowercase());
    let resource = ApiResource { group: gvk.group, version: gvk.version, kind: gvk.kind, plural, namespaced: false };
    Ok(Item { resource, key, object: Some(object), source })
}
