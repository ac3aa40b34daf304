//! Audit events, as `audit.k8s.io/v1` encodes them.

use std::collections::BTreeMap;
use std::fmt::Write;

use apimachinery::Status;
use apimachinery::status::{ListMeta, StatusDetails};
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::Level;

/// The stage of a request that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The request was authenticated, but not processed.
    RequestReceived,
    /// The headers of the response were sent; only of requests that last, such as watches.
    ResponseStarted,
    /// The response was sent.
    ResponseComplete,
    /// The handler of the request panicked.
    Panic,
}

impl Stage {
    /// The texts of all stages, in their order.
    pub const NAMES: [&'static str; 4] = ["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"];

    /// The text in a policy and in events.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The stage with this text.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic]
            .into_iter()
            .find(|stage| stage.as_str() == text)
    }
}

/// A user as events show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct User {
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// The unique ID, if the authenticator provides one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Further attributes, such as the id of the credential.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The object that a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// The plural.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// Empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Empty if the request names no object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// As in the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// The version of the API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// As in the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Empty for the object itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

/// The result of a request: a bare code, or the Status of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The HTTP status code of a response that is not a Status.
    Code(u16),
    /// A Status. Its kind and version are omitted, as in upstream's events.
    Status(Box<Status>),
}

impl Outcome {
    fn code(&self) -> u16 {
        match self {
            Self::Code(code) => *code,
            Self::Status(status) => status.code,
        }
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // In upstream's order.
        #[derive(Serialize)]
        struct Shown<'a> {
            metadata: &'a ListMeta,
            #[serde(skip_serializing_if = "str::is_empty")]
            status: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            message: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            reason: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: Option<&'a StatusDetails>,
            code: u16,
        }
        let none = ListMeta::default();
        let shown = match self {
            Self::Code(code) => {
                Shown { metadata: &none, status: "", message: "", reason: "", details: None, code: *code }
            }
            Self::Status(it) => Shown {
                metadata: &it.metadata,
                status: &it.status,
                message: &it.message,
                reason: &it.reason,
                details: it.details.as_deref(),
                code: it.code,
            },
        };
        shown.serialize(serializer)
    }
}

/// One event. Fields are encoded in upstream's order.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    kind: &'static str,
    api_version: &'static str,
    /// The level that the policy decided.
    #[serde(serialize_with = "level")]
    pub level: Level,
    /// The id of the request, which all its events and the header `Audit-Id` of its response have.
    #[serde(rename = "auditID")]
    pub audit_id: String,
    /// The stage.
    #[serde(serialize_with = "stage")]
    pub stage: Stage,
    /// Path and query of the request.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// The verb, as in RBAC.
    pub verb: String,
    /// The authenticated user.
    pub user: User,
    /// The user that the request acts as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonated_user: Option<User>,
    /// The addresses of the client and of the proxies between.
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    pub source_ips: Vec<String>,
    /// As the client names itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_agent: String,
    /// The object; `None` for paths that are not resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_ref: Option<ObjectReference>,
    /// The result; `None` before there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_status: Option<Outcome>,
    /// From level `Request`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_object: Option<Value>,
    /// From level `RequestResponse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_object: Option<Value>,
    /// When the request arrived.
    #[serde(serialize_with = "micro_time")]
    pub request_received_timestamp: Timestamp,
    /// When the stage was reached.
    #[serde(serialize_with = "micro_time")]
    pub stage_timestamp: Timestamp,
    /// Annotations of authorization and admission.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn level<S: Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(level.as_str())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn stage<S: Serializer>(stage: &Stage, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(stage.as_str())
}

fn micro_time<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
}

impl Event {
    /// The first event of a request.
    pub fn new(level: Level, audit_id: String, now: Timestamp) -> Self {
        Self {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level,
            audit_id,
            stage: Stage::RequestReceived,
            request_uri: String::new(),
            verb: String::new(),
            user: User::default(),
            impersonated_user: None,
            source_ips: Vec::new(),
            user_agent: String::new(),
            object_ref: None,
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: now,
            stage_timestamp: now,
            annotations: BTreeMap::new(),
        }
    }

