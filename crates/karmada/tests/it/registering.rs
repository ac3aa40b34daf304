//! Clusters that register themselves: bootstrap tokens, certificates of agents, and the rights of an agent.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, DeleteOptions};
use http::Method;
use karmada_api::agents;
use serde_json::{Value, json};
use transport::Identity;

use crate::plane::Plane;

const TOKEN: &str = "abcdef.0123456789abcdef";

fn secrets() -> ApiResource {
    ApiResource::namespaced("", "v1", "Secret", "secrets")
}

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn requests() -> ApiResource {
    ApiResource::cluster("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
}

fn cluster_info() -> ObjectKey {
    ObjectKey::namespaced("kube-public", "cluster-info")
}

fn token(token: &str, more: &[(&str, &str)]) -> Value {
    let (id, secret) = token.split_once('.').expect("a token");
    let mut data = json!({"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true", "auth-extra-groups": agents::BOOTSTRAPPERS});
    more.iter().for_each(|(field, value)| data[*field] = json!(value));
    let data: serde_json::Map<String, Value> = data
        .as_object()
        .expect("a map")
        .iter()
        .map(|(field, value)| (field.clone(), json!(STANDARD.encode(value.as_str().expect("text")))))
        .collect();
    json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "data": data,
        "metadata": {"namespace": "kube-system", "name": format!("bootstrap-token-{id}")}})
}

/// Virtual seconds.
async fn eventually<T>(what: &str, condition: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = condition().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never happened: {what}")
}

impl Plane {
    fn as_user(&self, user: &str, groups: &[&str]) -> Client {
        let groups = groups.iter().chain(&["system:authenticated"]).map(|group| (*group).to_owned()).collect();
        Client::in_process(self.plane.service(), Identity { user: user.into(), groups, ..Identity::default() })
    }

    fn agent(&self, cluster: &str) -> Client {
        self.as_user(&agents::user(cluster), &[agents::GROUP])
    }

    fn bearer(&self, token: &str) -> Client {
        Client::in_process_with_token(self.plane.service(), token).expect("a client")
    }

    fn anonymous(&self) -> Client {
        let groups = vec!["system:unauthenticated".to_owned()];
        Client::in_process(
            self.plane.service(),
            Identity { user: "system:anonymous".into(), groups, ..Identity::default() },
        )
    }

    async fn signature(&self, id: &str) -> Option<String> {
        let info = self.anonymous().get(&config_maps(), &cluster_info()).await.expect("it is public");
        info.to_value().expect("JSON")["data"][format!("jws-kubeconfig-{id}")].as_str().map(str::to_owned)
    }
}

