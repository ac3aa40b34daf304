//! A user who may only write Clusters receives no member's token.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, Patch, PatchOptions};
use http::Method;
use http_body_util::BodyExt;
use karmada::apiserver::Opened;
use karmada_api::constants::annotations::CREDENTIAL_ENDPOINT;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use transport::{ApiService, Identity};

use crate::admission::server;
use crate::fleet::{Fleet, proxied, until};

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
/// The Secrets of the cluster, and another one; a user's rights are a bit for each.
const SECRETS: [&str; 3] = ["m1", "imp", "other"];

fn user(service: ApiService, name: &str) -> Client {
    let groups = vec!["system:authenticated".to_owned()];
    Client::in_process(service, Identity { user: name.to_owned(), groups, ..Identity::default() })
}

fn rbac(kind: &str, plural: &str, namespace: Option<&str>) -> ApiResource {
    match namespace {
        Some(_) => ApiResource::namespaced("rbac.authorization.k8s.io", "v1", kind, plural),
        None => ApiResource::cluster("rbac.authorization.k8s.io", "v1", kind, plural),
    }
}

/// A role with one rule, bound to users.
async fn grant(admin: &Client, name: &str, namespace: Option<&str>, rule: Value, users: &[String]) {
    let prefix = if namespace.is_some() { "" } else { "Cluster" };
    let metadata = json!({"name": name, "namespace": namespace});
    let (role, binding) = (format!("{prefix}Role"), format!("{prefix}RoleBinding"));
    let plural = |kind: &str| format!("{}s", kind.to_lowercase());
    let object =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": role, "metadata": metadata, "rules": [rule]});
    admin.create(&rbac(&role, &plural(&role), namespace), &object).await.expect("a role");
    let subjects: Vec<Value> = users
        .iter()
        .map(|user| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}))
        .collect();
    let object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": binding, "metadata": metadata,
        "subjects": subjects, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}});
    admin.create(&rbac(&binding, &plural(&binding), namespace), &object).await.expect("a binding");
}

async fn namespace(admin: &Client, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    admin.create(&namespaces, &object).await.expect("a namespace");
}

/// Users `user-0` to `user-7`, who may write Clusters and read the Secrets of their bits.
async fn users(opened: &Opened) -> Vec<Client> {
    let admin = opened.client("test");
    namespace(&admin, "n").await;
    let names: Vec<String> = (0..8).map(|bits| format!("user-{bits}")).collect();
    let rule =
        json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters", "clusters/status"], "verbs": ["*"]});
    grant(&admin, "clusters", None, rule, &names).await;
    for (bit, secret) in SECRETS.iter().enumerate() {
        let rule = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get"]});
        let readers: Vec<String> =
            (0..8_usize).filter(|bits| bits >> bit & 1 == 1).map(|it| names[it].clone()).collect();
        grant(&admin, &format!("read-{secret}"), Some("n"), rule, &readers).await;
    }
    names.iter().map(|name| user(opened.server.service(), name)).collect()
}

fn cluster(name: &str) -> Value {
    let secret = |name: &str| json!({"namespace": "n", "name": name});
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": "Push", "apiEndpoint": "https://m1.example:6443",
                 "secretRef": secret("m1"), "impersonatorSecretRef": secret("imp")}})
}

