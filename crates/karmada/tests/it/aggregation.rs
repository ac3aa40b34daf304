//! An aggregated API server in Python behind `karmada apiserver`, used through kubectl.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pki::{Authority, ServerNames};
use world::World;

use crate::process::{Karmada, eventually};

struct Aggregated(Child);

impl Drop for Aggregated {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Starts the server with a certificate for its service; returns it with its port and the authority in base64.
fn start(directory: &Path, front_proxy: &str, names: &str) -> (Aggregated, u16, String) {
    let world = World::system();
    let (authority, _) = Authority::generate("notes-ca", &world).expect("an authority");
    let service = ServerNames { dns: vec!["notes.default.svc".into()], ..ServerNames::default() };
    let pair = authority.issue_server(&service, &world).expect("a certificate");
    let files = ["cert", "key", "front"].map(|name| directory.join(name));
    for (file, content) in files.iter().zip([pair.certificate.as_str(), &pair.key, front_proxy]) {
        std::fs::write(file, content).expect("written");
    }
    let python = std::env::var_os("KARMADA_PYTHON").unwrap_or_else(|| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/aggregated.py");
    let mut child = Command::new(python)
        .arg(script)
        .args(&files)
        .arg(names)
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python is at hand");
    let stdout = child.stdout.take().expect("a piped stdout");
    let port = BufReader::new(stdout).lines().next().and_then(Result::ok).unwrap_or_default();
    (Aggregated(child), port.parse().expect("a port"), BASE64_STANDARD.encode(authority.certificate()))
}

#[test]
#[cfg_attr(any(no_kubectl, no_python_client), ignore = "kubectl or Python is missing")]
fn kubectl_uses_an_aggregated_api_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let karmada = Karmada::apiserver(&directory.path().join("data"));
    let published = |key: &str| {
        let path = format!("jsonpath={{.data.{key}}}");
        let args = ["get", "configmap", "-n", "kube-system", "extension-apiserver-authentication", "-o", &path];
        text(&karmada.kubectl(&args))
    };
    let (authority, names) = (published("requestheader-client-ca-file"), published("requestheader-allowed-names"));
    assert_eq!(names, r#"["front-proxy-client"]"#);
    assert_eq!(published("requestheader-extra-headers-prefix"), r#"["X-Remote-Extra-"]"#);
    let (_server, port, ca) = start(directory.path(), &authority, &names);
    let manifest = directory.path().join("notes.yaml");
    let documents = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: notes, namespace: default}}\n\
         spec: {{type: ExternalName, externalName: localhost}}\n---\n\
         apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {{name: v1.notes.example}}\n\
         spec:\n  group: notes.example\n  version: v1\n  groupPriorityMinimum: 1000\n  versionPriority: 15\n  \
         service: {{name: notes, namespace: default, port: {port}}}\n  caBundle: {ca}\n"
    );
    std::fs::write(&manifest, documents).expect("written");
    text(&karmada.kubectl(&["apply", "-f", manifest.to_str().expect("a path")]));
    text(&karmada.kubectl(&["wait", "--for=condition=Available", "apiservice/v1.notes.example", "--timeout=30s"]));
    let listed = text(&karmada.kubectl(&["get", "apiservice", "v1.notes.example", "--no-headers"]));
    assert!(listed.contains("default/notes") && listed.contains("True"), "{listed}");

    let note = directory.path().join("note.yaml");
    let document =
        "apiVersion: notes.example/v1\nkind: Note\nmetadata: {name: milk, namespace: default}\ntext: buy milk\n";
    std::fs::write(&note, document).expect("written");
    text(&karmada.kubectl(&["create", "--validate=false", "-f", note.to_str().expect("a path")]));
    let by = text(&karmada.kubectl(&["get", "nt", "milk", "-o", "jsonpath={.metadata.annotations.by} {.text}"]));
    assert_eq!(by, "kubernetes-admin buy milk", "by its short name, as the user who called the control plane");
    let resources = text(&karmada.kubectl(&["api-resources", "--api-group=notes.example", "--no-headers"]));
    assert!(resources.contains("notes.example/v1") && resources.contains("Note"), "{resources}");
    text(&karmada.kubectl(&["delete", "note", "milk", "--wait=false"]));
    let gone = karmada.kubectl(&["get", "note", "milk"]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("NotFound"), "{gone:?}");

