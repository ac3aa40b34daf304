//! The server of the replay: tokens, roles, accounts and the plugins that the recorded server ran with.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::ApiResource;
use apiserver::admit::plugins::{self, Switches};
use apiserver::auth::authn::{Authentication, ServiceAccountTokens, StaticTokens};
use apiserver::auth::tokens::Issuer;
use apiserver::bootstrap::{objects, policy};
use apiserver::flow::bootstrap as flow;
use apiserver::routes::{Reviews, Tokens};
use apiserver::{ApiServer, Authorization, ServerConfig};
use client::Client;
use http_body_util::{BodyExt, Full};
use pki::{Signer, Verifier};
use serde_json::{Value, json};
use tower::ServiceExt;
use transport::Identity;
use world::World;

use crate::parity::Reply;

const ISSUER: &str = "https://kubernetes.default.svc";
const TOKENS: &str = "admin-token,admin,admin,\"system:masters\"\nuser-token,bob,bob,\"devs\"\n";

pub(super) async fn start() -> ApiServer {
    let world = still();
    let signer = Signer::from_pem(&pki::token::generate_key().expect("a key")).expect("a signer");
    let verifier = Arc::new(Verifier::from_pems([signer.public_pem()]).expect("a verifier"));
    let accepted = Arc::clone(&verifier);
    let issuers = vec![ISSUER.to_owned()];
    let audiences = issuers.clone();
    let issuer = Issuer {
        signer: Arc::new(pki::Signers::new(signer)),
        url: ISSUER.into(),
        audiences: audiences.clone(),
        extend: true,
        longest: None,
    };
    let server = ApiServer::start(ServerConfig {
        store: crate::engine::store().await,
        world: world.clone(),
        resources: kubernetes_api::resources(),
        admission: plugins::built_in(Default::default(), &world, &Switches::default()).expect("known plugins"),
        authentication: Box::new(move |lookup| Authentication {
            static_tokens: Some(StaticTokens::parse(TOKENS).expect("tokens")),
            service_accounts: Some(ServiceAccountTokens::new(accepted, issuers, audiences, lookup)),
            anonymous: true,
            ..Authentication::default()
        }),
        authorization: Authorization::Rbac,
        routes: vec![Arc::new(Reviews), Arc::new(Tokens { issuer, verifier, jwks_uri: None })],
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    })
    .await
    .expect("an empty store");
    let client = Client::in_process(server.service(), Identity::system("test"));
    for object in bootstrap() {
        client.create(&resource_of(&object), &object).await.expect("a bootstrap object");
    }
    server
}

/// A world whose clock does not advance for an hour: the ages in tables and the order of managed fields are those of a
/// replay within one second, regardless of its duration.
fn still() -> World {
    let start = jiff::Timestamp::from_second(1_790_000_000).expect("in range");
    let later = async move {
        tokio::time::advance(Duration::from_secs(3_600)).await;
        World::simulated(start, 1)
    };
    // The clock of this runtime is an hour ahead of that of the test.
    let ahead = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    std::thread::spawn(move || ahead().expect("a runtime").block_on(later)).join().expect("a world")
}

fn bootstrap() -> Vec<Value> {
    let mut objects: Vec<Value> = policy::NAMESPACES
        .iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .collect();
    objects.extend(policy::cluster_roles());
    objects.extend(policy::cluster_role_bindings());
    objects.extend(policy::namespaced());
    objects.extend(objects::priority_classes());
    objects.extend(flow::priority_levels());
    objects
}

fn resource_of(object: &Value) -> ApiResource {
    let kind = object["kind"].as_str().expect("a kind");
    let all = kubernetes_api::resources().into_iter().map(|resource| resource.info.resource.clone());
    let version = object["apiVersion"].as_str();
    let mut found =
        all.filter(|resource| resource.kind == kind && version.is_none_or(|it| it == resource.api_version()));
    found.next().expect("a built-in kind")
}

/// A request as from a socket.
pub(super) async fn send(
    server: &ApiServer,
    method: &str,
    path: &str,
    headers: &[(String, String)],
    body: Vec<u8>,
) -> Reply {
    let mut request = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    let request = request.body(body).expect("a request");
    let response = server.service().oneshot(request).await.expect("a reply");
    let (code, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Reply { code, headers, body }
}