/// Sends a body; returns the code, the response and its warnings.
async fn send(client: &Client, method: Method, path: &str, media: &str, body: &Value) -> (u16, Value, Vec<String>) {
    let request = http::Request::builder().method(method).uri(path).header("content-type", media);
    let response = client.send(request.body(transport::full(body.to_string())).expect("a request")).await;
    let response = response.expect("an answer");
    let (code, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
    let warnings = headers.get_all("warning").iter().map(|it| it.to_str().expect("text").to_owned()).collect();
    (code, serde_json::from_slice(&body).expect("JSON"), warnings)
}

/// The ways to write a Cluster.
const WAYS: [&str; 5] = ["create", "create by apply", "update", "patch", "apply"];

/// Writes the Cluster with one changed field.
async fn write(way: &str, client: &Client, admin: &Client, name: &str, field: &str, value: &Value) -> (u16, Value) {
    let path = format!("{CLUSTERS}/{name}");
    let mut whole = cluster(name);
    let json = "application/json";
    if !way.starts_with("create") {
        let (code, stored, _) = send(admin, Method::POST, CLUSTERS, json, &whole).await;
        assert_eq!(code, 201, "{stored}");
        whole = stored;
    }
    whole["spec"][field] = value.clone();
    let mut part = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": "Push"}});
    part["spec"][field] = value.clone();
    let apply = "application/apply-patch+yaml";
    let applied = format!("{path}?fieldManager=thief&force=true");
    let (code, answer, _) = match way {
        "create" => send(client, Method::POST, CLUSTERS, json, &whole).await,
        "create by apply" => send(client, Method::PATCH, &applied, apply, &whole).await,
        "update" => send(client, Method::PUT, &path, json, &whole).await,
        "patch" => {
            send(client, Method::PATCH, &path, "application/merge-patch+json", &json!({"spec": part["spec"]})).await
        }
        _ => send(client, Method::PATCH, &applied, apply, &part).await,
    };
    (code, answer)
}

#[tokio::test]
async fn every_way_to_redirect_a_token_needs_the_right_to_read_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let opened = server(directory.path()).await;
    let (users, admin) = (users(&opened).await, opened.client("test"));
    let other = json!({"namespace": "n", "name": "other"});
    let mut count = 0;
    // The field, its new value, and the bits of the Secrets needed by a create and by a change.
    for (field, value, created, changed) in [
        ("apiEndpoint", json!("https://thief.example"), 0b011, 0b011),
        ("insecureSkipTLSVerification", json!(true), 0b011, 0b011),
        ("proxyURL", json!("http://thief.example:3128"), 0b011, 0b011),
        ("proxyHeader", json!({"Host": "thief.example"}), 0b011, 0b011),
        ("secretRef", other.clone(), 0b110, 0b111),
        ("impersonatorSecretRef", other, 0b101, 0b110),
        ("provider", json!("thief"), 0b011, 0b000),
    ] {
        for way in WAYS {
            let needed: usize = if way.starts_with("create") { created } else { changed };
            for (bits, client) in users.iter().enumerate() {
                count += 1;
                let name = format!("c-{count}");
                let (code, answer) = write(way, client, &admin, &name, field, &value).await;
                let context = format!("{way} {field} by user-{bits}: {answer}");
                if needed & !bits == 0 {
                    assert!(code == 200 || code == 201, "{context}");
                    continue;
                }
                assert_eq!((code, &answer["reason"]), (403, &json!("Forbidden")), "{context}");
                let message = answer["message"].as_str().unwrap_or_default();
                let missing = (0..3).filter(|bit| (needed & !bits) >> bit & 1 == 1);
                let mut missing = missing.map(|bit| format!("Secret n/{}", SECRETS[bit]));
                assert!(missing.any(|secret| message.contains(&secret)), "{context}");
                assert!(message.contains("verb get") && message.contains(&format!("user-{bits}")), "{context}");
                assert!(way.starts_with("create") || message.contains(&format!("spec.{field}")), "{context}");
            }
        }
    }
    // A write of the status changes no destination.
    let mut moved = cluster("c-40");
    moved["spec"]["apiEndpoint"] = json!("https://thief.example");
    let path = format!("{CLUSTERS}/c-40");
    let before = send(&admin, Method::GET, &path, "", &Value::Null).await.1["spec"].clone();
    let status = format!("{path}/status");
    send(&users[0], Method::PATCH, &status, "application/merge-patch+json", &json!({"spec": moved["spec"]})).await;
    assert_eq!(send(&admin, Method::GET, &path, "", &Value::Null).await.1["spec"], before);
    opened.close().await.expect("an end");
}

#[tokio::test]
async fn invalid_destinations_are_rejected_for_every_user() {
    let directory = tempfile::tempdir().expect("a directory");
    let opened = server(directory.path()).await;
    let admin = opened.client("test");
    for (field, value, expected) in [
        ("apiEndpoint", "http://m1.example:6443", "--allow-http-member-endpoints"),
        ("apiEndpoint", "https://169.254.169.254", "link-local"),
        ("apiEndpoint", "https://2852039166:6443", "link-local"),
        ("apiEndpoint", "https://[::ffff:169.254.169.254]:6443", "link-local"),
        ("apiEndpoint", "https://metadata.google.internal", "metadata"),
        ("apiEndpoint", "https://0.0.0.0:6443", "unspecified"),
        ("proxyURL", "http://169.254.169.254:80", "link-local"),
        ("proxyURL", "socks5://[fd00:ec2::254]:1080", "metadata"),
    ] {
        for (count, way) in WAYS.iter().enumerate() {
            let name = format!("c-{count}");
            let (code, answer) = write(way, &admin, &admin, &name, field, &json!(value)).await;
            assert_eq!(code, 422, "{way} {value}: {answer}");
            let cause = &answer["details"]["causes"][0];
            assert_eq!(cause["field"], format!("spec.{field}"), "{answer}");
            assert!(cause["message"].as_str().is_some_and(|text| text.contains(expected)), "{answer}");
            let _ = admin.request(Method::DELETE, &format!("{CLUSTERS}/{name}"), None).await;
        }
    }
    opened.close().await.expect("an end");
}

