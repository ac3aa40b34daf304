//! An agent as a separate process: its cluster in pull mode, from registration to the status of its Works.

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, DeleteOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

use crate::components::{Component, args, page};
use crate::fleet::{Fleet, until};

async fn tree(client: &Client, resource: &ApiResource, key: &ObjectKey) -> Option<Value> {
    client.get(resource, key).await.ok()?.to_value().ok()
}

/// Starts an agent; reading its output blocks a thread.
async fn start(list: Vec<String>, lines: usize) -> Component {
    tokio::task::spawn_blocking(move || Component::start(&list, lines)).await.expect("no panic")
}

fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

async fn propagate(control: &Client) {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    control.create(&deployments(), &deployment).await.expect("a deployment");
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}});
    let policies = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies");
    control.create(&policies, &policy).await.expect("a policy");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_serves_its_cluster_in_pull_mode() {
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("m1").await;
    let control = fleet.admin().await;
    let plane = fleet.kubeconfig();
    let (plane, own) = (plane.to_str().expect("text"), member.kubeconfig().to_str().expect("text"));
    let with = |name: &str, more: &[&str]| {
        let mut list = args(&["agent", "--karmada-kubeconfig", plane, "--kubeconfig", own, "--cluster-name", name]);
        list.extend(args(&["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"]));
        list.extend(args(more));
        list
    };
    let more =
        ["--cluster-provider=p", "--cluster-region=r", "--cluster-zones=z1,z2", "--cluster-status-update-frequency=1s"];
    let agent = start(with("m1", &[&more[..], &["--cluster-api-endpoint", member.url()]].concat()), 3).await;
    assert_eq!(
        agent.lines()[0],
        "The agent of cluster m1 is ready (5 of execution, workStatus, clusterStatus, serviceExport, endpointsliceCollect, certRotation)"
    );

    let (clusters, key) = (Cluster::api_resource(), ObjectKey::cluster("m1"));
    let cluster = until("the cluster is ready", async || {
        let cluster = tree(&control, &clusters, &key).await?;
        let conditions = cluster["status"]["conditions"].as_array()?;
        let ready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
        (ready && cluster["spec"].get("taints").is_none()).then_some(cluster)
    })
    .await;
    let spec = &cluster["spec"];
    assert_eq!((&spec["syncMode"], &spec["provider"], &spec["region"]), (&json!("Pull"), &json!("p"), &json!("r")));
    assert_eq!((&spec["zones"], &spec["apiEndpoint"]), (&json!(["z1", "z2"]), &json!(member.url())));
    assert_eq!(spec["impersonatorSecretRef"], json!({"namespace": "karmada-cluster", "name": "m1-impersonator"}));
    assert_eq!(cluster["status"]["nodeSummary"], json!({"totalNum": 2, "readyNum": 2}));

    propagate(&control).await;
    let web = ObjectKey::namespaced("default", "web");
    until("the member's status is in the template", async || {
        let live = tree(&control, &deployments(), &web).await?;
        (live["status"]["readyReplicas"] == 2).then_some(())
    })
    .await;
    let copy = tree(member.client(), &deployments(), &web).await.expect("a copy in the member");
    assert_eq!(copy["metadata"]["labels"]["karmada.io/managed"], "true");

    let leases = ApiResource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
    let lease = until("the lease is there", async || {
        tree(&control, &leases, &ObjectKey::namespaced("karmada-cluster", "m1")).await
    })
    .await;
    assert_eq!((&lease["spec"]["holderIdentity"], &lease["spec"]["leaseDurationSeconds"]), (&json!("m1"), &json!(40)));
    assert_eq!(lease["metadata"]["ownerReferences"][0]["kind"], "Cluster");
    let leader = ObjectKey::namespaced("karmada-system", "karmada-agent-m1");
    assert!(tree(&control, &leases, &leader).await.is_some(), "one agent at a time");
    let metrics = page(agent.text_after("metrics on "), "/metrics").await;
    assert!(metrics.contains("\ncluster_ready_state{member_cluster=\"m1\"} 1\n"), "{metrics}");

    // The same cluster under another name, and another cluster under this name, are rejected.
    let refused = std::process::Command::new(env!("CARGO_BIN_EXE_karmada")).args(with("m2", &[])).output();
    let printed = String::from_utf8_lossy(&refused.expect("the binary starts").stderr).into_owned();
    assert!(printed.contains("the same cluster has been registered with name m1"), "{printed}");
    let other = fleet.member("other").await;
    let mut list = with("m1", &[]);
    list[4] = other.kubeconfig().to_str().expect("text").to_owned();
    let refused = std::process::Command::new(env!("CARGO_BIN_EXE_karmada")).args(list).output();
    let printed = String::from_utf8_lossy(&refused.expect("the binary starts").stderr).into_owned();
    assert!(printed.contains("the cluster name m1 has been registered by the cluster with ID "), "{printed}");

    // A restarted agent registers again, and continues.
    assert!(agent.terminate());
    let agent = start(with("m1", &["--report-secrets=None"]), 3).await;
    control.delete(&deployments(), &web, &DeleteOptions::default()).await.expect("a deletion");
    until("the copy is gone", async || {
        let copy = member.client().get_opt(&deployments(), &web).await.ok()?;
        copy.is_none().then_some(())
    })
    .await;

    control.delete(&clusters, &key, &DeleteOptions::default()).await.expect("a deletion");
    until("the cluster is gone", async || control.get_opt(&clusters, &key).await.ok()?.is_none().then_some(())).await;
    let works = control.list(&Work::api_resource(), Some("karmada-es-m1"), &Default::default()).await.expect("a list");
    assert!(works.items.is_empty());
    assert!(agent.terminate());
}

