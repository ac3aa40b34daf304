//! `join`: register a member cluster in push mode.
//!
//! In the member it makes the service accounts whose tokens the control plane will use; in the control plane it stores
//! those tokens and creates the Cluster. Every step is create-if-absent, so an interrupted join can be run again.

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey, StatusReason};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use client::Client;
use futures::future::BoxFuture;
use karmada_api::cluster::name_complaints;
use serde_json::{Value, json};

use crate::answers::text;
use crate::error::Error;
use crate::member_secrets::{Credentials, goes_with, put_secrets};
use crate::{Context, resources};

const SYSTEM_LABEL: &str = "karmada.io/system";
const IMPERSONATOR: &str = "karmada-impersonator";
/// How long the member's token controller may take to fill a token Secret.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);
/// The first and the longest pause between attempts; each pause is twice the one before.
const TOKEN_POLL: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(200)];

/// How long the end of a deletion is awaited.
const DELETION_TIMEOUT: Duration = Duration::from_secs(60);
const DELETION_POLL: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];

/// The flags of `join`.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    pub cluster_namespace: String,
    pub provider: String,
    pub region: String,
    pub zones: Vec<String>,
    pub dry_run: bool,
    /// Annotations of the Cluster.
    pub annotations: BTreeMap<String, String>,
}

impl Default for JoinOptions {
    /// As upstream's flags default.
    fn default() -> Self {
        Self {
            cluster_namespace: "karmada-cluster".into(),
            provider: String::new(),
            region: String::new(),
            zones: Vec::new(),
            dry_run: false,
            annotations: BTreeMap::new(),
        }
    }
}

/// Checks the arguments of `join` in upstream's order and words.
///
/// # Errors
/// No name, several, or one that a Cluster cannot have.
pub fn cluster_name(args: &[String]) -> Result<&str, Error> {
    let name = match args {
        [] => return Err(Error::arguments("cluster name is required")),
        [name] => name.as_str(),
        _ => return Err(Error::arguments("only the cluster name is allowed as an argument")),
    };
    let complaints = name_complaints(name);
    if complaints.is_empty() {
        return Ok(name);
    }
    Err(Error::message(format!("invalid cluster name({name}): {}", complaints.join(";"))))
}

/// A member cluster as its kubeconfig describes it.
pub struct Member {
    pub client: Client,
    /// The URL of its API server.
    pub endpoint: String,
    pub insecure_skip_tls_verify: bool,
    /// The authorities in PEM that the server is verified with; `None` for those of the machine.
    pub authority: Option<Vec<u8>>,
    pub proxy_url: Option<String>,
}

/// Joins the cluster `name`. The caller prints the success line.
///
/// # Errors
/// With upstream's messages; objects created before the error stay, and joining can be retried.
pub fn join<'a>(
    control: &'a Client,
    member: &'a Member,
    name: &'a str,
    options: &'a JoinOptions,
) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let id = cluster_id(&member.client).await?;
        // The list is first: a server that is not a control plane does not serve it, and the error says so.
        refuse_registered(control, name, &member.endpoint, &id).await?;
        refuse_itself(control, name, &member.endpoint, &id, "--cluster-kubeconfig and --cluster-context").await?;
        if options.dry_run {
            return Ok(());
        }
        let credentials = prepare_member(member, name, options).await?;
        register(control, member, name, &id, &credentials, options).await
    })
}

/// A cluster is known by the UID of its kube-system namespace.
///
/// # Errors
/// When the member does not answer, or refuses.
pub fn cluster_id<'a>(member: &'a Client) -> BoxFuture<'a, Result<String, Error>> {
    Box::pin(async move {
        let namespace = member
            .get(&resources::NAMESPACE, &ObjectKey::cluster("kube-system"))
            .await
            .map_err(Error::client("get namespace kube-system of the member cluster"))?;
        Ok(namespace.uid().to_owned())
    })
}

/// The ID of the control plane; `None` if it has none, or the user may not read it. Its admission then compares the
/// IDs.
pub(crate) async fn own_id(control: &Client) -> Result<Option<String>, Error> {
    match control.get(&resources::NAMESPACE, &ObjectKey::cluster("kube-system")).await {
        Ok(namespace) => Ok(Some(namespace.uid().to_owned())),
        Err(error) if error.is_not_found() || error.reason() == Some(StatusReason::Forbidden) => Ok(None),
        Err(error) => Err(Error::client("get namespace kube-system of the control plane")(error)),
    }
}

