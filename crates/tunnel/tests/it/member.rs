//! A member with an agent, and a control plane with the tunnel; a pipe connects them.

use std::sync::Arc;
use std::time::Duration;

use client::Stream;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_util::sync::CancellationToken;
use transport::BoxError;
use tunnel::Tunnels;
use tunnel::agent::{Connect, Member, serve};
use tunnel::decide::Destinations;

pub const MEMBER: &str = "m1.example:6443";

/// The buffer of a tunnel's pipe; far smaller than the streams over it.
const PIPE: usize = 64 << 10;

/// A member whose connections `serve` handles, with its agent's name first.
pub fn member<F>(serve: impl Fn(DuplexStream) -> F + Send + Sync + 'static) -> Member
where
    F: Future<Output = ()> + Send + 'static,
{
    let connect: Connect = Arc::new(move || {
        let (near, far) = tokio::io::duplex(PIPE);
        tokio::spawn(serve(far));
        Box::pin(std::future::ready(Ok::<_, BoxError>(Stream::new(TokioIo::new(near)))))
    });
    Member { connect, destinations: Destinations::new(MEMBER, "") }
}

/// Sends its name, then repeats what it reads.
pub async fn echo(name: &'static str, mut stream: DuplexStream) {
    let mut buffer = vec![0; 16 << 10];
    if stream.write_all(name.as_bytes()).await.is_err() {
        return;
    }
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// An agent's connected tunnel; cancelling the token kills the agent.
pub async fn agent(tunnels: &Tunnels, cluster: &str, member: Member) -> CancellationToken {
    let (near, far) = tokio::io::duplex(PIPE);
    let kill = CancellationToken::new();
    let killed = kill.clone();
    tokio::spawn(async move {
        // The connection ends with the task.
        let _ = killed.run_until_cancelled(serve(TokioIo::new(far), member, CancellationToken::new())).await;
    });
    let place = tunnels.place(cluster).expect("a place");
    let before = connected(tunnels, cluster);
    tokio::spawn(place.hold(TokioIo::new(near), CancellationToken::new()));
    until(|| connected(tunnels, cluster) > before).await;
    kill
}

/// The number of tunnels of a cluster, from the metric.
pub fn connected(tunnels: &Tunnels, cluster: &str) -> usize {
    tunnels.counts(cluster).0
}

pub async fn until(condition: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never happened");
}

/// A connection to the member.
pub async fn open(tunnels: &Tunnels, cluster: &str) -> Result<TokioIo<Stream>, String> {
    open_to(tunnels, cluster, MEMBER).await
}

pub async fn open_to(tunnels: &Tunnels, cluster: &str, authority: &str) -> Result<TokioIo<Stream>, String> {
    let dialling = tunnels.to(cluster).dial(authority).ok_or("direct")?;
    dialling.await.map(TokioIo::new).map_err(|error| error.to_string())
}

/// Reads this many bytes as text.
pub async fn text(stream: &mut TokioIo<Stream>, length: usize) -> String {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await.expect("bytes");
    String::from_utf8(bytes).expect("text")
}
