//! A controller written for kube-rs, unchanged: its resource is derived from a struct, it owns ConfigMaps, has a
//! finalizer, writes status and records events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{EventType, Recorder, Reporter};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::{wait, watcher};
use kube::{Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::kube_rs::{client, in_time};
use crate::process::Karmada;

const FINALIZER: &str = "example.com/greeting";

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced, status = "GreetingStatus")]
#[kube(shortname = "gr", printcolumn = r#"{"name": "Who", "type": "string", "jsonPath": ".spec.who"}"#)]
struct GreetingSpec {
    who: String,
    #[serde(default)]
    times: u32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct GreetingStatus {
    written: Option<String>,
}

type Failure = finalizer::Error<kube::Error>;

/// Writes the greeting to a ConfigMap that the object owns.
async fn reconcile(greeting: Arc<Greeting>, client: Arc<Client>) -> Result<Action, Failure> {
    let client = Client::clone(&client);
    let namespace = greeting.namespace().unwrap_or_default();
    let greetings: Api<Greeting> = Api::namespaced(client.clone(), &namespace);
    finalizer(&greetings, FINALIZER, greeting, |event| async {
        match event {
            finalizer::Event::Apply(greeting) => write(&client, &greeting).await,
            finalizer::Event::Cleanup(greeting) => record(&client, &greeting, "Gone").await,
        }?;
        Ok(Action::await_change())
    })
    .await
}

async fn write(client: &Client, greeting: &Greeting) -> kube::Result<()> {
    let (name, namespace) = (greeting.name_any(), greeting.namespace().unwrap_or_default());
    let text = format!("Hello {}", greeting.spec.who);
    let owned = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: greeting.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..Default::default()
        },
        data: Some(BTreeMap::from([("text".to_owned(), text.clone())])),
        ..Default::default()
    };
    let apply = PatchParams::apply("greeter").force();
    Api::<ConfigMap>::namespaced(client.clone(), &namespace).patch(&name, &apply, &Patch::Apply(&owned)).await?;
    let status = json!({"apiVersion": "example.com/v1", "kind": "Greeting", "status": {"written": text}});
    let greetings: Api<Greeting> = Api::namespaced(client.clone(), &namespace);
    greetings.patch_status(&name, &apply, &Patch::Apply(&status)).await?;
    record(client, greeting, "Written").await
}

async fn record(client: &Client, greeting: &Greeting, reason: &str) -> kube::Result<()> {
    let recorder = Recorder::new(client.clone(), Reporter::from("greeter"));
    let event = kube::runtime::events::Event {
        type_: EventType::Normal,
        reason: reason.into(),
        note: Some(format!("about {}", greeting.spec.who)),
        action: "Greet".into(),
        secondary: None,
    };
    let about: ObjectReference = greeting.object_ref(&());
    recorder.publish(&event, &about).await
}

async fn until_status(greetings: &Api<Greeting>, text: &'static str) {
    let written = |greeting: Option<&Greeting>| {
        greeting.and_then(|greeting| greeting.status.as_ref()?.written.as_deref()) == Some(text)
    };
    let reached = wait::await_condition(greetings.clone(), "hi", written);
    in_time(text, reached).await.expect("watched");
}

#[tokio::test]
async fn a_controller_runs_unchanged() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Karmada::up(dir.path());
    let client = client(&server).await;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("test");
    crds.patch("greetings.example.com", &apply, &Patch::Apply(Greeting::crd())).await.expect("applied");
    let established = wait::conditions::is_crd_established();
    in_time("the definition", wait::await_condition(crds.clone(), "greetings.example.com", established))
        .await
        .expect("watched");

    let greetings: Api<Greeting> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controller = Controller::new(greetings.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .graceful_shutdown_on(async { drop(stopped.await) })
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(client.clone()));
    let running = tokio::spawn(controller.for_each(|_| async {}));

    let spec = GreetingSpec { who: "world".into(), times: 1 };
    greetings.create(&PostParams::default(), &Greeting::new("hi", spec)).await.expect("created");
    until_status(&greetings, "Hello world").await;
    assert_eq!(maps.get("hi").await.expect("owned").data.expect("data")["text"], "Hello world");
    let again = Patch::Merge(json!({"spec": {"who": "you"}}));
    greetings.patch("hi", &PatchParams::default(), &again).await.expect("patched");
    until_status(&greetings, "Hello you").await;

    // Deleted objects are recreated: the controller watches its dependents.
    let uid = maps.get("hi").await.expect("owned").uid().expect("a uid");
    maps.delete("hi", &DeleteParams::default()).await.expect("deleted");
    let back = |map: Option<&ConfigMap>| map.is_some_and(|map| map.uid().as_ref() != Some(&uid));
    in_time("the return", wait::await_condition(maps.clone(), "hi", back)).await.expect("watched");

    let uid = maps.get("hi").await.expect("owned").uid().expect("a uid");
    greetings.delete("hi", &DeleteParams::default()).await.expect("deleted");
    let gone = |greeting: Option<&Greeting>| greeting.is_none();
    in_time("the finalizer", wait::await_condition(greetings, "hi", gone)).await.expect("watched");
    in_time("garbage collection", wait::await_condition(maps, "hi", wait::conditions::is_deleted(&uid)))
        .await
        .expect("watched");
    let events: Api<Event> = Api::default_namespaced(client);
    let events = events.list(&ListParams::default()).await.expect("listed");
    let reasons: Vec<_> = events.items.iter().filter_map(|event| event.reason.as_deref()).collect();
    assert!(reasons.contains(&"Written") && reasons.contains(&"Gone"), "{reasons:?}");
    stop.send(()).expect("the controller listens");
    running.await.expect("it ends");
}
