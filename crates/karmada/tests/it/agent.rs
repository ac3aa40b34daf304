//! An agent as a process of its own: its cluster in pull mode, from registration to what its Works came to.

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, DeleteOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

use crate::components::{Component, args, page};
use crate::fleet::{Fleet, until};

async fn tree(client: &Client, resource: &ApiResource, key: &ObjectKey) -> Option<Value> {
    client.get(resource, key).await.ok()?.to_value().ok()
}

/// Starts an agent; reading what it says blocks a thread.
async fn start(list: Vec<String>, lines: usize) -> Component {
    tokio::task::spawn_blocking(move || Component::start(&list, lines)).await.expect("no panic")
}

fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

async fn propagate(control: &Client) {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    control.create(&deployments(), &deployment).await.expect("a deployment");
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}});
    let policies = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies");
    control.create(&policies, &policy).await.expect("a policy");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_serves_its_cluster_in_pull_mode() {
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("m1").await;
    let control = fleet.admin().await;
    let plane = fleet.kubeconfig();
    let (plane, own) = (plane.to_str().expect("text"), member.kubeconfig().to_str().expect("text"));
    let with = |name: &str, more: &[&str]| {
        let mut list = args(&["agent", "--karmada-kubeconfig", plane, "--kubeconfig", own, "--cluster-name", name]);
        list.extend(args(&["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"]));
        list.extend(args(more));
        list
    };
    let more =
        ["--cluster-provider=p", "--cluster-region=r", "--cluster-zones=z1,z2", "--cluster-status-update-frequency=1s"];
    let agent = start(with("m1", &[&more[..], &["--cluster-api-endpoint", member.url()]].concat()), 3).await;
    assert_eq!(agent.said()[0], "The agent of cluster m1 is ready (3 of execution, workStatus, clusterStatus)");

    let (clusters, key) = (Cluster::api_resource(), ObjectKey::cluster("m1"));
    let cluster = until("the cluster is ready", async || {
        let cluster = tree(&control, &clusters, &key).await?;
        let conditions = cluster["status"]["conditions"].as_array()?;
        let ready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
        (ready && cluster["spec"].get("taints").is_none()).then_some(cluster)
    })
    .await;
    let spec = &cluster["spec"];
    assert_eq!((&spec["syncMode"], &spec["provider"], &spec["region"]), (&json!("Pull"), &json!("p"), &json!("r")));
    assert_eq!((&spec["zones"], &spec["apiEndpoint"]), (&json!(["z1", "z2"]), &json!(member.url())));
    assert_eq!(spec["impersonatorSecretRef"], json!({"namespace": "karmada-cluster", "name": "m1-impersonator"}));
    assert_eq!(cluster["status"]["nodeSummary"], json!({"totalNum": 2, "readyNum": 2}));

    propagate(&control).await;
    let web = ObjectKey::namespaced("default", "web");
    until("the member's status is in the template", async || {
        let live = tree(&control, &deployments(), &web).await?;
        (live["status"]["readyReplicas"] == 2).then_some(())
    })
    .await;
    let copy = tree(member.client(), &deployments(), &web).await.expect("a copy in the member");
    assert_eq!(copy["metadata"]["labels"]["karmada.io/managed"], "true");

    let leases = ApiResource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
    let lease = until("the lease is there", async || {
        tree(&control, &leases, &ObjectKey::namespaced("karmada-cluster", "m1")).await
    })
    .await;
    assert_eq!((&lease["spec"]["holderIdentity"], &lease["spec"]["leaseDurationSeconds"]), (&json!("m1"), &json!(40)));
    assert_eq!(lease["metadata"]["ownerReferences"][0]["kind"], "Cluster");
    let leader = ObjectKey::namespaced("karmada-system", "karmada-agent-m1");
    assert!(tree(&control, &leases, &leader).await.is_some(), "one agent at a time");
    let metrics = page(agent.told("metrics on "), "/metrics").await;
    assert!(metrics.contains("\ncluster_ready_state{member_cluster=\"m1\"} 1\n"), "{metrics}");

    // The same cluster under another name, and another cluster under this name, are refused.
    let refused = std::process::Command::new(env!("CARGO_BIN_EXE_karmada")).args(with("m2", &[])).output();
    let said = String::from_utf8_lossy(&refused.expect("the binary starts").stderr).into_owned();
    assert!(said.contains("the same cluster has been registered with name m1"), "{said}");
    let other = fleet.member("other").await;
    let mut list = with("m1", &[]);
    list[4] = other.kubeconfig().to_str().expect("text").to_owned();
    let refused = std::process::Command::new(env!("CARGO_BIN_EXE_karmada")).args(list).output();
    let said = String::from_utf8_lossy(&refused.expect("the binary starts").stderr).into_owned();
    assert!(said.contains("the cluster name m1 has been registered by the cluster with ID "), "{said}");

    // An agent that comes again registers again, and goes on.
    assert!(agent.terminate());
    let agent = start(with("m1", &["--report-secrets=None"]), 3).await;
    control.delete(&deployments(), &web, &DeleteOptions::default()).await.expect("a deletion");
    until("the copy is gone", async || {
        let copy = member.client().get_opt(&deployments(), &web).await.ok()?;
        copy.is_none().then_some(())
    })
    .await;

    control.delete(&clusters, &key, &DeleteOptions::default()).await.expect("a deletion");
    until("the cluster is gone", async || control.get_opt(&clusters, &key).await.ok()?.is_none().then_some(())).await;
    let works = control.list(&Work::api_resource(), Some("karmada-es-m1"), &Default::default()).await.expect("a list");
    assert!(works.items.is_empty());
    assert!(agent.terminate());
}

