//! The objects of flow control of a running server.

use crate::process::{Karmada, eventually};

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn suggested_objects_are_kept_while_the_server_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Karmada::apiserver(dir.path());
    let shares = || {
        let path = "jsonpath={.spec.limited.nominalConcurrencyShares}";
        server.ok(&["get", "prioritylevelconfiguration", "workload-low", "-o", path])
    };
    let patch = r#"{"spec":{"limited":{"nominalConcurrencyShares":7}}}"#;
    server.ok(&["patch", "prioritylevelconfiguration", "workload-low", "--type=merge", "-p", patch]);
    eventually("the spec is brought up to date", || if shares() == "100" { Ok(()) } else { Err(shares()) });
    server.ok(&[
        "annotate",
        "prioritylevelconfiguration",
        "workload-low",
        "apf.kubernetes.io/autoupdate-spec=false",
        "--overwrite",
    ]);
    server.ok(&["patch", "prioritylevelconfiguration", "workload-low", "--type=merge", "-p", patch]);

    server.ok(&["delete", "flowschema", "service-accounts"]);
    let exists = || {
        let found = server.kubectl(&["get", "flowschema", "service-accounts"]);
        if found.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&found.stderr).into_owned()) }
    };
    eventually("the schema is created again", exists);
    assert_eq!(shares(), "7", "the administrator's own spec stays");

    let schema = dir.path().join("schema.yaml");
    let text = "apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: FlowSchema\nmetadata: {name: dangling}\n\
                spec: {priorityLevelConfiguration: {name: missing}}\n";
    std::fs::write(&schema, text).expect("written");
    server.ok(&["create", "-f", schema.to_str().expect("UTF-8")]);
    let condition = "--for=condition=Dangling";
    server.ok(&["wait", condition, "flowschema/dangling", "--timeout=30s"]);
    assert!(server.terminate());
}