fn code(result: &client::Result<bytes::Bytes>) -> u16 {
    match result {
        Ok(_) => 200,
        Err(error) => error.status().map_or(0, |status| status.code),
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_sign_the_public_description_and_authenticate_until_they_expire() {
    let plane = Plane::start().await;
    let anonymous = plane.anonymous();
    let info = anonymous.get(&config_maps(), &cluster_info()).await.expect("it is public").to_value().expect("JSON");
    let kubeconfig = info["data"]["kubeconfig"].as_str().expect("a kubeconfig").to_owned();
    assert!(kubeconfig.contains("certificate-authority-data") && !kubeconfig.contains("client-key"), "{kubeconfig}");
    for (method, path) in [
        (Method::GET, "/api/v1/namespaces/kube-public/configmaps"),
        (Method::GET, "/api/v1/namespaces/kube-public/configmaps/kube-root-ca.crt"),
        (Method::GET, "/api/v1/namespaces/kube-system/configmaps/cluster-info"),
        (Method::DELETE, "/api/v1/namespaces/kube-public/configmaps/cluster-info"),
        (Method::GET, "/api/v1/namespaces/kube-system/secrets"),
        (Method::GET, "/apis/cluster.karmada.io/v1alpha1/clusters"),
    ] {
        assert_eq!(code(&anonymous.request(method.clone(), path, None).await), 403, "{method} {path}");
    }

    // An agent finds the authorities of a renewed control plane there.
    plane.agent("m9").get(&config_maps(), &cluster_info()).await.expect("it is public");

    let expires = plane.plane.context().informers().world().now() + Duration::from_secs(3_600);
    let expires = expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let admin = plane.client();
    admin.create(&secrets(), &token(TOKEN, &[("expiration", &expires)])).await.expect("a token");
    let signature = eventually("the token signs", async || plane.signature("abcdef").await).await;
    let (id, secret) = TOKEN.split_once('.').expect("a token");
    assert!(pki::bootstrap::is_signed(id, secret, kubeconfig.as_bytes(), &signature));

    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let whoami = async |token: &str| plane.bearer(token).request(Method::POST, path, Some(review.clone())).await;
    let found: Value = serde_json::from_slice(&whoami(TOKEN).await.expect("a user")).expect("JSON");
    let user = &found["status"]["userInfo"];
    assert_eq!(user["username"], "system:bootstrap:abcdef");
    assert_eq!(user["groups"], json!(["system:bootstrappers", agents::BOOTSTRAPPERS, "system:authenticated"]));
    assert_eq!(code(&whoami("abcdef.0123456789abcdee").await), 401, "forged");
    assert_eq!(code(&whoami("ghijkl.0123456789abcdef").await), 401, "unknown");
    // A token can only request certificates.
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    assert_eq!(code(&plane.bearer(TOKEN).request(Method::GET, clusters, None).await), 403);

    tokio::time::sleep(Duration::from_secs(3_601)).await;
    assert_eq!(code(&whoami(TOKEN).await), 401, "expired");
    let key = ObjectKey::namespaced("kube-system", "bootstrap-token-abcdef");
    let gone = async || admin.get_opt(&secrets(), &key).await.expect("an answer").is_none().then_some(());
    eventually("the token is deleted", gone).await;
    eventually("its signature too", async || plane.signature("abcdef").await.is_none().then_some(())).await;

    admin.create(&secrets(), &token(TOKEN, &[])).await.expect("a token");
    assert_eq!(code(&whoami(TOKEN).await), 200);
    admin.delete(&secrets(), &key, &DeleteOptions::default()).await.expect("a deletion");
    assert_eq!(code(&whoami(TOKEN).await), 401, "deleted");
}

#[tokio::test(start_paused = true)]
async fn certificates_are_approved_for_the_requesters_own_cluster() {
    let plane = Plane::start().await;
    let bootstrap = plane.as_user("system:bootstrap:abcdef", &["system:bootstrappers", agents::BOOTSTRAPPERS]);
    let other_bootstrap = plane.as_user("system:bootstrap:ghijkl", &["system:bootstrappers"]);
    let (member1, generator) = (plane.agent("member1"), plane.as_user(agents::RBAC_GENERATOR, &[agents::GROUP]));
    let admin = plane.client();
    // Members of this test are of push mode: their agents have no rights.
    grant(admin, "member1").await;
    let (refused, pending, approved) = (0, 1, 2);
    let cases: [(&str, &Client, &str, &[&str], u8); 9] = [
        ("new", &bootstrap, "system:karmada:agent:m9", &[agents::GROUP], approved),
        ("grants", &bootstrap, agents::RBAC_GENERATOR, &[agents::GROUP], approved),
        ("renewal", &member1, "system:karmada:agent:member1", &[agents::GROUP], approved),
        ("taken", &bootstrap, "system:karmada:agent:member1", &[agents::GROUP], pending),
        ("another", &member1, "system:karmada:agent:member2", &[agents::GROUP], pending),
        ("above", &member1, agents::RBAC_GENERATOR, &[agents::GROUP], pending),
        ("admin", &bootstrap, "system:admin", &[agents::GROUP], pending),
        ("masters", &bootstrap, "system:karmada:agent:m8", &[agents::GROUP, "system:masters"], refused),
        ("stranger", &other_bootstrap, "system:karmada:agent:m7", &[agents::GROUP], refused),
    ];
    for (name, requester, user, groups, outcome) in cases {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        let (request, _) = pki::request::create(user, &groups).expect("a request");
        let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": name}, "spec": {"request": STANDARD.encode(request), "expirationSeconds": 3600,
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["digital signature", "key encipherment", "client auth"]}});
        let created = requester.create(&requests(), &object).await;
        assert_eq!(created.is_err(), outcome == refused, "{name}: {created:?}");
    }
    let live = async |name: &str| {
        admin.get(&requests(), &ObjectKey::cluster(name)).await.expect("a request").to_value().expect("JSON")
    };
    for (name, _, user, ..) in cases.iter().filter(|case| case.4 == approved) {
        let issued = async || live(name).await["status"]["certificate"].as_str().map(str::to_owned);
        let certificate = eventually(name, issued).await;
        let pem = String::from_utf8(STANDARD.decode(certificate).expect("base64")).expect("PEM");
        let holder = pki::Holder::from_pem(&pem).expect("a certificate");
        assert_eq!((holder.user.as_str(), holder.groups.as_slice()), (*user, [agents::GROUP.to_owned()].as_slice()));
        let condition = &live(name).await["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["reason"]), (&json!("Approved"), &json!("AutoApproved")));
        let message = if *name == "renewal" { "self karmada agent" } else { "approving karmada agent" };
        assert!(condition["message"].as_str().is_some_and(|it| it.contains(message)), "{condition}");
    }
    // Enough time for every other request.
    tokio::time::sleep(Duration::from_secs(60)).await;
    for (name, ..) in cases.iter().filter(|case| case.4 == pending) {
        assert_eq!(live(name).await["status"], json!({}), "{name}");
    }

    // The user that grants agents their rights grants nothing else, and nothing for an existing cluster.
    let role = |name: &str, cluster: &str| {
        let mut role = agents::grants(cluster, "karmada-cluster").remove(0).object;
        role["metadata"]["name"] = json!(name);
        role
    };
    let roles = ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
    for (object, allowed) in [
        (role("system:karmada:m9:agent", "m9"), true),
        (role("system:karmada:m9:agent", "m8"), false),
        (role("mine", "m9"), false),
        (role("system:karmada:member2:agent", "member2"), false),
    ] {
        let outcome = generator.create(&roles, &object).await;
        assert_eq!(outcome.is_ok(), allowed, "{object}: {outcome:?}");
    }
    // A registration that failed takes back the namespace that it created.
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    for (name, allowed) in [("karmada-es-m9", true), ("karmada-es-member1", false), ("shop", false)] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let _ = admin.create(&namespaces, &object).await;
        let outcome = generator.delete(&namespaces, &ObjectKey::cluster(name), &DeleteOptions::default()).await;
        assert_eq!(outcome.is_ok(), allowed, "{name}: {outcome:?}");
    }
}