/// A control plane that is its own member would apply its templates to themselves. `flags` name the member.
pub(crate) async fn refuse_itself(
    control: &Client,
    name: &str,
    endpoint: &str,
    id: &str,
    flags: &str,
) -> Result<(), Error> {
    if own_id(control).await?.as_deref() != Some(id) {
        return Ok(());
    }
    let at = if endpoint.is_empty() { String::new() } else { format!(" at {endpoint}") };
    Err(Error::message(format!(
        "cluster {name}{at} is the control plane itself: both have the ID {id} (the UID of namespace kube-system); \
         nothing was changed. Give the kubeconfig of another cluster with {flags}"
    )))
}

async fn refuse_registered(control: &Client, name: &str, endpoint: &str, id: &str) -> Result<(), Error> {
    let clusters = control
        .list(&resources::CLUSTER, None, &client::ListOptions::default())
        .await
        .map_err(Error::client("list clusters"))?;
    for cluster in &clusters.items {
        let tree = decoded(cluster)?;
        if let Some(why) = registered(name, endpoint, id, cluster.name(), &tree["spec"]) {
            // Scripts depend on upstream's text, so it is first.
            let upstream = format!("the cluster ID {id} or the cluster name {name} has been registered");
            return Err(Error::message(format!("{upstream}: {why}; nothing was changed")));
        }
    }
    Ok(())
}

/// Why a cluster cannot be joined beside an existing one, and the next step; `None` if it can.
fn registered(name: &str, endpoint: &str, id: &str, other: &str, spec: &Value) -> Option<String> {
    let (its_id, its_endpoint) = (text(&spec["id"]), text(&spec["apiEndpoint"]));
    match (other == name, its_id == id) {
        (true, true) => {
            Some(format!("the cluster at {endpoint} is already joined as {name}; --renew registers it again"))
        }
        (false, true) => Some(format!(
            "the cluster at {endpoint} is already joined as {other} (at {its_endpoint}); to give it the name {name}, \
             first run: karmadactl unjoin {other}"
        )),
        (true, false) => Some(format!(
            "the name {name} is that of another cluster (ID {its_id}, at {its_endpoint}); choose another name, or first \
             run: karmadactl unjoin {name}"
        )),
        (false, false) => None,
    }
}

pub(crate) async fn prepare_member(joining: &Member, name: &str, options: &JoinOptions) -> Result<Credentials, Error> {
    let (member, ns) = (&joining.client, options.cluster_namespace.as_str());
    let account = format!("karmada-{name}");
    let objects = impersonator_objects(ns).into_iter().chain(account_objects(ns, name, &account));
    for (resource, object) in std::iter::once(namespace(ns)).chain(objects) {
        create_if_absent(member, resource, &object).await?;
    }
    let impersonator = impersonator_secret(member, ns, name).await?;
    let cluster = account_secret(member, ns, name).await?;
    Ok(Credentials {
        ca_bundle: bundle(text(&cluster["data"]["ca.crt"]), joining.authority.as_deref()),
        token: text(&cluster["data"]["token"]),
        impersonator_token: text(&impersonator["data"]["token"]),
    })
}

/// The member's own authority, and the one its kubeconfig trusts if that is another: a load balancer before the member
/// has a certificate of its own. Both forms of `own` and of the result are base64.
fn bundle(own: String, trusted: Option<&[u8]>) -> String {
    let Some(trusted) = trusted.map(<[u8]>::trim_ascii).filter(|it| !it.is_empty()) else { return own };
    let Ok(mut pem) = BASE64_STANDARD.decode(&own) else { return own };
    if pem.windows(trusted.len()).any(|part| part == trusted) {
        return own;
    }
    pem.truncate(pem.trim_ascii_end().len());
    if !pem.is_empty() {
        pem.push(b'\n');
    }
    pem.extend_from_slice(trusted);
    pem.push(b'\n');
    BASE64_STANDARD.encode(pem)
}

/// The filled secret of the account that may do everything.
pub(crate) async fn account_secret(member: &Client, ns: &str, name: &str) -> Result<Value, Error> {
    let found = token_secret(member, ns, &format!("karmada-{name}")).await;
    found.map_err(|why| {
        Error::message(format!("failed to get serviceAccount secret from cluster({name}), error: {why}"))
    })
}

/// The filled secret of the account that may act as others.
pub(crate) async fn impersonator_secret(member: &Client, ns: &str, name: &str) -> Result<Value, Error> {
    token_secret(member, ns, IMPERSONATOR).await.map_err(|why| {
        let failed = "failed to get serviceAccount secret for impersonation from cluster";
        Error::message(format!("{failed}({name}), error: {why}"))
    })
}

