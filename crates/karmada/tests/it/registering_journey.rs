//! A cluster registers itself by its administrator's commands: real processes, the real kubectl, an agent with the
//! kubeconfig that `register` stored in the cluster.

use apimachinery::{ApiResource, ObjectKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::Client;
use karmada::member::RunningMember;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

use crate::components::Component;
use crate::fleet::{Fleet, Ran, until};

pub async fn tree(client: &Client, resource: &ApiResource, key: &ObjectKey) -> Option<Value> {
    client.get(resource, key).await.ok()?.to_value().ok()
}

pub fn secrets() -> ApiResource {
    ApiResource::namespaced("", "v1", "Secret", "secrets")
}

pub fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

pub fn agent_key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("karmada-system", name)
}

impl Fleet {
    /// The command that registers, with the member's kubeconfig.
    pub async fn register(&self, command: &str, member: &RunningMember, more: &[&str]) -> Ran {
        let kubeconfig = format!("--kubeconfig={}", member.kubeconfig().display());
        let mut args: Vec<&str> = command.split_whitespace().skip(1).collect();
        args.push(&kubeconfig);
        args.extend(more);
        let mut command = self.command(&args);
        command.env_remove("KUBECONFIG");
        self.run(command).await
    }

    pub async fn register_command(&self) -> String {
        let printed = self.karmadactl(&["token", "create", "--print-register-command", "--ttl=1h"]).await.ok();
        printed.trim().to_owned()
    }
}

/// The kubeconfig and the command of the agent that `register` installed.
pub async fn installed(member: &Client, directory: &std::path::Path) -> (String, Vec<String>) {
    let secret = tree(member, &secrets(), &agent_key("karmada-kubeconfig")).await.expect("a Secret");
    let kubeconfig = STANDARD.decode(secret["data"]["karmada-kubeconfig"].as_str().expect("text")).expect("base64");
    let path = directory.join("agent.config");
    std::fs::write(&path, kubeconfig).expect("a file");
    let path = path.to_str().expect("text").to_owned();
    let deployment = tree(member, &deployments(), &agent_key("karmada-agent")).await.expect("a Deployment");
    let command = &deployment["spec"]["template"]["spec"]["containers"][0]["command"];
    let command = command.as_array().expect("a list").iter().map(|word| word.as_str().expect("text").to_owned());
    (path, command.collect())
}

/// The agent's arguments as in the Deployment, except for paths and ports of a pod.
pub fn agent_args(command: &[String], kubeconfig: &str, member: &RunningMember) -> Vec<String> {
    let mut args = vec!["agent".to_owned(), format!("--kubeconfig={}", member.kubeconfig().display())];
    for word in &command[1..] {
        args.push(match word.split_once('=') {
            Some(("--karmada-kubeconfig", _)) => format!("--karmada-kubeconfig={kubeconfig}"),
            Some((flag @ ("--metrics-bind-address" | "--health-probe-bind-address"), _)) => {
                format!("{flag}=127.0.0.1:0")
            }
            _ => word.clone(),
        });
    }
    args.extend(["--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s"].map(str::to_owned));
    args.push("--leader-elect-retry-period=500ms".to_owned());
    args
}

/// Starts the agent. Returns after its first `lines`.
pub async fn start(command: &[String], kubeconfig: &str, member: &RunningMember, lines: usize) -> Component {
    let args = agent_args(command, kubeconfig, member);
    tokio::task::spawn_blocking(move || Component::start(&args, lines)).await.expect("no panic")
}

pub async fn ready(control: &Client, name: &str) -> Value {
    until(&format!("cluster {name} is ready"), async || {
        let cluster = tree(control, &Cluster::api_resource(), &ObjectKey::cluster(name)).await?;
        let conditions = cluster["status"]["conditions"].as_array()?;
        let ready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
        (ready && cluster["spec"].get("taints").is_none()).then_some(cluster)
    })
    .await
}

pub async fn propagate(control: &Client, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"a": "b"}});
    let maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    control.create(&maps, &object).await.expect("a template");
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": name}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}});
    let policies = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies");
    control.create(&policies, &policy).await.expect("a policy");
}

pub async fn applied(member: &Client, name: &str, there: bool) {
    let maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let key = ObjectKey::namespaced("default", name);
    until(&format!("{name} in the member: {there}"), async || {
        (member.get_opt(&maps, &key).await.ok()?.is_some() == there).then_some(())
    })
    .await;
}

pub async fn kubectl(kubeconfig: &str, args: &[&str]) -> Ran {
    let mut command = std::process::Command::new("kubectl");
    command.args(args).env("KUBECONFIG", kubeconfig);
    let ran = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
    Ran::from(ran.expect("kubectl starts"))
}

pub const STEPS: &str = "[preflight] Running pre-flight checks
[preflight] All pre-flight checks were passed
[karmada-agent-start] Waiting to perform the TLS Bootstrap
[karmada-agent-start] Waiting to check cluster exists
[karmada-agent-start] Assign the necessary RBAC permissions to the agent
[karmada-agent-start] Waiting to construct karmada-agent kubeconfig
[karmada-agent-start] Waiting the necessary secret and RBAC
[karmada-agent-start] Waiting karmada-agent Deployment

