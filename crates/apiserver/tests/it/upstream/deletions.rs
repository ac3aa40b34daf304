//! `test/integration/apiserver/apidefinitions`.

use apiserver::ApiServer;
use serde_json::{Value, json};

use super::{MERGE, call, patch};
use crate::parity::send;

/// `TestDefaultGarbageCollectionPolicy`: the garbage collector does not see events, so they are deleted at once.
#[tokio::test]
async fn events_wait_for_no_dependents() {
    let (server, _client) = crate::objects::server().await;
    let path = "/api/v1/namespaces/default/events";
    let event =
        json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}});
    for policy in ["Foreground", "Orphan"] {
        assert_eq!(call(&server, "POST", path, &event).await.code, 201);
        let options = json!({"propagationPolicy": policy});
        assert_eq!(call(&server, "DELETE", &format!("{path}/e"), &options).await.code, 200);
        assert_eq!(send(&server, "GET", &format!("{path}/e"), &[], "").await.code, 404, "{policy}");
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn map_with(server: &ApiServer, name: &str, finalizers: &[&str]) -> (String, Value) {
    let object = json!({"metadata": {"name": name, "finalizers": finalizers}});
    let created = call(server, "POST", MAPS, &object).await.json();
    (format!("{MAPS}/{name}"), created)
}

/// `Convert_url_Values_To_v1_DeleteOptions`: the query of a DELETE may have preconditions.
#[tokio::test]
async fn preconditions_of_the_query_are_checked() {
    let (server, _client) = crate::objects::server().await;
    let (path, object) = map_with(&server, "a", &[]).await;
    let (uid, version) = (&object["metadata"]["uid"], &object["metadata"]["resourceVersion"]);
    let (uid, version) = (uid.as_str().expect("a UID"), version.as_str().expect("a version"));
    let conflict = "409 Conflict Operation cannot be fulfilled on ConfigMap \"a\": the";
    for (query, expected) in [
        ("uid=x", format!("{conflict} UID in the precondition (x) does not match the UID in record ({uid})")),
        (
            "resourceVersion=1",
            format!(
                "{conflict} ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version})"
            ),
        ),
        (
            "propagationPolicy=",
            "422 Invalid DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"\"".into(),
        ),
        ("gracePeriodSeconds=", "400 BadRequest strconv.ParseInt: parsing \"\": invalid syntax".into()),
        ("uid=&resourceVersion=&dryRun=All", "200".into()),
    ] {
        let shown = send(&server, "DELETE", &format!("{path}?{query}"), &[], "").await.shown();
        assert!(shown.starts_with(&expected), "{query}: {shown}");
    }
    let matching = format!("{path}?uid={uid}&resourceVersion={version}");
    assert_eq!(send(&server, "DELETE", &matching, &[], "").await.code, 200);
}

/// `TestNonGracefulStoreHandleFinalizers` and others of the generic store: without a policy, the finalizers of the object
/// for the garbage collector are its policy.
#[tokio::test]
async fn a_deletion_without_a_policy_keeps_the_policy_of_the_object() {
    let (server, _client) = crate::objects::server().await;
    for (finalizers, query, expected) in [
        (&["orphan"][..], "", json!(["orphan"])),
        (&["foregroundDeletion"], "", json!(["foregroundDeletion"])),
        (&["example.com/hold", "orphan"], "", json!(["example.com/hold", "orphan"])),
        (&["example.com/hold", "orphan"], "?propagationPolicy=Background", json!(["example.com/hold"])),
        (&["orphan"], "?propagationPolicy=Foreground", json!(["foregroundDeletion"])),
        (&["foregroundDeletion"], "?orphanDependents=true", json!(["orphan"])),
        (&["foregroundDeletion"], "?orphanDependents=false", Value::Null),
    ] {
        let (path, _) = map_with(&server, "a", finalizers).await;
        let deleted = send(&server, "DELETE", &format!("{path}{query}"), &[], "").await.json();
        assert_eq!(deleted["metadata"]["finalizers"], expected, "{finalizers:?} {query}");
        // A second one does not end the waiting for the dependents.
        if query.is_empty() {
            let again = send(&server, "DELETE", &path, &[], "").await.json();
            assert_eq!(again["metadata"]["finalizers"], expected, "{finalizers:?}");
        }
        let released = r#"{"metadata":{"finalizers":null}}"#;
        patch(&server, &path, MERGE, released).await;
    }
}

/// The decoder of options: their kind is optional, their version is not checked beyond its form.
#[tokio::test]
async fn the_type_of_delete_options_is_checked() {
    let (server, _client) = crate::objects::server().await;
    let path = format!("{MAPS}/none");
    let missing = "404 NotFound configmaps \"none\" not found";
    let read_into =
        r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let unreadable = "400 BadRequest couldn't get version/kind; json parse error: json: cannot unmarshal";
    for (body, expected) in [
        (r#"{"kind":"DeleteOptions","apiVersion":"v1"}"#, missing.to_owned()),
        (r#"{"kind":"DeleteOptions","apiVersion":"none/v1"}"#, missing.to_owned()),
        ("null", missing.to_owned()),
        (
            r#"{"kind":"DeleteOptions","apiVersion":"a/b/c"}"#,
            "400 BadRequest unexpected GroupVersion string: a/b/c".to_owned(),
        ),
        (
            r#"{"kind":"Foo","apiVersion":"v1"}"#,
            "400 BadRequest no kind \"Foo\" is registered for version \"v1\"".to_owned(),
        ),
        ("[]", format!("{unreadable} array into Go value of type {read_into}")),
        (r#"{"kind":1}"#, format!("{unreadable} number into Go struct field .kind of type string")),
    ] {
        let json = [("content-type", "application/json")];
        assert_eq!(send(&server, "DELETE", &path, &json, body).await.shown(), expected, "{body}");
    }
}
