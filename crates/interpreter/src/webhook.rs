//! The layer of interpreter webhooks: selects the webhook, builds its request and reads its response. The caller sends
//! it: a [`Conversation`] records requests without a response, the caller sends them and repeats the decision.

use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::json_patch;
use apimachinery::meta::{Time, null_as_default};
use base64::Engine as _;
use karmada_api::config::v1alpha1::{
    DependentObjectReference, ResourceInterpreterWebhook, ResourceInterpreterWebhookConfiguration, RuleWithOperations,
};
use karmada_api::work::v1alpha2::{AggregatedStatusItem, Component, ReplicaRequirements};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::native::dependencies::validated;
use crate::native::requirements::{normalize, normalized};
use crate::tree::text;
use crate::{Error, Layer, Operation};

const API_VERSION: &str = "config.karmada.io/v1alpha1";
const KIND: &str = "ResourceInterpreterContext";

/// A webhook, by `configuration/webhook`.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    pub name: String,
    pub webhook: ResourceInterpreterWebhook,
}

/// The webhooks by name: only the first one with a matching rule is called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hooks(Vec<Hook>);

impl Hooks {
    pub fn of_configurations<'a>(
        configurations: impl IntoIterator<Item = &'a ResourceInterpreterWebhookConfiguration>,
    ) -> Self {
        let mut hooks: Vec<Hook> = Vec::new();
        for configuration in configurations {
            hooks.extend(configuration.webhooks.iter().map(|webhook| Hook {
                name: format!("{}/{}", configuration.metadata.name, webhook.name),
                webhook: webhook.clone(),
            }));
        }
        hooks.sort_by(|a, b| a.name.cmp(&b.name));
        Self(hooks)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&Hook> {
        self.0.iter().find(|hook| hook.name == name)
    }

    fn find(&self, api_version: &str, kind: &str, operation: Operation) -> Option<&Hook> {
        let fits = |rule: &RuleWithOperations| is_covered(rule, api_version, kind, operation);
        self.0.iter().find(|hook| hook.webhook.rules.iter().any(fits))
    }
}

/// Whether a rule of a webhook covers an operation on objects of a kind.
pub(crate) fn is_covered(rule: &RuleWithOperations, api_version: &str, kind: &str, operation: Operation) -> bool {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let has = |list: &[String], item: &str| list.iter().any(|it| it == "*" || it == item);
    has(&rule.kinds, kind)
        && has(&rule.api_groups, group)
        && has(&rule.api_versions, version)
        && has(&rule.operations, &format!("{operation:?}"))
}

/// A request to a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// `configuration/webhook`
    pub hook: String,
    /// The request without its uid, as text, so that equal requests compare equal.
    request: Arc<str>,
}

impl Question {
    /// The body to post.
    pub fn body(&self, uid: &str) -> Value {
        let mut request: Value = serde_json::from_str(&self.request).expect("printed by ourselves");
        request["uid"] = json!(uid);
        json!({"apiVersion": API_VERSION, "kind": KIND, "request": request})
    }
}

/// A response, or why the request failed.
pub type Answer = Result<Response, String>;

/// The response of a webhook; see [`Response::decode`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Response {
    #[serde(deserialize_with = "null_as_default")]
    uid: String,
    #[serde(deserialize_with = "null_as_default")]
    successful: bool,
    status: Option<Verdict>,
    patch_type: Option<String>,
    patch: Option<String>,
    replicas: Option<i32>,
    replica_requirements: Option<ReplicaRequirements>,
    // Servers in other languages may send null for absent values.
    #[serde(deserialize_with = "null_as_default")]
    components: Vec<Component>,
    #[serde(deserialize_with = "null_as_default")]
    dependencies: Vec<DependentObjectReference>,
    raw_status: Option<Value>,
    healthy: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Verdict {
    #[serde(deserialize_with = "null_as_default")]
    message: String,
    #[serde(deserialize_with = "null_as_default")]
    code: i32,
}

impl Response {
    /// Decodes the response to the request with `uid`.
    ///
    /// # Errors
    /// The response is not for that request, or reports a failure of the webhook.
    pub fn decode(body: &[u8], uid: &str) -> Answer {
        #[derive(Deserialize)]
        struct Envelope {
            response: Option<Response>,
        }
        let envelope: Envelope = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let response = envelope.response.ok_or("webhook response was absent")?;
        if response.uid != uid {
            return Err(format!("expected response.uid {uid:?}, got {:?}", response.uid));
        }
        if !response.successful {
            let status = response.status.ok_or("webhook require response.status when response.successful is false")?;
            return Err(format!("webhook call failed, get status code: {}, msg: {}", status.code, status.message));
        }
        Ok(response)
    }
}

