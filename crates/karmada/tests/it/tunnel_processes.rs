//! A member that the control plane cannot dial, with its agent as a process: access, search, and kills of either side.

use apimachinery::{ApiResource, ObjectKey};
use client::Client;
use futures::future::join_all;
use http::Method;
use pki::Authority;
use serde_json::{Value, json};
use world::World;

use crate::components::{Component, args};
use crate::fleet::{Fleet, proxied, until};
use crate::process::Karmada;
use crate::search_alone::Front;

/// The member's certificate is valid for the name, and the control plane cannot resolve it.
const ENDPOINT: &str = "--cluster-api-endpoint=https://kubernetes.default.svc:6443";

/// An agent of `m1` whose first line reports only that it runs; it is killed when it is dropped.
async fn agent(control: &str, member: &str, more: &[&str]) -> Component {
    let mut list = args(&["agent", "--karmada-kubeconfig", control, "--kubeconfig", member, "--cluster-name=m1"]);
    list.extend(args(&["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"]));
    list.extend(args(&["--cluster-status-update-frequency=1s", "--leader-elect-lease-duration=8s"]));
    // A busy machine may let a process wait for seconds; one that cannot renew its Lease exits.
    list.extend(args(&["--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms"]));
    list.extend(args(more));
    tokio::task::spawn_blocking(move || Component::start(&list, 0)).await.expect("no panic")
}

async fn get(client: &Client, path: &str) -> Option<Value> {
    serde_json::from_slice(&client.request(Method::GET, path, None).await.ok()?).ok()
}

/// The search server and the metrics adapter have no tunnels: they send requests to members in pull mode to the API
/// server.
#[tokio::test(flavor = "multi_thread")]
async fn processes_beside_the_api_server_read_members_in_pull_mode() {
    let fleet = Fleet::start(&[]).await;
    let (member, admin) = (fleet.member("m1").await, fleet.admin().await);
    let control = fleet.kubeconfig().display().to_string();
    let _agent = agent(&control, &member.kubeconfig().display().to_string(), &[]).await;
    ready(&admin).await;
    reached(&admin).await;
    let directory = tempfile::tempdir().expect("a directory");
    let world = World::system();
    let (authority, _) = Authority::generate("front-proxy-ca", &world).expect("an authority");
    let pair = authority.issue_client("front-proxy-client", &[], &world).expect("a certificate");
    let ca = directory.path().join("front.crt");
    std::fs::write(&ca, authority.certificate()).expect("a file");
    let beside = async |name: &str, more: &[&str]| {
        let mut own = args(&[name, "--kubeconfig", &control, "--bind-address=127.0.0.1", "--secure-port=0"]);
        own.extend(args(&["--requestheader-allowed-names=front-proxy-client", "--requestheader-client-ca-file"]));
        own.extend(args(&[
            &ca.display().to_string(),
            "--data-dir",
            &directory.path().join(name).display().to_string(),
        ]));
        own.extend(args(more));
        tokio::task::spawn_blocking(move || Component::start(&own, 1)).await.expect("no panic")
    };
    let count = |body: &str| {
        let list: Value = serde_json::from_str(body).unwrap_or_default();
        list["items"].as_array().map_or(0, Vec::len)
    };

    let adapter = beside("metrics-adapter", &["--metrics-bind-address=0"]).await;
    let front = Front::connect(adapter.text_after("The metrics adapter is ready on "), &pair).await;
    until("the usage of the nodes", async || {
        let (_, body) = front.request("ann", Method::GET, "/apis/metrics.k8s.io/v1beta1/nodes", None).await;
        (count(&body) == 2).then_some(())
    })
    .await;

    let search = beside("search", &[]).await;
    let front = Front::connect(search.text_after("The search API server is ready on "), &pair).await;
    let group = "/apis/search.karmada.io/v1alpha1";
    let registry = json!({"apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": {"name": "nodes"},
        "spec": {"targetCluster": {}, "resourceSelectors": [{"apiVersion": "v1", "kind": "Node"}]}});
    let (code, body) =
        front.request("ann", Method::POST, &format!("{group}/resourceregistries"), Some(&registry)).await;
    assert_eq!(code, 201, "{body}");
    for path in ["search/cache/api/v1/nodes", "proxying/karmada/proxy/api/v1/nodes"] {
        until(path, async || {
            let (_, body) = front.request("ann", Method::GET, &format!("{group}/{path}"), None).await;
            (count(&body) == 2).then_some(())
        })
        .await;
    }
    // A request for one object is sent as the user, who needs rights in the member.
    let node = format!("{group}/proxying/karmada/proxy/api/v1/nodes/m1-node-1");
    let label = json!({"metadata": {"labels": {"touched": "yes"}}});
    let mut patch = http::Request::patch(&node).header("content-type", "application/merge-patch+json");
    patch = patch.header("x-remote-user", "kubernetes-admin").header("x-remote-group", "system:masters");
    let answer = front.send(patch.body(transport::full(label.to_string())).expect("a request")).await;
    assert_eq!(answer, 200);
    let nodes = ApiResource::cluster("", "v1", "Node", "nodes");
    let live = member.client().get(&nodes, &ObjectKey::cluster("m1-node-1")).await.expect("a node");
    assert_eq!(live.label("touched"), Some("yes"));
    assert!(adapter.terminate() && search.terminate());
}

/// A namespace of the member through the proxy.
async fn reached(admin: &Client) {
    until("the member is reached", async || get(admin, &proxied("m1", "/api/v1/namespaces/default")).await).await;
}