async fn grant(admin: &Client, cluster: &str) {
    let name = format!("karmada-es-{cluster}");
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    // The member's cluster exists.
    let _ = admin.create(&ApiResource::cluster("", "v1", "Namespace", "namespaces"), &object).await;
    for grant in agents::grants(cluster, "karmada-cluster") {
        admin.create(&grant.resource, &grant.object).await.unwrap_or_else(|error| panic!("{}: {error}", grant.object));
    }
}

/// The rights of upstream's agents beyond their own cluster: descriptions of the control plane, and no credentials.
const ALLOWED: &[&str] = &[
    "get certificates.k8s.io/certificatesigningrequests",
    "create certificates.k8s.io/certificatesigningrequests",
    "list cluster.karmada.io/clusters",
    "watch cluster.karmada.io/clusters",
    "get config.karmada.io/resourceinterpretercustomizations",
    "list config.karmada.io/resourceinterpretercustomizations",
    "watch config.karmada.io/resourceinterpretercustomizations",
    "get config.karmada.io/resourceinterpreterwebhookconfigurations",
    "list config.karmada.io/resourceinterpreterwebhookconfigurations",
    "watch config.karmada.io/resourceinterpreterwebhookconfigurations",
    "get coordination.k8s.io/leases",
    "get namespaces",
    "list services",
    "watch services",
    // Every authenticated user reviews its own rights.
    "create authentication.k8s.io/selfsubjectreviews",
    "create authorization.k8s.io/selfsubjectaccessreviews",
    "create authorization.k8s.io/selfsubjectrulesreviews",
];

const NAMESPACES: [&str; 4] = ["karmada-es-member1", "karmada-cluster", "default", "kube-system"];

/// A write of an agent that its Role allows, to an object of another cluster.
fn body(resource: &ApiResource, namespace: Option<&str>, name: &str) -> Value {
    let api_version = if resource.group.is_empty() {
        resource.version.clone()
    } else {
        format!("{}/{}", resource.group, resource.version)
    };
    let mut body = json!({"apiVersion": api_version, "kind": resource.kind, "metadata": {"name": name}});
    if let Some(namespace) = namespace {
        body["metadata"]["namespace"] = json!(namespace);
    }
    let about = match namespace {
        Some("default") => json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "name": "member1"}),
        _ => json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "name": "web", "namespace": namespace}),
    };
    match resource.kind.as_str() {
        "Event" if resource.group.is_empty() => body["involvedObject"] = about,
        "Event" => {
            let more = json!({"regarding": about, "eventTime": "2026-11-21T00:00:00.000000Z", "reportingController": "a",
                "reportingInstance": "b", "action": "c", "reason": "d", "type": "Normal"});
            body.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        }
        "Cluster" => body["spec"] = json!({"syncMode": "Pull"}),
        "CertificateSigningRequest" => {
            let (request, _) = pki::request::create("system:karmada:agent:member1", &[]).expect("a request");
            body["spec"] = json!({"request": STANDARD.encode(request), "usages": ["client auth"],
                "signerName": "kubernetes.io/kube-apiserver-client"});
        }
        _ => {}
    }
    body
}

