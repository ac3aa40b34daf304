//! The objects that webhooks receive, the effects of their patches, and the writes that reach them.

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, Patch, PatchOptions};
use http::Method;
use serde_json::{Value, json};
use transport::Identity;

use crate::harness::{CONFIG_MAPS, Hooks, Plane, config_map};

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn deployment() -> Value {
    let labels = json!({"app": "web"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
           "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

fn rules(group: &str, resource: &str) -> Value {
    json!([{"operations": ["*"], "apiGroups": [group], "apiVersions": ["*"], "resources": [resource]}])
}

#[tokio::test]
async fn reviews_match_kube_apiservers() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    plane.configure("Mutating", "m", vec![hooks.webhook("m", "allow/m", json!({}))]).await;
    plane.configure("Validating", "v", vec![hooks.webhook("v", "allow/v", json!({}))]).await;
    let mut object = config_map("x");
    object["metadata"] = json!({"generateName": "gen-", "namespace": "default"});
    let ann = Identity {
        user: "ann".into(),
        uid: "7".into(),
        groups: vec!["system:masters".into()],
        extra: vec![("k".into(), vec!["v".into()])],
    };
    let ann = Client::in_process(plane.server.service(), ann);
    let path = format!("{CONFIG_MAPS}?fieldManager=test");
    let created = plane.send_as(&ann, Method::POST, &path, "application/json", &object).await;
    assert_eq!(created.code, 201, "{created:?}");
    let (first, second) = (hooks.requests("allow/m").remove(0), hooks.requests("allow/v").remove(0));
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    for request in [&first, &second] {
        assert_eq!((&request["kind"], &request["requestKind"]), (&kind, &kind));
        assert_eq!((&request["resource"], &request["requestResource"]), (&resource, &resource));
        assert_eq!((&request["operation"], &request["namespace"]), (&json!("CREATE"), &json!("default")));
        assert_eq!(
            request["userInfo"],
            json!({"username": "ann", "uid": "7", "groups": ["system:masters"], "extra": {"k": ["v"]}})
        );
        assert_eq!(
            request["options"],
            json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "test"})
        );
        assert_eq!((&request["oldObject"], &request["dryRun"]), (&Value::Null, &json!(false)));
        assert_eq!(request["object"]["metadata"]["managedFields"][0]["manager"], "test");
        assert_eq!(request.get("subResource"), None);
    }
    // The name and server-populated fields exist only after mutation.
    assert_eq!((first.get("name"), first["object"]["metadata"].get("name")), (None, None));
    assert_eq!(first["object"]["metadata"].get("uid"), None);
    assert_eq!(second["name"], created.body["metadata"]["name"]);
    assert_eq!(second["object"]["metadata"]["uid"], created.body["metadata"]["uid"]);

    let one = format!("{CONFIG_MAPS}/{}", created.body["metadata"]["name"].as_str().expect("a name"));
    assert_eq!(plane.patch(&one, &json!({"data": {"k": "w"}})).await.code, 200);
    let update = hooks.requests("allow/v").remove(1);
    assert_eq!((&update["operation"], &update["options"]["kind"]), (&json!("UPDATE"), &json!("UpdateOptions")));
    assert_eq!((&update["oldObject"]["data"]["k"], &update["object"]["data"]["k"]), (&json!("v"), &json!("w")));
    assert!(update["oldObject"]["metadata"]["managedFields"].is_array());

    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 3, "propagationPolicy": "Foreground"});
    plane.send(Method::DELETE, &one, "application/json", &options).await;
    let delete = hooks.requests("allow/v").remove(2);
    assert_eq!((&delete["operation"], &delete["object"]), (&json!("DELETE"), &Value::Null));
    let expected = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 3, "propagationPolicy": "Foreground"});
    assert_eq!((&delete["options"], &delete["name"]), (&expected, &created.body["metadata"]["name"]));
    plane.delete(CONFIG_MAPS).await;
    assert_eq!(hooks.requests("allow/v").remove(3).get("name"), None, "deletions of a collection name no object");
}

