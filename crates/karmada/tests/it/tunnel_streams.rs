//! `karmadactl` and kubectl with a pod of a member that only its agent reaches: logs, terminals, port-forwards, and an
//! agent that disconnects.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use apimachinery::ApiResource;
use client::{Client, Egress};
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tunnel::decide::Destinations;
use world::World;

use crate::fleet::{Fleet, Ran, proxied, until};
use crate::kubelet;

/// A name that does not resolve.
const ENDPOINT: &str = "http://member.invalid:6443";

/// A control plane with the Cluster `m1` in Pull mode.
async fn fleet() -> Fleet {
    let fleet = Fleet::start_with(&[], |options| options.server.admission.allow_http_endpoints = true).await;
    register(fleet.plane.client()).await;
    fleet
}

/// Creates the Cluster `m1` in Pull mode.
pub async fn register(control: &Client) {
    let secrets = ApiResource::namespaced("", "v1", "Secret", "secrets");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
        "data": {"token": "dG9rZW4="}});
    control.create(&secrets, &secret).await.expect("created");
    let clusters = ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"syncMode": "Pull", "apiEndpoint": ENDPOINT,
                 "impersonatorSecretRef": {"namespace": "default", "name": "s"}}});
    control.create(&clusters, &cluster).await.expect("created");
}

async fn agent(fleet: &Fleet, address: std::net::SocketAddr) -> CancellationToken {
    connected(fleet.admin().await, &fleet.world, address).await
}

/// The agent's end of the tunnel, to a member at `address`; cancelling the token ends it.
pub async fn connected(admin: Client, world: &World, address: std::net::SocketAddr) -> CancellationToken {
    let egress = Egress::to(&format!("http://{address}"), None).expect("an address");
    let destinations = Destinations::new(&egress.authority(), ENDPOINT);
    let member = tunnel::agent::Member { connect: Arc::new(move || egress.connect()), destinations };
    let (control, world) = (admin.clone(), world.clone());
    let stop = CancellationToken::new();
    let agent = tunnel::Agent { cluster: "m1".into(), control, member, world };
    tokio::spawn(agent.run(&metrics::Registry::default(), stop.clone()));
    until("the tunnel is connected", async || {
        let metrics = admin.request(http::Method::GET, "/metrics", None).await.ok()?;
        String::from_utf8_lossy(&metrics).contains("karmada_tunnels{member_cluster=\"m1\"} 1").then_some(())
    })
    .await;
    stop
}

