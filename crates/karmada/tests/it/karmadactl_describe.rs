//! `karmadactl describe` of built-in kinds compared with the real kubectl: the same pages for the same objects of a
//! member.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;

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

static PORT_NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r" \([a-z0-9-]+\)").expect("a regular expression"));

/// Lines that kubectls before 1.36 do not print.
const SINCE_1_36: [(&str, &str); 4] = [
    ("cronjob/cj", "Time Zone: Europe/Berlin"),
    ("svc/balanced", "AppProtocol: kubernetes.io/h2c"),
    ("deploy/web", "Ports: 8080/TCP (http), 53/UDP"),
    ("deploy/web", "Host Ports: 0/TCP (http), 0/UDP"),
];

/// The lines of a page, as far as kubectls of different versions agree. Before 1.36, application protocols, names of
/// container ports and time zones of CronJobs are not shown; from then on, neither the tokens of ServiceAccounts nor the
/// version of kube-proxy, which ours still has.
fn comparable(minor: u32, object: &str, page: &str) -> Vec<String> {
    let lines = in_order(object, page).into_iter();
    if minor >= 36 {
        let gone = |line: &&str| {
            ["Mountable secrets:", "Tokens:", "  Kube-Proxy Version:"].iter().any(|it| line.starts_with(it))
        };
        let kept = lines.filter(|line| !gone(line));
        return kept.map(|line| line.trim_end_matches(" (not found)").to_owned()).collect();
    }
    let added = |line: &&str| ["Time Zone:", "AppProtocol:"].iter().any(|it| line.starts_with(it));
    let lines = lines.filter(|line| !added(line)).map(|line| match line.trim_start().split_once(':') {
        Some(("Port" | "Ports" | "Host Port" | "Host Ports", _)) => PORT_NAME.replace_all(line, "").into_owned(),
        _ => line.to_owned(),
    });
    if minor >= 33 {
        return lines.collect();
    }
    // Before 1.33, a DaemonSet has no namespace, and the sources of a projected volume have longer labels, which all
    // values of a page are aligned with.
    let lines = lines.filter(|line| !object.starts_with("ds/") || !line.starts_with("Namespace:"));
    lines.map(|line| unaligned(&line).replace("ConfigMapOptional: <nil>", "Optional: false")).collect()
}

fn unaligned(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
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
        for (_, line) in SINCE_1_36.iter().filter(|(of, _)| *of == object) {
            assert!(from_karmadactl.lines().any(|it| unaligned(it) == *line), "{line}:\n{from_karmadactl}");
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
