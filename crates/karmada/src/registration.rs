//! Registration of clusters with a bootstrap token: the public description of the control plane, the roles of tokens,
//! and the rules about agents as an admission plugin.

use std::collections::BTreeSet;

use anyhow::Context as _;
use apimachinery::{ApiResource, ObjectKey, Status};
use apiserver::auth::authz::PolicyRule;
use apiserver::auth::authz::rbac::missing;
use apiserver::cache::Event;
use apiserver::{Admission, AdmissionRequest, Creates, Operation};
use client::{Client, Patch, PatchOptions};
use futures::future::BoxFuture;
use karmada_api::{agents, names};
use parking_lot::RwLock;
use pki::Kubeconfig;
use serde::Deserialize as _;
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const PUBLIC: &str = "kube-public";
const CLUSTER_INFO: &str = "cluster-info";

/// The roles of bootstrap tokens and of agents, with upstream's names.
pub fn roles() -> Vec<(ApiResource, Value)> {
    let metadata = |name: &str| json!({"name": name, "labels": {"karmada.io/system": "true"}});
    let role = |name: &str, rules: Value| {
        let role = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": metadata(name), "rules": rules});
        (ApiResource::cluster(RBAC, "v1", "ClusterRole", "clusterroles"), role)
    };
    let binding = |name: &str, role: &str, kind: &str, subject: &str| {
        let binding = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata(name),
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": kind, "name": subject}]});
        (ApiResource::cluster(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"), binding)
    };
    let approver = "system:karmada:certificatesigningrequest:autoapprover";
    let self_approver = "system:karmada:certificatesigningrequest:selfautoapprover";
    let may = |subresource: &str| {
        let resource = format!("certificatesigningrequests/{subresource}");
        json!([{"apiGroups": [CERTIFICATES], "resources": [resource], "verbs": ["create"]}])
    };
    let generator = "system:karmada:agent-rbac-generator";
    let mut objects = vec![
        role(generator, generator_rules()),
        binding(generator, generator, "User", agents::RBAC_GENERATOR),
        binding("system:karmada:agent-bootstrap", "system:node-bootstrapper", "Group", agents::BOOTSTRAPPERS),
        role(approver, may("clusteragent")),
        binding("system:karmada:agent-autoapprove-bootstrap", approver, "Group", agents::BOOTSTRAPPERS),
        role(self_approver, may("selfclusteragent")),
        binding("system:karmada:agent-autoapprove-certificate-rotation", self_approver, "Group", agents::GROUP),
    ];
    objects.extend(public_reader());
    objects
}

/// Upstream's user has all rights; this one may grant agents theirs, which [`AgentRules`] bounds.
fn generator_rules() -> Value {
    let kinds = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];
    json!([
        {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create", "delete"]},
        {"apiGroups": [RBAC], "resources": kinds,
            "verbs": ["get", "create", "update", "patch", "delete", "bind", "escalate"]},
        {"apiGroups": [CERTIFICATES], "resources": ["certificatesigningrequests"], "verbs": ["get", "delete"]},
    ])
}

/// Anonymous clients and agents may read `kube-public/cluster-info`, and nothing else.
fn public_reader() -> [(ApiResource, Value); 2] {
    let name = "system:karmada:bootstrap-signer-clusterinfo";
    let object = |kind: &str| {
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind,
            "metadata": {"name": name, "namespace": PUBLIC, "labels": {"karmada.io/system": "true"}}})
    };
    let (mut role, mut binding) = (object("Role"), object("RoleBinding"));
    role["rules"] =
        json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CLUSTER_INFO], "verbs": ["get"]}]);
    binding["roleRef"] = json!({"apiGroup": RBAC, "kind": "Role", "name": name});
    // Agents read it to get later authorities.
    binding["subjects"] = json!([
        {"apiGroup": RBAC, "kind": "User", "name": "system:anonymous"},
        {"apiGroup": RBAC, "kind": "Group", "name": agents::GROUP},
    ]);
    [
        (ApiResource::namespaced(RBAC, "v1", "Role", "roles"), role),
        (ApiResource::namespaced(RBAC, "v1", "RoleBinding", "rolebindings"), binding),
    ]
}

