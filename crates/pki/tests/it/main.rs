//! Key material through the public API.

use std::time::Duration;

use pki::{Authority, Claims, Directory, Holder, ServerNames, ServingCertificate, Signer, Verifier, request, token};
use world::World;

fn world() -> World {
    World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 1)
}

#[tokio::test]
async fn a_client_certificate_names_its_user_and_every_group() {
    let world = world();
    let (authority, _) = Authority::generate("test-ca", &world).expect("authority");
    for groups in [vec![], vec!["system:masters".to_owned()], vec!["a".to_owned(), "b".to_owned(), "c".repeat(200)]] {
        let pair = authority.issue_client("bob", &groups, &world).expect("certificate");
        let holder = Holder::from_pem(&pair.certificate).expect("readable");
        assert_eq!((holder.user.as_str(), &holder.groups), ("bob", &groups));
        assert!(holder.client_auth && holder.is_valid_at(world.now().as_second()));
    }
}

#[tokio::test]
async fn a_request_is_signed_with_its_own_subject() {
    let world = world();
    let (authority, _) = Authority::generate("test-ca", &world).expect("authority");
    let groups = ["system:karmada:agents".to_owned(), "more".to_owned()];
    let (csr, _key) = request::create("system:karmada:agent:m1", &groups).expect("request");
    let read = request::read(&csr).expect("readable");
    assert_eq!((read.common_name.as_str(), read.organizations.as_slice()), ("system:karmada:agent:m1", &groups[..]));
    let day = Duration::from_secs(24 * 3600);
    let certificate =
        request::sign(&authority, &csr, &["client auth", "digital signature"], day, &world).expect("signed");
    let holder = Holder::from_pem(&certificate).expect("readable");
    assert_eq!((holder.user.as_str(), holder.groups.as_slice()), ("system:karmada:agent:m1", &groups[..]));
    assert!(!holder.is_valid_at(world.now().as_second() + 24 * 3600 + 1));
    let authority_der = pki::holder::pem_to_der(authority.certificate()).expect("authority");
    let (_, issuer) = x509_parser::parse_x509_certificate(&authority_der).expect("authority");
    let der = pki::holder::pem_to_der(&certificate).expect("pem");
    let (_, signed) = x509_parser::parse_x509_certificate(&der).expect("certificate");
    signed.verify_signature(Some(issuer.public_key())).expect("signed by the authority");
}

/// As kube-controller-manager: a long-lived certificate is valid as long as requested in all.
#[tokio::test]
async fn the_end_of_a_long_lived_certificate_is_backdated() {
    let world = world();
    let (authority, _) = Authority::generate("test-ca", &world).expect("authority");
    let (csr, _key) = request::create("bob", &[]).expect("request");
    let hour = 3600;
    for (requested, end) in [(hour, hour), (8 * hour - 1, 8 * hour - 1), (8 * hour, 8 * hour - 300)] {
        let lifetime = Duration::from_secs(requested);
        let certificate = request::sign(&authority, &csr, &["client auth"], lifetime, &world).expect("signed");
        let holder = Holder::from_pem(&certificate).expect("readable");
        let now = world.now().as_second();
        assert_eq!((holder.not_before - now, holder.not_after - now), (-300, end as i64), "{requested}");
    }
}

#[tokio::test]
async fn a_serving_certificate_is_read_with_its_chain() {
    let world = world();
    let (authority, root) = Authority::generate("their-ca", &world).expect("authority");
    let names = ServerNames {
        common_name: "api".into(),
        dns: vec!["api.example.org".into(), "*.k8s.example.org".into()],
        addresses: vec!["203.0.113.10".parse().expect("an address")],
    };
    let pair = authority.issue_server(&names, &world).expect("certificate");
    let without_key = ServingCertificate::from_pem(&pair.certificate).expect("readable");
    assert_eq!(without_key.names(), ["api.example.org", "*.k8s.example.org", "203.0.113.10"]);
    assert_eq!(without_key.anchors, ServingCertificate::from_pem(&without_key.anchors).expect("itself").anchors);
    let now = world.now().as_second();
    assert!(without_key.not_before < now && now < without_key.not_after);
    let chained = format!("{}{}{}", pair.certificate, pair.key, root.certificate);
    let chained = ServingCertificate::from_pem(&chained).expect("readable");
    assert_eq!(holder_of(&chained.anchors), holder_of(&root.certificate));
    for text in ["", "certificate", &pair.key, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        assert!(ServingCertificate::from_pem(text).is_err(), "{text:?}");
    }
}

