//! `karmadactl join` and `unjoin` as commands, with a member on its own socket.

use apimachinery::{ApiResource, ObjectKey};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use client::{Client, DeleteOptions, Patch, PatchOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use pki::authority::Authority;
use serde_json::{Value, json};
use world::World;

use crate::fleet::{Fleet, Ran, until};

const NS: &str = "karmada-cluster";

fn secrets() -> ApiResource {
    ApiResource::namespaced("", "v1", "Secret", "secrets")
}

fn namespaces() -> ApiResource {
    ApiResource::cluster("", "v1", "Namespace", "namespaces")
}

pub fn cluster_roles() -> ApiResource {
    ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles")
}

pub fn cluster_role_bindings() -> ApiResource {
    ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings")
}

async fn find(client: &Client, resource: &ApiResource, key: ObjectKey) -> Option<Value> {
    let found = client.get_opt(resource, &key).await.expect("the server answers")?;
    Some(found.to_value().expect("JSON"))
}

async fn there(client: &Client, resource: &ApiResource, key: ObjectKey) -> Value {
    find(client, resource, key.clone()).await.unwrap_or_else(|| panic!("{} {key} is missing", resource.plural))
}

async fn gone(client: &Client, resource: &ApiResource, key: ObjectKey) {
    until(&format!("{} {key} is gone", resource.plural), async || {
        find(client, resource, key.clone()).await.is_none().then_some(())
    })
    .await;
}

fn keys(data: &Value) -> Vec<&str> {
    data.as_object().expect("a map").keys().map(String::as_str).collect()
}

fn refused(ran: &Ran, message: &str) {
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(1), "", &*format!("error: {message}\n")));
}

#[tokio::test]
async fn a_cluster_joins_and_leaves() {
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("member1").await;
    let config = member.kubeconfig().to_str().expect("text").to_owned();
    let control = fleet.plane.client();

    let dry = fleet.karmadactl(&["join", "member1", "--cluster-kubeconfig", &config, "--dry-run"]).await;
    assert_eq!(dry.ok(), "cluster(member1) is joined successfully (dry run)\n");
    assert_eq!(find(member.client(), &namespaces(), ObjectKey::cluster(NS)).await, None);
    assert_eq!(find(control, &namespaces(), ObjectKey::cluster(NS)).await, None);

    let place = ["--cluster-provider", "p", "--cluster-region", "r", "--cluster-zones", "a,b"];
    let join = ["join", "member1", "--cluster-kubeconfig", &config];
    let joined = fleet.karmadactl(&[&join[..], &place].concat()).await;
    assert_eq!(joined.ok(), "cluster(member1) is joined successfully\n");
    in_the_member(member.client()).await;
    in_the_control_plane(control, member.client(), member.url()).await;
    until("member1 is ready", async || {
        let row = fleet.karmadactl(&["get", "clusters", "--no-headers"]).await.ok();
        let row: Vec<&str> = row.split_whitespace().collect();
        (row[..2] == ["member1", "Karmada"] && row[3..5] == ["Push", "True"] && row[6..] == ["-"]).then_some(())
    })
    .await;

    let id = there(member.client(), &namespaces(), ObjectKey::cluster("kube-system")).await["metadata"]["uid"].clone();
    let id = id.as_str().expect("a UID");
    let other = fleet.member("other").await;
    let (url, its_url) = (member.url(), other.url());
    for (name, config, why) in [
        (
            "member1",
            member.kubeconfig(),
            format!("the cluster at {url} is already joined as member1; --renew registers it again"),
        ),
        (
            "other",
            member.kubeconfig(),
            format!(
                "the cluster at {url} is already joined as member1 (at {url}); to give it the name other, first run: \
                 karmadactl unjoin member1"
            ),
        ),
        (
            "member1",
            other.kubeconfig(),
            format!(
                "the name member1 is that of another cluster (ID {id}, at {url}); choose another name, or first run: \
                 karmadactl unjoin member1"
            ),
        ),
    ] {
        let again = fleet.karmadactl(&["join", name, "--cluster-kubeconfig", config.to_str().expect("text")]).await;
        let prefix = "error: the cluster ID ";
        let end = format!(" or the cluster name {name} has been registered: {why}; nothing was changed\n");
        assert!(again.err.starts_with(prefix) && again.err.ends_with(&end), "{}", again.err);
        assert_eq!(again.code, Some(1));
    }
    assert_eq!(find(other.client(), &namespaces(), ObjectKey::cluster(NS)).await, None, "{its_url} is as it was");

    let wrong = other.kubeconfig().to_str().expect("text");
    let wrong = ["unjoin", "member1", "--cluster-kubeconfig", wrong, "--cluster-context", "other"];
    let wrong = fleet.karmadactl(&wrong).await;
    assert!(wrong.err.ends_with(&format!("but cluster member1 has ID {id}; nothing was changed\n")), "{}", wrong.err);
    assert_eq!(wrong.code, Some(1));
    there(control, &Cluster::api_resource(), ObjectKey::cluster("member1")).await;

    let preview = fleet.karmadactl(&["unjoin", "member1", "--dry-run"]).await.ok();
    let expected = "2 objects are deleted in cluster member1:\n  ClusterRole (1): karmada-impersonator\n  \
                    ClusterRoleBinding (1): karmada-impersonator\n";
    assert_eq!(preview, expected);
    there(control, &Cluster::api_resource(), ObjectKey::cluster("member1")).await;
    let left = fleet.karmadactl(&["unjoin", "member1", "--cluster-kubeconfig", &config]).await;
    assert!(left.err.starts_with(expected), "{}", left.err);
    assert_eq!(left.ok(), "");
    let role = ObjectKey::cluster("karmada-controller-manager:karmada-member1");
    for resource in [cluster_roles(), cluster_role_bindings()] {
        assert_eq!(find(member.client(), &resource, role.clone()).await, None);
    }
    gone(member.client(), &namespaces(), ObjectKey::cluster(NS)).await;
    gone(member.client(), &cluster_roles(), ObjectKey::cluster("karmada-impersonator")).await;
    assert_eq!(find(control, &Cluster::api_resource(), ObjectKey::cluster("member1")).await, None);
    for secret in ["member1", "member1-impersonator"] {
        gone(control, &secrets(), ObjectKey::namespaced(NS, secret)).await;
    }
    gone(control, &namespaces(), ObjectKey::cluster("karmada-es-member1")).await;
}

