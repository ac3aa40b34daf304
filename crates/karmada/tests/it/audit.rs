//! The backends of audit events, behind a server with a socket.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apimachinery::ApiResource;
use karmada::audit::{Backend, Batching, Format, Log, Mode, Settings, Webhook};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use world::World;

use crate::plane::options;

const POLICY: &str = r"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  users: [system:test]
  verbs: [create]
";

fn log(path: &Path) -> Backend<Log> {
    let to = Log {
        path: path.to_owned(),
        format: Format::Json,
        max_size: 1 << 20,
        max_backups: 0,
        max_age: Duration::ZERO,
        compress: false,
        world: World::system(),
    };
    Backend { to, mode: Mode::Blocking, limits: None }
}

/// Creates `count` Secrets on a server with these settings, and stops it.
async fn create(directory: &Path, settings: Settings, count: usize) {
    let options = karmada::apiserver::Options { audit: settings, ..options(&directory.join("data")).server };
    let running = karmada::apiserver::start(&options, &World::system()).await.expect("a server");
    let client = running.opened.client("test");
    let secrets = ApiResource::namespaced("", "v1", "Secret", "secrets");
    for n in 0..count {
        let secret =
            json!({"metadata": {"name": format!("s{n}"), "namespace": "default"}, "stringData": {"k": "hidden"}});
        client.create(&secrets, &secret).await.expect("a Secret");
    }
    running.stop().await.expect("the end");
}

fn policy(directory: &Path) -> std::path::PathBuf {
    let file = directory.join("policy.yaml");
    std::fs::write(&file, POLICY).expect("written");
    file
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["objectRef"]["name"].as_str().unwrap_or_default()).collect()
}

#[tokio::test]
async fn the_log_has_a_line_for_each_event() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("logs/audit.log");
    let settings = Settings { policy_file: Some(policy(directory.path())), log: Some(log(&path)), webhook: None };
    create(directory.path(), settings, 3).await;
    let text = std::fs::read_to_string(&path).expect("the log");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(names(&events), ["s0", "s1", "s2"]);
    assert!(!text.contains("hidden") && !text.contains("aGlkZGVu"), "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(path.metadata().expect("the log").permissions().mode() & 0o777, 0o600);
    }
}

/// Responds with each status in turn, repeating the last one, and keeps the accepted bodies. After 201 comes a body
/// without an end.
struct Receiver {
    answers: Mutex<Vec<u16>>,
    bodies: Mutex<Vec<Value>>,
    connections: AtomicUsize,
}

async fn serve(receiver: Arc<Receiver>, mut stream: TcpStream) -> std::io::Result<()> {
    let mut input = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = input.windows(4).position(|it| it == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut input).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&input[..end]).to_ascii_lowercase();
        assert!(head.starts_with("post /audit http/1.1"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let length: usize = length.trim().parse().expect("a number");
        while input.len() < end + length {
            stream.read_buf(&mut input).await?;
        }
        let body: Value = serde_json::from_slice(&input[end..end + length]).expect("JSON");
        input.drain(..end + length);
        let answer = {
            let mut answers = receiver.answers.lock();
            if answers.len() > 1 { answers.remove(0) } else { answers[0] }
        };
        if matches!(answer, 200 | 201) {
            receiver.bodies.lock().push(body);
        }
        if answer == 201 {
            stream.write_all(b"HTTP/1.1 201 X\r\ntransfer-encoding: chunked\r\n\r\n").await?;
            loop {
                stream.write_all(format!("400\r\n{}\r\n", "x".repeat(0x400)).as_bytes()).await?;
            }
        }
        stream.write_all(format!("HTTP/1.1 {answer} X\r\ncontent-length: 2\r\n\r\n{{}}").as_bytes()).await?;
    }
}