/// The webhook calls of one decision, as a layer. A request without a response is recorded and fails for now.
#[derive(Debug)]
pub struct Conversation {
    hooks: Arc<Hooks>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answers: HashMap<Question, Answer>,
    pending: Vec<Question>,
}

impl Conversation {
    pub fn new(hooks: Arc<Hooks>) -> Self {
        Self { hooks, state: Mutex::default() }
    }

    /// The requests since the last call that have no response; none if the decision is final.
    pub fn take_questions(&self) -> Vec<Question> {
        std::mem::take(&mut self.state.lock().pending)
    }

    pub fn answer(&self, question: Question, answer: Answer) {
        self.state.lock().answers.insert(question, answer);
    }

    /// The response for `object`, with the operation's further arguments.
    fn call(&self, operation: Operation, object: &Value, more: &[(&str, Value)]) -> Result<Response, Error> {
        let (api_version, kind) = (text(object, &["apiVersion"]), text(object, &["kind"]));
        let Some(hook) = self.hooks.find(api_version, kind, operation) else {
            return Err(crate::native::unsupported(operation, object));
        };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let mut request = json!({
            "uid": "",
            "kind": {"group": group, "version": version, "kind": kind},
            "name": text(object, &["metadata", "name"]),
            "operation": format!("{operation:?}"),
            "object": object,
            "replicas": 0,
        });
        let namespace = text(object, &["metadata", "namespace"]);
        if !namespace.is_empty() {
            request["namespace"] = json!(namespace);
        }
        for (field, value) in more {
            request[*field] = value.clone();
        }
        let question = Question { hook: hook.name.clone(), request: request.to_string().into() };
        let mut state = self.state.lock();
        match state.answers.get(&question) {
            Some(Ok(response)) => Ok(response.clone()),
            Some(Err(why)) => Err(failed(operation, object, &hook.name, why)),
            None => {
                let hook = question.hook.clone();
                if !state.pending.contains(&question) {
                    state.pending.push(question);
                }
                Err(failed(operation, object, &hook, "no response yet"))
            }
        }
    }

    /// Applies the patch of a response to the object.
    fn patched(&self, operation: Operation, object: &mut Value, more: &[(&str, Value)]) -> Result<(), Error> {
        let response = self.call(operation, object, more)?;
        let wrong = |why: &str| Error::malformed(operation, object, why);
        let patch = match (response.patch.filter(|it| !it.is_empty()), response.patch_type.as_deref()) {
            (None, None | Some("")) => return Ok(()),
            (Some(patch), Some("JSONPatch")) => patch,
            (Some(_), None | Some("")) => return Err(wrong("webhook returned nil response.patchType")),
            (None, Some(_)) => return Err(wrong("webhook returned empty response.patch")),
            (Some(_), Some(other)) => {
                return Err(wrong(&format!("webhook returned invalid response.patchType of {other:?}")));
            }
        };
        let bytes = base64::prelude::BASE64_STANDARD.decode(patch).map_err(|error| wrong(&error.to_string()))?;
        let patch = json_patch::parse(&bytes).map_err(|error| wrong(&error.to_string()))?;
        let mut changed = object.clone();
        patch.apply(&mut changed).map_err(|error| wrong(&error.to_string()))?;
        *object = changed;
        Ok(())
    }
}

fn failed(operation: Operation, object: &Value, hook: &str, why: &str) -> Error {
    Error::malformed(operation, object, format!("failed calling webhook {hook:?}: {why}"))
}