/// A server that counts its connections.
async fn thief() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    let visits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&visits);
    tokio::spawn(async move {
        while let Ok((_stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    (address, visits)
}

/// Destinations that admission accepted, or another API server stored, are rejected when the control plane connects.
#[tokio::test]
async fn tokens_stay_with_the_endpoint_they_were_stored_for() {
    let fleet = Fleet::start_with(&[], |options| options.server.admission.allow_http_endpoints = true).await;
    let member = fleet.member("m1").await;
    fleet.join(&member).await;
    fleet.reachable("m1").await;
    let (control, (address, visits)) = (fleet.plane.client(), thief().await);
    let eve = user(fleet.plane.service(), "eve");
    let rule = json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["*"]});
    grant(control, "eve", None, rule, &["eve".to_owned()]).await;
    let clusters = ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
    let key = ObjectKey::cluster("m1");
    let insecure = format!("https://{address}");
    let redirect = Patch::Merge(json!({"spec": {"apiEndpoint": insecure, "insecureSkipTLSVerification": true}}));
    let refused = eve.patch(&clusters, &key, &redirect, &PatchOptions::default()).await.expect_err("theft");
    assert_eq!(refused.status().map(|status| status.code), Some(403), "{refused}");

    let refused = async |expected: &str| {
        let expected = expected.to_owned();
        until(&expected.clone(), async || {
            let error = fleet.plane.context().members().get("m1").await.err()?.to_string();
            error.contains(&expected).then_some(error)
        })
        .await
    };
    control.patch(&clusters, &key, &redirect, &PatchOptions::default()).await.expect("an administrator's change");
    let message = refused("was stored for").await;
    for text in ["secret karmada-cluster/m1", member.url(), &insecure, "kubectl annotate secret -n karmada-cluster m1"]
    {
        assert!(message.contains(text), "{text} in {message}");
    }
    let admin = fleet.admin().await;
    let proxied_to = async || {
        let answer = admin.request(Method::GET, &proxied("m1", "/api"), None).await;
        answer.map_or_else(|error| error.to_string(), |_| "ok".to_owned())
    };
    let answer = proxied_to().await;
    assert!(answer.contains("secret karmada-cluster/m1-impersonator was stored for"), "{answer}");

    // The controllers of this control plane have no flag for plain HTTP.
    let plain = Patch::Merge(
        json!({"spec": {"apiEndpoint": format!("http://{address}"), "insecureSkipTLSVerification": false}}),
    );
    control.patch(&clusters, &key, &plain, &PatchOptions::default()).await.expect("an administrator's change");
    refused("--allow-http-member-endpoints").await;
    assert!(proxied_to().await.contains("was stored for"), "plain HTTP verifies nothing");
    assert_eq!(visits.load(Ordering::Relaxed), 0, "nothing was sent to the other endpoint");

    // With the real endpoint an unverified certificate is accepted, because it is the recorded destination.
    let back = Patch::Merge(json!({"spec": {"apiEndpoint": member.url(), "insecureSkipTLSVerification": true}}));
    control.patch(&clusters, &key, &back, &PatchOptions::default()).await.expect("an administrator's change");
    fleet.reachable("m1").await;

    // A user who may write the Secrets changes the destination.
    let secrets = ApiResource::namespaced("", "v1", "Secret", "secrets");
    for name in ["m1", "m1-impersonator"] {
        let key = ObjectKey::namespaced("karmada-cluster", name);
        let annotate = Patch::Merge(json!({"metadata": {"annotations": {CREDENTIAL_ENDPOINT: insecure}}}));
        control.patch(&secrets, &key, &annotate, &PatchOptions::default()).await.expect("annotated");
    }
    control.patch(&clusters, &key, &redirect, &PatchOptions::default()).await.expect("an administrator's change");
    until("the control plane connects", async || (visits.load(Ordering::Relaxed) > 0).then_some(())).await;
}

#[tokio::test]
async fn policies_that_copy_secrets_warn_authors_without_the_right() {
    let directory = tempfile::tempdir().expect("a directory");
    let opened = server(directory.path()).await;
    let admin = opened.client("test");
    namespace(&admin, "shop").await;
    let rule = json!({"apiGroups": ["policy.karmada.io"], "resources": ["*"], "verbs": ["*"]});
    let users = ["none", "one", "all"].map(str::to_owned);
    grant(&admin, "policies", None, rule, &users).await;
    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s"], "verbs": ["get"]});
    grant(&admin, "one", Some("shop"), rule, &users[1..2]).await;
    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]});
    grant(&admin, "all", Some("shop"), rule, &users[2..]).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret"});
    let named = json!({"apiVersion": "v1", "kind": "Secret", "name": "s"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    let policies = "/apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies";
    let cluster_policies = "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies";
    // The policy, and for each user the fields with warnings.
    for (path, selector, deps, expected) in [
        (policies, &deployment, false, ["", "", ""]),
        (policies, &secret, false, ["spec.resourceSelectors", "spec.resourceSelectors", ""]),
        (policies, &named, false, ["spec.resourceSelectors", "", ""]),
        (policies, &deployment, true, ["spec.propagateDeps", "spec.propagateDeps", ""]),
        (cluster_policies, &secret, false, ["spec.resourceSelectors"; 3]),
    ] {
        for (name, expected) in users.iter().zip(expected) {
            let kind = if path == policies { "PropagationPolicy" } else { "ClusterPropagationPolicy" };
            let object = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": {"generateName": "p-"},
                "spec": {"resourceSelectors": [selector], "propagateDeps": deps}});
            let client = user(opened.server.service(), name);
            let (code, stored, warnings) = send(&client, Method::POST, path, "application/json", &object).await;
            assert_eq!(code, 201, "{stored}");
            assert_eq!(warnings.len(), usize::from(!expected.is_empty()), "{name} {object}: {warnings:?}");
            assert!(warnings.iter().all(|text| text.contains(expected)), "{name}: {warnings:?}");
            // Labels change no selector.
            let path = format!("{path}/{}", stored["metadata"]["name"].as_str().expect("a name"));
            let labelled = json!({"metadata": {"labels": {"a": "b"}}});
            let (code, _, warnings) =
                send(&client, Method::PATCH, &path, "application/merge-patch+json", &labelled).await;
            assert_eq!((code, warnings.len()), (200, 0));
        }
    }
    opened.close().await.expect("an end");
}

