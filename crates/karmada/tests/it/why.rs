//! `karmadactl why`, `diff` and `tree` as commands.

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, DeleteOptions};
use http::Method;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use serde_json::{Value, json};

use crate::fleet::{Fleet, Ran, proxied, until};

const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/default";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"k": "1"}})
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "nginx:1", "resources": {"requests": {"cpu": "100m"}}}],
                "volumes": [{"name": "v", "configMap": {"name": "settings"}}]}}}})
}

fn policy() -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"propagateDeps": true, "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}}})
}

fn registry(path: &str) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": {"name": "o", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "overrideRules": [{"targetCluster": {"clusterNames": ["m2"]},
                "overriders": {"plaintext": [{"path": path, "operator": "replace", "value": "reg.io/nginx:1"}]}}]}})
}

async fn post(client: &Client, path: &str, object: &Value) {
    client.request(Method::POST, path, Some(object.clone())).await.expect("created");
}

async fn put(client: &Client, path: &str, object: Value) {
    let patch = client::Patch::Merge(object);
    let resource = karmada_api::scope::Override::api_resource(karmada_api::Scope::Namespaced);
    let key = ObjectKey::namespaced("default", path);
    client.patch(&resource, &key, &patch, &client::PatchOptions::default()).await.expect("patched");
}

async fn reporting(fleet: &Fleet) {
    until("the members report what they serve", async || {
        let list =
            fleet.plane.client().list(&Cluster::api_resource(), None, &client::ListOptions::default()).await.ok()?;
        let ready = |object: &std::sync::Arc<apimachinery::Object>| {
            let cluster: Cluster = object.decode().expect("a cluster");
            cluster.status.resource_summary.is_some() && !cluster.status.api_enablements.is_empty()
        };
        list.items.iter().all(ready).then_some(())
    })
    .await;
    for member in ["m1", "m2"] {
        fleet.reachable(member).await;
    }
}

fn first_lines(page: &str) -> Vec<&str> {
    page.lines().take(3).collect()
}

/// One workload from its creation to its end.
#[tokio::test]
async fn why_explains_each_state_of_a_workload() {
    let fleet = Fleet::start(&["m1", "m2"]).await;
    let control = fleet.plane.client();
    reporting(&fleet).await;
    post(control, "/api/v1/namespaces/default/configmaps", &map("settings")).await;
    post(control, "/apis/apps/v1/namespaces/default/deployments", &deployment()).await;
    let why = async |args: &[&str]| fleet.karmadactl(&[&["why"], args].concat()).await.ok();

    let page = why(&["deployment/web"]).await;
    assert_eq!(
        first_lines(&page)[..2],
        [
            "Deployment default/web: no policy selects it, so it stays in the control plane",
            "Waiting:     a policy that selects it",
        ]
    );

    post(control, &format!("{POLICIES}/overridepolicies"), &registry("/spec/nosuch/0")).await;
    let mut mistyped = registry("/spec/replicas");
    mistyped["metadata"]["name"] = json!("p");
    mistyped["spec"]["resourceSelectors"][0]["kind"] = json!("deployments");
    post(control, &format!("{POLICIES}/overridepolicies"), &mistyped).await;
    assert_eq!(
        first_lines(&why(&["overridepolicy/o"]).await)[..2],
        [
            "OverridePolicy default/o: objects of this kind are never propagated",
            "Next:        nothing to do: objects of kind OverridePolicy stay in the control plane",
        ]
    );
    post(control, &format!("{POLICIES}/propagationpolicies"), &policy()).await;
    let page = until("m1 has it and m2 has not", async || {
        let page = why(&["deploy", "web"]).await;
        let is_there = page.starts_with("Deployment default/web, 2 replicas: as wanted in 1 of 2 clusters, not in m2");
        (is_there && page.contains("Waiting:     m2: not applied: Apply override policy(default/o)")).then_some(page)
    })
    .await;
    for words in [
        "\nNext:        correct the cause named for m2",
        "\nUnused:      OverridePolicy default/p does not select it: it selects kind deployments, the workload has Deployment",
        "PropagationPolicy default/p   applies   0          kind",
        "m2        1       OverridePolicy default/o   name         cannot be applied: ",
        "Takes along: ConfigMap default/settings",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }

    put(control, "o", json!({"spec": registry("/spec/template/spec/containers/0/image")["spec"]})).await;
    let page = until("both have it", async || {
        let page = why(&["deploy", "web"]).await;
        page.starts_with(
            "Deployment default/web, 2 replicas: applied and healthy in 2 of 2 clusters\nNext:        nothing to do",
        )
        .then_some(page)
    })
    .await;
    assert!(page.contains("spec.template.spec.containers[0].image: nginx:1 -> reg.io/nginx:1"), "{page}");

    // The same page by every name, and as data.
    let data: Value = serde_json::from_str(&why(&["deploy/web", "-o", "json"]).await).expect("JSON");
    assert_eq!(data["answer"], "applied and healthy in 2 of 2 clusters");
    assert_eq!(data["policies"][0]["outcome"], "applies");
    let work = data["works"][0]["name"].as_str().expect("a Work").split_once('/').expect("a namespace");
    let of_binding = why(&["rb/web-deployment"]).await;
    assert!(of_binding.starts_with("Deployment default/web, 2 replicas: applied and healthy"), "{of_binding}");
    let of_work = why(&["work", work.1, "-n", work.0]).await;
    assert!(of_work.starts_with("Deployment default/web, 2 replicas, in cluster m"), "{of_work}");
    let dependency = why(&["cm/settings"]).await;
    assert!(
        dependency.contains(": applied") && dependency.contains("where the workloads are that require it"),
        "{dependency}"
    );
    assert!(dependency.contains("Needed by:   binding default/web-deployment, which is in m1:2, m2:2"), "{dependency}");
    let cluster = why(&["cluster/m1"]).await;
    assert!(cluster.starts_with("Cluster m1: ready, and takes workloads"), "{cluster}");
    assert!(why(&["ns/default"]).await.starts_with("Namespace default: it is not propagated"));

    tree(&fleet).await;
    absent(&fleet).await;
}

