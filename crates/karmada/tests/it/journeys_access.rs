//! Journeys ACC and PRX: a user reaches members through the control plane, with kubectl and a longer server URL.

use serde_json::json;

use crate::fleet::Ran;
use crate::journeys::{Fleet, NAMES};
use crate::process::{Karmada, eventually};

/// kubectl with a copy of the control plane's kubeconfig, its server's URL followed by `path`, and more arguments.
struct Through<'a> {
    fleet: &'a Fleet,
    config: String,
    more: Vec<String>,
}

impl<'a> Through<'a> {
    fn new(fleet: &'a Fleet, path: &str) -> Self {
        let config = fleet.plane.ok(&["config", "view", "--raw", "-o", "json"]);
        let mut config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
        let server = &mut config["clusters"][0]["cluster"]["server"];
        *server = json!(format!("{}{path}", server.as_str().expect("a URL")));
        let file = fleet.path(&format!("{}.config", path.replace('/', "-")));
        std::fs::write(&file, config.to_string()).expect("a temporary directory is writable");
        Self { fleet, config: file.to_string_lossy().into_owned(), more: Vec::new() }
    }

    /// The same as another user, by a token.
    fn with_token(mut self, token: &str) -> Self {
        let mut config: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&self.config).expect("written")).expect("JSON");
        config["users"][0]["user"] = json!({"token": token});
        self.config = format!("{}.tom", self.config);
        std::fs::write(&self.config, config.to_string()).expect("a temporary directory is writable");
        self
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = std::process::Command::new("kubectl");
        command.args(args).args(&self.more).env("KUBECONFIG", &self.config).env("HOME", self.fleet.path(""));
        Ran::from(command.output().expect("kubectl starts"))
    }

    fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {}{}", ran.out, ran.err);
        ran.out
    }

    fn refused(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {}{}", ran.out, ran.err);
        ran.err
    }
}

const TOM: &str = "system:serviceaccount:default:tom";

