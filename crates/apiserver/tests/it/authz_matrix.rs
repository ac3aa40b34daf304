//! Roles, bindings, users and requests in all combinations: the indexed table decides as a slow reference does, which
//! reads the objects as they are written.

use apimachinery::Object;
use apiserver::auth::authz::{Attributes, Authorizer, Rbac, ResourceAttributes};
use serde_json::{Value, json};
use transport::Identity;

const VERBS: &[&str] = &["get", "list", "update", "impersonate", "*"];
const GROUPS: &[&str] = &["", "apps", "*"];
const RESOURCES: &[&str] = &["pods", "pods/log", "*/scale", "pods/*", "*"];
const NAMES: &[&[&str]] = &[&[], &["a"]];

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// One rule for each combination.
fn rules() -> Vec<Value> {
    let mut rules = Vec::new();
    for verb in VERBS {
        for group in GROUPS {
            for resource in RESOURCES {
                for names in NAMES {
                    rules.push(
                        json!({"verbs": [verb], "apiGroups": [group], "resources": [resource], "resourceNames": names}),
                    );
                }
            }
        }
        for path in ["/metrics", "/logs/*", "*"] {
            rules.push(json!({"verbs": [verb], "nonResourceURLs": [path]}));
        }
    }
    rules
}

fn requests() -> Vec<Attributes> {
    let mut requests = Vec::new();
    for verb in ["get", "list", "delete"] {
        for group in ["", "apps", "batch"] {
            for (resource, subresource) in [("pods", ""), ("pods", "log"), ("deployments", "scale"), ("pods", "exec")] {
                for (namespace, name) in [("", ""), ("ns", ""), ("ns", "a"), ("other", "a"), ("ns", "b")] {
                    requests.push(Attributes::Resource(ResourceAttributes {
                        verb: verb.into(),
                        group: group.into(),
                        version: "v1".into(),
                        resource: resource.into(),
                        subresource: subresource.into(),
                        namespace: namespace.into(),
                        name: name.into(),
                        ..ResourceAttributes::default()
                    }));
                }
            }
        }
        for path in ["/metrics", "/metrics/x", "/logs/x", "/"] {
            requests.push(Attributes::Path { verb: verb.into(), path: path.into() });
        }
    }
    requests
}

/// The documentation of RBAC, sentence by sentence.
fn reference_grants(rule: &Value, request: &Attributes) -> bool {
    let has = |field: &str, requested: &str| texts(&rule[field]).iter().any(|it| *it == "*" || *it == requested);
    match request {
        Attributes::Path { verb, path } => {
            let urls = texts(&rule["nonResourceURLs"]);
            has("verbs", verb)
                && urls.iter().any(|url| url == path || url.strip_suffix('*').is_some_and(|it| path.starts_with(it)))
        }
        Attributes::Resource(requested) => {
            let whole = if requested.subresource.is_empty() {
                requested.resource.clone()
            } else {
                format!("{}/{}", requested.resource, requested.subresource)
            };
            let any = format!("*/{}", requested.subresource);
            let resources = texts(&rule["resources"]);
            let is_meant = resources
                .iter()
                .any(|it| *it == "*" || *it == whole || (!requested.subresource.is_empty() && *it == any));
            let names = texts(&rule["resourceNames"]);
            has("verbs", &requested.verb)
                && has("apiGroups", &requested.group)
                && is_meant
                && (names.is_empty() || names.contains(&requested.name.as_str()))
        }
    }
}

fn is_named(subject: &Value, user: &Identity) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("User") => user.user == name,
        Some("Group") => user.groups.iter().any(|group| group == name),
        _ => user.user == format!("system:serviceaccount:{}:{name}", subject["namespace"].as_str().unwrap_or_default()),
    }
}

#[test]
fn decisions_match_the_reference() {
    let users = [
        Identity { user: "ann".into(), groups: vec!["devs".into()], ..Identity::default() },
        Identity { user: "system:serviceaccount:ns:robot".into(), ..Identity::default() },
        Identity { user: "eve".into(), groups: vec!["Devs".into(), "system:masters2".into()], ..Identity::default() },
    ];
    let subjects = [
        json!({"kind": "User", "name": "*"}),
        json!({"kind": "User", "name": "ann"}),
        json!({"kind": "Group", "name": "devs"}),
        json!({"kind": "ServiceAccount", "name": "robot", "namespace": "ns"}),
    ];
    let (mut granted, mut refused) = (0, 0);
    for (at, rule) in rules().into_iter().enumerate() {
        let subject = &subjects[at % subjects.len()];
        // By turns for the whole cluster, a ClusterRole in a namespace, a Role, and a role that does not exist.
        let (role, binding, namespace) = match at % 4 {
            0 => ("ClusterRole", "ClusterRoleBinding", ""),
            1 => ("ClusterRole", "RoleBinding", "ns"),
            2 => ("Role", "RoleBinding", "ns"),
            _ => ("Role", "RoleBinding", "other"),
        };
        let metadata = |namespace: &str| match namespace {
            "" => json!({"name": "x"}),
            namespace => json!({"name": "x", "namespace": namespace}),
        };
        let of_role = if role == "Role" { "ns" } else { "" };
        let rbac = Rbac::default();
        rbac.update(|table| {
            let put = |table: &mut apiserver::auth::authz::Table, value: Value| {
                table.put(&Object::from_value(&value).expect("an object"));
            };
            put(table, json!({"kind": role, "metadata": metadata(of_role), "rules": [rule]}));
            put(
                table,
                json!({"kind": binding, "metadata": metadata(namespace), "subjects": [subject],
                              "roleRef": {"kind": role, "name": "x"}}),
            );
        });
        let role_exists = role == "ClusterRole" || namespace == "ns";
        for user in &users {
            for request in requests() {
                let in_scope = match &request {
                    _ if namespace.is_empty() => true,
                    Attributes::Resource(requested) => requested.namespace == namespace,
                    Attributes::Path { .. } => false,
                };
                let expected = role_exists && in_scope && is_named(subject, user) && reference_grants(&rule, &request);
                let found = rbac.authorize(user, &request).is_allowed();
                assert_eq!(found, expected, "{role} {binding} {rule} {subject} {} {request:?}", user.user);
                if found { granted += 1 } else { refused += 1 }
            }
        }
    }
    assert!(granted > 300 && refused > 10_000, "{granted} {refused}");
}
