//! `karmada aggregated-apiserver`: cluster.karmada.io for another API server (APIService
//! `v1alpha1.cluster.karmada.io`).

use std::path::PathBuf;
use std::sync::Arc;

use apiserver::auth::authn::FrontProxy;
use apiserver::{Admission, Route};
use client::Client;
use karmada_api::gates;
use world::World;

use super::aggregated_server::{AggregatedServer, Front, FrontSocket, front_proxy, kept, store};
use crate::cluster_admission::ClusterAdmission;
use crate::engine::Engine;
use crate::flags::FlagValues;
use fleet_api::proxy::{ClusterProxy, EndsTunnels};

const GROUP: &str = "cluster.karmada.io";
/// The name in upstream's APIService.
const SERVICE: &str = "karmada-aggregated-apiserver.karmada-system.svc";

/// Options of serving Clusters.
#[derive(Clone, Copy)]
struct Served {
    /// Feature gate CustomizedClusterResourceModeling.
    resource_models: bool,
    /// `--allow-http-member-endpoints`
    allow_http: bool,
}

/// `control` is the API server in front, which stores Secrets.
async fn open(
    control: Client,
    front: FrontProxy,
    engine: Engine,
    Served { resource_models, allow_http }: Served,
    world: &World,
) -> anyhow::Result<AggregatedServer> {
    let proxy = Arc::new(ClusterProxy::new(Arc::new(|_| None), allow_http));
    let tunnels = proxy.tunnels().clone();
    let admission: Vec<Arc<dyn Admission>> = vec![
        Arc::new(ClusterAdmission::with_control_plane(&control, allow_http)),
        Arc::new(EndsTunnels(tunnels.clone())),
    ];
    proxy.control_plane(control);
    let routes: Vec<Arc<dyn Route>> = vec![proxy];
    let resources = crate::resources::resources_of(GROUP, resource_models);
    let aggregated_server = AggregatedServer::open(front, engine, (resources, admission), routes, world).await?;
    tunnels.count_in(&aggregated_server.server.shared().metrics);
    Ok(aggregated_server)
}

pub async fn aggregated_apiserver(flags: &FlagValues<'_>, data_dir: PathBuf, allow_http: bool) -> anyhow::Result<()> {
    let world = World::system();
    let socket = FrontSocket::bind(flags, &world)?;
    let control = super::connect("karmada-aggregated-apiserver", flags).await?;
    let Front { proxy: front, following } = front_proxy(flags, &control, &world).await?;
    let (engine, data) = kept(store(flags)?, &data_dir, SERVICE, &world).await?;
    let resource_models = flags.gates.is_open(gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING);
    let opened = open(control, front, engine, Served { resource_models, allow_http }, &world).await?;
    opened.serve("aggregated API server", socket, following, &data).await
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use apiserver::Peer;
    use apiserver::auth::authn::ClientAuthority;
    use http_body_util::BodyExt as _;
    use serde_json::json;
    use tower::ServiceExt as _;
    use transport::ApiService;

    use super::*;
    use crate::engine::Kind;

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
    async fn only_requests_of_the_front_proxy_are_authenticated() {
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
        let engine = Engine::open(Kind::Memory, Path::new(""), false, &world).await.expect("a store in memory");
        let served = Served { resource_models: true, allow_http: false };
        let opened = open(control, front, engine, served, &world).await;
        let opened = opened.expect("a server");
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

    /// The API server in front authorizes the write of the Cluster, and a SubjectAccessReview there the read of the
    /// Secret.
    #[tokio::test]
    async fn access_to_a_token_is_authorized_by_the_front_server() {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
        let (authority, _) = pki::Authority::generate("front-proxy-ca", &world).expect("an authority");
        let pair = authority.issue_client("front-proxy-client", &[], &world).expect("a certificate");
        let peer = Peer::new("127.0.0.1:1".parse().expect("an address"), [rustls_pem(&pair.certificate)]);
        let believed = ClientAuthority::from_pem(authority.certificate()).expect("an authority");
        let front = FrontProxy::new(believed, vec!["front-proxy-client".to_owned()]);
        let in_front = ApiService::new(tower::service_fn(async |request: transport::Request| {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.expect("a body in memory").to_bytes();
            let mut review: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let attributes = review["spec"]["resourceAttributes"].clone();
            let is_secret = attributes["resource"] == "secrets" && attributes["verb"] == "get";
            review["status"] = json!({"allowed": is_secret && review["spec"]["user"] == "ann"});
            let fails = review["spec"]["user"] == "tom" || path != "/apis/authorization.k8s.io/v1/subjectaccessreviews";
            let response = http::Response::builder().status(if fails { 500 } else { 201 });
            let response = response.header("content-type", "application/json");
            Ok::<_, std::convert::Infallible>(response.body(transport::full(review.to_string())).expect("a response"))
        }));
        let control = Client::in_process(in_front, transport::Identity::system("test"));
        let engine = Engine::open(Kind::Memory, Path::new(""), false, &world).await.expect("a store in memory");
        let served = Served { resource_models: true, allow_http: false };
        let opened = open(control, front, engine, served, &world).await.expect("a server");
        for (user, endpoint, code, text) in [
            ("eve", "https://thief.example", 403, "Secret n/m1"),
            ("tom", "https://thief.example", 500, "subjectaccessreviews"),
            ("ann", "http://m1.example", 422, "--allow-http-member-endpoints"),
            ("ann", "https://169.254.169.254", 422, "link-local"),
            ("ann", "https://m1.example", 201, "m1.example"),
        ] {
            let secret = json!({"namespace": "n", "name": "m1"});
            let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
                "spec": {"syncMode": "Push", "apiEndpoint": endpoint, "secretRef": secret}});
            let request = http::Request::post("/apis/cluster.karmada.io/v1alpha1/clusters");
            let request = request.header("content-type", "application/json").header("x-remote-user", user);
            let request = request.extension(peer.clone()).body(transport::full(cluster.to_string()));
            let response = opened.service().oneshot(request.expect("a request")).await.expect("an answer");
            let found = response.status().as_u16();
            let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
            let body = String::from_utf8_lossy(&body);
            assert!(found == code && body.contains(text), "{user} {endpoint}: {found} {body}");
        }
        opened.close().await.expect("an end");
    }

    fn rustls_pem(certificate: &str) -> rustls::pki_types::CertificateDer<'static> {
        let der = pki::holder::pem_to_der(certificate).expect("a certificate");
        rustls::pki_types::CertificateDer::from(der)
    }
}
