//! Reads the related objects of a page.

use apimachinery::selector::Selector;
use apimachinery::{ApiResource, ObjectKey};
use client::{Client, ListOptions};
use http::Method;
use serde_json::Value;

use super::kinds::{self, Need, Related};
use crate::error::Error;
use crate::objects::Item;
use crate::servers::reason;
use crate::{Context, answers, requests};

/// Objects of a page of a list; kubectl reads as many at a time.
const PAGE: usize = 500;
/// A page shows a part of them: 10,000 objects are enough for any.
const PAGES: usize = 20;

/// The related objects of a page; `None` for kinds without a special page.
///
/// # Errors
/// When the server refuses a list.
pub async fn of(context: &Context, client: &Client, item: &Item, object: &Value) -> Result<Option<Related>, Error> {
    let Some(needs) = kinds::needs(&item.resource.group, &item.resource.kind) else { return Ok(None) };
    let mut related = Related::default();
    for need in needs {
        if *need == Need::Lease {
            related.lease = Some(lease(context, client, item).await);
            continue;
        }
        let found = list(context, client, *need, item, object).await?;
        match need {
            Need::Pods => related.pods = found,
            Need::ReplicaSets => related.replica_sets = found,
            Need::Slices => related.slices = found,
            Need::Quotas => related.quotas = found,
            Need::Limits => related.limits = found,
            Need::Secrets => related.secrets = found,
            Need::Services => related.services = found,
            Need::Lease => {}
        }
    }
    Ok(Some(related))
}

async fn list(
    context: &Context,
    client: &Client,
    need: Need,
    item: &Item,
    object: &Value,
) -> Result<Vec<Value>, Error> {
    let of_workload = || {
        let selector = serde_json::from_value(object["spec"]["selector"].clone()).ok()?;
        Selector::from_label_selector(&selector).ok().map(|it| it.to_string())
    };
    let namespace = item.key.namespace();
    let mut fields = None;
    let (resource, selector, namespace) = match need {
        Need::Pods if item.resource.kind == "Node" => {
            fields = Some(format!("spec.nodeName={},status.phase!=Succeeded,status.phase!=Failed", item.key.name()));
            (pods(), None, None)
        }
        // A claim is used by any pod; a workload's pods have its labels.
        Need::Pods if item.resource.group.is_empty() => (pods(), None, namespace),
        Need::Pods => (pods(), of_workload(), namespace),
        Need::ReplicaSets => {
            (ApiResource::namespaced("apps", "v1", "ReplicaSet", "replicasets"), of_workload(), namespace)
        }
        Need::Services => (ApiResource::namespaced("", "v1", "Service", "services"), None, namespace),
        Need::Slices => (
            ApiResource::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
            // Those of an Ingress are of any Service.
            (item.resource.kind == "Service").then(|| format!("kubernetes.io/service-name={}", item.key.name())),
            namespace,
        ),
        Need::Quotas => {
            let resource = ApiResource::namespaced("", "v1", "ResourceQuota", "resourcequotas");
            (resource, None, Some(item.key.name()))
        }
        Need::Secrets => (ApiResource::namespaced("", "v1", "Secret", "secrets"), None, namespace),
        Need::Lease => return Ok(Vec::new()),
        Need::Limits => (ApiResource::namespaced("", "v1", "LimitRange", "limitranges"), None, Some(item.key.name())),
    };
    let mut options =
        ListOptions { label_selector: selector, field_selector: fields, limit: PAGE, ..ListOptions::default() };
    let mut found = Vec::new();
    for _ in 0..PAGES {
        let path = options.path(&resource, namespace);
        let page = requests::send(context, client, Method::GET, &path, None).await;
        let mut page = page.map_err(Error::client(format!("list {}", resource.plural)))?;
        let next = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        found.extend(answers::take_items(&mut page).into_iter().flatten());
        if next.is_none() {
            break;
        }
        options.continue_token = next;
    }
    Ok(found)
}

/// The Lease that a node's kubelet renews. A node without one has a page all the same.
async fn lease(context: &Context, client: &Client, item: &Item) -> Result<Value, String> {
    let resource = ApiResource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
    let key = ObjectKey::namespaced("kube-node-lease", item.key.name());
    requests::get(context, client, &resource, &key, None).await.map_err(|error| reason(&error))
}

fn pods() -> ApiResource {
    ApiResource::namespaced("", "v1", "Pod", "pods")
}
