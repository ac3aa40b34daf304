//! Discovery over the built-in resources.

use http::HeaderMap;
use http_body_util::BodyExt;
use serde_json::Value;

use super::*;

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.clone(), value.parse().expect("a header"))).collect()
}

async fn json(response: Response) -> Value {
    let body = response.into_body().collect().await.expect("held in memory").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}

#[tokio::test]
async fn groups_are_listed_by_priority() {
    let discovery = Discovery::new(kubernetes_api::resources());
    let groups = json(discovery.get("/apis", None, &HeaderMap::new()).expect("served")).await;
    let names: Vec<&str> =
        groups["groups"].as_array().expect("a list").iter().filter_map(|g| g["name"].as_str()).collect();
    assert_eq!(names[..2], ["apiregistration.k8s.io", "apps"]);
    let at = |name: &str| names.iter().position(|known| *known == name);
    assert!(at("apps") < at("batch") && at("batch") < at("rbac.authorization.k8s.io"), "{names:?}");
    let autoscaling = json(discovery.get("/apis/autoscaling", None, &HeaderMap::new()).expect("served")).await;
    assert_eq!(autoscaling["preferredVersion"]["version"], "v2");
    assert!(discovery.get("/apis/none.example", None, &HeaderMap::new()).is_none());
    assert!(discovery.get("/apis/apps/v9", None, &HeaderMap::new()).is_none());
}

#[tokio::test]
async fn documents_read_as_kube_apiserver_writes_them() {
    let discovery = Discovery::new(kubernetes_api::resources());
    let text = async |path: &str| -> String {
        let response = discovery.get(path, Some("api.example"), &HeaderMap::new()).expect("served");
        let body = response.into_body().collect().await.expect("held in memory").to_bytes();
        String::from_utf8(body.to_vec()).expect("text")
    };
    let verbs = r#"["create","delete","deletecollection","get","list","patch","update","watch"]"#;
    for (path, part) in [
        (
            "/api",
            r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"api.example"}]}"#.to_owned(),
        ),
        (
            "/apis/apps",
            r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"#.into(),
        ),
        ("/api/v1", r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"bindings","#.into()),
        (
            "/api/v1",
            format!(
                r#"{{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":{verbs},"shortNames":["cm"],"storageVersionHash":"#
            ),
        ),
        (
            "/apis/apps/v1",
            r#"{"name":"deployments/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["#.into(),
        ),
    ] {
        let whole = text(path).await;
        assert!(whole.contains(&part), "{path}: {part} is not in {whole}");
    }
}

#[tokio::test]
async fn subresources_name_their_own_kind() {
    let discovery = Discovery::new(kubernetes_api::resources());
    let list = json(discovery.get("/apis/apps/v1", None, &HeaderMap::new()).expect("served")).await;
    let rows = list["resources"].as_array().expect("a list");
    let scale = rows.iter().find(|row| row["name"] == "deployments/scale").expect("a row");
    assert_eq!((&scale["group"], &scale["kind"]), (&"autoscaling".into(), &"Scale".into()));
    let status = rows.iter().find(|row| row["name"] == "deployments/status").expect("a row");
    assert!(status.get("group").is_none());
}

#[tokio::test]
async fn the_aggregated_form_is_cached_by_entity_tag() {
    let discovery = Discovery::new(kubernetes_api::resources());
    let accept = [(header::ACCEPT, V2)];
    let response = discovery.get("/apis", None, &headers(&accept)).expect("served");
    let type_ = response.headers()[header::CONTENT_TYPE].to_str().expect("text").to_owned();
    assert_eq!(type_, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    let etag = response.headers()[header::ETAG].to_str().expect("text").to_owned();
    let list = json(response).await;
    assert_eq!(list["items"][1]["metadata"]["name"], "apps");
    assert_eq!(list["items"][0]["versions"][0]["freshness"], "Current");
    let again = discovery.get("/apis", None, &headers(&[(header::ACCEPT, V2), (header::IF_NONE_MATCH, &etag)]));
    assert_eq!(again.expect("served").status(), StatusCode::NOT_MODIFIED);
    let core = json(discovery.get("/api", None, &headers(&accept)).expect("served")).await;
    assert_eq!(core["items"][0]["metadata"], serde_json::json!({}));
    let refused = discovery.get("/apis", None, &headers(&[(header::ACCEPT, "text/html")])).expect("served");
    assert_eq!(refused.status(), StatusCode::NOT_ACCEPTABLE);
}
