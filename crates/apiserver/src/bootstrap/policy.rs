//! The roles, bindings and namespaces of every API server, and their reconciliation: each start adds missing rules and
//! keeps users' additions; an object annotated `rbac.authorization.kubernetes.io/autoupdate: "false"` is not changed.

mod roles;

use serde_json::{Value, json};

use crate::auth::authz::{PolicyRule, rbac};

const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// Namespaces that exist from the start.
pub const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The label of bootstrap objects, and the annotation by which the server updates them.
fn metadata(name: &str, labels: &[(&str, &str)]) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {AUTOUPDATE: "true"},
    });
    for (key, value) in labels {
        metadata["labels"][*key] = (*value).into();
    }
    metadata
}

/// Every ClusterRole, in the order of creation.
pub fn cluster_roles() -> Vec<Value> {
    let plain = roles::plain().into_iter().map(|(name, labels, rules)| {
        json!({"apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": metadata(name, &labels), "rules": rules})
    });
    let aggregated = roles::AGGREGATED.iter().map(|(name, from, labels)| {
        let selector = json!([{"matchLabels": {*from: "true"}}]);
        // These rules apply until the aggregation controller has run, which computes the same.
        json!({
            "apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": metadata(name, labels),
            "aggregationRule": {"clusterRoleSelectors": selector}, "rules": roles::aggregated(from),
        })
    });
    plain.chain(aggregated).collect()
}

/// The ClusterRoleBindings of a new server.
pub fn cluster_role_bindings() -> Vec<Value> {
    let binding = |name: &str, role: &str, subjects: Vec<Value>| {
        let mut binding = json!({
            "apiVersion": API_VERSION, "kind": "ClusterRoleBinding", "metadata": metadata(name, &[]),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        });
        if !subjects.is_empty() {
            binding["subjects"] = subjects.into();
        }
        binding
    };
    let fixed = roles::BINDINGS.iter().map(|(name, role, subjects)| {
        binding(name, role, subjects.iter().map(|(kind, name)| subject(kind, name)).collect())
    });
    let plain = roles::plain();
    let controllers = plain.iter().filter_map(|(role, ..)| {
        let account = role.strip_prefix(roles::CONTROLLER)?;
        Some(binding(role, role, vec![subject("ServiceAccount", account)]))
    });
    fixed.chain(controllers).collect()
}

/// Service accounts are those of `kube-system`.
fn subject(kind: &str, name: &str) -> Value {
    if kind == "ServiceAccount" {
        return json!({"kind": kind, "name": name, "namespace": "kube-system"});
    }
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name})
}

