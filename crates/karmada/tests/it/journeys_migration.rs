//! Journeys PROM, BATCH and the leaving of REG: workloads of members are adopted and released without a restart.

use serde_json::{Value, json};

use crate::components::{Component, args};
use crate::journeys::{Fleet, NAMES};
use crate::process::{Karmada, eventually};

fn ready(server: &Karmada, name: &str, expected: &str) {
    eventually(&format!("{name} with READY {expected}"), || {
        let row = server.ok(&["get", "deployment", name, "--no-headers"]);
        if row.split_whitespace().nth(1) == Some(expected) { Ok(()) } else { Err(row) }
    });
}

fn uids(member: &Karmada, name: &str) -> String {
    let columns = "jsonpath={range .items[*]}{.metadata.name}={.metadata.uid} {end}";
    let workload = member.ok(&["get", "deployment", name, "-o", "jsonpath={.metadata.uid}"]);
    let pods = member.ok(&["get", "pods", "-l", &format!("app={name}"), "-o", columns]);
    format!("{workload} {pods}")
}

fn deploy(member: &Karmada, name: &str) -> String {
    member.ok(&["create", "deployment", name, "--image=nginx"]);
    ready(member, name, "1/1");
    uids(member, name)
}

fn managed(member: &Karmada, kind: &str, name: &str, expected: &str) {
    eventually(&format!("{kind} {name} with karmada.io/managed {expected:?}"), || {
        let label = member.ok(&["get", kind, name, "-o", r"jsonpath={.metadata.labels.karmada\.io/managed}"]);
        if label == expected { Ok(()) } else { Err(label) }
    });
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn legacy_workloads_are_promoted_without_a_restart() {
    let fleet = Fleet::start();
    let (plane, member) = (&fleet.plane, &fleet.members[0]);
    let before = deploy(member, "legacy");
    let printed = plane.karmadactl_ok(&["promote", "deployment", "legacy", "-n", "default", "-C", NAMES[0]]);
    assert_eq!(
        printed,
        "ResourceTemplate (default/legacy) is created successfully\n\
         PropagationPolicy (default/legacy-6d7f8d5f5b) is created successfully\n\
         Resource \"apps/v1, Resource=deployments\"(default/legacy) is promoted successfully\n"
    );
    ready(plane, "legacy", "1/1");
    managed(member, "deployment", "legacy", "true");
    assert_eq!(uids(member, "legacy"), before);
    eventually("the binding fully applied", || {
        let row = plane.ok(&["get", "rb", "legacy-deployment", "--no-headers"]);
        if row.split_whitespace().nth(2) == Some("True") { Ok(()) } else { Err(row) }
    });

    member.ok(&["create", "clusterrole", "cr-legacy", "--verb=get", "--resource=pods"]);
    let printed = plane.karmadactl_ok(&["promote", "clusterrole", "cr-legacy", "-C", NAMES[0]]);
    assert_eq!(
        printed,
        "ResourceTemplate (default/cr-legacy) is created successfully\n\
         ClusterPropagationPolicy cr-legacy-54499c54c is created successfully\n\
         Resource \"rbac.authorization.k8s.io/v1, Resource=clusterroles\"(cr-legacy) is promoted successfully\n"
    );
    managed(member, "clusterrole", "cr-legacy", "true");

    member.ok(&["create", "configmap", "cmx", "--from-literal=a=b"]);
    deploy(member, "withcm");
    member.ok(&["set", "env", "deployment/withcm", "--from=configmap/cmx"]);
    member.ok(&["rollout", "status", "deployment/withcm", "--timeout=60s"]);
    let before = uids(member, "withcm");
    let printed = plane.karmadactl_ok(&["promote", "deployment", "withcm", "-n", "default", "-C", NAMES[0], "-d"]);
    assert_eq!(
        printed,
        "use default interpreter\n\
         Dependency resource \"/v1, Resource=configmaps\"(default/cmx) is promoted successfully\n\
         ResourceTemplate (default/withcm) is created successfully\n\
         PropagationPolicy (default/withcm-6d7f8d5f5b) is created successfully\n\
         Resource \"apps/v1, Resource=deployments\"(default/withcm) is promoted successfully\n"
    );
    managed(member, "configmap", "cmx", "true");
    ready(plane, "withcm", "1/1");
    assert_eq!(uids(member, "withcm"), before);
}

/// A policy for all Deployments would place the template in another cluster.
#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn no_other_policy_claims_what_is_promoted() {
    let fleet = Fleet::start();
    let (plane, member) = (&fleet.plane, &fleet.members[0]);
    let broad = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "broad", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"clusterAffinity": {"clusterNames": [NAMES[1]]}}}});
    fleet.apply(&broad);
    plane.ok(&["create", "deployment", "other", "--image=nginx"]);
    ready(plane, "other", "1/1");
    let before = deploy(member, "legacy");
    plane.karmadactl_ok(&["promote", "deployment", "legacy", "-n", "default", "-C", NAMES[0]]);
    ready(plane, "legacy", "1/1");
    managed(member, "deployment", "legacy", "true");
    assert_eq!(uids(member, "legacy"), before);
    let clusters = plane.ok(&["get", "rb", "legacy-deployment", "-o", "jsonpath={.spec.clusters[*].name}"]);
    assert_eq!(clusters, NAMES[0]);
}

