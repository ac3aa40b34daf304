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
        fields_that_a_write_resets_have_no_owner,
        owners_in_both_versions_of_an_autoscaler,
        owners_in_a_version_that_is_no_longer_served,
    ],
}

/// PKCS#10, for `CN=x`.
const CERTIFICATE_REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISE1HNENBUUF3RERFS01BZ0dBMVVFQXd3QmVEQlpNQk1HQnlxR1NNNDlBZ0\
    VHQ0NxR1NNNDlBd0VIQTBJQQpCRFJxVWF4d3d2TDhVR0RWbkVOQzE5NEY3S2ExVkpqbmFVcE9aaENML1FFWlJId3BQTlVzS2xpTzJoYTBqTHR1\
    CmxBMG14SmRzbDZocXdpcVJUeFVMMFE2Z0FEQUtCZ2dxaGtqT1BRUURBZ05KQURCR0FpRUE0eWZHZXpiOVIvSTUKWnl1TW52QzJJMWVJREwrOH\
    VodDI4WVdaZzFxRU1oc0NJUUNvQTc4YkxyVHc2UDladkpHbWxJVmh3TVRFaGxwOQpiT3oxaFpuQnhFdWdnUT09Ci0tLS0tRU5EIENFUlRJRklD\
    QVRFIFJFUVVFU1QtLS0tLQo=";
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

/// `TestApplyResetFields`: what a write of the status does not change, it does not own.
async fn fields_that_a_write_resets_have_no_owner() {
    let (server, _client) = crate::crds::server(vec![crate::crds::widget_definition()]).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let workload = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let replicas = json!({"replicas": 1});
    let attachment = json!({"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}});
    let policy = json!({"failurePolicy": "Fail", "validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [
        {"apiGroups": ["x"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["y"]}]}});
    let all = "annotations finalizers labels ownerReferences";
    let rows = [
        (
            "apis/apps/v1/namespaces/default/deployments",
            "Deployment",
            &workload,
            &replicas,
            "annotations finalizers ownerReferences",
        ),
        ("apis/apps/v1/namespaces/default/replicasets", "ReplicaSet", &workload, &replicas, all),
        (
            "api/v1/namespaces/default/pods",
            "Pod",
            &template["spec"],
            &json!({"message": "m"}),
            "annotations finalizers labels",
        ),
        ("apis/g.example/v1/namespaces/default/widgets", "Widget", &json!({"replicas": 2}), &replicas, ""),
        ("apis/storage.k8s.io/v1/volumeattachments", "VolumeAttachment", &attachment, &json!({"attached": true}), ""),
        (
            "apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            &policy,
            &json!({"observedGeneration": 1}),
            "",
        ),
    ];
    for (path, kind, spec, status, expected) in rows {
        let api_version = path.trim_start_matches("apis/").trim_start_matches("api/");
        let api_version: Vec<&str> =
            api_version.split('/').take(if path.starts_with("apis") { 2 } else { 1 }).collect();
        let mut object =
            json!({"apiVersion": api_version.join("/"), "kind": kind, "metadata": {"name": "o"}, "spec": spec});
        let created = call(&server, "POST", &format!("/{path}"), &object).await;
        assert_eq!(created.code, 201, "{}", created.shown());
        object["metadata"] = json!({"name": "o", "labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a/b"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]});
        object["status"] = status.clone();
        let applied =
            patch(&server, &format!("/{path}/o/status?fieldManager=s&force=true"), APPLY, &object.to_string()).await;
        assert_eq!(applied.code, 200, "{}", applied.shown());
        let owners = applied.json()["metadata"]["managedFields"].clone();
        let of_status = owners.as_array().into_iter().flatten().find(|owner| owner["manager"] == "s").cloned();
        let owned = of_status.unwrap_or_default()["fieldsV1"].clone();
        let fields = owned["f:metadata"].as_object().cloned().unwrap_or_default();
        let names: Vec<&str> = fields.keys().map(|name| name.trim_start_matches("f:")).collect();
        assert_eq!((names.join(" ").as_str(), owned["f:spec"].is_null()), (expected, true), "{kind}");
        assert!(owned["f:status"].is_object(), "{kind}");
    }
}

/// The requester of a certificate owns no field, and its approver the decision.
#[tokio::test]
async fn certificate_requests_have_no_owner() {
    let (server, _client) = crate::objects::server().await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let spec =
        json!({"request": CERTIFICATE_REQUEST, "signerName": "example.com/signer", "usages": ["digital signature"]});
    let created =
        call(&server, "POST", path, &json!({"metadata": {"name": "c", "labels": {"a": "b"}}, "spec": spec})).await;
    let owned = created.json()["metadata"]["managedFields"][0]["fieldsV1"].clone();
    assert_eq!(owned, json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}), "{}", created.shown());
    let approved = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "c"},
        "spec": spec, "status": {"certificate": "eA==", "conditions": [{"type": "Approved", "status": "True"}]}});
    let path = format!("{path}/c/approval?fieldManager=approver");
    let approved = patch(&server, &path, APPLY, &approved.to_string()).await.json();
    let owned = approved["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|owner| owner["manager"] == "approver");
    let owned = owned.expect("the approver owns the decision")["fieldsV1"].clone();
    assert!(owned["f:spec"].is_null() && owned["f:status"]["f:conditions"].is_object(), "{owned}");
    assert!(owned["f:status"]["f:certificate"].is_null(), "{owned}");
}