fn holder_of(pem: &str) -> Holder {
    Holder::from_pem(pem).expect("a certificate")
}

#[test]
fn broken_requests_are_errors() {
    for text in ["", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "MIIB"] {
        assert!(request::read(text).is_err(), "{text:?}");
    }
}

#[test]
fn tokens_are_verified_by_any_of_the_keys_and_by_no_other() {
    let (old, new, other) = (token::generate_key(), token::generate_key(), token::generate_key());
    let (old, new, other) = (old.expect("key"), new.expect("key"), other.expect("key"));
    let verifier = Verifier::from_pems([old.as_str(), new.as_str()]).expect("verifier");
    let claims = Claims::legacy("default", "robot", "u1", "robot-token");
    for (key, genuine) in [(&old, true), (&new, true), (&other, false)] {
        let token = Signer::from_pem(key).expect("signer").sign(&claims).expect("token");
        assert_eq!(verifier.verify(&token), genuine.then(|| claims.clone()));
    }
    let token = Signer::from_pem(&new).expect("signer").sign(&claims).expect("token");
    let (head, signature) = token.rsplit_once('.').expect("three parts");
    let forged = Claims::legacy("default", "admin", "u1", "robot-token");
    let other_body = Signer::from_pem(&other).expect("signer").sign(&forged).expect("token");
    let body = other_body.rsplit_once('.').expect("three parts").0;
    assert_eq!(verifier.verify(&format!("{body}.{signature}")), None);
    assert_eq!(verifier.verify(head), None);
    assert_eq!(verifier.key_set().expect("keys")["keys"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_directory_is_created_once_and_kept() {
    use std::os::unix::fs::PermissionsExt;
    let world = world();
    let temporary = tempfile::tempdir().expect("directory");
    let names = ServerNames::api_server("karmada-apiserver", &[]);
    let first = Directory::open(temporary.path(), &names, &world).expect("made");
    let second = Directory::open(temporary.path(), &names, &world).expect("kept");
    assert_eq!(first.authority.certificate(), second.authority.certificate());
    assert_eq!((&first.server, &first.admin), (&second.server, &second.admin));
    for entry in std::fs::read_dir(temporary.path()).expect("listed") {
        let entry = entry.expect("entry");
        let name = entry.file_name().into_string().expect("text");
        let mode = entry.metadata().expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode, if name.ends_with(".crt") { 0o644 } else { 0o600 }, "{name}");
    }
    let more = ServerNames::api_server("karmada-apiserver", &["api.example.org".into(), "10.0.0.9".into()]);
    let renewed = Directory::open(temporary.path(), &more, &world).expect("renewed");
    assert_ne!(renewed.server, second.server);
    assert_eq!(renewed.authority.certificate(), first.authority.certificate());
    assert_eq!(renewed.admin, first.admin);
    let fewer = Directory::open(temporary.path(), &names, &world).expect("renewed");
    assert_ne!(fewer.server, renewed.server, "a removed name must not remain");
    assert_eq!(fewer.authority.certificate(), first.authority.certificate());
    let in_capitals = ServerNames::api_server("karmada-apiserver", &["API.example.org".into()]);
    let issued = Directory::open(temporary.path(), &in_capitals, &world).expect("renewed").server;
    assert_eq!(Directory::open(temporary.path(), &in_capitals, &world).expect("kept").server, issued);

    std::fs::remove_file(temporary.path().join("ca.key")).expect("removed");
    let error = Directory::open(temporary.path(), &names, &world).expect_err("half an authority is refused");
    assert!(matches!(error, pki::Error::HalfAPair { .. }), "{error}");
}