/// Without the tunnel the control plane does not reach a cluster in pull mode; the command reads it with its own
/// kubeconfig.
#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_workload_of_a_pull_mode_cluster_is_promoted() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (plane, member) =
        (Karmada::up(&directory.path().join("up")), Karmada::member("m3", &directory.path().join("m3")));
    let mut agent = args(&["agent", "--cluster-name=m3", "--cluster-status-update-frequency=1s"]);
    agent.extend(args(&["--karmada-kubeconfig", plane.kubeconfig(), "--kubeconfig", member.kubeconfig()]));
    agent.extend(args(&["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"]));
    let without_tunnel = Component::start(&[&agent[..], &args(&["--enable-tunnel=false"])].concat(), 1);
    plane.ok(&["wait", "--for=condition=Ready", "cluster/m3", "--timeout=60s"]);
    let row = plane.ok(&["get", "clusters", "--no-headers"]);
    assert_eq!(row.split_whitespace().nth(2), Some("Pull"), "{row}");

    let before = deploy(&member, "legacy");
    let refused = plane.karmadactl(&["promote", "deployment", "legacy", "-n", "default", "-C", "m3"]);
    assert!(!refused.status.success(), "the control plane has no way to the member");
    let config = format!("--cluster-kubeconfig={}", member.kubeconfig());
    let promote = ["promote", "deployment", "legacy", "-n", "default", "-C", "m3", &config];
    let current = member.ok(&["config", "current-context"]);
    let context = format!("--cluster-context={}", current.trim());
    let printed = plane.karmadactl_ok(&[&promote[..], &[&context]].concat());
    assert!(printed.ends_with("(default/legacy) is promoted successfully\n"), "{printed}");
    ready(&plane, "legacy", "1/1");
    managed(&member, "deployment", "legacy", "true");
    assert_eq!(uids(&member, "legacy"), before);
    drop(without_tunnel);

    let _agent = Component::start(&agent, 1);
    let before = deploy(&member, "tunneled");
    eventually("promoted through the tunnel", || {
        let output = plane.karmadactl(&["promote", "deployment", "tunneled", "-n", "default", "-C", "m3"]);
        output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
    });
    ready(&plane, "tunneled", "1/1");
    assert_eq!(uids(&member, "tunneled"), before);
}

