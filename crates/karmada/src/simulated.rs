//! Members simulated in the process of a control plane. They are joined as real members are, by URL and token; only
//! their connections have no socket.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use apimachinery::ObjectKey;
use client::{Client, Endpoint, Patch, PatchOptions};
use controllers::Connector;
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmadactl::join::{self, JoinOptions};
use serde_json::json;
use simulator::MemberOptions;
use transport::ApiService;
use world::World;

use crate::engine::Kind;
use crate::member::{Options, RunningMember};
use crate::outage::Outage;
use crate::reach::Listen;

/// A join is a dozen small requests, half of them to the member.
const JOINED_AT_ONCE: usize = 16;

/// The members of one process.
pub struct SimulatedMembers(Vec<RunningMember>);

impl SimulatedMembers {
    /// Starts members, each on a separate port and with its directory and kubeconfig under `root`. An earlier port is
    /// reused if it is free.
    pub async fn start(root: &Path, members: Vec<MemberOptions>, store: Kind, world: &World) -> anyhow::Result<Self> {
        Self::start_each(root, members, store, || None, world).await
    }

    /// As [`SimulatedMembers::start`], each with a switch that makes its API server unreachable.
    pub async fn start_interruptible(
        root: &Path,
        members: Vec<MemberOptions>,
        store: Kind,
        world: &World,
    ) -> anyhow::Result<Self> {
        Self::start_each(root, members, store, || Some(Outage::default()), world).await
    }

    async fn start_each(
        root: &Path,
        members: Vec<MemberOptions>,
        store: Kind,
        outage: impl Fn() -> Option<Outage>,
        world: &World,
    ) -> anyhow::Result<Self> {
        let (outage, store) = (&outage, &store);
        let started = members.into_iter().map(async |member| {
            let data_dir = root.join(&member.name);
            let mut options = options(&data_dir, member, store.clone());
            options.listen.secure_port = former_port(&data_dir.join(&options.listen.kubeconfig)).unwrap_or(0);
            let name = options.member.name.clone();
            let started = RunningMember::start_behind(outage(), options, world).await;
            started.with_context(|| format!("starting member {name}"))
        });
        Ok(Self(try_join_all(started).await?))
    }

    pub fn iter(&self) -> impl Iterator<Item = &RunningMember> {
        self.0.iter()
    }

    /// Reaches these members without a socket, with the credentials in the control plane.
    pub fn connector(&self) -> Connector {
        let services: HashMap<String, ApiService> =
            self.iter().map(|member| (member.url().to_owned(), member.service())).collect();
        Arc::new(move |endpoint: &Endpoint| {
            let service = services.get(&endpoint.server)?;
            Client::in_process_with_token(service.clone(), endpoint.token.as_deref()?).ok()
        })
    }

    /// Joins new members, and updates the addresses of the others in the control plane.
    pub async fn join(&self, control: &Client) -> anyhow::Result<()> {
        let joined = stream::iter(self.iter()).map(async |member| {
            join_or_move(control, member).await.with_context(|| format!("joining member {}", member.name()))
        });
        joined.buffer_unordered(JOINED_AT_ONCE).try_collect().await
    }

    pub async fn stop(self) -> anyhow::Result<()> {
        for member in self.0 {
            let name = member.name().to_owned();
            member.stop().await.with_context(|| format!("stopping member {name}"))?;
        }
        Ok(())
    }
}

fn options(data_dir: &Path, member: MemberOptions, store: Kind) -> Options {
    let listen = Listen::new(std::net::Ipv4Addr::LOCALHOST.into(), 0, &member.name);
    Options { data_dir: data_dir.to_owned(), store, listen, member }
}

/// The port of the last start, if it is free.
fn former_port(kubeconfig: &Path) -> Option<u16> {
    let text = std::fs::read_to_string(kubeconfig).ok()?;
    let server = text.lines().find_map(|line| line.trim().strip_prefix("server: "))?;
    let port = server.trim_matches(['"', '\'']).rsplit_once(':')?.1.parse().ok()?;
    std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port)).ok().map(|_| port)
}

async fn join_or_move(control: &Client, member: &RunningMember) -> anyhow::Result<()> {
    let key = ObjectKey::cluster(member.name());
    let Some(object) = control.get_opt(&Cluster::api_resource(), &key).await? else {
        let joining = join::Member {
            client: member.client().clone(),
            endpoint: member.url().to_owned(),
            insecure_skip_tls_verify: false,
            authority: None,
            proxy_url: None,
        };
        join::join(control, &joining, member.name(), &JoinOptions::default()).await?;
        return Ok(());
    };
    let cluster = Cluster::from_object(&object)?;
    if cluster.spec.id != join::cluster_id(member.client()).await? {
        bail!("another cluster of that name is a member already; choose another data directory, or unjoin it");
    }
    if cluster.spec.api_endpoint != member.url() {
        let patch = Patch::Merge(json!({"spec": {"apiEndpoint": member.url()}}));
        control.patch(&Cluster::api_resource(), &key, &patch, &PatchOptions::default()).await?;
    }
    Ok(())
}
