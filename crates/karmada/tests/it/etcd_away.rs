//! Control planes whose etcd is away for a while, or whose events are in another etcd.

use std::process::Command;
use std::time::Duration;

use etcd::process::Process;

use crate::on_etcd::{ELECTION, first_of_two, only_candidate, second_of_two};
use crate::process::{Karmada, eventually};

fn signal(etcd: &Process, signal: &str) {
    let sent = Command::new("kill").args([signal, &etcd.id().to_string()]).status();
    assert!(sent.expect("kill is on PATH").success());
}

/// The processes that have the Lease.
fn leaders(planes: &[Karmada]) -> usize {
    let leads = |plane: &&Karmada| {
        let metrics = plane.kubectl(&["get", "--raw", "/metrics"]);
        String::from_utf8_lossy(&metrics.stdout).contains("leader_election_master_status{name=\"karmada-up\"} 1")
    };
    planes.iter().filter(leads).count()
}

/// A stopped etcd is noticed when a request or a ping was not answered.
fn unready(plane: &Karmada, check: &str) {
    eventually("the check fails", || {
        let output = plane.kubectl(&["get", "--raw", "/readyz"]);
        let found = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() && found.contains(check) { Ok(()) } else { Err(found) }
    });
}

#[test]
#[cfg_attr(any(no_kubectl, no_etcd), ignore = "kubectl or etcd is not on PATH")]
fn control_planes_survive_a_stopped_etcd() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let etcd = Process::start(&path("etcd"), &[]).expect("etcd starts");
    let servers = format!("--etcd-servers={}", etcd.url());
    let up = [&[servers.as_str()][..], ELECTION].concat();
    let (member, one) = first_of_two(directory.path(), &up);
    let planes = [one, second_of_two(directory.path(), &up)];
    planes[0].ok(&["create", "configmap", "before"]);
    assert_eq!(leaders(&planes), 1);

    signal(&etcd, "-STOP");
    eventually("the elected process stops its controllers", || match leaders(&planes) {
        0 => Ok(()),
        found => Err(format!("{found} processes have the Lease")),
    });
    for plane in &planes {
        plane.ok(&["get", "--raw", "/livez"]);
        unready(plane, "etcd-readiness");
    }
    let refused = planes[1].refused(&["create", "configmap", "meanwhile"]);
    assert!(refused.contains("etcd at "), "{refused}");
    #[expect(clippy::disallowed_methods, reason = "no runtime runs here; etcd is another process")]
    std::thread::sleep(Duration::from_secs(8));
    signal(&etcd, "-CONT");

    eventually("one process works", || match leaders(&planes) {
        1 => Ok(()),
        found => Err(format!("{found} processes have the Lease")),
    });
    for (plane, name) in planes.iter().zip(["after-one", "after-other"]) {
        plane.ok(&["get", "configmap", "before"]);
        plane.ok(&["get", "--raw", "/readyz"]);
        plane.ok(&["create", "configmap", name]);
        eventually("the ConfigMap is propagated", || {
            let output = member.kubectl(&["get", "configmap", "before", name, "-o", "name"]);
            if output.status.success() { Ok(()) } else { Err(plane.ok(&["get", "works", "-A", "-o", "yaml"])) }
        });
    }
    assert_eq!(leaders(&planes), 1, "exactly one works");
    let metrics = planes.iter().map(|plane| plane.ok(&["get", "--raw", "/metrics"]));
    for metrics in metrics {
        let mut names: Vec<&str> = metrics
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| Some(line.rsplit_once(' ')?.0))
            .collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None, "a sample is reported once");
    }
    assert!(planes.into_iter().all(Karmada::terminate));
}

