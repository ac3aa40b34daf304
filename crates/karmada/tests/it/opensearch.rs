//! The OpenSearch backend of ResourceRegistries, with a simulated OpenSearch on a socket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use base64::Engine as _;
use client::{DeleteOptions, ListOptions, Patch, PatchOptions};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::plane::Plane;

/// Documents by id, of clients with the right password.
#[derive(Clone, Default)]
pub struct OpenSearch(Arc<Mutex<BTreeMap<String, Value>>>);

impl OpenSearch {
    /// Returns its address.
    pub async fn serve(&self, password: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let service = self.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                tokio::spawn(service.clone().talk(stream, password));
            }
        });
        address
    }

    async fn talk(self, stream: TcpStream, password: &str) -> Option<()> {
        let authorization = base64::prelude::BASE64_STANDARD.encode(format!("admin:{password}"));
        let mut stream = BufReader::new(stream);
        loop {
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let before = head.len();
                stream.read_line(&mut head).await.ok().filter(|read| *read > 0)?;
                let line = head[before..].trim().to_ascii_lowercase();
                if let Some(text) = line.strip_prefix("content-length:") {
                    length = text.trim().parse().ok()?;
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.ok()?;
            let (code, answer) = match head.contains(&authorization) {
                true => self.respond(&head, &String::from_utf8(body).ok()?),
                false => (401, json!("Unauthorized")),
            };
            let answer = answer.to_string();
            let text = format!("HTTP/1.1 {code} X\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
            stream.write_all(text.as_bytes()).await.ok()?;
        }
    }

    fn respond(&self, head: &str, body: &str) -> (u16, Value) {
        if head.contains("/_search") {
            return (404, json!({"error": {"type": "index_not_found_exception"}}));
        }
        if !head.starts_with("POST /_bulk") {
            return (200, json!({"acknowledged": true}));
        }
        let (mut lines, mut items) = (body.lines(), Vec::new());
        while let Some(line) = lines.next() {
            let action: Value = serde_json::from_str(line).expect("an action");
            if let Some(id) = action["index"]["_id"].as_str() {
                assert_eq!(action["index"]["_index"], "kubernetes-node");
                let document = serde_json::from_str(lines.next().expect("a document")).expect("a document");
                self.0.lock().insert(id.to_owned(), document);
                items.push(json!({"index": {"status": 201}}));
            } else {
                self.0.lock().remove(action["delete"]["_id"].as_str().expect("an id"));
                items.push(json!({"delete": {"status": 200}}));
            }
        }
        (200, json!({"errors": false, "items": items}))
    }

    /// The names of the documents' objects, with their cluster and one label.
    fn names(&self) -> Vec<String> {
        let text = |it: &Value| it.as_str().unwrap_or("-").to_owned();
        let name = |it: &Value| {
            let metadata = &it["metadata"];
            let cluster = text(&metadata["annotations"]["resource.karmada.io/cached-from-cluster"]);
            format!("{cluster}/{} {}", text(&metadata["name"]), text(&metadata["labels"]["seen"]))
        };
        let mut names: Vec<String> = self.0.lock().values().map(name).collect();
        names.sort();
        names
    }

    pub async fn until(&self, expected: &[&str]) {
        let waited = tokio::time::timeout(Duration::from_secs(90), async {
            while self.names() != expected {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        assert!(waited.await.is_ok(), "expected {expected:?}, there are {:?}", self.names());
    }
}

fn secret(password: &str) -> Value {
    let text = |text: &str| base64::prelude::BASE64_STANDARD.encode(text);
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "opensearch", "namespace": "default"},
        "data": {"username": text("admin"), "password": text(password)}})
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_members_are_written_to_opensearch() {
    let plane = Plane::start().await;
    let client = plane.client();
    let (first, second) = (OpenSearch::default(), OpenSearch::default());
    let (first_address, second_address) = (first.serve("old").await, second.serve("new").await);
    let registries = ApiResource::cluster("search.karmada.io", "v1alpha1", "ResourceRegistry", "resourceregistries");
    let (secrets, nodes) =
        (ApiResource::namespaced("", "v1", "Secret", "secrets"), ApiResource::cluster("", "v1", "Node", "nodes"));
    let backend = |address: &str| json!({"openSearch": {"addresses": [address], "secretRef": {"namespace": "default", "name": "opensearch"}}});
    let registry = json!({"apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": {"name": "nodes"},
        "spec": {"targetCluster": {"clusterNames": ["member1"]}, "resourceSelectors": [{"apiVersion": "v1", "kind": "Node"}],
            "backendStore": backend(&first_address)}});
    client.create(&registries, &registry).await.expect("a registry");

    // The missing Secret is reported, and used once it exists.
    let events = ApiResource::namespaced("", "v1", "Event", "events");
    let reported = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let found = client.list(&events, Some("default"), &ListOptions::default()).await.expect("events");
            let text =
                found.items.iter().map(|it| String::from_utf8_lossy(&it.json()).into_owned()).collect::<String>();
            if text.contains("OpenSearchSecret") && text.contains("OpenSearchUnavailable") {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let text = reported.await.expect("events about the registry");
    assert!(text.contains("Secret default/opensearch with the credentials for OpenSearch does not exist"), "{text}");
    client.create(&secrets, &secret("old")).await.expect("a secret");
    first.until(&["member1/member1-node-1 -", "member1/member1-node-2 -"]).await;

    let member = plane.plane.members().iter().find(|member| member.name() == "member1").expect("a member");
    let patch = |patch: Value| Patch::Merge(patch);
    let key = ObjectKey::cluster("member1-node-1");
    let seen = patch(json!({"metadata": {"labels": {"seen": "yes"}}}));
    member.client().patch(&nodes, &key, &seen, &PatchOptions::default()).await.expect("a changed node");
    first.until(&["member1/member1-node-1 yes", "member1/member1-node-2 -"]).await;
    let gone = ObjectKey::cluster("member1-node-2");
    member.client().delete(&nodes, &gone, &DeleteOptions::default()).await.expect("a deleted node");
    first.until(&["member1/member1-node-1 yes"]).await;

    // Another cluster, another service, another password; the first service keeps its documents.
    let key = ObjectKey::cluster("nodes");
    let more = patch(json!({"spec": {"targetCluster": {"clusterNames": ["member1", "member2"]}}}));
    client.patch(&registries, &key, &more, &PatchOptions::default()).await.expect("a changed registry");
    let all = ["member1/member1-node-1 yes", "member2/member2-node-1 -", "member2/member2-node-2 -"];
    first.until(&all).await;
    let other = patch(json!({"spec": {"backendStore": backend(&second_address)}}));
    client.patch(&registries, &key, &other, &PatchOptions::default()).await.expect("a changed registry");
    let password = patch(json!({"data": secret("new")["data"]}));
    let of_secret = ObjectKey::namespaced("default", "opensearch");
    client.patch(&secrets, &of_secret, &password, &PatchOptions::default()).await.expect("a changed secret");
    second.until(&all).await;
    first.until(&all).await;

    // Neither an unjoined cluster nor a deleted registry deletes documents.
    let clusters = ApiResource::cluster("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
    let of_second = ObjectKey::cluster("member2");
    client.delete(&clusters, &of_second, &DeleteOptions::background()).await.expect("an unjoined cluster");
    let unjoined = tokio::time::timeout(Duration::from_secs(60), async {
        while client.get_opt(&clusters, &of_second).await.expect("an answer").is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    unjoined.await.expect("the cluster is unjoined");
    client.delete(&registries, &key, &DeleteOptions::default()).await.expect("no registry");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(second.names(), all);
}
