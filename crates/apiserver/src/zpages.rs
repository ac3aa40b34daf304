//! `/statusz` and `/flagz`: the version, start time and flags of a process, as text or as `config.k8s.io/v1alpha1`.

use apimachinery::meta::Time;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use transport::{Identity, Request, Response, full};
use world::World;

use crate::request::RequestInfo;
use crate::state::{Route, Shared};

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";
const API_VERSION: &str = "config.k8s.io/v1alpha1";

/// A running component.
#[derive(Clone, Debug)]
pub struct Component {
    /// As upstream names it, such as `karmada-scheduler`.
    pub name: String,
    /// When the process began.
    pub started: Timestamp,
    /// Its compiler.
    pub built_with: String,
    /// Its version.
    pub version: String,
    /// The version of Kubernetes whose behaviour it has.
    pub emulated: String,
    /// The flags with their values, defaults included.
    pub flags: Vec<(String, String)>,
    /// The paths that it serves besides resources.
    pub paths: Vec<String>,
}

/// The two pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Status,
    Flags,
}

/// The form in which a client reads a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

impl Page {
    fn of(path: &str) -> Option<Self> {
        match path {
            "/statusz" => Some(Self::Status),
            "/flagz" => Some(Self::Flags),
            _ => None,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Status => "Statusz",
            Self::Flags => "Flagz",
        }
    }

    /// The first accepted form; `None` if none is available. JSON is versioned: the kind must be set.
    fn form(self, accept: &str) -> Option<Form> {
        let accepted = accept.split(',').map(str::trim).filter(|one| !one.is_empty());
        let mut forms = accepted.map(|one| {
            let mut parts = one.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let parameters: Vec<&str> = parts.collect();
            let has = |requested: &str| parameters.contains(&requested);
            match media_type {
                "*/*" | "text/*" | "text/plain" => Some(Form::Text),
                "application/json" if has("g=config.k8s.io") && has("v=v1alpha1") => {
                    has(&format!("as={}", self.kind())).then_some(Form::Json)
                }
                _ => None,
            }
        });
        if accept.trim().is_empty() { Some(Form::Text) } else { forms.find_map(|form| form) }
    }
}

impl Component {
    /// Answers `/statusz` and `/flagz`; `None` for every other path.
    pub fn answer(&self, path: &str, headers: &HeaderMap, now: Timestamp) -> Option<Response> {
        let page = Page::of(path)?;
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Some(match page.form(accept) {
            Some(Form::Text) => respond(StatusCode::OK, "text/plain; charset=utf-8", self.text(page, now)),
            Some(Form::Json) => respond(StatusCode::OK, "application/json", self.json(page, now).to_string()),
            None => {
                let kind = page.kind();
                let why = format!(
                    "406: Not Acceptable\n\nAvailable representations: text/plain, \
                     application/json;v=v1alpha1;g=config.k8s.io;as={kind}\n"
                );
                respond(StatusCode::NOT_ACCEPTABLE, "text/plain; charset=utf-8", why)
            }
        })
    }

    fn text(&self, page: Page, now: Timestamp) -> String {
        match page {
            Page::Status => {
                let up = self.seconds(now);
                let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
                let started = self.started.strftime("%a %b %e %H:%M:%S UTC %Y");
                format!(
                    "\n{} statusz\n{WARNING}\n\nStarted: {started}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\n\
                     Go version: {}\nBinary version: {}\nEmulation version: {}\nPaths: {}\n",
                    self.name,
                    self.built_with,
                    self.version,
                    self.emulated,
                    self.paths.join(" ")
                )
            }
            Page::Flags => {
                let flags: String = self.sorted().map(|(name, value)| format!("{name}={value}\n")).collect();
                format!("\n{} flagz\n{WARNING}\n\n{flags}", self.name)
            }
        }
    }

    fn json(&self, page: Page, now: Timestamp) -> Value {
        let mut answer = json!({"kind": page.kind(), "apiVersion": API_VERSION, "metadata": {"name": self.name}});
        let more = match page {
            Page::Status => json!({
                "startTime": Time::new(self.started),
                "uptimeSeconds": self.seconds(now),
                "goVersion": self.built_with,
                "binaryVersion": self.version,
                "emulationVersion": self.emulated,
                "paths": self.paths,
            }),
            Page::Flags => {
                let flags: Map<String, Value> =
                    self.sorted().map(|(name, value)| (name.to_owned(), value.into())).collect();
                json!({ "flags": flags })
            }
        };
        if let (Value::Object(answer), Value::Object(more)) = (&mut answer, more) {
            answer.extend(more);
        }
        answer
    }

