//! An admission webhook in Python with the Kubernetes client, which accepts the API server by its client certificate.

use std::ffi::OsStr;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pki::{Authority, ServerNames};
use world::World;

use crate::process::Karmada;
use crate::python_client::Program;

fn write(directory: &Path, name: &str, content: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).expect("written");
    path.display().to_string()
}

fn start(files: &[String]) -> (Program, u16) {
    let arguments: Vec<_> = files.iter().map(OsStr::new).collect();
    let mut webhook = Program::start("webhook.py", &arguments);
    let port = webhook.lines.next().and_then(Result::ok).unwrap_or_default();
    (webhook, port.parse().expect("a port"))
}

#[test]
#[cfg_attr(any(no_kubectl, no_python_client), ignore = "kubectl or Python is missing")]
fn a_webhook_in_python_decides_about_objects() {
    let directory = tempfile::tempdir().expect("a directory");
    let (files, world) = (directory.path(), World::system());
    let (servers, _) = Authority::generate("webhooks", &world).expect("an authority");
    let (clients, _) = Authority::generate("webhook-clients", &world).expect("an authority");
    let names = ServerNames { addresses: vec!["127.0.0.1".parse().expect("an address")], ..ServerNames::default() };
    let pair = servers.issue_server(&names, &world).expect("a certificate");
    let of_server = clients.issue_client("admission", &[], &world).expect("a certificate");
    write(files, "admission.crt", &of_server.certificate);
    write(files, "admission.key", &of_server.key);
    write(
        files,
        "users",
        "users: [{name: '*', user: {client-certificate: admission.crt, client-key: admission.key}}]\n",
    );
    let plugin = |name: &str| {
        format!(
            "- name: {name}\n  configuration: {{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: users}}\n"
        )
    };
    let plugins = plugin("MutatingAdmissionWebhook") + &plugin("ValidatingAdmissionWebhook");
    let kind = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n";
    let flag = write(files, "admission.yaml", &format!("{kind}{plugins}"));
    let server = Karmada::up_with(&files.join("data"), &["--admission-control-config-file", &flag]);
    let files: Vec<String> = vec![
        write(files, "tls.crt", &pair.certificate),
        write(files, "tls.key", &pair.key),
        write(files, "clients.crt", clients.certificate()),
        server.kubeconfig().to_owned(),
    ];
    let (_webhook, port) = start(&files);
    let ca = BASE64_STANDARD.encode(servers.certificate());
    let configuration = |kind: &str, path: &str| {
        format!(
            "---\napiVersion: admissionregistration.k8s.io/v1\nkind: {kind}WebhookConfiguration\nmetadata: {{name: python}}\nwebhooks:\n\
             - name: python.example.com\n  admissionReviewVersions: [v1]\n  sideEffects: None\n  \
             clientConfig: {{url: 'https://127.0.0.1:{port}/{path}', caBundle: {ca}}}\n  \
             namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: shop}}}}\n  \
             rules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}]\n"
        )
    };
    server.ok(&["create", "namespace", "shop"]);
    let manifest = configuration("Mutating", "mutate") + &configuration("Validating", "validate");
    let manifest = write(directory.path(), "webhooks.yaml", &manifest);
    server.ok(&["apply", "-f", &manifest]);
    for name in ["a", "b"] {
        let output = server.kubectl(&["create", "configmap", name, "-n", "shop"]);
        let warning = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && warning.contains("Warning: kubernetes-admin owns it"), "{warning}");
    }
    let owner = ["get", "configmap", "a", "-n", "shop", "-o", "jsonpath={.metadata.labels.owner}"];
    assert_eq!(server.ok(&owner), "kubernetes-admin");
    let refused = server.kubectl(&["create", "configmap", "c", "-n", "shop"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    let expected = "admission webhook \"python.example.com\" denied the request: kubernetes-admin has 2 already";
    assert!(!refused.status.success() && why.contains(expected), "{why}");
    assert!(server.terminate());
}
