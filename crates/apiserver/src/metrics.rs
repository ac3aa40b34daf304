//! Metrics of the server, with kube-apiserver's names.
#![allow(missing_docs, reason = "each metric has a description")]

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{Object, Status};
use http::StatusCode;
use metrics::{Buckets, Counters, Description, Gauge, Histograms, Registry};
use transport::Response;

use crate::request::RequestInfo;

mod access;
pub mod admission;
pub mod pod_security;
pub(crate) mod sizes;
pub(crate) mod stored;
pub(crate) mod streams;

pub(crate) use access::Access;
use sizes::{BODIES, Bodies, RESPONSES};
use streams::{EVENT_SIZES, EVENTS, LONG_RUNNING, Streams};

/// The time that a request waited for programs of users, as an extension of its response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Foreign(pub Duration);

const LABELS: &[&str] = &["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"];

pub const REQUESTS: Description = Description::counter(
    "apiserver_request_total",
    &["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"],
    "Requests by verb, resource and code.",
);
pub const DURATION: Description = Description::histogram(
    "apiserver_request_duration_seconds",
    LABELS,
    Buckets::Listed(&[
        0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0,
        30.0, 45.0, 60.0,
    ]),
    "How long requests took that are not long-running.",
);
pub const SLI_DURATION: Description = Description::histogram(
    "apiserver_request_sli_duration_seconds",
    LABELS,
    Buckets::Listed(&[
        0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
    ]),
    "How long requests took that are not long-running, without calls of admission webhooks and waits for seats, as a service level indicator.",
);
pub const TERMINATIONS: Description = Description::counter(
    "apiserver_request_terminations_total",
    &["component", "verb", "group", "version", "resource", "subresource", "scope", "code"],
    "Requests that the server ended because they took too long.",
);
pub const INFLIGHT: Description = Description::gauge(
    "apiserver_current_inflight_requests",
    &["request_kind"],
    "Requests in progress that are not long-running: mutating, readOnly.",
);
pub const IN_FLIGHT: Description =
    Description::gauge("apiserver_response_bytes_in_flight", &[], "Bytes of responses not read by clients yet.");
pub const CUT: Description = Description::counter(
    "apiserver_responses_cut_total",
    &["kind"],
    "Streams and connections closed because their client read nothing: stream, connection.",
);
pub const REFUSED: Description = Description::counter(
    "apiserver_responses_refused_total",
    &["scope"],
    "Requests refused because too many bytes of responses were in flight: user, server.",
);
pub const CLIENT_EXPIRATION: Description = Description::histogram(
    "apiserver_client_certificate_expiration_seconds",
    &[],
    Buckets::Listed(&[
        0.0,
        1800.0,
        3600.0,
        7200.0,
        21600.0,
        43200.0,
        86400.0,
        172_800.0,
        345_600.0,
        604_800.0,
        2_592_000.0,
        7_776_000.0,
        15_552_000.0,
        31_104_000.0,
    ]),
    "The time left of the client certificate of each connection.",
);
pub const ALL: &[Description] = &[
    REQUESTS,
    DURATION,
    SLI_DURATION,
    BODIES,
    RESPONSES,
    TERMINATIONS,
    CLIENT_EXPIRATION,
    INFLIGHT,
    LONG_RUNNING,
    EVENTS,
    EVENT_SIZES,
    access::AUTHENTICATIONS,
    access::AUTHENTICATION,
    access::USERS,
    access::AUTHORIZATIONS,
    access::AUTHORIZATION,
    admission::PLUGIN,
    admission::STEP,
    pod_security::EVALUATIONS,
    pod_security::EXEMPTIONS,
    pod_security::ERRORS,
    stored::RESOURCES,
    stored::OBJECTS,
    IN_FLIGHT,
    CUT,
    REFUSED,
];

const KINDS: [&str; 2] = ["readOnly", "mutating"];

/// The resolved families, so that a request only looks up its series.
#[derive(Debug)]
pub(crate) struct Counted {
    requests: Counters,
    duration: Histograms,
    indicator: Histograms,
    terminations: Counters,
    expiration: Histograms,
    /// In the order of [`KINDS`].
    inflight: [Gauge; 2],
    pub access: Access,
    pub bodies: Bodies,
    pub streams: Streams,
}

