//! An agent with the rights that upstream's `register` grants, and no more.

use apimachinery::{ApiResource, ObjectKey};
use client::DeleteOptions;
use karmada_api::agents;

use crate::fleet::{Fleet, until};
use crate::registering_journey::{agent_args, agent_key, applied, installed, propagate, ready, secrets, tree};

/// Verb and resource of rejected requests, by the metrics of the API server.
fn refused(metrics: &str) -> Vec<String> {
    let label = |line: &str, name: &str| {
        let value = line.split_once(&format!("{name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
        value.map(|(value, _)| value.to_owned()).unwrap_or_default()
    };
    let lines = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    let lines = lines.filter(|line| line.contains("code=\"403\""));
    let mut found: Vec<String> =
        lines.map(|line| format!("{} {}", label(line, "verb"), label(line, "resource"))).collect();
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_works_with_upstreams_rights_and_logs_missing_ones_once() {
    let fleet = Fleet::start(&[]).await;
    let (member, control) = (fleet.member("m1").await, fleet.admin().await);
    let directory = tempfile::tempdir().expect("a directory");
    let command = fleet.register_command().await;
    fleet
        .register(&command, &member, &["--cluster-name=m1", "--enable-cert-rotation", "--cert-expiration-seconds=3600"])
        .await
        .ok();
    // Upstream's `register` grants six objects, and upstream's control plane shows `cluster-info` to anonymous clients
    // only.
    let agent_grants = agents::grants("m1", "karmada-cluster");
    let resume: Vec<_> =
        agent_grants.iter().filter(|grant| grant.object["metadata"]["namespace"] == "karmada-system").collect();
    assert_eq!((agent_grants.len(), resume.len()), (8, 2));
    let bindings = ApiResource::namespaced("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");
    let public = ObjectKey::namespaced("kube-public", "system:karmada:bootstrap-signer-clusterinfo");
    let only_anonymous = serde_json::json!({"subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}]});
    let only_anonymous = client::Patch::Merge(only_anonymous);
    control.patch(&bindings, &public, &only_anonymous, &Default::default()).await.expect("a change");
    for grant in resume {
        let key = ObjectKey::namespaced("karmada-system", grant.object["metadata"]["name"].as_str().expect("a name"));
        control.delete(&grant.resource, &key, &DeleteOptions::default()).await.expect("a deletion");
    }
    let (config, agent) = installed(member.client(), directory.path()).await;
    let before = tree(member.client(), &secrets(), &agent_key("karmada-kubeconfig")).await.expect("a Secret");
    let log = directory.path().join("log");
    let mut agent = std::process::Command::new(env!("CARGO_BIN_EXE_karmada"))
        .args(agent_args(&agent, &config, &member))
        // Due immediately, because certificates are backdated by five minutes; not due again within the test.
        .args(["--cert-rotation-remaining-time-threshold=0.99", "--cert-rotation-checking-interval=1h"])
        .env_remove("KUBECONFIG")
        .env("KARMADA_LOG", "warn")
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(&log).expect("a file"))
        .spawn()
        .expect("the binary starts");
    ready(&control, "m1").await;
    propagate(&control, "first").await;
    applied(member.client(), "first", true).await;
    until("the certificate is renewed", async || {
        let secret = tree(member.client(), &secrets(), &agent_key("karmada-kubeconfig")).await?;
        (secret["data"] != before["data"]).then_some(())
    })
    .await;
    let maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let first = ObjectKey::namespaced("default", "first");
    control.delete(&maps, &first, &DeleteOptions::default()).await.expect("a deletion");
    applied(member.client(), "first", false).await;

    // Upstream's API server admits events of agents about templates, ours only those about Works. Events are written
    // behind.
    until("the refused requests are those two", async || {
        let metrics = control.request(http::Method::GET, "/metrics", None).await.expect("metrics");
        (refused(&String::from_utf8_lossy(&metrics)) == ["LIST configmaps", "POST events"]).then_some(())
    })
    .await;
    agent.kill().expect("it runs");
    agent.wait().expect("it ends");
    let log = std::fs::read_to_string(&log).expect("a log");
    let warnings: Vec<&str> = log.lines().collect();
    assert_eq!(log.matches("List of incarnations may not be read").count(), 1, "{log}");
    assert_eq!(warnings.len(), 1, "{log}");
}
