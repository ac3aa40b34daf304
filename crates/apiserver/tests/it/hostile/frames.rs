//! Floods of HTTP/2 frames, on a connection in memory in virtual time. Each ends with an error of the connection, or costs
//! the server nothing that grows; other connections are served meanwhile.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apiserver::Peer;
use apiserver::serve::{self, Limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf};
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Request, Response};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PIPE: usize = 64 << 10;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("small").to_be_bytes();
    let mut out = vec![length[1], length[2], length[3], kind, flags];
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// `GET /` or `POST /`, and more header bytes.
fn head(method: u8, stream: u32, flags: u8, more: &[u8]) -> Vec<u8> {
    let block = [&[method, 0x87, 0x84, 0x41, 1, b'x'], more].concat();
    frame(HEADERS, flags, stream, &block)
}

fn get(stream: u32) -> Vec<u8> {
    head(0x82, stream, END_STREAM | END_HEADERS, &[])
}

/// The number of a client's `n`th stream.
fn id(n: u32) -> u32 {
    2 * n + 1
}

/// A header that was not sent before, as long as one frame allows.
fn long_header(n: u32) -> Vec<u8> {
    let name = format!("x-{n:05}");
    let mut out = vec![0, u8::try_from(name.len()).expect("short")];
    out.extend_from_slice(name.as_bytes());
    // A length of 127 + 15,873 bytes.
    out.extend_from_slice(&[0x7f, 0x81, 0x7c]);
    out.extend(std::iter::repeat_n(b'y', 16_000));
    out
}

/// A service that counts the requests it has begun and that run, and never answers `POST`.
#[derive(Clone, Default)]
struct Counting {
    begun: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Counting {
    fn service(&self) -> ApiService {
        let counts = self.clone();
        ApiService::new(tower::service_fn(move |request: Request| {
            let counts = counts.clone();
            async move {
                counts.begun.fetch_add(1, Relaxed);
                counts.running.fetch_add(1, Relaxed);
                let _running = Running(Arc::clone(&counts.running));
                if request.method() == http::Method::POST {
                    std::future::pending::<()>().await;
                }
                Ok::<_, std::convert::Infallible>(Response::new(transport::full("answer")))
            }
        }))
    }
}

/// The outcome of a flood.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The connection goes on.
    GoesOn,
    /// The server reads no more until the client reads.
    Stops,
    /// The server ends the connection with this code.
    Ends(u32),
}

/// Reads frames until the end; returns the code of GOAWAY.
async fn read_to_end(mut half: ReadHalf<DuplexStream>, frames: Arc<AtomicUsize>) -> Option<u32> {
    let mut code = None;
    let mut header = [0; 9];
    while half.read_exact(&mut header).await.is_ok() {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("small")];
        half.read_exact(&mut payload).await.ok()?;
        frames.fetch_add(1, Relaxed);
        if header[3] == GOAWAY {
            code = payload.get(4..8).map(|code| u32::from_be_bytes(code.try_into().expect("four bytes")));
        }
    }
    code
}