#[tokio::test]
async fn the_right_to_write_registries_sends_no_password_to_opensearch() {
    const REGISTRIES: &str = "/apis/search.karmada.io/v1alpha1/resourceregistries";
    let directory = tempfile::tempdir().expect("a directory");
    let opened = server(directory.path()).await;
    let (users, admin) = (users(&opened).await, opened.client("test"));
    let names: Vec<String> = (0..8).map(|bits| format!("user-{bits}")).collect();
    let rule = json!({"apiGroups": ["search.karmada.io"], "resources": ["resourceregistries"], "verbs": ["*"]});
    grant(&admin, "registries", None, rule, &names).await;
    // One reads the Secret `m1`, the other one none.
    let (reader, thief) = (&users[1], &users[0]);
    until("the new right is in effect", async || {
        let empty = json!({});
        (send(thief, Method::GET, REGISTRIES, "application/json", &empty).await.0 == 200).then_some(())
    })
    .await;
    let registry = |name: &str, address: &str, secret: &str| {
        let backend = json!({"addresses": [address], "secretRef": {"namespace": "n", "name": secret}});
        json!({"apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": {"name": name},
            "spec": {"targetCluster": {}, "resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}],
                     "backendStore": {"openSearch": backend}}})
    };
    let json = "application/json";
    let stolen = registry("stolen", "https://thief.example", "m1");
    let (code, refusal, _) = send(thief, Method::POST, REGISTRIES, json, &stolen).await;
    let message = refusal["message"].as_str().unwrap_or_default();
    assert_eq!(code, 403, "{refusal}");
    assert!(message.contains("decides where the password of Secret n/m1 is sent"), "{message}");
    let (code, answer, _) = send(reader, Method::POST, REGISTRIES, json, &registry("own", "https://a", "m1")).await;
    assert_eq!(code, 201, "{answer}");
    let own = format!("{REGISTRIES}/own");
    let merge = "application/merge-patch+json";
    for (client, spec, expected) in [
        (thief, json!({"backendStore": {"openSearch": {"addresses": ["https://thief.example"]}}}), 403),
        (thief, json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret"}]}), 200),
        (reader, json!({"backendStore": {"openSearch": {"secretRef": {"name": "other"}}}}), 403),
        (reader, json!({"backendStore": {"openSearch": {"addresses": ["https://b"]}}}), 200),
        (thief, json!({"backendStore": null}), 200),
        (thief, json!({"backendStore": {"openSearch": {"addresses": ["https://b"]}}}), 200),
    ] {
        let (code, answer, _) = send(client, Method::PATCH, &own, merge, &json!({"spec": spec})).await;
        assert_eq!(code, expected, "{spec}: {answer}");
    }
}