fn grant(fleet: &Fleet, server: &Karmada, name: &str, rules: serde_json::Value, groups: &[&str]) {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": rules});
    let mut subjects = vec![json!({"kind": "ServiceAccount", "name": "tom", "namespace": "default"})];
    let group = |name: &&str| json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name});
    subjects.extend(groups.iter().map(group));
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name}, "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}});
    let file = fleet.path("grant.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]});
    std::fs::write(&file, list.to_string()).expect("a temporary directory is writable");
    server.ok(&["apply", "-f", &file.to_string_lossy()]);
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_user_reaches_the_members_that_both_sides_allow() {
    let fleet = Fleet::start();
    let (plane, member) = (&fleet.plane, &fleet.members[0]);
    let proxy = |name: &str| format!("/apis/cluster.karmada.io/v1alpha1/clusters/{name}/proxy");

    // The administrator, by the path and by an appended server path.
    let nodes = plane.ok(&["get", "--raw", &format!("{}/api/v1/nodes", proxy(NAMES[0]))]);
    assert!(nodes.contains("\"kind\":\"NodeList\""), "{nodes}");
    let admin = Through::new(&fleet, &proxy(NAMES[0]));
    assert_eq!(admin.ok(&["get", "nodes", "-o", "name"]), member.ok(&["get", "nodes", "-o", "name"]));
    assert!(admin.ok(&["get", "nodes"]).contains("VERSION"), "a table of the member");

    member.ok(&["create", "serviceaccount", "tom"]);
    plane.ok(&["create", "serviceaccount", "tom"]);
    let rules = json!([{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["*"],
        "resourceNames": [NAMES[0]]}]);
    grant(&fleet, plane, "cluster-proxy", rules, &["system:serviceaccounts", "system:serviceaccounts:default"]);
    let token = plane.ok(&["create", "token", "tom"]);
    let token = token.trim();
    let tom = Through::new(&fleet, "").with_token(token);
    eventually("tom gets through", || {
        let ran = tom.run(&["get", "--raw", &format!("{}/api", proxy(NAMES[0]))]);
        if ran.code == Some(0) { Ok(()) } else { Err(ran.err) }
    });
    let path = format!("{}/api/v1/nodes", proxy(NAMES[0]));
    let refused = tom.refused(&["get", "--raw", &path]);
    let expected = format!(
        "nodes is forbidden: User \"{TOM}\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
    );
    assert!(refused.contains("(Forbidden)") && refused.contains(&expected), "{refused}");
    grant(&fleet, member, "nodes", json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]), &[]);
    eventually("the member lets tom read nodes", || {
        let ran = tom.run(&["get", "--raw", &path]);
        if ran.code == Some(0) { Ok(()) } else { Err(ran.err) }
    });
    let elsewhere = tom.refused(&["get", "--raw", &format!("{}/api", proxy(NAMES[1]))]);
    let expected = format!("clusters.cluster.karmada.io \"{}\" is forbidden: User \"{TOM}\" cannot get", NAMES[1]);
    assert!(elsewhere.contains(&expected), "{elsewhere}");

    let appended = Through::new(&fleet, &proxy(NAMES[0])).with_token(token);
    assert_eq!(appended.ok(&["get", "nodes", "-o", "name"]), member.ok(&["get", "nodes", "-o", "name"]));
    let whoami =
        appended.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}"]);
    assert!(whoami.starts_with(&format!("{TOM} ")) && whoami.contains("system:serviceaccounts:default"), "{whoami}");

    // A cluster that joins after the RBAC objects were created admits the user too.
    let config = format!("--cluster-kubeconfig={}", fleet.members[1].kubeconfig());
    plane.karmadactl_ok(&["unjoin", NAMES[1]]);
    plane.karmadactl_ok(&["join", "late", &config]);
    let rules = json!([{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["*"],
        "resourceNames": [NAMES[0], "late"]}]);
    grant(&fleet, plane, "cluster-proxy", rules, &["system:serviceaccounts", "system:serviceaccounts:default"]);
    eventually("tom gets through to the late cluster", || {
        let ran = tom.run(&["get", "--raw", &format!("{}/api", proxy("late"))]);
        if ran.code == Some(0) { Ok(()) } else { Err(ran.err) }
    });
    let refused = tom.refused(&["get", "--raw", &format!("{}/api/v1/nodes", proxy("late"))]);
    assert!(refused.contains("nodes is forbidden"), "{refused}");
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn one_path_reaches_registered_kinds_of_all_members() {
    let fleet = Fleet::start();
    let plane = &fleet.plane;
    for (member, name) in fleet.members.iter().zip(["one", "two"]) {
        member.ok(&["create", "deployment", name, "--image=nginx"]);
        member.ok(&["create", "deployment", "shared", "--image=nginx"]);
        member.ok(&["rollout", "status", "deployment", name, "--timeout=60s"]);
        member.ok(&["rollout", "status", "deployment", "shared", "--timeout=60s"]);
    }
    let through = Through::new(&fleet, "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy");
    assert_eq!(through.run(&["get", "pods"]).err, "No resources found in default namespace.\n");
    fleet.apply(&json!({"apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry",
        "metadata": {"name": "proxied"}, "spec": {"targetCluster": {"clusterNames": NAMES},
            "resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "v1", "kind": "Node"},
                {"apiVersion": "apps/v1", "kind": "Deployment"}]}}));
    let header = eventually("four pods are listed", || {
        let table = through.ok(&["get", "pods"]);
        if table.lines().count() == 5 { Ok(table.lines().next().unwrap_or_default().to_owned()) } else { Err(table) }
    });
    assert_eq!(header.split_whitespace().collect::<Vec<_>>(), ["NAME", "CREATED", "AT"]);
    let of_members = |args: &[&str]| {
        let mut lines: Vec<String> = fleet
            .members
            .iter()
            .flat_map(|member| member.ok(args).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        lines.sort();
        lines
    };
    let here = |args: &[&str]| {
        let mut lines: Vec<String> = through.ok(args).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for kind in ["pods", "nodes", "deployments"] {
        let args = ["get", kind, "-o", "name"];
        assert_eq!(here(&args), of_members(&args), "{kind}");
    }

    // Writes reach the member that has the object.
    let pod = fleet.members[1].ok(&["get", "pods", "-l", "app=two", "-o", "jsonpath={.items[0].metadata.name}"]);
    assert_eq!(through.ok(&["label", "pod", &pod, "seen=yes"]), format!("pod/{pod} labeled\n"));
    let shown = fleet.members[1].ok(&["get", "pod", &pod, "-o", "json"]);
    assert!(shown.contains("\"seen\": \"yes\"") && !shown.contains("cached-from-cluster"), "{shown}");
    eventually("the label is listed", || {
        let found = through.ok(&["get", "pods", "-l", "seen=yes", "-o", "name"]);
        if found == format!("pod/{pod}\n") { Ok(()) } else { Err(found) }
    });
    // Simulated pods have no kubelet; the member's own response is returned.
    let [through_proxy, own] = [through.run(&["logs", &pod]), Ran::from(fleet.members[1].kubectl(&["logs", &pod]))];
    assert_eq!((through_proxy.code, through_proxy.out, through_proxy.err), (own.code, own.out, own.err));
    assert_eq!(through.ok(&["delete", "pod", &pod]), format!("pod \"{pod}\" deleted\n"));
    assert!(fleet.members[1].refused(&["get", "pod", &pod]).contains("NotFound"));

    let refused = through.refused(&["create", "deployment", "x", "--image=nginx"]);
    assert!(refused.contains("create is not supported on resources of kind \"deployments.apps\""), "{refused}");
    let ambiguous = format!(
        "Operation cannot be fulfilled on deployments.apps \"shared\": ambiguous objects in clusters [{}, {}]",
        NAMES[0], NAMES[1]
    );
    for args in [&["get", "deployment", "shared"][..], &["label", "deployment", "shared", "a=b"]] {
        let refused = through.refused(args);
        assert!(refused.contains(&ambiguous), "{refused}");
    }
    assert!(through.refused(&["get", "deployment", "nowhere"]).contains("\"nowhere\" not found"));

    // Kinds that are not registered are served by the control plane.
    through.ok(&["create", "configmap", "here"]);
    assert!(plane.ok(&["get", "configmaps", "-o", "name"]).contains("configmap/here\n"));
    plane.ok(&["delete", "resourceregistry", "proxied"]);
    eventually("the members' pods are no longer listed", || {
        let found = through.ok(&["get", "pods", "-o", "name"]);
        if found.is_empty() { Ok(()) } else { Err(found) }
    });
}
