//! Impersonation in members for users of the cluster proxy: one ClusterRole and one binding for each cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::meta::OwnerReference;
use apimachinery::{ApiResource, ObjectKey};
use controller_runtime::{Controller, Event, Next, Priority, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{events, labels};
use karmada_api::identity::{ClusterName, WorkKey};
use propagation::works::{self, WorkMetadata};
use serde_json::{Value, json};

use crate::error::{Error, Result, decoded};
use crate::{Context, work_writes};

const NAME: &str = "karmada-impersonator";
const GROUP: &str = "rbac.authorization.k8s.io";

fn roles() -> ApiResource {
    ApiResource::cluster(GROUP, "v1", "ClusterRole", "clusterroles")
}

fn role_bindings() -> ApiResource {
    ApiResource::cluster(GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings")
}

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<ClusterName>> = context.queue();
    let keys = queue.clone();
    context.control.informer(&Cluster::api_resource()).subscribe(move |event| {
        if event.changes_generation() {
            keys.add_with(ClusterName::from(event.object().name()), Priority::Low);
        }
    });
    for resource in [roles(), role_bindings()] {
        let (keys, clusters) = (queue.clone(), context.clusters.clone());
        context.control.informer(&resource).subscribe(move |event| {
            if !matches!(event, Event::Added { initial: true, .. }) {
                clusters.all().iter().for_each(|cluster| keys.add_with(ClusterName::of(cluster), Priority::Low));
            }
        });
    }
    // Without its Works a cluster cannot be read through the proxy, and a held one not be resumed.
    let keys = queue.clone();
    context.works.subscribe(move |event| {
        if let Event::Deleted(work) = event
            && work.name().starts_with(NAME)
            && let Some(work) = WorkKey::of(work)
        {
            keys.add_with(ClusterName::from(work.cluster()), Priority::Low);
        }
    });
    let synced = context.synced().await
        && context.control.informer(&roles()).synced().await
        && context.control.informer(&role_bindings()).synced().await;
    if !synced {
        return;
    }
    let stop = context.stop.clone();
    run_workers(Controller::of_clusters("unified-auth-controller"), queue, 4, stop, move |name| {
        let context = context.clone();
        async move { reconcile(&context, &name).await }
    })
    .await;
}

async fn reconcile(context: &Context, name: &ClusterName) -> Result<Next> {
    let key = ObjectKey::cluster(name.as_str());
    let Some(cluster) = context.clusters.get(name) else { return Ok(Next::Done) };
    let Some(reference) = &cluster.spec.impersonator_secret_ref else { return Ok(Next::Done) };
    if cluster.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Done);
    }
    let synced = sync(context, &cluster, &reference.namespace).await;
    let recorder = context.recorder.for_component("unified-auth-controller");
    if let Some(object) = context.cluster_informer.cache().get(&key) {
        match &synced {
            Ok(false) => {}
            Ok(true) => {
                let message = "Sync impersonation config succeed.";
                recorder.normal(&*object, events::SYNC_IMPERSONATION_CONFIG_SUCCEED, message);
            }
            // Its execution namespace is created shortly; a newer state is reconciled again.
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(error) => recorder.warning(&*object, events::SYNC_IMPERSONATION_CONFIG_FAILED, error.to_string()),
        }
    }
    synced.map(|_| Next::Done)
}

/// Updates both Works of a cluster to the users of its proxy; returns whether a write was needed. `namespace` is that
/// of the impersonating account in the member.
async fn sync(context: &Context, cluster: &Cluster, namespace: &str) -> Result<bool> {
    let name = cluster.metadata.name.as_str();
    let mut trees = [Vec::new(), Vec::new()];
    for (resource, list) in [roles(), role_bindings()].iter().zip(&mut trees) {
        for object in context.control.informer(resource).cache().list(None) {
            list.push(decoded(&object, object.to_tree())?);
        }
    }
    let [roles, bindings] = trees;
    let metadata = json!({"name": NAME, "labels": {labels::SYSTEM: "true"}});
    let api_version = format!("{GROUP}/v1");
    let role = json!({
        "apiVersion": api_version, "kind": "ClusterRole", "metadata": metadata,
        "rules": rules(&subjects(&roles, &bindings, name)),
    });
    let role_binding = json!({
        "apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": metadata,
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": NAME}],
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": NAME},
    });
    let metadata = WorkMetadata {
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        conflict_resolution: None,
        applied: &BTreeMap::new(),
    };
    let (to, mut wrote) = (ClusterName::of(cluster), false);
    for object in [role, role_binding] {
        let work = works::work(&to, object, metadata.clone());
        let mut work = work.map_err(|error| Error::Wait(format!("cluster {name}: {error}")))?;
        work.metadata.owner_references = vec![owner(cluster)];
        wrote |= work_writes::write(context, work).await?;
    }
    Ok(wrote)
}

