//! `karmadactl describe` of built-in kinds compared with the real kubectl: the same pages for the same objects of a
//! member.

use std::path::Path;
use std::process::Command;

use crate::fleet::{Fleet, Ran, proxied, until};
use crate::kubectl_matrix;

const OBJECTS: [&str; 55] = [
    "ns/shop",
    "ns/default",
    "cm/c",
    "cm/empty",
    "secret/s",
    "svc/web",
    "svc/ext",
    "pvc/p",
    "deploy/web",
    "sts/db",
    "ds/agent",
    "job/once",
    "pod/db-0",
    "node/member1-node-1",
    "node/member1-node-2",
    "role/r",
    "role/empty",
    "rolebinding/rb",
    "clusterrole/cr",
    "clusterrolebinding/crb",
    "sa/sa",
    "quota/q",
    "quota/scoped",
    "limitrange/l",
    "priorityclass/pc",
    "sc/sc",
    "pdb/pdb",
    "pdb/least",
    "cronjob/cj",
    "hpa/hpa",
    "ing/ing",
    "ing/default",
    "netpol/np",
    "netpol/all",
    "svc/alone",
    "svc/balanced",
    "pv/shared",
    "pv/driver",
    "pv/lun",
    "pod/volumes",
    "pod/placed",
    "pvc/copy",
    "job/indexed",
    "rc/idle",
    "endpoints/manual",
    "endpoints/nobody",
    "endpointslice/manual",
    "endpointslice/nobody",
    "ingressclass/default",
    "ingressclass/plain",
    "ingressclass/own",
    "csinode/drivers",
    "csinode/none",
    "csr/names",
    "csr/long",
];

/// The lines of a page, as far as kubectls of different versions agree: before 1.33, a DaemonSet has no namespace, and
/// the sources of a projected volume have longer labels, which all values of a page are aligned with.
fn comparable(minor: u32, object: &str, page: &str) -> Vec<String> {
    let lines = in_order(object, page).into_iter();
    if minor >= 33 {
        return lines.map(str::to_owned).collect();
    }
    let lines = lines.filter(|line| !object.starts_with("ds/") || !line.starts_with("Namespace:"));
    let unaligned = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    unaligned.map(|line| line.replace("ConfigMapOptional: <nil>", "Optional: false")).collect()
}

/// The real kubectl against the member, through the control plane.
async fn kubectl(fleet: &Fleet, args: &[&str]) -> Ran {
    let config = std::fs::read(fleet.kubeconfig()).expect("a kubeconfig");
    let config = apimachinery::yaml::to_json_value(&config).expect("YAML");
    let server = config["clusters"][0]["cluster"]["server"].as_str().expect("a server");
    let mut command = Command::new("kubectl");
    command.args(args).args(["-n", "shop", "--server", &format!("{server}{}", proxied("member1", ""))]);
    command.env("KUBECONFIG", fleet.kubeconfig()).env("HOME", fleet.kubeconfig().parent().expect("a directory"));
    fleet.run(command).await
}

/// kubectl prints the keys of Secrets and ConfigMaps in the random order of a Go map: these lines are compared as a set.
fn in_order<'p>(object: &str, page: &'p str) -> Vec<&'p str> {
    let mut lines: Vec<&str> = page.lines().collect();
    if ["secret/", "cm/"].iter().any(|type_| object.starts_with(type_))
        && let Some(data) = lines.iter().position(|line| *line == "====")
    {
        lines[data + 1..].sort_unstable();
    }
    lines
}

#[tokio::test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
async fn pages_of_built_in_kinds_are_kubectls() {
    let fleet = Fleet::start(&["member1"]).await;
    fleet.reachable("member1").await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/describe/objects.yaml");
    kubectl(&fleet, &["apply", "-f", file.to_str().expect("a path in UTF-8")]).await.ok();
    let ingress =
        r#"{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.9","ipMode":"VIP"},{"hostname":"lb.example.com"}]}}}"#;
    kubectl(&fleet, &["patch", "svc/balanced", "--subresource=status", "--type=merge", "-p", ingress]).await.ok();
    for (object, condition) in [
        ("deployment/web", "condition=Available"),
        ("job/once", "condition=Complete"),
        ("pod/db-0", "condition=Ready"),
        ("daemonset/agent", "jsonpath={.status.numberAvailable}=2"),
        ("resourcequota/q", "jsonpath={.status.used.pods}"),
    ] {
        kubectl(&fleet, &["wait", "--timeout=60s", &format!("--for={condition}"), object]).await.ok();
    }
    let (mut different, minor) = (Vec::new(), kubectl_matrix::minor_of(Path::new("kubectl")).expect("a version"));
    let web = kubectl(&fleet, &["get", "pods", "-l", "app=web", "-o", "name"]).await.ok();
    let sets = kubectl(&fleet, &["get", "replicasets", "-l", "app=web", "-o", "name"]).await.ok();
    for object in OBJECTS.into_iter().chain(web.lines()).chain(sets.lines()) {
        // Until both have read the same state.
        let pages = until(object, async || {
            let from_kubectl = kubectl(&fleet, &["describe", object]).await.ok();
            let from_karmadactl = ["describe", object, "-n", "shop", "-s", "members", "-C", "member1"];
            let from_karmadactl = fleet.karmadactl(&from_karmadactl).await.ok();
            let again = kubectl(&fleet, &["describe", object]).await.ok();
            (from_kubectl == again).then_some((from_kubectl, from_karmadactl))
        });
        let (from_kubectl, from_karmadactl) = pages.await;
        if comparable(minor, object, &from_kubectl) != comparable(minor, object, &from_karmadactl) {
            different.push(format!("=== {object}\n--- kubectl\n{from_kubectl}\n--- karmadactl\n{from_karmadactl}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
