//! A rejected start creates nothing: no data directory, no store, no members, no kubeconfig.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pki::{Authority, KeyPairPem, ServerNames};
use world::World;

use crate::fleet::Ran;

fn started(directory: &Path, words: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
    command.args(words.split(' ')).args(["--data-dir", "data"]).current_dir(directory).env_remove("KUBECONFIG");
    Ran::from(command.output().expect("the binary starts"))
}

/// Rejected with `needle`, and no new files in the directory.
fn refused(directory: &Path, words: &str, code: i32, needle: &str) {
    let entries = || {
        let mut names: Vec<_> =
            std::fs::read_dir(directory).expect("a directory").map(|it| it.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    let before = entries();
    let ran = started(directory, words);
    assert_eq!(ran.code, Some(code), "{words}: {}{}", ran.out, ran.err);
    assert!(ran.err.contains(needle), "{words}: {}", ran.err);
    assert_eq!(entries(), before, "{words}");
}

#[test]
fn a_taken_port_is_named_with_the_next_step() {
    let directory = tempfile::tempdir().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    for command in ["up", "up --simulated-clusters=1", "apiserver", "member m1"] {
        let needle = format!("--bind-address, --secure-port: cannot listen on 127.0.0.1:{port}");
        refused(directory.path(), &format!("{command} --secure-port={port}"), 1, &needle);
        let next = "choose another port (0 takes a free one)";
        refused(directory.path(), &format!("{command} --secure-port={port}"), 1, next);
    }
}

#[test]
fn flags_that_are_wrong_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("tokens.csv"), "only-a-token\n").expect("a file");
    for (words, code, needle) in [
        ("up --controllers=*,nosuch", 1, "--controllers: unknown controller \"nosuch\"; known are "),
        ("up --simulated-clusters=2 --kube-controllers=nosuch", 1, "--kube-controllers: unknown controller"),
        ("up --enable-admission-plugins=Nope", 1, "--enable-admission-plugins: plugin \"Nope\" is unknown"),
        ("apiserver --disable-admission-plugins=Nope", 1, "--disable-admission-plugins: plugin \"Nope\" is unknown"),
        ("up --token-auth-file=missing", 1, "--token-auth-file: reading missing"),
        ("apiserver --token-auth-file=tokens.csv", 1, "--token-auth-file: reading tokens.csv"),
        ("up --feature-gates=Nope=true", 1, "--feature-gates"),
        ("up --cluster-failure-threshold=soon", 1, "--cluster-failure-threshold"),
        (
            "up --enable-scheduler-estimator=true --scheduler-estimator-ca-file=missing",
            1,
            "--scheduler-estimator-ca-file: reading missing",
        ),
        ("up --etcd-servers=x", 1, "--etcd-servers: etcd server \"x\": it has no scheme"),
        ("apiserver --etcd-healthcheck-timeout=1s", 1, "--etcd-healthcheck-timeout has no effect here"),
        ("apiserver --etcd-servers=http://127.0.0.1:1 --backup-dir=b", 1, "etcdctl snapshot save"),
        ("up --etcd-prefix=/x", 2, "--etcd-servers"),
        ("up --service-cluster-ip-range=x", 2, "--service-cluster-ip-range"),
        ("up --tls-san=", 2, "--tls-san"),
        ("apiserver --tls-san=a_b", 2, "'--tls-san <NAME>': must be a DNS name or an IP address"),
        ("member m1 --tls-san=https://a", 2, "'--tls-san <NAME>': must be a DNS name or an IP address"),
        ("up --advertise-address=0.0.0.0", 2, "'--advertise-address <IP[:PORT]>': clients cannot connect"),
        ("up --advertise-address=api.example.org", 2, "a DNS name goes into --external-hostname"),
        ("up --external-hostname=https://x", 2, "'--external-hostname <NAME[:PORT]>': must be a DNS name"),
        ("member m1 --nodes=x", 2, "--nodes"),
        ("member A", 2, "<NAME>"),
    ] {
        refused(directory.path(), words, code, needle);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
    command.args(["up", "--tls-san", "a b", "--data-dir", "data"]).current_dir(directory.path());
    let ran = Ran::from(command.output().expect("the binary starts"));
    assert!(ran.code == Some(2) && ran.err.contains("--tls-san"), "{}", ran.err);
    assert!(!directory.path().join("data").exists());
}

fn pair(dns: &[&str], world: &World) -> KeyPairPem {
    let (authority, _) = Authority::generate("their-ca", world).expect("an authority");
    let dns = dns.iter().map(|name| (*name).to_owned()).collect();
    let names = ServerNames { common_name: "theirs".into(), dns, addresses: Vec::new() };
    authority.issue_server(&names, world).expect("a certificate")
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let now = World::system();
    let ten_years = Duration::from_secs(10 * 366 * 24 * 3600);
    let at = |when: jiff::Timestamp| World::simulated(when, 7);
    let (good, other) = (pair(&["api.example.org"], &now), pair(&["api.example.org"], &now));
    let expired = pair(&["api.example.org"], &at(now.now() - ten_years));
    let early = pair(&["api.example.org"], &at(now.now() + ten_years));
    let nameless = pair(&[], &now);
    for (name, text) in [
        ("good.crt", &good.certificate),
        ("good.key", &good.key),
        ("other.key", &other.key),
        ("expired.crt", &expired.certificate),
        ("expired.key", &expired.key),
        ("early.crt", &early.certificate),
        ("early.key", &early.key),
        ("nameless.crt", &nameless.certificate),
        ("nameless.key", &nameless.key),
    ] {
        std::fs::write(directory.path().join(name), text).expect("a file");
    }
    for command in ["up", "apiserver", "member m1"] {
        for (flags, needle) in [
            ("--tls-cert-file=good.crt", "--tls-cert-file needs --tls-private-key-file"),
            ("--tls-private-key-file=good.key", "--tls-private-key-file needs --tls-cert-file"),
            ("--tls-cert-file=none.crt --tls-private-key-file=good.key", "--tls-cert-file: cannot read none.crt"),
            (
                "--tls-cert-file=good.crt --tls-private-key-file=none.key",
                "--tls-private-key-file: cannot read none.key",
            ),
            ("--tls-cert-file=good.key --tls-private-key-file=good.key", "--tls-cert-file: good.key"),
            ("--tls-cert-file=good.crt --tls-private-key-file=good.crt", "--tls-private-key-file: good.crt"),
            (
                "--tls-cert-file=good.crt --tls-private-key-file=other.key",
                "--tls-private-key-file: the key in other.key does not belong to the certificate in good.crt",
            ),
            (
                "--tls-cert-file=expired.crt --tls-private-key-file=expired.key",
                "--tls-cert-file: expired.crt: the certificate expired at ",
            ),
            (
                "--tls-cert-file=early.crt --tls-private-key-file=early.key",
                "--tls-cert-file: early.crt: the certificate is not valid before ",
            ),
            (
                "--tls-cert-file=nameless.crt --tls-private-key-file=nameless.key",
                "--tls-cert-file: nameless.crt: the certificate has no subjectAltName",
            ),
            (
                "--tls-cert-file=good.crt --tls-private-key-file=good.key --tls-san=api.example.org,b.example.org",
                "--tls-san: the certificate in --tls-cert-file covers api.example.org, not b.example.org",
            ),
        ] {
            refused(directory.path(), &format!("{command} --secure-port=0 {flags}"), 1, needle);
        }
    }
}
