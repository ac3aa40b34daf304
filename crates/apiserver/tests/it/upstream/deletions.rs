//! `test/integration/apiserver/apidefinitions`.

use serde_json::json;

use super::call;
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
