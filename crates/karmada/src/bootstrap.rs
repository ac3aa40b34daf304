//! The objects that every API server creates at its first start: namespaces, roles and bindings, its own service,
//! priority classes, flow schemas and priority levels. Roles, bindings, flow control and the server's addresses are
//! brought up to date at every start.

use std::net::IpAddr;

use anyhow::Context as _;
use apimachinery::meta::Time;
use apimachinery::{ApiResource, Object, ObjectKey};
use apiserver::bootstrap::objects::Front;
use apiserver::bootstrap::{objects, policy};
use apiserver::cache::is_unreadable;
use apiserver::flow::bootstrap as flow;
use client::{Client, DeleteOptions, Patch, PatchOptions};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use karmada_api::constants::namespaces;
use kubernetes_api::services::Ranges;
use serde_json::{Value, json};
use world::World;

/// Concurrent writes, which is a whole round: the store syncs them together.
const AT_ONCE: usize = 128;

/// Attempts to write an object that other servers write as well.
const TRIES: usize = 8;

/// The facts about the server that bootstrap objects contain.
pub struct Server<'s> {
    pub front: Front,
    /// The addresses of other servers on the same store.
    pub others: &'s [IpAddr],
    /// The ranges of service addresses.
    pub services: &'s Ranges,
    /// The data of the ConfigMap `extension-apiserver-authentication`. Missing and outdated keys are written.
    pub authentication: &'s Value,
    pub world: &'s World,
    /// Further objects of this server.
    pub more: Vec<(ApiResource, Value)>,
}

/// Creates missing objects and completes existing ones; only outdated addresses of the server are removed.
pub async fn run(client: &Client, server: &Server<'_>) -> anyhow::Result<()> {
    let resource = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    let desired = policy::NAMESPACES.map(|name| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        (resource.clone(), object)
    });
    ensure_all(client, desired.into()).await?;
    let rbac = "rbac.authorization.k8s.io";
    let roles = ApiResource::cluster(rbac, "v1", "ClusterRole", "clusterroles");
    let bindings = ApiResource::cluster(rbac, "v1", "ClusterRoleBinding", "clusterrolebindings");
    let mut desired: Vec<(ApiResource, Value)> = Vec::new();
    desired.extend(policy::cluster_roles().into_iter().map(|role| (roles.clone(), role)));
    desired.extend(policy::cluster_role_bindings().into_iter().map(|binding| (bindings.clone(), binding)));
    desired.extend(policy::namespaced().into_iter().map(|object| {
        let (kind, plural) = match object["kind"].as_str() {
            Some("RoleBinding") => ("RoleBinding", "rolebindings"),
            _ => ("Role", "roles"),
        };
        (ApiResource::namespaced(rbac, "v1", kind, plural), object)
    }));
    desired.extend(others(server));
    desired.extend(server.more.iter().cloned());
    futures::try_join!(ensure_all(client, desired), reported(client, server))?;
    Ok(())
}

fn others(server: &Server<'_>) -> Vec<(ApiResource, Value)> {
    let classes = ApiResource::cluster("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");
    let mut desired: Vec<(ApiResource, Value)> =
        objects::priority_classes().into_iter().map(|class| (classes.clone(), class)).collect();
    desired.extend(flow_objects());
    let config_maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    desired.push((config_maps, objects::authentication(server.authentication)));
    desired.extend(front(server.front, server.others));
    desired
}

/// The service `default/kubernetes` and its endpoints.
pub fn front(front: Front, others: &[IpAddr]) -> impl Iterator<Item = (ApiResource, Value)> + use<> {
    objects::front(front, others).into_iter().map(|object| {
        let resource = match object["kind"].as_str() {
            Some("Service") => ApiResource::namespaced("", "v1", "Service", "services"),
            Some("Endpoints") => ApiResource::namespaced("", "v1", "Endpoints", "endpoints"),
            _ => ApiResource::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
        };
        (resource, object)
    })
}

/// Brings the endpoints of `default/kubernetes` up to date.
///
/// # Errors
/// The object that cannot be written.
pub async fn ensure_front(client: &Client, own: Front, others: &[IpAddr]) -> anyhow::Result<()> {
    ensure_all(client, front(own, others).collect()).await
}

/// The priority levels and flow schemas of kube-apiserver.
pub(crate) fn flow_objects() -> Vec<(ApiResource, Value)> {
    let group = "flowcontrol.apiserver.k8s.io";
    let levels = ApiResource::cluster(group, "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations");
    let schemas = ApiResource::cluster(group, "v1", "FlowSchema", "flowschemas");
    let levels = flow::priority_levels().into_iter().map(move |level| (levels.clone(), level));
    levels.chain(flow::flow_schemas().into_iter().map(move |schema| (schemas.clone(), schema))).collect()
}

