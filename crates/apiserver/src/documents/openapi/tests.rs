//! Documents over the built-in resources and a custom one.

use apiextensions::{Compilation, CustomResourceDefinition};
use http::HeaderMap;
use http_body_util::BodyExt;

use super::*;

const GROUP: &str = "wire.example.com";

fn definition() -> Value {
    json!({"metadata": {"name": "widgets.wire.example.com"}, "spec": {"group": "wire.example.com",
        "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".spec.size"}], "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "description": "What is wanted.", "properties": {
                "size": {"type": "integer", "nullable": true, "default": 1, "minimum": 0},
                "port": {"x-kubernetes-int-or-string": true}}}}}}}]}})
}

fn open_api() -> OpenApi {
    let crd = CustomResourceDefinition::from_value(&definition()).expect("a definition");
    let custom = apiextensions::resources(&crd, &Compilation::default());
    OpenApi::new(kubernetes_api::resources().into_iter().chain(custom), "v1.36.0", jiff::Timestamp::UNIX_EPOCH)
}

/// The definitions in the store.
fn stored(name: &str) -> Option<Arc<Object>> {
    let json = definition().to_string();
    (name == format!("widgets.{GROUP}")).then(|| Object::parse(json).expect("an object").shared())
}

async fn get(open_api: &OpenApi, uri: &str) -> Value {
    let response = open_api.get(&uri.parse().expect("a uri"), &HeaderMap::new(), &stored).expect("served");
    assert_eq!(response.status(), StatusCode::OK, "{uri}");
    let body = response.into_body().collect().await.expect("held in memory").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}

/// Every `$ref` of a document must refer to an existing definition.
fn check_references(value: &Value, definitions: &Value, prefix: &str) {
    match value {
        Value::Object(map) => {
            let target = map.get("$ref").and_then(Value::as_str);
            // Parameters and types are in different places.
            if let Some(target) = target.filter(|it| it.contains("/parameters/") == prefix.contains("/parameters/")) {
                let name = target.strip_prefix(prefix).unwrap_or_else(|| panic!("{target}"));
                assert!(definitions[name].is_object(), "{name} is not defined");
            }
            map.values().for_each(|child| check_references(child, definitions, prefix));
        }
        Value::Array(items) => items.iter().for_each(|child| check_references(child, definitions, prefix)),
        _ => {}
    }
}

#[tokio::test]
async fn every_v3_document_is_whole_and_stays_at_its_address() {
    let open_api = open_api();
    let index = get(&open_api, "/openapi/v3").await;
    let paths = index["paths"].as_object().expect("an object");
    assert!(paths.contains_key("api/v1") && paths.contains_key("apis/wire.example.com/v1"));
    for (path, entry) in paths {
        let document = get(&open_api, entry["serverRelativeURL"].as_str().expect("an address")).await;
        check_references(&document, &document["components"]["schemas"], "#/components/schemas/");
        assert!(!document["paths"].as_object().expect("an object").is_empty(), "{path}");
    }
    let stale = open_api.get(&"/openapi/v3/apis/apps/v1?hash=OLD".parse().expect("a uri"), &HeaderMap::new(), &stored);
    let stale = stale.expect("served");
    assert_eq!(stale.status(), StatusCode::MOVED_PERMANENTLY);
    assert_eq!(stale.headers()[header::LOCATION], paths["apis/apps/v1"]["serverRelativeURL"].as_str().expect("text"));
    let any = "/openapi/v3/apis/apps/v1?hash=".parse().expect("a uri");
    let etag = stale.headers()[header::ETAG].to_str().expect("text").to_owned();
    for (name, value, code) in [
        (header::USER_AGENT, "any", 200),
        (header::IF_NONE_MATCH, &*format!("\"x\", W/{etag}"), 304),
        (header::IF_NONE_MATCH, &*etag.to_lowercase(), 200),
        (header::IF_MODIFIED_SINCE, "Fri, 01 Jan 2100 00:00:00 GMT", 304),
        (header::IF_MODIFIED_SINCE, "Wed, 01 Jan 1969 00:00:00 GMT", 200),
        (header::IF_MODIFIED_SINCE, "soon", 200),
    ] {
        let headers = HeaderMap::from_iter([(name, value.parse().expect("a header"))]);
        let response = open_api.get(&any, &headers, &stored).expect("served");
        assert_eq!(response.status(), code, "{value}");
        assert_eq!(response.headers().contains_key(header::LAST_MODIFIED), code == 200);
    }
    assert!(open_api.get(&"/openapi/v3/apis/none/v1".parse().expect("a uri"), &HeaderMap::new(), &stored).is_none());
}