/// A kubeconfig of a user of the control plane with all rights.
async fn of_user(fleet: &Fleet, control: &Client, user: &str) -> String {
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
    control.create(&role_bindings(), &binding).await.expect("a binding");
    issued(fleet, user, &fleet.world)
}

/// A kubeconfig with a certificate that is valid for an hour.
fn issued(fleet: &Fleet, user: &str, world: &world::World) -> String {
    let plane = std::fs::read(fleet.kubeconfig()).expect("a kubeconfig");
    let plane = apimachinery::yaml::to_json_value(&plane).expect("YAML");
    let data = fleet.kubeconfig();
    let file = |name: &str| {
        let path = data.parent().expect("the data directory").join("pki").join(name);
        std::fs::read_to_string(path).expect("a key")
    };
    let ca = pki::KeyPairPem { certificate: file("ca.crt"), key: file("ca.key") };
    let authority = pki::Authority::from_pem(&ca).expect("an authority");
    let hour = std::time::Duration::from_secs(3600);
    let pair = authority.issue_client_for(user, &[], hour, world).expect("a certificate");
    let server = plane["clusters"][0]["cluster"]["server"].as_str().expect("a URL");
    let credentials = pki::kubeconfig::User::with_certificate(&pair);
    pki::Kubeconfig::new("karmada-apiserver", server, &ca.certificate, "m1", credentials).to_yaml().expect("YAML")
}

/// The kubeconfig as `cluster-info` publishes it once the authority has a successor.
fn with_successor(kubeconfig: &str) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let mut config = apimachinery::yaml::to_json_value(kubeconfig.as_bytes()).expect("YAML");
    let bundle = &mut config["clusters"][0]["cluster"]["certificate-authority-data"];
    let first = String::from_utf8(STANDARD.decode(bundle.as_str().expect("a bundle")).expect("base64")).expect("PEM");
    let (successor, _) = pki::Authority::generate("karmada-ca-2", &world::World::system()).expect("an authority");
    *bundle = STANDARD.encode(format!("{first}{}", successor.certificate())).into();
    config["users"] = json!([]);
    config.to_string()
}

fn role_bindings() -> ApiResource {
    ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings")
}