cluster(m1) is joined successfully
";

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
async fn a_cluster_registers_works_and_leaves() {
    let fleet = Fleet::start(&[]).await;
    let (member, control) = (fleet.member("m1").await, fleet.admin().await);
    let directory = tempfile::tempdir().expect("a directory");
    let command = fleet.register_command().await;
    assert!(command.starts_with("karmadactl register 127.0.0.1:") && command.contains("sha256:"), "{command}");

    let dry = fleet.register(&command, &member, &["--cluster-name=m1", "--dry-run"]).await;
    assert_eq!(dry.ok(), STEPS.lines().take(2).map(|line| format!("{line}\n")).collect::<String>());
    let registered = fleet.register(&command, &member, &["--cluster-name=m1", "--cluster-region=r"]).await;
    assert_eq!(registered.ok(), STEPS);

    let (config, agent) = installed(member.client(), directory.path()).await;
    let running = start(&agent, &config, &member, 1).await;
    let cluster = ready(&control, "m1").await;
    assert_eq!((&cluster["spec"]["syncMode"], &cluster["spec"]["region"]), (&json!("Pull"), &json!("r")));
    propagate(&control, "first").await;
    applied(member.client(), "first", true).await;

    // The credentials have access to the cluster's own execution namespace.
    let own = kubectl(&config, &["get", "works", "-n", "karmada-es-m1", "-o", "name"]).await.ok();
    assert!(own.contains("work.work.karmada.io/first-"), "{own}");
    for args in [
        &["get", "works", "-n", "karmada-es-m2"][..],
        &["get", "works", "-A"],
        &["get", "secrets", "-A"],
        &["get", "cluster", "m2"],
        &["label", "cluster", "m1", "a=b"],
        &["create", "secret", "generic", "m2", "-n", "karmada-cluster"],
        &["delete", "clusterrole", "cluster-admin"],
    ] {
        let refused = kubectl(&config, args).await;
        assert!(refused.code == Some(1) && refused.err.to_lowercase().contains("forbidden"), "{args:?}: {refused:?}");
    }

    // A killed agent continues where it stopped; of two, one works.
    drop(running);
    propagate(&control, "second").await;
    // They are not waited for: one of them does not get the Lease.
    let one = start(&agent, &config, &member, 0).await;
    let two = start(&agent, &config, &member, 0).await;
    applied(member.client(), "second", true).await;
    drop(one);
    propagate(&control, "third").await;
    applied(member.client(), "third", true).await;
    drop(two);
    let running = start(&agent, &config, &member, 1).await;

    refused_registrations(&fleet, &command, &member).await;

    let unregister = [
        "unregister",
        "m1",
        "--cluster-kubeconfig",
        &member.kubeconfig().display().to_string(),
        "--karmada-config",
        &fleet.kubeconfig().display().to_string(),
    ];
    // Controllers recreate the Works of namespaces and bindings until the Cluster leaves.
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    let (team, named) =
        (ObjectKey::cluster("team"), json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}));
    control.create(&namespaces, &named).await.expect("a namespace");
    let there = async || tree(member.client(), &namespaces, &team).await;
    until("the namespace in the member", there).await;
    for (wait, shown) in [("0", "0s"), ("-60s", "-1m0s")] {
        let refused = fleet.karmadactl(&[&unregister[..], &["--wait", wait]].concat()).await;
        let message = format!("E|error:  --wait {shown}  must be a positive duration, e.g. 1m0s \nrc=1\n");
        assert_eq!(refused.transcript(), message);
    }
    let preview = fleet.karmadactl(&[&unregister[..], &["--dry-run"]].concat()).await.ok();
    assert!(preview.contains("  ConfigMap (3): default/first, default/second, default/third\n"), "{preview}");
    for name in ["first", "second", "third"] {
        applied(member.client(), name, true).await;
    }
    let gone = fleet.karmadactl(&unregister).await;
    assert!(gone.err.contains("Successfully delete resource ({Deployment karmada-agent karmada-system})"), "{gone:?}");
    assert_eq!(gone.ok(), "");
    for name in ["first", "second", "third"] {
        applied(member.client(), name, false).await;
    }
    assert!(there().await.is_none_or(|it| it["metadata"]["deletionTimestamp"].is_string()));
    drop(running);
    assert!(tree(&control, &Cluster::api_resource(), &ObjectKey::cluster("m1")).await.is_none());
    for grant in karmada_api::agents::grants("m1", "karmada-cluster") {
        let found = control.list(&grant.resource, None, &Default::default()).await.expect("a list").items;
        assert!(found.iter().all(|it| it.name() != grant.object["metadata"]["name"]), "{}", grant.object);
    }
    // The next registration is not blocked; a token registers many clusters.
    let command = fleet.register_command().await;
    let again = fleet.register(&command, &member, &["--cluster-name=m1"]).await;
    assert_eq!(again.ok(), STEPS);

    // Without a kubeconfig of the control plane that of the agent is used, which may not delete the agent's rights.
    let (config, agent) = installed(member.client(), directory.path()).await;
    let running = start(&agent, &config, &member, 1).await;
    ready(&control, "m1").await;
    let kubeconfig = member.kubeconfig().display().to_string();
    let gone = fleet.karmadactl(&["unregister", "m1", "--cluster-kubeconfig", &kubeconfig]).await;
    assert!(gone.err.contains("  Role karmada-es-m1/system:karmada:m1:agent-work\n"), "{gone:?}");
    assert_eq!((gone.code, gone.out.as_str()), (Some(0), ""), "{}", gone.err);
    drop(running);
    assert!(tree(&control, &Cluster::api_resource(), &ObjectKey::cluster("m1")).await.is_none());
}

