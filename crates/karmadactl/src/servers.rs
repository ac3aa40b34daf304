//! The API servers that a command reads: the control plane, and members through its cluster proxy. No kubeconfig of a
//! member is needed for that.

use apimachinery::ObjectKey;
use client::{Client, ListOptions};

use crate::Context;
use crate::error::Error;
use crate::resources;
use crate::scope::OperationScope;

/// Members whose answers are awaited at the same time, so that a fleet takes as long as its slowest member. Each costs
/// one connection of this process and one of the control plane; the API server takes 1,000 requests of a user at a
/// time.
pub const CONCURRENT: usize = 256;

/// The control plane's name among clusters.
pub const KARMADA: &str = "Karmada";

pub struct Server {
    /// [`KARMADA`] or a cluster's name.
    pub name: String,
    pub client: Client,
}

impl Server {
    pub fn is_member(&self) -> bool {
        self.name != KARMADA
    }

    /// Prefixes an error with the name of this server.
    pub fn error(&self, text: impl std::fmt::Display) -> String {
        format!("cluster({}): {text}", self.name)
    }
}

/// A member behind the control plane.
pub fn member(control: &Client, cluster: &str) -> Client {
    control.behind(&karmada_api::cluster::proxy_path(cluster))
}

/// The servers in the scope; the control plane first, then the members as named, or all of them by name.
///
/// # Errors
/// When clusters cannot be listed, or some that are named do not exist.
pub async fn select(control: &Client, scope: OperationScope, named: &[String]) -> Result<Vec<Server>, Error> {
    let mut servers = Vec::new();
    if scope.includes_karmada() {
        servers.push(Server { name: KARMADA.to_owned(), client: control.clone() });
    }
    if scope.includes_members() {
        let clusters = control
            .list(&resources::CLUSTER, None, &ListOptions::default())
            .await
            .map_err(Error::client("list clusters"))?;
        let all: Vec<&str> = clusters.items.iter().map(|cluster| cluster.name()).collect();
        let selected: Vec<&str> =
            if named.is_empty() { all.clone() } else { named.iter().map(String::as_str).collect() };
        let unknown: Vec<&str> = selected.iter().copied().filter(|name| !all.contains(name)).collect();
        if !unknown.is_empty() {
            return Err(Error::message(format!("clusters don't exist: {}", unknown.join(","))));
        }
        servers.extend(selected.iter().map(|name| Server { name: (*name).to_owned(), client: member(control, name) }));
    }
    Ok(servers)
}

/// [`one`] for commands with a flag for the scope. Warns about a cluster that the scope excludes.
///
/// # Errors
/// As [`one`].
pub async fn chosen(
    context: &Context,
    control: &Client,
    scope: OperationScope,
    cluster: &str,
) -> Result<Client, Error> {
    if scope == OperationScope::Karmada && !cluster.is_empty() {
        context.warn("--cluster has no effect without --operation-scope=members");
    }
    one(control, scope, cluster).await
}

/// The server of commands that read a single one: the control plane, or the member `cluster`.
///
/// # Errors
/// When the scope covers several servers, or the cluster does not exist.
pub async fn one(control: &Client, scope: OperationScope, cluster: &str) -> Result<Client, Error> {
    match scope {
        OperationScope::Karmada => Ok(control.clone()),
        OperationScope::All => Err(Error::message(format!("not support operation scope: {scope}"))),
        OperationScope::Members if cluster.is_empty() => Err(Error::message("must specify a member cluster")),
        OperationScope::Members => {
            let found = control.get(&resources::CLUSTER, &ObjectKey::cluster(cluster)).await;
            found.map_err(Error::client(format!("get cluster {cluster}")))?;
            Ok(member(control, cluster))
        }
    }
}

/// The server's message if it refused the request, otherwise the transport error.
pub fn reason(error: &client::Error) -> String {
    error.status().map_or_else(|| error.to_string(), |status| status.message.clone())
}
