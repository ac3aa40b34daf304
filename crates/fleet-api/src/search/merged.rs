//! Lists over several members: page by page, from one member to the next in the order of their names.

use std::collections::BTreeSet;

use apimachinery::{ApiResource, Status, StatusReason};
use client::ListOptions;
use controllers::{Member, Members};
use serde_json::{Value, json};
use transport::ObjectList;

use super::found::Found;
use super::versions::{Since, Token, Versions, encode};

/// A member, and the namespaces in which a resource is registered there; an empty set means all.
pub type Target = (String, BTreeSet<String>);

/// The parameters that lists and watches share.
#[derive(Clone, Debug)]
pub struct ListQuery {
    pub namespace: Option<String>,
    pub labels: Option<String>,
    pub fields: Option<String>,
    pub since: Since,
}

impl ListQuery {
    fn options(&self, cluster: &str, limit: usize, continue_token: &str) -> ListOptions {
        let is_continued = !continue_token.is_empty();
        ListOptions {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit,
            continue_token: is_continued.then(|| continue_token.to_owned()),
            // A continue token carries its own version.
            resource_version: self.since.of(cluster).filter(|_| !is_continued),
            metadata_only: false,
        }
    }
}

/// One page.
#[derive(Debug, Default)]
pub struct Page {
    pub items: Vec<Found>,
    pub versions: Versions,
    /// The token of the next page.
    pub next: Option<Token>,
    pub remaining: Option<u64>,
}

impl Page {
    /// Metadata of the list.
    pub fn metadata(&self) -> Value {
        let mut metadata = json!({ "resourceVersion": encode(&self.versions) });
        if let Some(next) = &self.next {
            metadata["continue"] = json!(next.encode());
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        metadata
    }
}

/// Lists the objects of the targets, in the order of their names; `limit` 0 is no limit.
///
/// # Errors
/// The error of the first member that does not answer: in a list without its part its objects would count as deleted.
pub async fn list(
    members: &Members,
    targets: &[Target],
    resource: &ApiResource,
    query: &ListQuery,
    limit: usize,
    token: Option<&Token>,
) -> Result<Page, Status> {
    let first = token.map(|token| token.cluster.as_str()).unwrap_or_default();
    let known = token.map_or_else(|| query.since.clone(), |token| Since::parse(&token.rv));
    let mut page = Page { versions: known.versions(), ..Page::default() };
    // The version does not cover clusters that are no longer targets.
    page.versions.retain(|cluster, _| targets.iter().any(|(name, _)| name == cluster));
    for (cluster, namespaces) in targets.iter().filter(|(name, _)| name.as_str() >= first) {
        let left = limit.saturating_sub(page.items.len());
        if limit > 0 && left == 0 {
            page.next = Some(Token { cluster: cluster.clone(), ..Token::default() });
            break;
        }
        let own = token.filter(|token| token.cluster == *cluster).map(|token| token.continue_token.as_str());
        let options = query.options(cluster, left, own.unwrap_or_default());
        let Some(list) = part(members, cluster, resource, query, &options).await? else { continue };
        page.versions.insert(cluster.clone(), list.resource_version.to_string());
        page.remaining = list.remaining;
        let registered =
            |namespace: Option<&str>| namespaces.is_empty() || namespaces.contains(namespace.unwrap_or_default());
        let items = list.items.into_iter().filter(|object| registered(object.namespace()));
        page.items.extend(items.map(|object| Found { cluster: cluster.clone(), object }));
        if !list.continue_token.is_empty() {
            page.next =
                Some(Token { cluster: cluster.clone(), continue_token: list.continue_token, rv: String::new() });
            break;
        }
    }
    if page.next.is_some() {
        fill(members, targets, resource, query, &mut page.versions).await?;
    }
    let versions = encode(&page.versions);
    if let Some(next) = &mut page.next {
        next.rv = versions;
    }
    Ok(page)
}

/// Adds the versions of members that the page did not reach: without them a watch from the version of the list would
/// miss changes there.
async fn fill(
    members: &Members,
    targets: &[Target],
    resource: &ApiResource,
    query: &ListQuery,
    versions: &mut Versions,
) -> Result<(), Status> {
    for (cluster, _) in targets {
        if versions.contains_key(cluster) {
            continue;
        }
        if let Some(list) = part(members, cluster, resource, query, &query.options(cluster, 1, "")).await? {
            versions.insert(cluster.clone(), list.resource_version.to_string());
        }
    }
    Ok(())
}

/// `None` where the member cannot be reached, or does not serve the resource.
async fn part(
    members: &Members,
    cluster: &str,
    resource: &ApiResource,
    query: &ListQuery,
    options: &ListOptions,
) -> Result<Option<ObjectList>, Status> {
    let Some(member) = reached(members, cluster).await else { return Ok(None) };
    match member.client.list(resource, query.namespace.as_deref(), options).await {
        Ok(list) => Ok(Some(list)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(failed(cluster, &error)),
    }
}

/// The connection to a member, if it has one.
pub async fn reached(members: &Members, cluster: &str) -> Option<std::sync::Arc<Member>> {
    members.reading(cluster).await.ok()
}

/// The Status of a member is passed on.
pub fn failed(cluster: &str, error: &client::Error) -> Status {
    match error.status() {
        Some(status) => status.clone(),
        None => {
            let message = format!("cluster {cluster} cannot be reached: {error}");
            Status::failure(StatusReason::ServiceUnavailable, message)
        }
    }
}
