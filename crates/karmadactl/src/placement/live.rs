//! The state that an explanation begins with, read from the server or from a file.

use std::sync::Arc;

use apimachinery::{ApiResource, GroupVersionKind, Object, ObjectKey, Status, StatusReason};
use client::{Client, DiscoveredResource, ListOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::templates;
use karmada_api::names;
use karmada_api::scope::{Binding, Override, Policy, Scope};
use karmada_api::work::v1alpha1::Work;
use karmada_api::work::v1alpha2::ObjectReference;
use serde_json::Value;

use super::failing::{self, Failing};
use super::source::{bindings, clusters};
use super::subject::{Subject, near};
use crate::Context;
use crate::answers::text;
use crate::error::Error;
use crate::get::targets;
use crate::reading::{list, matching};

/// Events about a workload that are read.
const EVENTS: usize = 500;
/// Warnings about a workload that are shown.
const WARNINGS: usize = 3;

/// The state of the workload itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    /// Not read, because the state is from a file.
    Unread,
    Missing,
    Found(Value),
}

/// Everything that decides where a workload is.
#[derive(Clone, Debug)]
pub struct Live {
    pub workload: ObjectReference,
    pub template: Template,
    pub policies: Vec<Policy>,
    pub overrides: Vec<Override>,
    pub binding: Option<Binding>,
    /// The Works of the binding.
    pub works: Vec<Work>,
    pub clusters: Vec<Arc<Cluster>>,
    /// The newest warnings about a workload without a binding.
    pub warnings: Vec<String>,
    /// What keeps the newest template from its binding and Works, although their conditions are fine.
    pub failing: Option<Failing>,
    /// The lists that could not be read.
    pub unknown: Vec<Unknown>,
}

/// A list that an explanation depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Policies,
    Overrides,
    Works,
    Clusters,
}

/// A list that could not be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    pub list: List,
    pub why: String,
}

/// The treatment of a list that the user may not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Every list is read, or the command fails; override policies are read only where a policy may wait for them.
    Required,
    /// The list is unknown, and the explanation states that.
    Stated,
}

impl Live {
    /// Whether no policy reaches objects of this kind: those that configure the control plane, Events and Leases.
    pub fn is_never_propagated(&self) -> bool {
        let kind = GroupVersionKind::from_api_version(&self.workload.api_version, &self.workload.kind);
        kind.is_ok_and(|it| templates::is_skipped(&it.group, &it.version, &it.kind))
    }

    pub fn knows(&self, list: List) -> bool {
        !self.unknown.iter().any(|it| it.list == list)
    }

    /// The content of `list`. A refusal for lack of rights is noted where that is permitted.
    fn known<T>(&mut self, list: List, rights: Rights, read: Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
        match read {
            Err(Error::Server(status)) if rights == Rights::Stated && status.is(StatusReason::Forbidden) => {
                self.unknown.push(Unknown { list, why: status.message });
                Ok(Vec::new())
            }
            other => other,
        }
    }
}

/// Reads the state of one workload.
pub async fn read(context: &Context, subject: &Subject, namespace: &str) -> Result<Live, Error> {
    let client = context.control_plane().await?;
    of_subject(&client, subject, namespace, Rights::Required).await
}

/// Reads the state of the workload, or of the binding, that `subject` names.
pub async fn of_subject(client: &Client, subject: &Subject, namespace: &str, rights: Rights) -> Result<Live, Error> {
    let (workload, template, binding) = match &subject.type_ {
        Some(type_) => typed(client, type_, &subject.name, namespace).await?,
        None => {
            let binding = named(client, &subject.name, namespace).await?;
            let template = template_of(client, &binding).await?;
            (binding.spec.resource.clone(), template, Some(binding))
        }
    };
    gather(client, (workload, template, binding), rights).await
}

/// Reads the state of the workload of a binding.
pub async fn of_binding(client: &Client, key: &ObjectKey, rights: Rights) -> Result<Option<Live>, Error> {
    let Some(binding) = one_binding(client, Scope::of(key), key).await? else { return Ok(None) };
    let template = template_of(client, &binding).await?;
    let workload = binding.spec.resource.clone();
    gather(client, (workload, template, Some(binding)), rights).await.map(Some)
}