/// The built-in groups and service addresses as objects, with their constant status.
async fn reported(client: &Client, server: &Server<'_>) -> anyhow::Result<()> {
    let now = Time::new(server.world.now());
    let groups = ApiResource::cluster("apiregistration.k8s.io", "v1", "APIService", "apiservices");
    let group = |service| (groups.clone(), service, objects::available(now));
    let mut desired: Vec<(ApiResource, Value, Value)> =
        objects::api_services(kubernetes_api::resources().iter()).into_values().map(group).collect();
    let addresses = ApiResource::cluster("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs");
    desired.push((addresses, objects::service_cidr(server.services), objects::in_use(now)));
    let ensured = stream::iter(desired).map(async |(resource, object, status)| {
        let key = ObjectKey::cluster(object["metadata"]["name"].as_str().unwrap_or_default());
        let attempt = || format!("creating {} {key}", resource.kind);
        match client.get_opt(&resource, &key).await {
            Ok(None) => {}
            Ok(Some(_)) => return Ok(()),
            Err(error) => return leave_unreadable(error).with_context(attempt),
        }
        match client.create(&resource, &object).await {
            // Another server on the same store starts at the same time.
            Err(error) if error.is_already_exists() => return Ok(()),
            created => created.map(drop).with_context(attempt)?,
        }
        let options = PatchOptions { subresource: Some("status"), ..PatchOptions::default() };
        let patch = Patch::Merge(json!({"status": status}));
        client.patch(&resource, &key, &patch, &options).await.with_context(attempt)?;
        anyhow::Ok(())
    });
    ensured.buffer_unordered(AT_ONCE).try_collect().await
}

/// An unreadable object exists, so it is not created. Health checks report it; the server starts without it.
fn leave_unreadable(error: client::Error) -> Result<(), client::Error> {
    match &error {
        client::Error::Status(status) if is_unreadable(status) => {
            tracing::warn!(err = status.message, "The server starts without an object of its own");
            Ok(())
        }
        _ => Err(error),
    }
}

async fn ensure_all(client: &Client, desired: Vec<(ApiResource, Value)>) -> anyhow::Result<()> {
    let ensured = stream::iter(desired).map(async |(resource, object)| ensure(client, &resource, &object).await);
    ensured.buffer_unordered(AT_ONCE).try_collect().await
}

/// The objects of Karmada beside those of Kubernetes.
pub fn of_karmada() -> Vec<(ApiResource, Value)> {
    let own = [proxy_users(), user_roles(), crate::registration::roles(), vec![system_namespace()]];
    own.into_iter().flatten().collect()
}

/// Grants the administrators access to members through the control plane: a member impersonates a user only when a
/// binding names the user; the group `system:masters` does not suffice. Upstream's installer names the administrator
/// `system:admin`, our kubeconfig `kubernetes-admin`.
fn proxy_users() -> Vec<(ApiResource, Value)> {
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
    vec![
        (ApiResource::cluster(group, "v1", "ClusterRole", "clusterroles"), role),
        (ApiResource::cluster(group, "v1", "ClusterRoleBinding", "clusterrolebindings"), binding),
    ]
}

/// Karmada's namespaced kinds, by group, that upstream adds to the roles of users. FederatedResourceQuotas and
/// customizations are left to administrators.
const KINDS_OF_USERS: [(&str, &[&str]); 5] = [
    ("autoscaling.karmada.io", &["cronfederatedhpas", "federatedhpas"]),
    ("multicluster.x-k8s.io", &["serviceexports", "serviceimports"]),
    ("networking.karmada.io", &["multiclusteringresses", "multiclusterservices"]),
    ("policy.karmada.io", &["overridepolicies", "propagationpolicies"]),
    ("work.karmada.io", &["resourcebindings", "works"]),
];

