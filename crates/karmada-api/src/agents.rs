//! Agents of clusters in pull mode as users of the control plane: their names, and the rights that `karmadactl
//! register` grants them.
//!
//! The rights are upstream's, so that agents of both programs work, and two more: to read the list of incarnations for
//! safe resume, and to open the tunnel of the own cluster.

use apimachinery::ApiResource;
use serde_json::{Value, json};

use crate::cluster::TUNNEL;
use crate::constants::{labels, leases, namespaces};
use crate::names::execution_namespace;

/// The organization in an agent's certificate.
pub const GROUP: &str = "system:karmada:agents";
/// The prefix of the common name in an agent's certificate; the cluster's name follows.
pub const USER_PREFIX: &str = "system:karmada:agent:";
/// The user that grants an agent its rights during `karmadactl register`.
pub const RBAC_GENERATOR: &str = "system:karmada:agent:rbac-generator";
/// The name prefix of the certificate requests of [`RBAC_GENERATOR`].
pub const RBAC_GENERATOR_REQUEST: &str = "agent-rbac-generator-";
/// The group of bootstrap tokens that register clusters.
pub const BOOTSTRAPPERS: &str = "system:bootstrappers:karmada:default-cluster-token";
/// The ConfigMap with the incarnations of the control plane.
pub const INCARNATIONS: &str = "karmada-incarnations";

const RBAC: &str = "rbac.authorization.k8s.io";

/// The user name of a cluster's agent.
pub fn user(cluster: &str) -> String {
    format!("{USER_PREFIX}{cluster}")
}

/// The cluster of an agent's user name; `None` for other users, and for [`RBAC_GENERATOR`].
pub fn cluster_of(user: &str) -> Option<&str> {
    user.strip_prefix(USER_PREFIX).filter(|cluster| !cluster.is_empty() && user != RBAC_GENERATOR)
}

/// Why a cluster of this name cannot have an agent: the user name would be another user's, or match another cluster's
/// Secret.
pub fn name_complaint(cluster: &str) -> Option<&'static str> {
    if user(cluster) == RBAC_GENERATOR {
        return Some("the name is reserved for the user that grants agents their rights");
    }
    cluster.ends_with("-impersonator").then_some("names of Secrets of other clusters end with -impersonator")
}

/// An object that `register` creates in the control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// The resource.
    pub resource: ApiResource,
    /// The object.
    pub object: Value,
}

/// The Roles of an agent with their bindings, in the order of creation. `namespace` is the namespace of the clusters'
/// Secrets.
pub fn grants(cluster: &str, namespace: &str) -> Vec<Grant> {
    let name = |part: &str| format!("system:karmada:{cluster}:agent{part}");
    let work = execution_namespace(cluster);
    let roles = [
        (None, name(""), cluster_rules(cluster)),
        (Some(namespace), name("-secret"), secret_rules(cluster)),
        (Some(work.as_str()), name("-work"), work_rules()),
        (Some(namespaces::SYSTEM), name("-resume"), resume_rules()),
    ];
    let pair = |(namespace, name, rules): (Option<&str>, String, Value)| {
        let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
        let object = |kind: &str| {
            let mut metadata = json!({"name": name, "labels": {labels::SYSTEM: "true"}});
            if let Some(namespace) = namespace {
                metadata["namespace"] = json!(namespace);
            }
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata})
        };
        let (mut role, mut binding) = (object(kind), object(&format!("{kind}Binding")));
        role["rules"] = rules;
        binding["roleRef"] = json!({"apiGroup": RBAC, "kind": kind, "name": name});
        binding["subjects"] = json!([{"apiGroup": RBAC, "kind": "User", "name": user(cluster)}]);
        [role, binding].map(|object| Grant { resource: resource(&object), object })
    };
    roles.into_iter().flat_map(pair).collect()
}