/// The kubeconfig in the Secret belongs to another user than the one that started the agent: after the rotation, when
/// the first user has no rights any more, the agent uses the new certificate.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_renews_its_certificate_and_uses_it() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("m1").await;
    let control = fleet.admin().await;
    let (first, second) = (of_user(&fleet, &control, "first").await, of_user(&fleet, &control, "second").await);
    let directory = tempfile::tempdir().expect("a directory");
    let plane = directory.path().join("karmada-kubeconfig");
    std::fs::write(&plane, first).expect("a file");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}});
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    member.client().create(&namespaces, &namespace).await.expect("a namespace");
    let secrets = ApiResource::namespaced("", "v1", "Secret", "secrets");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "karmada-kubeconfig", "namespace": "agents"},
        "data": {"karmada-kubeconfig": STANDARD.encode(&second)}});
    member.client().create(&secrets, &secret).await.expect("a secret");

    let (plane, own) = (plane.to_str().expect("text"), member.kubeconfig().to_str().expect("text"));
    let mut list = args(&["agent", "--karmada-kubeconfig", plane, "--kubeconfig", own, "--cluster-name=m1"]);
    list.extend(args(&["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"]));
    list.extend(args(&["--leader-elect=false", "--cluster-status-update-frequency=1s"]));
    list.extend(args(&["--controllers=*,certRotation", "--karmada-kubeconfig-namespace=agents"]));
    // Due immediately, because certificates are backdated by five minutes; not due again within the test.
    list.extend(args(&["--cert-rotation-remaining-time-threshold=0.99", "--cert-rotation-checking-interval=1h"]));
    let info = client::Patch::Merge(json!({"data": {"kubeconfig": with_successor(&second)}}));
    let config_maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let at = ObjectKey::namespaced("kube-public", "cluster-info");
    control.patch(&config_maps, &at, &info, &Default::default()).await.expect("a ConfigMap");
    let agent = start(list, 3).await;
    assert_eq!(
        agent.lines()[0],
        "The agent of cluster m1 is ready (6 of execution, workStatus, clusterStatus, serviceExport, endpointsliceCollect, certRotation)"
    );

    let requests =
        ApiResource::cluster("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests");
    let mut request = until("the agent requests a certificate", async || {
        let requests = control.list(&requests, None, &Default::default()).await.ok()?;
        requests.items.first()?.to_value().ok()
    })
    .await;
    let name = request["metadata"]["name"].as_str().expect("a name").to_owned();
    assert!(name.starts_with("m1-") && name.len() == 8, "{name}");
    assert_eq!(request["spec"]["usages"], json!(["digital signature", "key encipherment", "client auth"]));
    assert_eq!(request["spec"]["signerName"], "kubernetes.io/kube-apiserver-client");
    assert_eq!(request["spec"]["expirationSeconds"], 3600);
    request["status"]["conditions"] =
        json!([{"type": "Approved", "status": "True", "reason": "ByHand", "message": ""}]);
    let path = format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}/approval");
    control.request(http::Method::PUT, &path, Some(request)).await.expect("approved");

    let key = ObjectKey::namespaced("agents", "karmada-kubeconfig");
    until("the new certificate is in the Secret", async || {
        let secret = tree(member.client(), &secrets, &key).await?;
        let config = STANDARD.decode(secret["data"]["karmada-kubeconfig"].as_str()?).ok()?;
        let config = apimachinery::yaml::to_json_value(&config).ok()?;
        let certificate = STANDARD.decode(config["users"][0]["user"]["client-certificate-data"].as_str()?).ok()?;
        let holder = pki::Holder::from_pem(&String::from_utf8(certificate).ok()?).ok()?;
        let bundle = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str()?;
        let bundle = String::from_utf8(STANDARD.decode(bundle).ok()?).ok()?;
        (holder.user == "second" && bundle.matches("BEGIN").count() == 2).then_some(())
    })
    .await;
    let first = ObjectKey::cluster("first");
    control.delete(&role_bindings(), &first, &DeleteOptions::default()).await.expect("a deletion");
    propagate(&control).await;
    until("the member's status is in the template", async || {
        let live = tree(&control, &deployments(), &ObjectKey::namespaced("default", "web")).await?;
        (live["status"]["readyReplicas"] == 2).then_some(())
    })
    .await;
    assert!(agent.terminate());
}

/// The file has an expired certificate: the previous process could not replace it, or was not running.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_agent_uses_the_newer_certificate_of_the_secret_and_the_file_takes_it() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("m1").await;
    let control = fleet.admin().await;
    let valid = of_user(&fleet, &control, "agent").await;
    let past = world::World::simulated("2026-01-01T00:00:00Z".parse().expect("a time"), 1);
    let directory = tempfile::tempdir().expect("a directory");
    let plane = directory.path().join("agent.config");
    std::fs::write(&plane, issued(&fleet, "agent", &past)).expect("a file");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}});
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    member.client().create(&namespaces, &namespace).await.expect("a namespace");
    let secrets = ApiResource::namespaced("", "v1", "Secret", "secrets");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "karmada-kubeconfig", "namespace": "agents"},
        "data": {"karmada-kubeconfig": STANDARD.encode(&valid)}});
    member.client().create(&secrets, &secret).await.expect("a secret");
    let (path, own) = (plane.to_str().expect("text"), member.kubeconfig().to_str().expect("text"));
    let mut list = args(&["agent", "--karmada-kubeconfig", path, "--kubeconfig", own, "--cluster-name=m1"]);
    list.extend(args(&["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"]));
    list.extend(args(&["--leader-elect=false", "--karmada-kubeconfig-namespace=agents"]));
    let with_rotation = [list, args(&["--controllers=*,certRotation"])].concat();
    let agent = start(with_rotation, 3).await;
    let users = |text: &str| apimachinery::yaml::to_json_value(text.as_bytes()).expect("YAML")["users"].clone();
    until("the file has the certificate of the Secret", async || {
        let file = std::fs::read_to_string(&plane).ok()?;
        (users(&file) == users(&valid)).then_some(())
    })
    .await;
    assert!(agent.terminate());
}

