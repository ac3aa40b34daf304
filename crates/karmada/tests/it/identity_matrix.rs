//! Every route with every kind of bad credentials: refused, whatever is behind the route.

use apimachinery::{ApiResource, ObjectKey};
use apiserver::Peer;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use karmada::front_proxies;
use karmada::service_accounts::{ISSUER, ServiceAccounts};
use pki::token::{Bound, Reference};
use pki::{Claims, Signer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use tower::ServiceExt as _;
use world::World;

use crate::fleet::Fleet;

/// Served to everyone: a request without credentials is answered.
const PUBLIC: &[&str] = &["/version", "/healthz", "/livez", "/readyz"];

/// One of each kind of route: documents, resources, sub-resources, reviews, proxies, search, and paths that do not
/// exist.
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/"),
    ("GET", "/api"),
    ("GET", "/apis"),
    ("GET", "/apis/apps/v1"),
    ("GET", "/openapi/v2"),
    ("GET", "/openapi/v3"),
    ("GET", "/metrics"),
    ("GET", "/livez/ping"),
    ("GET", "/openid/v1/jwks"),
    ("GET", "/.well-known/openid-configuration"),
    ("GET", "/api/v1/secrets"),
    ("GET", "/api/v1/secrets?watch=true"),
    ("GET", "/api/v1/namespaces/default/secrets/a"),
    ("POST", "/api/v1/namespaces/default/configmaps"),
    ("PUT", "/api/v1/namespaces/default/configmaps/a"),
    ("PATCH", "/api/v1/namespaces/default/configmaps/a"),
    ("DELETE", "/api/v1/namespaces/default/configmaps"),
    ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token"),
    ("GET", "/apis/apps/v1/namespaces/default/deployments/a/scale"),
    ("PUT", "/apis/apps/v1/namespaces/default/deployments/a/status"),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
    ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
    ("GET", "/apis/policy.karmada.io/v1alpha1/propagationpolicies"),
    ("GET", "/apis/cluster.karmada.io/v1alpha1/clusters"),
    ("GET", "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy/api/v1/secrets"),
    ("GET", "/apis/cluster.karmada.io/v1alpha1/clusters/m1/tunnel"),
    ("GET", "/apis/search.karmada.io/v1alpha1/search/cache/api/v1/secrets"),
    ("GET", "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy/api/v1/secrets"),
    ("GET", "/apis/unknown.example.com/v1/things"),
    ("GET", "/nothing"),
    ("OPTIONS", "/api/v1/secrets"),
    ("HEAD", "/api/v1/secrets"),
];

fn claims(now: i64, change: impl FnOnce(&mut Claims)) -> Claims {
    let mut claims = Claims {
        aud: vec![ISSUER.to_owned()],
        exp: Some(now + 600),
        iss: ISSUER.to_owned(),
        bound: Some(Bound {
            namespace: "default".into(),
            serviceaccount: Reference { name: "robot".into(), uid: "u1".into() },
            ..Bound::default()
        }),
        sub: "system:serviceaccount:default:robot".into(),
        ..Claims::default()
    };
    change(&mut claims);
    claims
}

fn message(header: &serde_json::Value, claims: &Claims) -> String {
    let encoded = |value: String| URL_SAFE_NO_PAD.encode(value);
    format!("{}.{}", encoded(header.to_string()), encoded(serde_json::to_string(claims).expect("JSON")))
}

/// Signed with the public key as if it were a shared secret.
fn confused(public: &str, kid: Option<&str>, claims: &Claims) -> String {
    let mut header = json!({"alg": "HS256"});
    if let Some(kid) = kid {
        header["kid"] = kid.into();
    }
    let message = message(&header, claims);
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, public.as_bytes()), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Sends a request as over a socket; `certificate` is that of its connection.
async fn send(
    fleet: &Fleet,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    certificate: Option<&str>,
) -> (u16, serde_json::Value) {
    let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).expect("a method")).uri(path);
    request = request.header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(transport::full("{}")).expect("a request");
    if let Some(pem) = certificate {
        let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).map(|it| it.expect("a certificate"));
        request.extensions_mut().insert(Peer::new("192.0.2.1:1".parse().expect("an address"), chain));
    }
    let Ok(response) = fleet.plane.service().oneshot(request).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

/// The routes of all resources that the server lists, so that a new one is covered.
async fn discovered(fleet: &Fleet) -> Vec<(&'static str, String)> {
    let discovery = fleet.plane.client().discovery().await.expect("discovery");
    let mut routes = Vec::new();
    for found in &discovery.resources {
        let resource = &found.resource;
        let all = resource.collection_path(resource.namespaced.then_some("default"));
        routes.extend([("GET", all.clone()), ("POST", all.clone()), ("DELETE", format!("{all}/a"))]);
        routes.extend(
            found.subresources.iter().flat_map(|name| ["GET", "PUT"].map(|method| (method, format!("{all}/a/{name}")))),
        );
    }
    routes
}