fn owner(cluster: &Cluster) -> OwnerReference {
    OwnerReference {
        api_version: Cluster::api_resource().api_version(),
        kind: Cluster::KIND.to_owned(),
        name: cluster.metadata.name.clone(),
        uid: cluster.metadata.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// By resource of impersonation (`users`, `groups`, `serviceaccounts`): the names that may use the proxy of a cluster.
fn subjects(roles: &[Value], bindings: &[Value], cluster: &str) -> BTreeMap<&'static str, Vec<String>> {
    let allowed = |role: &Value| {
        role["rules"].as_array().is_some_and(|rules| rules.iter().any(|rule| allows_proxy(rule, cluster)))
    };
    let mut found: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for binding in bindings.iter().filter(|binding| binding["roleRef"]["kind"] == "ClusterRole") {
        let role = roles.iter().find(|role| role["metadata"]["name"] == binding["roleRef"]["name"]);
        if !role.is_some_and(allowed) {
            continue;
        }
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let kind = match subject["kind"].as_str() {
                Some("User") => "users",
                Some("Group") => "groups",
                Some("ServiceAccount") => "serviceaccounts",
                _ => continue,
            };
            found.entry(kind).or_default().extend(subject["name"].as_str().map(str::to_owned));
        }
    }
    for names in found.values_mut() {
        names.sort();
        names.dedup();
    }
    found
}

fn allows_proxy(rule: &Value, cluster: &str) -> bool {
    let has = |field: &str, item: &str| {
        rule[field].as_array().is_some_and(|list| list.iter().any(|value| value == item || value == "*"))
    };
    let names = rule["resourceNames"].as_array().filter(|names| !names.is_empty());
    let here = names.is_none_or(|names| names.iter().any(|name| name == cluster));
    (has("apiGroups", "cluster.karmada.io") && has("resources", "clusters/proxy") && here)
        || (has("apiGroups", "search.karmada.io") && has("resources", "proxying/proxy"))
}

fn rules(subjects: &BTreeMap<&'static str, Vec<String>>) -> Vec<Value> {
    let rule = |resource| {
        let names = subjects.get(resource)?;
        Some(json!({"apiGroups": [""], "resources": [resource], "verbs": ["impersonate"], "resourceNames": names}))
    };
    ["users", "serviceaccounts", "groups"].into_iter().filter_map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_with_access_to_the_proxy() {
        let role = |name: &str, rule: Value| json!({"metadata": {"name": name}, "rules": [rule]});
        let roles = [
            role(
                "m1",
                json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "resourceNames": ["m1"]}),
            ),
            role("all", json!({"apiGroups": ["*"], "resources": ["*"]})),
            role("other", json!({"apiGroups": [""], "resources": ["pods"]})),
        ];
        let bound = |role: &str, kind: &str, name: &str| json!({"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": kind, "name": name}]});
        let bindings = [bound("m1", "User", "tom"), bound("all", "Group", "admins"), bound("other", "User", "eve")];
        assert_eq!(json!(subjects(&roles, &bindings, "m1")), json!({"groups": ["admins"], "users": ["tom"]}));
        assert_eq!(json!(subjects(&roles, &bindings, "m2")), json!({"groups": ["admins"]}));
        // A plane that was upstream's has the rules in this order.
        let kinds = [bound("all", "Group", "g"), bound("all", "ServiceAccount", "s"), bound("all", "User", "u")];
        let rules = json!(rules(&subjects(&roles, &kinds, "m1")));
        let resources =
            rules.as_array().map(|rules| rules.iter().map(|rule| &rule["resources"][0]).collect::<Vec<_>>());
        assert_eq!(json!(resources), json!(["users", "serviceaccounts", "groups"]));
    }
}
