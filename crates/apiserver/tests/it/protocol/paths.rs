//! Paths and methods: the served ones, and the responses to others.

use super::{CM, with_config_maps};
use crate::parity::send;

const NOT_ALLOWED: &str = "405 MethodNotAllowed the server does not allow this method on the requested resource";
const NO_RESOURCE: &str = "404 NotFound the server could not find the requested resource";

#[tokio::test]
async fn methods_that_a_path_does_not_have_are_refused() {
    let server = with_config_maps().await;
    for (method, path, expected) in [
        ("PUT", "/api", NOT_ALLOWED),
        ("POST", "/api/v1", NOT_ALLOWED),
        ("PATCH", "/apis/apps/v1", NOT_ALLOWED),
        ("FOO", "/version", NOT_ALLOWED),
        ("PUT", "/apis/none.example", "404 404 page not found"),
        ("PUT", "/api/v9", NO_RESOURCE),
        ("GET", "/apis/apps/v9/nope", NO_RESOURCE),
        ("GET", "/apis/none.example/v1/nope", "404 404 page not found"),
        ("GET", "/openapi/v3/", "404 404 page not found"),
        ("DELETE", "/api/v1/watch/namespaces/default/configmaps/a", NOT_ALLOWED),
        ("DELETE", "/api/v1/watch/namespaces/default/configmaps", NOT_ALLOWED),
        ("HEAD", "/api/v1/watch/configmaps", NOT_ALLOWED),
        ("POST", "/api/v1/watch/namespaces/default/serviceaccounts/a/token", NO_RESOURCE),
        ("GET", "/api/v1/watch/namespaces/default/pods/a/log", NO_RESOURCE),
        ("POST", "/apis/authorization.k8s.io/v1/watch/subjectaccessreviews", NOT_ALLOWED),
        ("GET", "/api/v1/namespaces/default/status/x", NO_RESOURCE),
        ("GET", "/api/v1/nodes/..", "400 BadRequest Name parameter invalid: \"..\": may not be '..'"),
        ("DELETE", "/api/v1/nodes/.", "400 BadRequest Name parameter invalid: \".\": may not be '.'"),
        ("GET", "/api/v1/namespaces/default/namespaces", NO_RESOURCE),
        ("GET", "/api/v1/namespaces/default/nodes", NO_RESOURCE),
        ("GET", "/api/v1/watch/nope", NO_RESOURCE),
        ("GET", "/api/v1/watch/componentstatuses", NO_RESOURCE),
        (
            "GET",
            "/api/v1/componentstatuses?watch=1",
            "405 MethodNotAllowed watch is not supported on resources of kind \"componentstatuses\"",
        ),
        ("POST", "/api/v1/configmaps", NOT_ALLOWED),
        ("PUT", CM, NOT_ALLOWED),
        ("OPTIONS", CM, NOT_ALLOWED),
    ] {
        assert_eq!(send(&server, method, path, &[], "").await.shown(), expected, "{method} {path}");
    }
    let a = format!("{CM}/a");
    let unnamed = send(&server, "PUT", &a, &[("content-type", "application/json")], r#"{"data":{}}"#).await.shown();
    assert_eq!(
        unnamed,
        "400 BadRequest the name of the object (a based on URL) was undeterminable: name must be provided"
    );
}

/// Upstream registers these handlers without a method.
#[tokio::test]
async fn documents_outside_of_the_router_are_served_to_every_method() {
    let server = with_config_maps().await;
    for path in ["/", "/apis", "/apis/", "/apis/apps", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"] {
        for method in ["HEAD", "POST", "OPTIONS"] {
            assert_eq!(send(&server, method, path, &[], "").await.code, 200, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn legacy_discovery_is_served_in_every_media_type() {
    let server = with_config_maps().await;
    let host = [("host", "api.example:6443")];
    let versions = send(&server, "GET", "/api", &host, "").await.json();
    assert_eq!(versions["serverAddressByClientCIDRs"][0]["serverAddress"], "api.example:6443");
    let yaml = send(&server, "GET", "/apis/apps/v1", &[("accept", "application/yaml")], "").await;
    assert!(
        yaml.body.starts_with(b"apiVersion: v1\ngroupVersion: apps/v1\nkind: APIResourceList\n"),
        "{}",
        yaml.shown()
    );
    let protobuf = [("accept", "application/vnd.kubernetes.protobuf")];
    for path in ["/apis", "/apis/apps", "/apis/apps/v1", "/api/v1"] {
        let binary = send(&server, "GET", path, &protobuf, "").await;
        let decoded = kubernetes_api::protobuf::decode(&binary.body).expect(path);
        let mut plain = send(&server, "GET", path, &[], "").await.json();
        // Defaults of protobuf: an empty name and `false` are not sent.
        for tree in [&mut plain["resources"]] {
            for row in tree.as_array_mut().into_iter().flatten().filter_map(|row| row.as_object_mut()) {
                row.retain(|_, value| value != "" && value != false);
            }
        }
        let rows = |tree: &serde_json::Value| tree["resources"].as_array().map_or(0, Vec::len);
        assert_eq!((&decoded["kind"], rows(&decoded)), (&plain["kind"], rows(&plain)), "{path}");
    }
    let rows = send(&server, "GET", "/api/v1", &[], "").await.json();
    let row = rows["resources"].as_array().expect("rows").iter().find(|row| row["name"] == "configmaps");
    assert_eq!(row.expect("ConfigMaps")["storageVersionHash"], "qFsyl6wFWjQ=");
}
