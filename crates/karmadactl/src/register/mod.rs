//! `register`: a cluster registers itself in pull mode, using only a bootstrap token of the control plane.
//!
//! In the control plane it obtains a certificate for the cluster's agent and grants the agent its rights; in the member
//! it installs the agent, which creates the Cluster.
//!
//! The process may be killed between any two writes: the same command then completes the registration. Before the first
//! object of an agent, the control plane records the cluster's ID under the name ([`reservation`]), and the Secret of
//! the agent is marked until the agent runs ([`member`]).

pub(crate) mod discovery;
pub(crate) mod member;
mod requests;
mod reservation;

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use clap::Args;
use client::{Client, DeleteOptions, ListOptions};
use futures::future::BoxFuture;
use karmada_api::agents;
use karmada_api::constants::namespaces;
use karmada_api::names::execution_namespace;
use pki::KeyPairPem;
use pki::kubeconfig::{self, Kubeconfig, User};
use serde_json::{Value, json};

use crate::error::Error;
use crate::join::{Member, cluster_id, create_if_absent, decoded, refuse_itself};
use crate::removal::is_gone_by;
use crate::{Context, resources};
use discovery::{Described, Failed};
use member::Preflight;

/// The first pause between attempts to read `cluster-info`; up to three tenths are added.
const DISCOVERY_POLL: Duration = Duration::from_secs(5);
/// An empty namespace is deleted within a second; without a namespace controller it never is.
const NAMESPACE_GONE: Duration = Duration::from_secs(10);
const NAMESPACE_POLL: Duration = Duration::from_millis(100);

#[derive(Args, Clone, Debug)]
pub struct RegisterArgs {
    /// HOST:PORT of the control plane's API server.
    pub args: Vec<String>,
    /// Lifetime of the agent's certificate in seconds
    #[arg(long, default_value_t = 31_536_000)]
    pub cert_expiration_seconds: u32,
    /// Name of the cluster in the control plane; the cluster of the kubeconfig's context when empty
    #[arg(long, default_value = "")]
    pub cluster_name: String,
    /// Namespace of the cluster's Secrets, in the cluster and in the control plane
    #[arg(long, default_value = namespaces::CLUSTER)]
    pub cluster_namespace: String,
    /// Provider of the cluster
    #[arg(long, default_value = "")]
    pub cluster_provider: String,
    /// Region of the cluster
    #[arg(long, default_value = "")]
    pub cluster_region: String,
    /// Zones of the cluster
    #[arg(long, value_delimiter = ',')]
    pub cluster_zones: Vec<String>,
    /// Name of the cluster's context in the kubeconfig file; the current one when empty
    #[arg(long)]
    pub context: Option<String>,
    /// Time within which the control plane must answer, and sign each certificate
    #[arg(long, default_value = "5m0s")]
    pub discovery_timeout: String,
    /// Public key of the control plane's CA, as sha256:HASH; this flag can be repeated
    #[arg(long, value_delimiter = ',')]
    pub discovery_token_ca_cert_hash: Vec<String>,
    /// Trust any control plane that knows the token, without --discovery-token-ca-cert-hash
    #[arg(long)]
    pub discovery_token_unsafe_skip_ca_verification: bool,
    /// Run the preflight checks without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Let the agent renew its certificate before it expires
    #[arg(long)]
    pub enable_cert_rotation: bool,
    /// Image of the agent; it holds /bin/karmada-agent
    #[arg(long, default_value = "docker.io/karmada/karmada-agent:v0.0.0-master")]
    pub karmada_agent_image: String,
    /// Replicas of the agent; one of them is active
    #[arg(long, default_value_t = 1)]
    pub karmada_agent_replicas: u32,
    /// Namespace of the agent in the cluster
    #[arg(short = 'n', long, default_value = namespaces::SYSTEM)]
    pub namespace: String,
    /// URL of the proxy by which the control plane reaches the cluster
    #[arg(long, default_value = "")]
    pub proxy_server_address: String,
    /// Bootstrap token of the control plane
    #[arg(long, default_value = "")]
    pub token: String,
}