async fn receiver(answers: &[u16], directory: &Path) -> (Arc<Receiver>, std::path::PathBuf) {
    let receiver = Arc::new(Receiver {
        answers: Mutex::new(answers.to_vec()),
        bodies: Mutex::default(),
        connections: AtomicUsize::new(0),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}/audit")}}],
        "users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    let file = directory.join("webhook.config");
    std::fs::write(&file, kubeconfig.to_string()).expect("written");
    let serving = receiver.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            serving.connections.fetch_add(1, Relaxed);
            tokio::spawn(serve(serving.clone(), stream));
        }
    });
    (receiver, file)
}

fn webhook(config_file: std::path::PathBuf, mode: Mode) -> Backend<Webhook> {
    Backend { to: Webhook { config_file, initial_backoff: Duration::from_millis(1) }, mode, limits: None }
}

#[tokio::test]
async fn the_webhook_gets_every_event_in_batches_even_at_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let (receiver, config) = receiver(&[503, 429, 200], directory.path()).await;
    let batching = Batching { buffer: 100, size: 2, wait: Duration::from_secs(3_600), throttle: Some((1_000.0, 10)) };
    let webhook = Some(webhook(config, Mode::Batch(batching)));
    let settings = Settings { policy_file: Some(policy(directory.path())), log: None, webhook };
    create(directory.path(), settings, 5).await;
    let bodies = receiver.bodies.lock().clone();
    assert!(bodies.iter().all(|body| body["kind"] == "EventList" && body["apiVersion"] == "audit.k8s.io/v1"));
    let events: Vec<Value> =
        bodies.iter().flat_map(|body| body["items"].as_array().cloned().unwrap_or_default()).collect();
    // Batches are sent in parallel.
    let mut names = names(&events);
    names.sort_unstable();
    assert_eq!(names, ["s0", "s1", "s2", "s3", "s4"]);
    assert_eq!(bodies.len(), 3);
}

/// The body of a response does not matter, and an ordinary one costs no connection.
#[tokio::test]
async fn responses_of_a_webhook_are_read_as_far_as_connections_are_worth() {
    let directory = tempfile::tempdir().expect("a directory");
    for (answer, connections) in [(200, 1), (201, 5)] {
        let (receiver, config) = receiver(&[answer], directory.path()).await;
        let webhook = Some(webhook(config, Mode::BlockingStrict));
        let settings = Settings { policy_file: Some(policy(directory.path())), log: None, webhook };
        let data = tempfile::tempdir().expect("a directory");
        create(data.path(), settings, 5).await;
        assert_eq!(receiver.bodies.lock().len(), 5, "{answer}");
        assert_eq!(receiver.connections.load(Relaxed), connections, "{answer}");
    }
}

#[tokio::test]
async fn a_blocking_webhook_that_refuses_loses_events_and_no_request() {
    let directory = tempfile::tempdir().expect("a directory");
    let (receiver, config) = receiver(&[400], directory.path()).await;
    let settings = Settings {
        policy_file: Some(policy(directory.path())),
        log: None,
        webhook: Some(webhook(config, Mode::Blocking)),
    };
    create(directory.path(), settings, 2).await;
    assert!(receiver.bodies.lock().is_empty());
}

#[tokio::test]
async fn unusable_settings_are_refused_before_anything_exists() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let broken = directory.path().join("broken.yaml");
    std::fs::write(&broken, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Everything}]")
        .expect("written");
    for (file, expected) in
        [(broken, "rules[0].level: Unsupported value"), (directory.path().join("none"), "No such file")]
    {
        let audit = Settings { policy_file: Some(file.clone()), ..Settings::default() };
        let options = karmada::apiserver::Options { audit, ..options(&data).server };
        let error =
            format!("{:#}", karmada::apiserver::start(&options, &World::system()).await.err().expect("refused"));
        assert!(
            error.contains(&format!("--audit-policy-file {}", file.display())) && error.contains(expected),
            "{error}"
        );
        assert!(!data.exists());
    }
}