/// Client certificates, in combination with headers of front proxies.
#[tokio::test]
async fn certificates_and_front_proxies_are_verified() {
    let files = tempfile::tempdir().expect("a directory");
    let now = World::system();
    let past = World::simulated(now.now() - jiff::SignedDuration::from_hours(48), 7);
    let authority = |name: &str| pki::Authority::generate(name, &past).expect("an authority").0;
    let (clients, fronts, unknown) = (authority("clients"), authority("fronts"), authority("clients"));
    let file = |name: &str, authority: &pki::Authority| {
        let path = files.path().join(name);
        std::fs::write(&path, authority.certificate()).expect("written");
        path
    };
    let settings = front_proxies::Settings {
        file: file("fronts.crt", &fronts),
        names: vec!["proxy".into()],
        user_headers: vec!["X-User".into()],
        uid_headers: vec!["X-Uid".into()],
        group_headers: vec!["X-Group".into()],
        extra_prefixes: vec!["X-Extra-".into()],
        presents_own: true,
    };
    let client_ca_file = Some(file("clients.crt", &clients));
    let fleet = Fleet::start_with(&[], |options| {
        options.server.listen.client_ca_file = client_ca_file;
        options.server.listen.trust_front_proxies(Some(settings)).expect("an authority");
    })
    .await;
    let issue = |authority: &pki::Authority, user: &str, world: &World, hours: u64| {
        let lifetime = std::time::Duration::from_secs(hours * 3600);
        authority.issue_client_for(user, &[], lifetime, world).expect("a certificate").certificate
    };
    let of_ann = issue(&clients, "ann", &now, 1);
    let proxy = issue(&fronts, "proxy", &now, 1);
    let named: &[(&str, &str)] = &[("x-user", "bob"), ("x-group", "dev"), ("x-extra-team", "a")];
    let usual: &[(&str, &str)] = &[("x-remote-user", "bob")];
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    for (what, certificate, headers, code, user) in [
        ("a client", &of_ann, &[][..], 201, "ann"),
        ("a client with headers", &of_ann, named, 201, "ann"),
        ("a front proxy", &proxy, named, 201, "bob"),
        ("a front proxy with other headers", &proxy, usual, 401, ""),
        ("a front proxy without headers", &proxy, &[], 401, ""),
        ("another name", &issue(&fronts, "other", &now, 1), named, 401, ""),
        ("an expired client", &issue(&clients, "ann", &past, 1), &[], 401, ""),
        ("an expired front proxy", &issue(&fronts, "proxy", &past, 1), named, 401, ""),
        ("a client of another authority", &issue(&unknown, "ann", &now, 1), &[], 401, ""),
        ("a front proxy of another authority", &issue(&unknown, "proxy", &now, 1), named, 401, ""),
        ("a front proxy of the authority of clients", &issue(&clients, "proxy", &now, 1), named, 201, "proxy"),
    ] {
        let (found, body) = send(&fleet, "POST", review, headers, Some(certificate)).await;
        let name = body["status"]["userInfo"]["username"].as_str().unwrap_or_default();
        assert_eq!((found, name), (code, user), "{what}: {body}");
    }
    let key = ObjectKey::namespaced("kube-system", "extension-apiserver-authentication");
    let published = fleet.plane.client().get(&ApiResource::namespaced("", "v1", "ConfigMap", "configmaps"), &key).await;
    let data = published.expect("published").to_value().expect("an object")["data"].clone();
    assert_eq!(data["requestheader-username-headers"], r#"["X-User"]"#);
    assert_eq!(data["requestheader-allowed-names"], r#"["proxy","front-proxy-client"]"#);
    let authorities = data["requestheader-client-ca-file"].as_str().expect("PEM");
    assert!(authorities.starts_with(fronts.certificate().trim_end()) && authorities.matches("BEGIN").count() >= 2);
}

#[tokio::test]
async fn tokens_are_sent_as_a_subprotocol_of_websockets() {
    let files = tempfile::tempdir().expect("a directory");
    let file = files.path().join("tokens");
    std::fs::write(&file, "secret,ann,1\n").expect("written");
    let fleet = Fleet::start_with(&[], |options| options.server.token_auth_file = Some(file)).await;
    let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket")];
    let protocol = |token: &str| {
        format!("v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode(token))
    };
    for (token, code) in [("secret", 201), ("other", 401)] {
        let protocol = protocol(token);
        let headers = [upgrade[0], upgrade[1], ("sec-websocket-protocol", protocol.as_str())];
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let (found, body) = send(&fleet, "POST", path, &headers, None).await;
        assert_eq!(found, code, "{body}");
    }
}

#[tokio::test]
async fn bad_credentials_are_refused_on_every_route() {
    let files = tempfile::tempdir().expect("a directory");
    let key = pki::token::generate_key().expect("a key");
    let signing = files.path().join("signing.pem");
    std::fs::write(&signing, &key).expect("written");
    let accounts = ServiceAccounts { signing_key_file: Some(signing), ..Default::default() };
    let fleet = Fleet::start_with(&[], |options| options.server.service_accounts = accounts).await;
    let signer = Signer::from_pem(&key).expect("a key");
    let unknown = Signer::from_pem(&pki::token::generate_key().expect("a key")).expect("a key");
    let now = fleet.world.now().as_second();
    let sign = |signer: &Signer, change: fn(&mut Claims)| signer.sign(&claims(now, change)).expect("signed");
    let good = sign(&signer, |_| ());
    let (head, signature) = good.rsplit_once('.').expect("a signature");
    let header = head.split_once('.').expect("two parts").0;
    let kid = URL_SAFE_NO_PAD.decode(header).expect("base64");
    let kid: serde_json::Value = serde_json::from_slice(&kid).expect("JSON");
    let plain = claims(now, |_| ());
    let tokens = [
        ("of an account that does not exist", good.clone()),
        ("expired", sign(&signer, |claims| claims.exp = Some(1))),
        ("without expiry", sign(&signer, |claims| claims.exp = None)),
        ("not valid yet", sign(&signer, |claims| claims.nbf = Some(i64::MAX))),
        ("of another audience", sign(&signer, |claims| claims.aud = vec!["other".into()])),
        ("of another issuer", sign(&signer, |claims| claims.iss = "https://other".into())),
        ("of another key", sign(&unknown, |_| ())),
        ("unsigned", format!("{}.", message(&json!({"alg": "none"}), &plain))),
        ("confused", confused(signer.public_pem(), kid["kid"].as_str(), &plain)),
        ("confused without a key", confused(signer.public_pem(), None, &plain)),
        ("cut", good[..good.len() - 4].to_owned()),
        ("without signature", format!("{head}.")),
        ("of another payload", format!("{header}.{}.{signature}", URL_SAFE_NO_PAD.encode("{\"sub\":\"admin\"}"))),
        ("a bootstrap token that does not exist", "abcdef.0123456789abcdef".to_owned()),
        ("no token", "x".to_owned()),
        ("huge", "x".repeat(200_000)),
    ];
    let status =
        async |method: &str, path: &str, headers: &[(&str, &str)]| send(&fleet, method, path, headers, None).await.0;
    let discovered = discovered(&fleet).await;
    assert!(discovered.len() > 300, "{}", discovered.len());
    let routes = ROUTES.iter().copied().chain(discovered.iter().map(|(method, path)| (*method, path.as_str())));
    let routes: Vec<(&str, &str)> = routes.collect();
    let every: Vec<(&str, &str)> = routes.iter().copied().chain(PUBLIC.iter().map(|path| ("GET", *path))).collect();
    for (method, path) in &every {
        for (what, token) in &tokens {
            let bearer = format!("Bearer {token}");
            let found = status(method, path, &[("authorization", &bearer)]).await;
            assert_eq!(found, 401, "{method} {path} with a token {what}");
        }
    }
    // Headers of front proxies and impersonation have no effect without credentials.
    let smuggled: &[&[(&str, &str)]] = &[
        &[],
        &[("x-remote-user", "system:admin"), ("x-remote-group", "system:masters")],
        &[("x-remote-user", "system:admin"), ("x-remote-extra-a", "b"), ("x-remote-uid", "1")],
        &[("authorization", "Basic YWRtaW46YWRtaW4=")],
        &[("authorization", "Bearer ")],
    ];
    for headers in smuggled {
        for (method, path) in &routes {
            assert_eq!(status(method, path, headers).await, 403, "{method} {path} {headers:?}");
        }
        for path in PUBLIC {
            assert_eq!(status("GET", path, headers).await, 200, "{path} {headers:?}");
        }
    }
    for (method, path) in &every {
        let headers = [("impersonate-user", "system:admin"), ("impersonate-group", "system:masters")];
        assert_eq!(status(method, path, &headers).await, 403, "{method} {path} impersonating");
    }
}
