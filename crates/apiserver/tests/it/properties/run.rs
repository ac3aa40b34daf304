//! One run: a server, its watchers, and the checks at every quiet point.

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver::ApiServer;
use bytes::Bytes;
use futures::StreamExt;
use http_body_util::BodyExt;
use serde_json::Value;
use storage::memory::MemoryStore;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tower::ServiceExt;
use transport::{ApiService, Identity};
use world::World;

use super::bodies::{Dice, KINDS, Kind, definition};
use super::watchers::{Form, Log, Scope, View, Watch, bare, key, revision};

/// Open at once; older ones are closed.
const WATCHES: usize = 8;

pub(super) struct Answer {
    pub what: String,
    pub code: u16,
    pub body: Value,
}

pub(super) struct Run {
    server: ApiServer,
    service: ApiService,
    pub dice: Dice,
    /// The log of each kind in [`KINDS`].
    logs: Vec<(Log, UnboundedReceiver<Bytes>)>,
    watches: Vec<Watch>,
    /// Answers to writes that brought an object, to be held against the log.
    pub written: Vec<(&'static str, Answer)>,
    /// How often each outcome occurred, which shows that a run has its intended coverage.
    pub outcomes: BTreeMap<(&'static str, u16), usize>,
    bookmarks: u64,
}

impl Run {
    pub(super) async fn start(seed: u64) -> Self {
        let server = crate::objects::server_in(std::sync::Arc::new(store()), world(seed)).await;
        let service = server.service();
        let dice = Dice(world(seed ^ 0x5eed));
        let mut run = Self {
            server,
            service,
            dice,
            logs: Vec::new(),
            watches: Vec::new(),
            written: Vec::new(),
            outcomes: BTreeMap::new(),
            bookmarks: 0,
        };
        for name in ["one", "two"] {
            let body = serde_json::json!({"metadata": {"name": name}});
            run.expect(201, "POST", "/api/v1/namespaces", &body).await;
        }
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        run.expect(201, "POST", path, &definition()).await;
        quiet().await;
        for kind in KINDS {
            let url = format!("{}watch=1&timeoutSeconds=100000000", Scope::default().url(kind));
            let lines = run.stream(&url, Form::Whole).await;
            run.logs.push((Log::default(), lines));
        }
        run
    }

    async fn expect(&self, code: u16, method: &str, path: &str, body: &Value) {
        let answer = self.send(method, path, "application/json", body).await;
        assert_eq!(answer.code, code, "{}: {}", answer.what, answer.body);
    }

    pub(super) async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
        let bytes = if body.is_null() { String::new() } else { body.to_string() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
        let (code, bytes) = self.call(request, bytes).await;
        let what = format!("{method} {path} {body}");
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        assert!(code < 500, "{what}: {code} {body}");
        Answer { what, code, body }
    }

    async fn call(&self, request: http::request::Builder, body: String) -> (u16, Bytes) {
        let request = request.extension(Identity::system("test")).body(transport::full(body)).expect("a request");
        let response = self.service.clone().oneshot(request).await.expect("infallible");
        let code = response.status().as_u16();
        (code, response.into_body().collect().await.expect("a body").to_bytes())
    }

    /// The content of a collection, with the list's revision and the token of its next page.
    pub(super) async fn list(&self, url: &str, form: Form) -> (u64, View, Option<String>) {
        let request = http::Request::builder().uri(url).header("accept", form.accept(true));
        let (code, bytes) = self.call(request, String::new()).await;
        let list: Value = serde_json::from_slice(&bytes).expect("a list is JSON");
        assert_eq!(code, 200, "{url}: {list}");
        let rows = list[if form == Form::Table { "rows" } else { "items" }].as_array().expect("items").clone();
        let object = |row: &Value| if form == Form::Table { row["object"].clone() } else { row.clone() };
        let objects: Vec<Value> = rows.iter().map(object).collect();
        let keys: Vec<_> = objects.iter().map(key).collect();
        assert!(keys.is_sorted(), "{url}: {keys:?}");
        let view: View = objects.iter().map(|object| (key(object), form.of(object))).collect();
        assert_eq!(view.len(), rows.len(), "{url}: an object is listed twice");
        let token = list["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        (revision(&list), view, token)
    }

    async fn stream(&self, url: &str, form: Form) -> UnboundedReceiver<Bytes> {
        let request = http::Request::get(url).header("accept", form.accept(false)).extension(Identity::system("test"));
        let request = request.body(transport::empty()).expect("a request");
        let response = self.service.clone().oneshot(request).await.expect("infallible");
        assert_eq!(response.status(), 200, "{url}");
        let mut frames = response.into_body().into_data_stream();
        let (sender, lines) = unbounded_channel();
        tokio::spawn(async move {
            // A frame holds whole events, one or several.
            while let Some(Ok(frame)) = frames.next().await {
                for line in frame.split_inclusive(|byte| *byte == b'\n') {
                    if sender.send(frame.slice_ref(line)).is_err() {
                        return;
                    }
                }
            }
        });
        lines
    }

    /// Lists, then watches from there; or watches without a list, or from an earlier revision.
    pub(super) async fn open_watch(&mut self) {
        self.check().await;
        if self.watches.len() >= WATCHES {
            let closed = self.watches.remove(self.dice.below(WATCHES));
            self.bookmarks += closed.bookmarks;
        }
        let index = self.dice.below(KINDS.len());
        let kind = &KINDS[index];
        let scope = Scope::random(kind, &self.dice);
        let form = *self.dice.pick(&[Form::Whole, Form::Whole, Form::Metadata, Form::Table]);
        let (now, view, _) = self.list(&scope.url(kind), form).await;
        let known: Vec<u64> = self.logs[index].0.changes.iter().map(|change| change.revision).collect();
        let mut initial = view.into_iter().collect();
        let (query, seen, end_mark) = match self.dice.below(5) {
            0 => (String::new(), now, false),
            1 => ("resourceVersion=0&allowWatchBookmarks=1".to_owned(), now, true),
            // A stream of initial events has no Table.
            2 if form != Form::Table => {
                let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
                (query.to_owned(), now, true)
            }
            3 if !known.is_empty() => {
                initial = Vec::new();
                let from = *self.dice.pick(&known);
                (format!("resourceVersion={from}&allowWatchBookmarks=true"), from, false)
            }
            _ => {
                initial = Vec::new();
                (format!("resourceVersion={now}"), now, false)
            }
        };
        let url = format!("{}watch=1&timeoutSeconds=100000000&{query}", scope.url(kind));
        let lines = self.stream(&url, form).await;
        self.watches.push(Watch { kind, scope, form, lines, initial, end_mark, seen, first: true, bookmarks: 0 });
    }

    /// At a quiet point all views agree.
    pub(super) async fn check(&mut self) {
        quiet().await;
        let mut now = Vec::new();
        for (index, kind) in KINDS.iter().enumerate() {
            let (log, lines) = &mut self.logs[index];
            while let Ok(line) = lines.try_recv() {
                log.take(&line);
            }
            let (revision, view, _) = self.list(&Scope::default().url(kind), Form::Whole).await;
            assert_eq!(view, self.logs[index].0.view, "the list of {} is not what was watched", kind.plural);
            now.push(revision);
        }
        for watch in &mut self.watches {
            let index = KINDS.iter().position(|kind| std::ptr::eq(kind, watch.kind)).expect("one of them");
            watch.check(&self.logs[index].0, now[index]);
        }
        for (plural, answer) in std::mem::take(&mut self.written) {
            let index = KINDS.iter().position(|kind| kind.plural == plural).expect("one of them");
            let change = self.logs[index].0.at(revision(&answer.body));
            let change = change.unwrap_or_else(|| panic!("no watcher saw {}: {}", answer.what, answer.body));
            if let Some(current) = &change.current {
                assert_eq!(bare(&answer.body), *current, "answered to {}", answer.what);
            }
        }
    }

    /// Gets, selected lists, pages and lists of earlier revisions agree with the log.
    pub(super) async fn check_reads(&mut self) {
        self.check().await;
        let index = self.dice.below(KINDS.len());
        let kind = &KINDS[index];
        let scope = Scope::random(kind, &self.dice);
        let log = &self.logs[index].0;
        let within = |view: &View, form: Form| -> View {
            let selected = view.iter().filter(|(_, object)| scope.holds(object));
            selected.map(|(key, object)| (key.clone(), form.of(object))).collect()
        };
        for form in [Form::Whole, Form::Metadata, Form::Table] {
            let (_, view, _) = self.list(&scope.url(kind), form).await;
            assert_eq!(view, within(&log.view, form), "{scope:?} {form:?}");
        }
        if let Some(change) = log.changes.get(self.dice.below(log.changes.len().max(1))) {
            let at = change.revision;
            let url = format!("{}resourceVersion={at}&resourceVersionMatch=Exact", scope.url(kind));
            let (revision, view, _) = self.list(&url, Form::Whole).await;
            assert_eq!((revision, view), (at, within(&log.view_at(at), Form::Whole)), "{url}");
        }
        for (key, object) in &log.view {
            let (namespace, name) = key.split_once('/').expect("a key");
            let answer = self.send("GET", &kind.path(namespace, name), "", &Value::Null).await;
            assert_eq!((answer.code, &answer.body["kind"]), (200, &kind.kind.into()));
            assert_eq!(bare(&answer.body), *object, "{}", answer.what);
        }
        self.check_pages(index, &scope).await;
    }

    /// The pages of a list are one snapshot, in spite of writes between them.
    async fn check_pages(&mut self, index: usize, scope: &Scope) {
        let kind = &KINDS[index];
        let limit = 1 + self.dice.below(3);
        let url = format!("{}limit={limit}", scope.url(kind));
        let (first, mut pages, mut token) = self.list(&url, Form::Whole).await;
        while let Some(next) = token {
            if self.dice.chance(50) {
                self.write().await;
            }
            let (revision, page, following) = self.list(&format!("{url}&continue={next}"), Form::Whole).await;
            assert_eq!(revision, first, "another snapshot: {url}");
            assert!(page.len() <= limit && page.keys().all(|key| !pages.contains_key(key)), "{url}");
            pages.extend(page);
            token = following;
        }
        self.check().await;
        let mut view = self.logs[index].0.view_at(first);
        view.retain(|_, object| scope.holds(object));
        assert_eq!(pages, view, "the pages of {url}");
    }

    pub(super) fn finish(mut self) {
        for watch in self.watches.drain(..) {
            self.bookmarks += watch.bookmarks;
        }
        let count = |is_counted: fn(u16) -> bool| -> usize {
            self.outcomes.iter().filter(|((_, code), _)| is_counted(*code)).map(|(_, count)| count).sum()
        };
        let (done, refused) = (count(|code| code < 300), count(|code| code >= 400));
        if std::env::var_os("PROPERTY_SHOW").is_some() {
            eprintln!("{:?}\n{} bookmarks", self.outcomes, self.bookmarks);
        }
        assert!(done > refused, "most of what a run tries shall succeed: {:?}", self.outcomes);
        self.server.shutdown();
    }

    /// The history of the object with this key so far, newest last.
    pub(super) fn current(&self, kind: &'static Kind, key: &str) -> Option<Value> {
        let index = KINDS.iter().position(|other| std::ptr::eq(other, kind)).expect("one of them");
        self.logs[index].0.view.get(key).cloned()
    }
}

/// Lets every task run until all of them wait; time is virtual.
pub(super) async fn quiet() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

fn world(seed: u64) -> World {
    World::simulated(jiff::Timestamp::from_second(1_790_000_000).expect("in range"), seed)
}

/// Keeps all revisions: reads at an old revision are compared with the log.
fn store() -> MemoryStore {
    let history = storage::memory::Options { history_changes: 1 << 20, history_bytes: 1 << 30, ..Default::default() };
    MemoryStore::with_options(history)
}
