//! Writing back the object that was read, in any way, changes nothing: the revision stays, and no watch gets an event.

use serde_json::{Value, json};

use super::bodies::{KINDS, Kind, join};
use super::run::Run;
use super::watchers::bare;

impl Run {
    pub(super) async fn check_no_change(&mut self) {
        self.check().await;
        let kind: &'static Kind = self.dice.pick(KINDS);
        let (namespace, name) = (*self.dice.pick(&["one", "two"]), *self.dice.pick(&["a", "b", "c", "d", "e"]));
        let key = if kind.namespaced { format!("{namespace}/{name}") } else { format!("/{name}") };
        let Some(mut object) = self.current(kind, &key) else { return };
        join(&mut object, json!({"apiVersion": kind.api_version, "kind": kind.kind}));
        let path = kind.path(namespace, name);
        let merge = "application/merge-patch+json";
        self.nothing(&path, "PUT", "application/json", &object, &object).await;
        self.nothing(&path, "PATCH", merge, &json!({}), &object).await;
        let same = json!([{"op": "replace", "path": "/metadata/name", "value": name}]);
        self.nothing(&path, "PATCH", "application/json-patch+json", &same, &object).await;
        if !kind.custom {
            self.nothing(&path, "PATCH", "application/strategic-merge-patch+json", &json!({}), &object).await;
            let whole = bare(&object);
            self.nothing(&path, "PATCH", "application/strategic-merge-patch+json", &whole, &object).await;
        }
        self.nothing(&path, "PATCH", merge, &object, &object).await;
        if kind.status {
            self.nothing(&format!("{path}/status"), "PUT", "application/json", &object, &object).await;
            self.nothing(&format!("{path}/status"), "PATCH", merge, &json!({}), &object).await;
        }
        // A custom resource without replicas reads as scaled to zero, and writing that sets it.
        if kind.scale && object["spec"]["replicas"].is_number() {
            let scale = self.send("GET", &format!("{path}/scale"), "", &Value::Null).await.body;
            let answer = self.send("PUT", &format!("{path}/scale"), "application/json", &scale).await;
            assert_eq!(answer.code, 200, "{}: {}", answer.what, answer.body);
            self.stays(&path, &object, &answer.what).await;
        }
        self.apply_what_was_read(&path, &object).await;
    }

    /// Each writer's own entry may be new, so only the content stays at the first time, and everything at the second.
    async fn apply_what_was_read(&mut self, path: &str, object: &Value) {
        let mut applied = object.clone();
        for field in ["managedFields", "resourceVersion", "uid", "creationTimestamp"] {
            if let Some(metadata) = applied["metadata"].as_object_mut() {
                metadata.remove(field);
            }
        }
        if applied["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        let url = format!("{path}?fieldManager=reader");
        let content_type = "application/apply-patch+yaml";
        let answer = self.send("PATCH", &url, content_type, &applied).await;
        assert_eq!(answer.code, 200, "{}: {}", answer.what, answer.body);
        let content = |object: &Value| {
            let mut object = object.clone();
            for field in ["managedFields", "resourceVersion"] {
                object["metadata"].as_object_mut().expect("metadata").remove(field);
            }
            object
        };
        assert_eq!(content(&answer.body), content(object), "{}", answer.what);
        self.nothing(&url, "PATCH", content_type, &applied, &answer.body).await;
    }

    async fn nothing(&self, path: &str, method: &str, content_type: &str, body: &Value, object: &Value) {
        let answer = self.send(method, path, content_type, body).await;
        assert_eq!(answer.code, 200, "{}: {}", answer.what, answer.body);
        assert_eq!(answer.body, *object, "{} {content_type} changes something", answer.what);
        self.stays(path, object, &answer.what).await;
    }

    async fn stays(&self, path: &str, object: &Value, what: &str) {
        let path = path.split(['?']).next().unwrap_or(path).trim_end_matches("/status");
        let read = self.send("GET", path, "", &Value::Null).await.body;
        assert_eq!(read, *object, "after {what}");
    }
}