async fn tree(fleet: &Fleet) {
    let text = until("the tree is whole", async || {
        let text = fleet.karmadactl(&["tree", "deployment/web"]).await.ok();
        (text.matches("2/2 ready").count() >= 2).then_some(text)
    })
    .await;
    let names: Vec<&str> = text.lines().map(|line| line.split("   ").next().unwrap_or_default()).collect();
    assert_eq!(names[0], "OBJECT");
    assert_eq!(names[1], "Deployment default/web");
    for words in [
        "├─ ResourceBinding default/web-deployment",
        "│  ├─ Work karmada-es-m1/web-",
        "└─ ConfigMap default/settings",
        "   └─ ResourceBinding default/settings-configmap",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let data: Value =
        serde_json::from_str(&fleet.karmadactl(&["tree", "deploy", "web", "-o", "json"]).await.ok()).expect("JSON");
    let member = &data["children"][0]["children"][0]["children"][0];
    assert_eq!(
        (&member["kind"], &member["cluster"], &member["state"]),
        (&json!("Deployment"), &json!("m1"), &json!("Healthy"))
    );
}

/// Objects that the control plane does not have.
async fn absent(fleet: &Fleet) {
    let admin = fleet.admin().await;
    let there = proxied("m1", "/api/v1/namespaces/default/configmaps");
    post(&admin, &there, &map("alone")).await;
    let page = fleet.karmadactl(&["why", "cm/alone"]).await.ok();
    assert_eq!(
        first_lines(&page)[..2],
        [
            "ConfigMap default/alone: it is not in the control plane; m1 has one that Karmada does not manage",
            "Next:        let Karmada manage it: karmadactl promote configmap alone -n default -C m1",
        ]
    );
    for (args, expected) in [
        (
            &["why", "deployment/we"][..],
            "Error from server (NotFound): deployments.apps \"we\" not found\nNames like it in namespace default: web\n",
        ),
        (
            &["why", "deployment/web", "-n", "nowhere"],
            "Error from server (NotFound): deployments.apps \"web\" not found\nThere is no namespace nowhere in the control plane\n",
        ),
        (&["why"], "error: an object is required, as in: why deployment/web -n shop\n"),
        (&["tree", "deployment/nosuch"], "Error from server (NotFound): deployments.apps \"nosuch\" not found\n"),
        (&["why", "cluster/m9"], "Error from server (NotFound): clusters.cluster.karmada.io \"m9\" not found\n"),
    ] {
        let ran = fleet.karmadactl(args).await;
        assert!(ran.code == Some(1) && ran.err.starts_with(expected), "{args:?}: {ran:?}");
    }
}

/// Members' objects compared with stored ones, and with a file.
#[tokio::test]
async fn diff_shows_differences_and_previews() {
    let fleet = Fleet::start(&["m1", "m2"]).await;
    let control = fleet.plane.client();
    reporting(&fleet).await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, object: &Value| {
        let path = directory.path().join(name);
        std::fs::write(&path, apimachinery::yaml::to_string(object)).expect("a file");
        path.to_str().expect("text").to_owned()
    };
    let diff = async |args: &[&str]| fleet.karmadactl(&[&["diff"], args].concat()).await;

    // Both objects are absent: the preview creates them, with the override in one.
    post(control, &format!("{POLICIES}/overridepolicies"), &registry("/spec/template/spec/containers/0/image")).await;
    post(control, &format!("{POLICIES}/propagationpolicies"), &policy()).await;
    let manifest = file("web.yaml", &deployment());
    let before = diff(&["-f", &manifest]).await;
    assert_eq!(before.code, Some(1), "{before:?}");
    assert!(
        before.out.starts_with(
            "diff -u -N LIVE/m1/apps.v1.Deployment.default.web MERGED/m1/apps.v1.Deployment.default.web\n"
        ),
        "{}",
        before.out
    );
    assert_eq!(before.out.matches("@@ -0,0 +1,").count(), 2, "{}", before.out);
    assert_eq!(before.out.matches("image: reg.io/nginx:1").count(), 1, "{}", before.out);
    let gone = fleet.karmadactl(&["get", "deployment/web"]).await;
    assert_eq!(gone.code, Some(1), "nothing was written");

    fleet.karmadactl(&["apply", "-f", &manifest]).await.ok();
    until("the members have it", async || {
        let ran = diff(&["deployment/web"]).await;
        (ran == Ran { code: Some(0), out: String::new(), err: String::new() }).then_some(())
    })
    .await;

    // A changed template, in the named clusters.
    let mut changed = deployment();
    changed["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("200m");
    let changed = file("changed.yaml", &changed);
    let preview = diff(&["-f", &changed, "-C", "m1"]).await;
    assert_eq!(preview.code, Some(1), "{preview:?}");
    assert!(preview.out.contains("-            cpu: 100m\n+            cpu: 200m\n"), "{}", preview.out);
    assert_eq!(preview.out.matches("diff -u -N").count(), 1, "{}", preview.out);
    assert!(!preview.out.contains("  uid: "), "{}", preview.out);

    // An override alone changes the objects it selects.
    let mut other = registry("/spec/template/spec/containers/0/image");
    other["spec"]["overrideRules"][0]["overriders"]["plaintext"][0]["value"] = json!("other.io/nginx:1");
    let other = file("override.yaml", &other);
    let preview = diff(&["-f", &other]).await;
    assert_eq!(preview.code, Some(1), "{preview:?}");
    let images: Vec<String> =
        preview.out.lines().filter(|line| line.contains("image: ")).map(|line| line.replace(' ', "")).collect();
    assert_eq!(images, ["--image:reg.io/nginx:1", "+-image:other.io/nginx:1"], "{}", preview.out);

    // An external diff program.
    let mut command = fleet.command(&["diff", "-f", &other]);
    command.env("KUBECTL_EXTERNAL_DIFF", "ls");
    let ran = fleet.run(command).await;
    assert!(ran.code == Some(0) && ran.out.contains("m2.apps.v1.Deployment.default.web"), "{ran:?}");
    let mut command = fleet.command(&["diff", "-f", &other]);
    command.env("KARMADA_EXTERNAL_DIFF", "nosuch-program");
    assert_eq!(fleet.run(command).await.code, Some(2));

    for (args, expected) in [
        (&["deployment/nosuch"][..], "Error from server (NotFound): deployments.apps \"nosuch\" not found\n"),
        (&["-f", &manifest, "-C", "m9"], "error: clusters don't exist: m9\n"),
        (&[], "error: an object or -f is required"),
    ] {
        let ran = diff(args).await;
        assert!(ran.code == Some(2) && ran.err.starts_with(expected), "{args:?}: {ran:?}");
    }
}

/// A user who may read only some lists sees unknown states, and no guesses.
#[tokio::test]
async fn unreadable_lists_are_unknown() {
    let tokens = tempfile::tempdir().expect("a directory");
    let file = tokens.path().join("tokens.csv");
    std::fs::write(&file, "secret,viewer,1\n").expect("a file");
    let fleet = Fleet::start_with(&["m1", "m2"], |options| options.server.token_auth_file = Some(file)).await;
    let control = fleet.plane.client();
    reporting(&fleet).await;
    let rule = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["get", "list"]});
    let rules = [
        rule("apps", &["deployments"]),
        rule("work.karmada.io", &["resourcebindings"]),
        rule("", &["namespaces", "events"]),
    ];
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "viewer"}, "rules": rules});
    let bound = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewer"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "viewer"}]});
    post(control, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await;
    post(control, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &bound).await;
    post(control, "/apis/apps/v1/namespaces/default/deployments", &deployment()).await;

    let text = std::fs::read(fleet.kubeconfig()).expect("a kubeconfig");
    let mut config = apimachinery::yaml::to_json_value(&text).expect("YAML");
    config["users"][0]["user"] = json!({"token": "secret"});
    let kubeconfig = tokens.path().join("viewer.config");
    std::fs::write(&kubeconfig, config.to_string()).expect("a file");
    let why = async || {
        let mut command = fleet.command(&["why", "deployment/web"]);
        command.env("KUBECONFIG", &kubeconfig);
        fleet.run(command).await.ok()
    };
    let page = why().await;
    assert!(
        page.starts_with("Deployment default/web: it has no binding, and which policies select it is unknown\n"),
        "{page}"
    );
    assert!(page.contains("Unknown:     propagation policies: ") && page.contains("forbidden"), "{page}");
    post(control, &format!("{POLICIES}/propagationpolicies"), &policy()).await;
    let page = until("it is applied", async || {
        let page = why().await;
        page.contains("applied and healthy in 2 of 2 clusters").then_some(page)
    })
    .await;
    for words in ["propagation policies: ", "clusters: ", "Works: ", "override policies: "] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains("there is no such cluster"), "{page}");
}