/// Sends frames; returns how it ends, how many were accepted, and the most requests that ran at once.
async fn flood(count: u32, reads: bool, frames: impl Fn(u32) -> Vec<u8>) -> (Outcome, u32, Counting) {
    let (near, far) = tokio::io::duplex(PIPE);
    let counting = Counting::default();
    let peer = Peer::new(([127, 0, 0, 1], 1).into(), []);
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(serve::serve_stream(far, peer, counting.service(), Limits::default(), shutdown.clone()));
    let (read, mut write) = tokio::io::split(near);
    let seen = Arc::new(AtomicUsize::new(0));
    let (reader, kept) =
        if reads { (Some(tokio::spawn(read_to_end(read, Arc::clone(&seen)))), None) } else { (None, Some(read)) };
    write.write_all(PREFACE).await.expect("a pipe");
    write.write_all(&frame(SETTINGS, 0, 0, &[])).await.expect("a pipe");
    let mut accepted = 0;
    let mut stops = false;
    for n in 0..count {
        match tokio::time::timeout(Duration::from_secs(1), write.write_all(&frames(n))).await {
            Ok(Ok(())) => accepted += 1,
            Ok(Err(_)) => break,
            Err(_) => {
                stops = true;
                break;
            }
        }
        assert!(counting.running.load(Relaxed) <= 1000, "streams are limited");
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    let outcome = match reader {
        Some(reader) if reader.is_finished() => Outcome::Ends(reader.await.expect("no panic").unwrap_or(0)),
        Some(reader) => {
            reader.abort();
            Outcome::GoesOn
        }
        None if stops => Outcome::Stops,
        None => Outcome::GoesOn,
    };
    // A client that has not read and does not answer pings is disconnected.
    if outcome == Outcome::Stops {
        tokio::time::timeout(Duration::from_secs(180), server).await.expect("it is closed").expect("no panic");
    } else {
        drop((write, kept));
        shutdown.cancel();
        tokio::time::timeout(Duration::from_secs(60), server).await.expect("it ends").expect("no panic");
    }
    assert_eq!(counting.running.load(Relaxed), 0, "nothing goes on for it");
    (outcome, accepted, counting)
}

const COUNT: u32 = 50_000;
/// ENHANCE_YOUR_CALM.
const CALM: u32 = 11;

#[tokio::test(start_paused = true)]
async fn floods_of_frames_end_their_connection_or_cost_nothing_that_grows() {
    let open = |n: u32, then: Vec<u8>| if n == 0 { head(0x83, 1, END_HEADERS, &[]) } else { then };
    let reset = |n: u32| [get(id(n)), frame(RST_STREAM, 0, id(n), &8u32.to_be_bytes())].concat();
    let reset_post =
        |n: u32| [head(0x83, id(n), END_HEADERS, &[]), frame(RST_STREAM, 0, id(n), &8u32.to_be_bytes())].concat();
    let begin =
        |n: u32, flags: u8| if n == 0 { head(0x82, 1, END_STREAM, &[]) } else { frame(CONTINUATION, flags, 1, &[]) };
    let setting = |n: u32| frame(SETTINGS, 0, 0, &[&[0, 4][..], &(65_535 + n % 2).to_be_bytes()].concat());
    type Frames<'a> = Box<dyn Fn(u32) -> Vec<u8> + 'a>;
    let cases: Vec<(&str, bool, Frames<'_>, Outcome)> = vec![
        ("requests that are reset at once", true, Box::new(reset), Outcome::Ends(CALM)),
        ("requests that hang and are reset at once", true, Box::new(reset_post), Outcome::Ends(CALM)),
        ("empty CONTINUATION frames", true, Box::new(|n| begin(n, 0)), Outcome::Ends(CALM)),
        (
            "headers without an end",
            true,
            Box::new(
                |n| if n == 0 { head(0x82, 1, END_STREAM, &[]) } else { frame(CONTINUATION, 0, 1, &long_header(n)) },
            ),
            Outcome::Ends(CALM),
        ),
        ("settings, unread", false, Box::new(setting), Outcome::Stops),
        ("settings", true, Box::new(setting), Outcome::GoesOn),
        ("pings, unread", false, Box::new(|n| frame(PING, 0, 0, &u64::from(n).to_be_bytes())), Outcome::Stops),
        ("pings", true, Box::new(|n| frame(PING, 0, 0, &u64::from(n).to_be_bytes())), Outcome::GoesOn),
        ("requests, unread", false, Box::new(|n| get(id(n))), Outcome::Stops),
        (
            "priorities",
            true,
            Box::new(|n| frame(PRIORITY, 0, 1, &[0, 0, 0, 3, u8::try_from(n % 200).unwrap_or(0)])),
            Outcome::GoesOn,
        ),
        ("small windows", true, Box::new(|_| frame(WINDOW_UPDATE, 0, 0, &1u32.to_be_bytes())), Outcome::GoesOn),
        (
            "too large windows",
            true,
            Box::new(|_| frame(WINDOW_UPDATE, 0, 0, &0x7fff_ffffu32.to_be_bytes())),
            Outcome::Ends(3),
        ),
        ("empty data", true, Box::new(|n| open(n, frame(DATA, 0, 1, &[]))), Outcome::Ends(CALM)),
        ("data byte by byte", true, Box::new(|n| open(n, frame(DATA, 0, 1, &[7]))), Outcome::Ends(CALM)),
        ("streams beyond the limit", true, Box::new(|n| head(0x83, id(n), END_HEADERS, &[])), Outcome::Ends(CALM)),
        ("unknown frames", true, Box::new(|n| frame(0xbe, 0, n, &[0; 100])), Outcome::GoesOn),
    ];
    for (what, reads, frames, expected) in cases {
        let (outcome, accepted, counting) = flood(COUNT, reads, frames).await;
        let begun = counting.begun.load(Relaxed);
        assert_eq!(outcome, expected, "{what}: {accepted} frames, {begun} requests begun");
        match outcome {
            Outcome::GoesOn => assert_eq!(accepted, COUNT, "{what}"),
            _ => assert!(accepted < COUNT / 2, "{what}: {accepted} frames were accepted"),
        }
    }
}

/// A request that is reset after it has begun ends, however often that is done.
#[tokio::test(start_paused = true)]
async fn requests_that_are_reset_later_end() {
    let (near, far) = tokio::io::duplex(PIPE);
    let counting = Counting::default();
    let peer = Peer::new(([127, 0, 0, 1], 1).into(), []);
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(serve::serve_stream(far, peer, counting.service(), Limits::default(), shutdown.clone()));
    let (read, mut write) = tokio::io::split(near);
    let reader = tokio::spawn(read_to_end(read, Arc::default()));
    write.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.expect("a pipe");
    for round in 0..100 {
        let streams = (0..100).map(|n| id(round * 100 + n));
        let begin: Vec<u8> = streams.clone().flat_map(|stream| head(0x83, stream, END_HEADERS, &[])).collect();
        write.write_all(&begin).await.expect("the connection goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(counting.running.load(Relaxed), 100, "{round}");
        let reset: Vec<u8> = streams.flat_map(|stream| frame(RST_STREAM, 0, stream, &8u32.to_be_bytes())).collect();
        write.write_all(&reset).await.expect("the connection goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(counting.running.load(Relaxed), 0, "{round}");
    }
    assert!(!reader.is_finished());
    drop(write);
    shutdown.cancel();
    server.await.expect("no panic");
}
