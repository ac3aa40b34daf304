//! Events of a component in the server's process, which take a fast path to the store if no plugin needs to read them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use apimachinery::{ApiResource, Object, Status};
use apiserver::auth::authn::Authentication;
use apiserver::{Admission, AdmissionRequest, ApiServer, Authorization, Creates, ServerConfig};
use client::Client;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use storage::memory::MemoryStore;
use transport::Identity;
use world::World;

use crate::objects::namespaces;

fn events() -> ApiResource {
    ApiResource::namespaced("", "v1", "Event", "events")
}

/// Reads the creates of users other than `unread`.
#[derive(Default)]
struct Reader {
    read: AtomicUsize,
}

impl Admission for Reader {
    fn concerns(&self, group: &str, plural: &str) -> bool {
        (group, plural) == ("", "events")
    }

    fn admits_unread(&self, creates: &Creates<'_>) -> bool {
        creates.user.user == "system:unread"
    }

    fn validate<'a>(&'a self, _: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        self.read.fetch_add(1, Relaxed);
        Box::pin(std::future::ready(Ok(())))
    }
}

struct Rig {
    server: ApiServer,
    reader: Arc<Reader>,
}

impl Rig {
    async fn new() -> Self {
        let reader = Arc::<Reader>::default();
        let world = World::system();
        let switches = Default::default();
        let mut admission =
            apiserver::admit::plugins::built_in(Default::default(), &world, &switches).expect("the default plugins");
        admission.push(Arc::clone(&reader) as Arc<dyn Admission>);
        let config = ServerConfig {
            store: Arc::new(MemoryStore::new()),
            world,
            resources: kubernetes_api::resources(),
            admission,
            authentication: Box::new(|_| Authentication::default()),
            authorization: Authorization::Rbac,
            routes: Vec::new(),
            crds: Vec::new(),
            converters: Default::default(),
            version: Default::default(),
        };
        let rig = Self { server: ApiServer::start(config).await.expect("an empty store"), reader };
        for name in ["default", "ns"] {
            let namespace = json!({"metadata": {"name": name}});
            rig.client("admin").create(&namespaces(), &namespace).await.expect("a namespace");
        }
        rig
    }

    fn client(&self, user: &str) -> Client {
        Client::in_process(self.server.service(), Identity::system(user))
    }

    /// How often the plugin read an object since the last call.
    fn read(&self) -> usize {
        self.reader.read.swap(0, Relaxed)
    }

    async fn create_all(&self, user: &str, namespace: &str, drafts: Vec<Value>) -> Vec<client::Result<Arc<Object>>> {
        self.client(user).create_all(&events(), Some(namespace), drafts).await.expect("outcomes")
    }
}

/// As the recorder of Events writes it.
fn draft(namespace: &str, name: &str, about: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": "apps/v1", "kind": "Deployment", "namespace": about, "name": "d", "uid": "u", "resourceVersion": "",
        },
        "type": "Normal", "reason": "R", "message": "a \"message\"\nof <two> lines",
        "source": {"component": "c"}, "reportingComponent": "c", "reportingInstance": "",
        "count": 1, "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:06Z",
    })
}

/// The stored bytes without what differs between two Events: name, identifiers, and the time of the write.
fn shown(object: &Object) -> String {
    let time = object.to_value().expect("a tree")["metadata"]["creationTimestamp"].as_str().expect("a time").to_owned();
    let text = String::from_utf8(object.json().to_vec()).expect("JSON");
    let text = text.replace(object.uid(), "UID").replace(&format!("{:?}", object.resource_version()), "REVISION");
    text.replace(&time, "NOW").replace(&format!("{:?}", object.name()), "NAME")
}

