//! `apply --prune`: objects that an earlier apply created and the files no longer hold are deleted.

use std::collections::BTreeSet;

use apimachinery::GroupVersionKind;
use client::{Client, DeleteOptions, Discovery};
use serde_json::Value;

use super::last_applied;
use crate::Context;
use crate::error::Error;
use crate::get::targets::Target;
use crate::objects::flags::{DryRun, Files};
use crate::objects::{self, Item, ObjectSelection};

/// The kinds that kubectl prunes without an allowlist: group, version, kind.
const DEFAULT: [(&str, &str, &str); 16] = [
    ("", "v1", "ConfigMap"),
    ("", "v1", "Endpoints"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "Pod"),
    ("", "v1", "ReplicationController"),
    ("", "v1", "Secret"),
    ("", "v1", "Service"),
    ("batch", "v1", "Job"),
    ("batch", "v1", "CronJob"),
    ("networking.k8s.io", "v1", "Ingress"),
    ("apps", "v1", "DaemonSet"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "ReplicaSet"),
    ("apps", "v1", "StatefulSet"),
    ("", "v1", "Namespace"),
    ("", "v1", "PersistentVolume"),
];

/// The flags that select the objects to delete.
#[derive(Clone, Debug)]
pub struct Pruning {
    pub allowlist: Vec<String>,
    pub selector: Option<String>,
    pub namespace: Option<String>,
    pub cascade: &'static str,
    pub grace_period: Option<i64>,
    pub dry_run: DryRun,
}

/// Deletes the objects that an earlier apply created, that match the selector and are not in `kept`.
///
/// # Errors
/// When the allowlist is malformed, or objects cannot be listed or deleted.
pub async fn run(
    context: &Context,
    client: &Client,
    pruning: &Pruning,
    kept: &BTreeSet<String>,
    namespaces: &BTreeSet<String>,
) -> Result<Vec<Item>, Error> {
    let discovery = objects::discovery(client).await?;
    let mut pruned = Vec::new();
    for gvk in kinds(&pruning.allowlist)? {
        for item in candidates(context, client, &discovery, &gvk, pruning, namespaces).await? {
            let live = item.object.as_ref().unwrap_or(&Value::Null);
            let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
            if kept.contains(uid) || live["metadata"]["annotations"][last_applied::ANNOTATION].is_null() {
                continue;
            }
            if pruning.dry_run != DryRun::Client {
                let options = DeleteOptions {
                    propagation_policy: Some(pruning.cascade),
                    grace_period_seconds: pruning.grace_period,
                    dry_run: if pruning.dry_run == DryRun::Server { vec!["All"] } else { Vec::new() },
                    ..DeleteOptions::default()
                };
                let deleted = client.delete(&item.resource, &item.key, &options.only_uid(uid)).await;
                deleted.map_err(Error::client(format!("delete {}", item.shown())))?;
            }
            pruned.push(item);
        }
    }
    Ok(pruned)
}

/// The kinds of `--prune-allowlist`, by default those of kubectl.
///
/// # Errors
/// Naming an entry that is not GROUP/VERSION/KIND.
pub fn kinds(allowlist: &[String]) -> Result<Vec<GroupVersionKind>, Error> {
    if allowlist.is_empty() {
        return Ok(DEFAULT
            .iter()
            .map(|(group, version, kind)| GroupVersionKind::new(*group, *version, *kind))
            .collect());
    }
    let parse = |text: &String| match text.split('/').collect::<Vec<_>>().as_slice() {
        [group, version, kind] => {
            let group = if *group == "core" { "" } else { group };
            Ok(GroupVersionKind::new(group, *version, *kind))
        }
        _ => {
            Err(Error::message(format!("invalid GroupVersionKind format: {text}, please follow <group/version/kind>")))
        }
    };
    allowlist.iter().map(parse).collect()
}

/// The objects of a kind in the namespaces of the files; cluster-scoped ones only without `-n`.
async fn candidates(
    context: &Context,
    client: &Client,
    discovery: &Discovery,
    gvk: &GroupVersionKind,
    pruning: &Pruning,
    namespaces: &BTreeSet<String>,
) -> Result<Vec<Item>, Error> {
    let Some(known) = discovery.by_kind(gvk) else { return Ok(Vec::new()) };
    let group = &known.resource.group;
    let type_ = if group.is_empty() {
        known.resource.plural.clone()
    } else {
        format!("{}.{}.{group}", known.resource.plural, known.resource.version)
    };
    let target = [Target { type_, names: Vec::new() }];
    let places: Vec<Option<&str>> = match known.resource.namespaced {
        true => namespaces.iter().map(|namespace| Some(namespace.as_str())).collect(),
        false if pruning.namespace.is_some() => Vec::new(),
        false => vec![None],
    };
    let mut items = Vec::new();
    let files = Files::default();
    for namespace in places {
        let mut selection = ObjectSelection::files(&files, namespace, pruning.selector.as_deref());
        selection.all = true;
        let found = objects::of_targets(context, client, discovery, &target, selection).await?;
        items.extend(found.all()?);
    }
    Ok(items)
}
