//! Aggregated servers: another API server forwards the requests for one group to them (APIService).
//!
//! The server in front has authenticated and authorized the user, and its client certificate proves the right to name
//! users in headers. Requests without this certificate are anonymous, so no review is needed. Objects are stored in an
//! embedded store, or in etcd.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use apimachinery::resource::Resource;
use apiserver::auth::authn::{Authentication, ClientAuthority, FrontProxy};
use apiserver::routes::Documents;
use apiserver::serve::{self, Protocol, TlsConfig};
use apiserver::{Admission, ApiServer, Authorization, Route, ServerConfig};
use client::Client;
use tokio_util::sync::CancellationToken;
use transport::ApiService;
use world::World;

use super::front_authority::{self, Following, Origin, Published};
use crate::certificates::{Keeper, Served};
use crate::data_dir::DataDir;
use crate::engine::{Engine, Kind};
use crate::external::Settings;
use crate::flags::FlagValues;
use crate::reach::Listen;
use crate::serving::OwnCertificate;
use crate::sockets::Bound;

/// Such a server without its socket.
pub struct AggregatedServer {
    pub server: ApiServer,
    engine: Engine,
}

impl AggregatedServer {
    /// `routes` are served in addition to the resources, whose writes pass the plugins.
    pub async fn open(
        front: FrontProxy,
        engine: Engine,
        (resources, admission): (Vec<Resource>, Vec<Arc<dyn Admission>>),
        mut routes: Vec<Arc<dyn Route>>,
        world: &World,
    ) -> anyhow::Result<Self> {
        let version = crate::access::version();
        // After the other routes, which may serve their own documents.
        routes.push(Arc::new(Documents::new(version.clone())));
        routes.extend(crate::operation::pages(world));
        let config = ServerConfig {
            store: engine.readable(engine.store()),
            world: world.clone(),
            resources,
            admission,
            authentication: Box::new(move |_| Authentication {
                front_proxy: Some(front),
                // Anonymous requests may read the server's health.
                anonymous: true,
                ..Authentication::default()
            }),
            authorization: Authorization::Delegated,
            routes,
            crds: Vec::new(),
            converters: Default::default(),
            version,
        };
        let server = ApiServer::start(config).await.context("reading the store")?;
        engine.count_in(&server.shared().metrics);
        engine.report_damage_to(&server.shared().health);
        crate::metrics::of_process(&server.shared().metrics);
        Ok(Self { server, engine })
    }

    pub fn service(&self) -> ApiService {
        self.server.service()
    }

    /// Serves until a signal; `name` is printed.
    ///
    /// # Errors
    /// The socket cannot be opened, or the store cannot be closed.
    pub async fn serve(
        self,
        name: &str,
        front: FrontSocket,
        authority: Following,
        data: &DataDir,
    ) -> anyhow::Result<()> {
        let address = front.bound.address();
        let tls = match &front.certificate {
            Some(own) => own.tls.clone(),
            None => {
                let issued = &data.pki.server;
                TlsConfig::of_protocol(&issued.certificate, &issued.key, &front.protocol).context("setting up TLS")?
            }
        };
        let listener = front.bound.listen()?;
        let stop = CancellationToken::new();
        let service = self.service();
        let mut listen = Listen::new(address.ip(), address.port(), name);
        listen.certificate = front.certificate;
        let shared = self.server.shared();
        let served = Served {
            data,
            listen: &listen,
            tls: &tls,
            names: data.names().clone(),
            client: None,
            registry: &shared.metrics,
            world: &shared.world,
        };
        let keeping = Keeper::new(served).start(stop.clone());
        let following = tokio::spawn(authority.run(stop.clone()));
        let serving = tokio::spawn(serve::serve(listener, Some(tls), service, self.server.limits(), stop.clone()));
        let data_dir = crate::cli::absolute(data.root());
        let mut signals = crate::cli::Signals::listen()?;
        tracing::info!(address = %address, dataDir = data_dir, "The {name} is ready");
        crate::cli::print(&format!("The {name} is ready on https://{address}\n"));
        let outcome = tokio::select! {
            () = signals.received() => Ok(()),
            reason = self.engine.replaced() => Err(reason),
        };
        self.server.end_watches();
        stop.cancel();
        keeping.await.context("ending the renewal of certificates")?;
        following.await.context("ending the renewal of the front proxy's authorities")?;
        serving.await.context("ending the connections")?;
        self.close().await?;
        outcome
    }

    pub async fn close(self) -> anyhow::Result<()> {
        self.server.end_watches();
        self.server.shutdown();
        self.engine.close().await
    }
}

