//! `karmada aggregated-apiserver`: cluster.karmada.io for an API server that is not ours (APIService
//! `v1alpha1.cluster.karmada.io`).

use std::path::PathBuf;
use std::sync::Arc;

use apiserver::authn::FrontProxy;
use apiserver::{Admission, Route};
use client::Client;
use karmada_api::gates;
use world::World;

use super::behind::{Behind, FrontSocket, front_proxy, kept};
use crate::cluster_ids::ClusterIds;
use crate::cluster_proxy::ClusterProxy;
use crate::engine::Engine;
use crate::flags::Given;

const GROUP: &str = "cluster.karmada.io";
/// The name by which upstream's APIService calls it.
const SERVICE: &str = "karmada-aggregated-apiserver.karmada-system.svc";

/// `control` is the API server in front, where secrets are.
async fn open(
    control: Client,
    front: FrontProxy,
    engine: Engine,
    resource_models: bool,
    world: &World,
) -> anyhow::Result<Behind> {
    let admission: Vec<Arc<dyn Admission>> = vec![Arc::new(ClusterIds::behind(control.clone()))];
    let proxy = Arc::new(ClusterProxy::new(Arc::new(|_| None)));
    proxy.control_plane(control);
    let routes: Vec<Arc<dyn Route>> = vec![proxy];
    let resources = crate::apiserver::resources_of(GROUP, resource_models);
    Behind::open(front, engine, (resources, admission), routes, world).await
}

pub async fn aggregated_apiserver(given: &Given<'_>, data_dir: PathBuf) -> anyhow::Result<()> {
    let world = World::system();
    let socket = FrontSocket::bind(given, &world)?;
    let control = super::connect("karmada-aggregated-apiserver", given).await?;
    let front = front_proxy(given, &control).await?;
    let (engine, data) = kept(&data_dir, SERVICE, &world).await?;
    let models = given.gates.is_open(gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING);
    let opened = open(control, front, engine, models, &world).await?;
    opened.serve("aggregated API server", socket, &data).await
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use apiserver::authn::ClientAuthority;
    use apiserver::serve::Peer;
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
        let engine = Engine::open(Kind::Memory, Path::new(""), false, &world).await.expect("a store in memory");
        let opened = open(control, front, engine, true, &world).await;
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

    fn rustls_pem(certificate: &str) -> rustls::pki_types::CertificateDer<'static> {
        let der = pki::holder::pem_to_der(certificate).expect("a certificate");
        rustls::pki_types::CertificateDer::from(der)
    }
}