async fn gather(client: &Client, found: Found, rights: Rights) -> Result<Live, Error> {
    let (workload, template, binding) = found;
    let mut live = Live {
        workload,
        template,
        policies: Vec::new(),
        overrides: Vec::new(),
        works: Vec::new(),
        clusters: Vec::new(),
        warnings: Vec::new(),
        failing: None,
        binding,
        unknown: Vec::new(),
    };
    for scope in Scope::ALL {
        let resource = Policy::api_resource(scope);
        let read = reachable(client, &resource, scope, &live.workload, rights, |object| Policy::decode(object)).await;
        let read = live.known(List::Policies, rights, read)?;
        live.policies.extend(read);
    }
    let read = clusters(client).await;
    live.clusters = live.known(List::Clusters, rights, read)?;
    if let Some(binding) = &live.binding {
        let read = works(client, binding).await;
        live.works = live.known(List::Works, rights, read)?;
    }
    let events = events(client, &live).await;
    live.failing = match failing::failing(&events) {
        None => of_works(client, &live.works).await,
        failing => failing,
    };
    if live.binding.is_none() {
        live.warnings = warnings(&events);
    }
    if live.binding.is_none() || rights == Rights::Stated {
        for scope in Scope::ALL {
            let resource = Override::api_resource(scope);
            let decode = |object: &Arc<Object>| Override::decode(object);
            let read = reachable(client, &resource, scope, &live.workload, rights, decode).await;
            let read = live.known(List::Overrides, rights, read)?;
            live.overrides.extend(read);
        }
    }
    Ok(live)
}

/// The policies of all namespaces; those of the workload's own where the user may read no others, as others do not
/// reach it.
async fn reachable<T, E: std::fmt::Display>(
    client: &Client,
    resource: &ApiResource,
    scope: Scope,
    workload: &ObjectReference,
    rights: Rights,
    decode: impl Fn(&Arc<Object>) -> Result<T, E>,
) -> Result<Vec<T>, Error> {
    let namespace = workload.namespace.as_str();
    match list(client, resource, None, &decode).await {
        Err(Error::Server(status))
            if rights == Rights::Stated && scope == Scope::Namespaced && status.is(StatusReason::Forbidden) =>
        {
            if namespace.is_empty() {
                return Ok(Vec::new());
            }
            list(client, resource, Some(namespace), &decode).await
        }
        other => other,
    }
}

type Found = (ObjectReference, Template, Option<Binding>);

async fn typed(client: &Client, type_: &str, name: &str, namespace: &str) -> Result<Found, Error> {
    let discovery = client.discovery().await.map_err(Error::client("read what the server serves"))?;
    let resolved = targets::resolve(type_, &discovery.resources);
    let [served] = resolved.as_slice() else { return Err(unknown_type(type_, &discovery.resources)) };
    let resource = &served.resource;
    let key = match resource.namespaced {
        true => ObjectKey::namespaced(namespace, name),
        false => ObjectKey::cluster(name),
    };
    if resource.group == "work.karmada.io" && Scope::ALL.iter().any(|scope| Binding::kind(*scope) == resource.kind) {
        let found =
            client.get_opt(resource, &key).await.map_err(Error::client(format!("get {} {key}", resource.kind)))?;
        let Some(object) = found else { return Err(not_found(client, resource, &key).await) };
        // The version in the request does not matter.
        let of = Scope::of(&key);
        let binding = one_binding(client, of, &key).await?.unwrap_or(decode_binding(&object)?);
        let template = template_of(client, &binding).await?;
        return Ok((binding.spec.resource.clone(), template, Some(binding)));
    }
    let found = client.get_opt(resource, &key).await.map_err(Error::client(format!("get {} {key}", resource.kind)))?;
    let at = ObjectKey::namespaced(key.namespace().unwrap_or_default(), names::binding_name(&resource.kind, name));
    let binding = one_binding(client, Scope::of(&at), &at).await?;
    let workload = ObjectReference {
        api_version: resource.api_version(),
        kind: resource.kind.clone(),
        namespace: key.namespace().unwrap_or_default().to_owned(),
        name: name.to_owned(),
        ..ObjectReference::default()
    };
    match (found, binding) {
        (Some(object), binding) => Ok((workload, Template::Found(tree(&object)?), binding)),
        (None, Some(binding)) => Ok((workload, Template::Missing, Some(binding))),
        (None, None) => Err(not_found(client, resource, &key).await),
    }
}