#[tokio::test]
async fn patches_do_not_change_server_owned_fields() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    plane
        .configure(
            "Mutating",
            "m",
            vec![hooks.webhook("w", "label/hook", json!({})), hooks.webhook("x", "uid", json!({}))],
        )
        .await;
    let created = plane.post(CONFIG_MAPS, &config_map("a")).await;
    let metadata = &created.body["metadata"];
    assert_eq!((created.code, &metadata["labels"]), (201, &json!({"by": "hook"})));
    assert!(metadata["uid"] != "mine" && metadata.get("generation").is_none(), "{metadata}");
    for (path, expected) in [("mistyped", "Internal error occurred: "), ("impossible", "Internal error occurred: ")] {
        plane.configure("Mutating", "m", vec![hooks.webhook("w", path, json!({"failurePolicy": "Ignore"}))]).await;
        let reply = plane.post(CONFIG_MAPS, &config_map("b")).await;
        assert!(reply.code == 500 && reply.message().starts_with(expected), "{path}: {reply:?}");
    }
}

/// `TestMutatingWebhookDuplicateOwnerReferences`: also of a write that then changes nothing.
#[tokio::test]
async fn repeated_owners_from_webhooks_are_removed() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let mut object = config_map("x");
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]);
    plane.configure("Mutating", "m", vec![hooks.webhook("m", "owner", json!({}))]).await;
    let created = plane.post(CONFIG_MAPS, &object).await;
    let path = format!("{CONFIG_MAPS}/x");
    let patched = plane.patch(&path, &json!({})).await;
    for (reply, code) in [(created, 201), (patched, 200)] {
        assert_eq!(reply.code, code, "{reply:?}");
        assert_eq!(reply.body["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
        let [warning] = reply.warnings.as_slice() else { panic!("{reply:?}") };
        assert!(warning.contains("contains duplicate entries after mutating admission happens;"), "{warning}");
        assert!(warning.ends_with("duplicate UID(s) observed: u"), "{warning}");
    }
}

/// `TestMutatingWebhookResetsInvalidManagedFields`: webhooks may change the owners of fields, but not spoil them.
#[tokio::test]
async fn webhooks_may_change_the_owners_of_fields() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    for (change, manager, is_warned) in [("spoil", "test", true), ("rename", "hook", false), ("remove", "", false)] {
        plane.configure("Mutating", "m", vec![hooks.webhook("m", &format!("managers/{change}"), json!({}))]).await;
        let path = format!("{CONFIG_MAPS}?fieldManager=test");
        let created = plane.post(&path, &config_map(change)).await;
        let path = format!("{CONFIG_MAPS}/{change}?fieldManager=test");
        let patched = plane.patch(&path, &json!({"data": {"a": "c"}})).await;
        for reply in [created, patched] {
            let owners = &reply.body["metadata"]["managedFields"];
            assert_eq!(owners[0]["manager"].as_str().unwrap_or_default(), manager, "{reply:?}");
            let is_about_owners = |text: &String| {
                text.starts_with(
                    ".metadata.managedFields was in an invalid state after admission; this could be caused",
                )
            };
            assert_eq!(reply.warnings.iter().any(is_about_owners), is_warned, "{reply:?}");
        }
    }
}