impl RegisterArgs {
    /// The URL of the control plane, and the pins.
    fn check(&self) -> Result<(String, Vec<String>), Error> {
        let [endpoint] = self.args.as_slice() else {
            return Err(Error::arguments(format!("accepts 1 arg(s), received {}", self.args.len())));
        };
        if self.token.is_empty() {
            return Err(Error::message("token is required"));
        }
        if self.discovery_token_ca_cert_hash.is_empty() && !self.discovery_token_unsafe_skip_ca_verification {
            return Err(Error::message(
                "need to verify CACertHashes, or set --discovery-token-unsafe-skip-ca-verification=true",
            ));
        }
        if pki::bootstrap::split(&self.token).is_none() {
            return Err(Error::message(
                r#"the bootstrap token was not of the form "\A([a-z0-9]{6})\.([a-z0-9]{16})\z"; create one with: karmadactl token create"#,
            ));
        }
        let pins = discovery::parse_pins(&self.discovery_token_ca_cert_hash).map_err(Error::message)?;
        let endpoint = endpoint.strip_prefix("https://").unwrap_or(endpoint).trim_end_matches('/');
        Ok((format!("https://{endpoint}"), pins))
    }
}

/// A Go duration of a flag.
pub(crate) fn signed_duration(flag: &str, text: &str) -> Result<apimachinery::duration::Duration, Error> {
    text.parse().map_err(|error| invalid(flag, text, &error))
}

/// A Go duration of a flag, which must not be negative.
pub(crate) fn duration(flag: &str, text: &str) -> Result<Duration, Error> {
    let parsed = signed_duration(flag, text)?;
    parsed.to_std().ok_or_else(|| invalid(flag, text, &"it is negative"))
}

pub(crate) fn invalid(flag: &str, text: &str, why: &dyn std::fmt::Display) -> Error {
    Error::Flag(format!("invalid argument {text:?} for \"--{flag}\" flag: {why}"))
}

/// Checks the name of a cluster whose agent gets a certificate for it.
fn check_name(name: &str) -> Result<(), Error> {
    crate::join::cluster_name(&[name.to_owned()])?;
    match agents::name_complaint(name) {
        Some(why) => Err(Error::message(format!("invalid cluster name({name}): {why}"))),
        None => Ok(()),
    }
}

/// The command.
pub fn run<'a>(context: &'a Context, args: &'a RegisterArgs) -> BoxFuture<'a, Result<(), Error>> {
    Box::pin(async move {
        let (server, pins) = args.check()?;
        let timeout = duration("discovery-timeout", &args.discovery_timeout)?;
        // The flag --kubeconfig is that of the member here.
        let kubeconfig = context.kubeconfig.as_ref().map(|path| path.to_string_lossy().into_owned());
        let (file, of_context) = (kubeconfig.as_deref(), args.context.as_deref());
        let member = context.member_of("--kubeconfig", file, of_context, "registering").await?;
        let facts = context.opened.member.get().map(|it| it.facts.cluster.clone()).unwrap_or_default();
        let name = if args.cluster_name.is_empty() { facts } else { args.cluster_name.clone() };
        check_name(&name)?;
        context.print("[preflight] Running pre-flight checks\n");
        let begun = match member::preflight(&member.client, &args.namespace, &name).await? {
            Preflight::Absent => None,
            Preflight::Begun(secret) => Some(secret),
            Preflight::Refused(complaints) => {
                let lines: String = complaints.iter().map(|it| format!("\t[ERROR]: {it}\n")).collect();
                context.print(&format!(
                    "error execution phase preflight: [preflight] Some fatal errors occurred:\n{lines}[preflight] Please check \
                     the above errors\n"
                ));
                // Upstream's exit code is 0.
                return Ok(());
            }
        };
        context.print("[preflight] All pre-flight checks were passed\n");
        if args.dry_run {
            return Ok(());
        }
        if begun.is_some() {
            context.log(&format!("An earlier registration of cluster {name} did not end; it is continued\n"));
        }
        let registering = Registering { context, args, name: &name, server: &server, timeout, begun };
        registering.register(&member, &pins).await?;
        context.print(&format!("\ncluster({name}) is joined successfully\n"));
        Ok(())
    })
}

/// One registration.
struct Registering<'a> {
    context: &'a Context,
    args: &'a RegisterArgs,
    name: &'a str,
    server: &'a str,
    timeout: Duration,
    /// The agent's Secret of a registration that did not end.
    begun: Option<Value>,
}