type DesiredObject = (&'static ApiResource, Value);

/// The namespace of the accounts in the member.
pub(crate) fn namespace(ns: &str) -> DesiredObject {
    let object =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns, "labels": {SYSTEM_LABEL: "true"}}});
    (&resources::NAMESPACE, object)
}

fn service_account(ns: &str, account: &str) -> DesiredObject {
    let metadata = json!({"name": account, "namespace": ns, "labels": {SYSTEM_LABEL: "true"}});
    (&resources::SERVICE_ACCOUNT, json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}))
}

fn token(ns: &str, account: &str) -> DesiredObject {
    let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": {
        "name": account, "namespace": ns, "labels": {SYSTEM_LABEL: "true"},
        "annotations": {"kubernetes.io/service-account.name": account}}});
    (&resources::SECRET, object)
}

/// The objects in the member for its impersonator, in the order of creation.
pub(crate) fn impersonator_objects(ns: &str) -> Vec<DesiredObject> {
    vec![service_account(ns, IMPERSONATOR), token(ns, IMPERSONATOR)]
}

/// The objects in the member for the control plane's own account, in the order of creation.
pub(crate) fn account_objects(ns: &str, name: &str, account: &str) -> Vec<DesiredObject> {
    let rbac_name = format!("karmada-controller-manager:karmada-{name}");
    vec![
        service_account(ns, account),
        (
            &resources::CLUSTER_ROLE,
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": rbac_name, "labels": {SYSTEM_LABEL: "true"}},
                "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                          {"nonResourceURLs": ["*"], "verbs": ["get"]}]}),
        ),
        (
            &resources::CLUSTER_ROLE_BINDING,
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": rbac_name, "labels": {SYSTEM_LABEL: "true"}},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": ns}],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": rbac_name}}),
        ),
        token(ns, account),
    ]
}

/// Waits until the member's token controller has filled a token Secret. The error is a text for the user.
async fn token_secret(member: &Client, ns: &str, name: &str) -> Result<Value, String> {
    let key = ObjectKey::namespaced(ns, name);
    let deadline = tokio::time::Instant::now() + TOKEN_TIMEOUT;
    let [mut pause, longest] = TOKEN_POLL;
    loop {
        let mut why = "context deadline exceeded".to_owned();
        match member.get_opt(&resources::SECRET, &key).await {
            Ok(Some(secret)) => {
                let tree = decoded(&secret).map_err(|error| error.to_string())?;
                if !text(&tree["data"]["token"]).is_empty() {
                    return Ok(tree);
                }
            }
            Ok(None) => {}
            Err(error) => why = error.to_string(),
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(format!(
                "failed to get serviceAccount secret, error: {why} (secret {key} got no token within {}s; does the \
                 cluster run a controller that fills service account token secrets?)",
                TOKEN_TIMEOUT.as_secs()
            ));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

async fn register(
    control: &Client,
    member: &Member,
    name: &str,
    id: &str,
    credentials: &Credentials,
    options: &JoinOptions,
) -> Result<(), Error> {
    let ns = options.cluster_namespace.as_str();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}});
    create_if_absent(control, &resources::NAMESPACE, &namespace).await?;
    let cluster = cluster_object(member, name, id, options);
    let secrets = put_secrets(control, ns, name, credentials, &cluster["spec"]).await?;
    let cluster =
        control.create(&resources::CLUSTER, &cluster).await.map_err(Error::client(format!("create cluster {name}")))?;
    for secret in &secrets {
        goes_with(control, ns, secret, &cluster).await?;
    }
    Ok(())
}

pub(crate) fn cluster_object(member: &Member, name: &str, id: &str, options: &JoinOptions) -> Value {
    let ns = &options.cluster_namespace;
    let mut spec = json!({
        "syncMode": "Push",
        "apiEndpoint": member.endpoint,
        "id": id,
        "secretRef": {"namespace": ns, "name": name},
        "impersonatorSecretRef": {"namespace": ns, "name": format!("{name}-impersonator")},
    });
    let mut set = |field: &str, value: Value, present: bool| {
        if present {
            spec[field] = value;
        }
    };
    set("provider", json!(options.provider), !options.provider.is_empty());
    set("region", json!(options.region), !options.region.is_empty());
    set("zones", json!(options.zones), !options.zones.is_empty());
    set("insecureSkipTLSVerification", json!(true), member.insecure_skip_tls_verify);
    set("proxyURL", json!(member.proxy_url), member.proxy_url.is_some());
    let mut metadata = json!({ "name": name });
    if !options.annotations.is_empty() {
        metadata["annotations"] = json!(options.annotations);
    }
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": spec})
}

