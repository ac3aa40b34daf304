//! `clusters/NAME/proxy`: through the control plane's socket to a member's, and the caller's view of it.

use apimachinery::ApiResource;
use client::Client;
use futures::StreamExt;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use transport::Identity;

use crate::fleet::{Fleet, proxied, until};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn get(client: &Client, path: &str) -> Result<Value, client::Error> {
    let bytes = client.request(Method::GET, path, None).await?;
    Ok(serde_json::from_slice(&bytes).expect("JSON"))
}

/// Code and message of an error response.
async fn refusal(client: &Client, path: &str) -> (u16, String) {
    let error = get(client, path).await.expect_err("a refusal");
    let status = error.status().expect("a status").clone();
    (status.code, status.message)
}

#[tokio::test]
async fn every_verb_reaches_the_member_and_responses_stream() {
    let fleet = Fleet::start(&["inside"]).await;
    let outside = fleet.member("outside").await;
    fleet.join(&outside).await;
    let admin = fleet.admin().await;
    for cluster in ["inside", "outside"] {
        fleet.reachable(cluster).await;
        let path = proxied(cluster, CONFIG_MAPS);
        let watch = http::Request::get(format!("{path}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dc"));
        let watch = admin.send(watch.body(transport::empty()).expect("a request")).await.expect("an answer");
        assert_eq!(watch.status(), 200, "{cluster}");
        let mut events = watch.into_body().into_data_stream();

        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}});
        admin.request(Method::POST, &path, Some(object)).await.expect("created");
        let event = events.next().await.expect("an event").expect("readable");
        let event: Value = serde_json::from_slice(&event).expect("one event");
        assert_eq!((&event["type"], &event["object"]["data"]["a"]), (&json!("ADDED"), &json!("1")), "{cluster}");

        let mut object = get(&admin, &format!("{path}/c")).await.expect("read");
        object["data"]["a"] = json!("2");
        let one = format!("{path}/c");
        admin.request(Method::PUT, &one, Some(object)).await.expect("replaced");
        let patch = http::Request::patch(&one).header("content-type", "application/merge-patch+json");
        let patch = patch.body(transport::full(r#"{"data":{"b":"3"}}"#)).expect("a request");
        assert_eq!(admin.send(patch).await.expect("an answer").status(), 200);
        assert_eq!(get(&admin, &one).await.expect("read")["data"], json!({"a": "2", "b": "3"}));
        admin.request(Method::DELETE, &one, None).await.expect("deleted");
        let gone = refusal(&admin, &one).await;
        assert_eq!(gone, (404, "configmaps \"c\" not found".into()), "the member's own words");
    }
    let here = get(&admin, CONFIG_MAPS).await.expect("the control plane's own");
    assert!(!here.to_string().contains("\"c\""), "nothing was written beside the member");
}

