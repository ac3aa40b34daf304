//! Aggregated ClusterRoles: a role with an `aggregationRule` has the rules of the roles that its selectors select.

use std::sync::Arc;

use apimachinery::meta::{LabelSelector, null_as_default};
use apimachinery::selector::Selector;
use apimachinery::{Object, ObjectKey};
use client::{Patch, PatchOptions};
use controller_runtime::{Next, WorkQueue, run_workers};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Error, Result, decoded};
use crate::resources::CLUSTER_ROLES;
use crate::running::Starting;

const NAME: &str = "clusterrole-aggregation-controller";
const AGGREGATED: &str = "aggregated";

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClusterRole {
    aggregation_rule: Option<AggregationRule>,
    #[serde(deserialize_with = "null_as_default")]
    rules: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AggregationRule {
    #[serde(deserialize_with = "null_as_default")]
    cluster_role_selectors: Vec<LabelSelector>,
}

pub(crate) async fn run(context: Context, starting: Starting) {
    let queue: Arc<WorkQueue<Box<str>>> = Arc::new(WorkQueue::new());
    let roles = context.informers.informer(&CLUSTER_ROLES);
    roles.cache().add_index(AGGREGATED, |role| {
        let is_aggregated = role.decode::<ClusterRole>().is_ok_and(|role| role.aggregation_rule.is_some());
        is_aggregated.then(|| AGGREGATED.to_owned()).into_iter().collect()
    });
    let (keys, known) = (queue.clone(), roles.clone());
    roles.subscribe(move |_| {
        // Any role may be part of any aggregated one.
        for role in known.cache().by_index(AGGREGATED, AGGREGATED) {
            keys.add(role.name().into());
        }
    });
    if !roles.synced().await {
        return;
    }
    drop(starting);
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    run_workers(NAME, queue, workers, stop, move |name| {
        let context = context.clone();
        async move { reconcile(&context, &ObjectKey::cluster(&*name)).await }
    })
    .await;
}

async fn reconcile(context: &Context, key: &ObjectKey) -> Result<Next> {
    let roles = context.informers.informer(&CLUSTER_ROLES);
    let Some(object) = roles.cache().get(key).filter(|role| !role.is_deleting()) else { return Ok(Next::Done) };
    let role: ClusterRole = decoded(&object, object.decode())?;
    let Some(aggregation) = &role.aggregation_rule else { return Ok(Next::Done) };
    let rules = aggregate(key.name(), aggregation, &roles.cache().list(None))?;
    if rules == role.rules {
        return Ok(Next::Done);
    }
    let value = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": key.name(), "uid": object.uid()}, "rules": rules});
    let patch = Patch::Apply { manager: NAME.into(), force: true, value };
    match context.client.patch(&CLUSTER_ROLES, key, &patch, &PatchOptions::default()).await {
        // Deleted, and possibly recreated, in the meantime.
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
        _ => Ok(Next::Done),
    }
}

/// The rules of the selected roles, selector by selector, in the order of the roles' names, without duplicates.
fn aggregate(name: &str, rule: &AggregationRule, roles: &[Arc<Object>]) -> Result<Vec<Value>> {
    let mut rules: Vec<Value> = Vec::new();
    for selector in &rule.cluster_role_selectors {
        let selector = Selector::from_label_selector(selector)
            .map_err(|why| Error::Selector { object: format!("ClusterRole {name}"), why: why.to_string() })?;
        for role in roles.iter().filter(|role| role.name() != name && selector.matches_with(|key| role.label(key))) {
            let role: ClusterRole = decoded(role, role.decode())?;
            for rule in role.rules {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_ordered_by_selector_and_name() {
        let role = |name: &str, label: &str, verbs: &[&str]| {
            let rules: Vec<_> = verbs.iter().map(|verb| json!({"verbs": [verb]})).collect();
            let tree =
                json!({"kind": "ClusterRole", "metadata": {"name": name, "labels": {"to": label}}, "rules": rules});
            Object::from_value(&tree).expect("an object").shared()
        };
        let roles = [role("all", "b", &["own"]), role("a", "a", &["get", "list"]), role("b", "b", &["list", "watch"])];
        let check = |selectors: Value, expected: &[&str]| {
            let rule: AggregationRule =
                serde_json::from_value(json!({ "clusterRoleSelectors": selectors })).expect("a rule");
            let expected: Vec<_> = expected.iter().map(|verb| json!({"verbs": [verb]})).collect();
            assert_eq!(aggregate("all", &rule, &roles).expect("rules"), expected);
        };
        let (a, b) = (json!({"matchLabels": {"to": "a"}}), json!({"matchLabels": {"to": "b"}}));
        check(json!([a]), &["get", "list"]);
        check(json!([b, a]), &["list", "watch", "get"]);
        check(json!([{"matchExpressions": [{"key": "to", "operator": "Exists"}]}]), &["get", "list", "watch"]);
        check(json!(null), &[]);
    }
}
