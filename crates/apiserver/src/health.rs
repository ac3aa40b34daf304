//! `/healthz`, `/livez`, `/readyz`: named checks that components register and open.
//!
//! A check is a flag, not a call: reading health costs nothing and cannot block. A component holds its [`Gate`] and
//! sets its state.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use parking_lot::RwLock;
use transport::{Response, full};

use crate::request::Query;

/// Checks with kube-apiserver's names, which monitoring reads one by one: they pass once a server has started.
pub(crate) const STARTED: &[&str] = &[
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/start-kube-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
    "poststarthook/apiservice-discovery-controller",
];

/// The same for the objects every server has from its start.
pub const BOOTSTRAPPED: &[&str] = &[
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-available-controller",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
];

/// The order in which kube-apiserver lists its checks; others precede `shutdown`, in the order of registration.
const ORDER: &[&str] = &[
    "ping",
    "log",
    "etcd",
    "etcd-readiness",
    "informer-sync",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/start-kube-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/aggregator-reload-proxy-client-cert",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-status-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// The last check of a server, which fails first when it shuts down.
const SHUTDOWN: &str = "shutdown";

fn place(name: &str) -> usize {
    let last = ORDER.len() + usize::from(name == SHUTDOWN);
    ORDER.iter().position(|known| *known == name).unwrap_or(last)
}

/// Every stored object that was read since the server started could be read.
pub const STORAGE_INTEGRITY: &str = "storage-integrity";

/// The checks of a store: `/livez` and `/readyz`. The first is the main store; the others are of
/// `--etcd-servers-overrides`, with kube-apiserver's names.
pub fn of_store(number: usize) -> [String; 2] {
    match number.checked_sub(1) {
        None => ["etcd".into(), "etcd-readiness".into()],
        Some(number) => [format!("etcd-override-{number}"), format!("etcd-override-readiness-{number}")],
    }
}

/// One component's word on itself.
#[derive(Clone, Debug)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    /// Sets whether the component is healthy.
    pub fn set(&self, well: bool) {
        self.0.store(well, Ordering::Release);
    }
}

/// The health endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/healthz`
    Healthz,
    /// `/livez`
    Livez,
    /// `/readyz`
    Readyz,
}

impl Endpoint {
    fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

#[derive(Clone, Debug)]
struct Check {
    name: String,
    /// A start-up check counts for readiness only: a server that is still starting is alive.
    readiness_only: bool,
    gate: Gate,
}

/// All checks of a server, in the order of their registration.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<RwLock<Vec<Check>>>);

impl Health {
    /// A check that counts for `/readyz`, closed until the component opens it. The same name gives the same gate.
    pub fn ready_gate(&self, name: &str) -> Gate {
        self.register(name, true, false)
    }

    /// A check that counts everywhere, open until the component closes it.
    pub fn live_gate(&self, name: &str) -> Gate {
        self.register(name, false, true)
    }

    /// Checks of completed start-up steps.
    pub fn passed(&self, names: &[&str]) {
        names.iter().for_each(|name| drop(self.live_gate(name)));
    }

    fn register(&self, name: &str, readiness_only: bool, well: bool) -> Gate {
        let mut checks = self.0.write();
        if let Some(check) = checks.iter().find(|check| check.name == name) {
            return check.gate.clone();
        }
        let gate = Gate(Arc::new(AtomicBool::new(well)));
        let at = checks.partition_point(|check| place(&check.name) <= place(name));
        checks.insert(at, Check { name: name.to_owned(), readiness_only, gate: gate.clone() });
        gate
    }

    /// Whether every check passes.
    pub fn is_ready(&self) -> bool {
        self.0.read().iter().all(|check| check.gate.0.load(Ordering::Acquire))
    }

    /// Answers a path of the three and below them, `None` for every other path.
    pub fn answer(&self, path: &str, query: &str) -> Option<Response> {
        let mut parts = path.trim_start_matches('/').splitn(2, '/');
        let endpoint = match parts.next()? {
            "healthz" => Endpoint::Healthz,
            "livez" => Endpoint::Livez,
            "readyz" => Endpoint::Readyz,
            _ => return None,
        };
        let (code, text) = match parts.next().filter(|name| !name.is_empty()) {
            Some(name) => self.one(endpoint, name),
            None => self.all(endpoint, query),
        };
        Some(plain(code, text))
    }

    /// The checks of an endpoint with their state; `ping` is always there.
    fn states(&self, endpoint: Endpoint) -> Vec<(String, bool)> {
        let ping = ("ping".to_owned(), true);
        let checks = self.0.read();
        let relevant = checks.iter().filter(|check| endpoint == Endpoint::Readyz || !check.readiness_only);
        let states = relevant.map(|check| (check.name.clone(), check.gate.0.load(Ordering::Acquire)));
        std::iter::once(ping).chain(states).collect()
    }

    fn one(&self, endpoint: Endpoint, name: &str) -> (StatusCode, String) {
        match self.states(endpoint).into_iter().find(|(check, _)| check == name) {
            Some((_, true)) => (StatusCode::OK, "ok".into()),
            Some((name, false)) => {
                let why =
                    if name == SHUTDOWN { "process is shutting down".into() } else { format!("{name} is not ready") };
                (StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n"))
            }
            None => (StatusCode::NOT_FOUND, "404 page not found\n".into()),
        }
    }

    fn all(&self, endpoint: Endpoint, query: &str) -> (StatusCode, String) {
        let query = Query::parse(query);
        let (verbose, excluded) = (query.get("verbose").is_some(), query.all("exclude").collect::<BTreeSet<_>>());
        let mut lines = String::new();
        let mut failed = false;
        let mut known = BTreeSet::new();
        for (name, well) in self.states(endpoint) {
            lines.push_str(&match (excluded.contains(name.as_str()), well) {
                (true, _) => format!("[+]{name} excluded: ok\n"),
                (false, true) => format!("[+]{name} ok\n"),
                (false, false) => {
                    failed = true;
                    format!("[-]{name} failed: reason withheld\n")
                }
            });
            known.insert(name);
        }
        let unknown: Vec<String> =
            excluded.iter().filter(|name| !known.contains(**name)).map(|name| format!("{name:?}")).collect();
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {unknown}\n"));
        }
        let endpoint = endpoint.name();
        match (failed, verbose) {
            (true, _) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{endpoint} check failed\n")),
            (false, true) => (StatusCode::OK, format!("{lines}{endpoint} check passed\n")),
            (false, false) => (StatusCode::OK, "ok".into()),
        }
    }
}

fn plain(code: StatusCode, text: String) -> Response {
    let mut response = Response::new(full(text));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert("cache-control", HeaderValue::from_static("no-cache, private"));
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