/// The binding that has this name, or whose workload has; those of the namespace go first.
async fn named(client: &Client, name: &str, namespace: &str) -> Result<Binding, Error> {
    let subject = Subject { type_: None, name: name.to_owned() };
    let mut seen = Vec::new();
    for scope in Scope::ALL {
        let within = (scope == Scope::Namespaced).then_some(namespace);
        let all = bindings(client, scope, within).await?;
        seen.extend(all.iter().map(|binding| binding.spec.resource.name.clone()));
        let found = all.into_iter().filter(|it| subject.means(&it.metadata.name, &it.spec.resource)).collect();
        if let Some(one) = one_of(found)? {
            return Ok(one);
        }
    }
    let near = near(name, seen.iter().map(String::as_str));
    let like = if near.is_empty() { String::new() } else { format!("\nNames like it: {}", near.join(", ")) };
    Err(Error::message(format!(
        "no workload named {name:?} in namespace {namespace:?} has been matched by a policy; to find out why, name its type, \
         as in deployment/{name}{like}"
    )))
}

/// The only one of several bindings of a name.
pub fn one_of(mut found: Vec<Binding>) -> Result<Option<Binding>, Error> {
    if found.len() < 2 {
        return Ok(found.pop());
    }
    let types = found.iter().take(10).map(|binding| {
        let resource = &binding.spec.resource;
        format!("{} {}", resource.kind.to_lowercase(), resource.name)
    });
    let types: Vec<String> = types.collect();
    Err(Error::message(format!("several workloads are meant; name one with its type: {}", types.join(", "))))
}

async fn one_binding(client: &Client, scope: Scope, key: &ObjectKey) -> Result<Option<Binding>, Error> {
    let resource = Binding::api_resource(scope);
    let found = client.get_opt(&resource, key).await.map_err(Error::client(format!("get {} {key}", resource.kind)))?;
    found.map(|object| decode_binding(&object)).transpose()
}

fn decode_binding(object: &Object) -> Result<Binding, Error> {
    Binding::decode(object).map_err(|error| Error::message(error.to_string()))
}

fn tree(object: &Object) -> Result<Value, Error> {
    object.to_value().map_err(|error| Error::message(format!("{} {}: {error}", object.kind(), object.key())))
}

/// The workload of a binding; absent if the kind is not served (any more).
async fn template_of(client: &Client, binding: &Binding) -> Result<Template, Error> {
    let reference = &binding.spec.resource;
    let gvk = GroupVersionKind::from_api_version(&reference.api_version, &reference.kind)
        .map_err(|error| Error::message(error.to_string()))?;
    let discovery = client.discovery().await.map_err(Error::client("read what the server serves"))?;
    let Some(served) = discovery.by_kind(&gvk) else { return Ok(Template::Missing) };
    let key = ObjectKey::namespaced(reference.namespace.as_str(), reference.name.as_str());
    let found = client.get_opt(&served.resource, &key).await;
    let found = found.map_err(Error::client(format!("get {} {key}", reference.kind)))?;
    Ok(match found {
        Some(object) => Template::Found(tree(&object)?),
        None => Template::Missing,
    })
}

pub async fn works(client: &Client, binding: &Binding) -> Result<Vec<Work>, Error> {
    let id = binding.permanent_id();
    if id.is_empty() {
        return Ok(Vec::new());
    }
    let options = ListOptions::labels(format!("{}={id}", binding.scope.binding_id_label()));
    matching(client, &Work::api_resource(), None, options, |object| Work::from_object(object)).await
}

