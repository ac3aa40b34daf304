use std::collections::BTreeMap;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, KeyUsagePurpose};

use super::*;
use crate::files::crash;
use crate::subject;

const YEAR: u64 = 365 * 24 * 3600;

fn names() -> ServerNames {
    ServerNames::api_server("karmada-apiserver", &[])
}

fn world() -> World {
    World::simulated("2026-11-23T00:00:00Z".parse().expect("a time"), 7)
}

/// All files except leftovers of a crash.
fn content(path: &Path) -> BTreeMap<String, String> {
    let names = files::names(path).expect("listed").into_iter().filter(|name| !name.ends_with(".new"));
    names.map(|name| (name.clone(), std::fs::read_to_string(path.join(name)).expect("a file"))).collect()
}

fn copy(files: &BTreeMap<String, String>) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).expect("a file");
    }
    directory
}

/// Runs `act` with a crash at every point; the directory must stay usable, and `act` must succeed when repeated.
fn at_every_crash(
    before: &BTreeMap<String, String>,
    world: &World,
    act: impl Fn(&Path) -> Result<(), Error>,
    check: impl Fn(&Directory, &Path),
) -> usize {
    for points in 0.. {
        let directory = copy(before);
        crash::after(Some(points));
        let crashed = act(directory.path()).is_err();
        crash::after(None);
        let opened = Directory::open(directory.path(), &names(), world).expect("usable after the crash");
        check(&opened, directory.path());
        act(directory.path()).expect("the retry succeeds");
        if !crashed {
            return points;
        }
    }
    unreachable!("the number of crash points is finite");
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_leaves_a_usable_directory() {
    let world = world();
    let open = |path: &Path| Directory::open(path, &names(), &world).map(drop);
    let points = at_every_crash(&BTreeMap::new(), &world, open, |_, _| {});
    assert!(points > 30, "{points}");

    let directory = tempfile::tempdir().expect("a directory");
    let first = Directory::open(directory.path(), &names(), &world).expect("made");
    // A directory of an earlier version.
    files::remove(&directory.path().join(ADMIN)).expect("removed");
    std::fs::write(directory.path().join("admin.crt"), &first.admin.certificate).expect("a file");
    std::fs::write(directory.path().join("admin.key"), &first.admin.key).expect("a file");
    tokio::time::advance(Duration::from_secs(8 * YEAR + YEAR / 2)).await;
    let before = content(directory.path());
    at_every_crash(&before, &world, open, |opened, path| {
        for file in ["ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key"] {
            assert_eq!(content(path)[file], before[file], "{file}");
        }
        assert!(opened.trusted.starts_with(&before["ca.crt"]), "the first authority stays trusted");
        assert_eq!(holder::certificates(&opened.trusted).expect("a bundle").len(), 2);
        assert!(!path.join("admin.key").exists(), "replaced files are removed");
    });

    let token = token::Signer::from_pem(&first.service_account_key).expect("a key").sign(&crate::Claims::default());
    let token = token.expect("a token");
    let rotate = |path: &Path| renew(path, &[Step::TokenKey, Step::Admin, Step::Server], &world);
    at_every_crash(&before, &world, rotate, |opened, _| {
        let keys = opened.earlier_service_account_keys.iter().chain([&opened.service_account_key]);
        let verifier = crate::Verifier::from_pems(keys.map(String::as_str)).expect("keys");
        assert!(verifier.verify(&token).is_some(), "a token of the first key");
    });
}

#[tokio::test(start_paused = true)]
async fn more_than_ten_years_pass() {
    let world = world();
    let directory = tempfile::tempdir().expect("a directory");
    let open = || Directory::open(directory.path(), &names(), &world).expect("opened");
    let first = open();
    let (mut signers, mut bundles) = (vec![first.authority.certificate().to_owned()], first.trusted.clone());
    for month in 1..=360 {
        tokio::time::advance(Duration::from_secs(YEAR / 12)).await;
        let (now, opened) = (world.now().as_second(), open());
        for certificate in [&opened.server.certificate, &opened.admin.certificate] {
            assert!(validity(certificate).expect("a certificate").not_after > now + 59 * 24 * 3600, "month {month}");
        }
        assert!(opened.due > now, "month {month}");
        let signer = opened.authority.certificate().to_owned();
        if signers.last() != Some(&signer) {
            assert!(bundles.contains(&signer), "it was published at least a month ago");
            signers.push(signer);
        }
        bundles = opened.trusted.clone();
    }
    assert_eq!(signers.len(), 4, "30 years");
    let roles: Vec<_> =
        certificates(directory.path(), &world).expect("read").iter().map(|it| (it.name.clone(), it.role)).collect();
    assert_eq!(roles[..2], [("ca".to_owned(), Role::Retired), ("ca-2".to_owned(), Role::Retired)]);
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_was_off_for_years_opens() {
    let world = world();
    let directory = tempfile::tempdir().expect("a directory");
    let first = Directory::open(directory.path(), &names(), &world).expect("made");
    for (years, signs_itself) in [(3, true), (14, false)] {
        tokio::time::advance(Duration::from_secs(years * YEAR)).await;
        let opened = Directory::open(directory.path(), &names(), &world).expect("opened");
        assert_ne!(opened.server, first.server);
        assert_eq!(
            opened.authority.certificate() == first.authority.certificate(),
            signs_itself,
            "{years} years later"
        );
        assert_eq!(opened.service_account_key, first.service_account_key);
    }
}

#[tokio::test]
async fn requested_renewals_match_their_plan() {
    let world = world();
    let directory = tempfile::tempdir().expect("a directory");
    let first = Directory::open(directory.path(), &names(), &world).expect("made");
    assert_eq!(renewal(directory.path(), &[], &world).expect("a plan").steps, []);
    let all = [Step::Authority(Kind::Clients), Step::Server, Step::Admin, Step::TokenKey];
    let before = content(directory.path());
    assert_eq!(renewal(directory.path(), &all, &world).expect("a plan").steps, all);
    assert_eq!(content(directory.path()), before, "a plan changes nothing");
    renew(directory.path(), &all, &world).expect("renewed");
    let next = Directory::open(directory.path(), &names(), &world).expect("opened");
    assert!(next.server != first.server && next.admin != first.admin);
    assert_eq!(names_of(&next.server.certificate).expect("names"), names_of(&first.server.certificate).expect("names"));
    assert_eq!(next.authority.certificate(), first.authority.certificate(), "the successor is only published");
    assert_eq!(holder::certificates(&next.trusted).expect("a bundle").len(), 2);
    assert_eq!(next.earlier_service_account_keys.len(), 1);
    let missing = tempfile::tempdir().expect("a directory");
    let plan = renewal(missing.path(), &[Step::Server], &world).expect("a plan");
    assert!(!plan.steps.contains(&Step::Server), "the names are not known");
}

/// An error with its causes.
fn text(error: &Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn an_authority_of_the_operator_signs_with_its_own_name() {
    let world = world();
    let directory = tempfile::tempdir().expect("a directory");
    let (_, pem) = Authority::generate("corporate ca", &world).expect("an authority");
    // The certificate library keeps one value of an attribute only.
    let name = subject::encode("corporate ca", &["unit a".to_owned(), "unit b".to_owned()]);
    let key = rcgen::KeyPair::from_pem(&pem.key).expect("a key");
    let der = holder::pem_to_der(&pem.certificate).expect("a certificate");
    let der = subject::replace(&der, &name, &key).expect("another subject");
    let der = subject::replace_issuer(&der, &name, &key).expect("another issuer");
    std::fs::write(directory.path().join("ca.crt"), holder::der_to_pem("CERTIFICATE", &der)).expect("a file");
    std::fs::write(directory.path().join("ca.key"), &pem.key).expect("a file");
    let opened = Directory::open(directory.path(), &names(), &world).expect("opened");
    renew(directory.path(), &[Step::Authority(Kind::Clients)], &world).expect("a successor");
    let (_, own) = X509Certificate::from_der(&der).expect("a certificate");
    let text = std::fs::read_to_string(directory.path().join("ca-2.pem")).expect("the successor");
    let cross = holder::certificates(&text).expect("certificates").remove(1);
    for certificate in [&opened.server.certificate, &opened.admin.certificate, &cross] {
        let der = holder::pem_to_der(certificate).expect("a certificate");
        let (_, issued) = X509Certificate::from_der(&der).expect("a certificate");
        assert_eq!(issued.issuer().as_raw(), name);
        issued.verify_signature(Some(own.public_key())).expect("a signature of the authority");
    }
    assert_eq!(Directory::open(directory.path(), &names(), &world).expect("opened").server, opened.server);
}

/// kubectl verifies nothing that such a certificate signs.
#[tokio::test]
async fn a_certificate_that_may_not_sign_is_no_authority() {
    let world = world();
    let with = |ca: IsCa, usages: &[KeyUsagePurpose]| {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        (params.is_ca, params.key_usages) = (ca, usages.to_vec());
        let certificate = params.self_signed(&key).expect("signed").pem();
        Authority::from_pem(&KeyPairPem { certificate, key: key.serialize_pem() })
    };
    let any = || IsCa::Ca(BasicConstraints::Unconstrained);
    assert!(with(any(), &[]).is_ok() && with(any(), &[KeyUsagePurpose::KeyCertSign]).is_ok());
    for (ca, usages) in
        [(IsCa::NoCa, &[][..]), (IsCa::ExplicitNoCa, &[]), (any(), &[KeyUsagePurpose::DigitalSignature])]
    {
        assert!(matches!(with(ca, usages), Err(Error::NotAnAuthority)));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::default().self_signed(&key).expect("signed").pem();
    std::fs::write(directory.path().join("ca.crt"), certificate).expect("a file");
    std::fs::write(directory.path().join("ca.key"), key.serialize_pem()).expect("a file");
    let error = Directory::open(directory.path(), &names(), &world).expect_err("refused");
    assert!(text(&error).contains("ca.key: the certificate is not an authority's"), "{}", text(&error));
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_and_stay() {
    let world = world();
    let directory = tempfile::tempdir().expect("a directory");
    Directory::open(directory.path(), &names(), &world).expect("made");
    let before = content(directory.path());
    let check = |file: &str, with: &str, expected: &str| {
        let mut changed = before.clone();
        changed.insert(file.to_owned(), with.to_owned());
        let directory = copy(&changed);
        let error = Directory::open(directory.path(), &names(), &world).expect_err("refused");
        let place = format!("{}/", directory.path().display());
        assert_eq!(text(&error).replace(&place, ""), expected);
        assert_eq!(content(directory.path()), changed);
    };
    check(
        "ca.key",
        &before["front-proxy-ca.key"],
        "ca.crt cannot be used with ca.key: the private key is of another certificate: restore the files of one authority",
    );
    check(
        "apiserver.pem",
        "garbage",
        "apiserver.pem cannot be used: remove it, and the server issues a new one: cannot parse the certificate: Parsing \
         Error: MissingHeader",
    );
    for file in ["sa.key", "sa-1.pub"] {
        check(
            file,
            "garbage",
            &format!(
                "{file} cannot be used: restore it from a backup, or remove it, which makes the tokens of this key \
                 invalid: cannot read the token key: InvalidKeyFormat"
            ),
        );
    }
    check(
        "admin.pem",
        "garbage",
        "admin.pem cannot be used: remove it, and the server issues a new one: cannot parse the certificate: Parsing \
         Error: MissingHeader",
    );
}
