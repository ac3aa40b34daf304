//! Events of a control plane on the embedded store: in memory, and with `--event-storage=store`.

use std::path::Path;

use crate::process::Karmada;

fn create(server: &Karmada, directory: &Path, name: &str) {
    let file = directory.join("event.json");
    let text = format!(
        r#"{{"apiVersion": "v1", "kind": "Event", "metadata": {{"name": "{name}", "namespace": "default"}},
        "involvedObject": {{"kind": "ConfigMap", "namespace": "default", "name": "c"}}, "reason": "R", "message": "m"}}"#
    );
    std::fs::write(&file, text).expect("a temporary directory is writable");
    server.ok(&["create", "-f", file.to_str().expect("UTF-8")]);
}

/// The names of the Events of this test: a server may write some of its own.
fn names(server: &Karmada) -> String {
    server.ok(&["get", "events", "--field-selector=reason=R", "-o", "jsonpath={.items[*].metadata.name}"])
}

fn revision(server: &Karmada) -> u64 {
    let list = server.ok(&["get", "--raw", "/api/v1/namespaces/default/events?limit=1"]);
    let list: serde_json::Value = serde_json::from_str(&list).expect("a list");
    list["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a revision")
}

/// What a watch that resumes receives first.
fn resumed(server: &Karmada, revision: u64) -> String {
    let path = format!("/api/v1/namespaces/default/events?watch=1&timeoutSeconds=1&resourceVersion={revision}");
    server.ok(&["get", "--raw", &path])
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn events_in_memory_end_with_the_process() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("data");
    let server = Karmada::apiserver_with(&data, &["--event-storage=store"]);
    create(&server, directory.path(), "stored");
    server.kill();
    let server = Karmada::apiserver_with(&data, &["--event-storage=store"]);
    assert_eq!(names(&server), "stored", "they are durable");
    let of_the_store = revision(&server);
    server.kill();

    let server = Karmada::apiserver(&data);
    assert_eq!(names(&server), "", "they are hidden");
    assert!(resumed(&server, of_the_store).contains("\"code\":410"));
    create(&server, directory.path(), "in-memory");
    let first = revision(&server);
    assert!(first > of_the_store);
    assert!(!resumed(&server, first).contains("\"code\":410"), "this store has that revision");
    server.kill();

    let server = Karmada::apiserver(&data);
    assert_eq!(names(&server), "");
    assert!(revision(&server) > first, "revisions do not go back");
    assert!(resumed(&server, first).contains("\"code\":410"));
    assert!(server.ok(&["get", "--raw", "/readyz?verbose"]).contains("etcd-readiness ok"));
    assert!(!server.ok(&["get", "--raw", "/readyz?verbose"]).contains("etcd-override"));
    let in_memory = revision(&server);
    assert!(server.terminate());

    let server = Karmada::apiserver_with(&data, &["--event-storage=store"]);
    assert_eq!(names(&server), "", "no process with Events in memory has left any");
    assert!(resumed(&server, in_memory).contains("\"code\":410"), "the store has not reached that revision");
    create(&server, directory.path(), "again");
    assert_eq!(names(&server), "again");
    assert!(server.terminate());
}

#[test]
fn events_in_memory_beside_etcd_are_refused() {
    for command in ["up", "apiserver"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_karmada"))
            .args([command, "--etcd-servers=http://127.0.0.1:1", "--event-storage=memory"])
            .output()
            .expect("the binary starts");
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && why.contains("--event-storage=memory: several servers"), "{why}");
    }
}