/// The fields that a manager owns.
fn owned(object: &serde_json::Value, manager: &str) -> serde_json::Value {
    let entries = object["metadata"]["managedFields"].as_array();
    let own = entries.into_iter().flatten().find(|entry| entry["manager"] == manager);
    own.map(|entry| entry["fieldsV1"].clone()).unwrap_or_default()
}

/// The target is granular in `v2` and atomic in `v1`.
async fn owners_in_both_versions_of_an_autoscaler() {
    let (server, _client) = crate::objects::server().await;
    let path = |version: &str, manager: &str| {
        format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/h?fieldManager={manager}")
    };
    let object = |version: &str, spec: serde_json::Value| {
        json!({"apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h"}, "spec": spec})
        .to_string()
    };
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let spec = json!({"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3});
    let created = patch(&server, &path("v2", "a"), APPLY, &object("v2", spec.clone())).await;
    assert_eq!(created.code, 201, "{}", created.shown());
    let parts = json!({"f:apiVersion": {}, "f:kind": {}, "f:name": {}});
    let of_spec = json!({"f:maxReplicas": {}, "f:minReplicas": {}, "f:scaleTargetRef": parts});
    assert_eq!(owned(&created.json(), "a"), json!({"f:spec": of_spec}));

    let shared = patch(&server, &path("v1", "b"), APPLY, &object("v1", spec.clone())).await;
    assert_eq!(shared.code, 200, "{}", shared.shown());
    assert_eq!(owned(&shared.json(), "a"), json!({"f:spec": of_spec}), "compared in its own version");
    let whole = json!({"f:maxReplicas": {}, "f:minReplicas": {}, "f:scaleTargetRef": {}});
    assert_eq!(owned(&shared.json(), "b"), json!({"f:spec": whole}));

    let mut other = spec.clone();
    other["scaleTargetRef"]["name"] = json!("e");
    let conflict = patch(&server, &path("v1", "c"), APPLY, &object("v1", other.clone())).await;
    let causes = conflict.json()["details"]["causes"].clone();
    let fields: Vec<_> = causes.as_array().into_iter().flatten().map(|cause| cause["field"].clone()).collect();
    assert_eq!(fields, [".spec.scaleTargetRef.name", ".spec.scaleTargetRef"], "{}", conflict.shown());
    let forced = patch(&server, &format!("{}&force=true", path("v1", "c")), APPLY, &object("v1", other)).await;
    let parts = json!({"f:apiVersion": {}, "f:kind": {}});
    let left = json!({"f:maxReplicas": {}, "f:minReplicas": {}, "f:scaleTargetRef": parts});
    assert_eq!(owned(&forced.json(), "a"), json!({"f:spec": left}), "{}", forced.shown());

    // What its manager applied in one version, it gives up in the other.
    let less = object("v1", json!({"maxReplicas": 3}));
    let given_up = patch(&server, &path("v1", "a"), APPLY, &less).await;
    assert_eq!(given_up.code, 200, "{}", given_up.shown());
    assert_eq!(owned(&given_up.json(), "a"), json!({"f:spec": {"f:maxReplicas": {}}}));
    assert_eq!(given_up.json()["spec"]["minReplicas"], 1, "another manager applied it");
}

/// As an etcd has them that served `policy/v1beta1`.
async fn owners_in_a_version_that_is_no_longer_served() {
    let (server, _client) = crate::objects::server().await;
    let path =
        |manager: &str| format!("/apis/policy/v1/namespaces/default/poddisruptionbudgets/b?fieldManager={manager}");
    let entry = |manager: &str, version: &str| {
        json!({"manager": manager, "operation": "Apply", "apiVersion": version, "time": "2020-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:minAvailable": {}, "f:selector": {}}}})
    };
    let budget = |metadata: serde_json::Value, spec: serde_json::Value| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec})
            .to_string()
    };
    let owners = json!([entry("a", "policy/v1beta1"), entry("b", "policy/v0")]);
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}});
    let created = patch(&server, &path("c"), APPLY, &budget(json!({"name": "b"}), spec)).await;
    assert_eq!(created.code, 201, "{}", created.shown());
    let owned_by_others = json!({"metadata": {"managedFields": owners}}).to_string();
    let edited = patch(&server, &path("c"), "application/merge-patch+json", &owned_by_others).await;
    assert_eq!(edited.code, 200, "{}", edited.shown());

    let less = budget(json!({"name": "b"}), json!({"selector": {"matchLabels": {"a": "b"}}}));
    let applied = patch(&server, &path("a"), APPLY, &less).await.json();
    assert_eq!(
        applied["spec"],
        json!({"selector": {"matchLabels": {"a": "b"}}}),
        "it is known what was applied before"
    );
    assert_eq!(owned(&applied, "a"), json!({"f:spec": {"f:selector": {}}}));
    assert!(owned(&applied, "b").is_null(), "a version that never was: {applied}");
}
