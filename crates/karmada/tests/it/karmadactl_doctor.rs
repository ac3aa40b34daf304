//! `karmadactl doctor` with a healthy control plane, and with a member that does not respond.

use apimachinery::{ApiResource, ObjectKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::DeleteOptions;
use karmada_api::scope::{Binding, Policy, Scope};
use serde_json::{Value, json};

use crate::fleet::{Fleet, until};

async fn create(fleet: &Fleet, resource: &ApiResource, object: Value) {
    fleet.plane.client().create(resource, &object).await.expect("created");
}

#[tokio::test]
async fn a_healthy_control_plane_has_no_findings_and_a_dead_member_has() {
    let fleet = Fleet::start(&["member1"]).await;
    fleet.reachable("member1").await;
    until("nothing is wrong", async || {
        let ran = fleet.karmadactl(&["doctor"]).await;
        // The member's first status may be in flight.
        (ran.code == Some(0) && ran.out.starts_with("Nothing is wrong. Checked: the control plane, 1 members"))
            .then_some(())
    })
    .await;

    let secrets = ApiResource::namespaced("", "v1", "Secret", "secrets");
    create(
        &fleet,
        &secrets,
        json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default"}, "data": {"token": "dG9rZW4="}}),
    )
    .await;
    let clusters = ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
    create(
        &fleet,
        &clusters,
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "gone"},
        "spec": {"syncMode": "Push", "apiEndpoint": "https://127.0.0.1:1", "insecureSkipTLSVerification": true,
                 "impersonatorSecretRef": {"namespace": "default", "name": "s"}}}),
    )
    .await;
    let ran = fleet.karmadactl(&["doctor", "--timeout=20s"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    assert!(ran.out.contains("error: cluster gone: the proxy does not reach it\n  evidence: "), "{}", ran.out);
    assert!(ran.out.contains("\n  next:     karmadactl describe cluster gone\n"), "{}", ran.out);
    assert!(!ran.out.contains("cluster member1"), "{}", ran.out);

    let ran = fleet.karmadactl(&["doctor", "-o", "json"]).await;
    assert_eq!(ran.code, Some(1));
    let document: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(document["checked"]["members"], 2);
    let severities = document["findings"].as_array().expect("findings").iter().map(|it| it["severity"].as_str());
    assert!(severities.clone().all(|it| it == Some("error")), "{}", ran.out);
    let refused = fleet.karmadactl(&["doctor", "member1"]).await;
    assert!(
        refused.err.starts_with("error: too many arguments: \"member1\"\nUsage: karmadactl doctor [options]\n"),
        "{}",
        refused.err
    );
}

/// A Job that is deleted without a propagation policy is deleted alone, so its binding and its copies stay.
#[tokio::test]
async fn a_binding_without_its_template_is_found() {
    let fleet = Fleet::start(&["member1"]).await;
    let policies = Policy::api_resource(Scope::Namespaced);
    create(
        &fleet,
        &policies,
        json!({"apiVersion": policies.api_version(), "kind": policies.kind, "metadata": {"name": "p", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "batch/v1", "kind": "Job"}]}}),
    )
    .await;
    let (jobs, key) = (ApiResource::namespaced("batch", "v1", "Job", "jobs"), ObjectKey::namespaced("default", "j"));
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": template}});
    create(&fleet, &jobs, job).await;
    let (client, bindings) = (fleet.plane.client(), Binding::api_resource(Scope::Namespaced));
    let binding = ObjectKey::namespaced("default", "j-job");
    until("the binding exists", async || client.get(&bindings, &binding).await.ok().map(drop)).await;
    client.delete(&jobs, &key, &DeleteOptions::default()).await.expect("deleted");
    let found =
        "warning: job default/j (resourcebinding default/j-job): its template was deleted and its copies were kept\n";
    until("the binding is named", async || fleet.karmadactl(&["doctor"]).await.out.contains(found).then_some(())).await;
    client.get(&bindings, &binding).await.expect("the binding is kept");
}

