//! Shutdown of a server behind load balancers and with kubectl, and its status pages.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::process::{Karmada, eventually};

const FLAGS: &[&str] = &[
    "--shutdown-delay-duration=10s",
    "--shutdown-send-retry-after",
    "--shutdown-watch-termination-grace-period=500ms",
    "--goaway-chance=0.02",
];

/// `/readyz` fails first. Until the delay is over everything is served, and every write that was acknowledged reaches
/// the watch of a kubectl before it ends, and the next start.
#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_shutdown_loses_no_watch_and_no_acknowledged_write() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::apiserver_with(dir.path(), FLAGS);
    let mut watch = Command::new("kubectl")
        .args(["get", "configmaps", "-n", "default", "--watch", "-o", "name"])
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl is on PATH");
    let mut seen = BufReader::new(watch.stdout.take().expect("a piped stdout")).lines();
    server.ok(&["create", "configmap", "before", "-n", "default"]);
    let mut until = |name: &str| {
        let name = format!("configmap/{name}");
        seen.by_ref().map_while(Result::ok).any(|line| line == name)
    };
    assert!(until("before"), "the watch is open");

    server.signal("-TERM");
    let text = eventually("/readyz fails", || {
        let output = server.kubectl(&["get", "--raw", "/readyz?verbose"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Err(text) } else { Ok(text) }
    });
    assert!(text.contains("[-]shutdown failed: reason withheld"), "{text}");
    assert!(text.contains("[+]informer-sync ok"), "{text}");
    assert_eq!(server.ok(&["get", "--raw", "/livez"]), "ok");
    server.ok(&["create", "configmap", "during", "-n", "default"]);
    assert!(until("during"), "an acknowledged write reaches the watch");
    assert!(server.ended(), "it ends by itself");
    watch.wait().expect("the watch ends with the server");

    let server = Karmada::apiserver(dir.path());
    assert_eq!(server.ok(&["get", "configmap", "during", "-n", "default", "-o", "name"]), "configmap/during\n");
    assert!(server.terminate());
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn an_api_server_shows_its_state_and_its_flags() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::apiserver_with(dir.path(), &["--goaway-chance=0.01", "--v=2", "--runtime-config="]);
    let status = server.ok(&["get", "--raw", "/statusz"]);
    assert!(status.starts_with("\nkarmada-apiserver statusz\nWarning: "), "{status}");
    for line in ["Emulation version: 1.36\n", "Paths: /flagz /healthz /livez /metrics /readyz /statusz /version\n"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let flags = server.ok(&["get", "--raw", "/flagz"]);
    for line in ["\ngoaway-chance=0.01\n", "\nv=2\n", "\nsecure-port=0\n", "\nbind-address=127.0.0.1\n"] {
        assert!(flags.contains(line), "{line}: {flags}");
    }
    let health = server.ok(&["get", "--raw", "/readyz?verbose"]);
    let begin = "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n\
                 [+]poststarthook/start-apiserver-admission-initializer ok\n";
    assert!(health.starts_with(begin) && health.ends_with("[+]shutdown ok\nreadyz check passed\n"), "{health}");
    assert!(server.terminate());
}
