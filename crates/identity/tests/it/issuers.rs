//! OpenID Connect: keys are fetched when they are needed, and bad issuers harm their own tokens alone.

use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::authn::{Authentication, OtherMethods};
use authentication::Configuration;
use identity::Methods;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::loopback::{Key, Loopback, Reply};

const NOW: i64 = 1_800_000_000;

fn configuration(issuers: &[&Loopback]) -> Configuration {
    let jwt = |server: &&Loopback| {
        json!({"issuer": {"url": server.url, "audiences": ["karmada"], "certificateAuthority": server.authority},
               "claimMappings": {"username": {"claim": "sub", "prefix": "oidc:"}}})
    };
    let jwt: Vec<Value> = issuers.iter().map(jwt).collect();
    let file = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": jwt});
    Configuration::parse(file.to_string().as_bytes(), &[]).expect("a configuration")
}

/// Without the fetches at the start, so that requests can be counted.
fn methods() -> Methods {
    Methods::new(None, vec!["https://own".into()])
}

fn claims(server: &Loopback) -> Value {
    json!({"iss": server.url, "aud": "karmada", "sub": "ann", "exp": NOW + 60})
}

async fn name(methods: &Methods, token: &str) -> Option<String> {
    methods.token(token, None, NOW).await.expect("decided").map(|(identity, _)| identity.user)
}

/// Discovery and key set of an issuer.
fn documents(url: &str, keys: &Arc<parking_lot::Mutex<Vec<Value>>>) -> impl Fn(&str, &Value) -> Reply + use<> {
    let (url, keys) = (url.to_owned(), Arc::clone(keys));
    move |path, _| match path {
        "/.well-known/openid-configuration" => Reply::json(&json!({"issuer": url, "jwks_uri": format!("{url}/keys")})),
        "/keys" => Reply::json(&json!({"keys": *keys.lock()})),
        _ => Reply::Body(404, String::new()),
    }
}

#[tokio::test]
async fn keys_are_fetched_and_rotate() {
    let server = Loopback::start(|_, _| Reply::Close).await;
    let (first, second) = (Key::new(), Key::new());
    let keys = Arc::new(parking_lot::Mutex::new(vec![first.jwk("k1")]));
    server.answer_with(documents(&server.url, &keys));
    let methods = methods();
    methods.replace(configuration(&[&server]));
    let claims = claims(&server);
    let (token, rotated) = (first.sign("k1", &claims), second.sign("k2", &claims));
    assert_eq!(name(&methods, &token).await.as_deref(), Some("oidc:ann"));
    for _ in 0..20 {
        assert!(name(&methods, &token).await.is_some());
        assert_eq!(name(&methods, &rotated).await, None, "its key is not published");
        assert_eq!(name(&methods, &second.sign("made-up", &claims)).await, None);
    }
    // The fetch at the start, and no other within the pause.
    let fetched = server.take_requests().into_iter().filter(|(path, _)| path == "/keys").count();
    assert_eq!(fetched, 1);
    // Valid tokens name the audiences of the server, and are of no other.
    let found = methods.token(&token, Some(&["https://own".into(), "x".into()]), NOW).await.expect("decided");
    assert_eq!(found.map(|(_, audiences)| audiences), Some(vec!["https://own".to_owned()]));
    assert!(methods.token(&token, Some(&["x".into()]), NOW).await.expect("decided").is_none());
    // After the pause a token of a new key makes it known.
    keys.lock().push(second.jwk("k2"));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    assert_eq!(name(&methods, &rotated).await.as_deref(), Some("oidc:ann"));
    let fetched = server.take_requests().into_iter().filter(|(path, _)| path == "/keys").count();
    assert_eq!(fetched, 1);
    // A configuration without the issuer refuses its tokens.
    methods.replace(Configuration::default());
    assert_eq!(name(&methods, &token).await, None);
}

