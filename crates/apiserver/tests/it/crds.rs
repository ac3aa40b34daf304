//! Custom resources from definition to deletion, through the real client in this process.

use std::sync::Arc;

use crate::engine::on_every_engine;
use apimachinery::{ApiResource, Object, ObjectKey, StatusReason};
use apiserver::auth::authn::Authentication;
use apiserver::{ApiServer, Authorization, ServerConfig, StartError};
use client::{Client, DeleteOptions, ListOptions, Patch, PatchOptions, WatchOptions};
use futures::StreamExt;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use storage::Store;
use transport::{Identity, WatchEvent};
use world::World;

on_every_engine! {
    alone: [
        a_definition_is_served_from_creation_to_deletion,
        a_terminating_definition_allows_no_creation,
        a_changed_definition_ends_open_watches,
        selectors_see_the_defaults_of_a_later_schema,
        the_write_of_a_new_storage_version_records_it,
        nulls_in_the_metadata_of_custom_resources_are_empty_texts,
        every_served_version_shows_the_same_objects,
        installed_definitions_are_ready_and_written_only_on_change,
        a_clashing_kind_waits_until_the_name_is_free,
        rules_are_checked_when_definitions_and_objects_are_written,
    ],
}

pub(crate) fn definitions() -> ApiResource {
    ApiResource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
}

fn widgets(version: &str) -> ApiResource {
    ApiResource::namespaced("g.example", version, "Widget", "widgets")
}

pub(crate) async fn start(store: &Arc<dyn Store>, crds: Vec<Value>) -> Result<(ApiServer, Client), StartError> {
    let server = ApiServer::start(ServerConfig {
        store: Arc::clone(store),
        world: World::system(),
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        authentication: Box::new(|_| Authentication::default()),
        authorization: Authorization::Rbac,
        routes: Vec::new(),
        crds,
        converters: Default::default(),
        version: Default::default(),
    })
    .await?;
    let client = Client::in_process(server.service(), Identity::system("test"));
    Ok((server, client))
}

pub(crate) async fn server(crds: Vec<Value>) -> (ApiServer, Client) {
    let (server, client) = start(&crate::engine::store().await, crds).await.expect("an empty store");
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    client.create(&namespaces, &json!({"metadata": {"name": "default"}})).await.expect("a namespace");
    (server, client)
}

/// Versions v1 (stored) and v2, with status and scale.
pub(crate) fn widget_definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "minimum": 0, "default": 1},
            "color": {"type": "string", "enum": ["red", "blue"]}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}});
    let subresources = json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.g.example"}, "spec": {"group": "g.example", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": subresources,
                "additionalPrinterColumns": [{"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"}]},
            {"name": "v2", "served": true, "storage": false, "schema": schema, "subresources": subresources}]}})
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "g.example/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// Watches a definition until `is_reached`; `None` means its deletion.
pub(crate) async fn until(client: &Client, name: &str, is_reached: impl Fn(Option<&Value>) -> bool) {
    let list = client.list(&definitions(), None, &ListOptions::default()).await.expect("list");
    let present = list.items.iter().find(|object| object.name() == name).map(|object| object.to_value().expect("JSON"));
    if is_reached(present.as_ref()) {
        return;
    }
    let from = Some(list.resource_version.to_string());
    let options = client::WatchOptions { resource_version: from, ..Default::default() };
    let mut events = client.watch(&definitions(), None, &options).await.expect("watch");
    let reached = async {
        while let Some(event) = events.next().await {
            let reached = match &event {
                WatchEvent::Deleted(object) if object.name() == name => is_reached(None),
                WatchEvent::Added(object) | WatchEvent::Modified(object) if object.name() == name => {
                    is_reached(Some(&object.to_value().expect("JSON")))
                }
                _ => false,
            };
            if reached {
                return;
            }
        }
        panic!("the watch ended");
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), reached).await.expect("the definition gets there");
}

pub(crate) fn is(type_: &str, status: &str) -> impl Fn(Option<&Value>) -> bool {
    move |crd| {
        let conditions = crd.and_then(|crd| crd["status"]["conditions"].as_array()).into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == type_ && condition["status"] == status)
    }
}

