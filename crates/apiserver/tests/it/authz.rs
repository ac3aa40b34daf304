//! RBAC decisions, one row per case.

use apimachinery::Object;
use apiserver::auth::authz::{Attributes, Authorizer, PolicyRule, Rbac, ResourceAttributes, check, rbac};
use serde_json::{Value, json};
use transport::Identity;

fn user(name: &str, groups: &[&str]) -> Identity {
    Identity {
        user: name.into(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..Identity::default()
    }
}

/// `verb resource[.group][/sub] [name] [-n ns]` or `verb /path`.
fn attributes_of(text: &str) -> Attributes {
    let words: Vec<&str> = text.split(' ').collect();
    if words[1].starts_with('/') {
        return Attributes::Path { verb: words[0].into(), path: words[1].into() };
    }
    let (resource, subresource) = words[1].split_once('/').unwrap_or((words[1], ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let namespace = words.iter().position(|word| *word == "-n").map_or("", |at| words[at + 1]);
    let name = words.get(2).filter(|word| **word != "-n").copied().unwrap_or_default();
    Attributes::Resource(ResourceAttributes {
        verb: words[0].into(),
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        name: name.into(),
        ..ResourceAttributes::default()
    })
}

fn object(kind: &str, namespace: &str, name: &str, rest: Value) -> Object {
    let mut value = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    if !namespace.is_empty() {
        value["metadata"]["namespace"] = namespace.into();
    }
    for (key, part) in rest.as_object().expect("an object") {
        value[key] = part.clone();
    }
    Object::from_value(&value).expect("an object")
}

fn table() -> Rbac {
    let rbac = Rbac::default();
    let binding = |kind: &str, role: &str, subjects: Value| json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}, "subjects": subjects});
    rbac.update(|table| {
        table.put(&object(
            "ClusterRole",
            "",
            "reader",
            json!({"rules": [
                {"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods", "pods/log", "deployments"]},
                {"verbs": ["update"], "apiGroups": ["*"], "resources": ["*/scale"]},
                {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/logs/*"]}
            ]}),
        ));
        table.put(&object(
            "Role",
            "a",
            "one",
            json!({"rules": [
                {"verbs": ["*"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s1"]}
            ]}),
        ));
        table.put(&object(
            "ClusterRoleBinding",
            "",
            "devs",
            binding("ClusterRole", "reader", json!([{"kind": "Group", "name": "devs"}])),
        ));
        table.put(&object(
            "RoleBinding",
            "a",
            "robot",
            binding("Role", "one", json!([{"kind": "ServiceAccount", "name": "robot"}])),
        ));
        table.put(&object(
            "RoleBinding",
            "b",
            "local",
            binding("ClusterRole", "reader", json!([{"kind": "User", "name": "ann"}])),
        ));
    });
    rbac
}

#[test]
fn rules_grant_their_permissions_and_no_others() {
    let rbac = table();
    let bob = user("bob", &["devs"]);
    let robot = user("system:serviceaccount:a:robot", &[]);
    let other_robot = user("system:serviceaccount:b:robot", &[]);
    let ann = user("ann", &[]);
    let root = user("root", &["system:masters"]);
    let cases = [
        (&bob, "get pods x -n a", true),
        (&bob, "list pods", true),
        (&bob, "get pods/log x -n a", true),
        (&bob, "get pods/exec x -n a", false),
        (&bob, "get deployments.apps x -n a", true),
        (&bob, "get deployments.batch x -n a", false),
        (&bob, "delete pods x -n a", false),
        (&bob, "update deployments.apps/scale x -n a", true),
        (&bob, "update deployments.apps x -n a", false),
        (&bob, "get /metrics", true),
        (&bob, "get /metrics/more", false),
        (&bob, "get /logs/a/b", true),
        (&bob, "post /metrics", false),
        (&robot, "delete secrets s1 -n a", true),
        (&robot, "delete secrets s2 -n a", false),
        (&robot, "list secrets -n a", false),
        (&robot, "get secrets s1 -n b", false),
        (&other_robot, "get secrets s1 -n a", false),
        (&ann, "get pods x -n b", true),
        (&ann, "get pods x -n a", false),
        (&ann, "list pods", false),
        (&ann, "get /metrics", false),
        (&root, "get /metrics/more", true),
        (&root, "anything things.example.org x", true),
    ];
    for (who, request, allowed) in cases {
        assert_eq!(rbac.authorize(who, &attributes_of(request)).is_allowed(), allowed, "{}: {request}", who.user);
    }
}

#[tokio::test]
async fn refusals_and_reasons_read_as_kube_apiservers() {
    let rbac = table();
    let bob = user("bob", &["devs"]);
    for (request, text) in [
        (
            "get secrets x -n ns",
            r#"secrets "x" is forbidden: User "bob" cannot get resource "secrets" in API group "" in the namespace "ns""#,
        ),
        (
            "list nodes",
            r#"nodes is forbidden: User "bob" cannot list resource "nodes" in API group "" at the cluster scope"#,
        ),
        (
            "get deployments.apps/scale x -n ns",
            r#"deployments.apps "x" is forbidden: User "bob" cannot get resource "deployments/scale" in API group "apps" in the namespace "ns""#,
        ),
        ("get /debug", r#"forbidden: User "bob" cannot get path "/debug""#),
    ] {
        let status = check(&rbac, &bob, &attributes_of(request)).await.expect_err("forbidden");
        assert_eq!((status.code, status.message.as_str()), (403, text));
    }
    assert_eq!(
        rbac.authorize(&bob, &attributes_of("get pods x -n a")).reason(),
        r#"RBAC: allowed by ClusterRoleBinding "devs" of ClusterRole "reader" to Group "devs""#
    );
    assert_eq!(
        rbac.authorize(&user("ann", &[]), &attributes_of("get pods x -n b")).reason(),
        r#"RBAC: allowed by RoleBinding "local/b" of ClusterRole "reader" to User "ann""#
    );
}

#[test]
fn removal_takes_effect_at_once() {
    let rbac = table();
    let bob = user("bob", &["devs"]);
    rbac.update(|table| table.remove("ClusterRoleBinding", &apimachinery::ObjectKey::cluster("devs")));
    assert!(!rbac.authorize(&bob, &attributes_of("list pods")).is_allowed());
}

#[test]
fn users_cannot_grant_permissions_they_lack() {
    let granted = [
        PolicyRule::new(&["get", "list"], &["", "apps"], &["pods", "deployments"]),
        PolicyRule::new(&["update"], &["*"], &["*/scale"]),
        PolicyRule::new(&["get"], &[""], &["secrets"]).named(&["s1"]),
        PolicyRule::paths(&["get"], &["/logs/*"]),
    ];
    let cases: [(PolicyRule, &[&str]); 9] = [
        (PolicyRule::new(&["get"], &["apps"], &["pods"]), &[]),
        (
            PolicyRule::new(&["get", "delete"], &[""], &["pods"]),
            &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#],
        ),
        (PolicyRule::new(&["*"], &[""], &["pods"]), &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#]),
        (PolicyRule::new(&["update"], &["apps"], &["deployments/scale"]), &[]),
        (
            PolicyRule::new(&["update"], &["apps"], &["deployments/status"]),
            &[r#"{APIGroups:["apps"], Resources:["deployments/status"], Verbs:["update"]}"#],
        ),
        (PolicyRule::new(&["get"], &[""], &["secrets"]).named(&["s1"]), &[]),
        (
            PolicyRule::new(&["get"], &[""], &["secrets"]),
            &[r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#],
        ),
        (PolicyRule::paths(&["get"], &["/logs/x", "/logs/*"]), &[]),
        (PolicyRule::paths(&["get"], &["*"]), &[r#"{NonResourceURLs:["*"], Verbs:["get"]}"#]),
    ];
    for (requested, expected) in cases {
        let missing: Vec<String> = rbac::missing(&granted, [&requested]).iter().map(rbac::describe).collect();
        assert_eq!(missing, expected, "{requested:?}");
    }
}