/// Two processes of a component would both have a Lease.
#[test]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
fn servers_that_keep_leases_in_different_places_do_not_run_beside_each_other() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let etcd = Process::start(&path("main"), &[]).expect("etcd starts");
    let leases = Process::start(&path("leases"), &[]).expect("etcd starts");
    let servers = format!("--etcd-servers={}", etcd.url());
    let overrides = format!("--etcd-servers-overrides=coordination.k8s.io/leases#{}", leases.url());
    let first = Karmada::apiserver_with(&path("first"), &[&servers, &overrides]);
    let refused = crate::on_etcd::refused(&["apiserver", "--secure-port=0", &servers], &path("second"));
    assert!(refused.contains("leases are in the main etcd here, and in the etcd "), "{refused}");
    let second = Karmada::apiserver_with(&path("second"), &[&servers, &overrides]);
    assert!(second.terminate() && first.terminate());
    let second_apiserver = Karmada::apiserver_with(&path("second"), &[&servers]);
    let refused = crate::on_etcd::refused(&["apiserver", "--secure-port=0", &servers, &overrides], &path("first"));
    assert!(refused.contains("in the main etcd there"), "{refused}");
    assert!(second_apiserver.terminate());
}

/// etcd refuses all writes: Leases cannot be renewed, and the API answers reads. Nothing in the member changes, and the control
/// plane goes on when the alarm is over.
#[test]
#[cfg_attr(any(no_kubectl, no_etcd), ignore = "kubectl or etcd is not on PATH")]
fn a_control_plane_outlives_a_full_etcd() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let mut etcd = Process::start(&path("etcd"), &["--quota-backend-bytes=33554432"]).expect("etcd starts");
    let servers = format!("--etcd-servers={}", etcd.url());
    let (member, plane) = first_of_two(directory.path(), &[&[servers.as_str()][..], ELECTION].concat());
    let propagated = |name: &str| {
        eventually("the ConfigMap is propagated", || {
            let output = member.kubectl(&["get", "configmap", name, "-o", "jsonpath={.metadata.uid}"]);
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if output.status.success() { Ok(out.into_owned()) } else { Err(err.into_owned()) }
        })
    };
    plane.ok(&["create", "configmap", "before"]);
    let uid = propagated("before");

    let big = path("big");
    std::fs::write(&big, "x".repeat(900_000)).expect("a temporary directory is writable");
    let file = format!("--from-file={}", big.display());
    // Secrets are not propagated here.
    let mut number = 0;
    let refused = eventually("etcd is full", || {
        number += 1;
        let output = plane.kubectl(&["create", "secret", "generic", &format!("big-{number}"), &file]);
        if output.status.success() { Err("it has space".to_owned()) } else { Ok(output.stderr) }
    });
    let refused = String::from_utf8_lossy(&refused).into_owned();
    assert!(refused.contains("alarm disarm"), "{refused}");
    eventually("the process has lost its Lease", || match leaders(std::slice::from_ref(&plane)) {
        0 => Ok(()),
        found => Err(format!("{found} Leases")),
    });
    plane.ok(&["get", "configmap", "before"]);
    assert_eq!(propagated("before"), uid);

    let address = etcd.address().to_string();
    etcd.kill();
    let etcd = Process::start_at(&path("etcd"), &address, &[]).expect("etcd starts");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(etcd.disarm()).expect("the alarm ends");
    eventually("writes are served again", || {
        let output = plane.kubectl(&["create", "configmap", "after"]);
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    });
    propagated("after");
    assert_eq!(propagated("before"), uid);
    assert!(plane.terminate());
}

