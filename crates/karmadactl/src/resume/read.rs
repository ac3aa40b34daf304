//! Reads the input of a plan: the Works of a member, and the member's objects through the cluster proxy. Kinds are
//! listed page by page; no object is read individually.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, ListOptions};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use karmada_api::constants::labels;
use serde_json::Value;

use super::plan::{Id, Member};
use crate::error::Error;
use crate::servers::reason;
use crate::{paging, resources, servers};

/// Kinds that are listed at once.
const AT_ONCE: usize = 8;

/// All objects of a list, page by page.
pub async fn list(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> client::Result<Vec<Value>> {
    let selecting = ListOptions { label_selector: selector.map(str::to_owned), ..ListOptions::default() };
    let mut found = Vec::new();
    paging::each(client, resource, namespace, selecting, std::convert::identity, |object| {
        let mut tree = object.to_value().map_err(|error| client::Error::Decode {
            attempt: format!("list {}", resource.plural),
            why: error.to_string(),
        })?;
        // Lists omit apiVersion and kind of their items.
        tree["apiVersion"] = resource.api_version().into();
        tree["kind"] = resource.kind.clone().into();
        found.push(tree);
        Ok(())
    })
    .await?;
    Ok(found)
}

/// The Works of a member.
pub async fn works(control: &Client, cluster: &str, namespace: &str) -> Result<Vec<Value>, Error> {
    let listed = list(control, &resources::WORK, Some(namespace), None).await;
    listed.map_err(Error::client(format!("list the Works of cluster {cluster}")))
}

/// The member's managed objects and those that the Works name, and the resources that can be listed. `warn` receives
/// errors of reads that are not required.
pub async fn member(
    control: &Client,
    cluster: &str,
    works: &[Value],
    warn: &(dyn Fn(String) + Send + Sync),
) -> Result<(Member, Vec<ApiResource>), Error> {
    let client = servers::member(control, cluster);
    let unreachable = |error: client::Error| {
        let why = reason(&error);
        Error::message(format!(
            "cluster {cluster} cannot be read: {why}. Without its objects there is no plan; see that `kubectl get cluster \
             {cluster}` is Ready, and repeat"
        ))
    };
    let discovery = client.discovery().await.map_err(unreachable)?;
    for failed in &discovery.failed {
        warn(format!("cluster {cluster} does not answer for {failed}: its objects are not shown"));
    }
    let manifests: Vec<&Value> =
        works.iter().flat_map(|work| work["spec"]["workload"]["manifests"].as_array()).flatten().collect();
    let desired: BTreeSet<Id> = manifests.iter().map(|manifest| Id::of(manifest)).collect();
    let kinds: BTreeSet<(&str, &str)> = desired.iter().map(|id| (id.group.as_str(), id.kind.as_str())).collect();
    let listable = discovery.preferred().into_iter().filter(|it| it.can("list"));
    let listable: Vec<ApiResource> = listable.map(|it| it.resource.clone()).collect();
    let mut found = Member::default();
    let lists: Vec<_> = listable.iter().map(|resource| managed(client.clone(), resource.clone())).collect();
    let mut lists = stream::iter(lists).buffer_unordered(AT_ONCE);
    while let Some((resource, listed)) = lists.next().await {
        let kind = (resource.group.as_str(), resource.kind.as_str());
        match listed {
            Ok(objects) => found.objects.extend(objects.into_iter().map(|it| (Id::of(&it), it))),
            // A plan without it would call its objects absent.
            Err(error) if kinds.contains(&kind) => return Err(unreachable(error)),
            Err(error) => warn(format!("cluster {cluster}: {} are not shown: {}", resource.plural, reason(&error))),
        }
    }
    for (group, kind) in &kinds {
        if !listable.iter().any(|it| it.group == *group && it.kind == *kind) {
            let why = format!("cluster {cluster} does not serve {kind}");
            found.unreadable.insert(((*group).to_owned(), (*kind).to_owned()), why);
        }
    }
    unmanaged(&client, &listable, &desired, &mut found).await.map_err(unreachable)?;
    Ok((found, listable))
}

/// The objects of a kind that carry our label.
fn managed(client: Client, resource: ApiResource) -> BoxFuture<'static, (ApiResource, client::Result<Vec<Value>>)> {
    let selector = format!("{}=true", labels::MANAGED);
    async move {
        let listed = list(&client, &resource, None, Some(&selector)).await;
        (resource, listed)
    }
    .boxed()
}

/// Finds objects of Works that exist unmanaged, and therefore block their Works.
async fn unmanaged(
    client: &Client,
    listable: &[ApiResource],
    desired: &BTreeSet<Id>,
    found: &mut Member,
) -> client::Result<()> {
    let mut places: BTreeMap<(&str, &str, &str), &ApiResource> = BTreeMap::new();
    for id in desired.iter().filter(|id| !found.objects.contains_key(*id)) {
        if let Some(resource) = listable.iter().find(|it| it.group == id.group && it.kind == id.kind) {
            places.insert((&id.group, &id.kind, &id.namespace), resource);
        }
    }
    for ((_, _, namespace), resource) in places {
        let namespace = Some(namespace).filter(|it| !it.is_empty());
        let objects = list(client, resource, namespace, None).await?;
        let named = objects.into_iter().map(|it| (Id::of(&it), it)).filter(|(id, _)| desired.contains(id));
        found.objects.extend(named);
    }
    Ok(())
}

/// The URL of an object in a member, for `kubectl delete --raw`.
pub fn proxied(cluster: &str, resource: &ApiResource, id: &Id) -> String {
    let path = resource.object_path(&ObjectKey::namespaced(id.namespace.as_str(), id.name.as_str()));
    format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy{path}")
}
