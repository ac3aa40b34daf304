//! Authentication, one row per credential.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey, Status};
use apiserver::Peer;
use apiserver::auth::authn::{
    Authentication, BootstrapTokens, ClientAuthority, Lookup, ServiceAccountTokens, StaticTokens, impersonate,
};
use apiserver::auth::authz::{Attributes, Rbac, ResourceAttributes, Table};
use base64::Engine as _;
use futures::future::{BoxFuture, FutureExt};
use pki::token::{Bound, Reference};
use pki::{Authority, Claims, Signer, Verifier};
use serde_json::json;
use transport::Identity;
use world::World;

const NOW: &str = "2026-11-21T00:00:00Z";

#[derive(Default)]
struct Objects(BTreeMap<(String, ObjectKey), Arc<Object>>);

impl Objects {
    fn add(&mut self, resource: &str, value: &serde_json::Value) {
        let object = Object::from_value(value).expect("an object");
        self.0.insert((resource.to_owned(), object.key()), object.shared());
    }
}

impl Lookup for Objects {
    fn get(&self, resource: &'static str, key: ObjectKey) -> BoxFuture<'_, Result<Option<Arc<Object>>, Status>> {
        let found = self.0.get(&(resource.to_owned(), key)).cloned();
        async move { Ok(found) }.boxed()
    }
}

fn bound(uid: &str, audience: &str, exp: i64) -> Claims {
    Claims {
        aud: vec![audience.into()],
        exp: Some(exp),
        iss: "https://issuer".into(),
        jti: "j1".into(),
        bound: Some(Bound {
            namespace: "ns".into(),
            serviceaccount: Reference { name: "robot".into(), uid: uid.into() },
            ..Bound::default()
        }),
        sub: "system:serviceaccount:ns:robot".into(),
        ..Claims::default()
    }
}

fn request(bearer: Option<&str>, certificate: Option<&str>) -> http::request::Parts {
    let mut request = http::Request::get("/api");
    if let Some(token) = bearer {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let mut request = request.body(()).expect("request");
    let certificates = certificate.map(|pem| pki::holder::pem_to_der(pem).expect("pem").into());
    let address = ([127, 0, 0, 1], 1).into();
    request.extensions_mut().insert(Peer::new(address, certificates));
    request.into_parts().0
}

#[tokio::test]
async fn credentials_identify_their_user_or_are_rejected() {
    let world = World::simulated(NOW.parse().expect("a time"), 3);
    let now = world.now().as_second();
    let (authority, _) = Authority::generate("ca", &world).expect("authority");
    let (other_authority, _) = Authority::generate("ca", &world).expect("authority");
    let groups = ["system:masters".to_owned(), "ops".to_owned()];
    let ann = authority.issue_client("ann", &groups, &world).expect("certificate").certificate;
    let false_ann = other_authority.issue_client("ann", &groups, &world).expect("certificate").certificate;
    let names = pki::ServerNames::api_server("not-a-client", &[]);
    let server = authority.issue_server(&names, &world).expect("certificate").certificate;

    let key = pki::token::generate_key().expect("key");
    let signer = Signer::from_pem(&key).expect("signer");
    let sign = |claims: &Claims| signer.sign(claims).expect("token");
    let legacy = sign(&Claims::legacy("ns", "robot", "u1", "robot-token"));
    let legacy_elsewhere = sign(&Claims::legacy("ns", "robot", "u1", "removed"));
    let mut objects = Objects::default();
    objects.add(
        "serviceaccounts",
        &json!({"kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "ns", "uid": "u1"}}),
    );
    let encoded = base64::engine::general_purpose::STANDARD.encode(&legacy);
    objects.add(
        "secrets",
        &json!({"kind": "Secret", "metadata": {"name": "robot-token", "namespace": "ns"}, "data": {"token": encoded}}),
    );
    let text = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    for (id, more) in [("abcdef", json!({})), ("leaves", json!({"deletionTimestamp": NOW})), ("passed", json!({}))] {
        let mut metadata = json!({"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"});
        metadata.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
        let expiration = if id == "passed" { NOW } else { "2026-11-21T00:01:00Z" };
        objects.add(
            "secrets",
            &json!({"kind": "Secret", "metadata": metadata, "type": "bootstrap.kubernetes.io/token", "data": {
                "token-id": text(id), "token-secret": text("0123456789abcdef"), "expiration": text(expiration),
                "usage-bootstrap-authentication": text("true"), "auth-extra-groups": text("system:bootstrappers:k")}}),
        );
    }
    let objects: Arc<Objects> = Arc::new(objects);
    let verifier = Verifier::from_pems([signer.public_pem()]).expect("verifier");
    let issuer = vec!["https://issuer".to_owned()];
    let authentication = Authentication {
        front_proxy: None,
        client_authority: Some(ClientAuthority::from_pem(authority.certificate()).expect("authority")),
        static_tokens: Some(StaticTokens::parse("t1,bob,7,\"devs, more\"\n# no\n\nt2,eve,8\n").expect("tokens")),
        service_accounts: Some(ServiceAccountTokens::new(verifier, issuer.clone(), issuer, objects.clone())),
        bootstrap_tokens: Some(BootstrapTokens::new(objects)),
        anonymous: true,
        others: None,
    };
    let robot =
        "system:serviceaccount:ns:robot [system:serviceaccounts system:serviceaccounts:ns system:authenticated]";
    let good = sign(&bound("u1", "https://issuer", now + 60));
    let late = sign(&bound("u1", "https://issuer", now));
    let recreated = sign(&bound("u2", "https://issuer", now + 60));
    let elsewhere = sign(&bound("u1", "https://else", now + 60));
    let cases = [
        (None, None, "system:anonymous [system:unauthenticated]"),
        (Some("t1"), None, "bob [devs more system:authenticated]"),
        (Some("t2"), None, "eve [system:authenticated]"),
        (Some("t3"), None, "401"),
        (None, Some(&ann), "ann [system:masters ops system:authenticated]"),
        (None, Some(&false_ann), "401"),
        (None, Some(&server), "401"),
        (Some("t1"), Some(&false_ann), "bob [devs more system:authenticated]"),
        (Some(good.as_str()), None, robot),
        (Some(late.as_str()), None, "401"),
        (Some(recreated.as_str()), None, "401"),
        (Some(elsewhere.as_str()), None, "401"),
        (Some(legacy.as_str()), None, robot),
        (Some(legacy_elsewhere.as_str()), None, "401"),
        (
            Some("abcdef.0123456789abcdef"),
            None,
            "system:bootstrap:abcdef [system:bootstrappers system:bootstrappers:k system:authenticated]",
        ),
        (Some("abcdef.0123456789abcdee"), None, "401"),
        (Some("ghijkl.0123456789abcdef"), None, "401"),
        (Some("leaves.0123456789abcdef"), None, "401"),
        (Some("passed.0123456789abcdef"), None, "401"),
    ];
    // Twice, because the second time the results are cached.
    for (token, certificate, expected) in cases.iter().chain(&cases) {
        let parts = request(*token, certificate.map(String::as_str));
        let answer = match authentication.authenticate(&parts, now).await {
            Ok(identity) => format!("{} [{}]", identity.user, identity.groups.join(" ")),
            Err(status) => status.code.to_string(),
        };
        assert_eq!(&answer, expected, "{token:?}");
    }
    let expired = authentication.authenticate(&request(Some(&good), None), now + 61).await.expect_err("expired");
    assert_eq!((expired.code, expired.message.as_str()), (401, "Unauthorized"));
    let eleven_years = 11 * 365 * 24 * 3600;
    assert!(authentication.authenticate(&request(None, Some(&ann)), now + eleven_years).await.is_err());
}

#[tokio::test]
async fn impersonation_needs_every_permission() {
    let rbac = Rbac::default();
    let put = |table: &mut Table, value: serde_json::Value| table.put(&Object::from_value(&value).expect("an object"));
    rbac.update(|table| {
        put(table, json!({"kind": "ClusterRole", "metadata": {"name": "imp"}, "rules": [
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users", "groups"], "resourceNames": ["tom", "devs"]},
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"]},
            {"verbs": ["impersonate"], "apiGroups": ["authentication.k8s.io"], "resources": ["userextras/a/b"]},
            {"verbs": ["impersonate-on:user-info:list"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"], "resources": ["users", "groups"],
             "resourceNames": ["kim", "ops"]}]}));
        put(table, json!({"kind": "ClusterRoleBinding", "metadata": {"name": "imp"},
            "roleRef": {"kind": "ClusterRole", "name": "imp"}, "subjects": [{"kind": "User", "name": "bob"}]}));
    });
    let listing = || {
        Attributes::Resource(ResourceAttributes {
            verb: "list".into(),
            version: "v1".into(),
            resource: "pods".into(),
            ..ResourceAttributes::default()
        })
    };
    let cases: [(&[(&str, &str)], &str); 11] = [
        (&[], "bob []"),
        // For lists of pods alone.
        (&[("impersonate-user", "kim"), ("impersonate-group", "ops")], "kim [ops system:authenticated]"),
        (
            &[("impersonate-user", "kim"), ("impersonate-group", "devs")],
            r#"groups.authentication.k8s.io "devs" is forbidden: User "bob" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope"#,
        ),
        (&[("impersonate-user", "tom")], "tom [system:authenticated]"),
        (&[("impersonate-user", "tom"), ("impersonate-group", "devs")], "tom [devs system:authenticated]"),
        (&[("impersonate-user", "tom"), ("impersonate-extra-a%2FB", "x")], "tom [system:authenticated]"),
        (
            &[("impersonate-user", "system:serviceaccount:n:r")],
            "system:serviceaccount:n:r [system:serviceaccounts system:serviceaccounts:n system:authenticated]",
        ),
        (
            &[("impersonate-user", "zed")],
            r#"users.authentication.k8s.io "zed" is forbidden: User "bob" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#,
        ),
        (
            &[("impersonate-user", "tom"), ("impersonate-group", "system:masters")],
            r#"users.authentication.k8s.io "tom" is forbidden: User "bob" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#,
        ),
        (
            &[("impersonate-group", "devs"), ("impersonate-group", "ops")],
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"devs", "ops"}, Extra:map[string][]string(nil)} without impersonating a user name"#,
        ),
        (
            &[("impersonate-uid", "7"), ("impersonate-extra-b", "x"), ("impersonate-extra-a", "y")],
            r#"requested &user.DefaultInfo{Name:"", UID:"7", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"y"}, "b":[]string{"x"}}} without impersonating a user name"#,
        ),
    ];
    for (headers, expected) in cases {
        let mut map = http::HeaderMap::new();
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().expect("a name");
            map.append(name, value.parse().expect("a value"));
        }
        let bob = Identity { user: "bob".into(), ..Identity::default() };
        let answer = match impersonate(&mut map, bob, &rbac, listing).await {
            Ok(identity) => {
                assert!(map.is_empty());
                format!("{} [{}]", identity.user, identity.groups.join(" "))
            }
            Err(status) => status.message,
        };
        assert_eq!(answer, expected);
    }
    // Another request as the same user: both rights are missing.
    let mut map = http::HeaderMap::new();
    map.append("impersonate-user", "kim".parse().expect("a value"));
    let bob = Identity { user: "bob".into(), ..Identity::default() };
    let namespaces = || {
        let attributes =
            ResourceAttributes { verb: "list".into(), resource: "namespaces".into(), ..Default::default() };
        Attributes::Resource(attributes)
    };
    let refused = impersonate(&mut map, bob, &rbac, namespaces).await.expect_err("forbidden");
    assert_eq!(
        refused.message,
        r#"namespaces is forbidden: User "bob" cannot impersonate-on:user-info:list resource "namespaces" in API group "" at the cluster scope"#
    );
}

#[tokio::test]
async fn credentials_follow_keys_that_are_replaced() {
    let world = World::simulated(NOW.parse().expect("a time"), 3);
    let now = world.now().as_second();
    let authorities = [(); 2].map(|()| Authority::generate("ca", &world).expect("authority").0);
    let keys = [(); 2].map(|()| pki::token::generate_key().expect("key"));
    let certificates =
        authorities.each_ref().map(|it| it.issue_client("ann", &[], &world).expect("certificate").certificate);
    let claims = bound("u1", "https://issuer", now + 60);
    let tokens = keys.each_ref().map(|key| Signer::from_pem(key).expect("signer").sign(&claims).expect("token"));
    let mut objects = Objects::default();
    objects.add(
        "serviceaccounts",
        &json!({"kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "ns", "uid": "u1"}}),
    );
    let client_authority = ClientAuthority::from_pem(authorities[0].certificate()).expect("authority");
    let verifier = Arc::new(Verifier::from_pems([keys[0].as_str()]).expect("verifier"));
    let issuer = vec!["https://issuer".to_owned()];
    let accounts = ServiceAccountTokens::new(Arc::clone(&verifier), issuer.clone(), issuer, Arc::new(objects));
    let authentication = Authentication {
        client_authority: Some(client_authority.clone()),
        service_accounts: Some(accounts),
        ..Authentication::default()
    };
    let accepted = async || {
        let mut accepted = Vec::new();
        for at in 0..2 {
            let certificate = authentication.authenticate(&request(None, Some(&certificates[at])), now).await.is_ok();
            let token = authentication.authenticate(&request(Some(&tokens[at]), None), now).await.is_ok();
            accepted.push((certificate, token));
        }
        accepted
    };
    for (of, expected) in [(&[0][..], [true, false]), (&[0, 1], [true, true]), (&[1], [false, true])] {
        let bundle: String = of.iter().map(|at| authorities[*at].certificate()).collect();
        client_authority.replace(&bundle).expect("a bundle");
        verifier.replace(of.iter().map(|at| keys[*at].as_str())).expect("keys");
        // Twice, because the second time the results are cached.
        for _ in 0..2 {
            assert_eq!(accepted().await, expected.map(|both| (both, both)), "{of:?}");
        }
    }
    client_authority
        .replace("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .expect_err("no certificate");
    verifier.replace(["no key"]).expect_err("no key");
    assert_eq!(accepted().await, [(false, false), (true, true)], "what is broken replaces nothing");
}