/// Publishes the address of the control plane and the authorities of its certificate. The signatures of the bootstrap
/// signer are preserved.
pub async fn publish(client: &Client, url: &str, server_name: Option<&str>, trust: &str) -> anyhow::Result<()> {
    let mut config = Kubeconfig::new("", url, trust, "", pki::kubeconfig::User::default());
    if let Some(name) = server_name {
        config = config.with_server_name(name);
    }
    // It describes a server and names no user.
    (config.users, config.contexts, config.current_context) = (Vec::new(), Vec::new(), String::new());
    let kubeconfig = config.to_yaml().context("encoding the kubeconfig of cluster-info")?;
    let resource = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let key = ObjectKey::namespaced(PUBLIC, CLUSTER_INFO);
    let attempt = || format!("publishing ConfigMap {key}");
    let Some(live) = client.get_opt(&resource, &key).await.with_context(attempt)? else {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": PUBLIC, "name": CLUSTER_INFO},
            "data": {"kubeconfig": kubeconfig}});
        return match client.create(&resource, &object).await {
            // Another server on the same store starts at the same time; it has the same authorities.
            Err(error) if error.is_already_exists() => Ok(()),
            created => created.map(drop).with_context(attempt),
        };
    };
    if live.to_value().with_context(attempt)?["data"]["kubeconfig"] == kubeconfig.as_str() {
        return Ok(());
    }
    let patch = Patch::Merge(json!({"data": {"kubeconfig": kubeconfig}}));
    client.patch(&resource, &key, &patch, &PatchOptions::default()).await.map(drop).with_context(attempt)
}

/// Bounds the writes of agents, and the grants of the user that sets them up.
#[derive(Default)]
pub struct AgentRules {
    /// The names of all Clusters.
    registered: RwLock<BTreeSet<String>>,
}

impl AgentRules {
    /// Checks the stored and the new object.
    fn refusal_of_agent(request: &AdmissionRequest<'_>, cluster: &str) -> Option<String> {
        let named = &request.info.resource;
        let refusal = |object: Option<&Value>| {
            let namespace = request.key.namespace().unwrap_or_default();
            let (group, plural, name) = (&named.group, &named.plural, request.key.name());
            agents::refusal(cluster, &agents::Write { group, plural, namespace, name, object })
        };
        refusal(request.object.as_deref()).or_else(|| refusal(Some(request.old?)))
    }

    fn refusal_of_generator(&self, request: &AdmissionRequest<'_>) -> Option<String> {
        let (named, name) = (&request.info.resource, request.key.name());
        if named.group == CERTIFICATES {
            let is_own = name.starts_with(agents::RBAC_GENERATOR_REQUEST);
            return (!is_own).then(|| format!("{} deletes its own requests only", agents::RBAC_GENERATOR));
        }
        if named.group.is_empty() && named.plural == "namespaces" && request.operation == Operation::Delete {
            return self.refusal_of_deletion(name);
        }
        if named.group != RBAC {
            return None;
        }
        let Some(cluster) = agents::cluster_of_role(name) else {
            return Some(format!("{} writes the roles of agents only", agents::RBAC_GENERATOR));
        };
        if self.registered.read().contains(cluster) {
            return Some(format!("cluster {cluster} is registered; its roles are changed by an administrator only"));
        }
        let object = request.object.as_deref().filter(|_| request.operation != Operation::Delete)?;
        (!is_granted(object, request.key, cluster))
            .then(|| format!("it grants more than the agent of cluster {cluster} needs"))
    }

    /// A registration that failed takes back the namespace that it created.
    fn refusal_of_deletion(&self, namespace: &str) -> Option<String> {
        match names::cluster_of_namespace(namespace) {
            Some(cluster) if !self.registered.read().contains(cluster) => None,
            Some(cluster) => Some(format!("cluster {cluster} is registered; its namespace is deleted with it")),
            None => Some(format!("{} deletes namespaces of clusters only", agents::RBAC_GENERATOR)),
        }
    }
}

/// Whether a Role, or a binding, is one that `register` creates for the agent of this cluster.
fn is_granted(object: &Value, key: &ObjectKey, cluster: &str) -> bool {
    let namespace = key.namespace().unwrap_or_default();
    let grants = agents::grants(cluster, namespace);
    let is_same = |desired: &Value| {
        let metadata = &desired["metadata"];
        desired["kind"] == object["kind"]
            && metadata["name"] == key.name()
            && metadata["namespace"].as_str().unwrap_or_default() == namespace
    };
    let Some(desired) = grants.iter().map(|grant| &grant.object).find(|desired| is_same(desired)) else { return false };
    if desired.get("roleRef").is_some() {
        return object["roleRef"] == desired["roleRef"] && object["subjects"] == desired["subjects"];
    }
    let rules = |role: &Value| Vec::<PolicyRule>::deserialize(&role["rules"]).ok();
    let (Some(required), Some(present)) = (rules(desired), rules(object)) else { return object["rules"].is_null() };
    object["aggregationRule"].is_null() && missing(&required, &present).is_empty()
}