fn policy(clusters: &[&str], preserve: bool) -> Value {
    let select = |version: &str, kind: &str| {
        let label = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
        json!({"apiVersion": version, "kind": kind, "labelSelector": label})
    };
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy", "metadata": {"name": "all"},
        "spec": {"conflictResolution": "Overwrite", "preserveResourcesOnDeletion": preserve,
            "resourceSelectors": [select("apps/v1", "Deployment"), select("v1", "Service")],
            "placement": {"clusterAffinity": {"clusterNames": clusters}}}})
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn workloads_are_migrated_in_a_batch_and_rolled_back() {
    let fleet = Fleet::start();
    let (plane, member) = (&fleet.plane, &fleet.members[0]);
    let names = ["one", "two", "three"];
    let before = names.map(|name| {
        let uids = deploy(member, name);
        member.ok(&["expose", "deployment", name, "--port=80"]);
        uids
    });
    let address = |name: &str| member.ok(&["get", "service", name, "-o", "jsonpath={.spec.clusterIP}"]);
    let addresses = names.map(address);

    // The policy is first, then the templates, which have the names of the objects in the member.
    plane.ok(&["apply", "-f", &manifest(&fleet, &policy(&[NAMES[0]], false))]);
    for name in names {
        plane.ok(&["create", "deployment", name, "--image=nginx"]);
        plane.ok(&["create", "service", "clusterip", name, "--tcp=80"]);
    }
    for name in names {
        managed(member, "deployment", name, "true");
        managed(member, "service", name, "true");
        ready(plane, name, "1/1");
    }
    assert_eq!(names.map(|name| uids(member, name)), before);
    assert_eq!(names.map(address), addresses);

    // After the rollback, preserved objects stay in the member and are no longer managed.
    plane.ok(&["apply", "-f", &manifest(&fleet, &policy(&[NAMES[0]], true))]);
    eventually("the bindings preserve", || {
        let columns = "jsonpath={range .items[*]}{.spec.preserveResourcesOnDeletion} {end}";
        let found = plane.ok(&["get", "rb", "-o", columns]);
        if found.trim() == ["true"; 6].join(" ") { Ok(()) } else { Err(found) }
    });
    for name in names {
        plane.ok(&["delete", "deployment,service", name]);
    }
    for name in names {
        managed(member, "deployment", name, "");
        managed(member, "service", name, "");
    }
    assert_eq!(names.map(|name| uids(member, name)), before);
    assert_eq!(names.map(address), addresses);
}

fn manifest(fleet: &Fleet, object: &Value) -> String {
    let path = fleet.path("all.json");
    std::fs::write(&path, object.to_string()).expect("a temporary directory is writable");
    path.to_string_lossy().into_owned()
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_leaving_cluster_keeps_preserved_objects_only() {
    let fleet = Fleet::start();
    let (plane, member) = (&fleet.plane, &fleet.members[0]);
    // The same cluster has one name.
    let config = format!("--cluster-kubeconfig={}", member.kubeconfig());
    let refused = plane.karmadactl(&["join", "other", &config]);
    let id = member.ok(&["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"]);
    let expected = format!("error: the cluster ID {id} or the cluster name other has been registered");
    let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && printed.contains(&expected), "{printed}");

    for (name, preserve) in [("goes", false), ("stays", true)] {
        plane.ok(&["create", "configmap", name]);
        fleet.apply(&json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"preserveResourcesOnDeletion": preserve,
                "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": name}],
                "placement": {"clusterAffinity": {"clusterNames": [NAMES[0]]}}}}));
    }
    eventually("both are in the member", || {
        let found = member.ok(&["get", "configmaps", "-o", "name"]);
        if found.contains("goes") && found.contains("stays") { Ok(()) } else { Err(found) }
    });
    plane.karmadactl_ok(&["unjoin", NAMES[0]]);
    let found = member.ok(&["get", "configmaps", "-o", "name"]);
    assert!(!found.contains("goes") && found.contains("stays"), "{found}");
    managed(member, "configmap", "stays", "");
    eventually("no binding has the cluster", || {
        let columns = r#"jsonpath={range .items[*]}{.metadata.name} {.spec.clusters} {.status.conditions[?(@.type=="Scheduled")].status}{"\n"}{end}"#;
        let found = plane.ok(&["get", "rb", "-o", columns]);
        let lines: Vec<&str> = found.lines().map(str::trim).collect();
        if lines == ["goes-configmap  False", "stays-configmap  False"] { Ok(()) } else { Err(found) }
    });
}

/// A Deployment and a policy that propagates it to the first cluster.
fn web() -> [Value; 2] {
    let template = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}});
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"clusterAffinity": {"clusterNames": [NAMES[0]]}}}});
    [template, policy]
}