/// ClusterRoles `karmada-view` and `karmada-edit` are aggregated into `view`, `edit` and `admin`: the right to edit a
/// namespace includes its policies.
fn user_roles() -> Vec<(ApiResource, Value)> {
    let group = "rbac.authorization.k8s.io";
    let role = |name: &str, part_of: &str, verbs: &[&str]| {
        let rules = KINDS_OF_USERS.iter().map(|(group, plurals)| {
            let resources = plurals.iter().flat_map(|plural| [(*plural).to_owned(), format!("{plural}/status")]);
            json!({"apiGroups": [group], "resources": resources.collect::<Vec<_>>(), "verbs": verbs})
        });
        let role = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
            "metadata": {
                "name": name,
                "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
                "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", format!("{group}/aggregate-to-{part_of}"): "true"},
            },
            "rules": rules.collect::<Vec<_>>(),
        });
        (ApiResource::cluster(group, "v1", "ClusterRole", "clusterroles"), role)
    };
    let resources = ["pods", "nodes"];
    let metrics = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
        "metadata": {
            "name": "system:aggregated-metrics-reader",
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
            "labels": {
                "kubernetes.io/bootstrapping": "rbac-defaults", format!("{group}/aggregate-to-view"): "true",
                format!("{group}/aggregate-to-edit"): "true", format!("{group}/aggregate-to-admin"): "true",
            },
        },
        "rules": [{"apiGroups": ["metrics.k8s.io"], "resources": resources, "verbs": ["get", "list", "watch"]}],
    });
    vec![
        (ApiResource::cluster(group, "v1", "ClusterRole", "clusterroles"), metrics),
        role("karmada-view", "view", &["get", "list", "watch"]),
        role("karmada-edit", "edit", &["create", "delete", "deletecollection", "patch", "update"]),
    ]
}

/// The namespace of the components' Leases, which upstream's installers create.
fn system_namespace() -> (ApiResource, Value) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces::SYSTEM}});
    (ApiResource::cluster("", "v1", "Namespace", "namespaces"), object)
}

/// Creates an object, or updates it if the server manages it. Several servers on one store start concurrently, so after
/// a conflict the object is read again.
pub(crate) async fn ensure(client: &Client, resource: &ApiResource, desired: &Value) -> anyhow::Result<()> {
    for _ in 1..TRIES {
        match attempt(client, resource, desired).await {
            Err(error) if is_raced(&error) => {}
            settled => return settled,
        }
    }
    attempt(client, resource, desired).await
}

fn is_raced(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<client::Error>();
    error.is_some_and(|error| error.is_conflict() || error.is_already_exists() || error.is_not_found())
}

async fn attempt(client: &Client, resource: &ApiResource, desired: &Value) -> anyhow::Result<()> {
    let object = Object::from_value(desired).context("encoding a bootstrap object")?;
    let key: ObjectKey = object.key();
    let attempt = || format!("creating {} {key}", resource.plural);
    let live = match client.get_opt(resource, &key).await {
        Ok(Some(live)) => live,
        Ok(None) => {
            let created = client.create(resource, desired).await.map(drop);
            return created.or_else(leave_unreadable).with_context(attempt);
        }
        Err(error) => return leave_unreadable(error).with_context(attempt),
    };
    let reconcile = match resource.group.as_str() {
        "rbac.authorization.k8s.io" => policy::reconcile,
        "flowcontrol.apiserver.k8s.io" => flow::reconcile,
        _ if is_front(resource, &key) => objects::front_change,
        _ if key == ObjectKey::namespaced("kube-system", "extension-apiserver-authentication") => missing_data,
        // The owner manages the rest.
        _ => return Ok(()),
    };
    let live = live.to_value().with_context(attempt)?;
    if live["addressType"] != desired["addressType"] {
        // The family of a slice's addresses cannot be changed.
        client.delete(resource, &key, &DeleteOptions::default()).await.with_context(attempt)?;
        client.create(resource, desired).await.with_context(attempt)?;
        return Ok(());
    }
    if let Some(mut completed) = reconcile(&live, desired) {
        completed["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        let patch = Patch::Merge(completed);
        client.patch(resource, &key, &patch, &PatchOptions::default()).await.with_context(attempt)?;
    }
    Ok(())
}

/// The entries of a ConfigMap that are missing or differ.
fn missing_data(live: &Value, desired: &Value) -> Option<Value> {
    let desired = desired["data"].as_object()?.iter().filter(|(key, value)| live["data"][key.as_str()] != **value);
    let data: serde_json::Map<String, Value> = desired.map(|(key, value)| (key.clone(), value.clone())).collect();
    (!data.is_empty()).then(|| json!({ "data": data }))
}

/// Whether an object is one of the server's own service.
fn is_front(resource: &ApiResource, key: &ObjectKey) -> bool {
    *key == ObjectKey::namespaced("default", "kubernetes")
        && ["services", "endpoints", "endpointslices"].contains(&resource.plural.as_str())
}