fn resource(object: &Value) -> ApiResource {
    let kind = object["kind"].as_str().unwrap_or_default();
    let plural = format!("{}s", kind.to_lowercase());
    match object["metadata"].get("namespace") {
        Some(_) => ApiResource::namespaced(RBAC, "v1", kind, &plural),
        None => ApiResource::cluster(RBAC, "v1", kind, &plural),
    }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn named(mut rule: Value, names: &[&str]) -> Value {
    rule["resourceNames"] = json!(names);
    rule
}

fn cluster_rules(cluster: &str) -> Value {
    let group = "cluster.karmada.io";
    let interpreters = ["resourceinterpreterwebhookconfigurations", "resourceinterpretercustomizations"];
    json!([
        named(rule(group, &["clusters"], &["get", "delete"]), &[cluster]),
        rule(group, &["clusters"], &["create", "list", "watch"]),
        named(rule(group, &["clusters/status"], &["update"]), &[cluster]),
        // Not in upstream, whose agents open no tunnels.
        named(rule(group, &[&format!("clusters/{TUNNEL}")], &["create"]), &[cluster]),
        rule("config.karmada.io", &interpreters, &["get", "list", "watch"]),
        rule("", &["namespaces"], &["get"]),
        rule("coordination.k8s.io", &["leases"], &["get", "create", "update"]),
        rule("certificates.k8s.io", &["certificatesigningrequests"], &["get", "create"]),
        rule("", &["services"], &["list", "watch"]),
        json!({"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["patch", "create", "update"]}),
    ])
}

fn secret_rules(cluster: &str) -> Value {
    json!([
        named(rule("", &["secrets"], &["get", "patch"]), &[cluster, &format!("{cluster}-impersonator")]),
        rule("", &["secrets"], &["create"]),
    ])
}

fn work_rules() -> Value {
    let group = "work.karmada.io";
    json!([
        rule(group, &["works"], &["get", "create", "list", "watch", "update", "delete"]),
        rule(group, &["works/status"], &["patch", "update"]),
    ])
}

/// Not in upstream: needed for comparing a member's state with the incarnations of the control plane.
fn resume_rules() -> Value {
    json!([named(rule("", &["configmaps"], &["get", "list", "watch"]), &[INCARNATIONS])])
}

/// The properties of a write to the control plane that the rules for agents use.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The API group.
    pub group: &'a str,
    /// The plural name of the resource.
    pub plural: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The object after the write; `None` for a deletion.
    pub object: Option<&'a Value>,
}

/// Why the agent of `cluster` may not make this write; `None` if it may. RBAC cannot restrict creates to names, and
/// upstream's rules do not restrict Leases and events; an agent may write only those of its cluster.
pub fn refusal(cluster: &str, write: &Write<'_>) -> Option<String> {
    let allowed = match (write.group, write.plural) {
        ("cluster.karmada.io", "clusters") => write.name == cluster,
        ("coordination.k8s.io", "leases") => {
            let leader = write.name.strip_prefix(leases::AGENT_PREFIX) == Some(cluster);
            leader || (write.namespace == namespaces::CLUSTER && write.name == cluster)
        }
        ("", "secrets") => write.name.strip_suffix("-impersonator").unwrap_or(write.name) == cluster,
        ("" | "events.k8s.io", "events") => is_own_event(cluster, write),
        _ => true,
    };
    (!allowed).then(|| format!("the agent of cluster {cluster} may write objects of its own cluster only"))
}

/// An event of a Work, of the Cluster, or of the agent's Lease.
fn is_own_event(cluster: &str, write: &Write<'_>) -> bool {
    let Some(object) = write.object else { return false };
    let about = if write.group.is_empty() { &object["involvedObject"] } else { &object["regarding"] };
    let (kind, name) = (about["kind"].as_str().unwrap_or_default(), about["name"].as_str().unwrap_or_default());
    match kind {
        "Cluster" => name == cluster,
        "Lease" => name.strip_prefix(leases::AGENT_PREFIX) == Some(cluster),
        _ => write.namespace == execution_namespace(cluster),
    }
}

/// The cluster and the part (empty, `-secret`, `-work`, `-resume`) in the name of an agent's Role.
pub fn cluster_of_role(name: &str) -> Option<&str> {
    let (cluster, part) = name.strip_prefix("system:karmada:")?.rsplit_once(":agent")?;
    let is_part = matches!(part, "" | "-secret" | "-work" | "-resume");
    (is_part && !cluster.is_empty() && !cluster.contains(':') && name_complaint(cluster).is_none()).then_some(cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_roles_name_clusters() {
        assert_eq!(cluster_of(&user("m1")), Some("m1"));
        for other in ["system:karmada:agent:", RBAC_GENERATOR, "m1", "system:admin"] {
            assert_eq!(cluster_of(other), None, "{other}");
        }
        for (name, expected) in [
            ("system:karmada:m1:agent", Some("m1")),
            ("system:karmada:m1:agent-work", Some("m1")),
            ("system:karmada:m1:agent-other", None),
            ("system:karmada:agent-bootstrap", None),
            ("system:karmada:a:b:agent", None),
            ("system:karmada:rbac-generator:agent", None),
            ("cluster-admin", None),
        ] {
            assert_eq!(cluster_of_role(name), expected, "{name}");
        }
        for grant in grants("m1", "karmada-cluster") {
            let name = grant.object["metadata"]["name"].as_str().expect("a name");
            assert_eq!(cluster_of_role(name), Some("m1"), "{name}");
        }
        assert!(name_complaint("rbac-generator").is_some() && name_complaint("m2-impersonator").is_some());
        assert!(name_complaint("m1").is_none());
    }

    #[test]
    fn agents_write_objects_of_their_own_cluster() {
        let event = |kind: &str, name: &str| json!({"involvedObject": {"kind": kind, "name": name}, "regarding": {}});
        let (of_m1, of_m2, of_work) = (event("Cluster", "m1"), event("Cluster", "m2"), event("Work", "w"));
        for (group, plural, namespace, name, object, allowed) in [
            ("cluster.karmada.io", "clusters", "", "m1", None, true),
            ("cluster.karmada.io", "clusters", "", "m2", None, false),
            ("coordination.k8s.io", "leases", "karmada-cluster", "m1", None, true),
            ("coordination.k8s.io", "leases", "karmada-cluster", "m2", None, false),
            ("coordination.k8s.io", "leases", "karmada-system", "m1", None, false),
            ("coordination.k8s.io", "leases", "karmada-system", "karmada-agent-m1", None, true),
            ("coordination.k8s.io", "leases", "karmada-system", "karmada-agent-m2", None, false),
            ("coordination.k8s.io", "leases", "karmada-system", "karmada-scheduler", None, false),
            ("", "secrets", "karmada-cluster", "m1", None, true),
            ("", "secrets", "karmada-cluster", "m1-impersonator", None, true),
            ("", "secrets", "karmada-cluster", "m2", None, false),
            ("", "secrets", "karmada-cluster", "m2-impersonator", None, false),
            ("", "events", "default", "e", Some(&of_m1), true),
            ("", "events", "default", "e", Some(&of_m2), false),
            ("", "events", "karmada-es-m1", "e", Some(&of_work), true),
            ("", "events", "karmada-es-m2", "e", Some(&of_work), false),
            ("events.k8s.io", "events", "default", "e", Some(&of_m1), false),
            ("work.karmada.io", "works", "karmada-es-m1", "w", None, true),
        ] {
            let found = refusal("m1", &Write { group, plural, namespace, name, object });
            assert_eq!(found.is_none(), allowed, "{group} {plural} {namespace}/{name}: {found:?}");
        }
    }
}