/// The Secret of an agent whose certificate was issued at the time of `world`.
fn agent_secret(world: &world::World) -> Value {
    let (authority, _) = pki::Authority::generate("ca", world).expect("an authority");
    let pair = authority.issue_client("system:karmada:agent:m1", &[], world).expect("a certificate");
    let user = pki::kubeconfig::User::with_certificate(&pair);
    let config = pki::Kubeconfig::new("karmada", "https://karmada.invalid", "", "agent", user);
    let text = STANDARD.encode(config.to_yaml().expect("a kubeconfig"));
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "karmada-kubeconfig", "namespace": "default"},
        "data": {"karmada-kubeconfig": text}})
}

#[tokio::test]
async fn agents_certificates_and_tunnels_are_checked() {
    let fleet = Fleet::start(&["member1"]).await;
    fleet.reachable("member1").await;
    let admin = fleet.admin().await;
    let clusters = ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
    let pull = json!({"spec": {"syncMode": "Pull"}});
    let key = ObjectKey::cluster("member1");
    admin.patch(&clusters, &key, &client::Patch::Merge(pull), &Default::default()).await.expect("patched");
    create(
        &fleet,
        &clusters,
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "behind"},
        "spec": {"syncMode": "Pull"}}),
    )
    .await;
    let long_ago = world::World::simulated("2010-01-01T00:00:00Z".parse().expect("a time"), 0);
    let secret = serde_json::to_vec(&agent_secret(&long_ago)).expect("JSON");
    let path = crate::fleet::proxied("member1", "/api/v1/namespaces/default/secrets");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(transport::full(secret))
        .expect("a request");
    assert_eq!(admin.send(request).await.expect("an answer").status(), 201);
    let ran = fleet.karmadactl(&["doctor", "--timeout=20s"]).await;
    assert!(
        ran.out.contains("error: cluster member1: its agent's certificate has expired\n  evidence: "),
        "{}",
        ran.out
    );
    let closed = "warning: cluster behind: its tunnel is not open, so get, logs and exec do not reach it\n  evidence: ";
    assert!(ran.out.contains(closed), "{}", ran.out);
}

#[tokio::test]
async fn a_lost_right_of_an_agent_is_restored_by_the_printed_object() {
    let fleet = Fleet::start(&[]).await;
    let admin = fleet.admin().await;
    let clusters = ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"syncMode": "Pull"}});
    create(&fleet, &clusters, cluster).await;
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    let secrets = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-cluster"}});
    create(&fleet, &namespaces, secrets).await;
    let key = ObjectKey::cluster("karmada-es-m1");
    until("the execution namespace exists", async || admin.get(&namespaces, &key).await.ok().map(drop)).await;
    let found = async || {
        let ran = fleet.karmadactl(&["doctor", "-o", "json"]).await;
        let document: Value = serde_json::from_str(&ran.out).expect("JSON");
        let all = document["findings"].as_array().expect("findings").clone();
        let rights = |it: &Value| it["problem"] == "the agent of cluster m1 lacks the rights that it grants";
        all.into_iter().filter(rights).collect::<Vec<_>>()
    };
    assert_eq!(found().await, [] as [Value; 0], "an agent with other credentials");
    let (mut lost, grants) = (None, karmada_api::agents::grants("m1", "karmada-cluster"));
    for grant in grants {
        match grant.object["kind"] == "RoleBinding" && grant.object["metadata"]["namespace"] == "karmada-es-m1" {
            true => lost = Some(grant),
            false => create(&fleet, &grant.resource, grant.object).await,
        }
    }
    let lost = lost.expect("a grant");
    let missing = found().await;
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert_eq!(missing[0]["object"], "rolebinding karmada-es-m1/system:karmada:m1:agent-work");
    let next = missing[0]["next"].as_str().expect("a step");
    let printed = next.strip_prefix("echo '").and_then(|next| next.strip_suffix("' | kubectl create -f -"));
    let printed: Value = serde_json::from_str(printed.expect("a command")).expect("JSON");
    assert_eq!(printed, lost.object);
    create(&fleet, &lost.resource, printed).await;
    assert_eq!(found().await, [] as [Value; 0]);
}
