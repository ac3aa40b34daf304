//! Names that have to be escaped in paths. Those of roles may contain any character except `/` and `%`.

use apimachinery::{ApiResource, ObjectKey};
use serde_json::json;

use crate::fleet::Fleet;

#[tokio::test]
async fn commands_reach_the_named_object_and_no_other() {
    let fleet = Fleet::start(&["m1"]).await;
    fleet.reachable("m1").await;
    let roles = ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
    let names = ["my role", "a?dryRun=All", "a#b", "r\u{f4}le", "a&b=c+d"];
    let client = fleet.plane.client();
    for name in names.into_iter().chain(["a"]) {
        client.create(&roles, &json!({"metadata": {"name": name}, "rules": []})).await.expect("created");
    }
    let exists = async |name: &str| client.get_opt(&roles, &ObjectKey::cluster(name)).await.expect("read").is_some();
    for name in names {
        let resource = format!("clusterrole.rbac.authorization.k8s.io/{name}");
        let got = fleet.karmadactl(&["get", "clusterrole", name, "-o", "name"]).await.ok();
        assert_eq!(got, format!("{resource}\n"));
        // As for kubectl, a word with `=` is a change.
        if !name.contains('=') {
            let annotated = fleet.karmadactl(&["annotate", "clusterrole", name, "x=y"]).await.ok();
            assert_eq!(annotated, format!("{resource} annotated\n"));
        }
        let patched = fleet.karmadactl(&["patch", "clusterrole", name, "-p", r#"{"rules": null}"#]).await;
        assert_eq!(patched.code, Some(0), "{}", patched.err);
        let described = fleet.karmadactl(&["describe", "clusterrole", name]).await.ok();
        assert!(described.contains(&format!("Name:         {name}\n")), "{described}");
        let deleted = fleet.karmadactl(&["delete", "clusterrole", name]).await.ok();
        assert_eq!(deleted, format!("clusterrole.rbac.authorization.k8s.io \"{name}\" deleted\n"));
        assert!(!exists(name).await && exists("a").await, "{name}");
    }
    let outside = fleet.karmadactl(&["get", "configmaps", "-n", "default/secrets?x="]).await;
    assert_eq!(outside.err, "No resources found in default/secrets?x= namespace.\n");
    let member = fleet.karmadactl(&["get", "clusterrole", "no such?x=y", "-s", "members"]).await;
    let expected = "error: cluster(m1): clusterroles.rbac.authorization.k8s.io \"no such?x=y\" not found\n";
    assert_eq!((member.code, member.err.as_str()), (Some(1), expected));
}

#[tokio::test]
async fn a_missing_namespace_is_reported_before_its_objects() {
    let fleet = Fleet::start(&["m1"]).await;
    for line in [
        "get cm c -o name",
        "describe cm c",
        "describe cm/c",
        "label cm c a=b",
        "annotate cm c a=b",
        "patch cm c -p {}",
        "edit cm c",
        "rollout status deploy/c",
        "rollout restart deploy/c",
        "attach c",
        "wait cm/c --for=condition=Ready",
    ] {
        let words: Vec<&str> = line.split(' ').chain(["-n", "nosuch"]).collect();
        let ran = fleet.karmadactl(&words).await;
        assert!(ran.err.ends_with("namespaces \"nosuch\" not found\n"), "{line}: {}", ran.err);
    }
    // An object of a namespace that does not exist is deleted.
    let waited = fleet.karmadactl(&["wait", "cm/c", "--for=delete", "-n", "nosuch"]).await;
    assert_eq!(waited.ok(), "");
}