/// Counts the fields below a schema, and collects those without a description, which kubectl explain would print as
/// `<no description>`.
fn undescribed(path: &str, schema: &Value, found: &mut Vec<String>) -> usize {
    let mut count = 0;
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if property["description"].as_str().is_none_or(str::is_empty) {
            found.push(path.clone());
        }
        count += 1 + undescribed(&path, property, found);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            count += undescribed(path, &schema[inner], found);
        }
    }
    count
}

#[tokio::test]
async fn every_field_that_is_served_is_described() {
    let open_api = open_api();
    let (mut found, mut count) = (Vec::new(), 0);
    let index = get(&open_api, "/openapi/v3").await;
    let mut documents = vec![get(&open_api, "/openapi/v2").await["definitions"].take()];
    for entry in index["paths"].as_object().expect("an object").values() {
        let address = entry["serverRelativeURL"].as_str().expect("an address");
        documents.push(get(&open_api, address).await["components"]["schemas"].take());
    }
    let kinds = documents.iter().flat_map(|document| document.as_object().expect("schemas"));
    // The custom kind describes only what its definition does.
    for (name, schema) in kinds.filter(|(name, _)| *name != "com.example.wire.v1.Widget") {
        assert!(schema["description"].as_str().is_some_and(|text| !text.is_empty()), "{name}");
        count += undescribed(name, schema, &mut found);
    }
    assert!(count > 5_000, "only {count} fields are served");
    assert!(found.is_empty(), "{} of {count} without a description: {found:#?}", found.len());
}

#[tokio::test]
async fn kubectl_finds_its_documents() {
    let document = get(&open_api(), "/openapi/v3/apis/apps/v1").await;
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let gvk = json!({"group": "apps", "kind": "Deployment", "version": "v1"});
    assert_eq!(patch["x-kubernetes-group-version-kind"], gvk);
    let names: Vec<&str> =
        patch["parameters"].as_array().expect("a list").iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"], json!([gvk]));
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    let quantity = &schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(quantity["oneOf"], json!([{"type": "string"}, {"type": "number"}]));
    assert!(quantity["type"].is_null() && quantity["description"].is_string());
}