/// Roles of single components in a namespace: namespace, name of the role and of its binding, subject, rules.
type NamespacedRole = (&'static str, &'static str, &'static [(&'static str, &'static str)], Vec<PolicyRule>);

fn namespaced_roles() -> Vec<NamespacedRole> {
    let core = |verbs: &[&str], resource: &str| PolicyRule::new(verbs, &[""], &[resource]);
    let events = PolicyRule::new(&["create", "patch", "update"], &["", "events.k8s.io"], &["events"]);
    let read = ["get", "list", "watch"];
    let locks =
        |holder: &str| vec![core(&["watch"], "configmaps"), core(&["get", "update"], "configmaps").named(&[holder])];
    vec![
        (
            "kube-system",
            "system::leader-locking-kube-controller-manager",
            &[("User", "system:kube-controller-manager"), ("ServiceAccount", "kube-controller-manager")],
            locks("kube-controller-manager"),
        ),
        (
            "kube-system",
            "system::leader-locking-kube-scheduler",
            &[("User", "system:kube-scheduler"), ("ServiceAccount", "kube-scheduler")],
            locks("kube-scheduler"),
        ),
        (
            "kube-system",
            "system:controller:bootstrap-signer",
            &[("ServiceAccount", "bootstrap-signer")],
            vec![core(&read, "secrets")],
        ),
        (
            "kube-system",
            "system:controller:cloud-provider",
            &[("ServiceAccount", "cloud-provider")],
            vec![core(&["create", "get", "list", "watch"], "configmaps")],
        ),
        (
            "kube-system",
            "system:controller:token-cleaner",
            &[("ServiceAccount", "token-cleaner")],
            vec![core(&["delete", "get", "list", "watch"], "secrets"), events.clone()],
        ),
        (
            "kube-public",
            "system:controller:bootstrap-signer",
            &[("ServiceAccount", "bootstrap-signer")],
            vec![core(&read, "configmaps"), core(&["update"], "configmaps").named(&["cluster-info"]), events],
        ),
    ]
}

/// Roles and role bindings in `kube-system` and `kube-public` that aggregated servers and controllers need.
pub fn namespaced() -> Vec<Value> {
    const NAME: &str = "extension-apiserver-authentication-reader";
    let mut role = json!({
        "apiVersion": API_VERSION, "kind": "Role", "metadata": metadata(NAME, &[]),
        "rules": [PolicyRule::new(&["get", "list", "watch"], &[""], &["configmaps"])
            .named(&["extension-apiserver-authentication"])],
    });
    role["metadata"]["namespace"] = "kube-system".into();
    let mut binding = json!({
        "apiVersion": API_VERSION, "kind": "RoleBinding",
        "metadata": metadata("system::extension-apiserver-authentication-reader", &[]),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-controller-manager"},
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"},
        ],
    });
    binding["metadata"]["namespace"] = "kube-system".into();
    let mut objects = vec![role, binding];
    for (namespace, name, bearers, rules) in namespaced_roles() {
        let mut metadata = metadata(name, &[]);
        metadata["namespace"] = namespace.into();
        let subjects: Vec<Value> = bearers.iter().map(|(kind, name)| subject(kind, name)).collect();
        objects.push(json!({"apiVersion": API_VERSION, "kind": "Role", "metadata": metadata, "rules": rules}));
        objects.push(json!({
            "apiVersion": API_VERSION, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": subjects,
        }));
    }
    objects
}

/// The write that adds all of `desired` to `live`; `None` if nothing is missing, or if the object belongs to the user.
/// A binding to another role belongs to the user, because a reference is immutable.
pub fn reconcile(live: &Value, desired: &Value) -> Option<Value> {
    if live["metadata"]["annotations"][AUTOUPDATE] == "false" || live["roleRef"] != desired["roleRef"] {
        return None;
    }
    let mut next = live.clone();
    for part in ["labels", "annotations"] {
        for (key, value) in desired["metadata"][part].as_object().into_iter().flatten() {
            if next["metadata"][part].get(key).is_none() {
                next["metadata"][part][key.as_str()] = value.clone();
            }
        }
    }
    if desired["aggregationRule"].is_null() {
        add_rules(&mut next, desired);
        add_subjects(&mut next, desired);
    } else {
        // The rules of an aggregated role are the aggregation controller's.
        next["aggregationRule"] = desired["aggregationRule"].clone();
    }
    (next != *live).then_some(next)
}

fn rules(role: &Value) -> Vec<PolicyRule> {
    serde_json::from_value(role["rules"].clone()).unwrap_or_default()
}

fn add_rules(next: &mut Value, desired: &Value) {
    let (mut present, needed) = (rules(next), rules(desired));
    let missing = rbac::missing(&present, &needed);
    if !missing.is_empty() {
        present.extend(missing);
        next["rules"] = json!(present);
    }
}

fn add_subjects(next: &mut Value, desired: &Value) {
    let Some(needed) = desired["subjects"].as_array() else { return };
    let mut subjects = next["subjects"].as_array().cloned().unwrap_or_default();
    let before = subjects.len();
    for subject in needed {
        if !subjects.contains(subject) {
            subjects.push(subject.clone());
        }
    }
    if subjects.len() != before {
        next["subjects"] = subjects.into();
    }
}
