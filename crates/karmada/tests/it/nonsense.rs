//! A server in front of another one, which answers nonsense: some answers have a value replaced by one of another type,
//! or lack it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use apiserver::serve::{self, Limits};
use bytes::Bytes;
use client::Client;
use http_body_util::BodyExt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Request, Response};

/// A number of rounds or seeds, from the environment.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Which answers are changed.
pub struct Plan {
    /// Answers before the first changed one.
    pub after: usize,
    /// Changed answers, at most.
    pub most: usize,
    /// One answer in so many is changed.
    pub one_in: u32,
    /// Whether events of watches are changed, too.
    pub watches: bool,
    pub random: StdRng,
}

impl Plan {
    pub fn none() -> Self {
        Self { after: 0, most: 0, one_in: 1, watches: false, random: StdRng::seed_from_u64(0) }
    }
}

/// The plan, and what was done.
pub struct State {
    plan: Plan,
    /// Requests and the changes of their answers.
    pub changes: Vec<String>,
    /// Methods and paths of all requests.
    pub requests: Vec<String>,
}

/// The server.
#[derive(Clone)]
pub struct Front {
    behind: Client,
    state: Arc<Mutex<State>>,
    pub url: String,
}

impl Front {
    pub async fn start(behind: Client) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = State { plan: Plan::none(), changes: Vec::new(), requests: Vec::new() };
        let front = Self { behind, state: Arc::new(Mutex::new(state)), url };
        let answering = front.clone();
        let service = ApiService::new(tower::service_fn(move |request| answering.clone().answer(request)));
        tokio::spawn(serve::serve(listener, None, service, Limits::default(), CancellationToken::new()));
        front
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    /// Begins a plan; returns what was done since the last one.
    pub fn begin(&self, plan: Plan) -> State {
        std::mem::replace(&mut *self.state(), State { plan, changes: Vec::new(), requests: Vec::new() })
    }

    async fn answer(self, request: Request) -> Result<Response, Infallible> {
        let line = format!("{} {}", request.method(), request.uri());
        self.state().requests.push(line.clone());
        let (mut parts, body) = self.behind.send(request).await.expect("the server answers").into_parts();
        if line.contains("watch=") {
            let changed = body.map_frame(move |frame| match frame.into_data() {
                Ok(data) => hyper::body::Frame::data(self.change(&line, data)),
                Err(frame) => frame,
            });
            return Ok(Response::from_parts(parts, transport::Body::new(changed)));
        }
        let whole = body.collect().await.expect("a whole answer").to_bytes();
        parts.headers.remove(http::header::CONTENT_LENGTH);
        Ok(Response::from_parts(parts, transport::full(self.change(&line, whole))))
    }

    /// The bytes, changed if it is their turn and if they are JSON.
    fn change(&self, line: &str, bytes: Bytes) -> Bytes {
        let state = &mut *self.state();
        let Ok(mut tree) = serde_json::from_slice::<Value>(&bytes) else { return bytes };
        let plan = &mut state.plan;
        if line.contains("watch=") && !plan.watches {
            return bytes;
        }
        if plan.after > 0 || state.changes.len() >= plan.most || !plan.random.random_ratio(1, plan.one_in) {
            plan.after = plan.after.saturating_sub(1);
            return bytes;
        }
        let what = damage(&mut tree, &mut plan.random);
        state.changes.push(format!("{line}: {what}"));
        format!("{tree}\n").into()
    }
}

fn nonsense(random: &mut StdRng) -> Value {
    let values = [
        json!(null),
        json!(true),
        json!(7),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!("\u{1b}[2J\u{0}"),
        json!([]),
        json!([null]),
        json!(["x"]),
        json!([[7]]),
        json!({}),
        json!({"": null}),
        json!({"a": {"b": []}}),
    ];
    values[random.random_range(0..values.len())].clone()
}

/// Replaces or removes a value, more often one near the root. Returns what it did.
fn damage(tree: &mut Value, random: &mut StdRng) -> String {
    let (mut path, mut place) = (String::new(), tree);
    while random.random_ratio(4, 5) {
        let is_leaf = match place {
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => true,
        };
        if is_leaf {
            break;
        }
        place = match place {
            Value::Object(map) => {
                let at = random.random_range(0..map.len());
                let name = map.keys().nth(at).expect("a member").clone();
                path.push_str(&format!("/{name}"));
                if random.random_ratio(1, 10) {
                    map.remove(&name);
                    return format!("{path} is missing");
                }
                map.entry(name).or_insert(Value::Null)
            }
            Value::Array(list) => {
                let at = random.random_range(0..list.len());
                path.push_str(&format!("/{at}"));
                &mut list[at]
            }
            _ => unreachable!("a leaf"),
        };
    }
    *place = nonsense(random);
    format!("{path} is {place}")
}
