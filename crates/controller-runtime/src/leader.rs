//! One of several replicas works at a time: the one whose name is in a Lease, by the rules of client-go's leader
//! election.
//!
//! The expiry of a Lease is measured from the time it was last observed to change, never from its timestamps: clocks
//! differ. The holder measures from the time before it sent the renewal, so it stops first, and its [`Fence`] ends with that
//! time: a process that stood still longer than the Lease writes nothing when it continues.

use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, Fence};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio::time::error::Elapsed;
use tokio_util::sync::CancellationToken;
use world::World;

use crate::Failures;

/// The Lease, and the pauses of upstream's flags `--leader-elect-…`.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    pub namespace: String,
    pub name: String,
    /// The identity of this replica; unique among the replicas.
    pub identity: String,
    /// How long candidates wait before they take over a Lease that is not renewed.
    pub lease_duration: Duration,
    /// A leader that could not renew for this long has lost. Shorter than `lease_duration`.
    pub renew_deadline: Duration,
    /// Between tries.
    pub retry_period: Duration,
}

impl LeaderElection {
    /// With client-go's durations; the identity is the host's name and something random.
    pub fn new(namespace: &str, name: &str, world: &World) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: format!("{}_{}", host.trim(), world.uuid()),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.namespace.as_str(), self.name.as_str())
    }

    /// Waits for the Lease. `None` when stopped before.
    pub fn acquire<'a>(
        &'a self,
        client: &'a Client,
        world: &'a World,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<Leading>> {
        Box::pin(async move {
            let (mut seen, failures) = (Seen::default(), Failures::lasting(Duration::ZERO));
            let renewed = loop {
                let begun = Instant::now();
                match self.attempt(client, world, &mut seen).await {
                    // When the answer is late, another process may already hold the Lease.
                    Ok(true) if begun.elapsed() < self.deadline() => break begun,
                    Ok(_) => {}
                    Err(error) if failures.failed(&(), &error.cause()) => {
                        tracing::warn!(lease = %self.key(), err = %error, "Lease cannot be acquired; retrying");
                    }
                    Err(error) => tracing::debug!(lease = %self.key(), err = %error, "Lease cannot be acquired"),
                }
                // A tenth more or less, so that replicas do not retry simultaneously.
                let pause = self.retry_period.mul_f64(1.0 + 0.2 * world.random_fraction());
                stop.run_until_cancelled(tokio::time::sleep(pause)).await?;
            };
            tracing::info!(lease = %self.key(), identity = self.identity, "Became the leader");
            let (client, world, fence) = (client.clone(), world.clone(), Fence::until(renewed + self.deadline()));
            Some(Leading { election: self.clone(), client, world, seen, renewed, fence })
        })
    }

    /// Whether the Lease is ours now.
    async fn attempt(&self, client: &Client, world: &World, seen: &mut Seen) -> client::Result<bool> {
        let now = Instant::now();
        let current = client.get_opt(&leases(), &self.key()).await?;
        let Some(current) = current.and_then(|object: std::sync::Arc<Object>| object.to_value().ok()) else {
            return settled(client.create(&leases(), &self.taken(None, world)).await);
        };
        if !seen.may_take(&current, &self.identity, self.lease_duration, now) {
            return Ok(false);
        }
        settled(client.update(&leases(), &self.taken(Some(current), world)).await)
    }

    /// The duration in the Lease, which has whole seconds.
    fn seconds(&self) -> u64 {
        self.lease_duration.as_secs().max(1)
    }

    /// A leader that could not renew for this long has lost, in any case before other candidates see the Lease expire.
    fn deadline(&self) -> Duration {
        self.renew_deadline.min(Duration::from_secs(self.seconds()))
    }

    /// The Lease with our name in it, over `current`.
    fn taken(&self, current: Option<Value>, world: &World) -> Value {
        let now = micro_time(world);
        let mut lease = current.unwrap_or_else(|| {
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"namespace": self.namespace, "name": self.name}})
        });
        let mut spec = lease["spec"].take();
        if spec["holderIdentity"] != self.identity.as_str() {
            let before = spec["leaseTransitions"].as_i64();
            spec = json!({"acquireTime": now, "leaseTransitions": before.map_or(0, |count| count.saturating_add(1))});
        }
        spec["holderIdentity"] = json!(self.identity);
        spec["leaseDurationSeconds"] = json!(self.seconds());
        spec["renewTime"] = json!(now);
        lease["spec"] = spec;
        lease
    }
}

fn leases() -> ApiResource {
    ApiResource::namespaced("coordination.k8s.io", "v1", "Lease", "leases")
}

