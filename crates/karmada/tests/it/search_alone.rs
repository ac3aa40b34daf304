//! `karmada search` as a process behind an API server that forwards requests: it trusts that server's certificate only,
//! stores the registries, and queries the members.

use base64::Engine as _;
use client::Client;
use http::Method;
use pki::{Authority, KeyPairPem};
use serde_json::{Value, json};
use world::World;

use crate::components::{Component, args};
use crate::fleet::{Fleet, until};
use crate::opensearch::OpenSearch;

const GROUP: &str = "/apis/search.karmada.io/v1alpha1";

/// The authority and the certificates of the front proxy.
pub struct Front(Client);

impl Front {
    /// To a server at a URL, with a certificate of the front proxy.
    pub async fn connect(at: &str, pair: &KeyPairPem) -> Self {
        let text = |pem: &str| base64::prelude::BASE64_STANDARD.encode(pem);
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "s", "user": "u"}}],
            "clusters": [{"name": "s", "cluster": {"server": at, "insecure-skip-tls-verify": true}}],
            "users": [{"name": "u", "user": {"client-certificate-data": text(&pair.certificate),
                "client-key-data": text(&pair.key)}}]});
        Self(Client::from_kubeconfig_text(&config.to_string(), None).await.expect("a client"))
    }

    /// The code of the response to a request with all its headers.
    pub async fn send(&self, request: transport::Request) -> u16 {
        self.0.send(request).await.expect("an answer").status().as_u16()
    }

    /// The response for a user.
    pub async fn request(&self, user: &str, method: Method, path: &str, body: Option<&Value>) -> (u16, String) {
        let mut request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        if !user.is_empty() {
            request = request.header("x-remote-user", user).header("x-remote-group", "system:masters");
        }
        let body = body.map_or_else(transport::empty, |body| transport::full(body.to_string()));
        let response = self.0.send(request.body(body).expect("a request")).await.expect("an answer");
        let code = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body").to_bytes();
        (code, String::from_utf8_lossy(&body).into_owned())
    }
}

fn names(list: &str) -> Vec<String> {
    let list: Value = serde_json::from_str(list).unwrap_or_else(|error| panic!("{list}: {error}"));
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let mark = "resource.karmada.io/cached-from-cluster";
    let name = |it: &Value| format!("{}/{}", it["metadata"]["annotations"][mark], it["metadata"]["name"]);
    items.iter().map(|it| name(it).replace('"', "")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_searched_from_a_process_behind_the_api_server() {
    let fleet = Fleet::start(&[]).await;
    for name in ["m1", "m2"] {
        let member = Box::leak(Box::new(fleet.member(name).await));
        fleet.join(member).await;
        fleet.reachable(name).await;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (world, kubeconfig) = (World::system(), fleet.kubeconfig());
    let (authority, _) = Authority::generate("front-proxy-ca", &world).expect("an authority");
    let pair = authority.issue_client("front-proxy-client", &[], &world).expect("a certificate");
    let ca = directory.path().join("front.crt");
    std::fs::write(&ca, authority.certificate()).expect("a file");
    let own = args(&[
        "search",
        "--kubeconfig",
        kubeconfig.to_str().expect("text"),
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        "--data-dir",
        directory.path().join("data").to_str().expect("text"),
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-client-ca-file",
        ca.to_str().expect("text"),
    ]);
    let search = tokio::task::spawn_blocking(move || Component::start(&own, 1)).await.expect("no panic");
    let at = search.text_after("The search API server is ready on ");
    let front = Front::connect(at, &pair).await;

    let (code, body) = front.request("", Method::GET, &format!("{GROUP}/resourceregistries"), None).await;
    assert!(code == 403 && body.contains("system:anonymous"), "{code} {body}");
    let (code, body) = front.request("ann", Method::GET, GROUP, None).await;
    assert!(code == 200 && body.contains("\"proxying\"") && body.contains("\"search\""), "{code} {body}");
    let nodes = format!("{GROUP}/search/cache/api/v1/nodes");
    assert_eq!(names(&front.request("ann", Method::GET, &nodes, None).await.1), Vec::<String>::new());

    let registry = json!({"apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": {"name": "nodes"},
        "spec": {"targetCluster": {"clusterNames": ["m1", "m2"]}, "resourceSelectors": [{"apiVersion": "v1", "kind": "Node"}]}});
    let (code, body) =
        front.request("ann", Method::POST, &format!("{GROUP}/resourceregistries"), Some(&registry)).await;
    assert_eq!(code, 201, "{body}");
    let expected = ["m1/m1-node-1", "m1/m1-node-2", "m2/m2-node-1", "m2/m2-node-2"];
    let found = until("all nodes are found", async || {
        let found = names(&front.request("ann", Method::GET, &nodes, None).await.1);
        (found.len() == 4).then_some(found)
    })
    .await;
    assert_eq!(found, expected);

    // The process writes to OpenSearch, too.
    let service = OpenSearch::default();
    let address = service.serve("secret").await.replace("http://", "http://admin:secret@");
    let backend = json!({"openSearch": {"addresses": [address], "secretRef": {"namespace": "", "name": ""}}});
    let mut indexed = registry.clone();
    (indexed["metadata"]["name"], indexed["spec"]["backendStore"]) = (json!("indexed"), backend);
    let (code, body) = front.request("ann", Method::POST, &format!("{GROUP}/resourceregistries"), Some(&indexed)).await;
    assert_eq!(code, 201, "{body}");
    service.until(&expected.map(|name| format!("{name} -")).each_ref().map(String::as_str)).await;

    let proxy = format!("{GROUP}/proxying/karmada/proxy");
    let (code, body) = front.request("ann", Method::GET, &format!("{proxy}/api/v1/nodes?limit=3"), None).await;
    assert_eq!((code, names(&body).as_slice()), (200, &expected.map(str::to_owned)[..3]), "{body}");
    // Unregistered resources are requested from the control plane, impersonating the caller.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "here"}});
    let maps = format!("{proxy}/api/v1/namespaces/default/configmaps");
    let (code, body) = front.request("ann", Method::POST, &maps, Some(&map)).await;
    assert_eq!(code, 201, "{body}");
    assert!(fleet.admin().await.request(Method::GET, "/api/v1/namespaces/default/configmaps/here", None).await.is_ok());
    let (code, body) =
        front.request("ann", Method::GET, &format!("{GROUP}/search/cache/apis/foo.io/v1/bars"), None).await;
    assert!(code == 500 && body.contains("no matches for foo.io/v1, Resource=bars"), "{code} {body}");
    assert!(search.terminate());
}