impl Registering<'_> {
    fn step(&self, text: &str) {
        self.context.print(&format!("[karmada-agent-start] {text}\n"));
    }

    async fn register(&self, member: &Member, pins: &[String]) -> Result<(), Error> {
        self.step("Waiting to perform the TLS Bootstrap");
        let described = self.discover(pins).await?;
        let mut endpoint = described.endpoint(self.server);
        endpoint.token = Some(self.args.token.clone());
        let failed = |error: client::Error| Error::message(format!("connect to {}: {error}", self.server));
        let bootstrap = self.context.shown(Client::from_endpoint(&endpoint).map_err(failed)?);
        // Ten minutes are the shortest life of a certificate.
        let (user, prefix) = (agents::RBAC_GENERATOR, format!("{}{}", agents::RBAC_GENERATOR_REQUEST, self.name));
        let (pair, request) = requests::obtain(&bootstrap, user, &prefix, 600, self.timeout).await?;
        let generator = self.client(&described, agents::RBAC_GENERATOR, &pair).await?;
        delete(&generator, &requests::resource(), &ObjectKey::cluster(request.as_str())).await?;
        self.step("Waiting to check cluster exists");
        let id = cluster_id(&member.client).await?;
        refuse_itself(&generator, self.name, &member.endpoint, &id, "--kubeconfig and --context").await?;
        if self.is_registered(&generator, &id).await? {
            // The agent has already run: only the wait for it was interrupted.
            member::install(&member.client, self.args, self.name, &member.endpoint, None).await?;
            return member::finish(&member.client, &self.args.namespace, self.args.karmada_agent_replicas).await;
        }
        self.step("Assign the necessary RBAC permissions to the agent");
        let role = agents::grants(self.name, &self.args.cluster_namespace).remove(0);
        reservation::reserve(&generator, &role, self.name, &id, world::World::system().now()).await?;
        let space = ObjectKey::cluster(execution_namespace(self.name));
        // One that was there before is of an earlier cluster, or an administrator made it.
        let is_new = matches!(generator.get_opt(&resources::NAMESPACE, &space).await, Ok(None));
        let outcome = self.install(&described, &bootstrap, &generator, member).await;
        if outcome.is_err() {
            self.roll_back(&generator, member, &id, Some(space).filter(|_| is_new)).await;
        }
        outcome
    }

    /// Deletes the objects of this registration, unless the agent has registered the cluster meanwhile. `space`: the
    /// execution namespace, if this registration created it.
    async fn roll_back(&self, generator: &Client, member: &Member, id: &str, space: Option<ObjectKey>) {
        let (context, name) = (self.context, self.name);
        if !matches!(self.is_registered(generator, id).await, Ok(false)) {
            context.log(&format!(
                "Cluster {name} may be registered by its agent already, so nothing is deleted. Run the command again, or: \
                 karmadactl unregister {name}\n"
            ));
            return;
        }
        context.print("karmadactl register failed and started deleting the created resources\n");
        let revoked = revoke(generator, name, &self.args.cluster_namespace).await;
        let left = match space {
            Some(space) => leave(generator, &space).await,
            None => Ok(()),
        };
        for result in [revoked, left, member::uninstall(&member.client, &self.args.namespace).await] {
            if let Err(error) = result {
                context.log(&format!("Failed to delete what was created: {error}\n"));
            }
        }
    }

    async fn discover(&self, pins: &[String]) -> Result<Described, Error> {
        let world = world::World::system();
        let deadline = tokio::time::Instant::now() + self.timeout;
        let mut reported = String::new();
        loop {
            let why = match discovery::discover(self.context, self.server, &self.args.token, pins).await {
                Ok(described) => return Ok(described),
                Err(Failed::Final(why)) => why,
                Err(Failed::Retry(why)) if tokio::time::Instant::now() < deadline => {
                    // Minutes may pass until the end: a wrong address or token shows at once.
                    if why != reported {
                        let limit = &self.args.discovery_timeout;
                        self.context.log(&format!("Retrying for up to {limit}: {why}\n"));
                        reported = why;
                    }
                    let jitter = 1.0 + 0.3 * world.random_fraction();
                    tokio::time::sleep(DISCOVERY_POLL.mul_f64(jitter).min(self.timeout)).await;
                    continue;
                }
                Err(Failed::Retry(why)) => why,
            };
            return Err(Error::message(format!("couldn't validate the identity of the API Server: {why}")));
        }
    }

    async fn client(&self, described: &Described, user: &str, pair: &KeyPairPem) -> Result<Client, Error> {
        let config = self.kubeconfig(described, user, pair)?;
        let client = Client::from_kubeconfig_text(&config, None).await.map(|client| self.context.shown(client));
        client.map_err(|error| Error::message(format!("connect to {} as {user}: {error}", self.server)))
    }

    /// With upstream's names of its parts.
    fn kubeconfig(&self, described: &Described, user: &str, pair: &KeyPairPem) -> Result<String, Error> {
        let server = "karmada-apiserver";
        let mut config = Kubeconfig::new(server, self.server, &described.authority, user, User::with_certificate(pair));
        if let Some(name) = &described.server_name {
            config = config.with_server_name(name);
        }
        let name = format!("{user}@{server}");
        let context = kubeconfig::Context { cluster: server.into(), user: user.into() };
        config.contexts = vec![kubeconfig::NamedContext { name: name.clone(), context }];
        config.current_context = name;
        config.to_yaml().map_err(|error| Error::message(format!("the kubeconfig of the agent: {error}")))
    }

    /// Whether the agent of this registration, which was interrupted, has created its Cluster.
    ///
    /// # Errors
    /// The name or the ID is that of another registered cluster.
    async fn is_registered(&self, generator: &Client, id: &str) -> Result<bool, Error> {
        let name = self.name;
        let key = ObjectKey::cluster(name);
        let found = generator.get_opt(&resources::CLUSTER, &key).await;
        if let Some(cluster) = found.map_err(Error::client(format!("get cluster {name}")))? {
            if self.begun.is_some() && decoded(&cluster)?["spec"]["id"] == id {
                return Ok(true);
            }
            return Err(Error::message(format!("failed to register as cluster with name {name} already exists")));
        }
        let clusters = generator.list(&resources::CLUSTER, None, &ListOptions::default()).await;
        for cluster in clusters.map_err(Error::client("list clusters"))?.items {
            if decoded(&cluster)?["spec"]["id"] == id {
                let known = cluster.name();
                return Err(Error::message(format!(
                    "the cluster ID {id} or the cluster name {name} has been registered: it is cluster {known}; first run: \
                     karmadactl unregister {known}"
                )));
            }
        }
        Ok(false)
    }

    async fn install(
        &self,
        described: &Described,
        bootstrap: &Client,
        generator: &Client,
        member: &Member,
    ) -> Result<(), Error> {
        let (args, name) = (self.args, self.name);
        self.grant(generator).await?;
        self.step("Waiting to construct karmada-agent kubeconfig");
        let kubeconfig = match self.earlier_kubeconfig().await {
            Some(kubeconfig) => kubeconfig,
            None => {
                let (user, prefix) = (agents::user(name), format!("{name}-"));
                let lifetime = args.cert_expiration_seconds;
                let (pair, _) = requests::obtain(bootstrap, &user, &prefix, lifetime, self.timeout).await?;
                self.kubeconfig(described, name, &pair)?
            }
        };
        self.step("Waiting the necessary secret and RBAC");
        self.step("Waiting karmada-agent Deployment");
        member::install(&member.client, args, name, &member.endpoint, Some(&kubeconfig)).await?;
        member::finish(&member.client, &args.namespace, args.karmada_agent_replicas).await
    }

    /// The kubeconfig that an interrupted registration has stored, if the control plane accepts it. An agent may use it
    /// already.
    async fn earlier_kubeconfig(&self) -> Option<String> {
        let kubeconfig = member::kubeconfig_of(self.begun.as_ref()?)?;
        let user = member::user_of(&kubeconfig, self.server)?;
        if user != agents::user(self.name) {
            return None;
        }
        let client = self.context.shown(Client::from_kubeconfig_text(&kubeconfig, None).await.ok()?);
        let key = ObjectKey::cluster(execution_namespace(self.name));
        client.get(&resources::NAMESPACE, &key).await.ok()?;
        Some(kubeconfig)
    }

    /// Creates the namespaces and the roles of the agent; those of an earlier attempt are set right.
    async fn grant(&self, generator: &Client) -> Result<(), Error> {
        let execution = execution_namespace(self.name);
        for namespace in [namespaces::SYSTEM, self.args.namespace.as_str(), &self.args.cluster_namespace, &execution] {
            let object = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace, "labels": {"karmada.io/system": "true"}}});
            create_if_absent(generator, &resources::NAMESPACE, &object).await?;
        }
        // The first has been written with the reservation.
        for grant in agents::grants(self.name, &self.args.cluster_namespace).into_iter().skip(1) {
            let (resource, object) = (&grant.resource, &grant.object);
            let written = match generator.create(resource, object).await {
                Err(error) if error.is_already_exists() => generator.update(resource, object).await,
                other => other,
            };
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            written.map_err(Error::client(format!("create {} {name}", resource.plural)))?;
        }
        Ok(())
    }
}

