//! The processor time of a list of 10,000 pods over 100 members.

use crate::harness::{Adapter, Member, pods};

const PODS: &str = "/apis/metrics.k8s.io/v1beta1/pods";
/// It takes about 60 ms; the bound leaves room for builds without optimizations.
const MOST: u64 = 1_000;

/// Processor time of this thread in ms; 0 where it is unknown.
fn processor_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0) / 1_000_000
}

#[tokio::test]
async fn ten_thousand_pods() {
    let clusters: Vec<String> = (0..100).map(|n| format!("member{n:03}")).collect();
    let names: Vec<String> = (0..100).map(|n| format!("web-{n:03}")).collect();
    let items: Vec<(&str, &str)> = names.iter().map(|name| ("shop", name.as_str())).collect();
    let member = Member::Encoded(pods(&items).to_string().into());
    let adapter = Adapter::over(clusters.iter().map(|it| (it.as_str(), member.clone())).collect()).await;
    let before = processor_time();
    let body = adapter.body(PODS).await;
    let took = processor_time() - before;
    let list: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(10_000));
    println!("10,000 pods, {} bytes: {took} ms", body.len());
    assert!(took < MOST, "{took} ms");
}