#[test]
fn missing_flags_are_named() {
    let config = ["agent", "--cluster-name=m1", "--metrics-bind-address=0", "--health-probe-bind-address=0"];
    for (more, expected) in [
        (&[][..], "--karmada-kubeconfig must name the control plane"),
        (&["--cluster-name=A"], "--cluster-name: Invalid value: \"A\": a lowercase RFC 1123 label must consist"),
        (&["--cluster-name="], "--cluster-name: Invalid value: \"\": must be not empty"),
        (&["--report-secrets=All"], "--report-secrets: \"All\" is not KubeCredentials, KubeImpersonator or None"),
        (&["--cluster-lease-renew-interval-fraction=1"], "must be greater than 0 and less than 1"),
        (&["--cluster-status-update-frequency=0s"], "--cluster-status-update-frequency must be greater than 0"),
        (&["--cert-rotation-remaining-time-threshold=2"], "must be greater than 0 and less than 1"),
    ] {
        let list: Vec<&str> = match more.first() {
            Some(name) if name.starts_with("--cluster-name") => [&["agent"][..], more].concat(),
            _ => [&config[..], more].concat(),
        };
        let ran =
            std::process::Command::new(env!("CARGO_BIN_EXE_karmada")).args(&list).env_remove("KUBECONFIG").output();
        let ran = ran.expect("the binary starts");
        let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.code() == Some(1) && printed.contains(expected), "{list:?}: {printed}");
    }
}

/// With the user and the file, because the server names neither.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_authenticated_names_its_credentials() {
    let fleet = Fleet::start(&[]).await;
    let member = fleet.member("m1").await;
    let config = std::fs::read_to_string(fleet.kubeconfig()).expect("a kubeconfig");
    let (rest, _) = config.split_once("users:").expect("users");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("agent.config");
    let user = "users: [{name: karmada-apiserver, user: {token: wrong}}]\n";
    std::fs::write(&file, format!("{rest}{user}")).expect("written");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_karmada"));
    command.args(["agent", "--cluster-name=m1", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    command.arg("--karmada-kubeconfig").arg(&file).arg("--kubeconfig").arg(member.kubeconfig());
    let ran = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    let place = file.display();
    let expected =
        format!("does not accept the credentials of user \"karmada-apiserver\" in kubeconfig {place}; docs/");
    assert!(ran.status.code() == Some(1) && printed.contains(&expected), "{printed}");
}

/// Each level of an error may contain its cause in its own text.
#[tokio::test(flavor = "multi_thread")]
async fn the_cause_of_an_error_is_printed_once() {
    let fleet = Fleet::start(&[]).await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("member.config");
    let config = std::fs::read_to_string(fleet.kubeconfig()).expect("a kubeconfig");
    let server = config.lines().find(|line| line.contains("server:")).expect("a server");
    std::fs::write(&file, config.replace(server, "    server: https://127.0.0.1:1")).expect("written");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_karmada"));
    command.args(["agent", "--cluster-name=m1", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    command.arg("--karmada-kubeconfig").arg(fleet.kubeconfig()).arg("--kubeconfig").arg(&file);
    let ran = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    let error = printed.lines().find(|line| line.starts_with("error: ")).expect("an error");
    assert_eq!(error.matches("Connection refused").count(), 1, "{printed}");
}

/// An agent that cannot start registers nothing.
#[test]
fn a_taken_port_is_found_before_the_control_plane_is_called() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    for flag in ["--metrics-bind-address", "--health-probe-bind-address"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_karmada"));
        command.args(["agent", "--cluster-name=m1", "--karmada-kubeconfig=missing"]);
        for probe in ["--metrics-bind-address", "--health-probe-bind-address"] {
            command.arg(if probe == flag { format!("{probe}={address}") } else { format!("{probe}=127.0.0.1:0") });
        }
        let ran = command.env_remove("KUBECONFIG").output().expect("the binary starts");
        let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
        let expected = format!("{flag}: cannot listen on {address}");
        assert!(ran.status.code() == Some(1) && printed.contains(&expected), "{printed}");
    }
}
