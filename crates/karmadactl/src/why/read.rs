//! Reads the input of the pages. Objects that the user may not read are unknown, not absent.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey, StatusReason};
use client::{Client, ListOptions};
use futures::stream::{self, StreamExt as _};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use propagation::dependencies::depended_by_label;
use serde_json::Value;

use super::{cluster, template, works};
use crate::error::Error;
use crate::placement::live::{self, Live};
use crate::placement::source::clusters;
use crate::reading::matching;
use crate::{resources, servers};

/// Members that are read at once.
pub const AT_ONCE: usize = 16;

/// Reads the remaining input of a template's page.
pub async fn facts(client: &Client, live: Live, focus: Option<String>) -> Result<template::Facts, Error> {
    let mut facts =
        template::Facts { live, focus, attached: Vec::new(), attached_unknown: None, namespace_stays: false };
    if facts.live.binding.is_some() {
        facts.live.warnings = live::warnings(&live::events(client, &facts.live).await);
    }
    if let Some(binding) = facts.live.binding.as_ref().filter(|it| it.scope == Scope::Namespaced) {
        match attached(client, binding).await {
            Ok(found) => facts.attached = found,
            Err(Error::Server(status)) if status.is(StatusReason::Forbidden) => {
                facts.attached_unknown = Some(status.message);
            }
            Err(error) => return Err(error),
        }
    }
    let namespace = facts.live.workload.namespace.as_str();
    if !namespace.is_empty() {
        // A help: without the right to read it the rest is still true.
        let found = client.get_opt(&resources::NAMESPACE, &ObjectKey::cluster(namespace)).await.ok().flatten();
        facts.namespace_stays = found.and_then(|it| it.to_value().ok()).is_some_and(|it| template::stays(&it));
    }
    Ok(facts)
}

/// The bindings propagated with `binding`, because its workload depends on theirs.
pub async fn attached(client: &Client, binding: &Binding) -> Result<Vec<Binding>, Error> {
    let label = depended_by_label(&binding.key());
    let id = binding.permanent_id();
    let selector = if id.is_empty() { label } else { format!("{label}={id}") };
    let scope = binding.scope;
    let resource = Binding::api_resource(scope);
    let namespace = binding.metadata.namespace.as_str();
    let decode = |object: &Arc<Object>| Binding::decode(object);
    matching(client, &resource, Some(namespace), ListOptions::labels(selector), decode).await
}

/// The Works of this name in all execution namespaces.
pub async fn works_named(client: &Client, name: &str) -> Result<Vec<Work>, Error> {
    let selecting = ListOptions { field_selector: Some(format!("metadata.name={name}")), ..ListOptions::default() };
    matching(client, &Work::api_resource(), None, selecting, |object| Work::from_object(object)).await
}

/// A list that may be forbidden: then it is empty, and the reason is added to `unknown`.
pub fn readable<T>(read: Result<Vec<T>, Error>, what: &str, unknown: &mut Vec<String>) -> Result<Vec<T>, Error> {
    match read {
        Err(Error::Server(status)) if status.is(StatusReason::Forbidden) => {
            unknown.push(format!("{what}: {}", status.message));
            Ok(Vec::new())
        }
        other => other,
    }
}

pub async fn cluster(client: &Client, name: &str) -> Result<cluster::Facts, Error> {
    let found = client.get(&resources::CLUSTER, &ObjectKey::cluster(name)).await;
    let object = found.map_err(Error::client(format!("get cluster {name}")))?;
    let cluster = Cluster::from_object(&object)
        .map_err(|error| Error::message(format!("Cluster {name} cannot be read: {error}")))?;
    let mut unknown = Vec::new();
    let namespace = names::execution_namespace(name);
    // Their manifests are dropped, because there may be many thousand.
    let decode = |object: &Arc<Object>| Work::from_object(object).map(|work| works::Row::of(&work));
    let works = matching(client, &Work::api_resource(), Some(&namespace), ListOptions::default(), decode).await;
    let works = readable(works, "its Works", &mut unknown)?;
    let mut leaving = Vec::new();
    for scope in Scope::ALL {
        let resource = Binding::api_resource(scope);
        let leaves = |it: &Binding| it.spec.graceful_eviction_tasks.iter().any(|task| task.from_cluster == name);
        let decode = |object: &Arc<Object>| Binding::decode(object).map(|it| Some(it).filter(leaves));
        let all = matching(client, &resource, None, ListOptions::default(), decode).await;
        leaving.extend(readable(all, "evictions from it", &mut unknown)?.into_iter().flatten());
    }
    Ok(cluster::Facts { cluster, works, leaving, unknown })
}

/// An object in a member.
#[derive(Debug)]
pub enum MemberObject {
    Absent,
    Found(Value),
    /// Why it is not known.
    Unknown(String),
}

/// The object in every member, by the names of the clusters.
pub async fn in_members(
    client: &Client,
    resource: &apimachinery::ApiResource,
    key: &ObjectKey,
) -> Result<Vec<(String, MemberObject)>, Error> {
    let names: Vec<String> = clusters(client).await?.iter().map(|it| it.metadata.name.clone()).collect();
    let reads = names.into_iter().map(|name| {
        let member = servers::member(client, &name);
        let (resource, key) = (resource.clone(), key.clone());
        async move { (name, object_in(&member, &resource, &key).await) }
    });
    let mut found: Vec<(String, MemberObject)> =
        stream::iter(reads.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).collect().await;
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

pub async fn object_in(member: &Client, resource: &apimachinery::ApiResource, key: &ObjectKey) -> MemberObject {
    match member.get_opt(resource, key).await {
        Ok(Some(object)) => match object.to_value() {
            Ok(tree) => MemberObject::Found(tree),
            Err(error) => MemberObject::Unknown(error.to_string()),
        },
        Ok(None) => MemberObject::Absent,
        Err(error) => MemberObject::Unknown(servers::reason(&error)),
    }
}
