//! What runs an agent in its cluster: the checks before, the objects, and waiting until it runs.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, DeleteOptions};
use serde_json::{Value, json};

use super::RegisterArgs;
use crate::error::Error;
use crate::join::{create_if_absent, decoded, text};
use crate::resources;

pub const SECRET: &str = "karmada-kubeconfig";
pub const ACCOUNT: &str = "karmada-agent-sa";
pub const DEPLOYMENT: &str = "karmada-agent";
/// The ClusterRole and its binding.
pub const ROLE: &str = "karmada-agent";
const MOUNT: &str = "/etc/kubeconfig";
const SYSTEM_LABEL: &str = "karmada.io/system";
const ROLLOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_secs(1);

/// What only one agent may have, with the words of the preflight.
fn own(ns: &str) -> [(&'static ApiResource, ObjectKey, String); 3] {
    let key = |name: &str| ObjectKey::namespaced(ns, name);
    [
        (&resources::SECRET, key(SECRET), format!("{ns}/{SECRET} Secret already exists")),
        (&resources::SERVICE_ACCOUNT, key(ACCOUNT), format!("{ns}/{ACCOUNT} ServiceAccount already exists")),
        (&resources::DEPLOYMENT, key(DEPLOYMENT), format!("{ns}/{DEPLOYMENT} Deployment already exists")),
    ]
}

/// What in the member keeps an agent from being installed; empty when nothing does.
///
/// # Errors
/// The member cannot be read.
pub async fn preflight(member: &Client, ns: &str) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for (resource, key, complaint) in own(ns) {
        let attempt = Error::client(format!("get {} {key} of the member cluster", resource.plural));
        if member.get_opt(resource, &key).await.map_err(attempt)?.is_some() {
            found.push(complaint);
        }
    }
    Ok(found)
}

/// Creates what the agent needs; its own objects must not exist.
///
/// # Errors
/// Names the object.
pub async fn install(
    member: &Client,
    args: &RegisterArgs,
    cluster: &str,
    endpoint: &str,
    kubeconfig: &str,
) -> Result<(), Error> {
    let ns = args.namespace.as_str();
    for (resource, object) in shared(ns) {
        create_if_absent(member, resource, &object).await?;
    }
    for (resource, object) in objects(args, cluster, endpoint, kubeconfig) {
        let attempt = format!("create {} {ns}/{}", resource.plural, text(&object["metadata"]["name"]));
        member.create(resource, &object).await.map_err(Error::client(attempt))?;
    }
    Ok(())
}

/// Removes what [`install`] created after the preflight has found it absent.
pub async fn uninstall(member: &Client, ns: &str) -> Result<(), Error> {
    for (resource, key, _) in own(ns).into_iter().rev() {
        match member.delete(resource, &key, &DeleteOptions::background()).await {
            Err(error) if !error.is_not_found() => {
                return Err(Error::client(format!("delete {} {key}", resource.plural))(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn shared(ns: &str) -> [(&'static ApiResource, Value); 3] {
    let labels = json!({SYSTEM_LABEL: "true"});
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": ROLE, "labels": labels});
    [
        (
            &resources::NAMESPACE,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns, "labels": labels}}),
        ),
        (
            &resources::CLUSTER_ROLE,
            json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": [
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["get"]}]}),
        ),
        (
            &resources::CLUSTER_ROLE_BINDING,
            json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ROLE},
                "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": ns}]}),
        ),
    ]
}

