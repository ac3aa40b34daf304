//! Servers that answer nonsense: in one answer of each command, one value is replaced by a value of another type, or is
//! missing. Whatever it is, the command ends, with an error or without, and never with a panic.
//!
//! `NONSENSE=2000` runs every command with that many seeds, and `NONSENSE_SEED=7` with that one alone.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use apimachinery::ApiResource;
use client::Client;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::fleet::Fleet;
use crate::nonsense::{Front, Plan, number};
use crate::plane::{deployments, policies};

/// Every command that reads answers. Deletions have `--dry-run=server`, so that all commands find the same objects.
const COMMANDS: &[&str] = &[
    "get pods",
    "get deployments -A -o wide",
    "get deployments -o yaml",
    "get deployment nginx -o json --show-managed-fields",
    "get deployment nginx -o jsonpath={.spec.replicas}",
    "get deployment nginx -o custom-columns=N:.metadata.name,R:.spec.replicas",
    "get deployments -A --sort-by=.metadata.name --show-labels",
    "get deployments --operation-scope=all",
    "get deployments -o json --operation-scope=members -C m1",
    "get all --chunk-size=1",
    "get clusters",
    "get rb,work -A",
    "get events",
    "get deployments --watch-only --request-timeout=1s",
    "get deployments -w -o json --request-timeout=1s",
    "describe deployment nginx",
    "describe cluster m1",
    "describe propagationpolicy nginx",
    "describe deployment nginx --operation-scope=members -C m1",
    "apply -f D/manifests.yaml",
    "apply -f D/manifests.yaml --server-side --force-conflicts",
    "apply -f D/manifests.yaml --dry-run=server --prune -l app=nginx",
    "create -f D/new.yaml --dry-run=server",
    "create configmap c --from-literal=a=b --dry-run=server",
    "delete deployment nginx --dry-run=server",
    "delete -f D/manifests.yaml --dry-run=server",
    "delete deployments -l app=nginx --dry-run=server",
    "label deployment nginx x=y --overwrite",
    "annotate deployment --all x=y --overwrite",
    "patch deployment nginx -p {\"spec\":{\"paused\":false}}",
    "edit deployment nginx",
    "cordon m1 --dry-run",
    "taint clusters m1 k=v:NoSchedule --overwrite --dry-run",
    "explain deployments --recursive",
    "explain propagationpolicies.spec --output=plaintext-openapiv2",
    "api-resources -o wide",
    "api-versions",
    "version",
    "top pod -A",
    "top node --no-headers",
    "rollout status deployment/nginx --timeout=1s",
    "rollout history deployment/nginx",
    "rollout restart deployment/nginx --dry-run=server",
    "wait deployment/nginx --for=jsonpath={.spec.replicas}=2 --timeout=1s",
    "diff -f D/manifests.yaml",
    "why deployment nginx",
    "why deployment nginx -o json",
    "tree deployment nginx",
    "doctor",
    "explain-placement -f D/manifests.yaml",
    "explain-placement deployment nginx",
    "failover plan m1",
    "failover history m1",
    "failover release m1 --dry-run",
    "interpret -f D/customization.yaml --edit",
    "logs nginx -C m1",
    "promote deployment nginx -C m1 --dry-run",
    "token list",
    "token create --print-register-command",
    "unjoin m1 --dry-run",
    "unregister m1 --cluster-kubeconfig=D/config --karmada-config=D/config --dry-run",
    "join m9 --cluster-kubeconfig=D/config --dry-run",
    "resume m1 --dry-run --diff",
    "schedule --dry-run -f D/manifests.yaml",
    "schedule --dry-run --without-cluster=m1",
];

const CUSTOMIZATION: &str = "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {name: c}\nspec:\n  \
    target: {apiVersion: apps/v1, kind: Deployment}\n  customizations: {}\n";

fn manifests() -> [Value; 2] {
    let labels = json!({"app": "nginx"});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
        "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}});
    let metadata = json!({"name": "nginx", "namespace": "default", "labels": labels});
    let policy = json!({"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}});
    [
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}),
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": metadata, "spec": policy}),
    ]
}

async fn objects(plane: &Client) {
    for (resource, object) in [deployments(), policies()].iter().zip(manifests()) {
        plane.create(resource, &object).await.expect("created");
    }
    let pods = ApiResource::namespaced("", "v1", "Pod", "pods");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "nginx", "namespace": "default"},
        "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}});
    plane.create(&pods, &pod).await.expect("created");
}

