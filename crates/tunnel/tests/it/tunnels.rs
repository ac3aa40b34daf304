//! Connections over tunnels: concurrent and slow ones, several agents, and their ends.

use futures::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tunnel::Tunnels;

use crate::member::{agent, connected, echo, member, open, open_to, text, until};

#[tokio::test(start_paused = true)]
async fn two_hundred_connections_share_a_tunnel() {
    let tunnels = Tunnels::default();
    let _agent = agent(&tunnels, "m1", member(|stream| echo("one", stream))).await;
    let sessions = (0..200_u32).map(|number| {
        let tunnels = tunnels.clone();
        async move {
            let mut stream = open(&tunnels, "m1").await.expect("a connection");
            assert_eq!(text(&mut stream, 3).await, "one");
            // More than the windows of all streams can hold if a tunnel stalls.
            let sent = vec![number as u8; 300_000];
            let (mut read, mut write) = tokio::io::split(stream);
            let writing = async {
                write.write_all(&sent).await.expect("written");
                write.shutdown().await.expect("ended");
            };
            let mut echoed = Vec::new();
            let reading = async { read.read_to_end(&mut echoed).await.expect("read") };
            tokio::join!(writing, reading);
            assert!(echoed == sent, "stream {number} has its own bytes");
        }
    });
    join_all(sessions).await;
    until(|| tunnels.counts("m1") == (1, 0)).await;
}

#[tokio::test(start_paused = true)]
async fn unread_streams_block_no_others() {
    let tunnels = Tunnels::default();
    let flood = member(|mut stream| async move { while stream.write_all(&[7; 64 << 10]).await.is_ok() {} });
    let _agent = agent(&tunnels, "m1", flood).await;
    let mut slow = Vec::new();
    for _ in 0..100 {
        slow.push(open(&tunnels, "m1").await.expect("a connection"));
    }
    let mut fast = open(&tunnels, "m1").await.expect("a connection");
    let mut read = 0;
    let mut buffer = vec![0; 64 << 10];
    while read < 32 << 20 {
        read += fast.read(&mut buffer).await.expect("bytes");
    }
    assert_eq!(tunnels.counts("m1"), (1, 101));
    // Each still has its bytes.
    for stream in &mut slow {
        assert_eq!(stream.read_u8().await.expect("a byte"), 7);
    }
    drop((slow, fast));
    until(|| tunnels.counts("m1") == (1, 0)).await;
}

#[tokio::test(start_paused = true)]
async fn the_newest_of_two_agents_is_used_until_it_fails() {
    let tunnels = Tunnels::default();
    assert_eq!(open(&tunnels, "m1").await.err().as_deref(), Some("direct"));
    let _one = agent(&tunnels, "m1", member(|stream| echo("one", stream))).await;
    let two = agent(&tunnels, "m1", member(|stream| echo("two", stream))).await;
    let mut stream = open(&tunnels, "m1").await.expect("a connection");
    assert_eq!(text(&mut stream, 3).await, "two");
    two.cancel();
    // Its connections end, as with any broken connection.
    assert!(matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)));
    let mut stream = open(&tunnels, "m1").await.expect("a connection");
    assert_eq!(text(&mut stream, 3).await, "one");
    until(|| connected(&tunnels, "m1") == 1).await;
    // Tunnels belong to one cluster.
    assert_eq!(open(&tunnels, "m2").await.err().as_deref(), Some("direct"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_its_member_is_skipped() {
    let tunnels = Tunnels::default();
    let _one = agent(&tunnels, "m1", member(|stream| echo("one", stream))).await;
    let mut lost = member(|stream| echo("two", stream));
    lost.connect = std::sync::Arc::new(|| Box::pin(std::future::ready(Err("no route".into()))));
    let two = agent(&tunnels, "m1", lost.clone()).await;
    let mut stream = open(&tunnels, "m1").await.expect("a connection");
    assert_eq!(text(&mut stream, 3).await, "one");
    two.cancel();
    _one.cancel();
    until(|| connected(&tunnels, "m1") == 0).await;
    let _three = agent(&tunnels, "m1", lost).await;
    let why = open(&tunnels, "m1").await.expect_err("an error");
    assert_eq!(
        why,
        "over the agent tunnel of cluster \"m1\": the agent cannot connect to the member's API server: no route"
    );
}

#[tokio::test(start_paused = true)]
async fn other_destinations_are_refused() {
    let tunnels = Tunnels::default();
    let _agent = agent(&tunnels, "m1", member(|stream| echo("one", stream))).await;
    for authority in ["169.254.169.254:80", "10.0.0.7:10250", "m1.example:22"] {
        let why = open_to(&tunnels, "m1", authority).await.expect_err("an error");
        assert!(why.contains(&format!("connections to {authority} are refused")), "{why}");
    }
    assert!(open_to(&tunnels, "m1", "kubernetes.default.svc:443").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_full_tunnel_and_too_many_tunnels_are_refused() {
    let tunnels = Tunnels::default();
    let one = agent(&tunnels, "m1", member(|stream| echo("one", stream))).await;
    let mut streams = Vec::new();
    for _ in 0..512 {
        streams.push(open(&tunnels, "m1").await.expect("a connection"));
    }
    let why = open(&tunnels, "m1").await.expect_err("an error");
    assert!(why.contains("carry 512 connections each, which is the limit"), "{why}");
    let free = streams.pop();
    drop(free);
    until(|| tunnels.counts("m1").1 < 512).await;
    assert!(open(&tunnels, "m1").await.is_ok());
    // A fifth replaces the first.
    let mut more = Vec::new();
    for _ in 0..3 {
        more.push(agent(&tunnels, "m1", member(|stream| echo("new", stream))).await);
    }
    assert_eq!(connected(&tunnels, "m1"), 4);
    let (near, _far) = tokio::io::duplex(1024);
    let silent: Vec<_> = (0..4).map(|_| tunnels.place("m1").expect("a place")).collect();
    assert!(tunnels.place("m1").is_none(), "four are connected and four are about to be");
    drop((silent, near, one));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_cluster_loses_its_tunnels() {
    let tunnels = Tunnels::default();
    let _agent = agent(&tunnels, "m1", member(|stream| echo("one", stream))).await;
    let mut stream = open(&tunnels, "m1").await.expect("a connection");
    assert_eq!(text(&mut stream, 3).await, "one");
    tunnels.forget("m1");
    assert!(matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)));
    assert!(!tunnels.is_connected("m1") && !tunnels.is_expected("m1"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_agent_is_expected_for_a_minute() {
    let tunnels = Tunnels::default();
    assert!(!tunnels.is_expected("m1"));
    let one = agent(&tunnels, "m1", member(|stream| echo("one", stream))).await;
    assert!(tunnels.is_connected("m1") && tunnels.is_expected("m1"));
    one.cancel();
    until(|| connected(&tunnels, "m1") == 0).await;
    assert!(!tunnels.is_connected("m1") && tunnels.is_expected("m1"));
    tokio::time::advance(tunnel::decide::GRACE).await;
    assert!(!tunnels.is_expected("m1"));
}