async fn document(server: &ApiServer, path: &str, accept: &str) -> (u16, Value) {
    let request = http::Request::get(path)
        .header("accept", accept)
        .extension(Identity::system("test"))
        .body(transport::empty())
        .expect("a request");
    send(server, request).await
}

async fn send(server: &ApiServer, request: transport::Request) -> (u16, Value) {
    let response = tower::ServiceExt::oneshot(server.service(), request).await.expect("infallible");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("in memory").to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

async fn a_definition_is_served_from_creation_to_deletion() {
    const HASH: &str = "B2tl1X0oGfk=";
    let (server, client) = server(Vec::new()).await;
    assert_eq!(document(&server, "/apis/g.example/v1", "*/*").await.0, 404);
    let created = client.create(&definitions(), &widget_definition()).await.expect("create").to_value().expect("JSON");
    assert_eq!(created["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(created["spec"]["conversion"], json!({"strategy": "None"}));
    until(&client, "widgets.g.example", is("Established", "True")).await;

    let (_, list) = document(&server, "/apis/g.example/v1", "application/json").await;
    let names: Vec<&str> =
        list["resources"].as_array().expect("rows").iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
    // Eight bytes of the SHA-256 of `g.example/v1/Widget`: that version is stored, for requests of any version.
    for version in ["v1", "v2"] {
        let (_, list) = document(&server, &format!("/apis/g.example/{version}"), "application/json").await;
        assert_eq!(list["resources"][0]["storageVersionHash"], HASH, "{version}");
    }
    let (_, openapi) = document(&server, "/openapi/v3/apis/g.example/v1", "application/json").await;
    assert!(openapi["components"]["schemas"]["example.g.v1.Widget"].is_object());

    let mut body = widget("a", &json!({"color": "red", "bogus": 1}));
    body["status"] = json!({"replicas": 7});
    let object = client.create(&widgets("v1"), &body).await.expect("create");
    assert_eq!(object.to_value().expect("JSON")["spec"], json!({"color": "red", "replicas": 1}));
    assert!(object.to_value().expect("JSON").get("status").is_none(), "status has its own endpoint");
    let refused = client.create(&widgets("v1"), &widget("b", &json!({"color": "green", "replicas": -1}))).await;
    let client::Error::Status(status) = refused.expect_err("invalid") else { panic!("a Status") };
    assert_eq!(status.reason(), Some(StatusReason::Invalid));
    assert_eq!(
        status.message,
        "Widget.g.example \"b\" is invalid: [spec.color: Unsupported value: \"green\": supported values: \"red\", \
         \"blue\", spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0, \
         .spec.replicas: Invalid value: -1: should be a non-negative integer]"
    );
    let request = http::Request::patch("/apis/g.example/v1/namespaces/default/widgets/a?fieldValidation=Strict")
        .header("content-type", "application/merge-patch+json")
        .extension(Identity::system("test"))
        .body(transport::full(r#"{"spec": {"colour": "red"}}"#))
        .expect("a request");
    let (code, refused) = send(&server, request).await;
    let text = refused["message"].as_str().expect("a Status");
    assert!(code == 422 && text.contains("strict decoding error: unknown field \"spec.colour\""), "{text}");
    let path = "/apis/g.example/v1/namespaces/default/widgets";
    let (_, table) = document(&server, path, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    assert_eq!(table["rows"][0]["cells"], json!(["a", 1]));

    client
        .delete(&definitions(), &ObjectKey::cluster("widgets.g.example"), &DeleteOptions::default())
        .await
        .expect("delete");
    until(&client, "widgets.g.example", |crd| crd.is_none()).await;
    assert_eq!(document(&server, path, "application/json").await.0, 404);
    client.create(&definitions(), &widget_definition()).await.expect("create again");
    until(&client, "widgets.g.example", is("Established", "True")).await;
    let left = client.list(&widgets("v1"), None, &ListOptions::default()).await.expect("list");
    assert!(left.items.is_empty(), "instances went with their definition");
}

async fn a_terminating_definition_allows_no_creation() {
    let (server, client) = server(vec![widget_definition()]).await;
    let mut existing = widget("held", &json!({}));
    existing["metadata"]["finalizers"] = json!(["example.io/hold"]);
    client.create(&widgets("v1"), &existing).await.expect("create");
    let (definition, key) = (ObjectKey::cluster("widgets.g.example"), ObjectKey::namespaced("default", "held"));
    client.delete(&definitions(), &definition, &DeleteOptions::default()).await.expect("delete");
    until(&client, "widgets.g.example", is("Terminating", "True")).await;

    let refused = client.create(&widgets("v1"), &widget("new", &json!({}))).await;
    let client::Error::Status(status) = refused.expect_err("it would hold the definition") else { panic!("a Status") };
    assert_eq!((status.code, status.reason()), (403, Some(StatusReason::Forbidden)));
    let why = "create not allowed while custom resource definition is terminating";
    assert_eq!(status.message, format!("widgets.g.example \"new\" is forbidden: {why}"));
    // Discovery lists no verb that writes.
    let verbs = json!(["delete", "deletecollection", "get", "list", "watch"]);
    let (_, listed) = document(&server, "/apis/g.example/v1", "application/json").await;
    assert_eq!((&listed["resources"][0]["name"], &listed["resources"][0]["verbs"]), (&json!("widgets"), &verbs));
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let (_, all) = document(&server, "/apis", aggregated).await;
    let group = all["items"].as_array().into_iter().flatten().find(|group| group["metadata"]["name"] == "g.example");
    let version = &group.expect("the group")["versions"][0];
    let kind = json!({"group": "g.example", "version": version["version"], "kind": "Widget"});
    assert_eq!((&version["resources"][0]["verbs"], &version["resources"][0]["responseKind"]), (&verbs, &kind));
    // Existing objects are served as before, and may change.
    let patch = Patch::Merge(json!({"spec": {"color": "red"}}));
    client.patch(&widgets("v1"), &key, &patch, &PatchOptions::default()).await.expect("the patch");

    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    client.patch(&widgets("v1"), &key, &release, &PatchOptions::default()).await.expect("the patch");
    until(&client, "widgets.g.example", |crd| crd.is_none()).await;
}

async fn a_changed_definition_ends_open_watches() {
    let (_server, client) = server(vec![widget_definition()]).await;
    let definition = ObjectKey::cluster("widgets.g.example");
    let change = async |patch: Value| {
        let options = PatchOptions::default();
        client.patch(&definitions(), &definition, &Patch::Merge(patch), &options).await.expect("the patch");
    };
    let list = client.list(&widgets("v1"), None, &ListOptions::default()).await.expect("a list");
    let from = WatchOptions { resource_version: Some(list.resource_version.to_string()), ..WatchOptions::default() };
    let mut objects = client.watch(&widgets("v1"), None, &from).await.expect("a watch");
    change(json!({"metadata": {"annotations": {"a": "b"}}})).await;
    client.create(&widgets("v1"), &widget("one", &json!({}))).await.expect("create");
    assert!(matches!(objects.next().await, Some(WatchEvent::Added(_))), "an annotation changes nothing");
    // The version of the watch may not be served any more.
    change(json!({"spec": {"names": {"shortNames": ["wdg"]}}})).await;
    let end = tokio::time::timeout(std::time::Duration::from_secs(60), objects.next()).await;
    assert!(end.expect("an end").is_none());
}

async fn selectors_see_the_defaults_of_a_later_schema() {
    const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.g.example";
    let (server, client) = server(vec![widget_definition()]).await;
    client.create(&widgets("v1"), &widget("old", &json!({}))).await.expect("create");
    let (_, mut definition) = document(&server, DEFINITION, "application/json").await;
    let version = &mut definition["spec"]["versions"][0];
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["added"] =
        json!({"type": "string", "default": "D"});
    version["selectableFields"] = json!([{"jsonPath": ".spec.added"}]);
    let before = server.shared().registry.snapshot().generation;
    let (code, written) = write(&server, "PUT", DEFINITION, &definition).await;
    assert_eq!(code, 200, "{written}");
    server.shared().registry.newer_than(before).await;
    for (selector, expected) in [("%3DD", 1), ("%3D", 0), ("!%3DD", 0)] {
        let path = format!("/apis/g.example/v1/widgets?fieldSelector=spec.added{selector}");
        let (_, list) = document(&server, &path, "application/json").await;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(expected), "{selector}: {list}");
    }
}

async fn the_write_of_a_new_storage_version_records_it() {
    const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.g.example";
    let (server, client) = server(vec![widget_definition()]).await;
    until(&client, "widgets.g.example", is("Established", "True")).await;
    let (_, mut definition) = document(&server, DEFINITION, "application/json").await;
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    for (version, storage) in [(0, false), (1, true)] {
        definition["spec"]["versions"][version]["storage"] = storage.into();
    }
    let (code, written) = write(&server, "PUT", DEFINITION, &definition).await;
    assert_eq!((code, &written["status"]["storedVersions"]), (200, &json!(["v1", "v2"])), "{written}");
}

async fn nulls_in_the_metadata_of_custom_resources_are_empty_texts() {
    let (server, client) = server(vec![widget_definition()]).await;
    until(&client, "widgets.g.example", is("Established", "True")).await;
    let mut body = widget("a", &json!({}));
    body["metadata"]["labels"] = json!({"none": null});
    let path = "/apis/g.example/v1/namespaces/default/widgets";
    let (code, created) = write(&server, "POST", path, &body).await;
    assert_eq!((code, &created["metadata"]["labels"]), (201, &json!({"none": ""})), "{created}");
    body["metadata"] = json!({"name": "b", "finalizers": [null]});
    assert_eq!(write(&server, "POST", path, &body).await.0, 422, "no name of a finalizer");
}

async fn every_served_version_shows_the_same_objects() {
    let (_server, client) = server(vec![widget_definition()]).await;
    let mut body = widget("a", &json!({"replicas": 3}));
    body["apiVersion"] = "g.example/v2".into();
    let created = client.create(&widgets("v2"), &body).await.expect("create");
    assert_eq!(created.api_version(), "g.example/v2");
    let key = ObjectKey::namespaced("default", "a");
    for version in ["v1", "v2"] {
        let read = client.get(&widgets(version), &key).await.expect("get");
        assert_eq!(read.api_version(), format!("g.example/{version}"));
        assert_eq!(read.uid(), created.uid());
    }
}

async fn installed_definitions_are_ready_and_written_only_on_change() {
    let store = crate::engine::store().await;
    let key = ObjectKey::cluster("widgets.g.example");
    let read = |client: Client| {
        let key = key.clone();
        async move { client.get(&definitions(), &key).await.expect("installed") }
    };
    let (first, client) = start(&store, vec![widget_definition()]).await.expect("starts");
    let (status, _) = document(&first, "/apis/g.example/v1/widgets", "*/*").await;
    assert_eq!(status, 200);
    let installed: Arc<Object> = read(client).await;
    assert!(is("Established", "True")(Some(&installed.to_value().expect("JSON"))));
    first.shutdown();

    let (second, client) = start(&store, vec![widget_definition()]).await.expect("starts");
    assert_eq!(read(client).await.resource_version(), installed.resource_version());
    second.shutdown();

    let mut changed = widget_definition();
    changed["spec"]["names"]["shortNames"] = json!(["wd", "wdg"]);
    let (_third, client) = start(&store, vec![changed]).await.expect("starts");
    let updated = read(client).await;
    assert_eq!((updated.uid(), updated.generation()), (installed.uid(), 2));

    let mut broken = widget_definition();
    broken["spec"]["versions"][0]["storage"] = json!(false);
    let refused = start(&crate::engine::store().await, vec![broken]).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("exactly one version")));
}

async fn a_clashing_kind_waits_until_the_name_is_free() {
    let (_server, client) = server(vec![widget_definition()]).await;
    let mut competing = widget_definition();
    competing["metadata"]["name"] = "gadgets.g.example".into();
    competing["spec"]["names"] = json!({"plural": "gadgets", "singular": "gadget", "kind": "Widget"});
    client.create(&definitions(), &competing).await.expect("create");
    until(&client, "gadgets.g.example", is("NamesAccepted", "False")).await;
    client
        .delete(&definitions(), &ObjectKey::cluster("widgets.g.example"), &DeleteOptions::default())
        .await
        .expect("delete");
    until(&client, "gadgets.g.example", is("Established", "True")).await;
}

/// Posts or puts a tree, and reads the answer.
async fn write(server: &ApiServer, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .extension(Identity::system("test"))
        .body(transport::full(body.to_string()))
        .expect("a request");
    send(server, request).await
}

async fn rules_are_checked_when_definitions_and_objects_are_written() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const WIDGETS: &str = "/apis/g.example/v1/namespaces/default/widgets";
    let (server, client) = server(Vec::new()).await;
    let mut definition = widget_definition();
    definition["spec"]["versions"].as_array_mut().expect("versions").truncate(1);
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["x-kubernetes-validations"] = json!([{"rule": "self.replica < 5"}]);
    let (code, refused) = write(&server, "POST", DEFINITIONS, &definition).await;
    let cause = &refused["details"]["causes"][0];
    assert_eq!((code, &cause["reason"]), (422, &json!("FieldValueInvalid")));
    assert_eq!(cause["field"], "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule");
    let text = cause["message"].as_str().expect("a text");
    assert!(
        text.ends_with(
            "compilation failed: ERROR: <input>:1:5: undefined field 'replica'\n | self.replica < 5\n | ....^"
        ),
        "{text}"
    );

    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["x-kubernetes-validations"] = json!([
        {"rule": "!has(self.color) || self.color != 'blue' || self.replicas > 1", "reason": "FieldValueForbidden",
            "fieldPath": ".color", "messageExpression": "self.replicas > 0 ? 'blue needs more' : 'blue needs some'"},
        {"rule": "!has(oldSelf.color) || self.color == oldSelf.color", "message": "color is immutable"}]);
    schema["properties"]["status"]["x-kubernetes-validations"] =
        json!([{"rule": "self.replicas >= 0", "message": "negative"}]);
    let (code, accepted) = write(&server, "POST", DEFINITIONS, &definition).await;
    assert_eq!(code, 201, "{accepted}");
    until(&client, "widgets.g.example", is("Established", "True")).await;

    // Metadata is read as of every other kind.
    for (metadata, expected) in [
        (json!({"name": "a", "labels": {"a": 1}}), "number into Go struct field ObjectMeta.labels of type string"),
        (json!({"name": "a", "finalizers": "x"}), "string into Go struct field ObjectMeta.finalizers of type []string"),
    ] {
        let object = json!({"apiVersion": "g.example/v1", "kind": "Widget", "metadata": metadata});
        let (code, refused) = write(&server, "POST", WIDGETS, &object).await;
        let text =
            format!(r#"Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal {expected}"#);
        assert_eq!((code, &refused["message"]), (400, &json!(text)));
    }

    let (code, refused) = write(&server, "POST", WIDGETS, &widget("a", &json!({"color": "blue"}))).await;
    assert_eq!((code, &refused["reason"]), (422, &json!("Invalid")));
    assert_eq!(refused["message"], "Widget.g.example \"a\" is invalid: spec.color: Forbidden: blue needs more");
    assert_eq!(
        refused["details"]["causes"],
        json!([{"reason": "FieldValueForbidden", "message": "Forbidden: blue needs more", "field": "spec.color"}])
    );
    let (code, mut created) = write(&server, "POST", WIDGETS, &widget("a", &json!({"color": "red"}))).await;
    assert_eq!(code, 201, "{created}");
    created["spec"]["color"] = json!("blue");
    created["spec"]["replicas"] = json!(2);
    let (code, refused) = write(&server, "PUT", &format!("{WIDGETS}/a"), &created).await;
    assert_eq!(code, 422);
    assert_eq!(refused["message"], "Widget.g.example \"a\" is invalid: spec: Invalid value: color is immutable");
    created["status"] = json!({"replicas": -1});
    let (code, refused) = write(&server, "PUT", &format!("{WIDGETS}/a/status"), &created).await;
    assert_eq!(code, 422);
    assert_eq!(
        refused["message"],
        "Widget.g.example \"a\" is invalid: [.status.replicas: Invalid value: -1: should be a non-negative integer, \
         status: Invalid value: negative]"
    );
    let (code, refused) = write(&server, "POST", WIDGETS, &widget("b", &json!({"color": 5}))).await;
    assert_eq!(code, 422);
    assert_eq!(
        refused["details"]["causes"][2],
        json!({"reason": "FieldValueInvalid", "field": "<nil>",
            "message": "Invalid value: null: some validation rules were not checked because the object was invalid; \
                        correct the existing errors to complete validation"}),
        "{refused}"
    );
}