/// The store by the flags of such a server.
///
/// # Errors
/// The invalid flag.
pub fn store(flags: &FlagValues<'_>) -> anyhow::Result<Kind> {
    Ok(Settings::from_flags(flags)?.map_or(Kind::Embedded, |settings| Kind::Etcd(settings.into())))
}

/// The store and the certificates of such a server. A data directory with certificates had a store: a missing one is
/// refused, not started empty.
pub async fn kept(store: Kind, data_dir: &Path, service: &str, world: &World) -> anyhow::Result<(Engine, DataDir)> {
    let must_exist = DataDir::is_used(data_dir);
    let engine = Engine::open(store, &DataDir::store(data_dir), must_exist, world).await?;
    let data = DataDir::open(data_dir, &[service.to_owned()], world)?;
    Ok((engine, data))
}

/// The client certificates that may name users: by flags, or as the API server in front publishes them.
pub async fn front_proxy(flags: &FlagValues<'_>, control: &Client, world: &World) -> anyhow::Result<Front> {
    let file = flags.text("requestheader-client-ca-file");
    let of_flags = || flags.list("requestheader-allowed-names").into_iter().map(str::to_owned).collect();
    let (Published { authority, names }, origin) = if file.is_empty() {
        (front_authority::read(control).await?, Origin::Published(control.clone()))
    } else {
        let authority = std::fs::read_to_string(file)
            .with_context(|| format!("--requestheader-client-ca-file: cannot read {file}"))?;
        let origin = Origin::File { path: file.into(), last: authority.clone() };
        (Published { authority, names: of_flags() }, origin)
    };
    let authority = ClientAuthority::from_pem(&authority).context("reading the authority of the front proxy")?;
    let following = Following { origin, authority: authority.clone(), world: world.clone() };
    let lower = |name: &str| flags.list(name).into_iter().map(str::to_lowercase).collect::<Vec<_>>();
    let mut front = FrontProxy::new(authority, names);
    for (flag, names) in [
        ("requestheader-username-headers", &mut front.user_headers),
        ("requestheader-group-headers", &mut front.group_headers),
        ("requestheader-uid-headers", &mut front.uid_headers),
        ("requestheader-extra-headers-prefix", &mut front.extra_prefixes),
    ] {
        let values = lower(flag);
        if !values.is_empty() {
            *names = values;
        }
    }
    Ok(Front { proxy: front, following })
}

/// The front proxy's authentication, and the source of later authorities.
pub struct Front {
    pub proxy: FrontProxy,
    pub following: Following,
}

/// The bound address and the serving certificate of such a server, before anything is created.
pub struct FrontSocket {
    bound: Bound,
    /// `None` when one is issued.
    certificate: Option<OwnCertificate>,
    protocol: Protocol,
}

impl FrontSocket {
    /// # Errors
    /// A certificate that cannot be used, or an address that cannot be bound.
    pub fn bind(flags: &FlagValues<'_>, world: &World) -> anyhow::Result<Self> {
        let file = |name| Some(Path::new(flags.text(name))).filter(|path| !path.as_os_str().is_empty());
        let only_13 = match flags.text("tls-min-version") {
            "" | "VersionTLS12" => false,
            "VersionTLS13" => true,
            other => anyhow::bail!("--tls-min-version: {other:?} is neither VersionTLS12 nor VersionTLS13"),
        };
        let protocol = Protocol { only_13, suites: Vec::new() };
        let (certificate, key) = (file("tls-cert-file"), file("tls-private-key-file"));
        let certificate = OwnCertificate::from_files(certificate, key, &protocol, world)?;
        let address: IpAddr = flags.parsed("bind-address")?;
        let address = SocketAddr::new(address, flags.parsed("secure-port")?);
        let bound = Bound::new(address, "--bind-address, --secure-port")?;
        Ok(Self { bound, certificate, protocol })
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[tokio::test]
    async fn a_lost_store_is_not_recreated() {
        let directory = tempfile::tempdir().expect("a directory");
        let (engine, _) = kept(Kind::Embedded, directory.path(), "karmada-search.karmada-system.svc", &World::system())
            .await
            .expect("made");
        engine.close().await.expect("closed");
        std::fs::remove_dir_all(DataDir::store(directory.path())).expect("removed");
        let again = kept(Kind::Embedded, directory.path(), "karmada-search.karmada-system.svc", &World::system()).await;
        let error = again.err().map(|error| format!("{error:#}")).unwrap_or_default();
        assert!(error.contains("start-empty"), "{error}");
    }
}
