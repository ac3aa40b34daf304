//! Custom and external metrics in the discovery of `karmada up`: they are listed while a member has any, and clients
//! that select a version by discovery find them.

use kube::discovery::Discovery;
use serde_json::Value;

use crate::journeys::{Fleet, NAMES};
use crate::kube_rs::client;
use crate::process::{Karmada, eventually};

const CUSTOM: &str = "custom.metrics.k8s.io";
const EXTERNAL: &str = "external.metrics.k8s.io";

/// The versions of a group in `kubectl api-versions`, and its APIServices.
fn listed(plane: &Karmada, group: &str) -> [Vec<String>; 2] {
    let versions = plane.ok(&["api-versions"]);
    let in_group = |name: &&str| name.starts_with(&format!("{group}/"));
    let versions = versions.lines().filter(in_group).map(str::to_owned).collect();
    let services = plane.ok(&["get", "apiservices", "-o", "name", "--no-headers"]);
    let of_group = |name: &&str| name.ends_with(&format!(".{group}"));
    let services = services.lines().filter_map(|it| it.split_once('/').map(|(_, name)| name)).filter(of_group);
    [versions, services.map(str::to_owned).collect()]
}

fn until(plane: &Karmada, group: &str, versions: &[&str]) {
    eventually(&format!("{group} in {versions:?}"), || {
        let found = listed(plane, group);
        let expected = [
            versions.iter().map(|it| format!("{group}/{it}")).collect::<Vec<_>>(),
            versions.iter().map(|it| format!("{it}.{group}")).collect(),
        ];
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

fn raw(plane: &Karmada, path: &str) -> Value {
    serde_json::from_str(&plane.ok(&["get", "--raw", path])).expect("JSON")
}

/// A Deployment of one pod in a member, with a metric.
fn deployment(member: &Karmada, metric: &str) {
    member.ok(&["create", "deployment", "web", "--image=nginx"]);
    member.ok(&["annotate", "deployment", "web", &format!("simulator.karmada.io/metrics={metric}")]);
}

/// Sends the requests of kube-controller-manager's HorizontalPodAutoscaler controller: the preferred version of the
/// group, then metrics.
fn as_a_stock_autoscaler(plane: &Karmada) {
    let groups = raw(plane, "/apis");
    let group = groups["groups"].as_array().expect("groups").iter().find(|it| it["name"] == CUSTOM);
    let version = group.expect("the group is listed")["preferredVersion"]["groupVersion"].as_str().expect("text");
    assert_eq!(version, "custom.metrics.k8s.io/v1beta2");
    let custom = format!("/apis/{version}/namespaces/default");
    let pods = raw(plane, &format!("{custom}/pods/*/hits?labelSelector=app%3Dweb"));
    assert_eq!(values(&pods), ["7"]);
    assert_eq!(values(&raw(plane, &format!("{custom}/deployments.apps/web/hits"))), ["7"]);
    let jobs = raw(plane, &format!("/apis/{EXTERNAL}/v1beta1/namespaces/default/jobs?labelSelector=queue%3Dorders"));
    assert_eq!(values(&jobs), ["30"]);
}

fn values(list: &Value) -> Vec<&str> {
    list["items"].as_array().expect("items").iter().filter_map(|it| it["value"].as_str()).collect()
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn metrics_of_members_are_discovered() {
    let fleet = Fleet::start_with(&[
        "--cluster-status-update-frequency=1s",
        "--cluster-failure-threshold=2s",
        "--cluster-success-threshold=1s",
    ]);
    let (plane, [first, second]) = (&fleet.plane, &fleet.members);
    for group in [CUSTOM, EXTERNAL] {
        assert_eq!(listed(plane, group), [Vec::<String>::new(), Vec::new()], "no member has metrics");
    }
    deployment(first, "hits=7");
    second.ok(&["create", "configmap", "queue"]);
    second.ok(&["label", "configmap", "queue", "queue=orders"]);
    second.ok(&["annotate", "configmap", "queue", "simulator.karmada.io/external-metrics=jobs=30"]);
    until(plane, CUSTOM, &["v1beta1", "v1beta2"]);
    until(plane, EXTERNAL, &["v1beta1"]);
    let reported = ["get", "cluster", NAMES[0], "-o", "jsonpath={.status.apiEnablements[*].groupVersion}"];
    assert!(plane.ok(&reported).contains("custom.metrics.k8s.io/v1beta2"));

    // The list of a group version, and both forms of the document over all groups.
    for version in ["v1beta1", "v1beta2"] {
        let list = raw(plane, &format!("/apis/{CUSTOM}/{version}"));
        let names: Vec<&str> =
            list["resources"].as_array().expect("resources").iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(names, ["deployments.apps/hits", "pods/hits"]);
    }
    let kubectl = plane.kubectl(&["get", "pods,deployments"]);
    assert_eq!(String::from_utf8_lossy(&kubectl.stderr), "No resources found in default namespace.\n");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let known = runtime.block_on(async { Discovery::new(client(plane).await).run().await.expect("discovery") });
    let versions: Vec<&str> = known.get(CUSTOM).expect("the group").versions().collect();
    assert_eq!(versions, ["v1beta2", "v1beta1"]);
    let jobs = known.get(EXTERNAL).expect("the group").resources_by_stability();
    assert_eq!(jobs[0].0.plural, "jobs");
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let document = runtime.block_on(async {
        let plane = client::Client::from_kubeconfig(plane.kubeconfig().as_ref(), None).await.expect("a client");
        plane.document("/apis", accept).await.expect("a document")
    });
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    let group = document["items"].as_array().expect("groups").iter().find(|it| it["metadata"]["name"] == CUSTOM);
    let resources = group.expect("the group")["versions"][0]["resources"].as_array().expect("resources");
    let pods = resources.iter().find(|it| it["resource"] == "pods").expect("pods");
    assert_eq!(pods["subresources"][0]["subresource"], "hits");
    as_a_stock_autoscaler(plane);

    // A member that does not respond removes nothing; one that responds without metrics does.
    second.signal("-KILL");
    plane.ok(&["wait", "--for=condition=Ready=false", &format!("cluster/{}", NAMES[1]), "--timeout=60s"]);
    first.ok(&["annotate", "deployment", "web", "simulator.karmada.io/metrics-"]);
    until(plane, CUSTOM, &[]);
    until(plane, EXTERNAL, &["v1beta1"]);
    let second = Karmada::member(NAMES[1], &fleet.path(NAMES[1]));
    plane.ok(&["wait", "--for=condition=Ready", &format!("cluster/{}", NAMES[1]), "--timeout=60s"]);
    until(plane, EXTERNAL, &["v1beta1"]);
    // Metrics of a removed cluster are removed, too.
    let config = format!("--cluster-kubeconfig={}", second.kubeconfig());
    plane.karmadactl_ok(&["unjoin", NAMES[1], &config]);
    until(plane, EXTERNAL, &[]);
}
