//! Scale: read, replaced, patched and applied like a kind.

use apiserver::ApiServer;
use serde_json::{Value, json};

use super::get;
use crate::engine::on_every_engine;
use crate::parity::send;

on_every_engine! {
    alone: [
        a_scale_is_shown_in_every_form,
        a_scale_is_written_in_every_way,
        a_client_gets_the_scale_that_it_patched,
    ],
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SCALE: &str = "/apis/apps/v1/namespaces/default/deployments/d/scale";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

async fn with_deployment() -> ApiServer {
    let (server, _) = crate::objects::server().await;
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["x"]}]},
        "template": {"metadata": {"labels": {"a": "b", "c": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let created =
        send(&server, "POST", &format!("{DEPLOYMENTS}?fieldManager=maker"), &[], &deployment.to_string()).await;
    assert_eq!(created.code, 201, "{}", created.shown());
    server
}

async fn a_scale_is_shown_in_every_form() {
    let server = with_deployment().await;
    let scale = get(&server, SCALE, JSON).await.json();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(scale["status"], json!({"replicas": 0, "selector": "a=b,c in (x)"}));
    assert_eq!(scale["metadata"].get("managedFields"), None);
    let table = get(&server, SCALE, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").await.json();
    let columns: Vec<&str> =
        table["columnDefinitions"].as_array().expect("columns").iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(columns, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(table["rows"][0]["cells"].as_array().expect("cells")[..3], [json!("d"), json!(2), json!(0)]);
    let yaml = get(&server, SCALE, "application/yaml").await;
    assert!(yaml.body.starts_with(b"apiVersion: autoscaling/v1\nkind: Scale\n"), "{}", yaml.shown());
    let binary = get(&server, SCALE, "application/vnd.kubernetes.protobuf").await;
    let decoded = kubernetes_api::protobuf::decode(&binary.body).expect("a Scale");
    assert_eq!((&decoded["kind"], &decoded["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    let metadata = get(&server, SCALE, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").await.json();
    assert_eq!((&metadata["kind"], metadata.get("spec")), (&json!("PartialObjectMetadata"), None));
}

async fn a_scale_is_written_in_every_way() {
    let server = with_deployment().await;
    let put = |replicas: i64, more: Value| {
        let mut scale = json!({"metadata": {"name": "d"}, "spec": {"replicas": replicas}});
        for (key, value) in more.as_object().into_iter().flatten() {
            scale["metadata"][key] = value.clone();
        }
        scale.to_string()
    };
    let negative = "422 Invalid Scale.autoscaling \"d\" is invalid: spec.replicas: Invalid value: -3: must be greater than or \
                    equal to 0";
    let apply = |replicas: i64| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": replicas}})
            .to_string()
    };
    for (method, query, media_type, body, expected) in [
        ("PUT", "", JSON, put(3, json!({})), "3"),
        ("PUT", "", "application/yaml", "metadata: {name: d}\nspec: {replicas: 4}".into(), "4"),
        ("PUT", "?dryRun=All", JSON, put(9, json!({})), "9"),
        (
            "PATCH",
            "",
            "application/json-patch+json",
            r#"[{"op":"test","path":"/spec/replicas","value":4},
            {"op":"replace","path":"/spec/replicas","value":5}]"#
                .into(),
            "5",
        ),
        ("PATCH", "", MERGE, r#"{"spec":{"replicas":6}}"#.into(), "6"),
        ("PATCH", "", "application/strategic-merge-patch+json", r#"{"spec":{"replicas":7}}"#.into(), "7"),
        ("PATCH", "?fieldManager=applier&force=true", APPLY, apply(8), "8"),
        ("PATCH", "?fieldManager=applier", APPLY, apply(9), "9"),
        (
            "PATCH",
            "?fieldManager=other",
            APPLY,
            apply(10),
            "409 Conflict Apply failed with 1 conflict: conflict with \"applier\" with subresource \"scale\": .spec.replicas",
        ),
        ("PUT", "", JSON, put(-3, json!({})), negative),
        ("PATCH", "", MERGE, r#"{"spec":{"replicas":-3}}"#.into(), negative),
        (
            "PUT",
            "",
            JSON,
            put(1, json!({"name": "e"})),
            "400 BadRequest the name of the object (e) does not match the name on the URL (d)",
        ),
        (
            "PUT",
            "",
            JSON,
            r#"{"spec":{"replicas":1}}"#.into(),
            "400 BadRequest the name of the object (d based on URL) was undeterminable: name must be provided",
        ),
        (
            "PUT",
            "",
            JSON,
            put(1, json!({"resourceVersion": "1"})),
            "409 Conflict Operation cannot be fulfilled on deployments.apps \"d\": the object has been modified; please \
             apply your changes to the latest version and try again",
        ),
        (
            "PUT",
            "",
            JSON,
            r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"}}"#.into(),
            "400 BadRequest Deployment in version \"v1\" cannot be handled as a Scale: converting (v1.Deployment) to \
             (autoscaling.Scale): unknown conversion",
        ),
        (
            "PUT",
            "?fieldValidation=Strict",
            JSON,
            r#"{"metadata":{"name":"d"},"spec":{"replicas":1},"bogus":1}"#.into(),
            "400 BadRequest Scale in version \"v1\" cannot be handled as a Scale: strict decoding error: unknown field \
             \"bogus\"",
        ),
        (
            "PUT",
            "",
            JSON,
            r#"{"metadata":{"name":"d"},"spec":{"replicas":"1"}}"#.into(),
            "400 BadRequest Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal string into Go \
             struct field ScaleSpec.spec.replicas of type int32",
        ),
        ("PATCH", "", "text/plain", "{}".into(), "415 UnsupportedMediaType 415: Unsupported Media Type"),
    ] {
        let reply = send(&server, method, &format!("{SCALE}{query}"), &[("content-type", media_type)], &body).await;
        let found = if reply.code == 200 { reply.json()["spec"]["replicas"].to_string() } else { reply.shown() };
        assert_eq!(found, expected, "{method} {query} {body}");
    }
    let response = send(&server, "PUT", SCALE, &[("content-type", JSON)], &put(1, json!({"uid": "u"}))).await.shown();
    let why = "409 Conflict Operation cannot be fulfilled on deployments/scale.apps \"d\": Precondition failed: UID in \
               precondition: u, UID in object meta: ";
    assert!(response.starts_with(why), "{response}");
    let missing = send(&server, "PUT", &SCALE.replace("/d/", "/e/"), &[], &put(1, json!({"name": "e"}))).await;
    assert_eq!(missing.shown(), "404 NotFound deployments.apps \"e\" not found");

    let stored = get(&server, &format!("{DEPLOYMENTS}/d"), JSON).await.json();
    assert_eq!((&stored["spec"]["replicas"], &stored["metadata"]["generation"]), (&json!(9), &json!(8)));
    let owners = stored["metadata"]["managedFields"].as_array().expect("owners");
    let replicas: Vec<&Value> = owners.iter().filter(|o| !o["fieldsV1"]["f:spec"]["f:replicas"].is_null()).collect();
    assert_eq!(replicas.len(), 1, "{owners:?}");
    assert_eq!(
        (&replicas[0]["manager"], &replicas[0]["subresource"], &replicas[0]["apiVersion"], &replicas[0]["operation"]),
        (&json!("applier"), &json!("scale"), &json!("apps/v1"), &json!("Apply"))
    );
}

async fn a_client_gets_the_scale_that_it_patched() {
    let (_server, client) = crate::objects::server().await;
    let deployments = apimachinery::ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
    let object = json!({"metadata": {"name": "d", "namespace": "default"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    client.create(&deployments, &object).await.expect("created");
    let key = apimachinery::ObjectKey::namespaced("default", "d");
    let options = client::PatchOptions { subresource: Some("scale"), ..client::PatchOptions::default() };
    let patch = client::Patch::Merge(json!({"spec": {"replicas": 5}}));
    let scale = client.patch(&deployments, &key, &patch, &options).await.expect("the scale");
    let scale = scale.to_value().expect("an object");
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(5)));
}