async fn kubectl(fleet: &Fleet, args: &[&str]) -> Ran {
    let server = fleet.plane.socket().expect("a socket").url.clone();
    let mut command = Command::new("kubectl");
    command.arg(format!("--server={server}{}", proxied("m1", ""))).args(args).env("KUBECONFIG", fleet.kubeconfig());
    fleet.run(command).await
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
async fn logs_terminals_and_usage_cross_the_tunnel() {
    let fleet = fleet().await;
    let _agent = agent(&fleet, kubelet::member().await).await;
    for (line, expected) in [
        ("logs web -c nginx -C m1", "log of container=nginx\nsecond\n"),
        ("top node -C m1", "1500m"),
        ("exec web -c nginx -s members --cluster m1 -- date", "command=date&container=nginx"),
    ] {
        let ran = fleet.karmadactl(&line.split(' ').collect::<Vec<_>>()).await;
        assert!(ran.code == Some(0) && ran.out.contains(expected), "{line}: {ran:?}");
    }
    let fails = ["exec", "web", "-c", "nginx", "-s", "members", "--cluster", "m1", "--", "fail"];
    let failed = fleet.karmadactl(&fails).await;
    assert_eq!(failed.code, Some(3), "{failed:?}");
    let logs = kubectl(&fleet, &["logs", "web", "-c", "nginx"]).await;
    assert!(logs.code == Some(0) && logs.out.contains("second\n"), "{logs:?}");
    let exec = kubectl(&fleet, &["exec", "web", "-c", "nginx", "--", "date"]).await.ok();
    assert!(exec.contains("command=date"), "{exec}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_ends_with_its_agent_and_the_next_agent_takes_over() {
    let fleet = fleet().await;
    let member = kubelet::member().await;
    let first = agent(&fleet, member).await;
    let mut command =
        fleet.command(&["exec", "-q", "-i", "web", "-c", "nginx", "-s", "members", "--cluster", "m1", "--", "cat"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut stderr = child.stderr.take().expect("a pipe");
    let (lines, stdin) = tokio::task::spawn_blocking(move || {
        if lines.next().is_none() {
            let mut printed = String::new();
            stderr.read_to_string(&mut printed).expect("text");
            panic!("the command ended: {printed}");
        }
        stdin.write_all(b"typed\n").expect("written");
        assert_eq!(lines.next().expect("a line").expect("text"), "typed");
        (lines, stdin)
    })
    .await
    .expect("no panic");
    first.cancel();
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output().expect("ended")).await.expect("no panic");
    drop((lines, stdin));
    assert_ne!(ended.status.code(), Some(0), "{ended:?}");

    let refused = fleet.karmadactl(&["logs", "web", "-c", "nginx", "-C", "m1"]).await;
    assert!(refused.err.contains("no agent tunnel is connected"), "{refused:?}");
    let _second = agent(&fleet, member).await;
    let logs = fleet.karmadactl(&["logs", "web", "-c", "nginx", "-C", "m1"]).await.ok();
    assert!(logs.contains("second\n"), "{logs}");
}

/// port-forward needs bytes in both directions after an upgrade, and an agent that does not identify the caller.
#[tokio::test]
async fn upgraded_connections_cross_the_tunnel() {
    let fleet = fleet().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    let member = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            read.push(stream.read_u8().await.expect("a head"));
        }
        let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
        stream.write_all(switch).await.expect("written");
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await.expect("echoed");
        String::from_utf8(read).expect("text").to_ascii_lowercase()
    });
    let _agent = agent(&fleet, address).await;
    let path = proxied("m1", "/api/v1/namespaces/default/pods/p/portforward");
    let request = http::Request::post(path).header("connection", "Upgrade").header("upgrade", "SPDY/3.1");
    let mut response =
        fleet.admin().await.send(request.body(transport::empty()).expect("a request")).await.expect("an answer");
    assert_eq!(response.status(), 101);
    let upgraded = hyper::upgrade::on(&mut response).await.expect("upgraded");
    let stream = hyper_util::rt::TokioIo::new(upgraded);
    let (mut read, mut write) = tokio::io::split(stream);
    let sent = vec![5; 4 << 20];
    let writing = async {
        write.write_all(&sent).await.expect("written");
        write.shutdown().await.expect("ended");
    };
    let mut echoed = Vec::new();
    let reading = async { read.read_to_end(&mut echoed).await.expect("read") };
    tokio::join!(writing, reading);
    assert!(echoed == sent);
    let head = member.await.expect("no panic");
    for line in
        ["authorization: bearer token\r\n", "impersonate-user: kubernetes-admin\r\n", "host: member.invalid:6443"]
    {
        assert!(head.contains(line), "{line} in {head}");
    }
}

#[tokio::test]
async fn another_endpoint_than_the_agents_is_refused_with_the_next_step() {
    let fleet = fleet().await;
    let _agent = agent(&fleet, kubelet::member().await).await;
    let clusters = ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
    let elsewhere = client::Patch::Merge(json!({"spec": {"apiEndpoint": "http://10.1.2.3:10250"}}));
    let key = apimachinery::ObjectKey::cluster("m1");
    fleet.plane.client().patch(&clusters, &key, &elsewhere, &Default::default()).await.expect("patched");
    let request = http::Request::get(proxied("m1", "/api")).body(transport::empty()).expect("a request");
    let answer = fleet.admin().await.send(request).await.expect("an answer");
    let code = answer.status();
    let text = answer.into_body().collect().await.expect("a body").to_bytes();
    let text = String::from_utf8_lossy(&text);
    assert!(code == 503 || code == 500, "{code} {text}");
    assert!(text.contains("connections to 10.1.2.3:10250 are refused"), "{text}");
    assert!(text.contains("member.invalid:6443, kubernetes.default.svc:443; next step: "), "{text}");
}