impl Counted {
    pub fn new(registry: &Registry) -> Self {
        Self {
            requests: registry.counters(&REQUESTS),
            duration: registry.histograms(&DURATION),
            indicator: registry.histograms(&SLI_DURATION),
            terminations: registry.counters(&TERMINATIONS),
            expiration: registry.histograms(&CLIENT_EXPIRATION),
            inflight: KINDS.map(|kind| registry.gauges(&INFLIGHT).of(&[kind])),
            access: Access::new(registry),
            bodies: Bodies::new(registry),
            streams: Streams::new(registry),
        }
    }

    /// Counts a request as under way until the answer is dropped.
    pub fn begin(&self, info: &RequestInfo) -> Underway {
        let kind = usize::from(!matches!(info.verb, "get" | "list" | "head" | "options"));
        let inflight = self.inflight[kind].clone();
        inflight.add(1.0);
        Underway { inflight }
    }

    /// `known`: the resource is one of ours; others are counted without its name, which is the caller's invention.
    /// `took` has the duration, and how long the request waited for a seat.
    pub fn end(
        &self,
        info: &RequestInfo,
        known: bool,
        response: &Response,
        took: Option<(Duration, Option<Duration>)>,
    ) {
        let labels = labels(info, known);
        self.count(labels, response.status());
        if let Some((took, queued)) = took {
            let Foreign(called) = response.extensions().get().copied().unwrap_or_default();
            let foreign = called.saturating_add(queued.unwrap_or_default());
            self.duration.took(&labels, took);
            self.indicator.took(&labels, took.saturating_sub(foreign));
        }
    }

    /// Counts a request that took too long.
    pub fn terminated(&self, info: &RequestInfo, known: bool, code: StatusCode) {
        let [verb, _, group, version, resource, subresource, scope, component] = labels(info, known);
        self.terminations.increment(&[component, verb, group, version, resource, subresource, scope, code.as_str()]);
    }

    /// Counts the objects that one request created as so many requests; the first is already counted.
    pub fn more(&self, info: &RequestInfo, known: bool, outcomes: &[Result<Arc<Object>, Box<Status>>]) {
        let labels = labels(info, known);
        for outcome in outcomes.iter().skip(1) {
            let refused =
                |status: &Status| StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            self.count(labels, outcome.as_ref().map_or_else(|status| refused(status), |_| StatusCode::CREATED));
        }
    }

    /// Counts one of several writes of a request, besides the first.
    pub fn beside(&self, info: &RequestInfo, code: StatusCode) {
        self.count(labels(info, true), code);
    }

    /// The remaining seconds of a client certificate.
    pub fn expiration(&self, left: i64) {
        self.expiration.observe(&[], left as f64);
    }

    /// Drops the series of a resource that is no longer served.
    pub fn forget(&self, group: &str, plural: &str) {
        let labels = [("group", group), ("resource", plural)];
        self.requests.remove(&labels);
        self.duration.remove(&labels);
        self.indicator.remove(&labels);
        self.terminations.remove(&labels);
        self.bodies.forget(&labels);
        self.streams.forget(&labels);
    }

    fn count(&self, labels: [&str; 8], code: StatusCode) {
        let [a, b, c, d, e, f, g, h] = labels;
        self.requests.increment(&[a, b, c, d, e, f, g, h, code.as_str()]);
    }
}

fn labels(info: &RequestInfo, known: bool) -> [&str; 8] {
    let (group, version, resource, subresource) = if known {
        (info.group.as_str(), info.version.as_str(), info.resource.as_str(), info.subresource.as_str())
    } else {
        ("", "", "", "")
    };
    // Subresources of known resources are few, but requests may name any: the longest of ours has 11 letters.
    let subresource = if subresource.len() > 16 { "" } else { subresource };
    let scope = match (known, info.name.is_empty(), info.namespace.is_empty()) {
        (false, ..) => "",
        (_, false, _) => "resource",
        (_, true, false) => "namespace",
        (_, true, true) => "cluster",
    };
    [verb(info), "", group, version, resource, subresource, scope, "apiserver"]
}

/// As kube-apiserver spells them.
fn verb(info: &RequestInfo) -> &'static str {
    match info.verb {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    }
}

/// A request under way.
pub(crate) struct Underway {
    inflight: Gauge,
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.inflight.add(-1.0);
    }
}
