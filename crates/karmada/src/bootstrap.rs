//! What every API server holds from its first start: namespaces, roles and bindings.

use anyhow::Context as _;
use apimachinery::{ApiResource, Object, ObjectKey};
use apiserver::bootstrap_policy;
use client::{Client, Patch, PatchOptions};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

/// Writes under way at once: the store makes them durable together.
const AT_ONCE: usize = 32;

/// Creates what is missing and completes what falls short; nothing is taken away.
pub async fn run(client: &Client) -> anyhow::Result<()> {
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    let wanted = bootstrap_policy::NAMESPACES.map(|name| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        (namespaces.clone(), object)
    });
    ensure_all(client, wanted.into()).await?;
    let rbac = "rbac.authorization.k8s.io";
    let roles = ApiResource::cluster(rbac, "v1", "ClusterRole", "clusterroles");
    let bindings = ApiResource::cluster(rbac, "v1", "ClusterRoleBinding", "clusterrolebindings");
    let mut wanted: Vec<(ApiResource, Value)> = Vec::new();
    wanted.extend(bootstrap_policy::cluster_roles().into_iter().map(|role| (roles.clone(), role)));
    wanted.extend(bootstrap_policy::cluster_role_bindings().into_iter().map(|binding| (bindings.clone(), binding)));
    wanted.extend(bootstrap_policy::namespaced().into_iter().map(|object| {
        let (kind, plural) = match object["kind"].as_str() {
            Some("RoleBinding") => ("RoleBinding", "rolebindings"),
            _ => ("Role", "roles"),
        };
        (ApiResource::namespaced(rbac, "v1", kind, plural), object)
    }));
    ensure_all(client, wanted).await
}

async fn ensure_all(client: &Client, wanted: Vec<(ApiResource, Value)>) -> anyhow::Result<()> {
    let ensured = stream::iter(wanted).map(async |(resource, object)| ensure(client, &resource, &object).await);
    ensured.buffer_unordered(AT_ONCE).try_collect().await
}

/// Lets the administrators of a control plane reach members through it: a member impersonates a user only when a
/// binding names him, the group `system:masters` is not enough. `system:admin` is the name upstream's installer gives
/// the administrator, `kubernetes-admin` the one in our kubeconfig.
pub async fn proxy_users(client: &Client) -> anyhow::Result<()> {
    let (group, name) = ("rbac.authorization.k8s.io", "cluster-proxy-admin");
    let api_version = format!("{group}/v1");
    let metadata = json!({"name": name, "labels": {"karmada.io/system": "true"}});
    let user = |name: &str| json!({"apiGroup": group, "kind": "User", "name": name});
    let role = json!({
        "apiVersion": api_version, "kind": "ClusterRole", "metadata": metadata,
        "rules": [{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["*"]}],
    });
    let binding = json!({
        "apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [user("system:admin"), user("kubernetes-admin")],
    });
    ensure(client, &ApiResource::cluster(group, "v1", "ClusterRole", "clusterroles"), &role).await?;
    let bindings = ApiResource::cluster(group, "v1", "ClusterRoleBinding", "clusterrolebindings");
    ensure(client, &bindings, &binding).await
}

async fn ensure(client: &Client, resource: &ApiResource, wanted: &Value) -> anyhow::Result<()> {
    let object = Object::from_value(wanted).context("encoding a bootstrap object")?;
    let key: ObjectKey = object.key();
    let attempt = || format!("creating {} {key}", resource.plural);
    let Some(live) = client.get_opt(resource, &key).await.with_context(attempt)? else {
        client.create(resource, wanted).await.with_context(attempt)?;
        return Ok(());
    };
    let live = live.to_value().with_context(attempt)?;
    if resource.group.is_empty() {
        return Ok(());
    }
    if let Some(mut completed) = bootstrap_policy::reconcile(&live, wanted) {
        completed["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        let patch = Patch::Merge(completed);
        client.patch(resource, &key, &patch, &PatchOptions::default()).await.with_context(attempt)?;
    }
    Ok(())
}
