//! Measures the speed and memory of members: `cargo run --release -p simulator --example throughput [DEPLOYMENTS]
//! [MEMBERS]`.
//!
//! Creates Deployments of two replicas in one in-memory member and waits until the last is available; then starts idle
//! members and divides their memory by their number.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use apimachinery::{ApiResource, Object};
use client::Client;
use controller_runtime::{Event, InformerSet};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use simulator::{Access, Member, MemberOptions, NodeShape};
use storage::memory::MemoryStore;
use tokio::sync::watch;
use tokio::time::Instant;
use world::World;

const REPLICAS: usize = 2;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let deployments = numbers.next().transpose()?.unwrap_or(1000);
    let members = numbers.next().transpose()?.unwrap_or(100);
    speed(deployments).await?;
    let before = resident()?;
    let mut running = Vec::new();
    for index in 0..members {
        running.push(start(&format!("idle{index}"), 110).await?);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let each = (resident()?.saturating_sub(before)) / members.max(1);
    println!("{members} idle members: {each} KiB each");
    Ok(())
}

async fn speed(deployments: usize) -> anyhow::Result<()> {
    let member = start("busy", u32::try_from(deployments * REPLICAS)?).await?;
    let resource = ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
    let available = watch::Sender::new(0);
    let informers = InformerSet::new(member.client().with_user_agent("observer"), World::system());
    let (counter, informer) = (available.clone(), informers.informer(&resource));
    informer.subscribe(move |event| {
        let expected = format!(r#""availableReplicas":{REPLICAS}"#);
        let has = |object: &Object| String::from_utf8_lossy(&object.json()).contains(&expected);
        if let Event::Updated { old, new } = event
            && has(new)
            && !has(old)
        {
            counter.send_modify(|count| *count += 1);
        }
    });
    let started = Instant::now();
    let client = member.client().with_user_agent("load");
    let creations = (0..deployments).map(|index| create(&client, &resource, index));
    futures::stream::iter(creations).buffer_unordered(8).try_for_each(async |_| Ok(())).await?;
    let created = started.elapsed();
    available.subscribe().wait_for(|count| *count >= deployments).await?;
    let all = started.elapsed();
    let pods = (deployments * REPLICAS) as f64 / all.as_secs_f64();
    println!("{deployments} Deployments created in {created:.2?}, available in {all:.2?}: {pods:.0} pods/s");
    let mut counts = member.client().request_counts();
    counts.sort_by_key(|count| std::cmp::Reverse(count.count));
    for count in counts.iter().filter(|count| count.count as usize >= deployments / 10) {
        println!("  {count:?}");
    }
    informers.stop_all();
    member.stop().await;
    Ok(())
}

async fn create(client: &Client, resource: &ApiResource, index: usize) -> Result<(), client::Error> {
    client.create(resource, &deployment(index)).await.map(|_| ())
}

async fn start(name: &str, pods: u32) -> anyhow::Result<Member> {
    let shape = NodeShape { pods, cpu: "1000".parse()?, ..NodeShape::default() };
    let options = MemberOptions { nodes: vec![shape; 2], ..MemberOptions::new(name) };
    let store = Arc::new(MemoryStore::new());
    Ok(Member::start(options, store, World::system(), Access::default()).await?)
}

fn deployment(index: usize) -> Value {
    let name = format!("app-{index}");
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": "10m"}}}]}}}})
}

/// Resident memory of this process in KiB.
fn resident() -> anyhow::Result<usize> {
    let text = std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("a line VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}