/// As right after `unjoin`, while the member still deletes the content of the namespace.
#[tokio::test]
async fn a_join_waits_for_the_end_of_a_deletion() {
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("member1").await;
    let (of_member, key) = (member.client(), ObjectKey::cluster(NS));
    let former = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}});
    of_member.create(&namespaces(), &former).await.expect("the namespace");
    let held = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "held", "namespace": NS, "finalizers": ["example.com/held"]}});
    of_member.create(&secrets(), &held).await.expect("its content");
    let former = there(of_member, &namespaces(), key.clone()).await["metadata"]["uid"].clone();
    of_member.delete(&namespaces(), &key, &DeleteOptions::background()).await.expect("the deletion");

    let config = member.kubeconfig().to_str().expect("text");
    let join = ["join", "member1", "--cluster-kubeconfig", config];
    let release = async {
        until("the join has found the namespace", async || {
            let metrics = of_member.document("/metrics", "text/plain").await.expect("metrics");
            let metrics = String::from_utf8(metrics.to_vec()).expect("text");
            let creates =
                "apiserver_request_total{verb=\"POST\",dry_run=\"\",group=\"\",version=\"v1\",resource=\"namespaces\"";
            let mut refused = metrics.lines().filter(|line| line.starts_with(creates));
            refused.any(|line| line.contains("code=\"409\"")).then_some(())
        })
        .await;
        let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let held = ObjectKey::namespaced(NS, "held");
        of_member.patch(&secrets(), &held, &released, &PatchOptions::default()).await.expect("the release");
    };
    let (joined, ()) = tokio::join!(fleet.karmadactl(&join), release);
    assert_eq!(joined.ok(), "cluster(member1) is joined successfully\n");
    assert_ne!(there(of_member, &namespaces(), key).await["metadata"]["uid"], former);
    in_the_member(of_member).await;
}

async fn in_the_member(member: &Client) {
    let namespace = there(member, &namespaces(), ObjectKey::cluster(NS)).await;
    assert_eq!(namespace["metadata"]["labels"]["karmada.io/system"], "true");
    for account in ["karmada-impersonator", "karmada-member1"] {
        let key = ObjectKey::namespaced(NS, account);
        there(member, &ApiResource::namespaced("", "v1", "ServiceAccount", "serviceaccounts"), key.clone()).await;
        let secret = there(member, &secrets(), key).await;
        assert_eq!(secret["type"], "kubernetes.io/service-account-token");
        assert_eq!(secret["metadata"]["annotations"]["kubernetes.io/service-account.name"], account);
    }
    let name = "karmada-controller-manager:karmada-member1";
    let role = there(member, &cluster_roles(), ObjectKey::cluster(name)).await;
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                       {"nonResourceURLs": ["*"], "verbs": ["get"]}]);
    assert_eq!(role["rules"], rules);
    let binding = there(member, &cluster_role_bindings(), ObjectKey::cluster(name)).await;
    assert_eq!(binding["subjects"], json!([{"kind": "ServiceAccount", "name": "karmada-member1", "namespace": NS}]));
    assert_eq!((&binding["roleRef"]["kind"], &binding["roleRef"]["name"]), (&json!("ClusterRole"), &json!(name)));
}