fn objects(args: &RegisterArgs, cluster: &str, endpoint: &str, kubeconfig: &str) -> [(&'static ApiResource, Value); 3] {
    let ns = args.namespace.as_str();
    let metadata = |name: &str| json!({"name": name, "namespace": ns, "labels": {SYSTEM_LABEL: "true"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata(SECRET),
        "data": {SECRET: STANDARD.encode(kubeconfig)}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(ACCOUNT)});
    [
        (&resources::SECRET, secret),
        (&resources::SERVICE_ACCOUNT, account),
        (&resources::DEPLOYMENT, deployment(args, cluster, endpoint)),
    ]
}

fn deployment(args: &RegisterArgs, cluster: &str, endpoint: &str) -> Value {
    let RegisterArgs { namespace: ns, .. } = args;
    let labels = json!({"app": DEPLOYMENT, SYSTEM_LABEL: "true"});
    let controllers = if args.enable_cert_rotation { "*,certRotation" } else { "*" };
    let zones = args.cluster_zones.join(",");
    let flags = [
        ("karmada-kubeconfig", format!("{MOUNT}/{SECRET}")),
        ("cluster-name", cluster.to_owned()),
        ("cluster-api-endpoint", endpoint.to_owned()),
        ("cluster-provider", args.cluster_provider.clone()),
        ("cluster-region", args.cluster_region.clone()),
        ("cluster-zones", zones),
        ("controllers", controllers.to_owned()),
        ("proxy-server-address", args.proxy_server_address.clone()),
        ("leader-elect-resource-namespace", ns.clone()),
        ("cluster-namespace", args.cluster_namespace.clone()),
        ("cluster-status-update-frequency", "10s".to_owned()),
        ("metrics-bind-address", ":8080".to_owned()),
        ("health-probe-bind-address", "0.0.0.0:10357".to_owned()),
        ("v", "2".to_owned()),
    ];
    let mut command = vec!["/bin/karmada-agent".to_owned()];
    command.extend(flags.into_iter().map(|(name, value)| format!("--{name}={value}")));
    let container = json!({"name": DEPLOYMENT, "image": args.karmada_agent_image, "command": command,
        "volumeMounts": [{"name": "kubeconfig", "mountPath": MOUNT}]});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": DEPLOYMENT, "namespace": ns, "labels": labels},
        "spec": {"replicas": args.karmada_agent_replicas, "selector": {"matchLabels": {"app": DEPLOYMENT}},
            "template": {"metadata": {"labels": labels}, "spec": {
                "serviceAccountName": ACCOUNT, "containers": [container],
                "tolerations": [{"key": "node-role.kubernetes.io/master", "operator": "Exists"}],
                "volumes": [{"name": "kubeconfig", "secret": {"secretName": SECRET}}]}}}})
}

/// Waits until all replicas of the agent are ready.
///
/// # Errors
/// They are not within two minutes.
pub async fn ready(member: &Client, ns: &str, replicas: u32) -> Result<(), Error> {
    let key = ObjectKey::namespaced(ns, DEPLOYMENT);
    let deadline = tokio::time::Instant::now() + ROLLOUT;
    loop {
        let live = member.get(&resources::DEPLOYMENT, &key).await;
        let live = decoded(&*live.map_err(Error::client(format!("get deployments {key} of the member cluster")))?)?;
        let ready = live["status"]["readyReplicas"].as_u64().unwrap_or_default();
        if ready >= replicas.into() {
            return Ok(());
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(Error::message(format!(
                "Deployment {key} of the member cluster has {ready} of {replicas} replicas ready after {}s; see kubectl \
                 describe deployment {DEPLOYMENT} -n {ns}, and check --karmada-agent-image",
                ROLLOUT.as_secs()
            )));
        }
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_started_as_upstreams() {
        let args = RegisterArgs {
            cluster_zones: vec!["z1".into(), "z2".into()],
            enable_cert_rotation: true,
            ..super::super::tests::args()
        };
        let deployment = deployment(&args, "m1", "https://m1:6443");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(
            container["command"],
            json!([
                "/bin/karmada-agent",
                "--karmada-kubeconfig=/etc/kubeconfig/karmada-kubeconfig",
                "--cluster-name=m1",
                "--cluster-api-endpoint=https://m1:6443",
                "--cluster-provider=",
                "--cluster-region=",
                "--cluster-zones=z1,z2",
                "--controllers=*,certRotation",
                "--proxy-server-address=",
                "--leader-elect-resource-namespace=karmada-system",
                "--cluster-namespace=karmada-cluster",
                "--cluster-status-update-frequency=10s",
                "--metrics-bind-address=:8080",
                "--health-probe-bind-address=0.0.0.0:10357",
                "--v=2"
            ])
        );
        assert_eq!(deployment["spec"]["template"]["spec"]["serviceAccountName"], "karmada-agent-sa");
    }
}
