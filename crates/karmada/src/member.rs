//! A simulated member cluster that can be joined like any other: certificates, authentication, RBAC, a socket and a
//! kubeconfig.

use std::path::{Path, PathBuf};

use apiserver::Authorization;
use apiserver::serve::Limits;
use client::Client;
use kubernetes_api::services::Ranges;
use metrics::Registry;
use simulator::{Access, Member, MemberOptions};
use transport::ApiService;
use world::World;

use crate::access::{self, Socket, SocketContext};
use crate::data_dir::DataDir;
use crate::engine::{Engine, Kind};
use crate::outage::Outage;
use crate::reach::Listen;
use crate::service_accounts::ServiceAccounts;

#[derive(Clone, Debug)]
pub struct Options {
    pub data_dir: PathBuf,
    pub store: Kind,
    pub listen: Listen,
    pub member: MemberOptions,
}

/// A running member.
pub struct RunningMember {
    member: Member,
    engine: Engine,
    socket: Socket,
    outage: Option<Outage>,
}

impl RunningMember {
    /// Returns once the socket accepts and the member's controllers run.
    pub async fn start(options: Options, world: &World) -> anyhow::Result<Self> {
        Self::start_behind(None, options, world).await
    }

    /// As [`RunningMember::start`], with a switch that makes its API server unreachable.
    pub async fn start_behind(outage: Option<Outage>, options: Options, world: &World) -> anyhow::Result<Self> {
        let Options { data_dir, store, listen, member } = options;
        listen.check()?;
        let (listen, bound) = listen.bind()?;
        let engine = Engine::open(store, &DataDir::store(&data_dir), DataDir::is_used(&data_dir), world).await?;
        let data = DataDir::open_for(&data_dir, &listen, ServiceAccounts::default(), world)?;
        let access = Access {
            authentication: access::authentication(&data, access::Accepted::of(&data))?,
            authorization: Authorization::Rbac,
            routes: access::routes(&data, &access::version(), data.keys.tokens.issuers.clone()),
            controllers: access::controllers(&data),
        };
        let member = Member::start(member, engine.store(), world.clone(), access).await?;
        let services = Ranges::default();
        let front = listen.front(&services);
        let authentication = &crate::aggregation::Settings::default().published(&data, None);
        let own = crate::bootstrap::Server {
            front,
            others: &[],
            services: &services,
            authentication,
            world,
            more: Vec::new(),
        };
        // The server does not listen yet.
        engine.at_once(crate::bootstrap::run(member.client(), &own)).await?;
        let service = behind(outage.as_ref(), member.service());
        let around = SocketContext { client: member.client().clone(), registry: &Registry::default(), world };
        let socket = Socket::open(bound, service, Limits::default(), &data, &listen, around).await?;
        Ok(Self { member, engine, socket, outage })
    }

    pub fn name(&self) -> &str {
        self.member.name()
    }

    /// A client of this process, with every right.
    pub fn client(&self) -> &Client {
        self.member.client()
    }

    /// The API server, for clients in this process; they authenticate as clients of the socket do.
    pub fn service(&self) -> ApiService {
        behind(self.outage.as_ref(), self.member.service())
    }

    /// The switch before its API server, if there is one. [`RunningMember::client`] is not behind it.
    pub fn outage(&self) -> Option<&Outage> {
        self.outage.as_ref()
    }

    /// The URL in its kubeconfig.
    pub fn url(&self) -> &str {
        &self.socket.url
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.socket.kubeconfig
    }

    /// Waits for requests in flight, then closes the store.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.socket.close().await?;
        self.member.stop().await;
        self.engine.close().await
    }
}

fn behind(outage: Option<&Outage>, service: ApiService) -> ApiService {
    match outage {
        Some(outage) => outage.before(service),
        None => service,
    }
}