/// Deletes the roles of an agent.
///
/// # Errors
/// Names the object.
pub(crate) async fn revoke(control: &Client, cluster: &str, namespace: &str) -> Result<(), Error> {
    for grant in agents::grants(cluster, namespace).into_iter().rev() {
        delete(control, &grant.resource, &key_of(&grant.object)).await?;
    }
    Ok(())
}

/// Deletes a namespace, and waits until it is gone: the next attempt cannot write into one that is being deleted.
async fn leave(control: &Client, namespace: &ObjectKey) -> Result<(), Error> {
    delete(control, &resources::NAMESPACE, namespace).await?;
    let deadline = tokio::time::Instant::now() + NAMESPACE_GONE;
    match is_gone_by(control, &resources::NAMESPACE, namespace, (NAMESPACE_POLL, deadline), || ()).await? {
        true => Ok(()),
        false => Err(Error::message(format!("namespace {namespace} is still being deleted"))),
    }
}

/// The key of an object of the control plane, from its metadata.
pub(crate) fn key_of(object: &Value) -> ObjectKey {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    match metadata["namespace"].as_str() {
        Some(namespace) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(name),
    }
}

/// Deletes an object, if it exists.
pub(crate) async fn delete(client: &Client, resource: &ApiResource, key: &ObjectKey) -> Result<(), Error> {
    match client.delete(resource, key, &DeleteOptions::background()).await {
        Err(error) if !error.is_not_found() => Err(Error::client(format!("delete {} {key}", resource.plural))(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn args() -> RegisterArgs {
        RegisterArgs {
            args: vec!["k:5443".into()],
            cert_expiration_seconds: 31_536_000,
            cluster_name: "m1".into(),
            cluster_namespace: namespaces::CLUSTER.into(),
            cluster_provider: String::new(),
            cluster_region: String::new(),
            cluster_zones: Vec::new(),
            context: None,
            discovery_timeout: "5m0s".into(),
            discovery_token_ca_cert_hash: vec![format!("sha256:{}", "0".repeat(64))],
            discovery_token_unsafe_skip_ca_verification: false,
            dry_run: false,
            enable_cert_rotation: false,
            karmada_agent_image: "agent".into(),
            karmada_agent_replicas: 1,
            namespace: namespaces::SYSTEM.into(),
            proxy_server_address: String::new(),
            token: "abcdef.0123456789abcdef".into(),
        }
    }

    #[test]
    fn flags_are_checked_in_upstreams_order() {
        let check = |change: &dyn Fn(&mut RegisterArgs), expected: Result<&str, &str>| {
            let mut args = args();
            change(&mut args);
            let found = args.check().map(|(server, _)| server).map_err(|error| error.to_string());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned));
        };
        check(&|_| (), Ok("https://k:5443"));
        check(&|it| it.args = vec!["https://k:5443/".into()], Ok("https://k:5443"));
        check(&|it| (it.args, it.token) = (Vec::new(), String::new()), Err("accepts 1 arg(s), received 0"));
        check(&|it| it.args.push("x".into()), Err("accepts 1 arg(s), received 2"));
        check(&|it| it.token.clear(), Err("token is required"));
        let unverified = "need to verify CACertHashes, or set --discovery-token-unsafe-skip-ca-verification=true";
        check(&|it| it.discovery_token_ca_cert_hash.clear(), Err(unverified));
        let short = "invalid discovery token CA certificate hash: invalid hash \"sha256:0000\", expected a 32 byte SHA-256 hash, found 2 bytes";
        check(&|it| it.discovery_token_ca_cert_hash = vec!["sha256:0000".into()], Err(short));
        for name in ["rbac-generator", "m1-impersonator"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert!(check_name("m1").is_ok());
    }
}