async fn ready(admin: &Client) {
    until("m1 is ready", async || {
        let cluster = get(admin, "/apis/cluster.karmada.io/v1alpha1/clusters/m1").await?;
        let conditions = cluster["status"]["conditions"].as_array()?;
        let ready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
        (ready && cluster["spec"].get("taints").is_none()).then_some(())
    })
    .await;
}

async fn propagate(control: &Client, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    let maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    control.create(&maps, &object).await.expect("a template");
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": name}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}});
    let policies = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies");
    control.create(&policies, &policy).await.expect("a policy");
}

async fn applied(member: &Client, name: &str) {
    let maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let key = ObjectKey::namespaced("default", name);
    until(&format!("{name} is in the member"), async || member.get_opt(&maps, &key).await.ok()?.map(|_| ())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_an_inbound_path_is_reached_through_its_agent() {
    let fleet = Fleet::start(&[]).await;
    let (member, admin) = (fleet.member("m1").await, fleet.admin().await);
    let (control, own) = (fleet.kubeconfig().display().to_string(), member.kubeconfig().display().to_string());
    let first = agent(&control, &own, &[ENDPOINT]).await;
    ready(&admin).await;
    reached(&admin).await;

    let answers =
        join_all((0..200).map(|_| get(&admin, "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy/api/v1/nodes")));
    for nodes in answers.await {
        assert_eq!(nodes.expect("an answer")["items"].as_array().map(Vec::len), Some(2));
    }
    let nodes = fleet.karmadactl(&["get", "nodes", "--operation-scope=members", "-C", "m1"]).await.ok();
    assert!(nodes.contains("m1-node-1"), "{nodes}");
    searched(&admin).await;
    let metrics = admin.request(Method::GET, "/metrics", None).await.expect("metrics");
    let metrics = String::from_utf8_lossy(&metrics);
    assert!(metrics.contains("karmada_tunnels{member_cluster=\"m1\"} 1"), "{metrics}");

    // Of two agents, one has the Lease, and both have a tunnel.
    let second = agent(&control, &own, &[ENDPOINT]).await;
    until("two tunnels", async || {
        let metrics = admin.request(Method::GET, "/metrics", None).await.ok()?;
        String::from_utf8_lossy(&metrics).contains("karmada_tunnels{member_cluster=\"m1\"} 2").then_some(())
    })
    .await;
    drop(first);
    reached(&admin).await;
    propagate(&admin, "after").await;
    applied(member.client(), "after").await;
    drop(second);
    until("the way is gone", async || {
        let request = http::Request::get(proxied("m1", "/api")).body(transport::empty()).expect("a request");
        (admin.send(request).await.ok()?.status() == 503).then_some(())
    })
    .await;

    // Without an endpoint the tunnel is the only connection.
    let clusters = ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
    let none = agent(&control, &own, &["--enable-tunnel=false"]).await;
    until("the agent has taken the endpoint away", async || {
        let cluster = get(&admin, "/apis/cluster.karmada.io/v1alpha1/clusters/m1").await?;
        cluster["spec"]["apiEndpoint"].as_str().unwrap_or_default().is_empty().then_some(())
    })
    .await;
    let error = admin.request(Method::GET, &proxied("m1", "/api"), None).await.expect_err("no way");
    assert!(
        error.to_string().contains("API endpoint of cluster m1 should not be empty: it is registered in Pull"),
        "{error}"
    );
    drop(none);
    let _tunnel = agent(&control, &own, &[]).await;
    reached(&admin).await;
    admin.delete(&clusters, &ObjectKey::cluster("m1"), &Default::default()).await.expect("deleted");
}

/// The caches of search, and lists and watches over all members.
async fn searched(admin: &Client) {
    let registries = ApiResource::cluster("search.karmada.io", "v1alpha1", "ResourceRegistry", "resourceregistries");
    let registry = json!({"apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": {"name": "nodes"},
        "spec": {"targetCluster": {}, "resourceSelectors": [{"apiVersion": "v1", "kind": "Node"}]}});
    admin.create(&registries, &registry).await.expect("a registry");
    for path in ["search/cache/api/v1/nodes", "proxying/karmada/proxy/api/v1/nodes"] {
        let path = format!("/apis/search.karmada.io/v1alpha1/{path}");
        until(&path, async || (get(admin, &path).await?["items"].as_array()?.len() == 2).then_some(())).await;
    }
    let one = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy/api/v1/nodes/m1-node-1";
    until("a single node", async || get(admin, one).await).await;
}

/// Also changes the agent's kubeconfig: the control plane has another port after its restart.
#[tokio::test(flavor = "multi_thread")]
async fn tunnels_are_reopened_after_a_kill_without_lost_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data, own) = (directory.path().join("karmada"), directory.path().join("m1"));
    let member = tokio::task::spawn_blocking(move || Karmada::member("m1", &own)).await.expect("no panic");
    let up = |data: std::path::PathBuf| async move {
        let plane = tokio::task::spawn_blocking(move || Karmada::up(&data)).await.expect("no panic");
        let admin = Client::from_kubeconfig(plane.kubeconfig().as_ref(), None).await.expect("a kubeconfig");
        (plane, admin)
    };
    let (plane, admin) = up(data.clone()).await;
    let _agent = agent(plane.kubeconfig(), member.kubeconfig(), &[ENDPOINT]).await;
    ready(&admin).await;
    reached(&admin).await;
    propagate(&admin, "before").await;
    plane.kill();
    let (_plane, admin) = up(data).await;
    reached(&admin).await;
    let near = Client::from_kubeconfig(member.kubeconfig().as_ref(), None).await.expect("a kubeconfig");
    propagate(&admin, "after").await;
    applied(&near, "before").await;
    applied(&near, "after").await;
}