impl Layer for Conversation {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.hooks.find(api_version, kind, operation).is_some()
    }

    fn get_replicas(&self, template: &Value) -> Result<(i32, Option<ReplicaRequirements>), Error> {
        let operation = Operation::InterpretReplica;
        let response = self.call(operation, template, &[])?;
        let missing = || Error::malformed(operation, template, "webhook returned nil response.replicas");
        let replicas = response.replicas.ok_or_else(missing)?;
        let mut requirements = response.replica_requirements;
        if let Some(requirements) = &mut requirements {
            normalize(&mut requirements.resource_request)
                .map_err(|detail| Error::malformed(operation, template, detail))?;
        }
        Ok((replicas, requirements))
    }

    fn get_components(&self, template: &Value) -> Result<Vec<Component>, Error> {
        let operation = Operation::InterpretComponent;
        normalized(self.call(operation, template, &[])?.components)
            .map_err(|detail| Error::malformed(operation, template, detail))
    }

    fn revise_replica(&self, template: &mut Value, replicas: i32) -> Result<(), Error> {
        self.patched(Operation::ReviseReplica, template, &[("replicas", json!(replicas))])
    }

    fn retain(&self, desired: &mut Value, observed: &Value) -> Result<(), Error> {
        self.patched(Operation::Retain, desired, &[("observedObject", observed.clone())])
    }

    fn aggregate_status(&self, template: &mut Value, items: &[AggregatedStatusItem], _now: Time) -> Result<(), Error> {
        let mut more = Vec::new();
        // Upstream omits an empty list.
        if !items.is_empty() {
            let items = serde_json::to_value(items)
                .map_err(|error| Error::malformed(Operation::AggregateStatus, template, error.to_string()))?;
            more.push(("aggregatedStatus", items));
        }
        let mut aggregated = template.clone();
        self.patched(Operation::AggregateStatus, &mut aggregated, &more)?;
        // Only the status is used; other changes of the patch are ignored.
        match aggregated.get_mut("status").map(Value::take).unwrap_or_default() {
            Value::Null => {
                template.as_object_mut().map(|fields| fields.remove("status"));
            }
            status if status.is_object() => template["status"] = status,
            _ => {
                let detail = "the status in the response of the webhook is not an object";
                return Err(Error::malformed(Operation::AggregateStatus, template, detail));
            }
        }
        Ok(())
    }

    fn reflect_status(&self, object: &Value) -> Result<Option<Value>, Error> {
        let response = self.call(Operation::InterpretStatus, object, &[])?;
        let missing =
            || Error::malformed(Operation::InterpretStatus, object, "webhook returned nil response.rawStatus");
        response.raw_status.ok_or_else(missing).map(Some)
    }

    fn interpret_health(&self, object: &Value) -> Result<bool, Error> {
        let response = self.call(Operation::InterpretHealth, object, &[])?;
        let missing = || Error::malformed(Operation::InterpretHealth, object, "webhook returned nil response.healthy");
        response.healthy.ok_or_else(missing)
    }

    fn get_dependencies(&self, template: &Value) -> Result<Vec<DependentObjectReference>, Error> {
        validated(template, self.call(Operation::InterpretDependency, template, &[])?.dependencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interpreter;

    fn hooks() -> Arc<Hooks> {
        let configuration = |name: &str, operations: Value, kinds: Value| {
            serde_json::from_value(json!({"metadata": {"name": name}, "webhooks": [{"name": "hook.example.com",
                "clientConfig": {"url": "https://x"}, "interpreterContextVersions": ["v1alpha1"],
                "rules": [{"operations": operations, "apiGroups": ["apps"], "apiVersions": ["v1"], "kinds": kinds}]}]}))
            .unwrap()
        };
        let all: [ResourceInterpreterWebhookConfiguration; 2] = [
            configuration("b", json!(["*"]), json!(["*"])),
            configuration("a", json!(["InterpretReplica"]), json!(["Deployment"])),
        ];
        Arc::new(Hooks::of_configurations(&all))
    }

    fn deployment() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "ns"}, "spec": {"replicas": 1}})
    }

    /// Decides, uses `response` as the response, and decides again.
    fn exchange<T>(response: Value, decide: impl Fn(&Interpreter) -> Result<T, Error>) -> (Value, Result<T, String>) {
        let conversation = Arc::new(Conversation::new(hooks()));
        let interpreter = Interpreter::with_layers(vec![conversation.clone()]);
        decide(&interpreter).map(drop).expect_err("no answer yet");
        let [question] = <[Question; 1]>::try_from(conversation.take_questions()).expect("one question");
        let mut body = question.body("1");
        body["hook"] = json!(question.hook);
        let answer = Response::decode(json!({"response": response}).to_string().as_bytes(), "1");
        conversation.answer(question, answer);
        let result = decide(&interpreter).map_err(|error| error.to_string());
        assert!(conversation.take_questions().is_empty());
        (body, result)
    }

    #[test]
    fn requests_match_upstreams() {
        let (body, replicas) =
            exchange(json!({"uid": "1", "successful": true, "replicas": 5}), |it| it.get_replicas(&deployment()));
        assert_eq!(replicas, Ok((5, None)));
        assert_eq!(
            body,
            json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext",
                "hook": "a/hook.example.com", "request": {"uid": "1", "name": "web", "namespace": "ns",
                "kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "operation": "InterpretReplica",
                "object": deployment(), "replicas": 0}})
        );
        // {"op":"replace","path":"/spec/replicas","value":3}
        let patch = base64::prelude::BASE64_STANDARD.encode(br#"[{"op":"replace","path":"/spec/replicas","value":3}]"#);
        let revise = |it: &Interpreter| {
            let mut object = deployment();
            it.revise_replica(&mut object, 3).map(|()| object["spec"]["replicas"].clone())
        };
        let (body, revised) =
            exchange(json!({"uid": "1", "successful": true, "patchType": "JSONPatch", "patch": patch}), revise);
        assert_eq!((&body["request"]["replicas"], &body["hook"]), (&json!(3), &json!("b/hook.example.com")));
        assert_eq!(revised, Ok(json!(3)));
        assert_eq!(exchange(json!({"uid": "1", "successful": true}), revise).1, Ok(json!(1)), "unchanged");
        for (patch_type, patch, why) in [
            (Value::Null, "W10=", "webhook returned nil response.patchType"),
            (json!("JSONPatch"), "", "webhook returned empty response.patch"),
            (json!("Merge"), "W10=", "webhook returned invalid response.patchType of \"Merge\""),
        ] {
            let response = json!({"uid": "1", "successful": true, "patchType": patch_type, "patch": patch});
            let error = exchange(response, revise).1.unwrap_err();
            assert!(error.ends_with(why), "{error}");
        }
    }

    #[test]
    fn aggregated_statuses_are_objects() {
        let fold = |status: Value, items: &[AggregatedStatusItem]| {
            let patch = json!([{"op": "add", "path": "/status", "value": status}]).to_string();
            let patch = base64::prelude::BASE64_STANDARD.encode(patch);
            let now = || Time::new("2026-01-02T03:04:05Z".parse().unwrap());
            exchange(json!({"uid": "1", "successful": true, "patchType": "JSONPatch", "patch": patch}), |it| {
                let mut object = deployment();
                object["status"] = json!({"replicas": 1});
                it.aggregate_status(&mut object, items, now()).map(|()| object.get("status").cloned())
            })
        };
        let (body, folded) = fold(json!({"replicas": 2}), &[]);
        assert_eq!((body["request"].get("aggregatedStatus"), folded), (None, Ok(Some(json!({"replicas": 2})))));
        let (body, folded) = fold(Value::Null, &[AggregatedStatusItem::default()]);
        assert_eq!((&body["request"]["aggregatedStatus"], folded), (&json!([{"clusterName": ""}]), Ok(None)));
        assert!(fold(json!("x"), &[]).1.unwrap_err().contains("is not an object"));
    }

    #[test]
    fn responses_are_validated() {
        let health = |response: Value| exchange(response, |it| it.interpret_health(&deployment())).1;
        for (response, expected) in [
            (json!({"uid": "1", "successful": true, "healthy": false}), Ok(false)),
            (
                json!({"uid": "1", "successful": true, "healthy": true, "components": null, "dependencies": null,
                    "status": {"message": null, "code": null}}),
                Ok(true),
            ),
            (json!({"uid": "1", "successful": true, "healthy": null}), Err("nil response.healthy")),
            (
                json!({"uid": "1", "successful": null, "status": null}),
                Err("webhook require response.status when response.successful is false"),
            ),
            (json!({"uid": "1", "successful": true}), Err("nil response.healthy")),
            (json!({"uid": "2", "successful": true}), Err("expected response.uid \"1\", got \"2\"")),
            (
                json!({"uid": "1", "status": {"code": 500, "message": "no"}}),
                Err(
                    "failed calling webhook \"b/hook.example.com\": webhook call failed, get status code: 500, msg: no",
                ),
            ),
            (Value::Null, Err("webhook response was absent")),
        ] {
            match (health(response), expected) {
                (Ok(got), Ok(expected)) => assert_eq!(got, expected),
                (Err(got), Err(expected)) => assert!(got.contains(expected), "{got}"),
                (got, expected) => panic!("{got:?}, not {expected:?}"),
            }
        }
        assert!(Response::decode(b"{", "1").is_err());
    }
}
