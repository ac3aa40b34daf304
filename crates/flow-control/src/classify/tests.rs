use serde_json::{Value, from_value, json};

use super::*;

fn classifier(schemas: &[(&str, i32, Value)]) -> Classifier {
    let of = |(name, precedence, rules): &(&str, i32, Value)| {
        let spec =
            json!({"matchingPrecedence": precedence, "rules": rules, "priorityLevelConfiguration": {"name": "l"}});
        ((*name).to_owned(), from_value(spec).expect("a schema"))
    };
    Classifier::new(schemas.iter().map(of))
}

/// `VERB GROUP/RESOURCE[/SUBRESOURCE] [NAMESPACE]` or `VERB /PATH`.
fn matched(classifier: &Classifier, user: &str, groups: &[&str], request: &str) -> String {
    let words: Vec<&str> = request.split(' ').collect();
    let target = if words[1].starts_with('/') && words.len() == 2 {
        Target::Path(words[1])
    } else {
        let mut parts = words[1].split('/');
        Target::Resource {
            group: parts.next().expect("a group"),
            resource: parts.next().expect("a resource"),
            subresource: parts.next().unwrap_or_default(),
            namespace: words.get(2).copied().unwrap_or_default().trim_matches('.'),
        }
    };
    let candidates = classifier.candidates(user, groups);
    let found = classifier.classify(&candidates, &Request { verb: words[0], target });
    found.and_then(|at| classifier.schemas().nth(at)).map_or("-", |(name, _)| name).to_owned()
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "user": {"name": name}})
}

fn all_resources() -> Value {
    json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}])
}

#[test]
fn subjects() {
    let account = |namespace: &str, name: &str| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}});
    let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
    for (subject, user_name, groups, matches) in [
        (user("a"), "a", &["g"][..], true),
        (user("a"), "ab", &["g"], false),
        (user("*"), "anybody", &[], true),
        (group("g"), "a", &["f", "g"], true),
        (group("g"), "g", &["f"], false),
        (group("*"), "a", &[], true),
        (account("n", "s"), "system:serviceaccount:n:s", &[], true),
        (account("n", "s"), "system:serviceaccount:n:t", &[], false),
        (account("n", "*"), "system:serviceaccount:n:t", &[], true),
        (account("n", "*"), "system:serviceaccount:nn:t", &[], false),
        (account("n", "*"), "n:t", &[], false),
    ] {
        let rules = json!([{"subjects": [subject], "resourceRules": all_resources()}]);
        let found = matched(&classifier(&[("x", 5, rules)]), user_name, groups, "get core/pods .");
        assert_eq!(found == "x", matches, "{subject} {user_name} {groups:?}");
    }
}

#[test]
fn resources_and_paths() {
    let resources = |verbs: &[&str], groups: &[&str], names: &[&str], scope: bool, namespaces: &[&str]| {
        json!([{"subjects": [user("*")], "resourceRules": [{"verbs": verbs, "apiGroups": groups, "resources": names,
            "clusterScope": scope, "namespaces": namespaces}]}])
    };
    let paths = |verbs: &[&str], urls: &[&str]| json!([{"subjects": [user("*")], "nonResourceRules": [{"verbs": verbs, "nonResourceURLs": urls}]}]);
    for (rules, request, matches) in [
        (resources(&["get"], &["apps"], &["deployments"], false, &["*"]), "get apps/deployments n", true),
        (resources(&["get"], &["apps"], &["deployments"], false, &["*"]), "list apps/deployments n", false),
        (resources(&["get"], &["apps"], &["deployments"], false, &["*"]), "get extensions/deployments n", false),
        (resources(&["get"], &["apps"], &["deployments"], false, &["*"]), "get apps/deployments/scale n", false),
        (resources(&["get"], &["apps"], &["deployments/scale"], false, &["*"]), "get apps/deployments/scale n", true),
        (resources(&["get"], &["apps"], &["deployments/scale"], false, &["*"]), "get apps/deployments n", false),
        (resources(&["*"], &["*"], &["*"], false, &["*"]), "patch apps/deployments/scale n", true),
        (resources(&["*"], &["*"], &["*"], false, &["*"]), "list apps/deployments .", false),
        (resources(&["*"], &["*"], &["*"], true, &[]), "list apps/deployments .", true),
        (resources(&["*"], &["*"], &["*"], true, &[]), "list apps/deployments n", false),
        (resources(&["*"], &["*"], &["*"], true, &["m", "n"]), "list apps/deployments n", true),
        (resources(&["*"], &["*"], &["*"], true, &["m"]), "list apps/deployments n", false),
        (resources(&["*"], &["*"], &["*"], true, &["*"]), "get /healthz", false),
        (paths(&["get"], &["/healthz"]), "get /healthz", true),
        (paths(&["get"], &["/healthz"]), "get /healthz/etcd", false),
        (paths(&["get"], &["/healthz/*"]), "get /healthz/etcd", true),
        (paths(&["get"], &["/healthz/*"]), "get /healthz", false),
        (paths(&["*"], &["*"]), "post /anything", true),
        (paths(&["get"], &["*"]), "post /anything", false),
    ] {
        let found = matched(&classifier(&[("x", 5, rules.clone())]), "u", &[], request);
        assert_eq!(found == "x", matches, "{request}: {rules}");
    }
}

#[test]
fn the_first_by_precedence_and_name() {
    let anything = json!([{"subjects": [user("*")], "resourceRules": all_resources()}]);
    let own_rules = json!([{"subjects": [user("a")], "resourceRules": all_resources()}]);
    let classifier = classifier(&[
        ("z", 100, anything.clone()),
        ("c", 900, anything.clone()),
        ("b", 100, anything),
        ("d", 7, own_rules),
    ]);
    assert_eq!(matched(&classifier, "a", &[], "get core/pods n"), "d");
    assert_eq!(matched(&classifier, "b", &[], "get core/pods n"), "b");
    assert_eq!(matched(&classifier, "b", &[], "get /x"), "-");
    let order: Vec<&str> = classifier.schemas().map(|(name, _)| name).collect();
    assert_eq!(order, ["d", "b", "z", "c"]);
}

#[test]
fn flows() {
    let schema = |method: Value| {
        let spec = json!({"distinguisherMethod": method, "rules": []});
        Classifier::new([("x".to_owned(), from_value(spec).expect("a schema"))])
    };
    let pods = Target::Resource { group: "", resource: "pods", subresource: "", namespace: "n" };
    for (method, target, expected) in [
        (json!(null), pods, ""),
        (json!({"type": "ByUser"}), pods, "u"),
        (json!({"type": "ByNamespace"}), pods, "n"),
        (json!({"type": "ByNamespace"}), Target::Path("/x"), ""),
    ] {
        assert_eq!(schema(method.clone()).distinguisher(0, "u", &target), expected, "{method}");
    }
    assert_eq!(flow_hash(1, "a", "b"), flow_hash(1, "a", "b"));
    assert_ne!(flow_hash(1, "a", "b"), flow_hash(2, "a", "b"));
    assert_ne!(flow_hash(1, "a", "b"), flow_hash(1, "ab", ""));
}
