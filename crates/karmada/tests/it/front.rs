//! The server's own service.

use std::path::Path;

use etcd::process::Process;

use crate::process::{Karmada, eventually};

/// Deletes the service, and its endpoints if the server has an address for them.
fn check(server: &Karmada, directory: &Path) {
    let get = |path: &str| server.kubectl(&["get", "service", "kubernetes", "-o", path]);
    let text = |path: &str| String::from_utf8_lossy(&get(path).stdout).into_owned();
    let (first, address) = (text("jsonpath={.metadata.uid}"), text("jsonpath={.spec.clusterIP}"));
    assert_eq!(address, "10.96.0.1");
    server.ok(&["delete", "service", "kubernetes", "--wait=false"]);
    let other = directory.join("service.yaml");
    let manifest = "apiVersion: v1\nkind: Service\nmetadata: {name: other}\n\
                    spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n";
    std::fs::write(&other, manifest).expect("written");
    let why = server.refused(&["create", "-f", other.to_str().expect("UTF-8")]);
    assert!(why.contains("failed to allocate IP 10.96.0.1: provided IP is already allocated"), "{why}");
    eventually("the service is created again", || {
        let uid = text("jsonpath={.metadata.uid}");
        if uid.is_empty() || uid == first { Err(uid) } else { Ok(()) }
    });
    assert_eq!(text("jsonpath={.spec.clusterIP}"), address);
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_deleted_service_of_the_server_is_created_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Karmada::apiserver(&directory.path().join("data"));
    check(&server, directory.path());
    assert!(server.terminate());
}

#[test]
#[cfg_attr(any(no_kubectl, no_etcd), ignore = "kubectl or etcd is not on PATH")]
fn a_deleted_service_of_a_server_on_etcd_is_created_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let etcd = Process::start(&directory.path().join("etcd"), &[]).expect("etcd starts");
    let servers = format!("--etcd-servers={}", etcd.url());
    let server = Karmada::apiserver_with(&directory.path().join("data"), &[&servers]);
    check(&server, directory.path());
    assert!(server.terminate());
}