async fn in_the_control_plane(control: &Client, member: &Client, url: &str) {
    let cluster = there(control, &Cluster::api_resource(), ObjectKey::cluster("member1")).await;
    let system = there(member, &namespaces(), ObjectKey::cluster("kube-system")).await;
    let mut spec = cluster["spec"].clone();
    assert_eq!(spec["resourceModels"].as_array().map(Vec::len), Some(9), "the default grades");
    for field in ["resourceModels", "taints"] {
        spec.as_object_mut().expect("a map").remove(field);
    }
    let expected = json!({"syncMode": "Push", "apiEndpoint": url, "id": system["metadata"]["uid"],
        "provider": "p", "region": "r", "zones": ["a", "b"],
        "secretRef": {"namespace": NS, "name": "member1"},
        "impersonatorSecretRef": {"namespace": NS, "name": "member1-impersonator"}});
    assert_eq!(spec, expected);
    for (name, source, fields) in [
        ("member1", "karmada-member1", &["caBundle", "token"][..]),
        ("member1-impersonator", "karmada-impersonator", &["token"]),
    ] {
        let secret = there(control, &secrets(), ObjectKey::namespaced(NS, name)).await;
        assert_eq!((&secret["type"], keys(&secret["data"])), (&json!("Opaque"), fields.to_vec()));
        let original = there(member, &secrets(), ObjectKey::namespaced(NS, source)).await;
        assert_eq!(secret["data"]["token"], original["data"]["token"]);
        let owner = json!([{"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "name": "member1",
            "uid": cluster["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}]);
        assert_eq!(secret["metadata"]["ownerReferences"], owner);
    }
}

#[tokio::test]
async fn an_unreachable_cluster_needs_force_and_its_objects_are_listed() {
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("member1").await;
    fleet.join(&member).await;
    fleet.reachable("member1").await;
    member.stop().await.expect("stopped");
    let (control, key) = (fleet.plane.client(), ObjectKey::cluster("member1"));

    let patient = fleet.karmadactl(&["unjoin", "member1", "--wait", "2s"]).await;
    assert_eq!((patient.code, patient.out.as_str()), (Some(1), ""));
    for part in [
        "\nWaiting for the cluster object member1 to be deleted\n",
        "\nFailed to delete cluster object. cluster name: member1, error: context deadline exceeded\n\
         error: context deadline exceeded: cluster member1 did not confirm the deletion of 2 objects. Its removal goes on; \
         wait longer with --wait, or remove it without an answer with --force, which would leave in cluster member1:\n  \
         ClusterRole (1): karmada-impersonator\n  ClusterRoleBinding (1): karmada-impersonator\n  namespace \
         karmada-cluster and the ClusterRole and ClusterRoleBinding karmada-controller-manager:karmada-member1\n",
    ] {
        assert!(patient.err.contains(part), "{part}\nin\n{}", patient.err);
    }
    let cluster = there(control, &Cluster::api_resource(), key.clone()).await;
    assert_eq!(cluster["metadata"]["finalizers"], json!(["karmada.io/cluster-controller"]));

    let forced = fleet.karmadactl(&["unjoin", "member1", "--wait", "1s", "--force"]).await;
    assert_eq!((forced.code, forced.out.as_str()), (Some(0), ""), "{}", forced.err);
    for part in [
        "Deleting the cluster object timed out. cluster name: member1, error: context deadline exceeded\n",
        "Start forced deletion. cluster name: member1\nForced deletion is complete.\n",
        "cluster member1 did not answer, these objects were left in it:\n  ClusterRole (1): karmada-impersonator\n  \
         ClusterRoleBinding (1): karmada-impersonator\n",
        "namespace karmada-cluster and the ClusterRole and ClusterRoleBinding \
         karmada-controller-manager:karmada-member1 were left in cluster member1",
    ] {
        assert!(forced.err.contains(part), "{part}\nin\n{}", forced.err);
    }
    gone(control, &Cluster::api_resource(), key).await;
    gone(control, &namespaces(), ObjectKey::cluster("karmada-es-member1")).await;
}

/// The credentials that an earlier version's join would have created in the control plane, for itself.
async fn credentials_of_itself(control: &Client) {
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "itself"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
        "name": "cluster-admin"}, "subjects": [{"kind": "ServiceAccount", "name": "karmada-itself", "namespace": NS}]});
    let account = |kind: &str| {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "karmada-itself",
        "namespace": NS, "annotations": {"kubernetes.io/service-account.name": "karmada-itself"}}})
    };
    let mut token = account("Secret");
    token["type"] = json!("kubernetes.io/service-account-token");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}});
    let accounts = ApiResource::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
    for (resource, object) in [
        (&namespaces(), namespace),
        (&accounts, account("ServiceAccount")),
        (&cluster_role_bindings(), binding),
        (&secrets(), token),
    ] {
        control.create(resource, &object).await.expect("created");
    }
    let data = until("the token", async || {
        let secret = find(control, &secrets(), ObjectKey::namespaced(NS, "karmada-itself")).await?;
        secret["data"]["token"].is_string().then(|| secret["data"].clone())
    })
    .await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "itself", "namespace": NS},
        "data": {"token": data["token"], "caBundle": data["ca.crt"]}});
    control.create(&secrets(), &secret).await.expect("created");
}