    text(&karmada.kubectl(&["delete", "apiservice", "v1.notes.example"]));
    let unknown = karmada.kubectl(&["get", "--raw", "/apis/notes.example/v1"]);
    assert!(!unknown.status.success(), "{unknown:?}");
}

/// A control plane, and behind it an API server with a custom resource.
fn behind(directory: &Path) -> (Karmada, Karmada) {
    let front = Karmada::up(&directory.join("front"));
    let path = "jsonpath={.data.requestheader-client-ca-file}";
    let authority =
        front.ok(&["get", "configmap", "-n", "kube-system", "extension-apiserver-authentication", "-o", path]);
    let file = directory.join("front-proxy-ca.pem");
    std::fs::write(&file, authority).expect("written");
    let trust = format!("--requestheader-client-ca-file={}", file.display());
    let back = Karmada::apiserver_with(&directory.join("back"), &[&trust]);
    let create = |server: &Karmada, name: &str, text: &str| {
        let file = directory.join(name);
        std::fs::write(&file, text).expect("written");
        server.ok(&["create", "--validate=false", "-f", file.to_str().expect("a path")]);
    };
    create(
        &back,
        "definition.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.ext.example}\n\
         spec:\n  group: ext.example\n  scope: Namespaced\n  names: {plural: gadgets, singular: gadget, kind: Gadget}\n  \
         versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n",
    );
    back.ok(&["wait", "--for=condition=Established", "crd/gadgets.ext.example", "--timeout=30s"]);
    let url = back.ok(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    let port = url.rsplit(':').next().expect("a port");
    create(
        &front,
        "service.yaml",
        &format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: ext, namespace: default}}\n\
             spec: {{type: ExternalName, externalName: localhost}}\n---\n\
             apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {{name: v1.ext.example}}\n\
             spec:\n  group: ext.example\n  version: v1\n  groupPriorityMinimum: 1000\n  versionPriority: 15\n  \
             insecureSkipTLSVerify: true\n  service: {{name: ext, namespace: default, port: {port}}}\n"
        ),
    );
    front.ok(&["wait", "--for=condition=Available", "apiservice/v1.ext.example", "--timeout=30s"]);
    (front, back)
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn objects_of_aggregated_servers_are_collected_with_their_owners() {
    let directory = tempfile::tempdir().expect("a directory");
    let (front, _back) = behind(directory.path());
    let create = |kind: &str, name: &str, owner: Option<&str>| {
        let api = if kind == "Gadget" { "ext.example/v1" } else { "v1" };
        let owners = owner.map(|owner| {
            let path = "jsonpath={.apiVersion} {.kind} {.metadata.name} {.metadata.uid}";
            let found = front.ok(&["get", owner, "-o", path]);
            let [api, kind, name, uid] = found.split(' ').collect::<Vec<_>>()[..] else { panic!("{found}") };
            format!("[{{apiVersion: {api}, kind: {kind}, name: {name}, uid: {uid}, blockOwnerDeletion: true}}]")
        });
        let owners = owners.unwrap_or_else(|| "[]".to_owned());
        let text = format!(
            "apiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}, namespace: default, ownerReferences: {owners}}}\n"
        );
        let file = directory.path().join(format!("{name}.yaml"));
        std::fs::write(&file, text).expect("written");
        front.ok(&["create", "--validate=false", "-f", file.to_str().expect("a path")]);
    };
    let gone = |object: &str| {
        eventually(object, || {
            let output = front.kubectl(&["get", object]);
            match String::from_utf8_lossy(&output.stderr).contains("NotFound") {
                true => Ok(()),
                false => Err(format!("{output:?}")),
            }
        });
    };
    create("Gadget", "a", None);
    create("ConfigMap", "of-a", Some("gadget/a"));
    front.ok(&["delete", "gadget", "a", "--cascade=foreground", "--timeout=60s"]);
    gone("configmap/of-a");

    create("ConfigMap", "b", None);
    create("Gadget", "of-b", Some("configmap/b"));
    front.ok(&["delete", "configmap", "b"]);
    gone("gadget/of-b");

    create("ConfigMap", "c", None);
    create("Gadget", "of-c", Some("configmap/c"));
    front.ok(&["delete", "configmap", "c", "--cascade=orphan", "--timeout=60s"]);
    assert_eq!(front.ok(&["get", "gadget", "of-c", "-o", "jsonpath={.metadata.ownerReferences}"]), "");
}