/// As tools restore that read objects and create them again: bindings and Works before their template, which has
/// another UID then.
#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_binding_that_is_restored_before_its_template_deletes_nothing() {
    let mut fleet = Fleet::start();
    let [template, policy] = web();
    fleet.apply(&template);
    fleet.apply(&policy);
    ready(&fleet.plane, "web", "1/1");
    let before = uids(&fleet.members[0], "web");
    let work = format!("karmada-es-{}", NAMES[0]);
    let saved = [("work", work.as_str()), ("rb", "default")].map(|(kind, namespace)| {
        let list: Value =
            serde_json::from_str(&fleet.plane.ok(&["get", kind, "-n", namespace, "-o", "json"])).expect("JSON");
        let mut items = list["items"].as_array().expect("items").clone();
        items.retain(|item| item["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("web-")));
        for item in &mut items {
            item["metadata"]["uid"] = Value::Null;
            item["metadata"]["resourceVersion"] = Value::Null;
        }
        items
    });
    let [works, bindings] = &saved;
    assert_eq!((works.len(), bindings.len()), (1, 1));

    let second = Karmada::up(&fleet.path("second"));
    std::mem::replace(&mut fleet.plane, second).kill();
    let config = format!("--cluster-kubeconfig={}", fleet.members[0].kubeconfig());
    fleet.plane.karmadactl_ok(&["join", NAMES[0], &config]);
    fleet.plane.ok(&["wait", "--for=condition=Ready", "clusters", "--all", "--timeout=60s"]);
    // The last one is collected after the bindings were checked.
    let owners = bindings[0]["metadata"]["ownerReferences"].clone();
    let orphan = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "orphan", "namespace": "default", "ownerReferences": owners}});
    for object in [&works[0], &bindings[0], &orphan] {
        let file = fleet.path("restored.json");
        std::fs::write(&file, object.to_string()).expect("a file");
        fleet.plane.ok(&["create", "-f", &file.to_string_lossy()]);
    }
    fleet.plane.ok(&["wait", "--for=delete", "configmap/orphan", "--timeout=60s"]);
    let owner =
        || fleet.plane.ok(&["get", "rb", "web-deployment", "-o", "jsonpath={.metadata.ownerReferences[*].uid}"]);
    assert_eq!((owner(), uids(&fleet.members[0], "web")), (String::new(), before.clone()));

    fleet.apply(&template);
    fleet.apply(&policy);
    eventually("the binding has its template again", || {
        let template = fleet.plane.ok(&["get", "deployment", "web", "-o", "jsonpath={.metadata.uid}"]);
        if owner() == template { Ok(()) } else { Err(owner()) }
    });
    ready(&fleet.plane, "web", "1/1");
    assert_eq!(uids(&fleet.members[0], "web"), before);
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_replaced_binding_keeps_its_recreated_template() {
    let fleet = Fleet::start();
    let [template, policy] = web();
    fleet.apply(&template);
    fleet.apply(&policy);
    ready(&fleet.plane, "web", "1/1");
    let before = uids(&fleet.members[0], "web");
    let mut saved: Value =
        serde_json::from_str(&fleet.plane.ok(&["get", "rb", "web-deployment", "-o", "json"])).expect("JSON");
    saved["metadata"]["resourceVersion"] = Value::Null;
    let id = "resourcebinding.karmada.io/permanent-id";
    let kept = saved["metadata"]["labels"].as_object_mut().and_then(|labels| labels.remove(id)).unwrap_or_default();

    fleet.plane.ok(&["delete", "deployment", "web", "--cascade=orphan"]);
    fleet.apply(&template);
    let of_binding =
        |path: &str| fleet.plane.ok(&["get", "rb", "web-deployment", "-o", &format!("jsonpath={{{path}}}")]);
    let is_adopted = || {
        let uid = fleet.plane.ok(&["get", "deployment", "web", "-o", "jsonpath={.metadata.uid}"]);
        let found = (of_binding(".metadata.ownerReferences[*].uid"), of_binding(".spec.resource.uid"));
        if found == (uid.clone(), uid) { Ok(()) } else { Err(format!("{found:?}")) }
    };
    eventually("the binding has the new template", is_adopted);

    // The last one is collected after the binding was checked.
    let orphan = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "orphan", "namespace": "default",
        "ownerReferences": saved["metadata"]["ownerReferences"]}});
    for (verb, object) in [("replace", &saved), ("create", &orphan)] {
        let file = fleet.path("saved.json");
        std::fs::write(&file, object.to_string()).expect("a file");
        fleet.plane.ok(&[verb, "-f", &file.to_string_lossy()]);
    }
    fleet.plane.ok(&["wait", "--for=delete", "configmap/orphan", "--timeout=60s"]);
    eventually("the binding has the new template again", is_adopted);
    assert_eq!(of_binding(".metadata.uid"), saved["metadata"]["uid"].as_str().unwrap_or_default());
    let found = of_binding(&format!(".metadata.labels.{}", id.replace('.', "\\.")));
    assert_eq!(found, kept.as_str().unwrap_or_default());
    assert_eq!(uids(&fleet.members[0], "web"), before);
}
