//! `karmada aggregated-apiserver`: cluster.karmada.io for an API server that is not ours, which passes requests on
//! (APIService `v1alpha1.cluster.karmada.io`).
//!
//! That server has judged who asks and what he may, and shows with its client certificate that it speaks for him; nobody
//! else is heard, so no review is asked again. Clusters are kept in an embedded store of this process.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use apimachinery::{ApiResource, ObjectKey};
use apiserver::authn::{Authentication, ClientAuthority, FrontProxy};
use apiserver::documents::Documents;
use apiserver::serve::{self, Limits, TlsConfig};
use apiserver::version::VersionInfo;
use apiserver::{ApiServer, Authorization, Route, ServerConfig};
use client::Client;
use karmada_api::gates;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transport::ApiService;
use world::World;

use crate::cluster_proxy::ClusterProxy;
use crate::data_dir::DataDir;
use crate::engine::{Engine, Kind};
use crate::flags::Given;

const GROUP: &str = "cluster.karmada.io";
/// The name by which upstream's APIService calls it.
const SERVICE: &str = "karmada-aggregated-apiserver.karmada-system.svc";

/// The server without its socket.
struct Aggregated {
    server: ApiServer,
    engine: Engine,
}

impl Aggregated {
    /// `control` is the API server in front, where secrets are.
    async fn open(
        control: Client,
        front: FrontProxy,
        store: (Kind, &std::path::Path),
        resource_models: bool,
        world: &World,
    ) -> anyhow::Result<Self> {
        let engine = Engine::open(store.0, store.1).await?;
        let version = VersionInfo::default();
        let proxy = Arc::new(ClusterProxy::new(Arc::new(|_| None)));
        proxy.control_plane(control);
        let routes: Vec<Arc<dyn Route>> = vec![Arc::new(Documents::new(version.clone())), proxy];
        let config = ServerConfig {
            store: engine.store(),
            world: world.clone(),
            resources: crate::apiserver::resources_of(GROUP, resource_models),
            admission: Vec::new(),
            authentication: Box::new(move |_| Authentication {
                front_proxy: Some(front),
                // Who is nobody may ask for the server's health.
                anonymous: true,
                ..Authentication::default()
            }),
            authorization: Authorization::Judged,
            routes,
            crds: Vec::new(),
            converters: Default::default(),
            version,
        };
        let server = ApiServer::start(config).await.context("reading the store")?;
        engine.count_in(&server.shared().metrics);
        Ok(Self { server, engine })
    }

    fn service(&self) -> ApiService {
        self.server.service()
    }

    async fn close(self) -> anyhow::Result<()> {
        self.server.end_watches();
        self.server.shutdown();
        self.engine.close().await
    }
}

/// What kube-apiserver publishes for servers behind it.
#[derive(Debug, PartialEq)]
struct Published {
    authority: String,
    names: Vec<String>,
}

fn published(config_map: &Value) -> anyhow::Result<Published> {
    let text = |key: &str| config_map["data"][key].as_str().unwrap_or_default().to_owned();
    let authority = text("requestheader-client-ca-file");
    anyhow::ensure!(
        !authority.is_empty(),
        "ConfigMap kube-system/extension-apiserver-authentication names no requestheader-client-ca-file; give \
         --requestheader-client-ca-file"
    );
    let names = text("requestheader-allowed-names");
    let names =
        if names.is_empty() { Vec::new() } else { serde_json::from_str(&names).context("its allowed names")? };
    Ok(Published { authority, names })
}

/// Who may speak for users: by flags, or as the API server in front publishes it.
async fn front_proxy(given: &Given<'_>, control: &Client) -> anyhow::Result<FrontProxy> {
    let file = given.text("requestheader-client-ca-file");
    let of_flags = || given.list("requestheader-allowed-names").into_iter().map(str::to_owned).collect();
    let Published { authority, names } = if file.is_empty() {
        let resource = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
        let key = ObjectKey::namespaced("kube-system", "extension-apiserver-authentication");
        let found = control.get(&resource, &key).await.context("reading who may speak for users")?;
        published(&found.to_value()?)?
    } else {
        let authority = std::fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
        Published { authority, names: of_flags() }
    };
    let authority = ClientAuthority::from_pem(&authority).context("reading the authority of the front proxy")?;
    let lower = |name: &str| given.list(name).into_iter().map(str::to_lowercase).collect::<Vec<_>>();
    let mut front = FrontProxy::new(authority, names);
    for (flag, names) in [
        ("requestheader-username-headers", &mut front.user_headers),
        ("requestheader-group-headers", &mut front.group_headers),
        ("requestheader-uid-headers", &mut front.uid_headers),
        ("requestheader-extra-headers-prefix", &mut front.extra_prefixes),
    ] {
        let given = lower(flag);
        if !given.is_empty() {
            *names = given;
        }
    }
    Ok(front)
}