/// The command's output, or that it had to be killed.
async fn run(fleet: &Fleet, directory: &Path, line: &str) -> Result<Output, String> {
    let here = format!("{}/", directory.display());
    let words: Vec<String> = line.split(' ').map(|word| word.replace("D/", &here)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = fleet.command(&words);
    command
        .env("KUBECONFIG", directory.join("config"))
        .env("HOME", directory)
        .env("KUBE_EDITOR", "true")
        .env("RUST_BACKTRACE", "0");
    let mut command = tokio::process::Command::from(command);
    command.stdin(std::process::Stdio::null()).kill_on_drop(true);
    let limit = Duration::from_secs(60);
    let output = tokio::time::timeout(limit, command.output()).await.map_err(|_| format!("no end within {limit:?}"))?;
    Ok(output.expect("the binary starts"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_is_an_error_and_never_a_panic() {
    let fleet = Fleet::start(&["m1", "m2"]).await;
    objects(fleet.plane.client()).await;
    let directory = tempfile::tempdir().expect("a directory");
    let front = Front::start(fleet.plane.client().clone()).await;
    let config = json!({"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": front.url}}], "users": [{"name": "u", "user": Map::new()}]});
    for (name, text) in [
        ("config", config.to_string().as_str()),
        ("manifests.yaml", &manifests().map(|it| it.to_string()).join("\n---\n")),
        ("new.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: new}, data: {a: b}}"),
        ("customization.yaml", CUSTOMIZATION),
    ] {
        std::fs::write(directory.path().join(name), text).expect("written");
    }

    let seeds = match number("NONSENSE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("NONSENSE").unwrap_or(3),
    };
    let (mut changed, mut findings) = (0_usize, Vec::new());
    for seed in seeds {
        for (at, line) in COMMANDS.iter().enumerate() {
            let mut random = StdRng::seed_from_u64(seed << 8 | at as u64);
            // A command sends few requests; most of the first ones are discovery.
            let after = random.random_range(0..6);
            front.begin(Plan { after, most: 1, one_in: 1, watches: true, random });
            let outcome = run(&fleet, directory.path(), line).await;
            let done = front.begin(Plan::none()).changes.pop();
            changed += usize::from(done.is_some());
            let about = format!("NONSENSE_SEED={seed}, {line}, {done:?}");
            match outcome {
                Err(why) => findings.push(format!("{about}: {why}")),
                Ok(output) => {
                    let err = String::from_utf8_lossy(&output.stderr);
                    // diff exits with 2 after an error.
                    let is_ended = matches!(output.status.code(), Some(0..=2));
                    if !is_ended || err.contains("panicked") {
                        findings.push(format!("{about}: {:?}\n{err}", output.status));
                    }
                }
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n\n"));
    assert!(changed > COMMANDS.len(), "only {changed} answers were changed");
}

/// A server with ConfigMaps. `answer` gets the path of each request for them and its number, and returns the head of the
/// response after the version, and its body.
async fn serve(answer: fn(&str, usize) -> (&'static str, Value)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let mut number = 0;
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.expect("a head"));
            }
            let head = String::from_utf8(head).expect("text");
            let path = head.split(' ').nth(1).expect("a path");
            let (status, body) = match path {
                "/api" => ("200 OK", json!({"kind": "APIVersions", "versions": ["v1"]})),
                "/apis" => ("200 OK", json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})),
                "/api/v1" => {
                    let resource = json!({"name": "configmaps", "singularName": "configmap", "namespaced": true,
                        "kind": "ConfigMap", "verbs": ["get", "list"]});
                    ("200 OK", json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [resource]}))
                }
                path => {
                    number += 1;
                    answer(path, number)
                }
            };
            let body = body.to_string();
            let response = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(response.as_bytes()).await.expect("written");
        }
    });
    url
}

/// The exit code, the standard output and the standard error of `karmadactl get`.
async fn got(url: &str, words: &str) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let config = json!({"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": url}}], "users": []});
    let file = directory.path().join("config");
    std::fs::write(&file, config.to_string()).expect("written");
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_karmada"));
    command.arg("karmadactl").arg("get").args(words.split(' ')).env("KUBECONFIG", &file);
    let output = command.stdin(std::process::Stdio::null()).kill_on_drop(true).output();
    let output =
        tokio::time::timeout(Duration::from_secs(60), output).await.expect("an end").expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn config_map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"}})
}

fn failure(message: &str, code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})
}

#[tokio::test]
async fn a_list_ends_whose_continue_token_expires_again() {
    let url = serve(|path, number| match path.contains("continue=") && number < 50 {
        true => ("410 Gone", failure("too old", 410)),
        false => {
            let metadata = json!({"continue": format!("t{number}")});
            (
                "200 OK",
                json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": [config_map("a")]}),
            )
        }
    });
    let (code, output, error) = got(&url.await, "configmaps -o name").await;
    assert_eq!((code, output.as_str()), (Some(1), ""), "{error}");
    assert!(error.contains("too old"), "{error}");
}

#[tokio::test]
async fn successes_that_are_none_are_reported() {
    for (answer, expected) in [
        ((|_, _| ("200 OK", failure("boom", 500))) as fn(&str, usize) -> (&'static str, Value), "boom"),
        (|_, _| ("200 OK", json!({})), "Object 'Kind' is missing"),
    ] {
        let (code, output, error) = got(&serve(answer).await, "configmaps a").await;
        assert_eq!((code, output.as_str()), (Some(1), ""), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn busy_servers_are_waited_for_and_warnings_printed_once() {
    let url = serve(|_, number| match number {
        1 => ("429 Too Many Requests\r\nretry-after: 0", failure("busy", 429)),
        _ => ("200 OK\r\nwarning: 299 - \"be careful\"", config_map("a")),
    });
    let (code, output, error) = got(&url.await, "configmaps a b -o name").await;
    assert_eq!((code, output.as_str()), (Some(0), "configmap/a\nconfigmap/a\n"), "{error}");
    assert_eq!(error, "Warning: be careful\n");
}