#[tokio::test]
async fn a_scale_is_shown_and_changed_as_a_scale() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(plane.post(deployments, &deployment()).await.code, 201);
    let webhook = hooks.webhook("w", "replicas", json!({"rules": rules("apps", "deployments/scale")}));
    plane.configure("Mutating", "m", vec![webhook]).await;
    let scaled = plane.patch(&format!("{deployments}/web/scale"), &json!({"spec": {"replicas": 3}})).await;
    assert_eq!((scaled.code, &scaled.body["spec"]["replicas"]), (200, &json!(7)), "{scaled:?}");
    let request = hooks.requests("replicas").remove(0);
    assert_eq!(request["kind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    assert_eq!(request["resource"], json!({"group": "apps", "version": "v1", "resource": "deployments"}));
    assert_eq!((&request["subResource"], &request["object"]["kind"]), (&json!("scale"), &json!("Scale")));
    assert_eq!(request["object"]["spec"]["replicas"], 3);
    assert_eq!(request["oldObject"]["spec"]["replicas"], 1);
}

#[tokio::test]
async fn rules_of_another_version_get_converted_objects() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let rule = |policy: &str| {
        json!({"matchPolicy": policy, "rules": [{"operations": ["*"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"],
                                                 "resources": ["horizontalpodautoscalers"]}]})
    };
    let hpa = |name: &str| {
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
               "metadata": {"name": name, "namespace": "default"},
               "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]}})
    };
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    plane.configure("Validating", "v", vec![hooks.webhook("w", "allow", rule("Equivalent"))]).await;
    plane.configure("Mutating", "m", vec![hooks.webhook("w", "label/x", rule("Equivalent"))]).await;
    let created = plane.post(path, &hpa("a")).await;
    assert_eq!((created.code, &created.body["metadata"]["labels"]["by"]), (201, &json!("x")), "{created:?}");
    assert_eq!(created.body["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 60);
    let request = hooks.requests("allow").remove(0);
    assert_eq!((&request["kind"]["version"], &request["requestKind"]["version"]), (&json!("v1"), &json!("v2")));
    assert_eq!((&request["resource"]["version"], &request["requestResource"]["version"]), (&json!("v1"), &json!("v2")));
    assert_eq!(
        (&request["object"]["apiVersion"], &request["object"]["spec"]["targetCPUUtilizationPercentage"]),
        (&json!("autoscaling/v1"), &json!(60))
    );
    plane.configure("Validating", "v", vec![hooks.webhook("w", "silent", rule("Exact"))]).await;
    assert_eq!(plane.post(path, &hpa("b")).await.code, 201);
}

/// Writes on optimized paths: of callers in this process, of the status or the metadata alone, and those without
/// changes.
#[tokio::test]
async fn no_write_bypasses_a_webhook() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let deployments = ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
    plane.client.create(&config_maps(), &config_map("a")).await.expect("created");
    plane.client.create(&deployments, &deployment()).await.expect("created");
    let webhooks = vec![
        hooks.webhook("c", "silent", json!({})),
        hooks.webhook("s", "silent", json!({"rules": rules("apps", "deployments/status")})),
    ];
    plane.configure("Validating", "v", webhooks).await;
    let refused = |what: &str, outcome: Result<(), client::Error>| {
        let message = outcome.expect_err(what).to_string();
        assert!(message.contains("denied the request without explanation"), "{what}: {message}");
    };
    let (client, key) = (&plane.client, ObjectKey::namespaced("default", "a"));
    refused("create", client.create(&config_maps(), &config_map("b")).await.map(drop));
    let all = client.create_all(&config_maps(), Some("default"), vec![config_map("d").into()]).await.expect("outcomes");
    assert!(all.into_iter().all(|outcome| outcome.is_err()), "objects that are created together");
    let options = PatchOptions::default();
    let patch = Patch::Merge(json!({"metadata": {"finalizers": ["a.example/b"]}}));
    refused("metadata", client.patch(&config_maps(), &key, &patch, &options).await.map(drop));
    let patch = Patch::Merge(json!({"data": {"k": "v"}}));
    refused("unchanged", client.patch(&config_maps(), &key, &patch, &options).await.map(drop));
    let status = Patch::Merge(json!({"status": {"replicas": 1}}));
    let web = ObjectKey::namespaced("default", "web");
    refused("status", client.patch(&deployments, &web, &status, &PatchOptions::status()).await.map(drop));
    refused("delete", client.delete(&config_maps(), &key, &Default::default()).await.map(drop));
}

/// The author of a webhook that denies everything can remove it; a stored webhook does not prevent a start of the
/// server.
#[tokio::test]
async fn no_author_is_locked_out() {
    let plane = Plane::disabled().await;
    let everything = json!({"rules": rules("*", "*/*")});
    let webhook = json!({"name": "w.example.com", "clientConfig": {"url": "https://127.0.0.1:1/x"}, "sideEffects": "None",
                         "admissionReviewVersions": ["v1"], "rules": everything["rules"]});
    plane.configure("Validating", "all", vec![webhook.clone()]).await;
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("a")).await.code, 201, "while the server starts, nothing is called");
    plane.users.enable();
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("b")).await.code, 500);
    plane.configure("Mutating", "all", vec![webhook]).await;
    for kind in ["mutating", "validating"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/all");
        assert_eq!(plane.patch(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.code, 200);
        assert_eq!(plane.delete(&path).await.code, 200);
    }
    plane.observed().await;
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("b")).await.code, 201);
}

