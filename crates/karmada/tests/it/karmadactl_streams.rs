//! `karmadactl logs`, `exec`, `attach` and `top` through the cluster proxy, with a member that responds as a kubelet
//! and a metrics server do.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;

use expect_test::expect;
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role};

use crate::fleet::{Fleet, Ran};

/// A member whose pod `web` has two containers.
pub async fn member() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    address
}

async fn answer(mut stream: TcpStream) {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => read.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(read).expect("text");
    let target = head.split(' ').nth(1).expect("a target").to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    if path.ends_with("/exec") || path.ends_with("/attach") {
        return session(stream, &head, query).await;
    }
    // Clients that first try WebSocket take SPDY, as with members before Kubernetes 1.31.
    if path.ends_with("/portforward") && !head.to_ascii_lowercase().contains("sec-websocket-key") {
        let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                       X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n";
        stream.write_all(switch).await.expect("written");
        // Until the client ends it.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        return;
    }
    let (code, body) = match path {
        "/api/v1/namespaces/default/pods/web/log" => (200, format!("log of {query}\nsecond\n")),
        path => match document(path) {
            Some(document) => (200, document.to_string()),
            None => {
                let name = path.rsplit('/').next().unwrap_or_default();
                let details = if path.contains("/pods/") { json!({"name": name, "kind": "pods"}) } else { Value::Null };
                let message = format!("pods {name:?} not found");
                (404, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                    "message": message, "details": details}).to_string())
            }
        },
    };
    let head = format!(
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // A client that has disconnected needs no response.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

fn document(path: &str) -> Option<Value> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": "nginx"}, {"name": "side", "tty": true}]}, "status": {"phase": "Running"}});
    let usage = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
    match path.strip_prefix("/base").unwrap_or(path) {
        "/api" => Some(json!({"kind": "APIVersions", "versions": ["v1"]})),
        "/apis" => {
            let version = json!({"groupVersion": "metrics.k8s.io/v1beta1", "version": "v1beta1"});
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {"name": "metrics.k8s.io", "versions": [version], "preferredVersion": version}]}))
        }
        "/apis/metrics.k8s.io/v1beta1" => {
            Some(json!({"kind": "APIResourceList", "groupVersion": "metrics.k8s.io/v1beta1", "resources": []}))
        }
        "/api/v1" => Some(json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
            {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["get", "list"]}]})),
        "/api/v1/namespaces/default/pods/web" => Some(pod),
        "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods" => Some(json!({"kind": "PodMetricsList", "items": [
            {"metadata": {"name": "web", "namespace": "default"}, "containers": [
                {"name": "nginx", "usage": usage("40m", "20Mi")}, {"name": "side", "usage": usage("1", "1Gi")}]}]})),
        "/apis/metrics.k8s.io/v1beta1/nodes" => Some(
            json!({"kind": "NodeMetricsList", "items": [{"metadata": {"name": "n1"}, "usage": usage("1500m", "2Gi")}]}),
        ),
        "/api/v1/nodes" => Some(json!({"kind": "NodeList", "items": [
            {"metadata": {"name": "n1"}, "status": {"allocatable": usage("8", "16Gi"), "capacity": usage("16", "32Gi")}},
            {"metadata": {"name": "n2"}, "status": {"allocatable": usage("8", "16Gi")}}]})),
        _ => None,
    }
}

/// Sends a greeting, echoes the standard input to its end, and exits as the command requests.
async fn session(mut stream: TcpStream, head: &str, query: &str) {
    let header = |name: &str| {
        head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let accept = derive_accept_key(header("sec-websocket-key").expect("a key").as_bytes());
    let protocol = header("sec-websocket-protocol").expect("a protocol");
    let switch = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\
         Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
    );
    stream.write_all(switch.as_bytes()).await.expect("written");
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    let send = |channel: u8, text: &str| Message::binary([&[channel], text.as_bytes()].concat());
    socket.send(send(1, &format!("{query}\n"))).await.expect("sent");
    socket.send(send(2, "to stderr\n")).await.expect("sent");
    // The process with a terminal ends without input.
    if query.contains("stdin=true") && !(head.contains("/attach?") && query.contains("tty=true")) {
        while let Some(Ok(message)) = socket.next().await {
            let bytes = message.into_data();
            match bytes.split_first() {
                Some((0, rest)) => socket.send(Message::binary([&[1], rest].concat())).await.expect("sent"),
                Some((255, _)) => break,
                _ => {}
            }
        }
    }
    let status = match query.contains("command=fail") {
        true => json!({"status": "Failure", "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}),
        false => json!({"status": "Success"}),
    };
    socket.send(send(3, &status.to_string())).await.expect("sent");
    // The other end may have closed already.
    let _ = socket.close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() })).await;
}