/// A process is stopped while Leases move to another etcd. When it continues, it neither leads nor lets others be elected.
#[test]
#[cfg_attr(any(no_kubectl, no_etcd), ignore = "kubectl or etcd is not on PATH")]
fn a_process_that_was_stopped_while_leases_moved_writes_none() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let etcd = Process::start(&path("main"), &[]).expect("etcd starts");
    let leases = Process::start(&path("leases"), &[]).expect("etcd starts");
    let servers = format!("--etcd-servers={}", etcd.url());
    let overrides = format!("--etcd-servers-overrides=coordination.k8s.io/leases#{}", leases.url());
    let stopped = only_candidate(&path("stopped"), &[&[&*servers, &*overrides][..], ELECTION].concat());
    let lease = ["label", "lease", "-n", "karmada-system", "karmada-up", "--overwrite"];
    let write = |plane: &Karmada, value: &str| plane.kubectl(&[&lease[..], &[&format!("written={value}")]].concat());
    assert!(write(&stopped, "before").status.success());
    stopped.pause();
    // It starts once the stopped process is no server any more, and no Lease prevents its election.
    let moved = only_candidate(&path("moved"), &[&[&*servers][..], ELECTION].concat());
    stopped.resume();
    let refused = write(&stopped, "after");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("this server writes no Leases"), "{why}");
    unready(&stopped, "lease-placement");
    eventually("the process has lost its Lease", || match leaders(std::slice::from_ref(&stopped)) {
        0 => Ok(()),
        found => Err(format!("{found} Leases")),
    });
    assert!(!write(&stopped, "later").status.success());
    assert!(write(&moved, "later").status.success());
    stopped.ok(&["get", "--raw", "/livez"]);
    assert!(stopped.terminate() && moved.terminate());
}

#[test]
#[cfg_attr(any(no_kubectl, no_etcd), ignore = "kubectl or etcd is not on PATH")]
fn events_may_have_a_separate_etcd() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let etcd = Process::start(&path("main"), &[]).expect("etcd starts");
    let mut events = Process::start(&path("events"), &[]).expect("etcd starts");
    let servers = format!("--etcd-servers={}", etcd.url());
    let overrides = format!("--etcd-servers-overrides=/events#{}", events.url());
    let server = Karmada::apiserver_with(&path("server"), &[&servers, &overrides]);
    let event = path("event.json");
    let text = |name: &str| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "Event", "metadata": {{"name": "{name}", "namespace": "default"}},
            "involvedObject": {{"kind": "ConfigMap", "namespace": "default", "name": "c"}}, "reason": "R", "message": "m"}}"#
        )
    };
    let create = |name: &str| {
        std::fs::write(&event, text(name)).expect("a temporary directory is writable");
        server.kubectl(&["create", "-f", event.to_str().expect("UTF-8")])
    };
    server.ok(&["create", "configmap", "c"]);
    assert!(create("e").status.success());
    assert!(server.ok(&["get", "events", "-o", "name"]).contains("event/e"));
    assert!(server.ok(&["get", "events.events.k8s.io", "e", "-o", "name"]).contains("/e"));
    let key = "/registry/events/default/e";
    assert_eq!(crate::on_etcd::stored(&etcd, key), None);
    assert!(crate::on_etcd::stored(&events, key).is_some_and(|value| value.contains("\"involvedObject\"")));
    assert!(crate::on_etcd::stored(&events, "/registry/configmaps/default/c").is_none());

    let address = events.address().to_string();
    events.kill();
    unready(&server, "etcd-override-readiness-0");
    server.ok(&["get", "--raw", "/livez"]);
    server.ok(&["get", "--raw", "/readyz?exclude=etcd-override-readiness-0"]);
    server.ok(&["create", "configmap", "meanwhile"]);
    assert!(server.ok(&["get", "configmaps", "-o", "name"]).contains("meanwhile"));
    let lost = create("lost");
    let why = String::from_utf8_lossy(&lost.stderr).into_owned();
    assert!(!lost.status.success() && why.contains(&format!("etcd at {address}")), "{why}");

    let _events = Process::start_at(&path("events"), &address, &[]).expect("etcd starts");
    eventually("events are served again", || {
        let output = create("again");
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    });
    let found = server.ok(&["get", "events", "-o", "name"]);
    assert!(found.contains("event/e") && found.contains("event/again"), "{found}");
    server.ok(&["get", "--raw", "/readyz"]);
    assert!(server.terminate());
}
