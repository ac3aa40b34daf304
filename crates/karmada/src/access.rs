//! Access to an API server: authentication with the keys of the data directory, the routes that every server has, and
//! its socket.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use apiserver::Route;
use apiserver::auth::authn::{
    Authentication, BootstrapTokens, FrontProxy, Lookup, OtherMethods, ServiceAccountTokens, StaticTokens,
};
use apiserver::auth::tokens::Issuer;
use apiserver::documents::version::VersionInfo;
use apiserver::routes::Documents;
use apiserver::routes::{Reviews, Tokens};
use apiserver::serve::{self, Limits, TlsConfig};
use client::Client;
use metrics::Registry;
use tokio_util::sync::CancellationToken;
use transport::ApiService;
use world::World;

use crate::certificates::{Keeper, Served};
use crate::data_dir::DataDir;
use crate::reach::Listen;
use crate::serving_names;
use crate::sockets::Bound;

/// Builds the authentication of a server from its lookup of objects.
pub type Authenticate = Box<dyn FnOnce(Arc<dyn Lookup>) -> Authentication + Send>;

/// The methods besides those that every server has.
pub struct Accepted {
    /// Whether requests without credentials are `system:anonymous`.
    pub anonymous: bool,
    /// The audiences of the server.
    pub audiences: Vec<String>,
    /// Methods that call other programs.
    pub others: Option<Arc<dyn OtherMethods>>,
    /// Servers in front of this one.
    pub front_proxy: Option<FrontProxy>,
    /// The tokens of `--token-auth-file`.
    pub static_tokens: Option<StaticTokens>,
}

impl Accepted {
    /// Anonymous requests, and tokens for the server's own issuers.
    pub fn of(data: &DataDir) -> Self {
        let audiences = data.keys.tokens.issuers.clone();
        Self { anonymous: true, audiences, others: None, front_proxy: None, static_tokens: None }
    }
}

/// Client certificates of the directory's authority, tokens of its service accounts, bootstrap tokens, static tokens,
/// and `system:anonymous` for all other requests.
pub fn authentication(data: &DataDir, accepted: Accepted) -> anyhow::Result<Authenticate> {
    let (verifier, client_authority) = (Arc::clone(&data.keys.verifier), data.keys.client_authority.clone());
    let issuers = data.keys.tokens.issuers.clone();
    Ok(Box::new(move |lookup| Authentication {
        front_proxy: accepted.front_proxy,
        client_authority: Some(client_authority),
        static_tokens: accepted.static_tokens,
        bootstrap_tokens: Some(BootstrapTokens::new(Arc::clone(&lookup))),
        service_accounts: Some(ServiceAccountTokens::new(verifier, issuers, accepted.audiences, lookup)),
        anonymous: accepted.anonymous,
        others: accepted.others,
    }))
}

/// The tokens of `--token-auth-file`.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn static_tokens(path: &Path) -> anyhow::Result<StaticTokens> {
    let attempt = || format!("--token-auth-file: reading {}", path.display());
    let text = std::fs::read_to_string(path).with_context(attempt)?;
    StaticTokens::parse(&text).with_context(attempt)
}

/// The response of `/version`: the version of Kubernetes whose API is served, and the build of this program.
pub fn version() -> VersionInfo {
    let build = karmadactl::version::Build::this();
    VersionInfo {
        git_commit: build.commit.to_owned(),
        git_tree_state: build.tree_state.to_owned(),
        build_date: build.date.to_owned(),
        ..VersionInfo::default()
    }
}

/// Discovery and OpenAPI, access reviews, token requests.
pub fn routes(data: &DataDir, version: &VersionInfo, audiences: Vec<String>) -> Vec<Arc<dyn Route>> {
    let signer = Arc::clone(&data.keys.signer);
    let tokens = &data.keys.tokens;
    let url = tokens.issuers.first().cloned().unwrap_or_default();
    let longest = tokens.longest.map(|longest| i64::try_from(longest.as_secs()).unwrap_or(i64::MAX));
    let issuer = Issuer { signer, url, audiences, extend: tokens.extend, longest };
    vec![
        Arc::new(Documents::new(version.clone())),
        Arc::new(Reviews),
        Arc::new(Tokens { issuer, verifier: Arc::clone(&data.keys.verifier), jwks_uri: tokens.jwks_uri.clone() }),
    ]
}

/// Settings of the kube-controllers of a server with these keys.
pub fn controllers(data: &DataDir) -> kube_controllers::Settings {
    kube_controllers::Settings {
        root_ca_pem: Some(Arc::clone(&data.keys.root_ca)),
        token_signer: Some(Arc::clone(&data.keys.signer)),
        signing_authority: Some(Arc::clone(&data.keys.signing_authority)),
        ..Default::default()
    }
}

/// An API server on its socket.
pub struct Socket {
    pub address: SocketAddr,
    /// The URL in its kubeconfig.
    pub url: String,
    pub kubeconfig: PathBuf,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    keeping: tokio::task::JoinHandle<()>,
}

/// The context of a socket besides its server.
pub struct SocketContext<'a> {
    /// Has all rights.
    pub client: Client,
    pub registry: &'a Registry,
    pub world: &'a World,
}

impl Socket {
    /// Accepts connections, writes the kubeconfig for them, and renews the certificates.
    pub async fn open(
        bound: Bound,
        service: ApiService,
        limits: Limits,
        data: &DataDir,
        listen: &Listen,
        around: SocketContext<'_>,
    ) -> anyhow::Result<Self> {
        let address = bound.address();
        let tls = match &listen.certificate {
            Some(own) => own.tls.clone(),
            None => {
                let pair = &data.pki.server;
                TlsConfig::of_protocol(&pair.certificate, &pair.key, &listen.protocol).context("setting up TLS")?
            }
        };
        serving_names::show(&listen.named, tls.certificate())?;
        let listener = bound.listen()?;
        let kubeconfig = data.write_kubeconfig(listen)?;
        let stop = CancellationToken::new();
        let served = Served {
            data,
            listen,
            tls: &tls,
            names: data.names().clone(),
            client: Some(around.client),
            registry: around.registry,
            world: around.world,
        };
        let keeping = Keeper::new(served).start(stop.clone());
        let serving = tokio::spawn(serve::serve(listener, Some(tls), service, limits, stop.clone()));
        Ok(Self { address, url: listen.url(), kubeconfig, stop, serving, keeping })
    }

    /// Stops accepting and waits for requests in flight.
    pub async fn close(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.keeping.await.context("ending the renewal of certificates")?;
        self.serving.await.context("ending the connections")
    }
}
