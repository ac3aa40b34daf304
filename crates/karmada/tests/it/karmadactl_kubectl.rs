//! `karmadactl` compared with the real kubectl: the same command lines in two namespaces, with the same output and exit
//! code.

use std::path::Path;
use std::process::Command;

use crate::fleet::{Fleet, Ran};

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {app: demo}\ndata: {k: v}\n";
const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n  selector: {matchLabels: {a: b}}\n  \
                          template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n      - {name: c, image: 'nginx:1', env: [{name: A, value: '1'}, {name: B, value: '2'}]}\n      - {name: side, image: busybox}\n";

/// Command lines, in order; `D/` is the directory of the manifests, `~` a blank.
const LINES: &[&str] = &[
    "apply -f D/web1.yaml --dry-run=server",
    "apply -f D/web1.yaml",
    "apply -f D/web1.yaml",
    "apply -f D/web2.yaml -o jsonpath={.spec.template.spec.containers[*].name}",
    "get deploy web -o jsonpath={.spec.template.spec.containers[*].env}{.spec.replicas}{.metadata.annotations}",
    "apply -f D/web2.yaml --server-side --dry-run=server",
    // Fields of client-side apply that are no longer in the manifest are removed with it.
    "apply -f D/web1.yaml --force",
    "apply -f D/web2.yaml --server-side",
    "get deploy web -o jsonpath={.spec.template.spec.containers[*].name}{.spec.template.spec.containers[*].env}",
    "get deploy web --show-managed-fields -o jsonpath={range~.metadata.managedFields[*]}{.manager}~{.operation}~{.fieldsV1}{\"\\n\"}{end}",
    "apply -f D/web1.yaml",
    "apply -f D/web2.yaml --server-side --field-manager=me",
    "get deploy web --show-managed-fields -o jsonpath={range~.metadata.managedFields[*]}{.manager}~{.operation}~{.fieldsV1}{\"\\n\"}{end}",
    "apply -f D/web1.yaml --server-side --force-conflicts",
    "create -f D/a.yaml",
    "create -f D/a.yaml",
    "apply -f D/strict.yaml",
    "apply -f D/nokind.yaml",
    "apply -f D/unknown.yaml",
    "apply -f D/nosuch.yaml",
    "apply -f D/a.yaml --dry-run=client -o yaml",
    "patch cm a -p {\"data\":{\"x\":\"y\"}}",
    "patch cm a -p {\"data\":{\"x\":\"y\"}}",
    "patch deploy web -p spec:~{template:~{spec:~{containers:~[{name:~c,~image:~'nginx:2'}]}}} -o go-template={{range~.spec.template.spec.containers}}{{.name}}={{.image}};{{end}}",
    "patch cm nosuch -p {}",
    "label cm a app=other",
    "label cm a app=other --overwrite",
    "label cm a app=other",
    "label cm a nosuch-",
    "label cm --all --list",
    "label cm a a~b=c",
    "label -f D/a.yaml --list",
    "label cm a app-",
    "label cm a x=a~b",
    "label cm a",
    "label",
    "annotate cm a note=1",
    "annotate cm a note=2",
    "annotate cm a note=2 --overwrite -o name",
    "annotate cm a note-",
    "annotate cm a note-",
    "annotate cm a a~b=c",
    "patch cm a --type=json -p [{\"op\":\"remove\",\"path\":\"/data/nosuch\"}]",
    "patch cm a",
    "patch deploy web --subresource=scale --type=merge -p {\"spec\":{\"replicas\":3}}",
    "create -f D/list.json --dry-run=server -o name",
    "get cm a -o go-template={{.kind}}{{range~$k,~$v~:=~.data}}~{{$k}}={{$v}}{{end}}",
    "get cm a -o jsonpath={..app}{.data}",
    "get cm a -o custom-columns=NAME:.metadata.name,X:.data.x",
    "get deploy web -o jsonpath={range~.spec.template.spec.containers[*]}{.name}{\"\\t\"}{end}",
    "get deploy web -o jsonpath={.spec.template.spec.containers[?(@.name==\"c\")].image}",
    "get deploy web -o go-template={{.spec.replicas}}~{{len~.spec.template.spec.containers}}~{{.none}}",
    "explain deploy.spec.strategy",
    "explain deploy.spec --recursive",
    "explain propagationpolicy.spec",
    "explain propagationpolicy --recursive",
    "explain pods.spec.containers.ports",
    "explain cm",
    "explain crd.spec.versions.schema --output=plaintext-openapiv2 --recursive",
    "explain deploy.spec.template.spec.containers --output=plaintext-openapiv2",
    "explain propagationpolicy.spec.placement --output=plaintext-openapiv2",
    "explain deploy.spec.replicas --output=plaintext-openapiv2",
    "explain cm.metadata.labels --output=plaintext-openapiv2",
    "explain cm.nosuch --output=plaintext-openapiv2",
    "api-versions",
    // One file that cannot be read hides no other.
    "apply -f D/many",
    "create -f D/many",
    "label -f D/many x=y",
    "annotate -f D/many x=y",
    "label --local -f D/many x=y -o name",
    "patch -f D/many --type=merge -p {\"data\":{\"p\":\"q\"}}",
    "delete -f D/many -o name --dry-run=client",
    "delete -f D/many -o name",
    "apply -f D/broken.yaml -f D/unreadable.json -f D/nometa.yaml",
    // Without a name, no request is sent for the whole collection.
    "delete -f D/nometa.yaml",
    "label -f D/nometa.yaml x=y",
    "delete cm  -o name",
    "patch cm  -p {}",
    "label cm  x=y",
    "get cm ",
    "get cm a -o jsonpath={.metadata.name}",
    "patch -f D/float.json --local --type=json -p [{\"op\":\"test\",\"path\":\"/spec/x\",\"value\":100}] -o yaml",
    "patch -f D/float.json --local --type=json -p [{\"op\":\"test\",\"path\":\"/spec/l\",\"value\":[1.0,2]}] -o json",
    "get deploy web -o go-template={{define~\"T\"}}<{{.}}>{{end}}{{template~\"T\"~.kind}}",
    "get -o jsonpath={.data~#} cm a",
    "get deploy web -o jsonpath={range~.spec.template.spec.containers[*]}{.name}{$.image}",
    "get deploy web -o custom-columns=A:.spec.strategy,B:.spec.template.spec.containers[*].ports",
    "annotate -f D/float.json --local -o go-template={{.spec.big}}~{{.spec.x}} a=b",
    "delete cm nosuch --dry-run=client -o name",
    "delete cm a --cascade=true --dry-run=server -o name",
    "delete cm a --cascade=0 --dry-run=server -o name",
    "delete cm",
    "delete nosuch a",
    "delete cm a --cascade=sometimes",
    "delete cm nosuch",
    "delete cm nosuch --ignore-not-found",
    "delete -f D/a.yaml -o name",
    "delete deploy --all --dry-run=client -o name",
];

