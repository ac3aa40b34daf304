//! Documents of both forms, and the tags of unchanged ones.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use transport::{ApiService, Identity, Request};

use super::*;

/// A server with a discovery document for each path; the tag of one is its length.
#[derive(Clone, Default)]
struct Server {
    documents: Arc<Mutex<HashMap<&'static str, &'static str>>>,
    /// The paths of the requests, and whether the answer was 304.
    requests: Arc<Mutex<Vec<(String, bool)>>>,
    untagged: bool,
}

const EMPTY: &str = r#"{"kind":"APIGroupDiscoveryList","items":[]}"#;
const APPS: &str = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[
    {"resource":"deployments","responseKind":{"kind":"Deployment"},"scope":"Namespaced"}]}]}]}"#;
const GROUPS: &str = r#"{"kind":"APIGroupList","groups":[{"versions":[{"groupVersion":"apps/v1"}]}]}"#;
const VERSIONS: &str = r#"{"kind":"APIVersions","versions":[]}"#;
const RESOURCES: &str = r#"{"resources":[{"name":"deployments","kind":"Deployment","namespaced":true}]}"#;

impl Server {
    fn of(documents: &[(&'static str, &'static str)]) -> Self {
        Self { documents: Arc::new(Mutex::new(documents.iter().copied().collect())), ..Self::default() }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request| {
            let answer = server.answer(&request);
            async move { Ok(answer) }
        });
        Client::in_process(ApiService::new(service), Identity::system("test"))
    }

    fn answer(&self, request: &Request) -> transport::Response {
        let path = request.uri().path();
        let document = self.documents.lock().get(path).copied().unwrap_or("{}");
        let tag = format!("\"{}\"", document.len());
        let is_known = request.headers().get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
        self.requests.lock().push((path.to_owned(), is_known));
        let (code, body) = if is_known { (304, "") } else { (200, document) };
        let mut answer = http::Response::builder().status(code);
        if !self.untagged {
            answer = answer.header(ETAG, tag);
        }
        answer.body(transport::full(body)).expect("a response")
    }

    /// The paths that were requested since the last call, those of unchanged documents in brackets.
    fn requested(&self) -> String {
        let requests = std::mem::take(&mut *self.requests.lock());
        let shown = requests.into_iter().map(|(path, is_known)| if is_known { format!("({path})") } else { path });
        shown.collect::<Vec<_>>().join(" ")
    }
}

#[tokio::test]
async fn unchanged_documents_are_not_read_again() {
    let server = Server::of(&[("/api", EMPTY), ("/apis", EMPTY)]);
    let client = server.client();
    let first = client.discovery_if_changed(&DiscoveryTags::default()).await.expect("discovery");
    let (discovery, tags) = first.expect("nothing is known before");
    assert_eq!((discovery, &*server.requested()), (Discovery::default(), "/api /apis"));
    assert_eq!(client.discovery_if_changed(&tags).await.expect("discovery"), None);
    assert_eq!(server.requested(), "(/api) (/apis)");
    server.documents.lock().insert("/apis", APPS);
    let (discovery, tags) = client.discovery_if_changed(&tags).await.expect("discovery").expect("it has changed");
    assert_eq!(discovery.resources.len(), 1);
    // The core group's is needed for the whole.
    assert_eq!(server.requested(), "(/api) /apis /api /apis");
    assert_eq!(client.discovery_if_changed(&tags).await.expect("discovery"), None);
    assert_eq!(client.discovery().await.expect("discovery"), discovery);
}