#[tokio::test]
async fn the_member_decides_for_the_user_and_failures_name_the_cluster() {
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("m1").await;
    fleet.join(&member).await;
    fleet.reachable("m1").await;
    let (admin, nodes) = (fleet.admin().await, proxied("m1", "/api/v1/nodes"));

    let tom = Identity { user: "tom".into(), groups: vec!["system:authenticated".into()], ..Identity::default() };
    let tom = Client::in_process(fleet.plane.service(), tom);
    let (code, message) = refusal(&tom, &nodes).await;
    let cannot = "clusters.cluster.karmada.io \"m1\" is forbidden: User \"tom\" cannot get resource \"clusters/proxy\" \
                  in API group \"cluster.karmada.io\" at the cluster scope";
    assert_eq!((code, message.as_str()), (403, cannot));

    let rbac = |kind: &str, plural: &str| ApiResource::cluster("rbac.authorization.k8s.io", "v1", kind, plural);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "m1"},
        "rules": [{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "resourceNames": ["m1"],
                   "verbs": ["*"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "m1"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tom"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "m1"}});
    let control = fleet.plane.client();
    control.create(&rbac("ClusterRole", "clusterroles"), &role).await.expect("created");
    control.create(&rbac("ClusterRoleBinding", "clusterrolebindings"), &binding).await.expect("created");
    until("tom is authorized in m1", async || get(&tom, &proxied("m1", "/api")).await.ok()).await;
    let cannot =
        "nodes is forbidden: User \"tom\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
    assert_eq!(refusal(&tom, &nodes).await, (403, cannot.into()));

    let not_found = "clusters.cluster.karmada.io \"nosuch\" not found";
    assert_eq!(refusal(&admin, &proxied("nosuch", "/api")).await, (404, not_found.into()));

    let url = member.url().to_owned();
    member.stop().await.expect("stopped");
    let (code, message) = refusal(&admin, &nodes).await;
    assert_eq!(code, 503, "{message}");
    assert!(message.starts_with("cluster m1 cannot be reached: GET /api/v1/nodes: "), "{message} ({url})");
}

#[tokio::test]
async fn missing_configuration_of_a_cluster_is_reported() {
    let fleet = Fleet::start(&[]).await;
    let (control, admin) = (fleet.plane.client(), fleet.admin().await);
    let secret = json!({"namespace": "karmada-cluster", "name": "nosuch"});
    let rows = [
        ("no-endpoint", json!({}), "API endpoint of cluster no-endpoint should not be empty"),
        ("no-ref", json!({"apiEndpoint": "https://127.0.0.1:1"}), "the impersonatorSecretRef of cluster no-ref is nil"),
        (
            "no-secret",
            json!({"apiEndpoint": "https://127.0.0.1:1", "impersonatorSecretRef": secret}),
            "failed to get impresonateToken for cluster no-secret: secrets \"nosuch\" not found in namespace \
             karmada-cluster",
        ),
    ];
    for (name, mut spec, expected) in rows {
        spec["syncMode"] = json!("Push");
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": spec});
        let resource = ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
        control.create(&resource, &cluster).await.expect("created");
        assert_eq!(refusal(&admin, &proxied(name, "/api")).await, (500, expected.into()));
    }
}

/// exec, attach and port-forward upgrade the connection, and bytes flow in both directions.
#[tokio::test]
async fn upgraded_connections_are_joined() {
    let fleet = Fleet::start_with(&[], |options| options.server.admission.allow_http_endpoints = true).await;
    let (address, heads) = switching_member().await;
    let control = fleet.plane.client();
    let secrets = ApiResource::namespaced("", "v1", "Secret", "secrets");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
        "data": {"token": "dG9rZW4="}});
    control.create(&secrets, &secret).await.expect("created");
    let clusters = ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m"},
        "spec": {"syncMode": "Push", "apiEndpoint": format!("http://{address}/base"),
                 "impersonatorSecretRef": {"namespace": "default", "name": "s"}}});
    control.create(&clusters, &cluster).await.expect("created");

    let path = proxied("m", "/api/v1/namespaces/default/pods/p/exec?command=sh");
    let request = http::Request::post(path).header("connection", "Upgrade").header("upgrade", "SPDY/3.1");
    let mut response =
        fleet.admin().await.send(request.body(transport::empty()).expect("a request")).await.expect("an answer");
    assert_eq!(response.status(), 101);
    assert_eq!(response.headers()["upgrade"], "SPDY/3.1");
    let upgraded = hyper::upgrade::on(&mut response).await.expect("upgraded");
    let mut stream = hyper_util::rt::TokioIo::new(upgraded);
    stream.write_all(b"hello").await.expect("written");
    let mut echoed = [0; 5];
    stream.read_exact(&mut echoed).await.expect("read");
    assert_eq!(&echoed, b"hello");

    let head = heads.await.expect("the member received a request").to_ascii_lowercase();
    assert!(head.starts_with("post /base/api/v1/namespaces/default/pods/p/exec?command=sh http/1.1\r\n"), "{head}");
    for line in ["authorization: bearer token\r\n", "impersonate-user: kubernetes-admin\r\n", "upgrade: spdy/3.1\r\n"] {
        assert!(head.contains(line), "{line} in {head}");
    }
}

/// Responds to its first request with 101 and then echoes; returns the head of that request separately.
async fn switching_member() -> (std::net::SocketAddr, oneshot::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    let (head, heads) = oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            read.push(stream.read_u8().await.expect("a head"));
        }
        head.send(String::from_utf8(read).expect("text")).expect("the test waits");
        let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
        stream.write_all(switch).await.expect("written");
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await.expect("echoed");
    });
    (address, heads)
}

#[tokio::test]
async fn all_clusters_are_queried_concurrently() {
    let fleet = Fleet::start(&["inside"]).await;
    let outside = fleet.member("outside").await;
    fleet.join(&outside).await;
    let admin = fleet.admin().await;
    for cluster in ["inside", "outside"] {
        fleet.reachable(cluster).await;
        let named = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("of-{cluster}")}});
        let shared = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}});
        for object in [named, shared] {
            admin.request(Method::POST, &proxied(cluster, CONFIG_MAPS), Some(object)).await.expect("created");
        }
    }
    for (method, path, code, text) in [
        (Method::GET, "/api".to_owned(), 200, "APIVersions"),
        (Method::GET, format!("{CONFIG_MAPS}/of-outside"), 200, "of-outside"),
        (Method::GET, format!("{CONFIG_MAPS}/nowhere"), 404, "resource not found or don't have permission to get it\n"),
        (
            Method::GET,
            format!("{CONFIG_MAPS}/shared"),
            409,
            "conflict resource, exist in more than one cluster: inside,outside\n",
        ),
        (Method::GET, "/apis/apps/v1/nothings".to_owned(), 404, "not found\n"),
        (Method::POST, CONFIG_MAPS.to_owned(), 405, "Request verb create is not support\n"),
        (Method::DELETE, format!("{CONFIG_MAPS}/of-inside"), 200, ""),
    ] {
        let request = http::Request::builder().method(method.clone()).uri(proxied("*", &path)).body(transport::empty());
        let response = admin.send(request.expect("a request")).await.expect("an answer");
        let found = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a whole answer").to_bytes();
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(found == code && body.contains(text), "{method} {path}: {found} {body}");
    }
    let list = get(&admin, &proxied("*", CONFIG_MAPS)).await.expect("a list");
    let items = list["items"].as_array().expect("a list").iter();
    let names: Vec<&str> = items.filter_map(|it| it["metadata"]["name"].as_str()).collect();
    let user_maps: Vec<&str> = names.into_iter().filter(|name| *name != "kube-root-ca.crt").collect();
    assert_eq!(user_maps, ["shared", "of-outside", "shared"]);
}
