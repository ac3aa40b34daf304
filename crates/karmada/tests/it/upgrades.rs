//! Start is upgrade: data directories with stores of every format, and definitions whose storage version has changed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Karmada;

fn data(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../storage/tests/data").join(format)
}

fn copied(format: &str, data_dir: &Path) {
    let store = data_dir.join("store");
    std::fs::create_dir_all(&store).expect("a directory");
    for entry in std::fs::read_dir(data(format)).expect("a directory") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), store.join(entry.file_name())).expect("a file");
    }
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn stores_of_every_format_are_upgraded_and_served() {
    for format in ["format-1", "format-2"] {
        let root = tempfile::tempdir().expect("a directory");
        copied(format, root.path());
        let server = Karmada::apiserver(root.path());
        assert_eq!(server.ok(&["get", "configmap", "kept", "-o", "jsonpath={.data.n}"]), "2", "{format}");
        assert!(server.refused(&["get", "configmap", "gone"]).contains("NotFound"), "{format}");
        server.ok(&["patch", "configmap", "kept", "--type=merge", "-p", r#"{"data":{"n":"3"}}"#]);
        let policy = ["get", "propagationpolicy", "p", "-o", "jsonpath={.metadata.name}"];
        assert_eq!(server.ok(&policy), "p", "{format}");
        server.kill();
        let server = Karmada::apiserver(root.path());
        assert_eq!(server.ok(&["get", "configmap", "kept", "-o", "jsonpath={.data.n}"]), "3", "{format}");
        assert_eq!(server.ok(&policy), "p", "{format}");
        // Definitions of this version are stored beside the objects of the earlier one.
        let crd = "customresourcedefinition/propagationpolicies.policy.karmada.io";
        assert_eq!(server.ok(&["get", crd, "-o", "jsonpath={.status.storedVersions[*]}"]), "v1alpha1", "{format}");
        assert!(server.terminate(), "{format}");
        let data_dir = root.path().to_str().expect("UTF-8");
        let verified = Command::new(env!("CARGO_BIN_EXE_karmada"))
            .args(["store", "verify", "--data-dir", data_dir])
            .output()
            .expect("the binary starts");
        assert!(verified.status.success(), "{format}: {}", String::from_utf8_lossy(&verified.stderr));
    }
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_definition_remembers_the_versions_in_which_its_objects_are_stored() {
    let root = tempfile::tempdir().expect("a directory");
    let server = Karmada::apiserver(root.path());
    let file = root.path().join("crd.json");
    let definition = |storage: &str| {
        let version = |name: &str| {
            serde_json::json!({"name": name, "served": true, "storage": name == storage,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
        };
        let crd = serde_json::json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "boxes.example.io"},
            "spec": {"group": "example.io", "scope": "Namespaced", "versions": [version("v1"), version("v2")],
                "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"}}});
        std::fs::write(&file, crd.to_string()).expect("a file");
        server.ok(&["apply", "-f", file.to_str().expect("UTF-8")]);
        server.ok(&["wait", "--for=condition=Established", "crd/boxes.example.io"]);
    };
    definition("v1");
    let object = root.path().join("box.json");
    std::fs::write(&object, r#"{"apiVersion":"example.io/v1","kind":"Box","metadata":{"name":"b"},"size":1}"#)
        .expect("a file");
    server.ok(&["create", "-f", object.to_str().expect("UTF-8")]);
    definition("v2");
    let stored = ["get", "crd", "boxes.example.io", "-o", "jsonpath={.status.storedVersions[*]}"];
    crate::process::eventually("both versions are recorded", || match server.ok(&stored) {
        found if found == "v1 v2" => Ok(()),
        found => Err(found),
    });
    // The object of the earlier version is served in both, and becomes one of the new version when it is written.
    for resource in ["boxes.v1.example.io", "boxes.v2.example.io"] {
        assert_eq!(server.ok(&["get", resource, "b", "-o", "jsonpath={.size}"]), "1", "{resource}");
    }
    server.ok(&["label", "boxes.v2.example.io", "b", "seen=yes"]);
    assert!(server.terminate());
}
