//! The light user: one get and one patch of an own object every few milliseconds, and a new connection occasionally.

use std::time::Duration;

use http::Method;
use tokio::time::Instant;

use super::first;
use crate::apiserver::connection::{Call, Connection, Target};
use crate::figures::Latencies;

pub const NAMESPACE: &str = "neighbor";
/// 100 rounds a second: 1,000 samples of each kind in a load of ten seconds.
const PAUSE: Duration = Duration::from_millis(10);
const BETWEEN_CONNECTS: Duration = Duration::from_millis(250);
/// The time-out of a request; a slower one counts with this time, and as a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// The measurements of the neighbor.
pub struct Seen {
    pub gets: Latencies,
    pub patches: Latencies,
    /// From the first packet to the first response.
    pub connects: Latencies,
    pub failures: usize,
}

#[derive(Default)]
struct Samples {
    taken: Vec<Duration>,
    failures: usize,
}

impl Samples {
    async fn take(&mut self, attempt: impl Future<Output = anyhow::Result<()>>) {
        let begun = Instant::now();
        if !matches!(tokio::time::timeout(PATIENCE, attempt).await, Ok(Ok(()))) {
            self.failures += 1;
        }
        self.taken.push(begun.elapsed());
    }
}

pub async fn watch(target: &Target, span: Duration) -> anyhow::Result<Seen> {
    let connection = target.connect().await?;
    let end = Instant::now() + span;
    let requests = async {
        let (mut gets, mut patches) = (Samples::default(), Samples::default());
        let mut round = 0_u64;
        while Instant::now() < end {
            round += 1;
            gets.take(call(&connection, Call::get(first(NAMESPACE)))).await;
            let body = format!(r#"{{"data":{{"round":"{round}"}}}}"#);
            let patch = Call::send(Method::PATCH, first(NAMESPACE), "application/merge-patch+json", body);
            patches.take(call(&connection, patch)).await;
            tokio::time::sleep(PAUSE).await;
        }
        (gets, patches)
    };
    let newcomers = async {
        let mut connects = Samples::default();
        while Instant::now() < end {
            connects.take(async { call(&target.connect().await?, Call::get("/version")).await }).await;
            tokio::time::sleep(BETWEEN_CONNECTS).await;
        }
        connects
    };
    let ((gets, patches), connects) = tokio::join!(requests, newcomers);
    let failures = gets.failures + patches.failures + connects.failures;
    let [gets, patches, connects] = [gets, patches, connects].map(|samples| Latencies::new(samples.taken));
    Ok(Seen { gets, patches, connects, failures })
}

async fn call(connection: &Connection, call: Call) -> anyhow::Result<()> {
    connection.count(call).await.map(drop)
}
