//! The API server as a process: store, certificates, authentication, the served resources, and the socket.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use apimachinery::GroupVersionKind;
use apimachinery::resource::Resource;
use apiserver::authn::{Authentication, ClientAuthority, ServiceAccountTokens, StaticTokens};
use apiserver::crds::Converters;
use apiserver::documents::Documents;
use apiserver::routes::{Reviews, Tokens};
use apiserver::serve::{self, Limits, TlsConfig};
use apiserver::tokens::Issuer;
use apiserver::version::VersionInfo;
use apiserver::{ApiServer, Authorization, Route, ServerConfig};
use client::Client;
use karmada_api::work::BindingConverter;
use pki::{Signer, Verifier};
use storage::embedded::{EmbeddedStore, Options as StoreOptions};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transport::Identity;
use world::World;

use crate::admission::KarmadaAdmission;
use crate::data_dir::DataDir;

/// `iss` and audience of service account tokens, as kube-apiserver has it inside a cluster.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

#[derive(Clone, Debug)]
pub struct Options {
    pub data_dir: PathBuf,
    pub bind_address: std::net::IpAddr,
    /// 0 takes any free port.
    pub secure_port: u16,
    pub token_auth_file: Option<PathBuf>,
    /// The kubeconfig's file name in the data directory.
    pub kubeconfig: &'static str,
    /// The name of the cluster, user and context in it.
    pub cluster: &'static str,
}

/// An API server with everything in place but its socket: in-process clients can use it already.
pub struct Opened {
    pub server: ApiServer,
    pub data: DataDir,
    store: EmbeddedStore,
}

/// A serving API server.
pub struct Running {
    pub server: ApiServer,
    pub data: DataDir,
    pub address: SocketAddr,
    pub kubeconfig: PathBuf,
    store: EmbeddedStore,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

/// Opens the store and makes the bootstrap objects.
pub async fn open(options: &Options, world: &World) -> anyhow::Result<Opened> {
    let data = DataDir::open(&options.data_dir, &advertised(options.bind_address), world)?;
    let store = EmbeddedStore::open(data.store(), StoreOptions::default())
        .await
        .with_context(|| format!("opening the store in {}", data.store().display()))?;
    let server =
        ApiServer::start(server_config(options, &data, store.clone(), world)?).await.context("reading the store")?;
    let opened = Opened { server, data, store };
    crate::bootstrap::run(&opened.client("apiserver")).await?;
    Ok(opened)
}

impl Opened {
    /// A client of this process, with every right.
    pub fn client(&self, component: &str) -> Client {
        Client::in_process(self.server.service(), Identity::system(component))
    }

    /// Opens the socket and writes the kubeconfig for it.
    pub async fn listen(self, options: &Options) -> anyhow::Result<Running> {
        let Self { server, data, store } = self;
        let listener = TcpListener::bind((options.bind_address, options.secure_port))
            .await
            .with_context(|| format!("listening on {}:{}", options.bind_address, options.secure_port))?;
        let address = listener.local_addr().context("reading the listener's address")?;
        let tls = TlsConfig::new(&data.pki.server.certificate, &data.pki.server.key).context("setting up TLS")?;
        let url = format!("https://{}", SocketAddr::new(reachable(address.ip()), address.port()));
        let kubeconfig = data.write_kubeconfig(options.kubeconfig, options.cluster, &url)?;
        let stop = CancellationToken::new();
        let service = server.service();
        let serving = tokio::spawn(serve::serve(listener, Some(tls), service, Limits::default(), stop.clone()));
        Ok(Running { server, data, address, kubeconfig, store, stop, serving })
    }
}

/// Starts serving. Answers once the bootstrap objects exist and the socket accepts.
pub async fn start(options: &Options, world: &World) -> anyhow::Result<Running> {
    open(options, world).await?.listen(options).await
}

impl Running {
    /// Lets requests in flight end, then closes the store.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.serving.await.context("ending the connections")?;
        self.server.shutdown();
        self.store.close().await.context("closing the store")
    }
}

fn server_config(
    options: &Options,
    data: &DataDir,
    store: EmbeddedStore,
    world: &World,
) -> anyhow::Result<ServerConfig> {
    let key = data.pki.service_account_key.as_str();
    let verifier = || Verifier::from_pems([key]).context("reading the service account key");
    let client_authority =
        ClientAuthority::from_pem(data.pki.authority.certificate()).context("reading the client authority")?;
    let static_tokens = match &options.token_auth_file {
        None => None,
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            Some(StaticTokens::parse(&text).with_context(|| format!("reading {}", path.display()))?)
        }
    };
    let audiences = vec![ISSUER.to_owned()];
    let (accounts, issuers, accepted) = (verifier()?, audiences.clone(), audiences.clone());
    let signer = Signer::from_pem(key).context("reading the service account key")?;
    let issuer = Issuer { signer, url: ISSUER.to_owned(), audiences, extend: true };
    let version = VersionInfo::default();
    let routes: Vec<Arc<dyn Route>> = vec![
        Arc::new(Documents::new(version.clone())),
        Arc::new(Reviews),
        Arc::new(Tokens { issuer, verifier: verifier()? }),
    ];
    Ok(ServerConfig {
        store: Arc::new(store),
        world: world.clone(),
        resources: resources(),
        admission: vec![Arc::new(KarmadaAdmission { world: world.clone(), options: Default::default() })],
        authentication: Box::new(move |lookup| Authentication {
            client_authority: Some(client_authority),
            static_tokens,
            service_accounts: Some(ServiceAccountTokens::new(accounts, issuers, accepted, lookup)),
            anonymous: true,
        }),
        authorization: Authorization::Rbac,
        routes,
        crds: karmada_api::crds(),
        converters: converters(),
        version,
    })
}

/// What is served besides custom resources: the built-in kinds, and those of Karmada that are no CRDs.
fn resources() -> Vec<Resource> {
    let mut resources = kubernetes_api::resources();
    let config_map = GroupVersionKind::new("", "v1", "ConfigMap");
    let object_meta = kubernetes_api::schema_for(&config_map).and_then(|kind| {
        let metadata = kind.node().properties.get("metadata")?.schema;
        Some(kind.at(metadata))
    });
    resources.extend(karmada_api::resources(object_meta.as_ref()));
    resources
}

/// Bindings are served in two versions.
fn converters() -> Converters {
    let names = ["resourcebindings.work.karmada.io", "clusterresourcebindings.work.karmada.io"];
    names.map(|name| (name.to_owned(), Arc::new(BindingConverter) as Arc<dyn apiextensions::Converter>)).into()
}

/// The address clients on this machine use for a server bound to `address`.
fn reachable(address: std::net::IpAddr) -> std::net::IpAddr {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    match address {
        IpAddr::V4(any) if any.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(any) if any.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

fn advertised(address: std::net::IpAddr) -> Vec<String> {
    vec!["localhost".into(), "127.0.0.1".into(), reachable(address).to_string()]
}