fn micro_time(world: &World) -> String {
    world.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// A conflict means that another candidate was faster; it is not a failure.
fn settled<T>(written: client::Result<T>) -> client::Result<bool> {
    match written {
        Ok(_) => Ok(true),
        Err(error) if error.is_conflict() || error.is_already_exists() => Ok(false),
        Err(error) => Err(error),
    }
}

const STOOD_STILL: &str = "this process stood still";

/// The last observed change of the Lease.
#[derive(Debug, Default)]
struct Seen(Option<(Value, Instant)>);

impl Seen {
    fn may_take(&mut self, current: &Value, identity: &str, lease_duration: Duration, now: Instant) -> bool {
        let spec = &current["spec"];
        let since = match &self.0 {
            Some((last, since)) if last == spec => *since,
            _ => now,
        };
        self.0 = Some((spec.clone(), since));
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        // The holder defines the duration of the Lease.
        let duration = spec["leaseDurationSeconds"].as_u64().map_or(lease_duration, Duration::from_secs);
        holder.is_empty() || holder == identity || now.duration_since(since) >= duration
    }
}

/// The Lease is ours as long as [`Leading::keep`] has not returned.
#[derive(Debug)]
pub struct Leading {
    election: LeaderElection,
    client: Client,
    world: World,
    seen: Seen,
    /// Before the last renewal was sent.
    renewed: Instant,
    fence: Fence,
}

impl Leading {
    /// Open until the Lease may be another process's; for the clients of everything that requires leadership.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Renews the Lease until `stop`, then releases it. True if it was stopped, false if the Lease was lost: then
    /// everything that requires leadership must stop at once.
    pub fn keep<'a>(mut self, stop: &'a CancellationToken) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let (failures, deadline) = (Failures::lasting(Duration::ZERO), self.election.deadline());
            let mut cause = STOOD_STILL.to_owned();
            let mut begun = self.renewed;
            loop {
                // From the start of the last attempt: one that was answered late is followed at once.
                let next = tokio::time::sleep_until(begun + self.election.retry_period);
                if stop.run_until_cancelled(next).await.is_none() {
                    self.fence.close();
                    self.release().await;
                    return true;
                }
                begun = Instant::now();
                let left = deadline.saturating_sub(self.renewed.elapsed());
                // After a pause of the process, another one may have the Lease: nothing is sent.
                if left.is_zero() {
                    return self.lost(&cause);
                }
                let attempt = self.election.attempt(&self.client, &self.world, &mut self.seen);
                let attempt = tokio::time::timeout(left, attempt).await;
                cause = Self::cause(&attempt, left);
                match attempt {
                    Ok(Ok(true)) => {
                        self.renewed = begun;
                        self.fence.extend(begun + deadline);
                        if let Some(lasted) = failures.succeeded(&()) {
                            let lease = self.election.key();
                            tracing::info!(%lease, duration = ?lasted, "Lease is renewed again");
                        }
                    }
                    // A conflict may be due to a changed label; another holder is detected at the next retry.
                    Ok(Ok(false)) => {}
                    Ok(Err(error)) if failures.failed(&(), &error.cause()) => {
                        tracing::warn!(lease = %self.election.key(), ?deadline, err = %error, "Lease cannot be renewed; retrying");
                    }
                    Ok(Err(error)) => {
                        tracing::debug!(lease = %self.election.key(), err = %error, "Lease cannot be renewed");
                    }
                    Err(_) => {}
                }
                if self.renewed.elapsed() >= deadline {
                    return self.lost(&cause);
                }
            }
        })
    }

    /// Why the Lease is not renewed, or will not be after a renewal.
    fn cause(attempt: &Result<client::Result<bool>, Elapsed>, left: Duration) -> String {
        match attempt {
            Ok(Ok(true)) => STOOD_STILL.to_owned(),
            Ok(Ok(false)) => "another process has the Lease, or changes it".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the renewal was not answered within {left:?}"),
        }
    }

    fn lost(&self, cause: &str) -> bool {
        self.fence.close();
        tracing::error!(lease = %self.election.key(), err = cause, "Lost the lease; another replica may lead now");
        false
    }

    /// Releases the Lease, so that the next holder need not wait for its expiry. Best effort within a time limit.
    async fn release(&self) {
        let freed = async {
            let current = self.client.get_opt(&leases(), &self.election.key()).await.ok()??;
            let mut lease = current.to_value().ok()?;
            if lease["spec"]["holderIdentity"] != self.election.identity.as_str() {
                return None;
            }
            lease["spec"]["holderIdentity"] = json!("");
            lease["spec"]["leaseDurationSeconds"] = json!(1);
            lease["spec"]["renewTime"] = json!(micro_time(&self.world));
            self.client.update(&leases(), &lease).await.ok()
        };
        let _ = tokio::time::timeout(self.election.renew_deadline, freed).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lost_lease_has_a_cause() {
        let left = Duration::from_secs(8);
        let late = tokio::time::timeout(left, std::future::pending()).await;
        let refused = Err(client::Error::Config("the server's certificate is of another authority".to_owned()));
        for (attempt, expected) in [
            (late, "the renewal was not answered within 8s"),
            (Ok(refused), "the server's certificate is of another authority"),
            (Ok(Ok(false)), "another process has the Lease, or changes it"),
            (Ok(Ok(true)), "this process stood still"),
        ] {
            assert_eq!(Leading::cause(&attempt, left), expected);
        }
    }
}