/// Intended differences of the output.
const DIFFERENT: &[&str] = &[
    // kubectl prints the live object, ours the resulting one.
    "apply -f D/a.yaml --dry-run=client -o yaml",
];

/// The output and exit code of a command line in a namespace, without what differs by intention.
pub async fn run(fleet: &Fleet, mut command: Command, namespace: &str, line: &str, directory: &Path) -> String {
    let here = directory.to_string_lossy().into_owned();
    let words = line.split(' ').map(|word| word.replace("D/", &format!("{here}/")).replace('~', " "));
    if !line.starts_with("api-versions") {
        command.args(["-n", namespace]);
    }
    command.args(words);
    let ran: Ran = fleet.run(command).await;
    let text = format!("{}{}rc={}\n", ran.out, ran.err, ran.code.unwrap_or(-1));
    // Their names differ, and so do the hints about usage.
    let text = text.replace(namespace, "NS").replace("karmadactl", "kubectl");
    text.lines().filter(|line| !line.starts_with("See 'kubectl")).flat_map(|line| [line, "\n"]).collect()
}

#[tokio::test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
async fn karmadactl_and_kubectl_print_the_same() {
    let fleet = Fleet::start(&[]).await;
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("many")).expect("created");
    for (name, text) in [
        ("a.yaml", CONFIG_MAP.to_owned()),
        ("web1.yaml", DEPLOYMENT.to_owned()),
        (
            "web2.yaml",
            DEPLOYMENT.replace("{name: A, value: '1'}, ", "").replace("      - {name: side, image: busybox}\n", ""),
        ),
        ("strict.yaml", CONFIG_MAP.replace("\ndata:", "\ndat:")),
        ("list.json", r#"{"apiVersion":"v1","kind":"SecretList","items":[{"metadata":{"name":"s1"}}]}"#.to_owned()),
        ("nokind.yaml", "apiVersion: v1\n".to_owned()),
        ("nometa.yaml", "apiVersion: v1\nkind: ConfigMap\n".to_owned()),
        ("unreadable.json", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":5}}"#.to_owned()),
        ("broken.yaml", format!("{}---\n[1]\n---\n{}", CONFIG_MAP.replace("name: a", "name: m4"), CONFIG_MAP)),
        ("float.json", r#"{"apiVersion":"e.com/v1","kind":"Foo","metadata":{"name":"f"},"spec":{"x":100.0,"l":[1,2.0],"big":1234567}}"#.to_owned()),
        ("many/a.yaml", CONFIG_MAP.replace("name: a", "name: m1")),
        ("many/b.yaml", "apiVersion: v1\n".to_owned()),
        ("many/c.yaml", format!("apiVersion: nosuch/v1\nkind: Foo\nmetadata: {{name: x}}\n---\n{}", CONFIG_MAP.replace("name: a", "name: m2"))),
        ("many/d.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, labels: [1]}\n".to_owned()),
        ("many/z.yaml", CONFIG_MAP.replace("name: a", "name: m3")),
        ("unknown.yaml", "apiVersion: nosuch/v1\nkind: Foo\nmetadata: {name: x}\n".to_owned()),
    ] {
        std::fs::write(directory.path().join(name), text).expect("written");
    }
    for namespace in ["aaa-ours", "aaa-real"] {
        fleet.karmadactl(&["create", "namespace", namespace]).await.ok();
    }
    let mut differences = String::new();
    for line in LINES {
        let from_karmadactl = run(&fleet, fleet.command(&[]), "aaa-ours", line, directory.path()).await;
        let mut kubectl = Command::new("kubectl");
        kubectl.env("KUBECONFIG", fleet.kubeconfig()).env("HOME", directory.path());
        let from_kubectl = run(&fleet, kubectl, "aaa-real", line, directory.path()).await;
        let get = |text: &str| match line.starts_with("get ") {
            // Upstream names the cluster of an error.
            true => text.replace("cluster(Karmada): ", ""),
            false => text.to_owned(),
        };
        if get(&from_karmadactl) != get(&from_kubectl) && !DIFFERENT.contains(line) {
            differences.push_str(&format!("$ {line}\nours:\n{from_karmadactl}kubectl:\n{from_kubectl}\n"));
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