/// The tag of a list of groups says nothing about their resources, and not every server sends tags.
#[tokio::test]
async fn other_documents_are_always_read() {
    let legacy = [("/api", VERSIONS), ("/apis", GROUPS), ("/apis/apps/v1", RESOURCES)];
    let aggregated = Server::of(&[("/api", EMPTY), ("/apis", APPS)]);
    for server in [Server::of(&legacy), Server { untagged: true, ..aggregated }] {
        let client = server.client();
        let mut tags = DiscoveryTags::default();
        for _ in 0..2 {
            let (discovery, new) = client.discovery_if_changed(&tags).await.expect("discovery").expect("it is read");
            assert_eq!(discovery.resources.len(), 1);
            assert!(!server.requested().contains('('));
            tags = new;
        }
        assert_eq!(tags, DiscoveryTags::default());
    }
}

#[test]
fn aggregated_and_legacy_documents_read_the_same() {
    let mut aggregated = Discovery::default();
    let document = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1","freshness":"Current",
        "resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced",
        "singularResource":"deployment","verbs":["get","list"],"shortNames":["deploy"],"categories":["all"],
        "subresources":[{"subresource":"status","verbs":["get"]}]}]},{"version":"v2","freshness":"Stale"}]}]}"#;
    add_aggregated(&mut aggregated, serde_json::from_str(document).expect("aggregated"));
    let mut legacy = Discovery::default();
    let document = r#"{"resources":[{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment",
        "verbs":["get","list"],"shortNames":["deploy"],"categories":["all"]},{"name":"deployments/status","kind":"Deployment","verbs":["get"]}]}"#;
    let gv = GroupVersion::new("apps", "v1");
    add_legacy_resources(&mut legacy, &gv, serde_json::from_str(document).expect("legacy"));
    assert_eq!(aggregated.resources, legacy.resources);
    assert_eq!(aggregated.failed, [GroupVersion::new("apps", "v2")]);
    let found = legacy.by_kind(&GroupVersionKind::new("apps", "v1", "Deployment")).expect("known");
    assert_eq!(found.resource, ApiResource::namespaced("apps", "v1", "Deployment", "deployments"));
    assert_eq!(found.subresources, ["status"]);
}

/// Go encodes a list without elements as null.
#[test]
fn null_is_an_empty_list() {
    let groups: LegacyGroups = serde_json::from_str(r#"{"groups":null}"#).expect("groups");
    let list: LegacyResources = serde_json::from_str(r#"{"resources":null}"#).expect("resources");
    let aggregated: Aggregated = serde_json::from_str(r#"{"items":null}"#).expect("items");
    assert!(groups.groups.is_empty() && list.resources.is_empty() && aggregated.items.is_empty());
    let row = r#"{"resources":[{"name":"xs","kind":"X","verbs":null,"shortNames":null}]}"#;
    let mut discovery = Discovery::default();
    let list = serde_json::from_str(row).expect("resources");
    add_legacy_resources(&mut discovery, &GroupVersion::new("g", "v1"), list);
    assert_eq!(discovery.resources.len(), 1);
}

#[test]
fn metrics_are_not_kinds() {
    let mut aggregated = Discovery::default();
    let document = r#"{"items":[{"metadata":{"name":"custom.metrics.k8s.io"},"versions":[{"version":"v1beta2","freshness":"Current",
        "resources":[{"resource":"pods","responseKind":{"group":"","version":"","kind":""},"scope":"Namespaced","singularResource":"",
        "verbs":[],"subresources":[{"subresource":"hits","verbs":["get"]}]}]},{"version":"v1beta1","freshness":"Current","resources":[]}]}]}"#;
    add_aggregated(&mut aggregated, serde_json::from_str(document).expect("aggregated"));
    let mut legacy = Discovery::default();
    let document = r#"{"resources":[{"name":"pods/hits","namespaced":true,"kind":"MetricValueList","verbs":["get"]}]}"#;
    let gv = GroupVersion::new("custom.metrics.k8s.io", "v1beta2");
    add_legacy_resources(&mut legacy, &gv, serde_json::from_str(document).expect("legacy"));
    assert_eq!(aggregated, legacy);
    assert_eq!(legacy.group_versions(), BTreeMap::from([(gv, Vec::new())]));
}