/// The events about a workload, not about earlier ones of its name. They are a help; without them the rest is still true.
pub async fn events(client: &Client, live: &Live) -> Vec<Value> {
    let workload = &live.workload;
    let resource = ApiResource::namespaced("", "v1", "Event", "events");
    let namespace = if workload.namespace.is_empty() { "default" } else { &workload.namespace };
    let selector = format!("involvedObject.name={}", workload.name);
    let options = ListOptions { field_selector: Some(selector), limit: EVENTS, ..ListOptions::default() };
    let Ok(found) = client.list(&resource, Some(namespace), &options).await else { return Vec::new() };
    let uid = match &live.template {
        Template::Found(tree) => tree["metadata"]["uid"].as_str(),
        Template::Unread | Template::Missing => None,
    };
    let is_about = |event: &Value| {
        let about = &event["involvedObject"];
        let is_same = uid.is_none_or(|uid| about["uid"].as_str().is_none_or(|it| it.is_empty() || it == uid));
        about["kind"] == *workload.kind && about["name"] == *workload.name && is_same
    };
    found.items.iter().filter_map(|event| event.to_value().ok()).filter(is_about).collect()
}

/// The failure to report the state of one of the Works, with its cluster.
async fn of_works(client: &Client, works: &[Work]) -> Option<Failing> {
    let resource = ApiResource::namespaced("", "v1", "Event", "events");
    // The Works of a binding have one name.
    let name = &works.first()?.metadata.name;
    let selector = format!("involvedObject.kind=Work,involvedObject.name={name}");
    let options = ListOptions { field_selector: Some(selector), limit: EVENTS, ..ListOptions::default() };
    let found = client.list(&resource, None, &options).await.ok()?;
    let events: Vec<Value> = found.items.iter().filter_map(|event| event.to_value().ok()).collect();
    works.iter().find_map(|work| {
        let namespace = work.metadata.namespace.as_str();
        let of_work = events.iter().filter(|event| event["metadata"]["namespace"] == namespace);
        let mut failing = failing::failing(&of_work.cloned().collect::<Vec<_>>())?;
        let cluster = names::cluster_of_namespace(namespace).unwrap_or(namespace);
        failing.message = format!("{cluster}: {}", failing.message);
        Some(failing)
    })
}

/// The newest warnings, without those that a success has followed.
pub fn warnings(events: &[Value]) -> Vec<String> {
    let mut shown: Vec<(String, String)> = events
        .iter()
        .filter(|event| event["type"] == "Warning" && !failing::is_overcome(event, events))
        .map(|event| {
            (text(&event["lastTimestamp"]), format!("{}: {}", text(&event["reason"]), text(&event["message"])))
        })
        .collect();
    shown.sort();
    shown.into_iter().rev().map(|(_, words)| words).take(WARNINGS).collect()
}

/// As kubectl words it, and which types are like it.
fn unknown_type(type_: &str, served: &[DiscoveredResource]) -> Error {
    let names =
        served.iter().filter(|it| it.can("get")).flat_map(|it| [it.resource.plural.as_str(), it.singular.as_str()]);
    let near = near(type_, names.filter(|name| !name.is_empty()));
    let like = if near.is_empty() { String::new() } else { format!("\nTypes like it: {}", near.join(", ")) };
    Error::message(format!("the server doesn't have a resource type {type_:?}{like}"))
}

/// As kubectl words it, and which names are like it.
async fn not_found(client: &Client, resource: &ApiResource, key: &ObjectKey) -> Error {
    let mut status = Status::not_found(&resource.group, &resource.plural, key.name());
    let list = client.list(resource, key.namespace(), &ListOptions::default()).await;
    let names: Vec<String> =
        list.map(|list| list.items.iter().map(|it| it.name().to_owned()).collect()).unwrap_or_default();
    let near = near(key.name(), names.iter().map(String::as_str));
    if !near.is_empty() {
        let within = key.namespace().map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        status.message = format!("{}\nNames like it{within}: {}", status.message, near.join(", "));
    }
    Error::Server(Box::new(status))
}
