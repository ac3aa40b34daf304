//! Peers that are not agents, or that disappear.

use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_util::sync::CancellationToken;
use tunnel::Tunnels;

use crate::member::{agent, connected, echo, member, open, text, until};

/// A tunnel whose other end the test controls.
fn opened(tunnels: &Tunnels, cluster: &str) -> (DuplexStream, tokio::task::JoinHandle<()>) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let place = tunnels.place(cluster).expect("a place");
    (far, tokio::spawn(place.hold(TokioIo::new(near), CancellationToken::new())))
}

#[tokio::test(start_paused = true)]
async fn invalid_peers_get_no_tunnel() {
    let tunnels = Tunnels::default();
    let _agent = agent(&tunnels, "m1", member(|stream| echo("one", stream))).await;
    let settings_then = |more: &[u8]| [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], more].concat();
    for nonsense in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        vec![0xff; 4096],
        Vec::new(),
        // HTTP/2 frames that no server sends: data of no stream, a push, a window that overflows.
        settings_then(&[0, 0, 1, 0, 0, 0, 0, 0, 9, 0]),
        settings_then(&[0, 0, 4, 5, 4, 0, 0, 0, 1, 0, 0, 0, 2]),
        settings_then(&[0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]),
        // A greeting with the response 200 (index 8 of the static table) instead of 204.
        settings_then(&[0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88]),
    ] {
        let (mut far, holding) = opened(&tunnels, "m1");
        far.write_all(&nonsense).await.expect("written");
        if nonsense.is_empty() {
            drop(far);
        } else {
            // It may read some of the other side's bytes.
            let mut read = vec![0; 1024];
            while let Ok(1..) = far.read(&mut read).await {}
        }
        holding.await.expect("no panic");
        assert_eq!(connected(&tunnels, "m1"), 1, "{nonsense:?}");
        let mut stream = open(&tunnels, "m1").await.expect("the agent's tunnel works");
        assert_eq!(text(&mut stream, 3).await, "one");
    }
}

#[tokio::test(start_paused = true)]
async fn silent_peers_get_no_tunnel() {
    let tunnels = Tunnels::default();
    let (_far, holding) = opened(&tunnels, "m1");
    let began = tokio::time::Instant::now();
    holding.await.expect("no panic");
    assert!(began.elapsed() <= Duration::from_secs(11) && !tunnels.is_connected("m1"));
}

/// The agent's machine is lost: connections are neither closed nor do they respond.
#[tokio::test(start_paused = true)]
async fn dead_connections_are_found_by_pings() {
    let tunnels = Tunnels::default();
    let (near, mut wire) = tokio::io::duplex(64 << 10);
    let (mut other, far) = tokio::io::duplex(64 << 10);
    let cut = CancellationToken::new();
    let cutting = cut.clone();
    tokio::spawn(async move {
        let _ = cutting.run_until_cancelled(tokio::io::copy_bidirectional(&mut wire, &mut other)).await;
        // Both ends stay open.
        std::future::pending::<()>().await;
    });
    let serving =
        tunnel::agent::serve(TokioIo::new(far), member(|stream| echo("one", stream)), CancellationToken::new());
    let serving = tokio::spawn(serving);
    let place = tunnels.place("m1").expect("a place");
    let holding = tokio::spawn(place.hold(TokioIo::new(near), CancellationToken::new()));
    until(|| tunnels.is_connected("m1")).await;
    let mut stream = open(&tunnels, "m1").await.expect("a connection");
    // Pings keep an idle tunnel; no request is needed.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(tunnels.is_connected("m1"));
    cut.cancel();
    let began = tokio::time::Instant::now();
    holding.await.expect("no panic");
    assert!(began.elapsed() <= Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(serving.await.expect("no panic").is_err());
    assert_eq!(text(&mut stream, 3).await, "one");
    assert!(stream.read(&mut [0]).await.is_err());
    assert!(!tunnels.is_connected("m1"));
}
