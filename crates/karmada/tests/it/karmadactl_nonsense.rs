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