fn tls(given: &Given<'_>, data: &DataDir) -> anyhow::Result<TlsConfig> {
    let (certificate, key) = (given.text("tls-cert-file"), given.text("tls-private-key-file"));
    let read = |path: &str| std::fs::read_to_string(path).with_context(|| format!("reading {path}"));
    let pair = match (certificate.is_empty(), key.is_empty()) {
        (true, true) => (data.pki.server.certificate.clone(), data.pki.server.key.clone()),
        (false, false) => (read(certificate)?, read(key)?),
        _ => anyhow::bail!("--tls-cert-file and --tls-private-key-file go together"),
    };
    let config = match given.text("tls-min-version") {
        "" | "VersionTLS12" => TlsConfig::new(&pair.0, &pair.1),
        "VersionTLS13" => TlsConfig::newest(&pair.0, &pair.1),
        other => anyhow::bail!("--tls-min-version: {other:?} is none of VersionTLS12 and VersionTLS13"),
    };
    config.context("setting up TLS")
}

pub async fn aggregated_apiserver(given: &Given<'_>, data_dir: PathBuf) -> anyhow::Result<()> {
    let world = World::system();
    let control = super::connect("karmada-aggregated-apiserver", given).await?;
    let front = front_proxy(given, &control).await?;
    let data = DataDir::open(&data_dir, &[SERVICE.to_owned()], &world)?;
    let tls = tls(given, &data)?;
    let models = given.gates.is_open(gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING);
    let opened = Aggregated::open(control, front, (Kind::Embedded, &DataDir::store(&data_dir)), models, &world).await?;
    let address: IpAddr = given.parsed("bind-address")?;
    let address = SocketAddr::new(address, given.parsed("secure-port")?);
    let listener = TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))?;
    let address = listener.local_addr().context("reading the listener's address")?;
    let stop = CancellationToken::new();
    let serving = tokio::spawn(serve::serve(listener, Some(tls), opened.service(), Limits::default(), stop.clone()));
    crate::cli::say(&format!("The aggregated API server is ready on https://{address}\n"));
    crate::cli::ended().await?;
    opened.server.end_watches();
    stop.cancel();
    serving.await.context("ending the connections")?;
    opened.close().await
}

#[cfg(test)]
mod tests {
    use apiserver::serve::Peer;
    use http_body_util::BodyExt as _;
    use serde_json::json;
    use tower::ServiceExt as _;

    use super::*;

    async fn call(service: &ApiService, peer: Option<&Peer>, user: &str, method: &str, path: &str) -> (u16, String) {
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
            "spec": {"syncMode": "Pull"}});
        let mut request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        if !user.is_empty() {
            request = request.header("x-remote-user", user);
        }
        if let Some(peer) = peer {
            request = request.extension(peer.clone());
        }
        let body = if method == "POST" { transport::full(cluster.to_string()) } else { transport::empty() };
        let response = service.clone().oneshot(request.body(body).expect("a request")).await.expect("an answer");
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
        (code, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn only_who_comes_through_the_front_is_heard() {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
        let (authority, _) = pki::Authority::generate("front-proxy-ca", &world).expect("an authority");
        let pair = authority.issue_client("front-proxy-client", &[], &world).expect("a certificate");
        let certificate = rustls_pem(&pair.certificate);
        let peer = Peer::new("127.0.0.1:1".parse().expect("an address"), [certificate]);
        let believed = ClientAuthority::from_pem(authority.certificate()).expect("an authority");
        let front = FrontProxy::new(believed, vec!["front-proxy-client".to_owned()]);
        let nowhere = ApiService::new(tower::service_fn(async |_: transport::Request| {
            Ok::<_, std::convert::Infallible>(http::Response::new(transport::empty()))
        }));
        let control = Client::in_process(nowhere, transport::Identity::system("test"));
        let opened = Aggregated::open(control, front, (Kind::Memory, std::path::Path::new("")), true, &world)
            .await
            .expect("a server");
        let service = opened.service();
        let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
        for (peer, user, method, path, code, text) in [
            (Some(&peer), "ann", "POST", clusters, 201, "\"resourceModels\""),
            (Some(&peer), "ann", "GET", clusters, 200, "\"name\":\"m1\""),
            (Some(&peer), "ann", "GET", "/apis/cluster.karmada.io/v1alpha1", 200, "clusters/proxy"),
            (Some(&peer), "ann", "GET", "/apis/apps/v1/deployments", 404, "404"),
            (Some(&peer), "", "GET", clusters, 403, "system:anonymous"),
            (None, "ann", "GET", clusters, 403, "system:anonymous"),
            (None, "", "GET", "/readyz", 200, "ok"),
        ] {
            let (found, body) = call(&service, peer, user, method, path).await;
            assert!(found == code && body.contains(text), "{user} {method} {path}: {found} {body}");
        }
        opened.close().await.expect("an end");
    }

    fn rustls_pem(certificate: &str) -> rustls::pki_types::CertificateDer<'static> {
        let der = pki::holder::pem_to_der(certificate).expect("a certificate");
        rustls::pki_types::CertificateDer::from(der)
    }

    #[test]
    fn what_is_published() {
        let of = |data: Value| published(&json!({ "data": data })).map_err(|error| error.to_string());
        let both = json!({"requestheader-client-ca-file": "PEM", "requestheader-allowed-names": "[\"front\"]"});
        assert_eq!(of(both), Ok(Published { authority: "PEM".into(), names: vec!["front".into()] }));
        let alone = of(json!({"requestheader-client-ca-file": "PEM"}));
        assert_eq!(alone, Ok(Published { authority: "PEM".into(), names: Vec::new() }));
        assert!(of(json!({})).is_err_and(|error| error.contains("--requestheader-client-ca-file")));
    }
}