/// A service is reached at its cluster address, with the certificate of its name.
#[tokio::test]
async fn services_are_resolved() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let port: u16 = hooks.url.rsplit(':').next().expect("a port").parse().expect("a number");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook", "namespace": "default"},
                         "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
    let config = json!({"service": {"name": "hook", "namespace": "default", "path": "/allow", "port": port}, "caBundle": hooks.ca});
    plane.configure("Validating", "v", vec![hooks.webhook("w", "", json!({"clientConfig": config}))]).await;
    assert_eq!(plane.post("/api/v1/namespaces/default/services", &service).await.code, 201);
    let reply = plane.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!((reply.code, hooks.requests("allow").len()), (201, 1), "{reply:?}");
}

#[tokio::test]
async fn expressions_are_compiled_when_a_configuration_is_written() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let condition = |source: &str| json!({"matchConditions": [{"name": "c", "expression": source}]});
    for (source, expected) in [
        ("object.spec.replicas", "must evaluate to bool but got dyn"),
        (
            "nope",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n | nope\n | ^",
        ),
    ] {
        let webhooks = [hooks.webhook("w", "allow", condition(source))];
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                                   "metadata": {"name": "v"}, "webhooks": webhooks});
        let reply =
            plane.post("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", &configuration).await;
        let message = format!(
            "ValidatingWebhookConfiguration.admissionregistration.k8s.io \"v\" is invalid: \
             webhooks[0].matchConditions[0].expression: Invalid value: {source:?}: {expected}"
        );
        assert_eq!((reply.code, reply.message()), (422, &*message));
    }
    // A failing webhook is treated by its failure policy.
    for (policy, code) in [("Fail", 403), ("Ignore", 201)] {
        let mut more = condition("object.data.missing == 'x'");
        more["failurePolicy"] = policy.into();
        plane.configure("Validating", "v", vec![hooks.webhook("w", "silent", more)]).await;
        let reply = plane.post(CONFIG_MAPS, &config_map(&policy.to_lowercase())).await;
        assert_eq!(reply.code, code, "{reply:?}");
        if code == 403 {
            let expected = "configmaps \"fail\" is forbidden: expression 'object.data.missing == 'x'' resulted in error: no such key: missing";
            assert_eq!(reply.message(), expected);
        }
    }
}

/// Without a configuration for a resource, no part of a request is read, copied or encoded.
#[tokio::test]
async fn requests_without_a_configuration_are_not_processed() {
    use apiserver::Admission as _;
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let concerned = |group: &str, plural: &str| {
        let users = &plane.users;
        let metadata = users.concerns_metadata(group, plural, &["labels"]);
        [users.concerns(group, plural), users.concerns_status(group, plural), metadata]
    };
    assert_eq!(concerned("", "configmaps"), [false; 3]);
    let webhooks = [("configmaps", "a"), ("deployments/status", "b"), ("jobs/*", "c")];
    let webhooks =
        webhooks.map(|(resource, name)| hooks.webhook(name, "allow", json!({"rules": rules("*", resource)})));
    plane.configure("Validating", "v", webhooks.to_vec()).await;
    assert_eq!(concerned("", "configmaps"), [true, false, true]);
    assert_eq!(concerned("apps", "deployments"), [true, true, false]);
    assert_eq!(concerned("batch", "jobs"), [true; 3]);
    assert_eq!(concerned("", "secrets"), [false; 3]);
    assert_eq!(concerned("admissionregistration.k8s.io", "validatingwebhookconfigurations"), [false; 3]);
    plane.configure("Validating", "v", Vec::new()).await;
    assert_eq!(concerned("", "configmaps"), [false; 3]);
}

/// Writes the annotation `seen` into the Secret `s` together with each ConfigMap.
struct Joined;

impl apiserver::Admission for Joined {
    fn has_joint_writes(&self, _: &str, plural: &str) -> bool {
        plural == "configmaps"
    }

