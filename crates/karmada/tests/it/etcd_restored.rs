//! An etcd that is restored to an older state beneath running control planes.

use std::path::Path;
use std::process::Command;

use etcd::process::Process;

use crate::on_etcd::{ELECTION, first_of_two, second_of_two};
use crate::process::{Karmada, eventually};

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().expect("cp is on PATH").success());
}

fn propagated(member: &Karmada, name: &str) {
    eventually("the ConfigMap is propagated", || {
        let output = member.kubectl(&["get", "configmap", name, "-o", "name"]);
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    });
}

/// Both processes end, and nothing is deleted in the member: neither before nor by the processes that are started again.
#[test]
#[cfg_attr(any(no_kubectl, no_etcd), ignore = "kubectl or etcd is not on PATH")]
fn nothing_is_deleted_in_members_when_etcd_is_restored_beneath_control_planes() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let mut etcd = Process::start(&path("etcd"), &[]).expect("etcd starts");
    let servers = format!("--etcd-servers={}", etcd.url());
    let up = [&[servers.as_str()][..], ELECTION].concat();
    let (member, one) = first_of_two(directory.path(), &up);
    let other = second_of_two(directory.path(), &up);
    one.ok(&["create", "configmap", "kept"]);
    propagated(&member, "kept");

    let address = etcd.address().to_string();
    etcd.kill();
    copy(&path("etcd"), &path("backup"));
    let mut etcd = Process::start_at(&path("etcd"), &address, &[]).expect("etcd starts");
    eventually("writes are served again", || {
        let output = one.kubectl(&["create", "configmap", "lost"]);
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    });
    propagated(&member, "lost");
    let uid = |name: &str| member.ok(&["get", "configmap", name, "-o", "jsonpath={.metadata.uid}"]);
    let before = ["kept", "lost"].map(uid);

    etcd.kill();
    let _etcd = Process::start_at(&path("backup"), &address, &[]).expect("etcd starts");
    assert!(!one.ended() && !other.ended(), "both end with an error");
    assert_eq!(["kept", "lost"].map(uid), before);

    // The Lease of the former leader is part of the backup, and ends first.
    let one = Karmada::candidate_with(&path("one"), &up);
    one.ok(&["create", "configmap", "after"]);
    propagated(&member, "after");
    assert!(one.refused(&["get", "configmap", "lost"]).contains("NotFound"));
    assert_eq!(["kept", "lost"].map(uid), before);
    assert!(one.terminate());
}
