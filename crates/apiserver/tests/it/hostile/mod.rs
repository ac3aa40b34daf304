//! Hostile requests: deep, long, repeated, malformed. Each is answered with a Status, in bounded memory and time, and
//! the server keeps serving.
//!
//! Memory is the peak of the process and time is processor time, so the cases run in a separate process: this same
//! binary, started again.

mod bodies;
mod cases;
mod frames;
mod handshakes;
mod lists;
mod patches;
mod sockets;

use std::process::Command;
use std::time::Duration;

use apiserver::ApiServer;
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::Value;
use storage::memory::MemoryStore;
use tower::ServiceExt;
use transport::{Identity, Request};
use world::World;

use cases::{Case, Expected};

/// The maximum growth of the peak by one request, in KiB. A body of 3 MiB becomes a tree of some 100 MiB (each `[]` of
/// two bytes is a value of 32), of which the server holds a few versions.
const MAX_KIB: u64 = 700 * 1024;
/// Processor seconds of one request in a build without optimisation; quadratic work takes hundreds.
const MAX_SECONDS: f64 = 40.0;

const CHILD: &str = "HOSTILE_CASES";

#[test]
fn hostile_requests_are_answered_in_bounded_memory_and_time() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        return runtime.expect("a runtime").block_on(run_cases());
    }
    let name = "hostile::hostile_requests_are_answered_in_bounded_memory_and_time";
    let output = Command::new(std::env::current_exe().expect("this binary"))
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("the binary starts");
    let output_text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output_text}");
}

async fn run_cases() {
    let store = MemoryStore::new();
    let server = server(store.clone()).await;
    let mut failures = Vec::new();
    for case in cases::setup().into_iter().chain(cases::all()) {
        reset_peak();
        let (before, begun) = (status_kib("VmHWM:"), processor_seconds());
        let (code, body) = send(&server, &case).await;
        let (grown, spent) = (status_kib("VmHWM:").saturating_sub(before), processor_seconds() - begun);
        eprintln!("{:50} {code} {grown:>8} KiB {spent:>6.2} s {}", case.name, shown(&body));
        let costs = (grown > MAX_KIB || spent > MAX_SECONDS).then_some("costs too much");
        if let Some(wrong) = wrong(&case, code, &body).or(costs) {
            failures.push(format!("{}: {code} {wrong}, {:?} is; {}", case.name, case.expected, shown(&body)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    goes_on(&server).await;
    server.shutdown();
    // Accepted objects can be read again, by this server and by the next one.
    let next = self::server(store).await;
    goes_on(&next).await;
    next.shutdown();
}

async fn goes_on(server: &ApiServer) {
    for url in cases::COLLECTIONS {
        let (code, body) = send(server, &cases::get("the server goes on serving", url)).await;
        assert_eq!(code, 200, "{url}: {}", shown(&body));
    }
}

/// The defect of a response.
fn wrong(case: &Case, code: u16, body: &[u8]) -> Option<&'static str> {
    let expected = match case.expected {
        Expected::Code(expected) => code == expected,
        Expected::Refused => (400..500).contains(&code),
        // 504 is the response to a revision that was not reached in time.
        Expected::Answered => (200..500).contains(&code) || code == 504,
    };
    if !expected {
        return Some("is not what is expected");
    }
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let refused = code >= 400 && !matches!(case.expected, Expected::Answered);
    (refused && (status["kind"] != "Status" || status["code"] != code)).then_some("comes without its Status")
}

fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(400)]).into_owned();
    let message =
        serde_json::from_slice::<Value>(body).ok().and_then(|tree| tree["message"].as_str().map(str::to_owned));
    message.unwrap_or(text).chars().take(160).collect()
}

async fn server(store: MemoryStore) -> ApiServer {
    let start = jiff::Timestamp::from_second(1_790_000_000).expect("in range");
    crate::objects::server_in(std::sync::Arc::new(store), World::simulated(start, 1)).await
}

async fn send(server: &ApiServer, case: &Case) -> (u16, Bytes) {
    let mut builder = http::Request::builder().method(case.method).uri(&case.url).extension(Identity::system("test"));
    for (name, value) in &case.headers {
        builder = builder.header(*name, value);
    }
    let request: Request = builder.body((case.body)()).expect("a request");
    let response = server.service().oneshot(request).await.expect("infallible");
    let code = response.status().as_u16();
    // Time is virtual: a watch is read for a while and then dropped.
    let body = tokio::time::timeout(Duration::from_secs(100), response.into_body().collect()).await;
    (code, body.map(|body| body.expect("a body").to_bytes()).unwrap_or_default())
}

/// A line of `/proc/self/status`. Other systems are not measured.
fn status_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Makes the present size the peak so far.
fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// User and system time of this process; Linux counts in hundredths.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).filter_map(|text| text.parse::<f64>().ok()).sum();
    ticks / 100.0
}
