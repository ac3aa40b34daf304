//! Events of a component in the server's process, which take a fast path to the store if no plugin needs to read them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use apimachinery::{ApiResource, Object, Status};
use apiserver::auth::authn::Authentication;
use apiserver::{Admission, AdmissionRequest, ApiServer, Authorization, Creates, ServerConfig};
use client::Client;
use futures::future::BoxFuture;
use serde_json::json;
use storage::memory::MemoryStore;
use transport::{EventDraft, EventPart, EventType, Identity, NewEvent, NewObject};
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

    async fn create_all(&self, user: &str, namespace: &str, events: Vec<NewEvent>) -> Vec<client::Result<Arc<Object>>> {
        let events = events.into_iter().map(NewObject::Event).collect();
        self.client(user).create_all(&self::events(), Some(namespace), events).await.expect("outcomes")
    }
}

/// The texts of a draft about an object of this namespace.
fn texts(about: &str) -> [&str; 7] {
    ["apps/v1", "Deployment", about, "d", "u", "a \"message\"\nof <two> lines", ""]
}

fn draft(texts: [&str; 7]) -> EventDraft {
    let at = "2026-01-02T03:04:05.678Z".parse().expect("a time");
    EventDraft::new(texts, EventType::Normal, "R", "c".into(), at)
}

fn named(name: &str, draft: EventDraft) -> NewEvent {
    NewEvent { name: name.to_owned(), draft: Arc::new(draft) }
}

/// As the recorder of Events reports it.
fn event(name: &str, about: &str) -> NewEvent {
    named(name, draft(texts(about)))
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
        let fast = rig.create_all("unread", namespace, vec![event("a", about)]).await.remove(0);
        assert_eq!(rig.read(), 0);
        // The first user is also the owner of the fields.
        let general =
            rig.client("unread").create(&events(), &event("b", about).to_value(namespace)).await.expect("an Event");
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
    let (part, with) = (texts("ns"), |texts| named("other", draft(texts)));
    let without = |part: EventPart| {
        let mut texts = texts("ns");
        texts[part as usize] = "";
        named("other", draft(texts))
    };
    let far = "-000001-01-01T00:00:00Z".parse().expect("a time");
    let of = |component: &str, reason, at| EventDraft::new(part, EventType::Warning, reason, component.into(), at);
    let now = draft(part).at;
    for (event, is_created) in [
        (without(EventPart::Message), true),
        (with([""; 7]), false),
        (named("other", of("", "R", now)), true),
        (named("other", of("c", "", now)), true),
        (named("other", of("c", "R", far)), false),
        (event("other", "default"), false),
        (event("No_name", "ns"), true),
        (event("no/name", "ns"), false),
    ] {
        let shown = event.to_value("ns");
        let created = rig.create_all("unread", "ns", vec![event]).await.remove(0);
        assert_eq!(created.is_ok(), is_created, "{shown}: {created:?}");
        assert_eq!(rig.read(), usize::from(is_created), "{shown}");
        let sent = rig.client("unread").create(&events(), &shown).await;
        let code = |outcome: &client::Result<_>| {
            outcome.as_ref().err().map(|error| error.to_string().contains("already exists"))
        };
        assert_eq!(code(&sent).is_some_and(|exists| !exists), !is_created, "{shown}: {sent:?}");
        rig.read();
        if let Ok(created) = created {
            rig.client("unread").delete(&events(), &created.key(), &Default::default()).await.expect("a deletion");
            rig.read();
        }
    }
    // A plugin that reads Events of this user.
    let created = rig.create_all("read", "ns", vec![event("a", "ns"), event("b", "ns")]).await;
    assert!(created.iter().all(Result::is_ok) && rig.read() == 2, "{created:?}");
}

#[tokio::test]
async fn the_fast_path_refuses_what_the_general_path_refuses() {
    let rig = Rig::new().await;
    let refusal = |outcome: client::Result<Arc<Object>>| outcome.expect_err("a refusal").to_string();
    let first = rig.create_all("unread", "ns", vec![event("a", "ns")]).await.remove(0);
    assert!(first.is_ok(), "{first:?}");
    let again = rig.create_all("unread", "ns", vec![event("a", "ns")]).await.remove(0);
    assert!(refusal(again).contains("events \"a\" already exists"));
    let absent = rig.create_all("unread", "nowhere", vec![event("a", "nowhere")]).await.remove(0);
    assert!(refusal(absent).contains("namespaces \"nowhere\" not found"));
    // Where quotas count objects, each is read.
    let quotas = ApiResource::namespaced("", "v1", "ResourceQuota", "resourcequotas");
    let quota = json!({"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": {"pods": "2"}}});
    rig.client("admin").create(&quotas, &quota).await.expect("a quota");
    rig.read();
    let outcomes = rig.create_all("unread", "ns", ["b", "c"].map(|name| event(name, "ns")).to_vec()).await;
    assert!(outcomes.iter().all(Result::is_ok) && rig.read() == 2, "{outcomes:?}");
}
