//! From the unit tests of kube-apiserver's patch libraries: tolerated patches, and the errors for others.

use serde_json::json;

use super::{JSON_PATCH, MERGE, call, patch};
use crate::objects::server;

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

#[tokio::test]
async fn patches_are_tolerated_and_refused_as_by_upstreams_libraries() {
    let (server, _) = server().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    call(&server, "POST", "/api/v1/namespaces", &namespace).await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}}}});
    assert_eq!(call(&server, "POST", DEPLOYMENTS, &deployment).await.code, 201);
    let rejected = "422 Invalid the server rejected our request due to an error in our request";
    let pod = |spec: &str| format!(r#"{{"spec":{{"template":{{"spec":{spec}}}}}}}"#);
    let nameless = "400 BadRequest the name of the object (d based on URL) was undeterminable: name must be provided";
    for (media_type, body, expected) in [
        (JSON_PATCH, r#"[{"op":"remove","path":"/metadata"}]"#.to_owned(), nameless),
        (MERGE, r#"{"metadata":{"name":null}}"#.into(), nameless),
        (JSON_PATCH, r#"[{"op":"remove","path":"/spec/template/spec/containers/-1"}]"#.into(), "200"),
        (JSON_PATCH, r#"[{"op":"remove","path":"/spec/template/spec/containers/-3"}]"#.into(), rejected),
        (JSON_PATCH, r#"[{"op":"add","path":"","value":{}}]"#.into(), rejected),
        (JSON_PATCH, r#"[{"op":"test","path":"/spec/none/none","value":null}]"#.into(), rejected),
        (JSON_PATCH, r#"[{"op":"test","path":"/spec/none","value":null}]"#.into(), "200"),
        (JSON_PATCH, "null".into(), "200"),
        (
            JSON_PATCH,
            r#"[{"op":5}]"#.into(),
            "400 BadRequest error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type \
             string",
        ),
        (MERGE, "null".into(), "400 BadRequest Invalid JSON Patch"),
        (STRATEGIC, "null".into(), "200"),
        (STRATEGIC, pod(r#"{"containers":[["x"]]}"#), "500  list element types are not identical"),
        (STRATEGIC, pod(r#"{"tolerations":[["x"]]}"#), "422 Invalid  \"\" is invalid: patch: "),
        (
            STRATEGIC,
            pod(r#"{"$setElementOrder/containers":["a"],"containers":[{"name":"a"}]}"#),
            "500  expected a map[string]interface {}, but received a string",
        ),
        (
            STRATEGIC,
            pod(r#"{"$setElementOrder/bogus":[]}"#),
            "500  unable to find api field in struct PodSpec for the json field \"bogus\"",
        ),
        (
            STRATEGIC,
            r#"{"metadata":{"$setElementOrder":[]}}"#.into(),
            "400 BadRequest invalid patch format of setElementOrder list",
        ),
        (STRATEGIC, r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":null}}"#.into(), "200"),
    ] {
        let reply = patch(&server, &format!("{DEPLOYMENTS}/d?dryRun=All"), media_type, &body).await;
        let shown = if reply.code == 200 { "200".to_owned() } else { reply.shown() };
        assert!(shown.starts_with(expected), "{body}: {shown}");
    }
}