#[test]
fn what_is_missing_is_named() {
    let config = ["agent", "--cluster-name=m1", "--metrics-bind-address=0"];
    for (more, expected) in [
        (&[][..], "--karmada-kubeconfig must name the control plane"),
        (&["--cluster-name=A"], "--cluster-name: Invalid value: \"A\": a lowercase RFC 1123 label must consist"),
        (&["--cluster-name="], "--cluster-name: Invalid value: \"\": must be not empty"),
        (&["--report-secrets=All"], "--report-secrets: \"All\" is none of KubeCredentials, KubeImpersonator and None"),
        (&["--cluster-lease-renew-interval-fraction=1"], "must be greater than 0 and less than 1"),
        (&["--cluster-status-update-frequency=0s"], "--cluster-status-update-frequency must be greater than 0"),
        (&["--controllers=*,certRotation"], "certRotation is a controller of upstream's that is not part"),
    ] {
        let list: Vec<&str> = match more.first() {
            Some(name) if name.starts_with("--cluster-name") => [&["agent"][..], more].concat(),
            _ => [&config[..], more].concat(),
        };
        let ran =
            std::process::Command::new(env!("CARGO_BIN_EXE_karmada")).args(&list).env_remove("KUBECONFIG").output();
        let ran = ran.expect("the binary starts");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.code() == Some(1) && said.contains(expected), "{list:?}: {said}");
    }
}

/// Nothing is registered by an agent that cannot start.
#[test]
fn a_taken_port_is_found_before_the_control_plane_is_called() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    for flag in ["--metrics-bind-address", "--health-probe-bind-address"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_karmada"));
        command.args(["agent", "--cluster-name=m1", "--karmada-kubeconfig=missing"]);
        for probe in ["--metrics-bind-address", "--health-probe-bind-address"] {
            command.arg(if probe == flag { format!("{probe}={address}") } else { format!("{probe}=127.0.0.1:0") });
        }
        let ran = command.env_remove("KUBECONFIG").output().expect("the binary starts");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        let expected = format!("{flag}: cannot listen on {address}");
        assert!(ran.status.code() == Some(1) && said.contains(&expected), "{said}");
    }
}
