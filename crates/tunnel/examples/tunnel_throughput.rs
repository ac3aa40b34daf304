//! Compares requests to a member directly and over a tunnel, in one process over loopback: `cargo run --release -p
//! tunnel --example tunnel_throughput`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Client, Egress, Endpoint};
use futures::StreamExt as _;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tunnel::Tunnels;
use tunnel::agent::{Member, serve};
use tunnel::decide::Destinations;

const SMALL: usize = 2 << 10;
const LARGE: usize = 4 << 20;

/// Responds to `/N` with N bytes.
async fn member() -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let service = service_fn(|request: Request<Incoming>| {
                let size = request.uri().path()[1..].parse().unwrap_or(0);
                std::future::ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(vec![b' '; size])))))
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(url)
}

/// A tunnel over loopback.
async fn tunnelled(url: &str) -> Result<Client, Box<dyn std::error::Error>> {
    let egress = Egress::to(url, None)?;
    let member = Member {
        destinations: Destinations::new(&egress.authority(), url),
        connect: Arc::new(move || egress.connect()),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let near = TcpStream::connect(listener.local_addr()?).await?;
    let (far, _) = listener.accept().await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    tokio::spawn(serve(TokioIo::new(far), member, CancellationToken::new()));
    let tunnels = Tunnels::default();
    let place = tunnels.place("m1").ok_or("no place")?;
    tokio::spawn(place.hold(TokioIo::new(near), CancellationToken::new()));
    while !tunnels.is_connected("m1") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let endpoint = Endpoint { server: url.to_owned(), pull: true, ..Endpoint::default() };
    Ok(Client::from_endpoint_over(&endpoint, tunnels.to("m1"))?)
}

async fn measure(name: &str, client: &Client, size: usize, at_once: usize, count: usize) {
    let path = format!("/{size}");
    let began = Instant::now();
    let mut took: Vec<Duration> = futures::stream::iter(0..count)
        .map(|_| async {
            let began = Instant::now();
            let answer = client.request(Method::GET, &path, None).await;
            assert_eq!(answer.map(|it| it.len()).ok(), Some(size));
            began.elapsed()
        })
        .buffer_unordered(at_once)
        .collect()
        .await;
    let all = began.elapsed().as_secs_f64();
    took.sort();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_micros();
    let (rate, mib) = (count as f64 / all, (count * size) as f64 / all / f64::from(1 << 20));
    println!(
        "{name:7} {size:8} B {at_once:4} at once: {rate:8.0}/s {mib:7.1} MiB/s  p50 {:6} us  p99 {:6} us",
        at(0.5),
        at(0.99)
    );
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = member().await?;
    let direct = Client::from_endpoint(&Endpoint { server: url.clone(), ..Endpoint::default() })?;
    let over = tunnelled(&url).await?;
    for (size, at_once, count) in [(SMALL, 1, 5_000), (SMALL, 16, 20_000), (SMALL, 200, 20_000), (LARGE, 4, 100)] {
        for (name, client) in [("direct", &direct), ("tunnel", &over)] {
            measure(name, client, size, at_once, count / 10 + at_once).await;
            measure(name, client, size, at_once, count).await;
        }
    }
    Ok(())
}