    fn joint_writes(&self, change: &apiserver::Change<'_>) -> Result<Vec<apiserver::JointWrite>, apimachinery::Status> {
        let secrets = change.others("", "secrets", "default")?;
        let write = |based_on: std::sync::Arc<apimachinery::Object>| {
            let mut object = based_on.to_value().expect("a document");
            object["metadata"]["annotations"] = json!({"seen": change.key.name()});
            apiserver::JointWrite { group: "", plural: "secrets", based_on, object }
        };
        Ok(secrets.into_iter().map(write).collect())
    }
}

/// A status that a component of this process writes with its object, and a write that is joined to another.
#[tokio::test]
async fn joint_writes_reach_webhooks() {
    let plane = Plane::beside(vec![std::sync::Arc::new(Joined)]).await;
    plane.users.enable();
    let hooks = Hooks::start().await;
    let deployments = ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
    plane.client.create(&deployments, &deployment()).await.expect("created");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}});
    assert_eq!(plane.post("/api/v1/namespaces/default/secrets", &secret).await.code, 201);
    let webhooks = vec![
        hooks.webhook("s", "deny/status", json!({"rules": rules("apps", "deployments/status")})),
        hooks.webhook("j", "deny/joined", json!({"rules": rules("", "secrets")})),
    ];
    plane.configure("Validating", "v", webhooks).await;
    let web = ObjectKey::namespaced("default", "web");
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}, "status": {"replicas": 1}}));
    let options = PatchOptions { with_status: true, ..PatchOptions::default() };
    let refused = plane.client.patch(&deployments, &web, &patch, &options).await.expect_err("the status is refused");
    assert!(refused.to_string().ends_with("denied the request: status"), "{refused}");
    let labels = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    plane.client.patch(&deployments, &web, &labels, &options).await.expect("no status changes");
    let reply = plane.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(reply.message(), "admission webhook \"j.example.com\" denied the request: joined");
    let request = hooks.requests("deny/joined").remove(0);
    assert_eq!((&request["kind"]["kind"], &request["name"]), (&json!("Secret"), &json!("s")));
    assert_eq!(request["object"]["metadata"]["annotations"]["seen"], "a");
    assert_eq!(plane.send(Method::GET, &format!("{CONFIG_MAPS}/a"), "", &Value::Null).await.code, 404);
}

/// The server's own mutations run a second time after a webhook has changed the object, and are idempotent.
#[tokio::test]
async fn built_in_mutations_are_reinvoked() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}});
    assert_eq!(plane.post("/api/v1/namespaces/default/serviceaccounts", &account).await.code, 201);
    let all = [
        hooks.webhook("p", "label/x", json!({"rules": rules("", "pods")})),
        hooks.webhook("s", "label/x", json!({"rules": rules("", "services")})),
    ];
    plane.configure("Mutating", "m", all.to_vec()).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
                     "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let created = plane.post("/api/v1/namespaces/default/pods", &pod).await;
    let spec = &created.body["spec"];
    assert_eq!((created.code, &created.body["metadata"]["labels"]), (201, &json!({"by": "x"})), "{created:?}");
    let lengths = [&spec["volumes"], &spec["containers"][0]["volumeMounts"], &spec["tolerations"]]
        .map(|it| it.as_array().map(Vec::len));
    assert_eq!(lengths, [Some(1), Some(1), Some(2)], "{spec}");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"},
                         "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let created = plane.post("/api/v1/namespaces/default/services", &service).await;
    assert_eq!((created.code, &created.body["metadata"]["labels"]), (201, &json!({"by": "x"})), "{created:?}");
    assert_eq!(created.body["spec"]["clusterIPs"].as_array().map(Vec::len), Some(1));
}

/// A webhook that returns megabytes of warnings does not enlarge the reply.
#[tokio::test]
async fn warnings_are_bounded() {
    let (plane, hooks) = (Plane::start().await, Hooks::start().await);
    let webhooks = (0..40)
        .map(|number| hooks.webhook(&format!("w{number}"), &format!("warn/{number}-{}", "x".repeat(900)), json!({})));
    plane.configure("Validating", "v", webhooks.collect()).await;
    let reply = plane.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!((reply.code, reply.warnings.len()), (201, 16));
    assert!(reply.warnings.iter().all(|text| text.len() == 256));
}