/// Creates an object unless it exists. One that is being deleted, such as a namespace right after `unjoin`, is awaited
/// and created again.
pub(crate) async fn create_if_absent(client: &Client, resource: &ApiResource, object: &Value) -> Result<(), Error> {
    let (name, namespace) = (text(&object["metadata"]["name"]), text(&object["metadata"]["namespace"]));
    let key = ObjectKey::namespaced(&namespace, &name);
    let failed = |verb: &str| Error::client(format!("{verb} {} {name}", resource.plural));
    let deadline = tokio::time::Instant::now() + DELETION_TIMEOUT;
    let [mut pause, longest] = DELETION_POLL;
    loop {
        match client.create(resource, object).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(failed("create")(error)),
        }
        match client.get_opt(resource, &key).await.map_err(failed("get"))? {
            Some(existing) if !existing.is_deleting() => return Ok(()),
            Some(_) if tokio::time::Instant::now() >= deadline => {
                let (plural, seconds) = (&resource.plural, DELETION_TIMEOUT.as_secs());
                return Err(Error::message(format!(
                    "{plural} {key} is being deleted, which did not end within {seconds}s; see what holds it, in its \
                     metadata.finalizers and status.conditions, and repeat this when it is gone"
                )));
            }
            // It is gone, or will be.
            _ => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(longest);
    }
}

pub(crate) fn decoded(object: &Object) -> Result<Value, Error> {
    object.to_value().map_err(|e| Error::message(format!("{} {} cannot be decoded: {e}", object.kind(), object.key())))
}

/// The command: reads the member's kubeconfig, joins, reports.
pub(crate) async fn run(
    context: &Context,
    args: &[String],
    kubeconfig: Option<&str>,
    kube_context: Option<&str>,
    options: &JoinOptions,
) -> Result<(), Error> {
    let name = cluster_name(args)?;
    let control = context.control_plane().await?;
    let member = context.member(kubeconfig, kube_context, "joining").await?;
    if options.cluster_namespace == "karmada-system" {
        context.log("karmada-system is always reserved for Karmada control plane. We do not recommend using karmada-system in member clusters\n");
    }
    join(&control, &member, name, options).await?;
    let dry = if options.dry_run { " (dry run)" } else { "" };
    context.print(&format!("cluster({name}) is joined successfully{dry}\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_has_each_authority_once() {
        let encoded = |text: &str| BASE64_STANDARD.encode(text);
        for (own, trusted, expected) in [
            ("A\n", None, "A\n"),
            ("A\n", Some(" \n"), "A\n"),
            ("A\nB\n", Some("\nA\n"), "A\nB\n"),
            ("A\n\n", Some("B"), "A\nB\n"),
            ("", Some("B\n"), "B\n"),
        ] {
            assert_eq!(bundle(encoded(own), trusted.map(str::as_bytes)), encoded(expected), "{own:?} {trusted:?}");
        }
    }

    #[test]
    fn which_clusters_are_registered() {
        let joined = json!({"id": "a", "apiEndpoint": "https://1"});
        for (name, id, expected) in [
            ("m2", "b", None),
            ("m1", "a", Some("the cluster at https://2 is already joined as m1; --renew registers it again")),
            (
                "m2",
                "a",
                Some(
                    "the cluster at https://2 is already joined as m1 (at https://1); to give it the name m2, first run: \
                     karmadactl unjoin m1",
                ),
            ),
            (
                "m1",
                "b",
                Some(
                    "the name m1 is that of another cluster (ID a, at https://1); choose another name, or first run: \
                     karmadactl unjoin m1",
                ),
            ),
        ] {
            assert_eq!(registered(name, "https://2", id, "m1", &joined).as_deref(), expected, "{name} {id}");
        }
    }

    fn args(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_are_checked_in_upstreams_order() {
        let message = |names: &[&str]| cluster_name(&args(names)).map(str::to_owned).map_err(|e| e.to_string());
        assert_eq!(message(&["member1"]), Ok("member1".into()));
        assert_eq!(message(&[]), Err("cluster name is required".into()));
        assert_eq!(message(&["a", "b"]), Err("only the cluster name is allowed as an argument".into()));
        assert!(
            message(&["Bad_Name"]).is_err_and(|text| text.starts_with("invalid cluster name(Bad_Name): a lowercase"))
        );
        assert_eq!(message(&["a.b"]), Err("invalid cluster name(a.b): must not contain dots".into()));
        let long = "a".repeat(49);
        assert_eq!(message(&[&long]), Err(format!("invalid cluster name({long}): must be no more than 48 characters")));
    }
}