#[tokio::test]
async fn a_control_plane_does_not_join_itself() {
    let fleet = Fleet::start(&[]).await;
    let control = fleet.plane.client();
    let config = fleet.kubeconfig();
    let config = config.to_str().expect("text");
    let url = fleet.plane.socket().expect("a socket").url.clone();
    let own = there(control, &namespaces(), ObjectKey::cluster("kube-system")).await["metadata"]["uid"].clone();
    let own = own.as_str().expect("a UID");

    let ran = fleet.karmadactl(&["join", "itself", "--cluster-kubeconfig", config]).await;
    refused(
        &ran,
        &format!(
            "cluster itself at {url} is the control plane itself: both have the ID {own} (the UID of namespace \
             kube-system); nothing was changed. Give the kubeconfig of another cluster with --cluster-kubeconfig and \
             --cluster-context"
        ),
    );
    assert_eq!(find(control, &namespaces(), ObjectKey::cluster(NS)).await, None);
    let registration =
        karmadactl::agent::Registration { name: "itself".into(), namespace: NS.into(), ..Default::default() };
    let registered =
        karmadactl::agent::register(control, control, &registration).await.map_err(|error| error.to_string());
    assert!(registered.is_err_and(|error| error.starts_with("cluster itself is the control plane itself: ")));

    // Created manually, without an ID.
    credentials_of_itself(control).await;
    let by_hand = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "itself"},
        "spec": {"syncMode": "Push", "apiEndpoint": url, "secretRef": {"namespace": NS, "name": "itself"}}});
    control.create(&Cluster::api_resource(), &by_hand).await.expect("created");
    until("it is known for what it is", async || {
        let cluster = there(control, &Cluster::api_resource(), ObjectKey::cluster("itself")).await;
        let conditions = cluster["status"]["conditions"].as_array()?;
        conditions.iter().any(|it| it["reason"] == "ClusterIsControlPlane" && it["status"] == "False").then_some(())
    })
    .await;
    let context = ["--cluster-context", "karmada-apiserver"];
    let left = fleet.karmadactl(&[&["unjoin", "itself", "--cluster-kubeconfig", config][..], &context].concat()).await;
    let kept = "Cluster itself is not ready (ClusterIsControlPlane): nothing is deleted in it.\n";
    assert!(left.err.starts_with(kept), "{}", left.err);
    assert_eq!(left.ok(), "");
    there(control, &namespaces(), ObjectKey::cluster(NS)).await;
    assert_eq!(find(control, &secrets(), ObjectKey::namespaced(NS, "karmada-itself")).await, None);
}

/// A load balancer before a member has a certificate of another authority than the member's own.
#[tokio::test]
async fn the_authority_of_the_kubeconfig_is_trusted_beside_the_members_own() {
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("member1").await;
    let (balancer, _) = Authority::generate("balancer", &World::system()).expect("an authority");
    let text = std::fs::read_to_string(member.kubeconfig()).expect("a kubeconfig");
    let (before, rest) = text.split_once("certificate-authority-data: ").expect("an authority");
    let (own, after) = rest.split_once('\n').expect("a line");
    let own = BASE64_STANDARD.decode(own.trim_matches('"')).expect("base64");
    let both = [own.as_slice(), balancer.certificate().as_bytes()].concat();
    let config = member.kubeconfig().with_file_name("balanced.config");
    let balanced = format!("{before}certificate-authority-data: {}\n{after}", BASE64_STANDARD.encode(&both));
    std::fs::write(&config, balanced).expect("written");
    let joined = fleet.karmadactl(&["join", "member1", "--cluster-kubeconfig", config.to_str().expect("text")]).await;
    assert_eq!(joined.ok(), "cluster(member1) is joined successfully\n");
    let secret = there(fleet.plane.client(), &secrets(), ObjectKey::namespaced(NS, "member1")).await;
    let stored = BASE64_STANDARD.decode(secret["data"]["caBundle"].as_str().expect("a bundle")).expect("base64");
    let stored = String::from_utf8(stored).expect("PEM");
    assert!(stored.contains(balancer.certificate().trim()), "{stored}");
    assert!(stored.contains(String::from_utf8(own).expect("PEM").trim()), "{stored}");
}

