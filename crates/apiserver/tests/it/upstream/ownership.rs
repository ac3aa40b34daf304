//! `test/integration/apiserver/apply`.

use serde_json::json;

use super::{APPLY, call, patch, soon};
use crate::engine::on_every_engine;
use crate::parity::send;

on_every_engine! {
    alone: [
        creating_by_apply_or_put_needs_the_create_verb,
        owners_are_removed_on_request,
        the_count_of_templates_is_owned,
        items_without_their_key,
    ],
}

const CM: &str = "/api/v1/namespaces/default/configmaps";

/// `TestCreateOnApplyFailsWithForbidden`, and the same for a PUT that creates.
async fn creating_by_apply_or_put_needs_the_create_verb() {
    let (server, _client) = crate::objects::server().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let as_panda = |media_type: &'static str| [("content-type", media_type), ("impersonate-user", "panda")];
    let pod =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"},"spec":{}}"#;
    let pod_path = "/api/v1/namespaces/default/pods/p?fieldManager=m";
    let lease_path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    for (verbs, expected) in [(&["patch", "update", "get"][..], 403), (&["create", "delete"][..], 201)] {
        let name = expected.to_string();
        let rules =
            json!([{"verbs": verbs, "apiGroups": ["", "coordination.k8s.io"], "resources": ["pods", "leases"]}]);
        assert_eq!(call(&server, "POST", roles, &json!({"metadata": {"name": name}, "rules": rules})).await.code, 201);
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let panda = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "panda"}]);
        let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": panda});
        assert_eq!(call(&server, "POST", bindings, &binding).await.code, 201);
        let probe = verbs[verbs.len() - 1].to_uppercase();
        soon(async || {
            let absent = "/api/v1/namespaces/default/pods/absent";
            send(&server, &probe, absent, &as_panda("application/json"), "").await.code == 404
        })
        .await;
        let applied = send(&server, "PATCH", pod_path, &as_panda(APPLY), pod).await;
        let put = send(&server, "PUT", lease_path, &as_panda("application/json"), lease).await;
        assert_eq!((applied.code, put.code), (expected, expected), "{} {}", applied.shown(), put.shown());
        if expected == 403 {
            let why = "403 Forbidden pods \"p\" is forbidden: User \"panda\" cannot create resource \"pods\" in API group \"\" \
                       in the namespace \"default\"";
            assert_eq!(applied.shown(), why);
            assert_eq!(applied.json()["details"], json!({"name": "p", "kind": "pods"}));
        }
    }
}

/// `TestClearManagedFieldsWithUpdate` and `...EmptyList`: removed until the next apply.
async fn owners_are_removed_on_request() {
    let (server, _client) = crate::objects::server().await;
    let path = format!("{CM}/a");
    let applied = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"l":"x"}},"data":{"k":"v"}}"#;
    for reset in [json!([{}]), json!([])] {
        let created = patch(&server, &format!("{path}?fieldManager=m"), APPLY, applied).await;
        assert!(created.json()["metadata"]["managedFields"].is_array());
        let body = json!({"metadata": {"name": "a", "labels": {"l": "x"}, "managedFields": reset}, "data": {"k": "v"}});
        let put = call(&server, "PUT", &path, &body).await;
        assert_eq!((put.code, put.json()["metadata"].get("managedFields")), (200, None), "{reset}");
        let patched = patch(&server, &path, super::MERGE, r#"{"metadata":{"labels":{"l":"y"}}}"#).await.json();
        assert_eq!(patched["metadata"].get("managedFields"), None, "{reset}");
        assert_eq!(patched["metadata"]["labels"], json!({"l": "y"}));
        assert_eq!(send(&server, "DELETE", &path, &[], "").await.code, 200);
    }
}

/// `TestDuplicatesInAssociativeLists`: a client that replaces a daemon set owns the annotation that counts its
/// templates.
async fn the_count_of_templates_is_owned() {
    let (server, _client) = crate::objects::server().await;
    let path = "/apis/apps/v1/namespaces/default/daemonsets";
    let set = |image: &str| {
        json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
    };
    let owned = |object: &serde_json::Value, manager: &str| {
        let entries = object["metadata"]["managedFields"].as_array().expect("owners");
        let entry = entries.iter().find(|entry| entry["manager"] == manager).expect("an entry");
        entry["fieldsV1"]["f:metadata"].clone()
    };
    let annotation = json!({"f:deprecated.daemonset.template.generation": {}});
    let created = call(&server, "POST", &format!("{path}?fieldManager=create"), &set("one")).await.json();
    assert_eq!(created["metadata"]["annotations"], json!({"deprecated.daemonset.template.generation": "1"}));
    let mut whole = annotation.clone();
    whole["."] = json!({});
    assert_eq!(owned(&created, "create"), json!({"f:annotations": whole}));
    let updated = call(&server, "PUT", &format!("{path}/d?fieldManager=update"), &set("two")).await.json();
    assert_eq!(updated["metadata"]["annotations"], json!({"deprecated.daemonset.template.generation": "2"}));
    assert_eq!(owned(&updated, "update"), json!({"f:annotations": annotation}));
    assert_eq!(owned(&updated, "create"), json!({"f:annotations": {}}));
}

/// The key of an item may be omitted if Go always prints it; validation reports the invalid result.
async fn items_without_their_key() {
    let (server, _client) = crate::objects::server().await;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}});
    assert_eq!(call(&server, "POST", path, &json!({"metadata": {"name": "d"}, "spec": spec})).await.code, 201);
    let apply = async |pod: serde_json::Value| {
        let document = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": pod}}});
        patch(&server, &format!("{path}/d?fieldManager=m&dryRun=All"), APPLY, &document.to_string()).await.shown()
    };
    for (container, missing) in [
        (json!({"image": "q"}), "containers[1].name"),
        (json!({"name": "c", "ports": [{"hostPort": 80}]}), "containers[0].ports[0].containerPort"),
        (json!({"name": "c", "volumeMounts": [{"name": "v"}]}), "containers[0].volumeMounts[0].mountPath"),
    ] {
        let found = apply(json!({"containers": [container]})).await;
        let expected = format!("spec.template.spec.{missing}: Required value");
        assert!(
            found.starts_with("422 Invalid Deployment.apps \"d\" is invalid: ") && found.contains(&expected),
            "{found}"
        );
    }
    let found = apply(json!({"imagePullSecrets": [{}]})).await;
    assert!(found.starts_with("200"), "{found}");
    // An object reference need not print its name.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "secrets": [{"kind": "Secret"}]}).to_string();
    let accounts = "/api/v1/namespaces/default/serviceaccounts/a?fieldManager=m";
    let found = patch(&server, accounts, APPLY, &account).await.shown();
    assert!(found.contains(".secrets: element 0: associative list with keys has an element that omits all"), "{found}");
}