    fn seconds(&self, now: Timestamp) -> i64 {
        now.as_second().saturating_sub(self.started.as_second()).max(0)
    }

    fn sorted(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut flags: Vec<(&str, &str)> =
            self.flags.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        flags.sort_unstable();
        flags.into_iter()
    }
}

fn respond(code: StatusCode, content_type: &'static str, text: String) -> Response {
    let mut response = Response::new(full(text));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The pages as a route of an API server.
#[derive(Debug)]
pub struct Pages {
    /// The server.
    pub component: Component,
    /// For the time that it is up.
    pub world: World,
}

impl Route for Pages {
    fn takes(&self, info: &RequestInfo) -> bool {
        Page::of(&info.path).is_some()
    }

    fn call<'a>(
        &'a self,
        _: &'a Shared,
        info: &'a RequestInfo,
        _: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, apimachinery::Status>> {
        let answer = self.component.answer(&info.path, request.headers(), self.world.now());
        async move { answer.ok_or_else(crate::errors::no_such_resource) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn component() -> Component {
        let flags = [("v", "2"), ("data-dir", "karmada-data")];
        Component {
            name: "karmada-scheduler".into(),
            started: "2026-01-02T03:04:05Z".parse().expect("a time"),
            built_with: "rust".into(),
            version: "v0.1.0".into(),
            emulated: "1.36".into(),
            flags: flags.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            paths: vec!["/healthz".into(), "/metrics".into()],
        }
    }

    async fn answer(path: &str, accept: &str) -> Option<(u16, String)> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().expect("a header"));
        let now = "2026-01-02T05:05:06Z".parse().expect("a time");
        let response = component().answer(path, &headers, now)?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        Some((code, String::from_utf8(body.to_vec()).expect("text")))
    }

    #[tokio::test]
    async fn pages_are_text_unless_their_kind_is_named() {
        let status = format!(
            "\nkarmada-scheduler statusz\n{WARNING}\n\nStarted: Fri Jan  2 03:04:05 UTC 2026\nUp: 2 hr 01 min 01 sec\n\
             Go version: rust\nBinary version: v0.1.0\nEmulation version: 1.36\nPaths: /healthz /metrics\n"
        );
        for accept in ["", "*/*", "text/plain", "application/json, */*"] {
            assert_eq!(answer("/statusz", accept).await, Some((200, status.clone())), "{accept}");
        }
        let flags = format!("\nkarmada-scheduler flagz\n{WARNING}\n\ndata-dir=karmada-data\nv=2\n");
        assert_eq!(answer("/flagz", "").await, Some((200, flags)));
        let (code, text) =
            answer("/statusz", "application/json;v=v1alpha1;g=config.k8s.io;as=Statusz").await.expect("a page");
        assert_eq!(code, 200);
        assert_eq!(
            serde_json::from_str::<Value>(&text).expect("json"),
            json!({"kind": "Statusz", "apiVersion": "config.k8s.io/v1alpha1", "metadata": {"name": "karmada-scheduler"},
                "startTime": "2026-01-02T03:04:05Z", "uptimeSeconds": 7261, "goVersion": "rust", "binaryVersion": "v0.1.0",
                "emulationVersion": "1.36", "paths": ["/healthz", "/metrics"]})
        );
        let (_, text) = answer("/flagz", "application/json;v=v1alpha1;g=config.k8s.io;as=Flagz").await.expect("a page");
        let flags: Value = serde_json::from_str(&text).expect("json");
        assert_eq!(flags["flags"], json!({"data-dir": "karmada-data", "v": "2"}));
        for accept in ["application/json", "application/json;v=v1alpha1;g=config.k8s.io;as=Statusz", "text/html"] {
            assert_eq!(answer("/flagz", accept).await.map(|(code, _)| code), Some(406), "{accept}");
        }
        assert_eq!(answer("/metrics", "").await, None);
    }
}
