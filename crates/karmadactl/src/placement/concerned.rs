//! The templates on the server whose placement the policies of files may change.

use std::collections::BTreeMap;

use apimachinery::selector::Selector;
use apimachinery::{ApiResource, GroupVersionKind};
use client::{Client, Discovery, ListOptions};
use karmada_api::policy::v1alpha1::ResourceSelector;
use karmada_api::scope::{Policy, Scope};
use propagation::claim::claimed_by_metadata;
use propagation::template::Template;
use serde_json::Value;

use super::source::Manifests;
use crate::error::Error;
use crate::objects;
use crate::reading::matching;

/// By kind, namespace and name, which is the order of the output.
type Found = BTreeMap<(String, String, String), Value>;

/// The templates that a policy of the files selects or has claimed, and that are not in the files.
pub async fn templates(client: &Client, manifests: &Manifests) -> Result<Vec<Value>, Error> {
    if manifests.policies.is_empty() {
        return Ok(Vec::new());
    }
    let discovery = objects::discovery(client).await?;
    let mut found = Found::new();
    for policy in &manifests.policies {
        for selector in &policy.spec.resource_selectors {
            let Some(resource) = served(&discovery, &selector.api_version, &selector.kind) else { continue };
            let namespace = match policy.scope {
                Scope::Namespaced => &policy.metadata.namespace,
                Scope::Cluster => &selector.namespace,
            };
            read(client, resource, namespace, selected(selector)?, &mut found).await?;
        }
    }
    for binding in &manifests.bindings {
        let it = &binding.spec.resource;
        let claim = claimed_by_metadata(&binding.metadata);
        let holds =
            |it: &Policy| claim.as_ref().is_some_and(|claim| it.scope == claim.scope() && it.key() == claim.policy);
        let is_known = found.contains_key(&(it.kind.clone(), it.namespace.clone(), it.name.clone()));
        if is_known || !manifests.policies.iter().any(holds) {
            continue;
        }
        let Some(resource) = served(&discovery, &it.api_version, &it.kind) else { continue };
        read(client, resource, &it.namespace, named(&it.name), &mut found).await?;
    }
    for tree in &manifests.templates {
        found.remove(&key(tree));
    }
    Ok(found.into_values().collect())
}

fn key(tree: &Value) -> (String, String, String) {
    let template = Template(tree);
    (template.kind().to_owned(), template.namespace().to_owned(), template.name().to_owned())
}

fn served<'a>(discovery: &'a Discovery, api_version: &str, kind: &str) -> Option<&'a ApiResource> {
    let gvk = GroupVersionKind::from_api_version(api_version, kind).ok()?;
    discovery.by_kind(&gvk).map(|it| &it.resource)
}

fn named(name: &str) -> ListOptions {
    ListOptions { field_selector: Some(format!("metadata.name={name}")), ..ListOptions::default() }
}

fn selected(selector: &ResourceSelector) -> Result<ListOptions, Error> {
    if !selector.name.is_empty() {
        return Ok(named(&selector.name));
    }
    let labels = selector.label_selector.as_ref().map(Selector::from_label_selector).transpose();
    let labels = labels.map_err(|error| Error::message(format!("labelSelector of {}: {error}", selector.kind)))?;
    Ok(labels.map_or_else(ListOptions::default, |labels| ListOptions::labels(labels.to_string())))
}

async fn read(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    selecting: ListOptions,
    found: &mut Found,
) -> Result<(), Error> {
    let namespace = Some(namespace).filter(|it| !it.is_empty() && resource.namespaced);
    for mut tree in matching(client, resource, namespace, selecting, |object| object.to_tree()).await? {
        // Items of lists have no type.
        tree["apiVersion"] = resource.api_version().into();
        tree["kind"] = resource.kind.as_str().into();
        found.insert(key(&tree), tree);
    }
    Ok(())
}
