//! `test/integration/evictions`.

use serde_json::json;

use super::call;
use crate::parity::send;

/// `TestEvictionWithFinalizers` and related: a pod that terminates slowly reports the reason of its eviction; a dry run
/// changes nothing.
#[tokio::test]
async fn evicted_pods_have_the_reason() {
    let (server, _client) = crate::objects::server().await;
    let path = "/api/v1/namespaces/default/pods";
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(call(&server, "POST", path, &pod).await.code, 201);
    let item = format!("{path}/p");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    for (query, expected) in [("?dryRun=All", 0), ("", 1)] {
        assert_eq!(call(&server, "POST", &format!("{item}/eviction{query}"), &eviction).await.code, 201);
        let pod = send(&server, "GET", &item, &[], "").await.json();
        assert_eq!(pod["metadata"]["deletionTimestamp"].is_string(), expected == 1);
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let found: Vec<_> = conditions.filter(|condition| condition["type"] == "DisruptionTarget").collect();
        assert_eq!(found.len(), expected, "{pod}");
        if let [found] = found.as_slice() {
            assert_eq!(
                (&found["reason"], &found["message"]),
                (&json!("EvictionByEvictionAPI"), &json!("Eviction API: evicting"))
            );
        }
    }
}

/// `TestEvictionWithPrecondition`: a precondition that does not hold leaves the pod unchanged, and the condition that an
/// eviction adds does not break one.
#[tokio::test]
async fn evictions_have_preconditions() {
    let (server, _client) = crate::objects::server().await;
    let path = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let created = call(&server, "POST", path, &pod).await.json();
    let (uid, version) = (&created["metadata"]["uid"], &created["metadata"]["resourceVersion"]);
    let item = format!("{path}/p");
    for (preconditions, expected) in [
        (json!({"uid": "other"}), Some("UID")),
        (json!({"uid": uid, "resourceVersion": "1"}), Some("ResourceVersion")),
        (json!({"uid": uid, "resourceVersion": version}), None),
    ] {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
            "deleteOptions": {"preconditions": preconditions}});
        let evicted = call(&server, "POST", &format!("{item}/eviction"), &eviction).await;
        let Some(expected) = expected else {
            assert_eq!(evicted.code, 201, "{}", evicted.shown());
            break;
        };
        assert_eq!(evicted.code, 409, "{}", evicted.shown());
        assert!(evicted.shown().contains(&format!("the {expected} in the precondition")), "{}", evicted.shown());
        assert_eq!(send(&server, "GET", &item, &[], "").await.json(), created);
    }
    assert_eq!(send(&server, "GET", &item, &[], "").await.code, 404);
}
