//! The agent's part in its cluster: the checks before, the objects, and waiting until it runs.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, Patch, PatchOptions};
use serde_json::{Value, json};

use super::RegisterArgs;
use crate::error::Error;
use crate::join::{create_if_absent, decoded};
use crate::resources;

pub const SECRET: &str = "karmada-kubeconfig";
pub const ACCOUNT: &str = "karmada-agent-sa";
pub const DEPLOYMENT: &str = "karmada-agent";
/// The ClusterRole and its binding.
pub const ROLE: &str = "karmada-agent";
const MOUNT: &str = "/etc/kubeconfig";
/// On the agent's Secret: the name of the cluster whose registration has not ended.
const REGISTERING: &str = "karmada.io/registering";
const SYSTEM_LABEL: &str = "karmada.io/system";
const ROLLOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_secs(1);

/// Objects that only one agent may have, with the messages of the preflight.
fn own(ns: &str) -> [(&'static ApiResource, ObjectKey, String); 3] {
    let key = |name: &str| ObjectKey::namespaced(ns, name);
    [
        (&resources::SECRET, key(SECRET), format!("{ns}/{SECRET} Secret already exists")),
        (&resources::SERVICE_ACCOUNT, key(ACCOUNT), format!("{ns}/{ACCOUNT} ServiceAccount already exists")),
        (&resources::DEPLOYMENT, key(DEPLOYMENT), format!("{ns}/{DEPLOYMENT} Deployment already exists")),
    ]
}

/// The result of the preflight.
pub enum Preflight {
    /// No object of an agent exists.
    Absent,
    /// The Secret of a registration of the same cluster that did not end; then the other objects are that one's, too.
    Begun(Value),
    /// Why no agent is installed.
    Refused(Vec<String>),
}

/// Checks for objects of an agent in the member.
///
/// # Errors
/// When the member cannot be read.
pub async fn preflight(member: &Client, ns: &str, cluster: &str) -> Result<Preflight, Error> {
    let mut complaints = Vec::new();
    for (resource, key, complaint) in own(ns) {
        let attempt = Error::client(format!("get {} {key} of the member cluster", resource.plural));
        let Some(found) = member.get_opt(resource, &key).await.map_err(attempt)? else { continue };
        if key.name() == SECRET {
            match found.annotation(REGISTERING) {
                Some(begun) if begun == cluster => return Ok(Preflight::Begun(decoded(&found)?)),
                Some(begun) => complaints.push(format!(
                    "the registration of cluster {begun} did not end; finish it with --cluster-name={begun}, or delete Secret \
                     {key}"
                )),
                None => {}
            }
        }
        complaints.push(complaint);
    }
    Ok(if complaints.is_empty() { Preflight::Absent } else { Preflight::Refused(complaints) })
}

/// The kubeconfig in an agent's Secret.
pub fn kubeconfig_of(secret: &Value) -> Option<String> {
    let bytes = STANDARD.decode(secret["data"][SECRET].as_str()?).ok()?;
    String::from_utf8(bytes).ok()
}

/// The user of a kubeconfig's client certificate, if its server is `server`; an empty `server` matches any.
pub fn user_of(kubeconfig: &str, server: &str) -> Option<String> {
    let config = apimachinery::yaml::to_json_value(kubeconfig.as_bytes()).ok()?;
    let is_server = server.is_empty() || config["clusters"][0]["cluster"]["server"] == server;
    let certificate = config["users"][0]["user"]["client-certificate-data"].as_str().filter(|_| is_server)?;
    let certificate = String::from_utf8(STANDARD.decode(certificate).ok()?).ok()?;
    Some(pki::Holder::from_pem(&certificate).ok()?.user)
}

/// Creates the objects of the agent. Existing ones belong to an unfinished registration, as [`preflight`] has checked:
/// a different kubeconfig is replaced, and with it the agent that uses it; without a kubeconfig, the Secret stays.
///
/// # Errors
/// Names the object.
pub async fn install(
    member: &Client,
    args: &RegisterArgs,
    cluster: &str,
    endpoint: &str,
    kubeconfig: Option<&str>,
) -> Result<(), Error> {
    let ns = args.namespace.as_str();
    for (resource, object) in shared(ns) {
        create_if_absent(member, resource, &object).await?;
    }
    if let Some(kubeconfig) = kubeconfig {
        store(member, ns, &secret(ns, cluster, kubeconfig)).await?;
    }
    create_if_absent(member, &resources::SERVICE_ACCOUNT, &account(ns)).await?;
    create_if_absent(member, &resources::DEPLOYMENT, &deployment(args, cluster, endpoint)).await
}

/// Writes the Secret with the mark of a registration that has not ended.
async fn store(member: &Client, ns: &str, secret: &Value) -> Result<(), Error> {
    let key = ObjectKey::namespaced(ns, SECRET);
    let failed = |verb: &str| Error::client(format!("{verb} secrets {key}"));
    match member.create(&resources::SECRET, secret).await {
        Err(error) if error.is_already_exists() => {}
        other => return other.map(drop).map_err(failed("create")),
    }
    let live = decoded(&*member.get(&resources::SECRET, &key).await.map_err(failed("get"))?)?;
    if live["data"] == secret["data"] {
        return Ok(());
    }
    let deployment = ObjectKey::namespaced(ns, DEPLOYMENT);
    super::delete(member, &resources::DEPLOYMENT, &deployment).await?;
    let mut secret = secret.clone();
    secret["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    member.update(&resources::SECRET, &secret).await.map(drop).map_err(failed("update"))
}

/// Removes the objects of [`install`] that were absent at the preflight; the marked Secret is the last. The namespace
/// stays, and so do the rights of an agent in another namespace.
pub async fn uninstall(member: &Client, ns: &str) -> Result<(), Error> {
    if has_rights_of(member, ns).await? {
        for resource in [&resources::CLUSTER_ROLE_BINDING, &resources::CLUSTER_ROLE] {
            super::delete(member, resource, &ObjectKey::cluster(ROLE)).await?;
        }
    }
    for (resource, key, _) in own(ns).into_iter().rev() {
        super::delete(member, resource, &key).await?;
    }
    Ok(())
}

/// Whether the rights of agents in this cluster are those of the agent in `ns`, and of no other.
async fn has_rights_of(member: &Client, ns: &str) -> Result<bool, Error> {
    let resource = &resources::CLUSTER_ROLE_BINDING;
    let attempt = Error::client(format!("get {} {ROLE} of the member cluster", resource.plural));
    let found = member.get_opt(resource, &ObjectKey::cluster(ROLE)).await.map_err(attempt)?;
    let Some(binding) = found.map(|it| decoded(&it)).transpose()? else { return Ok(false) };
    let subjects = binding["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(matches!(subjects, [only] if only["name"] == ACCOUNT && only["namespace"] == ns))
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

fn secret(ns: &str, cluster: &str, kubeconfig: &str) -> Value {
    let metadata = json!({"name": SECRET, "namespace": ns, "labels": {SYSTEM_LABEL: "true"},
        "annotations": {REGISTERING: cluster}});
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata,
        "data": {SECRET: STANDARD.encode(kubeconfig)}})
}

fn account(ns: &str) -> Value {
    let metadata = json!({"name": ACCOUNT, "namespace": ns, "labels": {SYSTEM_LABEL: "true"}});
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
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

/// Waits until all replicas of the agent are ready, and removes the mark of a registration that has not ended.
///
/// # Errors
/// They are not within two minutes.
pub async fn finish(member: &Client, ns: &str, replicas: u32) -> Result<(), Error> {
    ready(member, ns, replicas).await?;
    let key = ObjectKey::namespaced(ns, SECRET);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {REGISTERING: null}}}));
    let patched = member.patch(&resources::SECRET, &key, &patch, &PatchOptions::default()).await;
    patched.map(drop).map_err(Error::client(format!("patch secrets {key} of the member cluster")))
}

async fn ready(member: &Client, ns: &str, replicas: u32) -> Result<(), Error> {
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