#[tokio::test]
async fn the_fast_path_stores_the_same_bytes() {
    let rig = Rig::new().await;
    for (namespace, about) in [("ns", "ns"), ("default", ""), ("default", "default")] {
        let fast = rig.create_all("unread", namespace, vec![draft(namespace, "a", about)]).await.remove(0);
        assert_eq!(rig.read(), 0);
        // The first user is also the owner of the fields.
        let general = rig.client("unread").create(&events(), &draft(namespace, "b", about)).await.expect("an Event");
        assert_eq!(rig.read(), 1);
        let fast = fast.expect("an Event");
        assert_eq!(shown(&fast), shown(&general), "{namespace} {about:?}");
        let stored = rig.client("admin").get(&events(), &fast.key()).await.expect("the stored Event");
        assert_eq!(stored.json(), fast.json());
        for name in ["a", "b"] {
            let key = apimachinery::ObjectKey::namespaced(namespace, name);
            rig.client("admin").delete(&events(), &key, &Default::default()).await.expect("a deletion");
        }
        rig.read();
    }
}

#[tokio::test]
async fn other_events_take_the_general_path() {
    let rig = Rig::new().await;
    let change = |pointer: &str, value: Value| {
        let mut event = draft("ns", "other", "ns");
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        event.pointer_mut(parent).expect("a parent").as_object_mut().expect("an object").insert(field.into(), value);
        event
    };
    for (event, is_created) in [
        (change("/action", json!("A")), true),
        (change("/metadata/labels", json!({"a": "b"})), true),
        (change("/count", json!(2)), true),
        (change("/message", json!("")), true),
        (change("/involvedObject/fieldPath", json!("spec")), true),
        (change("/firstTimestamp", json!("2026-01-02T03:04:05+01:00")), true),
        (change("/type", json!("Odd")), true),
        (change("/involvedObject/namespace", json!("default")), false),
        (change("/metadata/name", json!("No_name")), true),
        (change("/metadata/name", json!("no/name")), false),
        (change("/lastTimestamp", json!("yesterday")), false),
        (change("/source/component", json!(1)), false),
    ] {
        let created = rig.create_all("unread", "ns", vec![event.clone()]).await.remove(0);
        assert_eq!(created.is_ok(), is_created, "{event}: {created:?}");
        assert_eq!(rig.read(), usize::from(is_created), "{event}");
        if let Ok(created) = created {
            rig.client("unread").delete(&events(), &created.key(), &Default::default()).await.expect("a deletion");
            rig.read();
        }
    }
    // A plugin that reads Events of this user.
    let created = rig.create_all("read", "ns", vec![draft("ns", "a", "ns"), draft("ns", "b", "ns")]).await;
    assert!(created.iter().all(Result::is_ok) && rig.read() == 2, "{created:?}");
}

#[tokio::test]
async fn the_fast_path_refuses_what_the_general_path_refuses() {
    let rig = Rig::new().await;
    let refusal = |outcome: client::Result<Arc<Object>>| outcome.expect_err("a refusal").to_string();
    let first = rig.create_all("unread", "ns", vec![draft("ns", "a", "ns")]).await.remove(0);
    assert!(first.is_ok(), "{first:?}");
    let again = rig.create_all("unread", "ns", vec![draft("ns", "a", "ns")]).await.remove(0);
    assert!(refusal(again).contains("events \"a\" already exists"));
    let absent = rig.create_all("unread", "nowhere", vec![draft("nowhere", "a", "nowhere")]).await.remove(0);
    assert!(refusal(absent).contains("namespaces \"nowhere\" not found"));
    // Where quotas count objects, each is read.
    let quotas = ApiResource::namespaced("", "v1", "ResourceQuota", "resourcequotas");
    let quota = json!({"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": {"pods": "2"}}});
    rig.client("admin").create(&quotas, &quota).await.expect("a quota");
    rig.read();
    let outcomes = rig.create_all("unread", "ns", ["b", "c"].map(|name| draft("ns", name, "ns")).to_vec()).await;
    assert!(outcomes.iter().all(Result::is_ok) && rig.read() == 2, "{outcomes:?}");
}
