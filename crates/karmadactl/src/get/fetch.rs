//! Reads the targets from one server: as Tables, or as whole objects.

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, DiscoveredResource, Discovery, ListOptions};
use serde_json::{Value, json};

use super::targets::{self, Target};
use super::{Options, Output};
use crate::answers;
use crate::error::Error;
use crate::requests;
use crate::servers::{Server, reason};

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// The result from one server; errors do not hide the objects that were read.
#[derive(Debug, Default)]
pub struct Answer {
    pub found: Vec<Found>,
    pub failures: Vec<String>,
    /// Why the control plane gave no answer at all.
    pub unanswered: Option<Error>,
    /// The control plane does not serve a type.
    pub unknown_type: bool,
}

#[derive(Debug)]
pub struct Found {
    pub resource: DiscoveredResource,
    /// Requested by name: one document each. Otherwise the pages of a list.
    pub named: bool,
    pub documents: Vec<Value>,
}

/// The media types of a request.
pub fn accept(output: &Output) -> &'static str {
    if output.is_table() { TABLE } else { JSON }
}

pub async fn fetch(server: &Server, targets: &[Target], options: &Options) -> Answer {
    let mut answer = Answer::default();
    let discovery = match discovery(server).await {
        Ok(discovery) => discovery,
        Err(Error::Message(failure)) => {
            answer.failures.push(failure);
            return answer;
        }
        Err(error) => {
            answer.unanswered = Some(error);
            return answer;
        }
    };
    for target in targets {
        let resources = match resources(server, &discovery, target) {
            Ok(resources) => resources,
            Err(failure) => {
                answer.failures.push(failure);
                answer.unknown_type |= !server.is_member();
                continue;
            }
        };
        for resource in resources {
            if target.names.is_empty() {
                all(server, resource, options, &mut answer).await;
            } else {
                named(server, resource, &target.names, options, &mut answer).await;
            }
        }
    }
    answer
}

/// Reads the discovery of a server, which also tests whether a member is reachable.
///
/// # Errors
/// For a member, a message that names it; for the control plane, the cause.
pub async fn discovery(server: &Server) -> Result<Discovery, Error> {
    server.client.discovery().await.map_err(|error| match server.is_member() {
        true => Error::message(format!(
            "basic connection test to cluster({}) failed, please check authorization or network: {}",
            server.name,
            reason(&error)
        )),
        false => Error::client("read what the server serves")(error),
    })
}

/// The resources of a target on a server, or why they cannot be resolved.
pub fn resources<'a>(
    server: &Server,
    discovery: &'a Discovery,
    target: &Target,
) -> Result<Vec<&'a DiscoveredResource>, String> {
    let resources = targets::resolve(&target.type_, &discovery.resources);
    if !resources.is_empty() {
        return Ok(resources);
    }
    let mut why = format!("the server doesn't have a resource type {:?}", target.type_);
    if !discovery.failed.is_empty() {
        let failed: Vec<String> = discovery.failed.iter().map(ToString::to_string).collect();
        why = format!("{why} (what it serves in {} could not be read)", failed.join(", "));
    }
    Err(server.error(why))
}

async fn all(server: &Server, resource: &DiscoveredResource, options: &Options, answer: &mut Answer) {
    match pages(&server.client, &resource.resource, options, &list_options(options)).await {
        Ok(documents) => answer.found.push(Found { resource: resource.clone(), named: false, documents }),
        Err(error) => answer.failures.push(server.error(reason(&error))),
    }
}

async fn named(
    server: &Server,
    resource: &DiscoveredResource,
    names: &[String],
    options: &Options,
    answer: &mut Answer,
) {
    let mut documents = Vec::new();
    for name in names {
        let key = match namespace(&resource.resource, options) {
            Some(namespace) => ObjectKey::namespaced(namespace, name.as_str()),
            None => ObjectKey::cluster(name.as_str()),
        };
        let outcome = match client::path_of(&resource.resource, &key, None) {
            Ok(path) => document(&server.client, &with_object(path, options), &options.output).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(document) => documents.push(document),
            Err(error) if error.is_not_found() && options.ignore_not_found => {}
            Err(error) => {
                let error = requests::absent(&server.client, &key, error).await;
                answer.failures.push(server.error(reason(&error)));
            }
        }
    }
    answer.found.push(Found { resource: resource.clone(), named: true, documents });
}

pub fn list_options(options: &Options) -> ListOptions {
    ListOptions {
        label_selector: options.labels.clone(),
        field_selector: options.field_selector.clone(),
        limit: options.chunk_size,
        ..ListOptions::default()
    }
}

/// The namespace in the URL; `None` for cluster-scoped resources and across namespaces.
pub fn namespace<'a>(resource: &ApiResource, options: &'a Options) -> Option<&'a str> {
    (resource.namespaced && !options.all_namespaces).then_some(options.namespace.as_str())
}

/// Every page of a list.
pub async fn pages(
    client: &Client,
    resource: &ApiResource,
    options: &Options,
    first: &ListOptions,
) -> Result<Vec<Value>, client::Error> {
    let mut list = first.clone();
    let (mut pages, mut is_repeated) = (Vec::new(), false);
    loop {
        let path = with_object(list.path(resource, namespace(resource, options)), options);
        let page = match document(client, &path, &options.output).await {
            // The state read so far has been compacted: read again from the start, once, in one piece.
            Err(error) if error.is_expired() && list.continue_token.is_some() && !is_repeated => {
                is_repeated = true;
                pages.clear();
                list.limit = 0;
                list.continue_token = None;
                continue;
            }
            page => page?,
        };
        let next = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        pages.push(page);
        // A server that returns the same token again would be read in an endless loop.
        if next.is_none() || next == list.continue_token {
            return Ok(pages);
        }
        list.continue_token = next;
    }
}

/// Sorting needs whole objects, which a Table contains only on request.
fn with_object(path: String, options: &Options) -> String {
    if !options.output.is_table() || options.sort_by.is_none() {
        return path;
    }
    format!("{path}{}includeObject=Object", if path.contains('?') { '&' } else { '?' })
}

async fn document(client: &Client, path: &str, output: &Output) -> Result<Value, client::Error> {
    let bytes = client.document(path, accept(output)).await?;
    let document = answers::object(&format!("GET {path}"), &bytes)?;
    Ok(if output.is_table() && document["kind"] != "Table" { plain_table(document) } else { document })
}

/// For servers without support for Tables.
pub fn plain_table(mut document: Value) -> Value {
    let items = answers::take_items(&mut document).unwrap_or_else(|| vec![document.clone()]);
    let row = |object: &Value| {
        let metadata = &object["metadata"];
        json!({"cells": [metadata["name"], metadata["creationTimestamp"]], "object": object})
    };
    json!({"kind": "Table", "metadata": document["metadata"],
        "columnDefinitions": [{"name": "Name"}, {"name": "Created At"}],
        "rows": items.iter().map(row).collect::<Vec<_>>()})
}