impl Admission for AgentRules {
    fn concerns(&self, group: &str, plural: &str) -> bool {
        match group {
            "" => ["secrets", "events", "namespaces"].contains(&plural),
            "events.k8s.io" | "coordination.k8s.io" | RBAC => true,
            CERTIFICATES => plural == "certificatesigningrequests",
            _ => group == "cluster.karmada.io" && plural == "clusters",
        }
    }

    fn admits_unread(&self, creates: &Creates<'_>) -> bool {
        let user = &creates.user.user;
        agents::cluster_of(user).is_none() && user != agents::RBAC_GENERATOR
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let user = request.user;
        let refusal = match agents::cluster_of(&user.user) {
            Some(cluster) => Self::refusal_of_agent(request, cluster),
            None if user.user == agents::RBAC_GENERATOR => self.refusal_of_generator(request),
            None => None,
        };
        Box::pin(std::future::ready(refusal.map_or(Ok(()), |why| Err(request.forbidden(&why)))))
    }

    fn observe(&self, place: &str, event: &Event) {
        if place != "cluster.karmada.io/clusters" {
            return;
        }
        match (&event.current, &event.previous) {
            (Some(current), None) => drop(self.registered.write().insert(current.name().to_owned())),
            (None, Some(previous)) => drop(self.registered.write().remove(previous.name())),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creates_of_agents_are_read() {
        let events = kubernetes_api::resources().into_iter().find(|it| it.info.resource.plural == "events");
        let info = events.expect("a built-in resource").info;
        for (user, is_unread) in
            [("system:karmada", true), ("system:karmada:agent:m1", false), (agents::RBAC_GENERATOR, false)]
        {
            let user = transport::Identity { user: user.to_owned(), ..Default::default() };
            let creates = Creates { info: &info, user: &user, namespace: Some("default") };
            assert_eq!(AgentRules::default().admits_unread(&creates), is_unread, "{}", user.user);
        }
    }

    #[test]
    fn the_generator_grants_agents_their_rights_only() {
        let find = |kind: &str, part: &str| {
            let name = format!("system:karmada:m1:agent{part}");
            let grants = agents::grants("m1", "karmada-cluster").into_iter().map(|grant| grant.object);
            grants
                .into_iter()
                .find(|it| it["kind"] == kind && it["metadata"]["name"] == name.as_str())
                .expect("a grant")
        };
        let key = |object: &Value| {
            let (name, namespace) = (object["metadata"]["name"].as_str(), object["metadata"]["namespace"].as_str());
            let name = name.expect("a name");
            namespace.map_or_else(|| ObjectKey::cluster(name), |namespace| ObjectKey::namespaced(namespace, name))
        };
        for grant in agents::grants("m1", "karmada-cluster") {
            assert!(is_granted(&grant.object, &key(&grant.object), "m1"), "{}", grant.object);
        }
        let check = |kind: &str, part: &str, change: &dyn Fn(&mut Value), expected: bool| {
            let mut object = find(kind, part);
            change(&mut object);
            assert_eq!(is_granted(&object, &key(&object), "m1"), expected, "{object}");
        };
        check("ClusterRole", "", &|it| it["rules"][0]["verbs"] = json!(["get"]), true);
        check("ClusterRole", "", &|it| it["rules"][0]["verbs"] = json!(["*"]), false);
        check("ClusterRole", "", &|it| it["rules"][0]["resourceNames"] = json!(["m2"]), false);
        check("ClusterRole", "", &|it| it["rules"] = json!([{"nonResourceURLs": ["*"], "verbs": ["get"]}]), false);
        check("ClusterRole", "", &|it| it["aggregationRule"] = json!({"clusterRoleSelectors": [{}]}), false);
        check("Role", "-work", &|it| it["metadata"]["namespace"] = json!("karmada-es-m2"), false);
        check("Role", "-secret", &|it| it["rules"][0]["resourceNames"] = json!(["m2"]), false);
        check("ClusterRoleBinding", "", &|it| it["roleRef"]["name"] = json!("cluster-admin"), false);
        check("ClusterRoleBinding", "", &|it| it["subjects"][0]["name"] = json!("system:karmada:agent:m2"), false);
        check("RoleBinding", "-work", &|it| it["roleRef"] = json!({"kind": "ClusterRole", "name": "admin"}), false);
    }
}