#[tokio::test]
async fn bad_issuers_are_refused_and_delay_no_others() {
    let good = Loopback::start(|_, _| Reply::Close).await;
    let key = Key::new();
    let keys = Arc::new(parking_lot::Mutex::new(vec![key.jwk("k1")]));
    good.answer_with(documents(&good.url, &keys));
    let published = json!({"keys": [key.jwk("k1")]}).to_string();
    for what in [
        "silent",
        "never ending",
        "never ending keys",
        "deep",
        "deep keys",
        "closing",
        "huge",
        "lying",
        "plain",
        "redirecting",
        "odd keys",
        "error",
    ] {
        let bad = Loopback::start(|_, _| Reply::Close).await;
        let (url, published) = (bad.url.clone(), published.clone());
        bad.answer_with(move |path, _| {
            let discovery = |issuer: &str, keys: String| Reply::json(&json!({"issuer": issuer, "jwks_uri": keys}));
            match (what, path) {
                ("silent", _) => Reply::Silence,
                ("never ending", _) => Reply::Begun("{\"issuer\":".into()),
                ("never ending keys", "/keys") => Reply::Begun("{\"keys\":[".into()),
                ("deep", _) | ("deep keys", "/keys") => Reply::Body(200, "[".repeat(500 << 10)),
                ("closing", _) => Reply::Close,
                ("error", _) => Reply::Body(500, String::new()),
                ("redirecting", "/.well-known/openid-configuration") => Reply::Body(302, String::new()),
                ("huge", "/keys") => Reply::Body(200, format!("{{\"x\":\"{}\"}}", "x".repeat(600 << 10))),
                ("lying", "/.well-known/openid-configuration") => discovery("https://other", format!("{url}/keys")),
                ("plain", "/.well-known/openid-configuration") => discovery(&url, "http://127.0.0.1:1/keys".into()),
                ("odd keys", "/keys") => Reply::Body(200, "[]".into()),
                (_, "/.well-known/openid-configuration") => discovery(&url, format!("{url}/keys")),
                _ => Reply::Body(200, published.clone()),
            }
        });
        let methods = Arc::new(methods());
        methods.replace(configuration(&[&bad, &good]));
        let waiting = {
            let (methods, token) = (Arc::clone(&methods), key.sign("k1", &claims(&bad)));
            tokio::spawn(async move { name(&methods, &token).await })
        };
        let fine = timeout(Duration::from_secs(60), name(&methods, &key.sign("k1", &claims(&good)))).await;
        assert_eq!(fine.expect("not delayed").as_deref(), Some("oidc:ann"), "{what}");
        if what == "silent" || what.starts_with("never") {
            assert!(!waiting.is_finished(), "it waits for its own issuer");
            // Its time-out, virtually.
            tokio::time::pause();
            let began = Instant::now();
            assert_eq!(waiting.await.expect("no panic"), None);
            assert!(began.elapsed() <= Duration::from_secs(21), "{:?}", began.elapsed());
            tokio::time::resume();
        } else {
            assert_eq!(waiting.await.expect("no panic"), None, "{what}");
        }
    }
}

/// An issuer may publish its keys elsewhere, and may be gone for a while.
#[tokio::test]
async fn a_changing_issuer_is_followed_and_a_gone_one_costs_no_tokens() {
    let server = Loopback::start(|_, _| Reply::Close).await;
    let (first, second) = (Key::new(), Key::new());
    let moved = |path: &str, id: &str, key: &Key| {
        let (url, path, keys) = (server.url.clone(), path.to_owned(), json!({"keys": [key.jwk(id)]}));
        move |requested: &str, _: &Value| match requested {
            "/.well-known/openid-configuration" => {
                Reply::json(&json!({"issuer": url, "jwks_uri": format!("{url}{path}")}))
            }
            other if other == path => Reply::json(&keys),
            _ => Reply::Body(404, String::new()),
        }
    };
    server.answer_with(moved("/keys", "k1", &first));
    let methods = Arc::new(methods());
    methods.replace(configuration(&[&server]));
    let claims = claims(&server);
    let (old, new) = (first.sign("k1", &claims), second.sign("k2", &claims));
    assert_eq!(name(&methods, &old).await.as_deref(), Some("oidc:ann"));
    let later = async |seconds: u64| {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(seconds)).await;
        tokio::time::resume();
    };
    // Another key at another URL: the old one is withdrawn.
    server.answer_with(moved("/v2/keys", "k2", &second));
    later(11).await;
    assert_eq!(name(&methods, &new).await.as_deref(), Some("oidc:ann"));
    assert_eq!(name(&methods, &old).await, None);
    // It answers with another issuer's documents: the last keys stay.
    server.answer_with(|_, _| Reply::json(&json!({"issuer": "https://other", "jwks_uri": "https://other/keys"})));
    later(11).await;
    assert_eq!(name(&methods, &old).await, None);
    assert_eq!(name(&methods, &new).await.as_deref(), Some("oidc:ann"));
    // It hangs when its keys are due again: tokens are verified at once, and one task waits for it.
    server.answer_with(|_, _| Reply::Silence);
    later(601).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..500 {
        let found = timeout(Duration::from_secs(5), name(&methods, &new)).await.expect("not delayed");
        assert_eq!(found.as_deref(), Some("oidc:ann"));
    }
    assert!(tasks() <= before + 10, "{} tasks wait", tasks() - before);
    // It is back.
    server.answer_with(moved("/keys", "k1", &first));
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(21)).await;
    tokio::time::resume();
    assert_eq!(name(&methods, &old).await.as_deref(), Some("oidc:ann"));
}

#[tokio::test]
async fn anonymous_requests_follow_the_configuration() {
    let methods = Arc::new(methods());
    let authentication =
        Authentication { anonymous: true, others: Some(Arc::clone(&methods) as _), ..Authentication::default() };
    let code = async |path: &str| {
        let (parts, ()) = http::Request::get(path).body(()).expect("a request").into_parts();
        authentication.authenticate(&parts, NOW).await.map_or_else(|status| status.code.to_string(), |user| user.user)
    };
    assert_eq!(code("/api").await, "system:anonymous");
    let file = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
                      "anonymous": {"enabled": true, "conditions": [{"path": "/livez"}]}});
    methods.replace(Configuration::parse(file.to_string().as_bytes(), &[]).expect("a configuration"));
    for (path, expected) in
        [("/livez", "system:anonymous"), ("/livez?verbose", "system:anonymous"), ("/livez/x", "401"), ("/api", "401")]
    {
        assert_eq!(code(path).await, expected, "{path}");
    }
}