/// Another control plane may have joined the cluster by the same name, so they are named and not deleted.
#[tokio::test]
async fn credentials_of_an_interrupted_unjoin_are_named() {
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("member1").await;
    let config = member.kubeconfig().to_str().expect("text");
    let role = "karmada-controller-manager:karmada-member1";
    let left = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": role}});
    member.client().create(&cluster_roles(), &left).await.expect("created");
    let ran = fleet.karmadactl(&["unjoin", "member1", "--cluster-kubeconfig", config]).await;
    let message = format!(
        "no cluster object member1 found in karmada control Plane\nThe cluster of --cluster-kubeconfig has namespace \
         karmada-cluster and the ClusterRole and ClusterRoleBinding {role}. If no other control plane uses them, delete \
         them there:\n  kubectl delete namespace karmada-cluster\n  kubectl delete \
         clusterrole,clusterrolebinding {role}"
    );
    refused(&ran, &message);
    there(member.client(), &cluster_roles(), ObjectKey::cluster(role)).await;
    let other =
        fleet.karmadactl(&["unjoin", "other", "--cluster-kubeconfig", config, "--cluster-context", "member1"]).await;
    refused(&other, "no cluster object other found in karmada control Plane");
}

#[tokio::test]
async fn invalid_arguments_get_upstreams_messages() {
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("member1").await;
    let config = member.kubeconfig().to_str().expect("text");
    let pull = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "pull"},
        "spec": {"syncMode": "Pull"}});
    fleet.plane.client().create(&Cluster::api_resource(), &pull).await.expect("created");
    let see = |command: &str, usage: &str| {
        format!("\nUsage: karmadactl {command} {usage} [options]\nSee 'karmadactl {command} --help' for usage.")
    };
    let joining = see("join", "CLUSTER_NAME --cluster-kubeconfig=<KUBECONFIG>");
    let leaving = see("unjoin", "CLUSTER_NAME [--cluster-kubeconfig=<KUBECONFIG>]");
    let unknown = format!(
        "failed to get joining cluster config. error: context \"nope\" does not exist in kubeconfig {config}; its \
         contexts: member1"
    );
    let rows: [(&[&str], &str); 9] = [
        (&["join"], &format!("cluster name is required{joining}")),
        (&["join", "a", "b"], &format!("only the cluster name is allowed as an argument{joining}")),
        (
            &["join", "a", "--cluster-kubeconfig", "/nosuch"],
            "failed to get joining cluster config. error: kubeconfig /nosuch of --cluster-kubeconfig does not exist",
        ),
        (&["join", "a", "--cluster-kubeconfig", config, "--cluster-context", "nope"], &unknown),
        (&["unjoin"], &format!("cluster name is required{leaving}")),
        (&["unjoin", "nosuch"], "no cluster object nosuch found in karmada control Plane"),
        (&["unjoin", "a", "--wait", "-90m"], " --wait -1h30m0s  must be a positive duration, e.g. 1m0s "),
        (
            &["unjoin", "pull"],
            "cluster pull is a Pull mode member cluster, please use command `unregister` if you want to continue \
             unregistering the cluster",
        ),
        (
            &["unjoin", "pull", "--wait", "soon"],
            "invalid argument \"soon\" for \"--wait\" flag: time: invalid duration \"soon\"\nSee 'karmadactl unjoin --help' \
             for usage.",
        ),
    ];
    for (args, message) in rows {
        refused(&fleet.karmadactl(args).await, message);
    }
    let acting = ["join", "a", "--cluster-kubeconfig", config, "--karmada-as", "tom", "--karmada-as-group", "dev"];
    let ran = fleet.karmadactl(&acting).await;
    let forbidden = "Error from server (Forbidden): clusters.cluster.karmada.io is forbidden: User \"tom\" cannot list \
                     resource \"clusters\" in API group \"cluster.karmada.io\" at the cluster scope\n";
    assert_eq!(ran.err, forbidden);
}