async fn refused_registrations(fleet: &Fleet, command: &str, member: &RunningMember) {
    let other = fleet.member("other").await;
    // The preflight finds the agent; upstream's exit code is 0.
    let twice = fleet.register(command, member, &["--cluster-name=m1"]).await.ok();
    assert!(twice.contains("\t[ERROR]: karmada-system/karmada-kubeconfig Secret already exists\n"), "{twice}");
    let elsewhere = fleet.register(command, member, &["--cluster-name=m9", "-n", "elsewhere"]).await;
    assert!(elsewhere.err.contains("or the cluster name m9 has been registered: it is cluster m1"), "{elsewhere:?}");
    let taken = fleet.register(command, &other, &["--cluster-name=m1"]).await;
    assert!(taken.err.contains("failed to register as cluster with name m1 already exists"), "{taken:?}");

    let token = command.split_whitespace().find(|word| word.contains('.') && !word.contains(':')).expect("a token");
    let (id, _) = token.split_once('.').expect("a token");
    let quick = ["--cluster-name=m2", "--discovery-timeout=1s"];
    let forged = command.replace(token, &format!("{id}.0000000000000000"));
    let forged = fleet.register(&forged, &other, &quick).await;
    assert!(forged.err.contains("failed to verify JWS signature of received cluster info object"), "{forged:?}");
    let hash = command.split("sha256:").nth(1).expect("a hash");
    let pinned = fleet.register(&command.replace(hash, &"0".repeat(64)), &other, &quick).await;
    assert!(pinned.err.contains("are pinned"), "{pinned:?}");
    assert_eq!(fleet.karmadactl(&["token", "delete", token]).await.ok(), format!("bootstrap token \"{id}\" deleted\n"));
    let replayed = fleet.register(command, &other, &quick).await;
    let unsigned = format!("could not find a JWS signature in the cluster-info ConfigMap for token ID \"{id}\"");
    assert!(replayed.err.contains(&format!("Retrying for up to 1s: {unsigned}\n")), "{replayed:?}");
    assert!(replayed.err.contains(&format!("identity of the API Server: {unsigned}\n")), "{replayed:?}");
    // No attempt left objects in the cluster, also not the last one, whose Deployment is invalid.
    let command = fleet.register_command().await;
    let late = fleet.register(&command, &other, &["--cluster-name=m2", "--karmada-agent-image="]).await;
    assert!(late.out.ends_with("karmadactl register failed and started deleting the created resources\n"), "{late:?}");
    let admin = fleet.admin().await;
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    for (name, there) in [("karmada-es-m2", false), ("karmada-es-m1", true), ("karmada-cluster", true)] {
        assert_eq!(tree(&admin, &namespaces, &ObjectKey::cluster(name)).await.is_some(), there, "{name}");
    }
    for (resource, name) in [(secrets(), "karmada-kubeconfig"), (deployments(), "karmada-agent")] {
        assert!(tree(other.client(), &resource, &agent_key(name)).await.is_none(), "{name}");
    }
    for kind in ["ClusterRole", "ClusterRoleBinding"] {
        let plural = format!("{}s", kind.to_lowercase());
        let resource = ApiResource::cluster("rbac.authorization.k8s.io", "v1", kind, &plural);
        assert!(tree(other.client(), &resource, &ObjectKey::cluster("karmada-agent")).await.is_none(), "{kind}");
    }
    // A control plane is not its own member.
    let kubeconfig = format!("--kubeconfig={}", fleet.kubeconfig().display());
    let words: Vec<&str> =
        command.split_whitespace().skip(1).chain([kubeconfig.as_str(), "--cluster-name=m2"]).collect();
    let itself = fleet.karmadactl(&words).await;
    assert!(itself.err.contains("is the control plane itself") && itself.err.contains("--kubeconfig"), "{itself:?}");
    assert!(tree(&fleet.admin().await, &deployments(), &agent_key("karmada-agent")).await.is_none());
    let absent = fleet.karmadactl(&[&words[..], &["--kubeconfig=absent.config"]].concat()).await;
    assert!(absent.err.contains("kubeconfig absent.config of --kubeconfig does not exist"), "{absent:?}");
    let works = fleet.admin().await.list(&Work::api_resource(), Some("karmada-es-m1"), &Default::default()).await;
    assert!(!works.expect("a list").items.is_empty());
}