    /// A line of JSON without its end.
    pub fn to_json(&self) -> String {
        // Strings, numbers and trees of JSON can always be encoded.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// A line of `--audit-log-format=legacy` without its end.
    pub fn to_legacy(&self) -> String {
        let quoted = |text: &str| if text.is_empty() { "<none>".to_owned() } else { format!("{text:?}") };
        let list = |groups: &[String]| {
            let texts: Vec<String> = groups.iter().map(|group| format!("{group:?}")).collect();
            if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") }
        };
        let acting = self.impersonated_user.as_ref();
        let (namespace, response) = (
            self.object_ref.as_ref().map(|it| it.namespace.as_str()).filter(|it| !it.is_empty()).unwrap_or("<none>"),
            self.response_status.as_ref().map_or_else(|| "<deferred>".to_owned(), |it| it.code().to_string()),
        );
        let mut line = format!("{} AUDIT:", self.request_received_timestamp.strftime("%Y-%m-%dT%H:%M:%S%.9fZ"));
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            " id={:?} stage={:?} ip={:?} method={:?} user={} groups={} as={} asgroups={} user-agent={} namespace={:?} uri={:?} response={:?}",
            self.audit_id,
            self.stage.as_str(),
            self.source_ips.first().map_or("<unknown>", String::as_str),
            self.verb,
            quoted(&self.user.username),
            list(&self.user.groups),
            acting.map_or_else(|| "<self>".to_owned(), |user| quoted(&user.username)),
            acting.map_or_else(|| "<lookup>".to_owned(), |user| list(&user.groups)),
            quoted(&self.user_agent),
            namespace,
            self.request_uri,
            response,
        );
        line
    }
}

/// An `audit.k8s.io/v1` EventList of encoded events: the body of a request to an audit webhook.
pub fn event_list<'a>(events: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<&str> = events.into_iter().collect();
    format!(r#"{{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{{}},"items":[{}]}}"#, items.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event() -> Event {
        let mut event =
            Event::new(Level::Request, "id-1".to_owned(), Timestamp::from_microsecond(1_500_000).expect("a time"));
        event.stage = Stage::ResponseComplete;
        event.request_uri = "/api/v1/namespaces/ns/configmaps".to_owned();
        event.verb = "create".to_owned();
        event.user =
            User { username: "ann".to_owned(), groups: vec!["dev".to_owned(), "ops".to_owned()], ..User::default() };
        event.source_ips = vec!["10.0.0.1".to_owned()];
        event.user_agent = "kubectl".to_owned();
        event.object_ref = Some(ObjectReference {
            resource: "configmaps".to_owned(),
            namespace: "ns".to_owned(),
            name: "c".to_owned(),
            api_version: "v1".to_owned(),
            ..ObjectReference::default()
        });
        event.response_status = Some(Outcome::Code(201));
        event.request_object = Some(json!({"data": {}}));
        event.stage_timestamp = Timestamp::from_microsecond(1_500_123).expect("a time");
        event.annotations.insert("authorization.k8s.io/decision".to_owned(), "allow".to_owned());
        event
    }

    #[test]
    fn an_event_is_encoded_in_upstreams_order() {
        let expected = concat!(
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"id-1","stage":"ResponseComplete","#,
            r#""requestURI":"/api/v1/namespaces/ns/configmaps","verb":"create","user":{"username":"ann","groups":["dev","ops"]},"#,
            r#""sourceIPs":["10.0.0.1"],"userAgent":"kubectl","#,
            r#""objectRef":{"resource":"configmaps","namespace":"ns","name":"c","apiVersion":"v1"},"#,
            r#""responseStatus":{"metadata":{},"code":201},"requestObject":{"data":{}},"#,
            r#""requestReceivedTimestamp":"1970-01-01T00:00:01.500000Z","stageTimestamp":"1970-01-01T00:00:01.500123Z","#,
            r#""annotations":{"authorization.k8s.io/decision":"allow"}}"#,
        );
        assert_eq!(event().to_json(), expected);
    }

    #[test]
    fn the_status_of_a_failure_has_no_kind() {
        let status = Status::forbidden("", "pods", "p", "no");
        let encoded = serde_json::to_value(Outcome::Status(Box::new(status))).expect("JSON");
        assert_eq!((encoded.get("kind"), encoded.get("apiVersion")), (None, None));
        assert_eq!(
            (&encoded["code"], &encoded["reason"], &encoded["status"]),
            (&json!(403), &json!("Forbidden"), &json!("Failure"))
        );
    }

    #[test]
    fn a_legacy_line_has_everything_in_one_line() {
        let expected = concat!(
            r#"1970-01-01T00:00:01.500000000Z AUDIT: id="id-1" stage="ResponseComplete" ip="10.0.0.1" method="create" user="ann" "#,
            r#"groups="dev","ops" as=<self> asgroups=<lookup> user-agent="kubectl" namespace="ns" "#,
            r#"uri="/api/v1/namespaces/ns/configmaps" response="201""#,
        );
        assert_eq!(event().to_legacy(), expected);
        let mut hostile = event();
        hostile.user_agent = "a\nb\"c".to_owned();
        assert_eq!(hostile.to_legacy().lines().count(), 1);
    }

    #[test]
    fn a_list_holds_encoded_events() {
        let list: Value = serde_json::from_str(&event_list([event().to_json().as_str(), "{}"])).expect("JSON");
        assert_eq!((&list["kind"], list["items"].as_array().map(Vec::len)), (&json!("EventList"), Some(2)));
    }
}