async fn fleet() -> Fleet {
    let fleet = Fleet::start_with(&[], |options| options.server.admission.allow_http_endpoints = true).await;
    let address = member().await;
    fleet.add_cluster("m1", &format!("http://{address}")).await;
    fleet
}

#[tokio::test]
async fn logs_are_copied() {
    let fleet = fleet().await;
    fleet
        .check(
            "logs web -C m1",
            expect![[r#"
        O|log of container=nginx
        O|second
        E|Defaulted container "nginx" out of: nginx, side
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "logs web -c side -C m1 --tail=5 --timestamps",
            expect![[r#"
        O|log of timestamps=true&tailLines=5&container=side
        O|second
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "logs web --all-containers --prefix -C m1",
            expect![[r#"
        O|[pod/web/nginx] log of container=nginx
        O|[pod/web/nginx] second
        O|[pod/web/side] log of container=side
        O|[pod/web/side] second
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "logs web -c nope -C m1",
            expect![[r#"
        E|error: container nope is not valid for pod web out of: nginx, side
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "logs nosuchpod -C m1",
            expect![[r#"
        E|error: error from server (NotFound): pods "nosuchpod" not found in namespace "default"
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "logs web",
            expect![[r#"
        E|error: must specify a cluster
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "logs -C m1",
            expect![[r#"
                E|error: expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER] (-C CLUSTER)'.
                E|POD or TYPE/NAME is a required argument for the logs command
                E|See 'karmadactl logs -h' for help and examples
                rc=1
            "#]],
        )
        .await;
    fleet
        .check(
            "logs web -C nosuch",
            expect![[r#"
        E|Error from server (NotFound): clusters.cluster.karmada.io "nosuch" not found
        rc=1
    "#]],
        )
        .await;
}

#[tokio::test]
async fn commands_run_and_their_exit_code_is_ours() {
    let fleet = fleet().await;
    fleet
        .check(
            "exec web -s members --cluster m1 -- echo a",
            expect![[r#"
        O|command=echo&command=a&container=nginx&stdout=true&stderr=true
        E|Defaulted container "nginx" out of: nginx, side
        E|to stderr
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "exec web -c side -s members --cluster m1 -- fail",
            expect![[r#"
        O|command=fail&container=side&stdout=true&stderr=true
        E|to stderr
        E|command terminated with exit code 3
        rc=3
    "#]],
        )
        .await;
    fleet
        .check(
            "attach web -c nginx -s members --cluster m1",
            expect![[r#"
        O|container=nginx&stdout=true&stderr=true
        E|All commands and output from this session will be recorded in container logs, including credentials and sensitive information passed through the command prompt.
        E|If you don't see a command prompt, try pressing enter.
        E|to stderr
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "attach pod web -c nginx -s members --cluster m1",
            expect![[r#"
        O|container=nginx&stdout=true&stderr=true
        E|All commands and output from this session will be recorded in container logs, including credentials and sensitive information passed through the command prompt.
        E|If you don't see a command prompt, try pressing enter.
        E|to stderr
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "attach a b c -s members --cluster m1",
            expect![[r#"
                E|error: expected POD, TYPE/NAME, or TYPE NAME, (at most 2 arguments) saw 3: [a b c]
                rc=1
            "#]],
        )
        .await;
    fleet
        .check(
            "exec web date -s members --cluster m1",
            expect![[r#"
                E|error: exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead
                E|See 'karmadactl exec -h' for help and examples
                rc=1
            "#]],
        )
        .await;
    fleet
        .check(
            "exec web -s members --cluster m1",
            expect![[r#"
                E|error: you must specify at least one command for the container
                rc=1
            "#]],
        )
        .await;
    fleet
        .check(
            "exec web -s members -- date",
            expect![[r#"
        E|error: must specify a member cluster
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "exec web -s all -- date",
            expect![[r#"
        E|error: not support operation scope: all
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "attach",
            expect![[r#"
                E|error: at least 1 argument is required for attach
                rc=1
            "#]],
        )
        .await;
    let mut command = fleet.command(&["exec", "web", "-q", "-i", "-s", "members", "--cluster", "m1", "--", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("the binary starts");
        child.stdin.take().expect("piped").write_all(b"typed\n").expect("written");
        child.wait_with_output()
    });
    let ran = Ran::from(output.await.expect("no panic").expect("it ends"));
    expect![[r#"
        O|command=cat&container=nginx&stdin=true&stdout=true&stderr=true
        O|typed
        E|to stderr
        rc=0
    "#]]
    .assert_eq(&ran.transcript());
}

/// The process of the container has a terminal or not, whatever the flag says.
#[tokio::test]
async fn attach_uses_the_terminal_that_the_container_has() {
    let fleet = fleet().await;
    fleet
        .check(
            "attach web -c nginx -t -s members --cluster m1",
            expect![[r#"
        O|container=nginx&stdout=true&stderr=true
        E|error: Unable to use a TTY - container nginx did not allocate one
        E|All commands and output from this session will be recorded in container logs, including credentials and sensitive information passed through the command prompt.
        E|If you don't see a command prompt, try pressing enter.
        E|to stderr
        rc=0
    "#]],
        )
        .await;
    let attach = format!("{} karmadactl attach web -s members -C m1", env!("CARGO_BIN_EXE_karmada"));
    let mut shell = std::process::Command::new("script");
    shell.args(["-qec", &format!("{attach} -c side -i"), "/dev/null"]).stdin(Stdio::null());
    shell.env("KUBECONFIG", fleet.kubeconfig()).env_remove("KARMADACTL_OPERATION_SCOPE");
    let output = fleet.run(shell).await.ok();
    assert!(output.contains("container=side&stdin=true&stdout=true&tty=true"), "{output}");
    assert!(
        output
            .contains("Session ended, resume using 'karmadactl attach web -s members -C m1 -c side -n default -i -t'"),
        "{output}"
    );
}

#[tokio::test]
async fn a_cluster_outside_the_scope_is_reported() {
    let fleet = fleet().await;
    for line in ["exec web -C m1 -- date", "attach web -C m1", "describe pod web -C m1"] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = fleet.karmadactl(&words).await;
        let warning = "Warning: --cluster has no effect without --operation-scope=members\n";
        assert!(ran.err.starts_with(warning), "{line}: {}", ran.err);
    }
}

#[tokio::test]
async fn usage_is_read_from_members() {
    let fleet = fleet().await;
    fleet
        .check(
            "top pod",
            expect![[r#"
        O|NAME   CLUSTER   CPU(cores)   MEMORY(bytes)   
        O|web    m1        1040m        1044Mi          
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "top pods --containers --no-headers",
            expect![[r#"
        O|web   nginx   m1   40m     20Mi     
        O|web   side    m1   1000m   1024Mi   
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "top pod nosuch",
            expect![[r#"
        E|error: cluster(m1): pods "nosuch" not found
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "top node",
            expect![[r#"
        O|NAME   CLUSTER   CPU(cores)   CPU%        MEMORY(bytes)   MEMORY%     
        O|n1     m1        1500m        18%         2048Mi          12%         
        O|n2     m1        <unknown>    <unknown>   <unknown>       <unknown>   
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "top node --show-capacity --sort-by=cpu",
            expect![[r#"
        O|NAME   CLUSTER   CPU(cores)   CPU%        MEMORY(bytes)   MEMORY%     
        O|n1     m1        1500m        9%          2048Mi          6%          
        O|n2     m1        <unknown>    <unknown>   <unknown>       <unknown>   
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "top pod --sort-by=disk",
            expect![[r#"
        E|error: --sort-by accepts only cpu or memory
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "top pod web -l a=b",
            expect![[r#"
        E|error: only one of NAME or selector can be provided
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "top pod -C nosuch",
            expect![[r#"
        E|error: clusters don't exist: nosuch
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "top bogus",
            expect![[r#"
        E|error: unknown command "bogus" for "karmadactl top"
        rc=1
    "#]],
        )
        .await;
}