#[tokio::test(start_paused = true)]
async fn an_agent_cannot_access_another_cluster() {
    let plane = Plane::start().await;
    let admin = plane.client();
    grant(admin, "m9").await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "member1",
        "namespace": "karmada-cluster"}});
    let leases = ApiResource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
    admin.create(&leases, &lease).await.expect("a lease");
    let events = ApiResource::namespaced("", "v1", "Event", "events");
    for namespace in NAMESPACES {
        let event = body(&events, Some(namespace), "member1");
        admin.create(&events, &event).await.unwrap_or_else(|error| panic!("{event}: {error}"));
    }
    let agent = plane.agent("m9");
    let discovery = admin.discovery().await.expect("discovery");
    let mut found = Vec::new();
    let mut count = 0;
    for (_, resources) in discovery.group_versions() {
        for resource in resources {
            let resource = &resource.resource;
            let is_namespaced = !resource.collection_path(Some("x")).eq(&resource.collection_path(None));
            let places: &[Option<&str>] = match is_namespaced {
                true => &NAMESPACES.map(Some),
                false => &[None],
            };
            for place in places {
                let place = *place;
                let key = match place {
                    Some(namespace) => ObjectKey::namespaced(namespace, "member1"),
                    None => ObjectKey::cluster("member1"),
                };
                let (collection, object) = (resource.collection_path(place), resource.object_path(&key));
                let whole = body(resource, place, "member1");
                // An update names the version that it replaces.
                let live = admin.get_opt(resource, &key).await.ok().flatten();
                let mut live = live.and_then(|live| live.to_value().ok()).unwrap_or_else(|| whole.clone());
                live["metadata"]["labels"]["changed"] = json!("yes");
                let merge = json!({"metadata": {"labels": {"a": "b"}}});
                for (verb, method, path, payload) in [
                    ("get", Method::GET, object.clone(), None),
                    ("list", Method::GET, collection.clone(), None),
                    ("watch", Method::GET, format!("{collection}?watch=true&timeoutSeconds=1"), None),
                    ("create", Method::POST, collection.clone(), Some(whole.clone())),
                    ("update", Method::PUT, object.clone(), Some(live.clone())),
                    ("patch", Method::PATCH, object.clone(), Some(merge.clone())),
                    ("delete", Method::DELETE, object.clone(), None),
                    ("deletecollection", Method::DELETE, collection.clone(), None),
                    ("update status", Method::PUT, format!("{object}/status"), Some(live.clone())),
                    ("patch status", Method::PATCH, format!("{object}/status"), Some(merge.clone())),
                    ("open the tunnel", Method::POST, format!("{object}/tunnel"), None),
                ] {
                    count += 1;
                    let answer = match verb {
                        "patch" | "patch status" => {
                            let mut request = http::Request::builder()
                                .method(method)
                                .uri(&path)
                                .header("content-type", "application/merge-patch+json");
                            request = request.header("accept", "application/json");
                            let bytes = serde_json::to_vec(&payload).expect("JSON");
                            let request = request.body(transport::full(bytes)).expect("a request");
                            agent.send(request).await.expect("an answer").status().as_u16()
                        }
                        _ => code(&agent.request(method, &path, payload).await),
                    };
                    if answer != 403 {
                        found.push((format!("{verb} {}", named(resource)), path, answer));
                    }
                }
            }
        }
    }
    assert!(count > 2_000, "{count}");
    let unexpected: Vec<_> = found.iter().filter(|(what, ..)| !ALLOWED.contains(&what.as_str())).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    for allowed in ALLOWED {
        assert!(found.iter().any(|(what, ..)| what == allowed), "{allowed} is refused");
    }
}

fn named(resource: &ApiResource) -> String {
    if resource.group.is_empty() { resource.plural.clone() } else { format!("{}/{}", resource.group, resource.plural) }
}
