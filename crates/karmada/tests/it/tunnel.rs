//! The rights to open the tunnel of a cluster, and the errors without a tunnel.

use apimachinery::ApiResource;
use client::Client;
use http::Method;
use karmada_api::agents;
use serde_json::{Value, json};
use transport::Identity;

use crate::fleet::{Fleet, proxied};
use crate::plane::Plane;

fn clusters() -> ApiResource {
    ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters")
}

fn as_user(plane: &Plane, user: &str, groups: &[&str]) -> Client {
    let groups = groups.iter().chain(&["system:authenticated"]).map(|group| (*group).to_owned()).collect();
    Client::in_process(plane.plane.service(), Identity { user: user.into(), groups, ..Identity::default() })
}

async fn refusal(client: &Client, method: Method, path: &str) -> (u16, String) {
    let error = client.request(method, path, None).await.expect_err("a refusal");
    let status = error.status().expect("a status").clone();
    (status.code, status.message)
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_is_opened_by_its_clusters_agent_only() {
    let plane = Plane::start().await;
    let admin = plane.client();
    for (name, mode) in [("m1", "Pull"), ("m2", "Pull"), ("pushed", "Push")] {
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"syncMode": mode, "apiEndpoint": "https://member.invalid:6443"}});
        admin.create(&clusters(), &cluster).await.expect("a cluster");
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("karmada-es-{name}")}});
        // The controllers may be faster.
        let _ = admin.create(&ApiResource::cluster("", "v1", "Namespace", "namespaces"), &namespace).await;
    }
    for grant in agents::grants("m1", "karmada-cluster") {
        admin.create(&grant.resource, &grant.object).await.expect("a grant");
    }
    // An administrator allows all agents to open all tunnels.
    let rbac = |kind: &str, plural: &str| ApiResource::cluster("rbac.authorization.k8s.io", "v1", kind, plural);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "wide"},
        "rules": [{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/tunnel"], "verbs": ["*"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "wide"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "wide"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "wide"}});
    admin.create(&rbac("ClusterRole", "clusterroles"), &role).await.expect("a role");
    admin.create(&rbac("ClusterRoleBinding", "clusterrolebindings"), &binding).await.expect("a binding");

    let [one, two] = ["m1", "m2"].map(agents::user);
    let cannot = "cannot create resource \"clusters/tunnel\" in API group \"cluster.karmada.io\" at the cluster scope";
    let allowed = "a tunnel is opened with the header Upgrade: h2-reverse";
    for (user, group, method, cluster, code, text) in [
        (one.as_str(), agents::GROUP, Method::POST, "m1", 400, allowed),
        (&one, agents::GROUP, Method::GET, "m1", 403, "cannot get resource \"clusters/tunnel\""),
        (&one, agents::GROUP, Method::POST, "m2", 403, cannot),
        (&two, agents::GROUP, Method::POST, "m1", 403, cannot),
        (&two, agents::GROUP, Method::POST, "m2", 403, cannot),
        (&two, "wide", Method::POST, "m1", 403, "the agent of cluster m2 may open the tunnel of its own cluster only"),
        (&two, "wide", Method::POST, "m2", 400, allowed),
        (&two, "wide", Method::GET, "m2", 405, "the server does not allow this method on the requested resource"),
        ("tom", "dev", Method::POST, "m1", 403, cannot),
        ("tom", "wide", Method::POST, "m1", 400, allowed),
        ("tom", "wide", Method::POST, "pushed", 409, "it is registered in Push mode"),
        ("tom", "wide", Method::POST, "nosuch", 404, "clusters.cluster.karmada.io \"nosuch\" not found"),
    ] {
        let client = as_user(&plane, user, &[group]);
        let (found, message) = refusal(&client, method.clone(), &tunnel::path(cluster)).await;
        assert!(found == code && message.contains(text), "{user} {group} {method} {cluster}: {found} {message}");
    }
    // A connection that cannot be upgraded.
    let mut request = http::Request::post(tunnel::path("m1")).header("upgrade", tunnel::PROTOCOL);
    request = request.header("connection", "Upgrade");
    let client = as_user(&plane, &one, &[agents::GROUP]);
    let answer = client.send(request.body(transport::empty()).expect("a request")).await.expect("an answer");
    assert_eq!(answer.status(), 400);
}

#[tokio::test]
async fn without_a_tunnel_the_next_step_is_named() {
    let fleet = Fleet::start(&[]).await;
    let (control, admin) = (fleet.plane.client(), fleet.admin().await);
    let secrets = ApiResource::namespaced("", "v1", "Secret", "secrets");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
        "data": {"token": "dG9rZW4="}});
    control.create(&secrets, &secret).await.expect("created");
    // Port 1 has no listener.
    let cluster = |mode: &str| -> Value {
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": mode.to_lowercase()},
            "spec": {"syncMode": mode, "apiEndpoint": "https://127.0.0.1:1", "insecureSkipTLSVerification": false,
                     "impersonatorSecretRef": {"namespace": "default", "name": "s"}}})
    };
    for mode in ["Pull", "Push"] {
        control.create(&clusters(), &cluster(mode)).await.expect("created");
    }
    let (code, message) = refusal(&admin, Method::GET, &proxied("pull", "/api")).await;
    assert_eq!(code, 503, "{message}");
    let expected = "cluster \"pull\" is registered in Pull mode, its endpoint 127.0.0.1:1 cannot be reached";
    assert!(message.contains(expected), "{message}");
    assert!(message.contains("and no agent tunnel is connected; next step: check that the agent"), "{message}");
    let (code, message) = refusal(&admin, Method::GET, &proxied("push", "/api")).await;
    assert!(code == 503 && !message.contains("tunnel"), "{message}");
}
