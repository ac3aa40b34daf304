//! A member with a pod, that responds as an API server in front of a kubelet and of a metrics server does.

use std::net::SocketAddr;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role};

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

/// The head of a request; `None` if the client has disconnected.
pub async fn head_of(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(read).expect("text"))
}

async fn answer(mut stream: TcpStream) {
    let Some(head) = head_of(&mut stream).await else { return };
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
    let protocols = header("sec-websocket-protocol").expect("a protocol");
    let is_former = query.contains("command=former");
    let protocol = protocols.split(',').find(|it| it.starts_with("v4") == is_former).expect("a protocol");
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
            // It is not sent the end of the input.
            if is_former {
                break;
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