/// A failing script or webhook leaves the status as it was: the copies alone look fine.
#[tokio::test]
async fn a_status_that_cannot_be_reflected_is_named() {
    let fleet = Fleet::start(&["m1", "m2"]).await;
    let control = fleet.plane.client();
    reporting(&fleet).await;
    post(control, "/apis/apps/v1/namespaces/default/deployments", &deployment()).await;
    post(control, &format!("{POLICIES}/propagationpolicies"), &policy()).await;
    let why = async |words: &str| {
        until(words, async || {
            let page = fleet.karmadactl(&["why", "deployment/web"]).await.ok();
            page.contains(words).then_some(page)
        })
        .await
    };
    why("nothing to do, it is where it is to be").await;
    let customizations = "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations";
    let script = "function ReflectStatus(object) return object.none.replicas end";
    let customization = json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "a"}, "spec": {"target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {"statusReflection": {"luaScript": script}}}});
    post(control, customizations, &customization).await;
    let page =
        why("correct the cause named by the event ReflectStatusFailed: until then its status is that of before").await;
    assert!(page.contains("Waiting:     ReflectStatusFailed: m"), "{page}");
    assert!(page.contains(": Reflect status for object(Deployment/default/web) failed, err: "), "{page}");
    let resource = ApiResource::cluster(
        "config.karmada.io",
        "v1alpha1",
        "ResourceInterpreterCustomization",
        "resourceinterpretercustomizations",
    );
    control.delete(&resource, &ObjectKey::cluster("a"), &DeleteOptions::default()).await.expect("deleted");
    why("nothing to do, it is where it is to be").await;
}
