//! Rejected agents: how often they retry.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use apimachinery::{Status, StatusReason};
use client::Client;
use metrics::Registry;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Identity, Request};
use tunnel::Agent;
use world::World;

use crate::member::{echo, member};

/// The number of requests within an hour by an agent that gets this response.
async fn attempts(reason: StatusReason) -> u32 {
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    let service = ApiService::new(tower::service_fn(move |request: Request| {
        assert_eq!(request.uri().path(), "/apis/cluster.karmada.io/v1alpha1/clusters/m1/tunnel");
        assert_eq!(
            (request.method().as_str(), &request.headers()["upgrade"]),
            ("POST", &"h2-reverse".parse().expect("text"))
        );
        counted.fetch_add(1, Ordering::Relaxed);
        let status = Status::failure(reason, "why");
        let mut response = http::Response::new(transport::full(serde_json::to_vec(&status).expect("JSON")));
        *response.status_mut() = http::StatusCode::from_u16(status.code).expect("a code");
        std::future::ready(Ok::<_, Infallible>(response))
    }));
    let agent = Agent {
        cluster: "m1".into(),
        control: Client::in_process(service, Identity::system("test")),
        member: member(|stream| echo("one", stream)),
        world: World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7),
    };
    let (registry, stop) = (Registry::default(), CancellationToken::new());
    let running = tokio::spawn(agent.run(&registry, stop.clone()));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(registry.text().contains("karmada_agent_tunnel_connected 0"), "{}", registry.text());
    stop.cancel();
    running.await.expect("no panic");
    count.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn agents_back_off() {
    // Lasting refusals: 1, 2, 4, 8, 10, ... minutes plus up to half of each. Others: up to 30 s plus half of that.
    for (reason, least, most) in [
        (StatusReason::Forbidden, 6, 10),
        (StatusReason::NotFound, 6, 10),
        (StatusReason::ServiceUnavailable, 80, 130),
        (StatusReason::TooManyRequests, 80, 130),
    ] {
        let found = attempts(reason).await;
        assert!((least..=most).contains(&found), "{reason:?}: {found}");
    }
}