#[tokio::test]
async fn v2_contains_only_v2_keywords() {
    let open_api = open_api();
    let document = get(&open_api, "/openapi/v2").await;
    check_references(&document, &document["definitions"], "#/definitions/");
    let widget = &document["definitions"]["com.example.wire.v1.Widget"];
    assert_eq!(widget["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    assert_eq!(widget["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.size"}]));
    let spec = &widget["properties"]["spec"]["properties"];
    assert_eq!(spec["size"], json!({"minimum": 0}));
    assert_eq!(spec["port"], json!({"x-kubernetes-int-or-string": true}));
    let mut headers = HeaderMap::new();
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    headers.insert(header::ACCEPT, accept.parse().expect("a header"));
    let uri = "/openapi/v2?timeout=32s".parse().expect("a uri");
    let response = open_api.get(&uri, &headers, &stored).expect("served");
    assert_eq!(response.headers()[header::CONTENT_TYPE], V2_PROTOBUF);
    assert_eq!(response.headers()[header::LAST_MODIFIED], "Thu, 01 Jan 1970 00:00:00 GMT");
    headers.insert(header::IF_MODIFIED_SINCE, response.headers()[header::LAST_MODIFIED].clone());
    assert_eq!(open_api.get(&uri, &headers, &stored).expect("served").status(), StatusCode::NOT_MODIFIED);
    // An etag, where there is one, decides.
    headers.insert(header::IF_NONE_MATCH, "\"other\"".parse().expect("a header"));
    assert_eq!(open_api.get(&uri, &headers, &stored).expect("served").status(), StatusCode::OK);
    headers.insert(header::IF_NONE_MATCH, response.headers()[header::ETAG].clone());
    assert_eq!(open_api.get(&uri, &headers, &stored).expect("served").status(), StatusCode::NOT_MODIFIED);
    headers.insert(header::ACCEPT, "text/html".parse().expect("a header"));
    assert_eq!(open_api.get(&uri, &headers, &stored).expect("served").status(), StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn operations_on_custom_resources_are_upstreams() {
    let open_api = open_api();
    let v3 = get(&open_api, "/openapi/v3/apis/wire.example.com/v1").await;
    let v2 = get(&open_api, "/openapi/v2").await;
    check_references(&v2, &v2["parameters"], "#/parameters/");
    let (all, some) = ("/apis/wire.example.com/v1/widgets", "/apis/wire.example.com/v1/namespaces/{namespace}/widgets");
    for document in [&v2, &v3] {
        let operation = |path: &str, method: &str| {
            let operation = &document["paths"][path][method];
            let codes: Vec<&String> = operation["responses"].as_object().expect("responses").keys().collect();
            format!("{} {} {codes:?}", operation["operationId"], operation["tags"][0]).replace('"', "")
        };
        for (path, method, expected) in [
            (all, "get", "listWireExampleComV1WidgetForAllNamespaces wireExampleCom_v1 [200, 401]"),
            (some, "get", "listWireExampleComV1NamespacedWidget wireExampleCom_v1 [200, 401]"),
            (some, "post", "createWireExampleComV1NamespacedWidget wireExampleCom_v1 [200, 201, 202, 401]"),
            (some, "delete", "deleteWireExampleComV1CollectionNamespacedWidget wireExampleCom_v1 [200, 401]"),
        ] {
            assert_eq!(operation(path, method), expected);
        }
        // The parameters of the only operation are those of its path.
        assert_eq!(document["paths"][all]["get"]["parameters"], Value::Null);
        assert_eq!(document["paths"][all]["parameters"].as_array().map(Vec::len), Some(11));
    }
    let body = &v3["paths"][&format!("{some}/{{name}}")]["delete"]["requestBody"];
    let options = json!({"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"});
    assert_eq!(body["content"]["application/yaml"]["schema"], options);
    assert_eq!(
        v3["components"]["schemas"]["com.example.wire.v1.Widget"]["properties"]["spec"]["properties"]["port"],
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})
    );
}

#[tokio::test]
async fn v3_is_served_in_the_preferred_media_type() {
    let open_api = open_api();
    let old = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    for (accept, expected) in [
        ("", "application/json"),
        ("*/*", "application/json"),
        (V3_PROTOBUF, V3_PROTOBUF),
        (old, V3_PROTOBUF),
        (&*format!("{V3_PROTOBUF}, application/json"), V3_PROTOBUF),
        (&*format!("{V3_PROTOBUF};q=0.5, application/json"), "application/json"),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().expect("a header"));
        let response =
            open_api.get(&"/openapi/v3/apis/apps/v1".parse().expect("a uri"), &headers, &stored).expect("served");
        assert_eq!(response.headers()[header::CONTENT_TYPE], expected, "{accept}");
    }
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, "text/html".parse().expect("a header"));
    let refused =
        open_api.get(&"/openapi/v3/apis/apps/v1".parse().expect("a uri"), &headers, &stored).expect("an answer");
    assert_eq!(refused.status(), StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn a_large_document_is_sent_as_the_client_accepts_it() {
    let open_api = open_api();
    let fetch = async |coding: &'static str| {
        let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, coding.parse().expect("a header"))]);
        let response = open_api.get(&"/openapi/v2".parse().expect("a uri"), &headers, &stored).expect("served");
        let (parts, body) = response.into_parts();
        let vary: Vec<_> = parts.headers.get_all(header::VARY).iter().cloned().collect();
        let encoding = parts.headers.get(header::CONTENT_ENCODING).cloned();
        (encoding, vary, body.collect().await.expect("held in memory").to_bytes())
    };
    let (encoding, vary, plain) = fetch("identity").await;
    assert_eq!((encoding, vary), (None, vec![HeaderValue::from_static("Accept")]));
    let (encoding, vary, packed) = fetch("gzip").await;
    assert_eq!(encoding, Some(HeaderValue::from_static("gzip")));
    assert_eq!(vary, ["Accept-Encoding", "Accept"]);
    assert!(packed.len() * 4 < plain.len(), "{} of {}", packed.len(), plain.len());
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut unpacked).expect("gzip");
    assert!(unpacked == plain, "both are one document");
    let document: Value = serde_json::from_slice(&plain).expect("JSON");
    let replicas = &document["definitions"]["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["replicas"];
    assert!(replicas["description"].as_str().is_some_and(|text| text.starts_with("Number of desired pods")));
}
