//! The real kubectl with `karmada apiserver`.

use crate::process::Karmada;

const DEPLOYMENT: &str = r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "nginx", "labels": {"app": "nginx"}},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "nginx"}}, "template": {"metadata": {"labels": {"app": "nginx"}},
             "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}}}"#;

fn manifest(dir: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, text).expect("a temporary directory is writable");
    path.to_string_lossy().into_owned()
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn apply_get_patch_scale_and_delete() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::apiserver(dir.path());
    let file = manifest(&dir, "nginx.json", DEPLOYMENT);
    assert_eq!(server.ok(&["apply", "-f", &file]), "deployment.apps/nginx created\n");
    assert_eq!(server.ok(&["apply", "-f", &file]), "deployment.apps/nginx unchanged\n");
    let changed = manifest(&dir, "changed.json", &DEPLOYMENT.replace("\"replicas\": 2", "\"replicas\": 3"));
    assert_eq!(server.ok(&["apply", "-f", &changed]), "deployment.apps/nginx configured\n");
    let image = r#"{"spec": {"template": {"spec": {"containers": [{"name": "nginx", "image": "nginx:2"}]}}}}"#;
    server.ok(&["patch", "deployment", "nginx", "-p", image]);
    let shown =
        server.ok(&["get", "deploy", "nginx", "-o", "jsonpath={.spec.replicas} {..image} {.metadata.generation}"]);
    assert_eq!(shown, "3 nginx:2 3");
    server.ok(&["scale", "deployment", "nginx", "--replicas=5"]);
    assert_eq!(server.ok(&["get", "deploy", "nginx", "-o", "jsonpath={.spec.replicas}"]), "5");
    assert!(server.ok(&["delete", "deployment", "nginx"]).contains("\"nginx\" deleted"));
    assert!(server.refused(&["get", "deployment", "nginx"]).contains("deployments.apps \"nginx\" not found"));
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn server_side_apply_keeps_owners_apart() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::apiserver(dir.path());
    let file = manifest(&dir, "nginx.json", DEPLOYMENT);
    let apply = |manager: &str, file: &str| {
        vec![
            "apply".to_owned(),
            "--server-side".into(),
            format!("--field-manager={manager}"),
            "-f".into(),
            file.to_owned(),
        ]
    };
    let run = |args: &[String]| server.kubectl(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(run(&apply("one", &file)).status.success());
    let changed = manifest(&dir, "changed.json", &DEPLOYMENT.replace("\"replicas\": 2", "\"replicas\": 3"));
    let refused = run(&apply("two", &changed));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("conflict with \"one\": .spec.replicas"), "{text}");
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn strict_validation_names_the_unknown_field() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::apiserver(dir.path());
    let file = manifest(&dir, "nginx.json", &DEPLOYMENT.replace("\"replicas\"", "\"replcas\""));
    let text = server.refused(&["apply", "-f", &file]);
    assert!(text.contains("unknown field") && text.contains("replcas"), "{text}");
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn acknowledged_writes_survive_a_kill() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::apiserver(dir.path());
    let file = manifest(&dir, "nginx.json", DEPLOYMENT);
    server.ok(&["apply", "-f", &file]);
    let before =
        server.ok(&["get", "deployment", "nginx", "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}"]);
    server.kill();
    let server = Karmada::apiserver(dir.path());
    let after =
        server.ok(&["get", "deployment", "nginx", "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}"]);
    assert_eq!(before, after);
}
